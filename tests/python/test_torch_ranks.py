"""Ranks of torch.distributed open files together, and compare what they make."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from torch_jobs import Job

pytest.importorskip("torch")
import rota  # noqa: E402
import rota.torch  # noqa: E402

OPEN = """
import sys
import torch.distributed as dist
import rota.torch

rank, directory = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
for name, failing in ("tokens", None), ("none", None), ("tokens", 1):
    try:
        source = rota.torch.open(f"{directory}/{name}", "tokens", length=-1 if rank == failing else 4)
        print(len(source), source.fingerprint, source[2]["tokens"].tolist())
    except rota.Error as error:
        print(type(error).__name__, error)
assert len(rota.torch.open(rota.Catalog(f"{directory}/tokens", comm=rota.torch.Communicator()), "tokens", length=4)) == 5
dist.destroy_process_group()
"""


def test_rank_0_lists_files_that_all_open_and_what_one_cannot_open_is_raised_on_all(tmp_path):
    np.arange(20, dtype=np.uint16).tofile(tmp_path / "tokens")
    command = [sys.executable, "-c", OPEN]
    ranks = [subprocess.Popen([*command, str(rank), tmp_path], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    told = [rank.communicate(timeout=120)[0].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    (opened, missing, failed), others = told
    assert opened == others[0] and opened.startswith("5 ")
    assert missing.startswith("NotFoundError") and others[1] == missing
    assert failed.startswith("InvalidArgumentError rank 1: ") and others[2].startswith("InvalidArgumentError ") and "length" in failed


def test_a_torch_that_is_too_old_is_refused_where_ranks_would_work_together(tmp_path):
    program = """
torch.__version__ = "1.13.0"
for make in (lambda: rota.Loader(rows(), 4), rota.torch.Communicator, lambda: rota.Loader(rows(), 4, world=(rank, size)).world.size):
    try: print(make())
    except rota.UnsupportedError as error: print(error)
"""
    refused = "use PyTorch 1.13.0: rota needs 2.0 or newer; install it from PyPI: pip install torch\n"
    with Job(tmp_path, program, 2) as job:
        assert job.codes() == [0, 0] and [job.said(rank) for rank in (0, 1)] == [refused * 2 + "2\n"] * 2


COMPARE = """
import sys, rota, torch.distributed as dist
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{path}/compare", rank=rank, world_size=2)
source = lambda n: rota.PythonSource([{"x": i} for i in range(n)])
for make in (
    lambda: len(rota.ElasticBatchSampler(40, 4)),
    lambda: rota.ElasticBatchSampler(40 + rank, 4),
    lambda: rota.ElasticBatchSampler(40, 4, seed=rank),
    lambda: rota.ElasticBatchSampler(40, 4 - 4 * rank),
    lambda: rota.Loader(source(40), 4, shards=3 + rank),
    lambda: len(rota.Loader(source(40 + rank), 4, world=(0, 1))),
    lambda: rank or rota.ElasticBatchSampler(40, 4),
):
    try:
        print(make())
    except rota.Error as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


