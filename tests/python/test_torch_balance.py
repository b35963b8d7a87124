"""Balance with PyTorch: parts of batches, attention of several lengths, and the losses of a run without."""

import io
import random
import re

import numpy as np
import pytest
import rota

torch = pytest.importorskip("torch")
import rota.torch  # noqa: E402
from runs import refused  # noqa: E402

SAMPLES, BATCH = 66, 24
DRAW = random.Random(3)
LENGTHS = [min(int(DRAW.lognormvariate(2, 1)) + 2, 60) for _ in range(SAMPLES)]


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return (torch.arange(LENGTHS[i]) * (i + 1)) % 17


def together(texts, indices):
    return {"ids": torch.tensor([int(i) for i in indices]), "texts": texts}


def loader(rank=0, size=1, workers=0, options=None, **sampler):
    made = rota.ElasticBatchSampler(SAMPLES, BATCH, world=(rank, size), seed=7, **sampler)
    return rota.torch.DataLoader(Texts(), made, num_workers=workers, collate_fn=together, **(options or {}))


def balanced(**options):
    return dict(rank_split="balanced", balance=rota.Balance(LENGTHS, linear=16, quadratic=1, **options))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [dict(micro_batches=3), dict(micro_cost=1500)])
def test_the_place_moves_with_the_last_part_and_a_new_for_begins_the_batch_anew(workers, options):
    run, seen, steps = loader(1, 2, workers, tail="partial", epochs=2, **balanced(**options)), [], []
    stops = iter([1, 2, 5, 9])
    while run.position.epoch < 2:
        kept, stop = [], next(stops, 10**6)
        for drawn, batch in enumerate(run, 1):
            info = run.info
            assert run.info_of(batch) is info and (batch["ids"].tolist() if batch else []) == info.ids.tolist()
            assert run.position.step == info.step + (info.part == info.parts - 1)
            kept.append(info)
            if drawn == stop:
                break
        whole = [info for info in kept if info.step < run.position.step]
        assert [info.part for info in kept] == [info.part for info in sorted(kept, key=lambda info: (info.step, info.part))]
        seen += [sample for info in whole for sample in zip(info.epochs.tolist(), info.slots.tolist(), info.ids.tolist())]
        steps += sorted({info.step for info in whole})
    expected = []
    of = loader(1, 2, tail="partial", epochs=2, **balanced(**options)).batch_sampler
    for step in range(run.position.step):
        info = of.batch(step)
        expected += zip(info.epochs.tolist(), info.slots.tolist(), info.ids.tolist())
    assert steps == [*range(6)] and seen == expected


def test_a_state_behind_a_part_is_that_before_its_batch_and_with_the_last_one_behind():
    run = loader(**balanced(micro_batches=2))
    assert len(run) == 6
    for batch in run:
        info = run.info_of(batch)
        again = loader(**balanced(micro_batches=2))
        again.load_state_dict(run.state_dict(batch))
        assert again.position == (info.end if info.part == 1 else info.start) == run.position
    refused(lambda: len(loader(**balanced(micro_cost=500))), TypeError, "micro_cost")
    shown = io.StringIO()
    assert len([*rota.progress(loader(tail="drop", **balanced(micro_batches=2)), every=0, file=shown)]) == 4
    assert [*map(int, re.findall(r"step (\d)", shown.getvalue()))][-2:] == [2, 2] and "0 left" not in shown.getvalue().splitlines()[-1]


def test_an_empty_part_is_none_and_counts():
    run = loader(0, 8, tail="partial", **balanced(micro_batches=4))
    batches = [(batch, run.info) for batch in run]
    assert len(batches) == 12 and run.position.epoch == 1
    assert all((batch is None) == (info.size == 0) for batch, info in batches) and any(batch is None for batch, _ in batches)


class Skipped(Texts):
    def __getitem__(self, i):
        if i % 5 == 0:
            raise rota.BadSample(f"text {i}")
        return super().__getitem__(i)


def test_parts_mask_what_is_bad():
    sampler = rota.ElasticBatchSampler(SAMPLES, BATCH, world=(0, 1), tail="partial", **balanced(micro_batches=3))
    run = rota.torch.DataLoader(Skipped(), sampler, collate_fn=together, on_bad_sample="skip")
    good = [id for batch in run for id, counts in zip(run.info.ids.tolist(), run.info.mask.tolist()) if counts]
    assert sorted(good) == [i for i in range(SAMPLES) if i % 5] and len(run.skipped) == 14


# ---- losses ----


