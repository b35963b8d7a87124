"""Streams of Python: every sample once, stops anywhere, errors, and how readers end."""

import gc
import itertools
import os
import random
import sys
import threading
from collections import Counter

import numpy as np
import pytest
import rota
import rota.mpi
from runs import python, refused, source


class Rows(rota.Stream):
    """Shard s has `lengths[s]` samples."""

    fields = {"x": "int64", "text": ("uint8", (), True), "pair": ("float32", (2,))}

    def __init__(self, lengths):
        self.lengths = lengths
        self.shards = len(lengths)

    def open(self, shard, epoch, cursor):
        for i in range(cursor or 0, self.lengths[shard]):
            yield {"x": 1000 * shard + i, "text": "a" * (i % 5), "pair": [shard, i]}, i + 1


class Of(rota.Stream):
    """One shard: what `make(cursor)` yields."""

    fields = {"x": "int64"}

    def __init__(self, make, **attributes):
        self.make = make
        self.__dict__.update(attributes)

    def open(self, shard, epoch, cursor):
        return self.make(cursor)


def settings(seed, count):
    draw = random.Random(seed)
    for _ in range(count):
        lengths = [draw.choice((0, 1, 7, 30)) for _ in range(draw.randint(1, 6))]
        yield draw, lengths, dict(
            global_batch_size=draw.randint(1, 11),
            workers=draw.randint(0, 3),
            epochs=draw.randint(1, 2),
            read_ahead_batches=draw.randint(1, 4),
        )


def samples_of(loader, steps=None):
    """(epoch, id..., x) of the next steps."""
    seen = []
    for batch in itertools.islice(loader, steps):
        assert batch.size == len(batch["x"]) == len(batch.stream_ids) == len(batch.positions)
        seen += [(batch.start.epoch, *map(int, id), int(x)) for id, x in zip(batch.stream_ids, batch["x"])]
    return seen


def run_with_stops(make, options, draw):
    """All samples of a run that stops at random steps, and goes on in new loaders."""
    seen, state = [], None
    while True:
        with rota.StreamLoader(make(), **options) as loader:
            if state is not None:
                loader.load_state_dict(state)
            steps = draw.randint(1, 6)
            before = loader.position.step
            seen += samples_of(loader, steps)
            if loader.position.step < before + steps:
                return seen
            state = loader.state_dict()


def test_every_sample_comes_once_in_each_epoch_in_the_same_batches_whatever_workers_and_stops():
    def know(sample):
        known.append((sample.epoch, *sample.id))
        return np.bool_(True)

    for draw, lengths, options in settings(1, 40):
        expected = [
            (epoch, s, i, 0, 1000 * s + i)
            for epoch in range(options["epochs"] if sum(lengths) else 0)
            for s, length in enumerate(lengths)
            for i in range(length)
        ]
        known = []
        whole = samples_of(rota.StreamLoader(rota.filter(Rows(lengths), know), **{**options, "workers": 0}))
        assert sorted(whole) == expected and sorted(known) == [sample[:4] for sample in expected]
        assert run_with_stops(lambda: Rows(lengths), options, draw) == whole


def test_transforms_resume_at_any_step():
    def make(lengths):
        odd = rota.filter(Rows(lengths), lambda sample: sample["x"] % 2 == 1, "odd")
        twice = rota.flat_map(
            odd, lambda sample: ({"y": sample["x"] + k} for k in range(int(sample["x"]) % 3)), {"y": "int64"}
        )
        named = rota.flat_map(twice, lambda sample: [{"x": sample["y"]}], {"x": "int64"})
        return rota.shuffle_buffer(named, 5, seed=3)

    for draw, lengths, options in settings(3, 25):
        options["epochs"] = 1
        got = run_with_stops(lambda: make(lengths), options, draw)
        numbers = [1000 * s + i for s, n in enumerate(lengths) for i in range(n)]
        assert Counter(x for *_, x in got) == Counter(x + k for x in numbers if x % 2 for k in range(x % 3))
        assert len({id[:4] for id in got}) == len(got)


def test_an_indexed_source_is_read_as_streams():
    source = rota.PythonSource([{"x": i} for i in range(23)])
    for shards, workers in itertools.product((1, 4, 30), (0, 2)):
        got = samples_of(rota.StreamLoader(rota.as_stream(source, shards), 5, workers=workers))
        assert sorted(x for *_, x in got) == list(range(23))


