"""Balance: the same batches, dealt so that ranks have as much to do."""

import pickle
import random
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import rota
from runs import batches_of, refused, settings

COST = dict(linear=8, quadratic=1)


def lengths(samples, seed=1):
    """Of texts: most are short."""
    draw = random.Random(seed)
    return [min(int(draw.lognormvariate(3, 1)), 400) for _ in range(samples)]


def texts(samples):
    rows = [{"tokens": np.full(length, i, dtype=np.uint16)} for i, length in enumerate(lengths(samples))]
    return rota.PythonSource(rows, {"tokens": ("uint16", (), True)})


def cost(info):
    return sum(8 * n + n * n for n in (lengths(int(info.ids.max()) + 1)[id] for id in info.ids))


# ---- lengths ----


def test_packed_sequences_cost_the_squares_of_their_documents():
    documents = texts(50)
    packed = rota.pack(documents, 256, fit="best", seed=1)
    segments = [packed[i]["segment_ids"] for i in range(len(packed))]
    assert list(np.asarray(rota.squares_of(packed))) == [(np.bincount(row)[1:] ** 2).sum() for row in segments]
    assert list(np.asarray(rota.tokens_of(packed))) == [(row > 0).sum() for row in segments]
    refused(lambda: rota.squares_of(documents), ValueError, "none of pack")


def test_lengths_are_the_same_wherever_they_come_from(tmp_path):
    given = lengths(50)
    np.save(tmp_path / "lengths.npy", np.array(given, dtype=np.int32))
    np.save(tmp_path / "wide.npy", given)
    made = [
        *(rota.Lengths(np.array(given, dtype=dtype)) for dtype in ("int16", "uint32", "int32", ">i4", "int64")),
        rota.Lengths(given), rota.Lengths(np.repeat(given, 2)[::2]), rota.read_lengths(tmp_path / "lengths.npy"),
        rota.read_lengths(tmp_path / "wide.npy"),
        rota.lengths_of(texts(50), "tokens"), pickle.loads(pickle.dumps(rota.Lengths(given))),
        rota.Balance(tmp_path / "lengths.npy").lengths, rota.Balance(str(tmp_path / "lengths.npy")).lengths,
    ]  # fmt: skip
    assert all(one == made[0] and one.digest == made[0].digest and hash(one) == hash(made[0]) for one in made)
    assert all(np.asarray(one).tolist() == given for one in made)
    assert (len(made[0]), made[0][3], made[0][-1], made[0].most) == (50, given[3], given[-1], max(given))
    assert made[0] != rota.Lengths(given[::-1]) and made[0] != given and "50 samples" in repr(made[0])
    assert rota.Lengths([2**40])[0] == rota.Lengths([2**40]).most == 2**40 and len(rota.Lengths([])) == 0
    refused(lambda: made[0][50], IndexError)


@pytest.mark.parametrize("given, error, words", [
    ([1.5], TypeError, "whole numbers"),
    ([float("nan")], TypeError, "whole numbers"),
    ([True, False], TypeError, "whole numbers"),
    ([[1, 2]], TypeError, r"and not int64 of shape \(1, 2\)"),
    ([3, -1], ValueError, "that of sample 1 is -1"),
    (np.array([2**64 - 1], dtype=np.uint64), ValueError, "sample 0"),
    (["a"], TypeError, "whole numbers"),
    (7, TypeError, r"of shape \(\)"),
])  # fmt: skip
def test_what_are_no_lengths_is_refused(given, error, words):
    for make in rota.Lengths, rota.Balance, rota.LengthColumn:
        refused(lambda: make(given), error, words)


def test_lengths_that_are_not_there_are_refused(tmp_path):
    np.save(tmp_path / "floats.npy", np.ones(3))
    refused(lambda: rota.read_lengths(tmp_path / "none.npy"), FileNotFoundError, "none.npy")
    refused(lambda: rota.Balance(tmp_path / "floats.npy"), rota.UnsupportedError, "int32 or int64")
    refused(lambda: rota.lengths_of(texts(5), "ids"), rota.NotFoundError, "ids")
    refused(lambda: rota.lengths_of(texts(5), 5), TypeError, "must be a name")
    refused(lambda: rota.read_lengths(f"{tmp_path}/lengths.npy\0"), ValueError, "zero byte")
    fixed = rota.PythonSource([{"x": 1}])
    refused(lambda: rota.lengths_of(fixed, "x"), ValueError, "not ragged")
    refused(lambda: rota.Loader(texts(5), 2, rank_split="balanced", balance=rota.Balance("ids")), rota.NotFoundError)
    refused(lambda: rota.ElasticBatchSampler(5, 2, rank_split="balanced", balance=rota.Balance("tokens")), TypeError, "'tokens': a int is no")


# ---- a balance ----


