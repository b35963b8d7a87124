"""What `./run bench peers` says of an epoch: the auditor's counts, the cells of its tables, and the row of rota.Loader."""

import os
import sys
import time
import xml.etree.ElementTree
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, os.environ["ROTA_ROOT"] + "/bench/peers")

import audit
import packers
import run
import show

# Nine samples, in batches of four, of two ranks; the last batch is padded.
WHOLE = [[[0, 1], [4, 5], [8, None]], [[2, 3], [6, 7], [None, None]]]
BEGUN = [[[0, 1]], [[2, 3]]]


def found(*phases):
    counts = audit.audit(9, WHOLE, phases)
    return [counts[name] for name in ("lost", "repeated", "others", "uneven", "ranks")]


def test_an_epoch_that_nobody_stopped_is_whole():
    assert audit.audit(9, WHOLE, [WHOLE]) == dict(lost=0, repeated=0, others=0, behind=0, uneven=False, pads=3, size=0, ranks=2)


def test_the_auditor_counts_what_became_of_each_sample():
    assert found(BEGUN, [[[7, 5, 6, 4], [8]]]) == [0, 0, 0, False, 1], "whichever rank has what"
    assert found(BEGUN, [[[4, 5]], [[6, 7]]]) == [1, 0, 1, False, 2], "one is lost, and a batch is missing"
    assert found(BEGUN, [[[4, 5], [8]], [[6, 7], [0]]]) == [0, 1, 1, False, 2], "one is repeated in place of padding"
    assert found(BEGUN, [[[4, 5], [6, 7], [8]]]) == [0, 0, 3, False, 1], "others together"
    assert found(BEGUN, [[[4, 5], [8]], [[6, 7]]]) == [0, 0, 0, True, 2], "a rank has a step less"
    assert found(BEGUN, [[[4, 5]], [[6, 7]]], [[[8]]]) == [0, 0, 0, False, 1], "two resumes"
    assert found([[[0, 2]], [[1, 6]]], [[[4, 5], [8]], [[3, 7]]]) == [0, 0, 2, True, 2], "others before the stop, too"
    assert found(BEGUN, [[[4, 5], [8, 99]], [[6, 7]]]) == [0, 0, 1, True, 2], "one that is of no epoch"


def test_a_cell_says_what_the_counts_are():
    counts = dict(lost=0, repeated=2, others=32, behind=32, uneven=True, pads=0, size=25, ranks=3)
    assert show.cell_of("x", "3 ranks", counts)[0] == "0 / 2 / all, of 25, uneven"
    assert show.cell_of("x", "not stopped", dict(counts, lost=16, repeated=0))[0] == "16 dropped, uneven"
    lossy = dict(counts, lost=16, others=0, uneven=False)
    colours = [show.outcome(*given)[1] for given in ((lossy,), (lossy, 16), (dict(lossy, repeated=3), 16))]
    assert colours == [show.BAD, show.NEAR, show.BAD], "dropped where nobody stopped, too, and with fewer copies than ranks"
    assert [show.cell_of("x", "3 ranks", {word: "why"})[0] for word in ("refused", "failed")] == ["refused", "failed"]
    turns = [dict(rate=rate) for rate in (1000, 9000, 2000)]
    assert show.cell_of("x", "1 KiB", {"1": turns, "2": turns, "memory": [{"memory": 2e6}]})[0] == "2.0 / 2.0 k, 2 MB"


