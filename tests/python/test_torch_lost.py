"""Ranks of torch.distributed that are killed, that hang, or that come late: who is named, when, and what goes on then."""

import gzip
import random
import re
import signal
import time

import pytest

pytest.importorskip("torch", minversion="2")
from torch_jobs import Job  # noqa: E402

LOOP = """
deadline, kind, victim = float(sys.argv[4]), sys.argv[5], int(sys.argv[6])
comm = rota.torch.Communicator(deadline=deadline)
if kind == "streams":
    loader = rota.StreamLoader(Endless(), 8, comm=comm, deadline=deadline)
    calls = [loader.next]
elif kind == "samples":
    loader = rota.Loader(rows(), 8, comm=comm, on_bad_sample="skip", max_skipped=10**6, deadline=deadline)
    calls = [loader.next]
elif kind == "dispatch":
    loader = rota.StreamLoader(dispatch(), 8, comm=comm, deadline=deadline)
    calls = [loader.next]
elif kind == "saves":
    directory = rota.CheckpointDirectory(comm, path + "/checkpoints", deadline=deadline)
    calls = [lambda: directory.save(1, {"w": rota.Rows(np.zeros(3))}), directory.latest]
else:
    calls = [lambda: comm._require_same("compare", "the same"), lambda: comm._agree("agree", None)]
for step in range(10**9):
    if step == 10: print("at 10", flush=True)
    if step >= 10 and os.path.exists(path + "/late") and rank == victim: time.sleep(2 * deadline)
    try:
        for call in calls: call()
    except rota.TimeoutError as error:
        print("timeout", time.time(), error, flush=True)
        break
for _ in range(3):
    for call in calls:
        begun = time.time()
        try: call()
        except rota.TimeoutError as error: print("again", time.time() - begun, error)
print("end", flush=True)
if rank != victim: time.sleep(min(2 * deadline, 6))  # those who give up later would miss it
"""
KINDS = "streams", "samples", "dispatch", "saves", "calls"


def job(directory, kind, victim, deadline=60, **environment):
    return Job(directory, LOOP, 3, deadline, kind, victim, **environment)


def timeout_of(told, is_store_gone=False):
    """When a rank gave up, and the words; all that it tries later is refused at once."""
    said, complained = told
    [line] = [line for line in said.splitlines() if line.startswith("timeout ")]
    again = [line.split(" ", 2) for line in said.splitlines() if line.startswith("again ")]
    assert len(again) in (3, 6) and max(float(seconds) for _, seconds, _ in again) < 1, said
    assert said.endswith("end\n") and (is_store_gone or complained == ""), told  # of which torch says much
    _, when, words = line.split(" ", 2)
    return float(when), words


VICTIMS = [(0, {}), (2, {}), (2, {"MEET_AT_RANK_0": 1}), (0, {"MEET_AT_RANK_0": 1})]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim, meeting", VICTIMS)
def test_a_rank_that_is_killed_is_named_on_all_others_at_once(tmp_path, kind, victim, meeting):
    has_no_store = victim == 0 and meeting != {}
    with job(tmp_path, kind, victim, **meeting) as ranks:
        for rank in range(3):
            ranks.wait_until_it_says(rank, "at 10")
        killed = ranks.signal(victim, signal.SIGKILL)
        codes = ranks.codes()
        for rank, told in enumerate(ranks.texts()):
            if rank == victim:
                continue
            when, words = timeout_of(told, has_no_store)
            named = re.search(r"ranks? ([0-9, ]+) cannot be reached any more", words)
            # Where the store goes, too, nobody can be told, and one that ended for it may be missed as well.
            assert named and (str(victim) in named[1].split(", ") if has_no_store else named[1] == str(victim)), (rank, words)
            assert when - killed < 10 and codes[rank] == 0, (rank, when - killed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim, meeting", VICTIMS)
def test_a_rank_that_hangs_is_named_by_the_deadline_and_told_when_it_comes_late(tmp_path, kind, victim, meeting):
    has_no_store = victim == 0 and meeting != {}
    with job(tmp_path, kind, victim, deadline=3, **meeting) as ranks:
        for rank in range(3):
            ranks.wait_until_it_says(rank, "at 10")
        stopped = ranks.signal(victim, signal.SIGSTOP)
        others = [rank for rank in range(3) if rank != victim]
        for rank in others:
            ranks.wait_until_it_says(rank, "end")
            when, words = timeout_of(ranks.texts()[rank], has_no_store)
            assert f"rank {victim} did not arrive before the deadline" in words, words
            assert 2.5 < when - stopped < (15 if has_no_store else 10)
        ranks.signal(victim, signal.SIGCONT)
        assert ranks.codes() == [0, 0, 0], ranks.texts()
        when, words = timeout_of(ranks.texts()[victim], has_no_store)
        assert has_no_store or f"rank {victim} did not arrive before the deadline" in words, words


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_comes_late_is_told(tmp_path, kind):
    with job(tmp_path, kind, 1, deadline=3) as ranks:
        ranks.wait_until_it_says(1, "at 10")
        (tmp_path / "late").touch()
        assert ranks.codes() == [0, 0, 0], ranks.texts()
        for told in ranks.texts():
            assert "rank 1 did not arrive before the deadline" in timeout_of(told)[1], told


def test_a_late_rank_names_the_one_that_was_killed_and_not_those_that_left_since(tmp_path):
    code = """
    comms = [rota.torch.Communicator() for _ in range(2)]
    print("made", flush=True)
    time.sleep((0, 6, 600)[rank])
    try: comms[rank == 0]._agree("agree", None)
    except rota.TimeoutError as error: print(error)
    """
    with Job(tmp_path, code, 3) as ranks:
        for rank in range(3):
            ranks.wait_until_it_says(rank, "made")
        ranks.signal(2, signal.SIGKILL)
        assert ranks.codes()[:2] == [0, 0], ranks.texts()
        for rank in range(2):
            assert "rank 2 cannot be reached any more" in ranks.said(rank), ranks.texts()


CALLS = """
comm = rota.torch.Communicator()
one, two, path = rota.CheckpointDirectory(comm, path + "/a"), rota.CheckpointDirectory(comm, path + "/b"), path + "/a"
for first, other in (
    (lambda: one.save(3, {"x": np.zeros(3)}), one.latest), (one.latest, one.list), (lambda: one.open(1), lambda: one.open(2)),
    (lambda: comm._gather("gather", "x" * 999), lambda: comm._require_same("compare", "x")),
    (lambda: rota.torch.StopSignal(comm).requested(), lambda: comm.data_parallel(rank)),
    (lambda: rota.ElasticBatchSampler(40, 4), lambda: rota.Loader(rows(), 4)),
):
    try: (first if rank == 0 else other)()
    except rota.MismatchError as error: print(error)
print(comm._gather("gather", "x"))
"""


def test_ranks_in_different_calls_name_them_and_go_on(tmp_path):
    with Job(tmp_path, CALLS, 3) as ranks:
        assert ranks.codes() == [0, 0, 0], ranks.texts()
        for rank in range(3):
            *told, gathered = ranks.said(rank).splitlines()
            assert gathered == "['x', 'x', 'x']" and len(told) == 6, ranks.texts()
            assert all(line.startswith("ranks are in different calls: rank 0 in ") for line in told), told
            assert 'rank 0 in "save a checkpoint", ranks 1, 2 in "look for the latest checkpoint"' in told[0]


@pytest.mark.parametrize("absent, told", [("12", "make a communicator: waits for ranks 1, 2,"), ("0", "make samplers: waits for rank 0,")])
def test_a_long_wait_is_told_by_one_rank_with_the_users_line(tmp_path, absent, told):
    code = """
    if sys.argv[4] == "0": rota.ElasticBatchSampler(40, 4)  # of all
    if str(rank) not in sys.argv[4]: rota.ElasticBatchSampler(40, 4)
    time.sleep(60)
    """
    first = 1 if absent == "0" else 0
    with Job(tmp_path, code, 3, absent) as ranks:
        until = time.monotonic() + 60
        while not ranks.complained(first) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)  # others would say it by now, and this one again
        [line] = ranks.complained(first).splitlines()
        assert line.startswith(told) and "world=(0, 1)" in line and re.search(r"\(<string>:\d+\)$", line), line
        assert [ranks.complained(rank) for rank in range(3) if rank != first] == ["", ""]


