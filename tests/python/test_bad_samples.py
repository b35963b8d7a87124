"""rota.torch.DataLoader passes over bad samples: masked, in step, and listed."""

import logging

import pytest

torch = pytest.importorskip("torch")

import rota
import rota.torch
from torch_jobs import Job


class Some:
    """Of which every tenth is bad, every 25th in another way."""

    def __init__(self, samples=100, bad=lambda i: i % 10 == 3):
        self.samples, self.bad = samples, bad

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        if self.bad(i):
            raise rota.BadSample(f"no picture in {int(i)}")
        if i % 25 == 7:
            raise KeyError(int(i))
        return float(i)


class ManyAtOnce(Some):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


BAD = sorted({*range(3, 100, 10), *range(7, 100, 25)})


def skipping(dataset, batch=8, workers=0, **options):
    sampler = rota.ElasticBatchSampler(dataset, batch, **{"world": (0, 1)} | options)
    return rota.torch.DataLoader(dataset, sampler, num_workers=workers, on_bad_sample="skip", bad_errors=[KeyError])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dataset", [Some(), ManyAtOnce(), rota.torch.seeded(Some())])
def test_bad_samples_are_masked_and_listed_behind_the_epoch(dataset, workers, caplog):
    loader = skipping(dataset, workers=workers)
    for epoch in range(2):
        seen = []
        for step, x in enumerate(loader):
            info = loader.info
            assert len(x) == len(info.mask) == 8 and info.real == info.global_real == int(info.mask.sum())
            assert x[info.mask].tolist() == info.ids[info.mask].tolist()
            assert set(info.ids[info.kinds == 2].tolist()) <= set(BAD) and info.kinds[info.mask].sum() == 0
            seen += info.ids[info.mask].tolist()
            assert len(loader.skipped) == len(BAD) * (epoch + (step == 12))
        assert sorted(seen + BAD) == list(range(100))
        assert [(one.epoch, one.id) for one in loader.skipped[-len(BAD) :]] == [(epoch, id) for id in BAD]
    assert {"no picture in 3", "KeyError: 7"} <= {one.error for one in loader.skipped}
    assert "14 bad samples were skipped, such as 3: no picture in 3" in caplog.text and caplog.records[0].levelno == logging.WARNING


def test_a_batch_without_a_good_sample_has_one_of_another():
    loader = skipping(Some(20, lambda i: i >= 8), 4, shuffle="none", shards=1)
    batches = [(x.tolist(), loader.info.real) for x in loader]
    assert [real for _, real in batches] == [4, 3, 0, 0, 0] and batches[3][0] == [6.0] * 4
    with pytest.raises(rota.CorruptError, match="none of its 4 samples can be read, nor was any before: no picture in 0"):
        next(iter(skipping(Some(20, lambda i: i < 8), 4, shuffle="none", shards=1)))


def test_what_is_not_listed_fails_and_so_do_too_many():
    with pytest.raises(ZeroDivisionError):
        list(skipping(Some(20, lambda i: 1 / 0)))
    with pytest.raises(rota.BadSample):
        list(rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 8, world=(0, 1))))
    few = rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 8, world=(0, 1)), on_bad_sample="skip", max_skipped=1, bad_errors=[KeyError])
    with pytest.raises(rota.CorruptError, match="more than max_skipped=1 samples are bad"):
        list(few)
    for options in {"on_bad_sample": "pass"}, {"bad_errors": [KeyError]}:
        with pytest.raises(rota.InvalidArgumentError, match='must be "fail", or "skip"'):
            rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 8, world=(0, 1)), **options)


def test_a_mixtures_are_listed_at_its_end():
    sampler = rota.ElasticBatchSampler([50, 50], 4, weights=[1, 1], steps=5, end="steps", world=(0, 1))
    loader = rota.torch.DataLoader(Some(100, lambda i: True if i % 2 else False), sampler, on_bad_sample="skip", bad_errors=[KeyError])
    masked = sum(4 - loader.info.real for _ in loader)
    assert masked == len(loader.skipped) > 0


RANKS = """
class Some(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i):
        if i % 10 == 3: raise rota.BadSample("bad")
        return float(i)
loader = rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 9), on_bad_sample="skip", num_workers=rank)
steps, good = 0, []
for x in loader:
    steps += 1
    good += x[loader.info.mask].tolist()
try: loader.info.global_real
except rota.Error as error: assert "sum real over ranks" in str(error)
real = torch.tensor(len(good))
dist.all_reduce(real)
print(steps, int(real), [one.id for one in loader.skipped])
"""


def test_ranks_take_the_same_steps_and_list_those_of_all(tmp_path):
    with Job(tmp_path, RANKS, 3) as job:
        assert job.codes() == [0] * 3, job.texts()
        assert [job.said(rank) for rank in range(3)] == [f"12 90 {[*range(3, 100, 10)]}\n"] * 3