class Toy(torch.nn.Module):
    """A transformer of one layer, over one text at a time."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = torch.nn.Embedding(17, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(8, 17)

    def forward(self, text):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(len(text) - 1)
        made = self.head(self.layer(self.tokens(text[:-1])[None], src_mask=mask)[0])
        return torch.nn.functional.cross_entropy(made, text[1:], reduction="sum")


def losses(divide, **options):
    """Of a run of four ranks, which sum their gradients."""
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    told, ranks = {}, [loader(rank, 4, tail="partial", **options) for rank in range(4)]
    for batches in zip(*ranks):
        for run, batch in zip(ranks, batches):
            for text in batch["texts"] if batch else ():
                loss = model(text) / divide(run.info)
                loss.backward()
                told[run.info.step] = told.get(run.info.step, 0) + loss.item()
        if ranks[0].info.part == ranks[0].info.parts - 1:
            optimizer.step()
            optimizer.zero_grad()
    return [told[step] for step in range(3)]


def test_losses_are_those_of_a_run_without_a_balance():
    run = loader()
    counts = [sum(LENGTHS[id] - 1 for id in run.batch_sampler.batch(step).ids[run.batch_sampler.batch(step).mask]) for step in range(3)]
    plain = losses(lambda info: counts[info.step])
    predicted = rota.LengthColumn(np.array(LENGTHS) - 1, 0)  # tokens that a loss is of
    for options in dict(), dict(micro_batches=3), dict(micro_cost=1500):
        balance = rota.Balance([rota.LengthColumn(LENGTHS, 16, 1), predicted], **options)
        dealt = losses(lambda info: info.global_sums[1], rank_split="balanced", balance=balance)
        assert dealt == pytest.approx(plain, rel=1e-5)


# ---- flat batches ----

PACKED = {
    "tokens": np.array([[5, 6, 7, 0], [8, 9, 8, 9], [1, 0, 0, 0]]),
    "segment_ids": np.array([[1, 1, 2, 0], [1, 1, 1, 1], [1, 0, 0, 0]], dtype=np.int32),
    "position_ids": np.array([[0, 1, 0, 0], [0, 1, 2, 3], [0, 0, 1, 2]], dtype=np.int32),
    "weights": np.array([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("as_given", [dict, lambda packed: {name: torch.from_numpy(array) for name, array in packed.items()}])
def test_packed_sequences_become_one_flat_batch(as_given):
    flat = rota.torch.varlen(as_given(PACKED))
    assert flat["tokens"].tolist() == [5, 6, 7, 8, 9, 8, 9, 1] and flat["position_ids"].tolist() == [0, 1, 0, 0, 1, 2, 3, 0]
    assert flat["cu_seqlens"].tolist() == [0, 2, 3, 7, 8] and flat["cu_seqlens"].dtype == torch.int32
    assert flat["max_seqlen"] == 4 and flat["weights"].tolist() == [1, 2, 3] and "segment_ids" not in flat
    whole = rota.torch.varlen(as_given(PACKED), padding="segment")
    assert whole["tokens"].tolist() == PACKED["tokens"].ravel().tolist() and whole["cu_seqlens"].tolist() == [0, 2, 3, 4, 8, 9, 12]
    some = rota.torch.varlen(as_given(PACKED), mask=np.array([True, False, True]))
    assert some["tokens"].tolist() == [5, 6, 7, 1] and some["weights"].tolist() == [1, 3] and some["cu_seqlens"].tolist() == [0, 2, 3, 4]
    nothing = rota.torch.varlen(as_given({name: array[:0] for name, array in PACKED.items()}))
    assert nothing["cu_seqlens"].tolist() == [0] and nothing["max_seqlen"] == 0


def test_batches_of_a_loader_become_flat_by_part():
    documents = rota.PythonSource([{"tokens": np.arange(n, dtype=np.uint16)} for n in LENGTHS], {"tokens": ("uint16", (), True)})
    cast = {"tokens": "int64"}
    batch = rota.Loader(rota.pack(documents, 32), 8, cast=cast, world=(0, 1)).next()
    flat = rota.torch.varlen(batch)
    ends = flat["cu_seqlens"].tolist()
    for begin, end in zip(ends, ends[1:]):
        assert flat["position_ids"][begin:end].tolist() == [*range(end - begin)]
    assert flat["tokens"].tolist() == batch["tokens"][batch["segment_ids"] != 0].tolist()
    batch = rota.Loader(documents, 16, cast=cast, world=(0, 1), **balanced(micro_batches=3)).next()
    for given in batch, rota.torch.tensors(batch):
        parts = [rota.torch.varlen(given, part) for part in range(3)]
        assert torch.cat([part["tokens"] for part in parts]).tolist() == batch["tokens"].values.tolist()
        of_each = [n for part in parts for n in part["cu_seqlens"].diff().tolist()]
        assert of_each == [LENGTHS[id] for id in batch.ids] and max(part["max_seqlen"] for part in parts) == max(of_each)
        assert all(torch.equal(part["tokens"], part["position_ids"]) for part in parts)  # which these count
    few = rota.Loader(documents, 2, cast=cast, world=(0, 1), **balanced(micro_batches=3)).next()
    empty = rota.torch.varlen(few, int(np.diff(few.micro_ends, prepend=0).argmin()))
    assert (empty["cu_seqlens"].tolist(), empty["max_seqlen"], len(empty["tokens"])) == ([0], 0, 0)
    *_, last = rota.Loader(documents, 16, cast=cast, world=(0, 1), tail="pad", shuffle="none", shards=1)
    real = LENGTHS[-last.real :]
    assert last.real < 16 and rota.torch.varlen(last)["cu_seqlens"].diff().tolist() == real
    refused(lambda: rota.torch.varlen({"x": np.ones(3)}), ValueError, "segment_ids")
    refused(lambda: rota.torch.varlen(few, 99), ValueError, "no part 99")
    refused(lambda: rota.torch.varlen(PACKED, padding="keep"), ValueError, "'keep'")
