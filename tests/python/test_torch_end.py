"""How processes of torch.distributed end, with rota's objects in any state: with their code, and not a word too many."""

import signal
import time

import pytest

pytest.importorskip("torch", minversion="2")
from torch_jobs import Job  # noqa: E402

TIMES = 8  # of what is a race


def taken(loader):
    """A program that takes five batches of it."""
    return f"\ncomm = rota.torch.Communicator(deadline=20)\nloader = {loader}\nfor _ in range(5): batch = loader.next()\n"


STREAM = taken("rota.StreamLoader(Endless(), 8, comm=comm, deadline=20)")
SAMPLES = taken('rota.Loader(rows(), 8, comm=comm, on_bad_sample="skip", max_skipped=10**6, deadline=20, workers=2)')
DISPATCH = taken("rota.StreamLoader(dispatch(), 8, comm=comm, deadline=20)")
SAVE = """
comm = rota.torch.Communicator(deadline=20)
directory = rota.CheckpointDirectory(comm, path + "/checkpoints", deadline=20)
directory.save_async(1, {"w": rota.Rows(np.full(300_000, rank))})
"""
STATES = {
    "a group": "comm = rota.torch.Communicator()",
    "groups": "comm = rota.torch.Communicator(); parts = comm.data_parallel(rank), rota.torch.world(), rota.torch.Communicator()",
    "a stream": STREAM,
    "samples": SAMPLES,
    "a dispatch": DISPATCH,
    "a save": SAVE,
    "a stream whose ranks are found late": "loader = rota.StreamLoader(Numbers(), 8); loader.next()",
    "all": STREAM + SAMPLES.replace("loader", "second") + DISPATCH.replace("loader", "third") + SAVE,
}
ENDS = {
    "falls off": "",
    "objects die first": "loader = second = third = directory = comm = parts = batch = None; dist.destroy_process_group()",
    "objects die later": "dist.destroy_process_group(); loader = second = third = directory = comm = parts = batch = None",
    "objects never die": "dist.destroy_process_group(); import builtins; builtins.kept = dict(globals())",
    "cycle": "cycle = [dict(globals())]; cycle.append(cycle)",
    "exit 3": "sys.exit(3)",
}


def end(directory, code, codes, ranks=2, times=1, quiet=True, **options):
    """What the ranks of each of some jobs said last, which ended with `codes` and without more words than expected."""
    for number in range(times):
        with Job(directory / str(number), code, ranks, **options) as job:
            found = job.codes(90)
            texts = job.texts()
            for rank, (_, complained) in enumerate(texts):
                assert "terminate called" not in complained and "Fatal Python error" not in complained, (number, complained)
                assert not quiet or complained == "", (number, rank, complained)
            assert found == codes, (number, found, texts)
    return texts


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("state", STATES)
def test_a_job_ends_in_order_whatever_is_under_way(tmp_path, state, how):
    code = 3 if how == "exit 3" else 0
    end(tmp_path, STATES[state] + "\n" + ENDS[how], [code, code])


@pytest.mark.parametrize("how", ["falls off", "objects never die"])
def test_a_job_ends_in_order_at_any_time(tmp_path, how):
    end(tmp_path, f"{STATES['all']}\ntime.sleep(np.random.rand() * 0.1)\n{ENDS[how]}", [0, 0], times=TIMES)


@pytest.mark.parametrize("state", ["a stream", "a dispatch", "a save", "samples"])
def test_an_exception_on_one_rank_ends_it_and_the_others_name_it(tmp_path, state):
    code = (
        STATES[state]
        + """
if rank == 1: raise ValueError("mine")
try:
    if "directory" in globals(): directory.wait(); directory.save(2, {}); directory.save(3, {})
    while True: loader.next()
except rota.TimeoutError as error: print(error)
"""
    )
    for number in range(TIMES // 2):
        (first, _), (_, complained) = end(tmp_path / str(number), code, [0, 1], quiet=False)
        assert "rank 1 " in first and "ValueError: mine" in complained.splitlines()[-1], (first, complained)


@pytest.mark.parametrize("state", ["a stream", "a dispatch", "a save", "samples", "a group"])
@pytest.mark.parametrize("leaver", [0, 1])
def test_a_rank_that_ends_while_others_wait_is_named(tmp_path, state, leaver):
    code = (
        STATES[state]
        + f"""
begun = time.monotonic()
if rank == {leaver}: sys.exit(0)
try:
    if "directory" in globals(): directory.wait(); directory.save(2, {{}}); directory.save(3, {{}})
    if "loader" not in globals(): comm.data_parallel(0)
    while True: loader.next()
except rota.TimeoutError as error: print(error, "after", "at once" if time.monotonic() - begun < 10 else "long")
"""
    )
    said = end(tmp_path, code, [0, 0, 0], ranks=3)
    assert all(f"rank {leaver} " in said[rank][0] for rank in range(3) if rank != leaver), said
    assert all(said[rank][0].endswith("after at once\n") for rank in range(3) if rank != leaver), said


@pytest.mark.parametrize("state", ["a stream", "a dispatch", "samples"])
def test_ctrl_c_of_all_ends_all(tmp_path, state):
    code = STATES[state] + "\nprint('ready', flush=True)\nwhile True: loader.next()"
    for number in range(TIMES // 2):
        with Job(tmp_path / str(number), code, 2) as job:
            for rank in range(2):
                job.wait_until_it_says(rank, "ready")
            for rank in range(2):
                job.signal(rank, signal.SIGINT)
            codes, texts = job.codes(), job.texts()
            assert -signal.SIGINT in codes and set(codes) <= {-signal.SIGINT, 1}, (codes, texts)
            for _, complained in texts:
                last = complained.splitlines()[-1]
                assert last.endswith("KeyboardInterrupt") or "rota._errors.TimeoutError" in last, complained
                assert "terminate called" not in complained and "Fatal Python error" not in complained


CAUGHT = """
if rank == 1: time.sleep(5); sys.exit(0)
wait = lambda: loader.next() if "loader" in globals() else comm._agree("meet", None)
print("ready", flush=True)
try:
    while True: wait()
except KeyboardInterrupt: pass
for _ in range(3):
    try: wait()
    except rota.TimeoutError as error: print("given up before" in str(error))
"""


@pytest.mark.parametrize("state", ["a stream", "samples", "a group"])
def test_ranks_are_of_no_use_after_a_ctrl_c_that_was_caught(tmp_path, state):
    for number in range(2):
        with Job(tmp_path / str(number), STATES[state] + CAUGHT, 2) as job:
            job.wait_until_it_says(0, "ready")
            time.sleep(0.3 + number / 30)
            job.signal(0, signal.SIGINT)
            assert job.codes() == [0, 0] and job.said(0) == "ready\n" + "True\n" * 3, job.texts()
