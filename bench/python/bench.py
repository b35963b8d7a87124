"""Python's loops over rota, each in one run with its rivals.

    PYTHONPATH=build/release/python python3 bench/python/bench.py --drain build/release/bin/drain [NAME...]

Rates are samples per second. Ratios are what to look at: machines are noisy.
"""

import argparse
import itertools
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc

import numpy as np
import rota

try:
    import rota.torch
    import torch
except ImportError:
    torch = None

SECONDS = 2.0


def rate(step, seconds=SECONDS):
    """Items per second of `step()`, which says how many it did; the first fifth of the time is not counted."""
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds / 5:
        step()
    begin, done = time.perf_counter(), 0
    while (now := time.perf_counter()) < begin + seconds:
        done += step()
    return done / (now - begin)


def turns(rounds, **rivals):
    """The median rate of each, by turns, so that all see the same noise."""
    rates = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, measure in rivals.items():
            rates[name].append(measure())
    return {name: float(np.median(values)) for name, values in rates.items()}


def show(what, rates, base):
    for name, value in rates.items():
        print(f"{what:34} {name:34} {value:14,.0f}   {value / rates[base]:8.2f} of {base}", flush=True)


def bench_import():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def seconds(code):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        return time.perf_counter() - begin

    module = f"import sys; sys.path.insert(0, {os.path.dirname(rota.__file__)!r}); import _rota"
    codes = {"python": "0", "rota": "import rota", "its C++ alone": module, "numpy": "import numpy"}
    taken = {name: [] for name in codes}
    for _ in range(20):
        for name, code in codes.items():
            taken[name].append(seconds(code))
    alone = min(taken.pop("python"))
    print("import:", ", ".join(f"{name} {(min(times) - alone) * 1e3:.0f} ms" for name, times in taken.items()))


def bench_sampler():
    def ours():
        iterator = iter(rota.ElasticBatchSampler(10**9, 256, world=(0, 1)))
        return rate(lambda: len(next(iterator)))

    rivals = {"ElasticBatchSampler of 10^9": ours}
    if torch:

        def theirs():
            data = torch.utils.data
            iterator = itertools.chain.from_iterable(itertools.repeat(data.BatchSampler(data.RandomSampler(range(10**7)), 256, False)))
            return rate(lambda: len(next(iterator)), 1.0)

        rivals["torch's RandomSampler of 10^7"] = theirs
    rates = turns(3, **rivals)
    show("indices/s", rates, next(reversed(rivals)))
    print(f"sampler: {1e6 / rates['ElasticBatchSampler of 10^9']:.3f} us an index")
    tracemalloc.start()
    sampler = rota.ElasticBatchSampler(10**9, 256, world=(0, 1))
    for _ in range(1000):
        sampler.advance()
    state = sampler.state_dict()
    begin = time.perf_counter()
    sampler.load_state_dict(state)
    print(f"sampler: restored in {(time.perf_counter() - begin) * 1e3:.2f} ms, {tracemalloc.get_traced_memory()[1]:,} bytes at most")


def bench_indices():
    """Of slices of 32: drawn; and pickled, loaded and gone through, as on their way to a worker."""
    plain = [[*range(10**6, 10**6 + 32)]] * 1000
    batches = [next(iter(rota.ElasticBatchSampler(10**9, 32, world=(0, 1)))) for _ in range(1000)]

    def draw():
        iterator = iter(rota.ElasticBatchSampler(10**9, 32, world=(0, 1)))
        return rate(lambda: len(next(iterator)), 1.0)

    def travel(batches):
        return rate(lambda: sum(sum(1 for _ in pickle.loads(pickle.dumps(batch))) for batch in batches[:100]), 1.0)

    rates = turns(5, drawn=draw, pickled=lambda: travel(batches), **{"of a list of ints": lambda: travel(plain)})
    print("indices:", ", ".join(f"{name} {1e9 / value:.0f} ns" for name, value in rates.items()))


def bench_torch():
    """rota.torch.DataLoader and torch's, in samples/s: 16 bytes a sample, batches of 32."""
    if not torch:
        return print("torch: not here")
    for name, dataset in ("TensorDataset", torch.utils.data.TensorDataset(torch.zeros(5 * 10**6, 4))), ("range", range(5 * 10**6)):
        for workers in (0, 2):

            def ours(uses_all=False):
                sampler = rota.ElasticBatchSampler(dataset, 32, world=(0, 1))
                loader = rota.torch.DataLoader(dataset, sampler, num_workers=workers)
                iterator = iter(loader)

                def step():
                    next(iterator)
                    return len(loader.info.mask) if uses_all and loader.state_dict() else 32

                return rate(step)

            def theirs():
                iterator = iter(torch.utils.data.DataLoader(dataset, 32, shuffle=True, num_workers=workers))
                return rate(lambda: 32 if next(iterator) is not None else 0)

            rivals = {"torch's": theirs, "rota's": ours, "with mask and state a step": lambda: ours(True)}
            show(f"DataLoader, {name}, {workers} workers", turns(3, **rivals), "torch's")


def bench_loader(drain):
    for row_bytes, rows in ((1 << 10, 200_000), (16 << 10, 20_000), (128 << 10, 2_500)):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
            path = os.path.join(directory, "rows.npy")
            np.save(path, np.ones((rows, row_bytes), dtype=np.uint8))
            for workers in (1, 2):
                loaders(drain, path, row_bytes, workers)


