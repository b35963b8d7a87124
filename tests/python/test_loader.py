"""rota.Loader from Python: batches, arrays, functions of the user, errors."""

import gc
import pickle
import random
import re
import threading
import weakref

import numpy as np
import pytest
import rota
from runs import Dataset, loader, refused, rows, samples_of, source


def test_a_batch_is_a_mapping_of_arrays_over_its_own_memory():
    batch = loader(shuffle="none", shards=1).next()
    assert list(batch) == list(batch.keys()) == ["x", "n"] and len(batch) == 2 and "x" in batch
    assert batch["n"].tolist() == batch.ids.tolist() == list(range(8))
    assert batch["x"].dtype == np.float32 and batch["x"].shape == (8, 3)
    batch["x"][0] = 7
    assert batch["x"][0].tolist() == [7, 7, 7] and batch.get("y") is None
    assert {name: array.shape for name, array in batch.items()} == {"x": (8, 3), "n": (8,)}
    refused(lambda: batch["y"], KeyError, "x")


def test_an_array_keeps_its_memory_when_batch_and_loader_have_gone():
    in_order = dict(shuffle="none", shards=1)
    for make in (lambda: loader(400, **in_order), lambda: rota.StreamLoader(rota.as_stream(source(400), 1), 8)):
        kept = [(k, b["x"], b["n"], b.ids if b.ids.size else b.stream_ids[:, 1]) for k, b in enumerate(make())]
        gc.collect()
        for k, x, n, ids in kept:
            numbers = list(range(8 * k, 8 * k + 8))
            assert x[:, 0].tolist() == n.tolist() == ids.tolist() == numbers


def test_a_transform_changes_samples_in_place_or_makes_others():
    def double(sample):
        sample["x"] *= 2

    changed = loader(transform=double, shuffle="none", shards=1).next()
    assert changed["x"][:, 0].tolist() == [2 * i for i in range(8)]
    fields = [("t", "int64", (), True), ("k", "uint64")]
    order = dict(shuffle="none", shards=1)
    made = loader(transform=lambda s: {"t": np.arange(s.id), "k": s.key}, transform_fields=fields, **order).next()
    drawn = next(iter(rota.ElasticBatchSampler(40, 8, world=(0, 1), **order)))
    assert made["t"].to_list() == [list(range(i)) for i in range(8)]
    assert made["k"].tolist() == [index.key for index in drawn]


def test_a_collate_makes_the_batch():
    def pad(batch):
        longest = max(map(len, batch["t"]))
        padded = np.zeros((len(batch["t"]), 8), dtype=np.int64)
        for i, row in enumerate(batch["t"]):
            padded[i, : len(row)] = row
        return {"t": padded, "longest": np.full(len(padded), longest), "copy": batch["t"].to_list()}

    texts = rota.PythonSource([{"t": list(range(i % 5))} for i in range(16)], [("t", "int64", (), True)])
    fields = [("t", "int64", (8,)), ("longest", "int64"), ("copy", "int64", (), True)]
    batch = rota.Loader(texts, 16, collate=pad, collate_fields=fields, shuffle="none", shards=1).next()
    assert batch["t"][3].tolist() == [0, 1, 2, 0, 0, 0, 0, 0]
    assert batch["longest"].tolist() == [4] * 16 and batch["copy"].to_list()[7] == [0, 1]


def test_an_error_leaves_the_position_and_the_next_call_tries_again():
    broken = [True]

    def fail_once(sample):
        if broken.pop() if broken else False:
            raise RuntimeError("once")

    one = loader(transform=fail_once, workers=2)
    refused(one.next, rota.CallbackError)
    assert one.position.step == 0
    assert one.next().start.step == 0


def test_kept_views_of_a_transform_are_refused():
    kept = []

    def fail(sample):
        raise ValueError(sample["x"])

    for keep in (lambda s: kept.append(s["x"]), lambda s: kept.append(s["x"][1:]), kept.append, fail):
        caught = refused(lambda: loader(transform=keep).next(), rota.CallbackError, "kept a view .* keep a copy")
        assert caught.__cause__ is None  # which would hold the view
    loader(transform=lambda s: kept.append(s["x"].copy())).next()


def test_what_a_transform_raises_is_told_whatever_its_frames_hold():
    def decode(sample):
        raise ValueError("bad JPEG")

    def decode_again(sample):
        try:
            decode(sample)
        except ValueError as error:
            raise RuntimeError("cannot decode") from error

    keeps = lambda s: (lambda: decode(s))()  # noqa: E731
    lacks = lambda s: s.label  # noqa: E731
    for fail, says in (decode_again, "cannot decode"), (keeps, "bad JPEG"), (lacks, ".* no attribute 'label'"):
        caught = refused(lambda: loader(transform=fail).next(), rota.CallbackError, f"Error: {says}$")
        if fail is keeps:
            assert caught.__cause__ is None and "kept a view" in str(caught)
        else:
            assert re.search(says, str(caught.__cause__))