def test_a_balance_is_a_value():
    made = rota.Balance(lengths(9), linear=2, micro_batches=3)
    assert pickle.loads(pickle.dumps(made)) == made == rota.Balance(np.array(lengths(9)), 2, micro_batches=3)
    assert made != rota.Balance(lengths(9), linear=3, micro_batches=3) and len({made, made}) == 1
    assert "linear=2" in repr(made) and made.columns == (rota.LengthColumn(lengths(9), 2),)
    with pytest.raises(FrozenInstanceError):
        made.linear = 4
    several = rota.Balance([made.columns[0], rota.LengthColumn("images", 5)], padded=False)
    assert [one.linear for one in several.columns] == [2, 5] and pickle.loads(pickle.dumps(several)) == several


@pytest.mark.parametrize("options, error, words", [
    (dict(linear=-1), ValueError, "linear is -1"),
    (dict(quadratic=float("nan")), ValueError, "quadratic is nan"),
    (dict(linear=0), ValueError, "above 0"),
    (dict(micro_batches=0), ValueError, "micro_batches is 0"),
    (dict(micro_batches=2, micro_cost=5), ValueError, "micro_batches is 2"),
    (dict(micro_batches=1.5), TypeError, "micro_batches"),
    (dict(padded="yes"), TypeError, "padded"),
    (dict(linear="1"), TypeError, "linear"),
])  # fmt: skip
def test_options_that_cannot_work_are_refused_by_name(options, error, words):
    refused(lambda: rota.Balance(lengths(9), **options), error, words)


def test_what_does_not_fit_is_refused():
    made, columns = rota.Balance(lengths(9)), [rota.LengthColumn(lengths(9))]
    refused(lambda: rota.Balance(columns, linear=2), ValueError, "LengthColumn")
    for make in rota.Loader, rota.ElasticBatchSampler:
        data = texts(9)
        refused(lambda: make(data, 4, balance=made), ValueError, "rank_split")
        refused(lambda: make(data, 4, rank_split="balanced"), ValueError, "balance")
        refused(lambda: make(data, 4, rank_split="balanced", balance=lengths(9)), TypeError, "a rota.Balance")
    other = rota.Balance(lengths(8))
    for take in (
        lambda: rota.ElasticBatchSampler(9, 4, rank_split="balanced", balance=other).advance(),
        lambda: rota.Loader(texts(9), 4, rank_split="balanced", balance=other).next(),
        lambda: rota.Run(9, 4).slice(balance=other),
    ):
        refused(take, ValueError, "lengths of 8 samples, and 9 samples")
    refused(lambda: rota.Run(9, 4).slice(split="balanced"), ValueError, "balance")
    refused(lambda: rota.Run(9, 4).slice(split="by_shard", balance=made), ValueError, "by_shard.*balanced")


# ---- the same batches ----


def maker(samples, options, **balance):
    return lambda rank, size: rota.ElasticBatchSampler(
        samples, world=(rank, size), **options, **({"balance": rota.Balance(lengths(samples), **COST, **balance)} if balance else {})
    )


def loader_maker(samples, options, **balance):
    given = {"balance": rota.Balance("tokens", **COST, **balance)} if balance else {}
    return lambda rank, size: rota.Loader(texts(samples), world=(rank, size), workers=size % 3, **options, **given)


@pytest.mark.parametrize("kind", [maker, loader_maker])
@pytest.mark.parametrize("seed", range(2))
def test_global_batches_are_those_without_a_balance_in_any_chain_of_worlds(kind, seed):
    draw = random.Random(seed)
    for samples, options in settings(600 + seed, 10):
        options.pop("rank_split")
        whole, end = batches_of(kind(samples, options), [1], [1000])
        make = kind(samples, {**options, "rank_split": "balanced"}, equal_counts=draw.random() < 0.5)
        worlds = [draw.randint(1, 5) for _ in range(1000)]
        moved, moved_end = batches_of(make, worlds, [draw.randint(1, 4) for _ in worlds])
        assert moved == whole, options
        assert rota.Run.from_state(moved_end) == rota.Run.from_state(end)


def test_ranks_have_as_much_to_do_and_know_what_the_others_have():
    samples, ranks = 256, 4
    balance = rota.Balance([rota.LengthColumn(lengths(samples), 8, 1), rota.LengthColumn(np.arange(samples), 0)])
    loaders = [
        rota.Loader(texts(samples), 64, world=(rank, ranks), rank_split="balanced", balance=balance, seed=2) for rank in range(ranks)
    ]
    for batches in zip(*loaders):
        costs = batches[0].costs
        assert isinstance(costs, rota.BatchCosts) and costs.most <= costs.most_by_sample and costs.global_ / ranks <= costs.most
        assert costs.most < 1.1 * max(costs.global_ / ranks, costs.largest)
        own = [sum(8 * len(text) + len(text) ** 2 for text in batch["tokens"]) for batch in batches]
        assert [batch.costs.rank for batch in batches] == own and max(own) == costs.most
        sums = [sum(batch["tokens"].values.size for batch in batches), sum(int(batch.ids.sum()) for batch in batches)]
        assert all(batch.global_sums.tolist() == sums for batch in batches)
        assert all(batch.micro_ends.tolist() == [16] and batch.size == 16 for batch in batches)
    plain = rota.Loader(texts(4), 2, world=(0, 1)).next()
    assert plain.micro_ends.size == plain.global_sums.size == 0 and plain.costs == rota.BatchCosts()