def test_tables_go_to_the_page_between_their_marks_with_a_picture(tmp_path):
    page = tmp_path / "peers.md"
    page.write_text("before\n<!-- speed -->\nold\n<!-- end -->\nafter\n<!-- end -->\n")
    whole = {"1": [{"rate": 1000}] * 3, "2": [{"rate": 0}] * 3, "memory": [{"memory": 1e6}]}
    row = {"pins": ["x==1"], "1 KiB": whole, "JPEG": whole | {"1": [{"refused": "a & `b`"}]}, "first batch": {"0 %": 0.5}}
    missing = {"pins": [], "environment": {"failed": "no network"}}
    show.show("speed", {"date": "today", "rows": {"x": row, "y": missing}}, tmp_path, True)
    text = page.read_text()
    assert text.startswith("before\n<!-- speed -->\n") and text.endswith("<!-- end -->\nafter\n<!-- end -->\n") and "old" not in text
    assert "| x | 1.0 / 0.0 k, 1 MB | refused |" in text and "| x | 500 ms |" in text and "x==1" in text
    assert "- x: `a & 'b'`" in text and "- y: `no network`" in text
    xml.etree.ElementTree.parse(tmp_path / "peers-speed.svg")
    show.show("speed", {"date": "today", "rows": {"y": missing}}, tmp_path, False)  # where nothing could be installed


def test_a_peer_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "argv", ["run.py", "speed", "grain", "grian"])
    with pytest.raises(SystemExit, match="of datasets, .*grain, .*webdataset"):
        run.main()
    with pytest.raises(SystemExit, match="of rota.pack, best; .*Grain, "):
        run.pack(["grian"])


def test_a_run_of_some_leaves_the_figures_of_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "argv", ["run.py", "speed", "grain"])
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run.Peer, "prepare", lambda peer: "no network")
    run.main()
    assert [path.name for path in tmp_path.glob("*.json")] == ["speed-grain.json"]


class Packer:
    """Sequences of a document each, or a piece; a state of a rank is how many it gave."""

    done = 0

    def __init__(self, documents, rank, ranks, size):
        self.sequences = [one[k : k + size] for one in documents for k in range(0, len(one), size)][rank::ranks]

    def __iter__(self):
        for self.done in range(self.done + 1, len(self.sequences) + 1):
            yield self.sequences[self.done - 1]

    def state(self):
        return self.done

    def restore(self, states, rank):
        if states[rank] < 9:
            raise ValueError("too few")
        self.done = states[rank]


def test_packers_are_told_by_the_tokens_of_their_sequences(monkeypatch):
    documents = packers.Documents(400)
    assert documents.lengths.max() == 8192 and 500 < packers.np.median(documents.lengths) < 800
    packer = partial(Packer, size=1024)
    facts = packers.pack(documents, packer) | {"resumed": packers.resume(documents, packer)}
    assert facts["cut"] == ((documents.lengths > 1024) & (documents.lengths <= 2048)).sum() and facts["lost"] == 0 and facts["fill"] < 0.5
    assert facts["resumed"]["repeated"] > facts["resumed"]["lost"] == 0, "each rank counts in threes what was counted in fours"
    monkeypatch.setitem(packers.PACKERS, "x", packer)
    monkeypatch.setattr(packers, "Bridge", Packer)
    _, full, lost, cut, times, after = packers.cells("x", facts | dict(first=1, all=1e-6))
    assert (lost, cut, times) == ("0.0 %", f"{facts['cut'] / 4:.1f} %", "1736 h / 6.2 s") and after == f"0 / {facts['resumed']['repeated']}"
    refused = packers.resume(packers.Documents(9), packer)
    assert refused == {"refused": "ValueError: too few"} and packers.cells("x", facts | dict(resumed=refused))[-1] == "refused"