@pytest.mark.parametrize("cursors, numbers", [
    (lambda i: i - 5, 1), (lambda i: (i,), 1), (lambda i: (i, -i, 2**63 - 1), 3), (lambda i: np.int64(i), 1),
    (lambda i: b"\0\xff" * i, 1), (lambda i: b"%d" % i, 0), (lambda i: (), 0),
])  # fmt: skip
def test_a_stream_gets_the_cursor_back_that_it_yielded(cursors, numbers):
    opened = []

    def make(cursor):
        opened.append(cursor)
        return iter([(i, cursors(i)) for i in range(1, 9)])

    loader, again = (rota.StreamLoader(Of(make, cursor_numbers=numbers), 1, workers=0) for _ in range(2))
    samples_of(loader, 3)
    again.load_state_dict(loader.state_dict())
    assert samples_of(again, 1)[0][2] == 3  # ids go on
    assert opened == [None, cursors(3)] and isinstance(opened[1], (int, tuple, bytes))


@pytest.mark.parametrize("yielded, says", [
    (5, "yield a pair"), ({"x": 1}, "yield a pair"), ((1, 2, 3), "yield a pair"), (({"y": 1}, 1), 'it has no "x"'),
    (({"x": [1, 2]}, 1), "shape"), (({"x": 1.5}, 1), "without loss"), (({"x": 1}, None), "an int or bytes"),
    (({"x": 1}, 1.5), "an int or bytes"), (({"x": 1}, 2**63), "64 bits"), (({"x": 1}, (1, 2)), "an int or bytes"),
])  # fmt: skip
@pytest.mark.parametrize("workers", (0, 1))
def test_what_is_no_pair_of_a_sample_and_a_cursor_is_refused(yielded, says, workers):
    loader = rota.StreamLoader(Of(lambda cursor: iter([yielded])), 4, workers=workers)
    refused(loader.next, rota.CallbackError, says)