def test_a_run_a_sampler_and_a_loader_deal_alike_and_when_finds_each_sample():
    balance, world = rota.Balance(lengths(70), **COST, micro_batches=3), (1, 3)
    options = dict(seed=5, tail="pad", world=world, rank_split="balanced")
    run = rota.Run(70, 16, seed=5, tail="pad")
    sampler = rota.ElasticBatchSampler(70, 16, balance=balance, epochs=1, **options)
    over_source = rota.ElasticBatchSampler(texts(70), 16, balance=rota.Balance("tokens", **COST, micro_batches=3), epochs=1, **options)
    loader = rota.Loader(texts(70), 16, balance=balance, **options)
    for step, batch in enumerate(loader):
        slices = [run.slice(world, balance=balance), run.slice(world, "balanced", balance), sampler.batch(step), over_source.batch(step)]
        for other in slices:
            assert [getattr(other, name).tolist() for name in ("ids", "slots", "micro_ends", "global_sums")] == [
                getattr(batch, name).tolist() for name in ("ids", "slots", "micro_ends", "global_sums")
            ]
            assert other.costs == batch.costs and len(other.micro_ends) == 3
        for slot, id, counts in zip(batch.slots.tolist(), batch.ids.tolist(), batch.mask):
            if counts:
                found = rota.BatchSlot(step, 1, slot)
                assert run.when(id, 0, 3, balance=balance) == sampler.when(id, 0) == loader.when(id, 0) == found
        run.advance(slices[0])
    assert loader.position.epoch == 1 and run.is_over


# ---- parts ----


@pytest.mark.parametrize("options", [dict(micro_batches=4), dict(micro_batches=3, equal_counts=False), dict(micro_cost=3000)])
def test_a_sampler_hands_out_parts_as_many_on_all_ranks(options):
    samples, ranks = 90, 3
    make = maker(samples, dict(global_batch_size=32, seed=4, rank_split="balanced", tail="partial"), **options)
    samplers = [make(rank, ranks) for rank in range(ranks)]
    steps = [samplers[0].batch(step) for step in range(3)]
    seen = {0: [], 1: [], 2: []}
    for lists in zip(*samplers):
        infos = [sampler.advance() for sampler in samplers]
        assert len({(info.step, info.part, info.parts) for info in infos}) == 1
        assert [info.ids.tolist() for info in infos] == [*lists] and [info.size for info in infos] == [*map(len, lists)]
        first = infos[0]
        assert first.parts == len(steps[first.step].micro_ends) and first.global_sums.tolist() == steps[first.step].global_sums.tolist()
        is_last = first.part == first.parts - 1
        assert {sampler.position.step for sampler in samplers} == {first.step + is_last}
        for info in infos:
            assert "micro_cost" not in options or info.size < 2 or cost(info) <= 3000
            seen[info.step] += info.slots.tolist()
    assert [sorted(slots) for slots in seen.values()] == [[*range(32)], [*range(32)], [*range(26)]]
    if "micro_batches" in options:
        assert len(samplers[0]) == 3 * options["micro_batches"] == len(list(make(0, ranks)))
    else:
        refused(lambda: len(samplers[0]), TypeError, "micro_cost")
        assert len(list(make(0, ranks))) == sum(len(step.micro_ends) for step in steps)


def test_a_state_between_parts_begins_the_batch_anew():
    make = maker(60, dict(global_batch_size=20, seed=4, rank_split="balanced", epochs=2), micro_batches=3)
    sampler, whole = make(0, 2), list(make(0, 2))
    iterator = iter(sampler)
    for drawn in range(1, len(whole)):
        assert next(iterator) == whole[drawn - 1]
        info = sampler.advance()
        assert (info.step, info.part) == divmod(drawn - 1, 3)
        behind = drawn // 3
        for state in sampler.state_dict(), sampler.state_dict(info), iterator.state_dict():
            again = make(0, 2)
            again.load_state_dict(state)
            assert again.position.step == behind and again.advance().part == 0
            other = iter(make(0, 2))
            other.load_state_dict(state)
            assert list(other) == whole[behind * 3 :]
    sampler = make(0, 2)
    first = sampler.advance()
    assert pickle.loads(pickle.dumps(sampler)).advance().ids.tolist() == first.ids.tolist()
    sampler.rescale((0, 1))
    assert (sampler.advance().part, sampler.position.step) == (0, 0)


def test_parts_are_settled_by_hand_one_by_one():
    sampler = maker(20, dict(global_batch_size=10, rank_split="balanced", tail="partial", settle="by_hand"), micro_batches=2)(0, 1)
    infos = [sampler.advance() for _ in range(2)]
    assert [info.size for info in infos] == [5, 5] and sampler.open.out == 10
    sampler.settle(infos[0])
    assert sampler.open.out == 5
    state = sampler.state_dict()
    again = maker(20, dict(global_batch_size=10, rank_split="balanced", tail="partial", settle="by_hand"), micro_batches=2)(0, 1)
    again.load_state_dict(state)
    left = sorted(index for part in again for index in part)
    assert left == sorted({*range(20)} - {*infos[0].ids.tolist()})