def test_a_dataset_may_write_each_sample_over_the_last():
    buffer = np.zeros(2)

    def get(i):
        buffer[:] = i
        return {"x": buffer, "rows": buffer[: i % 3]}

    data = rota.PythonSource(Dataset(8, get), {"x": ("float64", (2,)), "rows": ("float64", (), True)})
    batch = rota.Loader(data, 8, shuffle="none", shards=1, world=(0, 1)).next()
    assert batch["x"].tolist() == [[i, i] for i in range(8)]
    assert batch["rows"].to_list() == [[i] * (i % 3) for i in range(8)]


class NoNumber(OSError):
    """As Pillow's for a damaged image."""


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), NoNumber("cannot identify image"), rota.BadSample("x")])
def test_what_data_do_wrong_is_skipped(error):
    def refuse(sample):
        if sample.id == 3:
            raise error

    one = loader(transform=refuse, on_bad_sample="skip")
    assert sum(batch.real for batch in one) == 39 and one.skipped[0].id == 3


@pytest.mark.parametrize("error", [TypeError, AttributeError, NameError, ImportError, AssertionError, lambda _: OSError(5, "io")])
def test_what_programs_do_wrong_is_not_skipped(error):
    def refuse(sample):
        raise error("wrong")

    refused(lambda: loader(transform=refuse, on_bad_sample="skip", io_retries=0).next(), rota.Error, "transform sample")


def test_a_dataset_says_which_of_its_samples_are_bad():
    class Data(list):
        def __getitem__(self, i):
            if i == 3:
                raise rota.BadSample("three")
            return super().__getitem__(i)

    one = rota.Loader(rota.PythonSource(Data(range(10)), {"data": "int64"}), 4, on_bad_sample="skip")
    assert sum(batch.real for batch in one) == 9 and "three" in one.skipped[0].error


def test_bad_samples_are_skipped_masked_and_listed():
    def refuse(sample):
        if sample.id % 10 == 3:
            raise ValueError("three")

    one = loader(transform=refuse, on_bad_sample="skip", workers=2)
    masked = [int(id) for batch in one for id in batch.ids[~batch.mask]]
    assert sorted(masked) == [3, 13, 23, 33] == sorted(skipped.id for skipped in one.skipped)
    assert one.skipped_count == 4 and "three" in one.skipped[0].error


def test_oserror_of_a_dataset_is_tried_again():
    class Flaky(list):
        tries = 0

        def __getitem__(self, i):
            Flaky.tries += 1
            if Flaky.tries % 3 == 1:
                raise OSError("not now")
            return list.__getitem__(self, i)

    one = rota.Loader(rota.PythonSource(Flaky(rows(20)), source(1).fields), 4, io_retries=5, retry_wait=0)
    assert sum(batch.size for batch in one) == 20 and one.stats["retries"] > 0


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_a_ragged_dataset_is_asked_once_for_each_sample_whoever_reads_it(workers):
    draw, asked = random.Random(3), []

    def get(i):
        """Has another length each time that it is taken."""
        asked.append(i)
        return {"x": np.full(draw.randint(1, 50), i), "y": np.full((draw.randint(0, 3), 2), i)}

    source = rota.PythonSource(Dataset(200, get), fields={"x": ("int64", (), True), "y": ("int64", (2,), True)})
    asked.clear()
    loader = rota.Loader(source, 16, workers=workers)
    for batch in loader:
        for name in "xy":
            for i, of_sample in zip(batch.ids, batch[name]):
                assert (of_sample == i).all()
    assert sorted(asked) == list(range(200))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_what_was_asked_for_a_batch_that_was_given_up_is_asked_anew(workers):
    draw, epoch = random.Random(3), [0]

    dataset = Dataset(40, lambda i: {"x": np.full(draw.randint(1, 9), epoch[0])})
    source = rota.PythonSource(dataset, fields={"x": ("int64", (), True)})
    loader = rota.Loader(source, 8, workers=workers, tail="pad")
    loader.next()
    loader.warm_up()
    epoch[0] = 1
    loader.restart()
    assert all((rows == 1).all() for batch in loader for rows in batch["x"])
    if workers < 2:  # a batch that several share is asked for in parts
        assert len(list(rota.Loader(source, 100, workers=workers, tail="pad"))[0]["x"]) == 100