def is_running(process):
    try:
        return "Z (zombie)" not in Path("/proc", process, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def peer(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{run.HERE}:{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    here = run.Peer("rota")
    here.python = sys.executable
    here.write("tiny", run.SAMPLES, 16)
    return here


def test_rota_goes_on_in_any_world_with_the_same_batches(peer):
    told, _ = peer.phase(run.START)
    whole = [one["steps"] for one in told]
    for case in ("2 ranks, 0 workers", "7 ranks", "killed 5 steps later", "3, then 2 ranks"):
        counts = run.resumed(peer, whole, *run.CASES[case])
        assert show.outcome(counts) == ("0 / 0 / 0", show.GOOD, 1), case


def test_speed_counts_samples_behind_the_first_batch(peer, tmp_path):
    (told,), _ = peer.phase((1, 1), batch=250, seconds=2)
    assert told["rate"] > 0
    assert 0 < run.first_batches(peer, 1000, [50])["50 %"] < 20
    (tmp_path / "with_waits.py").write_text(
        "import time, base\n"
        "class Run(base.Run):\n"
        "    def __init__(self, place, states): time.sleep(0.5)\n"
        "    def __iter__(self):\n"
        "        for seconds, samples in [(1, 1000)] + [(0.1, 10)] * 5:\n"
        "            time.sleep(seconds)\n"
        "            yield [1] * samples + [None] * 10\n"
        "    def ids(self, batch): return batch\n"
    )
    peer.module = "with_waits"
    (told,), _ = peer.phase((1, 0), seconds=9)
    assert 30 < told["rate"] <= 100, "without padding"


@pytest.mark.skipif("san.so" in os.environ.get("LD_PRELOAD", ""), reason="the system is minutes about a sanitizer's memory")
def test_memory_is_what_the_loader_takes_and_shared_memory_is_freed(peer, tmp_path):
    (tmp_path / "with_takes.py").write_text(
        "import os, pathlib, signal, base\nfrom multiprocessing.shared_memory import SharedMemory\n"
        "imported = b'x' * (64 << 20)\n"
        "class Run(base.Run):\n"
        "    def __init__(self, place, states):\n"
        "        self.taken, self.shared = b'x' * (32 << 20), SharedMemory(create=True, size=1 << 20)\n"
        "        self.loader = [[]] * 9\n"
        "        pathlib.Path(place.data, 'shared').write_text(self.shared.name)\n"
        "        os.fork() or signal.pause()  # a worker\n"
        "    def ids(self, batch): return batch\n"
    )
    peer.module = "with_takes"
    (told,), _ = peer.phase((1, 0), seconds=2, stop=2)
    assert 32 << 20 <= told["memory"] < 48 << 20, "without what it imports"
    assert not Path("/dev/shm", (peer.data / "shared").read_text()).exists()


def test_who_fails_says_why_and_who_hangs_is_ended_with_what_it_began(peer, tmp_path):
    (peer.data / "samples.h5").write_bytes(b"")
    assert "samples.h5" in run.refusal(peer.phase((1, 1))[0])["refused"]
    (tmp_path / "with_hangs.py").write_text(
        "import os, pathlib, subprocess\nprint('what it said', flush=True)\n"
        "def Run(place, states):\n"
        "    child = subprocess.Popen(['sleep', '60'])\n"
        "    pathlib.Path(place.data, 'child').write_text(str(child.pid))\n"
        "    child.wait()\n"
    )
    peer.module = "with_hangs"
    assert run.refusal(peer.phase((1, 1), limit=5)[0]) == {"failed": "rank 0: no result: b'what it said\\n'"}
    child = (peer.data / "child").read_text()
    assert any(not is_running(child) or time.sleep(0.05) for _ in range(400)), "killed, it may take a moment to end"
    peer.write("tiny", run.SAMPLES, 16)
    assert "to write: " in run.refusal(peer.phase((1, 1))[0])["failed"]


def test_a_rank_stays_until_the_last_is_done(peer, tmp_path):
    (tmp_path / "with_stays.py").write_text(
        "import os, pathlib, time\n"
        "def Run(place, states):\n"
        "    pid, first = pathlib.Path(place.data, 'pid'), pathlib.Path(place.result).with_name('result0')\n"
        "    if place.rank == 0:\n"
        "        pid.write_text(str(os.getpid()))\n"
        "        raise ValueError('done')\n"
        "    while not first.exists():\n"
        "        time.sleep(0.01)\n"
        "    time.sleep(0.5)\n"
        "    os.kill(int(pid.read_text()), 0)\n"
        "    raise ValueError('it is here')\n"
    )
    peer.module = "with_stays"
    told, _ = peer.phase((2, 0), limit=20)
    assert told[1]["refused"] == "ValueError: it is here", "for it may hold the store of their group"