def test_ranks_of_torch_compare_what_they_make(tmp_path):
    ranks = [
        subprocess.Popen([sys.executable, "-c", COMPARE, str(rank), tmp_path], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    first, second = ([*rank.communicate(timeout=120)[0].splitlines()] for rank in ranks)
    assert first[0] == second[0] == "10"
    for number, words in enumerate(("samples", "seed", "global_batch_size", "shards"), 1):
        assert first[number].split()[0] in ("MismatchError", "InvalidArgumentError") and "rank 1" in first[number] + second[number]
        assert words in first[number] and words in second[number]
    assert (first[5], second[5]) == ("10", "11")
    assert first[6].startswith("TimeoutError") and "world=(0, 1)" in first[6]


STOP = """
loader = rota.torch.DataLoader(range(10**6), rota.ElasticBatchSampler(10**6, 6))
stop = rota.torch.StopSignal()
for batch in loader:
    if rank == 1 and loader.position.step == 7: os.kill(os.getpid(), int(sys.argv[4]))
    if stop.requested(): break
ready, tell = os.pipe()
child = os.fork()  # was not asked, and has no use for it
if child == 0:
    rota.torch.StopSignal(comm=None).close()  # its own; the handlers are again those from before its parent's
    os.write(tell, b'.')
    time.sleep(60)
os.read(ready, 1)
os.kill(child, signal.SIGTERM)
print("stopped at", loader.position.step, "child", os.waitpid(child, 0)[1], stop.requested())
try: rota.torch.StopSignal(comm=None)
except rota.BusyError as error: print(error, flush=True)
stop.close()
os.kill(os.getpid(), signal.SIGUSR1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_one_rank_stops_all_at_the_same_step(tmp_path, number):
    with Job(tmp_path, STOP, 3, int(number)) as job:
        assert job.codes() == [-signal.SIGUSR1] * 3, job.texts()
        told = f"stopped at 7 child {int(signal.SIGTERM)} True\nmake a StopSignal: this process has one already; use that, or destroy it (in Python, close())\n"
        assert [job.said(rank) for rank in range(3)] == [told] * 3


def test_a_stop_signal_whose_handlers_were_taken_says_so():
    stop = rota.torch.StopSignal(comm=None)
    assert not stop.requested()
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    with pytest.raises(rota.BusyError, match="has taken the handlers of SIGTERM"):
        stop.requested()
    stop.close()
    signal.signal(signal.SIGTERM, former)


DIFFER = """
import random
dataset = torch.utils.data.TensorDataset(torch.arange(40))
state = rota.ElasticBatchSampler(40, 8, world=(0, 1))
state.advance()
state = state.state_dict()
random.seed(rank)

def loader(data=range(40), **options): return rota.torch.DataLoader(data, rota.ElasticBatchSampler(len(data), 8, **options))
def own(): return rota.Loader(rota.PythonSource([{"x": i} for i in range(40)]), 8, epochs=None)
def shuffled(data): return random.sample(data, len(data))

def changed(make, change, go_on=lambda run: sum(1 for _ in run)):
    def run():
        run = make()
        if rank == 0: change(run)
        go_on(run)
    return run

def advance(run): return run.batch_sampler.advance()
changes = {
    "load": changed(loader, lambda run: run.load_state_dict(state)),
    "load, no for": changed(loader, lambda run: run.load_state_dict(state), advance),
    "set_epoch": changed(loader, lambda run: run.set_epoch(1)),
    "size": changed(loader, lambda run: run.batch_sampler.set_global_batch_size(4)),
    "sampler": changed(loader, lambda run: run.set_epoch(1), lambda run: list(run.batch_sampler)),
    "weights": changed(lambda: rota.ElasticBatchSampler([40, 40], 8, weights=[1, 1]), lambda run: run.set_weights([2, 1]), list),
    "own load": changed(own, lambda run: run.load_state_dict({"rota": own_state}), lambda run: next(iter(run))),
    "own seek": changed(own, lambda run: run.seek((1, 0, 5)), lambda run: next(iter(run))),
    "own size": changed(own, lambda run: run.set_global_batch_size(4), lambda run: next(iter(run))),
    "files": lambda: rota.ElasticBatchSampler(shuffled([f"{i}.jpg" for i in range(40)]), 8),
    "files of a loader": lambda: next(iter(loader(shuffled([f"{i}.jpg" for i in range(40)])))),
    "files of rota's": lambda: rota.Loader(rota.join([rota.PythonSource(shuffled([{"x": i} for i in range(40)]))]), 8),
    "random_split": lambda: rota.ElasticBatchSampler(
        torch.utils.data.random_split(dataset, [20, 20], torch.Generator().manual_seed(rank))[0], 8),
}
one = own()
one.next()
own_state = one.state_dict()["rota"]
one = loader()
assert [sum(1 for _ in one) for _ in range(2)] == [5, 5]  # what is the same goes on
for name, run in changes.items():
    try: print(name, "went on", run(), flush=True)
    except rota.MismatchError as error: print(name, "differs", flush=True)
"""


def test_ranks_compare_place_options_and_dataset_at_each_for_and_behind_each_change(tmp_path):
    with Job(tmp_path, DIFFER, 2) as job:
        assert job.codes(120) == [0, 0], job.texts()
        said = job.said(0).splitlines()
        assert len(said) == 13 and all(line.endswith(" differs") for line in said) and job.said(1) == job.said(0)


EARLY = """
os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))  # as torchrun does
sampler = rota.ElasticBatchSampler(40, 8, seed=rank)
init()
try: list(rota.torch.DataLoader(range(40), sampler))
except rota.MismatchError as error: print(error)
"""


def test_samplers_that_were_made_before_torch_knew_its_ranks_are_compared_at_the_first_for(tmp_path):
    with Job(tmp_path, EARLY, 2, init=False) as job:
        assert job.codes(60) == [0, 0] and "seed" in job.said(0) and "seed" in job.said(1), job.texts()