def test_a_loader_has_a_length():
    source = rota.PythonSource([{"x": i} for i in range(10)])
    assert len(rota.Loader(source, 4, epochs=3)) == 9 and rota.Loader(source, 4, epochs=None).steps_per_epoch == 3
    assert len(rota.Loader(source, 4, epochs=3, tail="carry")) == 8
    for endless in (rota.Loader(source, 4, epochs=None), rota.Loader(rota.Mixture([source], [1]), 4)):
        refused(lambda: len(endless), TypeError)
    assert len(list(rota.Loader(rota.Mixture([source], [1]), 4))) == 3
    counted = rota.Loader(rota.Mixture([source, source], [1, 2], "steps", 7), 4)
    assert len(counted) == len(list(counted)) == 7
    assert endless and rota.Loader(source, 40, tail="drop")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_for_begins_where_the_page_says(workers):
    def made(**options):
        return rota.Loader(rota.PythonSource([{"x": i} for i in range(10)]), 4, shuffle="none", workers=workers, **options)

    def firsts(loader):
        return [int(batch["x"][0]) for batch in loader]

    evaluation = made(evaluation=True)
    assert next(iter(evaluation)).size == 4
    assert [firsts(evaluation) for _ in range(3)] == [[0, 4, 8]] * 3
    loader = made(epochs=2)
    assert next(iter(loader)).size == 4 and firsts(loader) == [4, 8, 0, 4, 8]
    refused(lambda: iter(loader), ValueError, r"epochs=2.*restart\(\)")
    loader.restart()
    assert len(firsts(loader)) == 6
    over = made(epochs=2)
    over.load_state_dict(loader.state_dict())
    assert firsts(over) == []


def test_one_thread_at_a_time_uses_a_loader_and_none_of_its_functions_does():
    inside, leave = threading.Event(), threading.Event()

    def wait(sample):
        inside.set()
        assert leave.wait(60)

    one = loader(transform=wait)
    thread = threading.Thread(target=one.next)
    thread.start()
    assert inside.wait(60)
    refused(lambda: one.position, rota.BusyError, "in another thread")
    leave.set()
    thread.join(60)
    assert one.position.step == 1
    one = loader(transform=lambda sample: one.state_dict(), workers=0)
    refused(one.next, rota.BusyError, "around this signal handler or callback")


def test_a_closed_loader_says_so():
    with loader() as one:
        one.next()
    assert one.is_closed and "closed" in repr(one)
    refused(one.next, ValueError, "it was closed")
    one.close()


def test_windows_and_packs_of_python_datasets():
    assert rota.windows(source(10), 4, 2)[1]["n"].tolist() == [2, 3, 4, 5]
    near = rota.windows(source(10), stride=3, offsets=np.array([-1, 0, 2]), edges="clamp")
    assert [near[3][name].tolist() for name in ("n", "is_real")] == [[8, 9, 9], [1, 1, 0]]
    assert pickle.loads(pickle.dumps(near)).fingerprint == near.fingerprint
    assert len(rota.windows(source(10), offsets=(-1, 0, 2), stride=3)) == 2
    refused(lambda: rota.windows(source(10), 4, offsets=[0]), ValueError, "length is 4")
    refused(lambda: rota.windows(source(10), offsets=[0.5]), TypeError, "offsets is 0.5; it must be a number")
    refused(lambda: rota.windows(source(10), offsets=[0], edges="wrap"), ValueError, "one of drop, clamp")
    documents = rota.PythonSource([{"t": [i] * i} for i in range(1, 5)], [("t", "int64", (), True)])
    packed = rota.pack(documents, 5, shuffle_documents=False)
    assert packed[1]["t"].tolist() == [3, 4, 4, 4, 4] and packed[1]["segment_ids"].tolist() == [1, 2, 2, 2, 2]
    assert packed.documents(1) == [2, 3]  # as numbered in what was packed
    refused(lambda: documents.documents(0), ValueError, "none of pack")


def test_documents_are_packed_whole_anew_in_each_epoch_with_their_labels():
    rows = [{"t": np.full(1 + i % 7, i, "i4"), "labels": np.full(1 + i % 7, -i, "i8")} for i in range(200)]
    documents = rota.PythonSource(rows, [("t", "i4", (), True), ("labels", "i8", (), True)])
    packed = rota.pack(documents, 9, fit="best", seed=2, field="t", fields={"labels": -100})
    facts = packed.packing()
    assert facts["documents"] == 200 and facts["cut"] == 0 and facts["tokens"] == sum(len(row["t"]) for row in rows)
    assert facts["fill"] == pytest.approx(facts["tokens"] / (9 * len(packed))) and len(packed) == 89
    assert pickle.loads(pickle.dumps(packed)).fingerprint == packed.fingerprint
    epochs = [[], []]
    for batch in rota.Loader(packed, 4, epochs=2, tail="carry"):
        for i, epoch in enumerate(batch.epochs):
            ids = packed.documents(int(batch.ids[i]), epoch)
            assert batch["t"][i].tolist() == [d for d in ids for _ in range(1 + d % 7)] + [0] * (batch["segment_ids"][i] == 0).sum()
            assert (batch["labels"][i] == np.where(batch["segment_ids"][i] == 0, -100, -batch["t"][i])).all()
            epochs[epoch].append(tuple(ids))
    assert all(sorted(d for ids in epoch for d in ids) == [*range(200)] for epoch in epochs)
    assert set(epochs[0]) != set(epochs[1])
    refused(lambda: rota.pack(documents, 9, fit="worst"), ValueError, "concat, best")
    refused(lambda: rota.pack(documents, 9, field="t", fields=["labels"]), TypeError, "a dict of numbers")
    refused(lambda: rota.pack(documents, 5, fit="best", field="t", cut_longer=False), ValueError, "document 5 takes 6 tokens")


