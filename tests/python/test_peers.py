"""What `./run bench peers` says of an epoch: the auditor's counts, the cells of its tables, and the row of rota.Loader."""

import os
import sys

import pytest

sys.path.insert(0, os.environ["ROTA_ROOT"] + "/bench/peers")

import audit
import run
import show

# Nine samples, in batches of four, of two ranks; the last batch is padded.
WHOLE = [[[0, 1], [4, 5], [8, None]], [[2, 3], [6, 7], [None, None]]]
BEGUN = [[[0, 1]], [[2, 3]]]


def found(*phases):
    counts = audit.audit(9, WHOLE, phases)
    return [counts[name] for name in ("lost", "repeated", "others", "uneven")]


def test_an_epoch_that_nobody_stopped_is_whole():
    assert audit.audit(9, WHOLE, [WHOLE]) == dict(lost=0, repeated=0, others=0, steps=3, uneven=False, pads=3, size=0)


def test_the_auditor_counts_what_became_of_each_sample():
    assert found(BEGUN, [[[7, 5, 6, 4], [8]]]) == [0, 0, 0, False], "whichever rank has what"
    assert found(BEGUN, [[[4, 5]], [[6, 7]]]) == [1, 0, 1, False], "one is lost, and a batch is missing"
    assert found(BEGUN, [[[4, 5], [8]], [[6, 7], [0]]]) == [0, 1, 1, False], "one is repeated in place of padding"
    assert found(BEGUN, [[[4, 5], [6, 7], [8]]]) == [0, 0, 3, False], "others together"
    assert found(BEGUN, [[[4, 5], [8]], [[6, 7]]]) == [0, 0, 0, True], "a rank has a step less"
    assert found(BEGUN, [[[4, 5]], [[6, 7]]], [[[8]]]) == [0, 0, 0, False], "two resumes"


def test_a_cell_says_what_the_counts_are():
    counts = dict(lost=0, repeated=2, others=32, steps=42, uneven=True, pads=0, size=25)
    assert show.cell_of("x", "3 ranks", counts)[0] == "0 / 2 / all, of 25, uneven"
    assert show.cell_of("x", "not stopped", dict(counts, lost=16, repeated=0))[0] == "16 dropped"
    assert show.cell_of("x", "3 ranks", {"refused": "why"})[0] == "refused"
    turns = [dict(rate=rate, memory=2e6) for rate in (1000, 9000, 2000)]
    assert show.cell_of("x", "1 KiB", {"1": turns, "2": turns})[0] == "2.0 / 2.0 k, 2 MB"


@pytest.fixture
def peer(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    monkeypatch.setattr(run, "BUILD", tmp_path)
    here = run.Peer("rota")
    here.python = sys.executable
    assert here.write("tiny", run.SAMPLES, 16) is None
    return here


def test_rota_goes_on_in_any_world_with_the_same_batches(peer):
    told, _ = peer.phase(run.START)
    whole = [one["steps"] for one in told]
    for case in ("2 ranks, 0 workers", "7 ranks", "killed 5 steps later", "3, then 2 ranks"):
        counts = run.resumed(peer, whole, **run.CASES[case])
        assert show.outcome(counts) == ("0 / 0 / 0", show.GOOD, 1), case


def test_who_does_not_end_hangs_and_who_fails_says_why(peer):
    told, _ = peer.phase((2, 1), limit=0.2)
    assert run.refusal(told) == "rank 0: it hangs"
    (peer.data / "samples.h5").write_bytes(b"")
    told, _ = peer.phase((1, 1))
    assert "samples.h5" in run.refusal(told)
