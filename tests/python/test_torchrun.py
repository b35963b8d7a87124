"""Runs under torchrun that are killed, and go on with other numbers of processes; see torch_elastic.py."""

import json
import pathlib

import pytest
from runs import audit

pytest.importorskip("torch", minversion="2")
import torch_elastic  # noqa: E402
from torch_jobs import torchrun  # noqa: E402

PROGRAM = pathlib.Path(__file__).with_name("torch_elastic.py")


def run(directory, kind, ranks, *options, fails=False):
    directory.mkdir(exist_ok=True)
    code, output = torchrun(ranks, directory, PROGRAM, directory, kind, *options)
    assert (code != 0) == fails, output


def losses(directory):
    """Of each step, by the ranks that did it last; and how many these were."""
    steps = {}
    for path in directory.glob("history.*"):
        for done in map(json.loads, path.read_text().splitlines()):
            steps.setdefault(done["step"], {}).setdefault(done["ranks"], []).append(done["loss"])
    return steps


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of an undisturbed run of one process, by kind."""
    found = {}

    def run_alone(kind):
        if kind not in found:
            directory = tmp_path_factory.mktemp("alone") / kind
            run(directory, kind, 1)
            found[kind] = {step: by[1][0] for step, by in losses(directory).items()}
        return found[kind]

    return run_alone


CASES = [
    ("samples", "save", ()), ("streams", "save_async", ()), ("dispatch", "save", ()),
    ("samples", "save_async", ("--left-out",)), ("streams", "save", ("--left-out",)), ("dispatch", "save_async", ("--left-out",)),
]  # fmt: skip


@pytest.mark.parametrize("kind, save, options", CASES)
def test_a_run_of_4_3_2_and_5_processes_that_is_killed_delivers_each_sample_once(tmp_path, alone, kind, save, options):
    moved, options = tmp_path / "run", ("--save", save, *options)
    run(moved, kind, 4, "--kill", 2, 5, *options, fails=True)
    run(moved, kind, 3, "--stop-after", 9, *options)
    run(moved, kind, 2, "--kill", 0, 16, *options, fails=True)
    run(moved, kind, 5, *options)
    told = audit(moved / "traces", "--samples", torch_elastic.SAMPLES, "--epochs", torch_elastic.EPOCHS, "--complete")
    assert told.returncode == 0, told.stdout
    steps = losses(moved)
    assert list(map(sorted, (steps[0], steps[4], steps[8], steps[10], steps[max(steps)]))) == [[4], [3, 4], [3], [2], [5]]
    if kind == "streams":  # whose batches depend on the world
        return
    for step, loss in alone(kind).items():
        for ranks, theirs in steps[step].items():
            assert theirs == pytest.approx([loss] * len(theirs), abs=1e-9), (step, ranks)
