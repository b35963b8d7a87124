"""rota.torch.DataLoader passes over bad samples: masked, in step, and listed."""

import copy
import logging

import pytest

torch = pytest.importorskip("torch")

import rota
import rota.torch
from runs import refused
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


@pytest.mark.parametrize("make", [lambda some: some, rota.torch.seeded])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_without_a_good_sample_has_the_next_good_one(make, workers):
    loader = skipping(make(Some(20, lambda i: i >= 8 or i < 2)), 1, workers, shuffle="none", shards=1)
    batches = [(x.tolist(), loader.info.real) for x in loader]
    assert batches == [([2.0], 0)] * 2 + [([float(i)], 1) for i in range(2, 7)] + [([2.0], 0)] * 13
    with pytest.raises(rota.CorruptError, match="no sample can be read of 20, from sample 0 on: no picture in 0"):
        next(iter(skipping(Some(20, lambda i: True), 4, shuffle="none", shards=1)))


def test_what_is_not_listed_fails():
    refused(lambda: list(skipping(Some(20, lambda i: 1 / 0))), ZeroDivisionError)
    refused(lambda: list(rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 8, world=(0, 1)))), rota.BadSample)
    for options in {"on_bad_sample": "pass"}, {"bad_errors": [KeyError]}:
        with pytest.raises(rota.InvalidArgumentError, match='must be "fail", or "skip"'):
            rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 8, world=(0, 1)), **options)


def test_more_than_max_skipped_different_ones_fail_before_their_batch_counts():
    dataset = Some(8, lambda i: i in (1, 6))
    for most in 3, 2:
        sampler = rota.ElasticBatchSampler(dataset, 2, evaluation=True, shuffle="none", shards=1, world=(0, 1))
        loader = rota.torch.DataLoader(dataset, sampler, on_bad_sample="skip", max_skipped=most, bad_errors=[KeyError])
        if most == 3:
            assert [len([*loader]) for _ in range(9)] == [4] * 9
            assert [one.id for one in loader.skipped] == [1, 6, 7]
        else:
            refused(lambda: list(loader), rota.CorruptError, "read sample 7: KeyError: 7; more than max_skipped=2 samples are bad")
            assert loader.position == (0, 6, 3)


def test_a_dataset_in_a_loader_that_skips_is_still_itself():
    dataset = Some()
    loader = skipping(dataset)
    loader.dataset.classes = ["cat"]
    assert loader.dataset.classes == dataset.classes == ["cat"] and len(loader.dataset) == 100


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
if rank == 0:  # alone
    list(rota.torch.DataLoader(Some(), rota.ElasticBatchSampler(100, 9, world=(0, 1)), on_bad_sample="skip"))
class Last(Some):
    def __getitem__(self, i): return super().__getitem__(3 if i == 11 else 1)
in_order = rota.ElasticBatchSampler(12, 3, shuffle="none", shards=1)  # sample 11 is in the last batch of rank 2
data = torch.utils.data.Subset(Last(), range(12))
try: list(rota.torch.DataLoader(data, in_order, on_bad_sample="skip", max_skipped=0))
except rota.CorruptError as error: print("sample 11: bad; more than max_skipped=0" in str(error), in_order.position.step)
"""


def test_ranks_take_the_same_steps_and_list_those_of_all(tmp_path):
    with Job(tmp_path, RANKS, 3) as job:
        assert job.codes() == [0] * 3, job.texts()
        assert [job.said(rank) for rank in range(3)] == [f"12 90 {[*range(3, 100, 10)]}\nTrue 3\n"] * 3


class Pictures(Some):
    dataset = "of pictures"

    def __init__(self):
        super().__init__()
        self.errors = ["none"]


def rename(_):
    torch.utils.data.get_worker_info().dataset.dataset = "of a worker"


def test_a_dataset_keeps_all_that_it_has():
    dataset = Pictures()
    sampler = rota.ElasticBatchSampler(100, 8, world=(0, 1))
    loader = rota.torch.DataLoader(dataset, sampler, on_bad_sample="skip", bad_errors=[KeyError], num_workers=1, worker_init_fn=rename)
    assert (loader.dataset.samples, loader.dataset.dataset, loader.dataset.errors, loader.dataset[0]) == (100, "of pictures", ["none"], 0.0)
    assert len([*loader]) == 13
    assert not hasattr(loader.dataset, "__deepcopy__") and copy.deepcopy(loader.dataset)[1] == 1.0


def test_an_evaluation_lists_a_bad_sample_once():
    loader = skipping(Some(), evaluation=True)
    for _ in range(3):
        assert len([*loader]) == 13
    assert [one.id for one in loader.skipped] == BAD
