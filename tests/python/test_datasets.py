"""Datasets of Python: who calls them when, and by what they are known."""

import functools
import os
import sys
import threading
import time

import numpy as np
import pytest
import rota
from runs import in_threads, run


class Alone:
    """Decodes into a buffer that it keeps, and fails where two threads are in it at once."""

    def __init__(self, size=60):
        self.size, self.buffer, self.inside = size, np.zeros(50, np.int64), 0

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        self.inside += 1
        assert self.inside == 1, "two at once"
        time.sleep(0.0005)
        self.buffer[:] = i
        time.sleep(0)
        self.inside -= 1
        return {"x": self.buffer}


class Part:
    """As a Subset: of another dataset, whose file or buffer it shares."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return self.dataset[self.indices[i]]


class OfAClass(Alone):
    """One whose buffer is its class's."""

    of_all = Alone()

    def __getitem__(self, i):
        return self.of_all[i]


def wrong(source, first=0):
    return int(sum((b["x"] != b.ids[:, None] + first).sum() for b in rota.Loader(source, 10, workers=3)))


def test_one_thread_at_a_time_is_in_a_dataset_whoever_reads(tmp_path):
    dataset, found = Alone(), {}
    first, last = Part(dataset, range(30)), Part(dataset, range(30, 60))
    one = rota.PythonSource(dataset)
    tokens = rota.PythonSource(dataset, {"x": ("int64", (), True)})

    def work(name):
        try:
            found[name] = kinds[name]()
        except Exception as error:
            found[name] = error

    kinds = {
        "training": lambda: wrong(one),
        "validation": lambda: wrong(one),
        "another source of it": lambda: wrong(rota.PythonSource(dataset)),
        "one of a class": lambda: wrong(rota.PythonSource(OfAClass())),
        "another of that class": lambda: wrong(rota.PythonSource(OfAClass())),
        "a part": lambda: wrong(rota.PythonSource(first)),
        "the other part": lambda: wrong(rota.PythonSource(last), 30),
        "shards": lambda: rota.write_shards(one, tmp_path / "out", format="mds").samples - 60,
        "packed": lambda: sum(len(s["x"]) for s in rota.pack(tokens, 100)) - 3000,
        "one by one": lambda: sum(one[i]["x"][0] != i for i in range(60)),
    }
    in_threads(*(functools.partial(work, name) for name in kinds))
    assert found == dict.fromkeys(kinds, 0)
    written = rota.open(tmp_path / "out")
    assert [written[i]["x"][0] for i in range(60)] == list(range(60))


def test_a_dataset_that_says_so_is_called_by_several_threads_at_once():
    class Meets(Alone):
        two = None

        def __getitem__(self, i):
            self.two.wait()
            return {"x": i}

    for thread_safe, seconds in (True, 60), (False, 0.2):
        dataset = Meets()
        dataset.two = threading.Barrier(2, timeout=seconds)
        loader = rota.Loader(rota.PythonSource(dataset, {"x": "int64"}, thread_safe=thread_safe), 60, workers=2)
        if thread_safe:
            assert loader.next().size == 60  # 30 samples of each worker, which meet
        else:
            with pytest.raises(rota.CallbackError, match="BrokenBarrierError"):
                loader.next()


def test_a_dataset_may_wait_for_a_loader_over_another():
    class Around(Alone):
        def __init__(self, size):
            super().__init__(size)
            self.inner = rota.Loader(rota.PythonSource(Alone()), 1, epochs=None, workers=2)

        def __getitem__(self, i):
            return {"x": super().__getitem__(i)["x"] + 0 * self.inner.next()["x"][0]}

    assert wrong(rota.PythonSource(Around(30))) == 0


def test_a_loader_that_waits_for_its_turn_can_be_closed_and_a_forked_child_has_its_own():
    inside, leave = threading.Event(), threading.Event()

    class Waits(Alone):
        def __getitem__(self, i):
            if i == 7 and threading.current_thread() is not threading.main_thread():
                inside.set()
                assert leave.wait(60)
            return {"x": i}

    dataset = Waits()
    source = rota.PythonSource(dataset)
    holder = rota.Loader(source, 10, shuffle="none")
    begun = threading.Thread(target=holder.next)
    begun.start()
    assert inside.wait(60)
    other = rota.Loader(source, 10)
    child = os.fork()
    if child == 0:
        os._exit(int(source[3]["x"] != 3))
    assert os.waitpid(child, 0)[1] == 0
    other.close()  # whose worker waits for the dataset
    leave.set()
    begun.join(60)
    assert holder.position.step == 1


def test_a_dataset_that_has_grown_is_refused():
    samples = [{"x": i} for i in range(20)]
    loader = rota.Loader(rota.PythonSource(samples), 10, epochs=None)
    loader.next()
    samples.append({"x": 20})
    with pytest.raises(rota.CallbackError, match="it has 21 samples now, and had 20.*make source and loader anew"):
        for _ in range(10):
            loader.next()