def test_mixtures_take_turns_by_weight():
    mixed = rota.Loader(rota.Mixture([source(300), source(100)], [3, 1]), 40, tail="drop", world=(0, 1))
    batch = mixed.next()
    assert [(batch.datasets == d).sum() for d in (0, 1)] == [30, 10]
    mixed.set_weights([1, 1])
    assert [(mixed.next().datasets == d).sum() for d in (0, 1)] == [20, 20]


class Allocator:
    def __init__(self, fails):
        self.arrays, self.freed, self.fails = {}, 0, fails

    def allocate(self, size):
        array = np.empty(size + 64, dtype=np.uint8)
        address = -(-array.ctypes.data // 64) * 64
        self.arrays[address] = array
        return address

    def release(self, address, size):
        self.freed += 1
        if self.fails:
            raise ValueError("no")
        del self.arrays[address]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_memory_of_an_allocator_is_given_back_and_a_failed_release_ends_nothing(fails):
    allocator = Allocator(fails)
    one = loader(allocator=allocator)
    batch = one.next()
    assert any(0 <= batch["x"].ctypes.data - at < array.size for at, array in allocator.arrays.items())
    del batch, one
    gc.collect()
    assert allocator.freed > 0 and (fails or not allocator.arrays)


def test_a_loader_can_be_rescaled_and_have_other_batch_sizes_in_mid_epoch():
    parts = [loader(60, 6), loader(60, 6)]
    seen = [samples_of(part.next()) for part in parts][0]
    for rank, part in enumerate(parts):
        part.rescale((rank, 2))
        part.set_global_batch_size(9)
    seen += [sample for part in parts for batch in part for sample in samples_of(batch)]
    assert sorted(id for _, _, id in seen) == list(range(60))


def test_a_transform_may_return_views_of_its_input_in_any_order():
    pairs = rota.PythonSource([{"a": [i, -i], "b": [10 * i, 0]} for i in range(1, 9)])
    swapped = rota.Loader(pairs, 8, shuffle="none", shards=1, transform=lambda s: {"a": s["b"], "b": s["a"][::-1]}).next()
    assert swapped["a"].tolist() == [[10 * i, 0] for i in range(1, 9)]
    assert swapped["b"].tolist() == [[-i, i] for i in range(1, 9)]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_function_raised_shows_no_memory_that_is_used_again(workers):
    def fail(sample):
        view = sample["x"]
        raise ValueError(view.shape)

    caught = refused(lambda: loader(transform=fail, workers=workers).next(), rota.CallbackError)
    frames, trace = [], caught.__cause__.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    assert frames and not any("view" in frame.f_locals for frame in frames)


def test_the_cause_is_that_of_the_error():
    def fail(sample):
        raise ValueError(f"no {sample.id}")

    errors = []
    for shards in range(1, 30):
        with pytest.raises(rota.CallbackError, match="transform sample [0-9]+: ValueError: no ") as caught:
            loader(120, 1, transform=fail, shards=shards, read_ahead_batches=1).next()
        errors.append(caught.value)
    assert all(str(error).endswith(str(error.__cause__)) for error in errors)


@pytest.mark.parametrize("again", range(5))
def test_a_loader_may_be_dropped_by_its_own_workers(again):
    class Holder:
        pass

    def collect(sample):
        assert dropped.wait(60)
        gc.collect()

    holder, dropped, collected = Holder(), threading.Event(), threading.Event()
    holder.itself = holder
    reference = weakref.ref(holder, lambda _: collected.set())
    gc.disable()
    try:
        holder.loader = loader(transform=collect, workers=2, read_ahead_batches=4)
        del holder
        dropped.set()
        assert collected.wait(60) and reference() is None
    finally:
        gc.enable()
    loader().next()  # what has died in a worker's hands ends with the next call