def loaders(drain, path, row_bytes, workers):
    def ours():
        loader = rota.Loader(rota.open(path), 256, workers=workers, epochs=None, world=(0, 1))
        return rate(lambda: len(next(loader)["data"]))

    def cpp():
        command = [drain, path, "256", str(workers), str(SECONDS)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def theirs():
        dataset = np.load(path, mmap_mode="c")  # torch warns of memory that cannot be written
        loader = torch.utils.data.DataLoader(dataset, 256, shuffle=True, num_workers=workers)

        def batches():
            while True:
                yield from loader

        iterator = batches()
        return rate(lambda: len(next(iterator)))

    def limit():
        data, draw = np.load(path, mmap_mode="r"), np.random.default_rng(1)
        return rate(lambda: len(data[draw.integers(len(data), size=256)]))

    rivals = {"rota.Loader": ours, "numpy's copy of random rows": limit}
    if drain:
        rivals["C++"] = cpp
    if torch:
        rivals["torch's DataLoader over memmap"] = theirs
    show(f"{row_bytes >> 10} KiB, {workers} workers", turns(5, **rivals), "rota.Loader")


def bench_thread():
    """A thread that computes, alone and beside one that waits for batches that do not come."""
    gate = threading.Event()

    class Slow:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            gate.wait()
            return {"x": i}

    def count(n=200_000):
        for _ in range(n):
            pass
        return n

    def beside():
        gate.clear()
        loader = rota.Loader(rota.PythonSource(Slow(), ["x"]), 4, world=(0, 1))
        waiter = threading.Thread(target=loader.next)
        waiter.start()
        try:
            return rate(count)
        finally:
            gate.set()
            waiter.join()

    show("iterations/s of a thread", turns(5, alone=lambda: rate(count), **{"beside a waiting next()": beside}), "alone")


class Computes:
    """A dataset that needs Python's lock."""

    def __len__(self):
        return 4096

    def __getitem__(self, i):
        return {"x": sum(range(i % 7 + 500))}


class Waits(Computes):
    """One that waits for storage without it."""

    def __getitem__(self, i):
        time.sleep(2e-4)
        return {"x": i}


class Copies:
    """A copy of a dataset for each thread, as torch's worker processes have one."""

    def __init__(self, dataset):
        self.pickled, self.length, self.own = pickle.dumps(dataset), len(dataset), threading.local()

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if not hasattr(self.own, "dataset"):
            self.own.dataset = pickle.loads(self.pickled)
        return self.own.dataset[i]


def bench_dataset():
    """Who may be in a dataset of Python: one thread at a time, each thread in a copy of its own, or all in one."""
    for dataset in Computes(), Waits():
        sources = {
            "in turn": rota.PythonSource(dataset),
            "a copy for each": rota.PythonSource(Copies(dataset), thread_safe=True),
            "thread_safe": rota.PythonSource(dataset, thread_safe=True),
        }
        for workers in 1, 4:
            loaders = {name: rota.Loader(source, 256, epochs=None, workers=workers, world=(0, 1)) for name, source in sources.items()}
            rivals = {name: lambda loader=loader: rate(lambda: loader.next().size) for name, loader in loaders.items()}
            show(f"{type(dataset).__name__}, {workers} workers", turns(3, **rivals), "in turn")
            for loader in loaders.values():
                loader.close()


def bench_members():
    """What an unchanged step costs more than without members; and how long one takes behind which another world is."""

    def plain(sampler):
        batches = sampler._counted()
        return iter(lambda: (next(batches), sampler._deliver(sampler._ahead.popleft(), rota.BatchInfo)), None)

    def asked(order):
        steps = itertools.count()
        return rota.Members(order, lambda: (next(steps), 0, 1))

    def sampler():
        return rota.ElasticBatchSampler(10**8, 1, epochs=1, world=(0, 1))

    kinds = {"Loader": (lambda: rota.Loader(rota.PythonSource([1.0] * 1000), 1, epochs=None, workers=0, world=(0, 1)), lambda loader: iter(loader.next, None))}
    kinds["ElasticBatchSampler"] = sampler, plain
    if torch:
        kinds["DataLoader"] = lambda: rota.torch.DataLoader(range(10**8), sampler()), iter
    for name, (make, without) in kinds.items():
        rivals = {"without": without(make()), "members": asked(make())}
        rates = turns(5, **{which: lambda batches=batches: rate(lambda: (next(batches), 1)[1], 0.5) for which, batches in rivals.items()})
        print(f"members: a step of a {name} takes {1e6 / rates['members'] - 1e6 / rates['without']:.1f} us more")
    movers = {"Loader, 2 workers": lambda: rota.Loader(rota.PythonSource([[1.0] * 100] * 10_000), 64, epochs=None, workers=2, world=(0, 1))}
    for persists in (False, True) if torch else ():
        order = rota.torch.DataLoader([torch.zeros(100)] * 10_000, rota.ElasticBatchSampler(10_000, 64, epochs=99, world=(0, 1)), 2, persistent_workers=persists)
        movers[f"DataLoader, 2 {'persistent ' * persists}workers"] = lambda order=order: order
    for name, make in movers.items():
        answer, times = [0, 0, 3], []
        members = rota.Members(make(), lambda: answer)
        for answer[0] in range(100):
            begin = time.perf_counter()
            next(members)
            times.append(time.perf_counter() - begin)
            if answer[0] % 4 == 3:
                answer[2] = 5 - answer[2]
        behind = sorted(times[4::4])
        print(f"members: {name}: another world's first batch in {behind[len(behind) // 2] * 1e3:.1f} ms, at most {behind[-1] * 1e3:.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--drain", help="the C++ loop, a program")
    parser.add_argument("names", nargs="*", choices=["import", "sampler", "indices", "torch", "loader", "thread", "dataset", "members", []])
    options = parser.parse_args()
    for name in options.names or ["import", "sampler", "indices", "torch", "thread", "dataset", "members", "loader"]:
        work = globals()[f"bench_{name}"]
        work(options.drain) if name == "loader" else work()


if __name__ == "__main__":
    main()