def state_of(dataset, **options):
    return rota.Loader(rota.PythonSource(dataset, **options), 4, workers=0).state_dict()


def test_a_state_is_refused_where_samples_differ_unless_that_may_be():
    one, other = ([{"x": i * k} for i in range(20)] for k in (1, 2))
    rota.Loader(rota.PythonSource([*one]), 4).load_state_dict(state_of(one))
    with pytest.raises(rota.MismatchError, match='sample 2 .*fingerprint=""'):
        rota.Loader(rota.PythonSource(other), 4).load_state_dict(state_of(one))
    rota.Loader(rota.PythonSource(other, fingerprint=""), 4).load_state_dict(state_of(one))


def test_samples_that_are_drawn_at_random_are_no_others(monkeypatch):
    class Noisy(Alone):
        generator = np.random.default_rng(1)

        def __getitem__(self, i):
            return {"x": i + self.generator.random()}

    class Augments(Alone):
        def __getitem__(self, i):
            return {"x": i + np.random.random()}

    for kind in (Noisy, Augments):
        np.random.seed(1)
        state = state_of(kind())
        drawn = np.random.random()
        np.random.seed(1)
        kind()[0]  # which tells the fields
        assert drawn == np.random.random()  # a state draws no numbers of the program's
        np.random.seed(2)
        rota.Loader(rota.PythonSource(kind()), 4).load_state_dict(state)


class Files(Alone):
    def __init__(self, names):
        super().__init__(len(names))
        self.files, self.cache = names, [None] * len(names)


NAMES = [f"/data/{kind}/{kind}-{i}.jpg" for kind in ("cats", "dogs") for i in range(10)]
HF = type("Hugging", (Alone,), {"_fingerprint": "12ab"})


@pytest.mark.parametrize("then, same, other", [
    (NAMES, [f"/elsewhere{name}" for name in NAMES], NAMES[::-1]),
    (Files(NAMES), Files([f"/elsewhere{name}" for name in NAMES]), Files(NAMES[::-1])),
    (Part(Alone(), range(20)), Part(Alone(), list(range(20))), Part(Alone(), range(20, 40))),
    (np.arange(20), np.arange(20), np.arange(20)[::-1]),
    ([{"path": name, "size": 1} for name in NAMES], [{"size": 1, "path": name} for name in NAMES], [{"path": "", "size": 1}] * 20),
    (HF(20), HF(20), type("Hugging", (Alone,), {"_fingerprint": "34cd"})(20)),
])  # fmt: skip
def test_a_sampler_knows_a_dataset_by_what_names_its_samples(then, same, other):
    def sampler(dataset, **options):
        return rota.ElasticBatchSampler(dataset, 4, world=(0, 1), **options)

    state = sampler(then).state_dict()
    sampler(same).load_state_dict(state)
    with pytest.raises(rota.MismatchError, match='sample 0 .*fingerprint=""'):
        sampler(other).load_state_dict(state)
    sampler(other, fingerprint="").load_state_dict(state)
    sampler(20).load_state_dict(state)  # of a number nothing is known


def test_threads_may_ask_where_a_loader_is_while_another_reads():
    loader = rota.Loader(rota.PythonSource(Alone()), 5, epochs=20)
    seen, ends = [], threading.Event()

    def save():
        while not ends.is_set():
            seen.append(rota.Loader(rota.PythonSource(Alone()), 5, epochs=20).load_state_dict(loader.state_dict()))

    saver = threading.Thread(target=save)
    saver.start()
    steps = sum(1 for _ in loader)
    ends.set()
    saver.join(60)
    assert steps == 240 and len(seen) > 0


def test_a_collate_gets_ids_and_mask_which_go_where_its_rows_go():
    def longest_first(samples):
        order = np.argsort(-samples["x"])
        return {"x": samples["x"][order], "id": samples.ids[order], "real": samples.mask[order]}

    fields = {"x": "float64", "id": "int64", "real": "bool"}
    source = rota.PythonSource([{"x": float(i % 7)} for i in range(10)])
    for batch in rota.Loader(source, 4, tail="pad", collate=longest_first, collate_fields=fields):
        assert (batch["x"] == batch["id"] % 7).all() and (np.diff(batch["x"]) <= 0).all()
        assert sorted(batch["id"]) == sorted(batch.ids) and batch["real"].sum() == batch.real


DAEMON = """
import rota, threading, time
class Slow:
    def __len__(self): return 10**6
    def __getitem__(self, i):
        time.sleep(0.01)
        return {"x": i}
loader = rota.Loader(rota.PythonSource(Slow()), 8, epochs=None)
threading.Thread(target=lambda: [None for _ in loader], daemon=True).start()
time.sleep(0.3)
"""


def test_a_daemon_thread_in_a_loader_ends_with_the_program_without_a_word():
    done = run(sys.executable, "-c", DAEMON)
    assert (done.stdout, done.stderr) == ("", "")