def test_one_process_of_several_says_whether_it_is_alone(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = rota.StreamLoader(rota.as_stream(source(5), 1), 2)
    assert "asked for when it is used first" in repr(loader)
    for _ in range(2):
        refused(loader.next, ValueError, "rank 1 of 4.*init_process_group.*comm=")
    loader.close()
    assert loader.is_closed
    for alone in None, rota.Communicator():
        assert sum(batch.size for batch in rota.StreamLoader(rota.as_stream(source(5), 1), 2, comm=alone)) == 5


@pytest.mark.parametrize("workers", (0, 1, 2))
@pytest.mark.parametrize("error", (LookupError, KeyboardInterrupt))
def test_what_a_generator_raises_is_the_cause_of_what_next_raises_and_an_interrupt_is_raised_itself(workers, error):
    def make(cursor):
        yield 1, 1
        raise error

    loader = rota.StreamLoader(Of(make, where=lambda shard: "rows.db"), 1, workers=workers)
    assert loader.next()["x"].tolist() == [1]
    raised = refused(loader.next, (rota.CallbackError, KeyboardInterrupt))
    shown = raised if error is KeyboardInterrupt else raised.__cause__
    assert type(shown) is error and (shown is raised or "rows.db" in str(raised))


def test_a_failed_read_is_tried_again_where_it_was():
    failures = [OSError("the net is down")]

    def make(cursor):
        for i in range(cursor or 0, 6):
            if i == 3 and failures:
                raise failures.pop()
            yield i, i + 1

    loader = rota.StreamLoader(Of(make), 2, workers=0)
    seen = samples_of(loader, 1)
    refused(loader.next, rota.IOError)
    assert [x for *_, x in seen + samples_of(loader)] == list(range(6))


@pytest.mark.parametrize("workers", (0, 1, 3))
@pytest.mark.parametrize("steps", (0, 1, 4))
def test_generators_are_closed_when_a_loader_ends(workers, steps):
    opened, closed = [], []

    class Finally(Rows):
        def open(self, shard, epoch, cursor):
            opened.append(shard)
            try:
                yield from super().open(shard, epoch, cursor)
            finally:
                closed.append((shard, threading.get_ident()))

    for end in (lambda loader: loader.close(), lambda loader: None):
        loader = rota.StreamLoader(Finally([1000, 3, 1000]), 4, workers=workers)
        samples_of(loader, steps)
        end(loader)
        del loader
        gc.collect()
        assert sorted(opened) == sorted(shard for shard, _ in closed)


def test_an_error_of_closing_is_reported_and_harms_nothing(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(type(args.exc_value)))

    def make(cursor):
        try:
            yield from ((i, i) for i in itertools.count())
        finally:
            raise LookupError

    with rota.StreamLoader(Of(make), 2) as loader:
        loader.next()
    assert reported == [LookupError]


def test_each_worker_has_a_copy_and_a_stream_of_one_shard_has_none():
    copies = []

    class Copied(Rows):
        def __copy__(self):
            copies.append(self)
            return Copied(self.lengths)

    for lengths, copied in ([5, 5], 2), ([5], 0):
        copies.clear()
        samples_of(rota.StreamLoader(Copied(lengths), 2, workers=2))
        assert len(copies) == copied


def once(items):
    """What cannot be opened again: it goes on where it is."""
    taken = []

    def make(cursor):
        assert (cursor or 0) == len(taken)
        for item in items:
            taken.append(item)
            yield item, len(taken)

    return Of(make)


@pytest.mark.parametrize("workers", (0, 1))
def test_a_dispatch_of_what_cannot_be_opened_again_loses_nothing(workers):
    for stop in range(8):
        items = once(iter(range(20)))
        with rota.StreamLoader(rota.Dispatch(items, shards=4), 3, workers=workers) as loader:
            seen = samples_of(loader, stop)
            state = loader.state_dict()
        again = rota.StreamLoader(rota.Dispatch(items, shards=4), 3, workers=workers)
        again.load_state_dict(state)
        seen += samples_of(again)
        assert sorted(x for *_, x in seen) == list(range(20))


def test_what_is_settled_by_hand_of_a_dispatch_comes_once_whatever_stops():
    draw, done, state = random.Random(5), [], None
    items = once(iter(range(40)))
    for is_end in [False] * 8 + [True]:
        loader = rota.StreamLoader(rota.Dispatch(items, shards=4), draw.randint(1, 9), settle="by_hand")
        if state:
            loader.load_state_dict(state)
        for batch in itertools.islice(loader, None if is_end else draw.randint(0, 4)):
            assert [i // 4 for i in batch.ids] == list(batch.positions) and list(batch["x"]) == list(batch.ids)
            for id, epoch in zip(batch.ids, batch.epochs):
                what = 0 if is_end else draw.randint(0, 3)
                if what == 0:
                    loader.settle(id, epoch)
                elif what == 1:
                    loader.drop(id, epoch, reason="stale")
                elif what == 2:
                    loader.again(id, epoch)
                done += [id] * (what < 2)
            if draw.random() < 0.3:
                loader.merge()
        assert loader.open.out == loader.stats["open"]
        state = loader.state_dict()
    assert sorted(done) == list(range(40)) and loader.open == (0, 0, 0)


def test_a_dispatch_that_is_settled_by_hand_waits_for_another_thread_at_its_bound():
    loader = rota.StreamLoader(rota.Dispatch(once(range(9)), shards=1), 1, settle="by_hand", open_bytes=16)
    batches = [loader.next(), loader.next()]
    loader.settle(batches[0])
    batches += [loader.next()]
    settling = threading.Timer(0.2, lambda: loader.settle(batches[1]))
    settling.start()
    assert loader.next().ids[0] == 3 and not settling.is_alive()
    assert loader.try_settle([2, 3, 4], 0) == [True, True, False]
    words = "it must be at_delivery of a stream that all ranks read"
    refused(lambda: rota.StreamLoader(Rows([3]), settle="by_hand"), rota.InvalidArgumentError, words)


def test_a_pipe_is_dispatched():
    reader, writer = os.pipe()
    os.write(writer, b"".join(b"%d\n" % i for i in range(50)))
    os.close(writer)
    with os.fdopen(reader) as lines:
        loader = rota.StreamLoader(rota.Dispatch(once(map(int, lines)), rank_split="by_shard"), 7)
        assert [x for *_, x in samples_of(loader)] == list(range(50))


KEPT = []


@pytest.mark.parametrize("make, says", [
    (lambda: rota.filter(Rows([3]), lambda sample: None), "return True or False"),
    (lambda: rota.flat_map(Rows([3]), lambda sample: None), "a list of dicts"),
    (lambda: rota.flat_map(Rows([3]), lambda sample: dict(sample)), "a list of dicts"),
    (lambda: rota.flat_map(Rows([3]), lambda sample: [{}]), 'no "x"'),
    (lambda: rota.flat_map(Rows([3]), lambda sample: itertools.repeat(dict(sample)), most=9), "more than 9"),
    (lambda: rota.flat_map(Rows([3]), lambda sample: 1 / 0), "ZeroDivisionError"),
    (lambda: Of(lambda cursor: 1 / 0), "ZeroDivisionError"),
    (lambda: rota.flat_map(Rows([3]), lambda sample: KEPT.append(sample) or []), "keep a copy"),
    (lambda: rota.filter(Rows([3]), lambda sample: KEPT.append(sample["x"]) or True), "keep a copy"),
])  # fmt: skip
def test_wrong_answers_of_functions_are_refused(make, says):
    refused(lambda: rota.StreamLoader(make(), 2).next(), rota.CallbackError, says)


def test_a_state_of_another_stream_is_refused():
    state = rota.StreamLoader(Rows([5, 5]), 2).state_dict()
    named = Rows([5, 5])
    named.fingerprint = "version 2"
    for other in (named, Rows([5]), rota.filter(Rows([5, 5]), bool), Of(lambda cursor: [])):
        refused(lambda: rota.StreamLoader(other, 2).load_state_dict(state), rota.MismatchError)
    for wrong in ({}, "", {"rota": 5}):
        refused(lambda: rota.StreamLoader(Rows([5, 5]), 2).load_state_dict(wrong), rota.InvalidArgumentError)
    refused(lambda: rota.StreamLoader(Rows([5, 5]), 2).load_state_dict({"rota": "{}"}), rota.CorruptError)


def test_what_is_no_stream_and_impossible_attributes_are_refused():
    def make(cursor):
        return iter(())

    for stream in (Rows, 5, None, [1, 2], rota.PythonSource([1])):
        refused(lambda: rota.StreamLoader(stream), TypeError, "rota.Stream|None")
    refused(lambda: rota.StreamLoader(rota.Stream()), TypeError, "has no fields")
    wrong = {"shards": (0, 2**40), "cursor_numbers": (-1, 2**20), "fields": ({"x": "int7"}, 5)}
    for attributes in ({name: value} for name, values in wrong.items() for value in values):
        refused(lambda: rota.StreamLoader(Of(make, **attributes)), (rota.Error, TypeError))
    for options in ({"workers": 2**40}, {"global_batch_size": "x"}, {"epochs": -1}, {"deadline": float("nan")}):
        refused(lambda: rota.StreamLoader(Rows([1]), **options), (rota.InvalidArgumentError, TypeError))
    refused(lambda: rota.StreamLoader(Rows([1]), comm=5), TypeError, "no communicator of mpi4py")
    refused(lambda: rota.StreamLoader(Of(make, remaining=lambda shard, cursor: "many")), rota.CallbackError, "remaining")


def test_a_loader_is_of_one_thread_at_a_time_and_says_so_when_closed():
    loader = None

    def make(cursor):
        refused(lambda: loader.position, rota.BusyError)
        yield 1, 1

    loader = rota.StreamLoader(Of(make), workers=0)
    assert samples_of(loader) == [(0, 0, 0, 0, 1)] and loader.next() is None
    assert loader.stats["samples"] == 1 and "step 1" in repr(loader)
    loader.close()
    assert repr(loader) == "<rota.StreamLoader, closed>"
    refused(loader.next, rota.InvalidArgumentError, "closed")


ENDS = """
import itertools, sys, rota
class Endless(rota.Stream):
    fields = {"x": "int64"}
    shards = 3
    def open(self, shard, epoch, cursor):
        try:
            for i in itertools.count(cursor or 0):
                yield i, i + 1
        finally:
            print("closed", flush=True)
loader = rota.StreamLoader(rota.shuffle_buffer(rota.filter(Endless(), lambda s: True), 5, 0), 8, workers=2)
for _ in range(int(sys.argv[1])):
    loader.next()
if sys.argv[2] == "cycle":
    loader.me = loader
    del loader
if sys.argv[2] == "hidden":
    import ctypes
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loader))
if sys.argv[2] == "raise":
    raise SystemExit(0)
"""


@pytest.mark.parametrize(
    "how, steps", [("plain", 0), ("plain", 3), ("cycle", 3), ("hidden", 0), ("hidden", 3), ("raise", 3)]
)
def test_python_ends_in_the_midst_of_reading(how, steps):
    done = python(ENDS, steps, how)
    assert done.stderr == "" and (steps == 0 or done.stdout.count("closed") == 3)
