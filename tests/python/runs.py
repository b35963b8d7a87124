"""What several files need: sources, runs that stop and go on elsewhere, programs in processes of their own."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter

import numpy as np
import pytest
import rota

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
SHUFFLES = ("none", "within", "global", "block")
TAILS = ("partial", "carry", "drop", "pad")


def error_of_mpi():
    """What a communicator of mpi4py is refused with before MPI runs."""
    try:
        return rota.Communicator(type("Comm", (), {"py2f": lambda self: 0, "Split": None})())
    except rota.Error as error:
        return error


HAS_MPI = not isinstance(error_of_mpi(), rota.UnsupportedError)
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="this rota is built without MPI")


def settings(seed, count):
    """Settings of a sampler, drawn at random: samples, and its keyword arguments."""
    draw = random.Random(seed)
    for _ in range(count):
        shards = draw.choice((1, 3, 8, 40))
        yield draw.randint(1, 70), dict(
            global_batch_size=draw.randint(1, 20),
            shards=shards,
            interleave=draw.choice((0, 1, shards)),
            shuffle=draw.choice(SHUFFLES),
            block=(draw.randint(1, 9), draw.randint(1, 5)),
            seed=draw.randrange(2**64),
            tail=draw.choice(TAILS),
            epochs=draw.randint(1, 3),
            rank_split=draw.choice(("by_sample", "interleaved", "by_shard")),
        )


def samples_of(info):
    """(epoch, id) of what counts in a rank's batch, with the slot of each."""
    return [
        (int(slot), int(epoch), int(id))
        for slot, epoch, id, counts in zip(info.slots, info.epochs, info.ids, info.mask)
        if counts
    ]


def ids(batches):
    return [batch.ids.tolist() for batch in batches]


def next_of(reader):
    """The next batch of a loader; or what a sampler tells of it."""
    return reader.advance() if isinstance(reader, rota.ElasticBatchSampler) else reader.next()


def batches_of(make, worlds, stops, state=None):
    """The global batches of a run that moves through `worlds` ranks, for `stops` steps each; and its last state.

    `make(rank, size)` is one rank's sampler or loader.
    """
    batches = []
    for ranks, steps in zip(worlds, stops):
        samplers = [make(rank, ranks) for rank in range(ranks)]
        if state is not None:
            for sampler in samplers:
                sampler.load_state_dict(state)
                sampler.load_state_dict(sampler.state_dict())
        for _ in range(steps):
            infos = [next_of(sampler) for sampler in samplers]
            if infos[0] is None:
                assert infos == [None] * ranks
                return batches, samplers[0].state_dict()
            batches.append(sorted(sum(map(samples_of, infos), [])))
            state = samplers[0].state_dict()
            assert {sampler.state_dict()["rota"] for sampler in samplers} == {state["rota"]}
    return batches, state


def count(batches):
    """How often each (epoch, id) is in `batches`."""
    return Counter(sample[1:] for batch in batches for sample in batch)


def rows(samples, columns=3):
    """A Python dataset whose sample i is known by its numbers."""
    return [{"x": np.full(columns, i, dtype=np.float32), "n": i} for i in range(samples)]


def source(samples):
    return rota.PythonSource(rows(samples))


def loader(samples=40, global_batch_size=8, **options):
    return rota.Loader(source(samples), global_batch_size, **{"world": (0, 1), **options})


def python(code, *arguments, ranks=None, returns=0, **options):
    """Runs `code` in a Python of its own, or in one for each rank of mpirun, that ends as `returns` says."""
    mpirun = ["mpirun", "-n", ranks] if ranks else []
    command = [*mpirun, sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code), *arguments]
    return run(*command, returns=returns, **options)


def run(*command, returns=0, **options):
    """What `command` printed, and how it ended: as `returns` says, where that is not None."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, **options)
    assert returns in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
    return done


def audit(folder, *options):
    return run(os.environ["ROTA_TOOL"], "audit", folder, *options, returns=None)


def in_threads(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


class Dataset:
    """So many samples, of which `get(i)` is one."""

    def __init__(self, samples, get):
        self.samples, self.get = samples, get

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        return self.get(i)


def refused(call, error, words=None):
    """The `error` that `call()` raises, in such words."""
    with pytest.raises(error, match=words) as caught:
        call()
    return caught.value


def in_child(work):
    """The exit code of a forked child that does `work`."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(work() or 0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