def test_a_rank_that_stops_while_ranks_connect_is_named_by_the_deadline(tmp_path):
    code = """
    comm = rota.torch.Communicator(deadline=3)
    if rank == 1: rota._torch_ranks.Group.split = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)
    begun = time.time()
    try: rota.CheckpointDirectory(comm, path + "/c", deadline=3)
    except rota.TimeoutError as error: print(time.time() - begun, error, flush=True)
    time.sleep(3)  # the other one may still ask
    """
    with Job(tmp_path, code, 3) as ranks:
        for rank in (0, 2):
            assert ranks.processes[rank].wait(timeout=90) == 0, ranks.texts()
            seconds, _, words = ranks.said(rank).partition(" ")
            assert float(seconds) < 15 and "rank 1 did not arrive before the deadline" in words, ranks.texts()


def test_a_rank_that_does_not_make_a_communicator_is_named(tmp_path):
    code = """
    if rank == 1:
        time.sleep(4)
    try: rota.torch.Communicator(deadline=2)
    except rota.TimeoutError as error: print(error)
    """
    with Job(tmp_path, code, 3) as ranks:
        assert ranks.codes() == [0, 0, 0], ranks.texts()
        assert all("make a communicator: rank 1 did not arrive" in ranks.said(rank) for rank in (0, 2)), ranks.texts()


SHARED = """
import json
catalog = rota.Catalog(path + "/data", comm=dist.group.WORLD)
loader = rota.Loader(rota.open(catalog), 6, shuffle="within", shards=30, interleave=2, epochs=5, world=(0, 1), workers=2)
whole, step = loader.run.copy(), 0
dist.barrier()
print("here", flush=True)

def ask():
    if rank < 2 and step < 10: time.sleep(0.02)  # while rank 2 goes through all files
    return (step, rank, 3) if rank == 2 or step < 10 else (step, rank, 2)

for batch in rota.Members(loader, ask):
    assert [*batch.ids] == [*whole.at(step).slice(ask()[1:]).ids]
    step += 1
if rank == 2: time.sleep(100)
os._exit(0)  # gloo would wait for the dead
"""


@pytest.mark.parametrize("wait", [0, 0.01, 0.03, 0.06, 0.1])
def test_a_member_that_is_killed_stops_nobody_who_shares_files_with_it(tmp_path, wait):
    (tmp_path / "data").mkdir()
    for i in range(30):
        with gzip.open(tmp_path / "data" / f"{i}.jsonl.gz", "wt") as file:
            file.writelines(f"{i} {j} {random.randbytes(50_000).hex()}\n" for j in range(12))
    with Job(tmp_path, SHARED, 3) as job:
        for rank in range(3):
            job.wait_until_it_says(rank, "here")
        time.sleep(wait)
        killed = job.signal(2, signal.SIGKILL)
        assert job.codes(60) == [0, 0, -9], job.texts()
        assert time.time() - killed < 20
