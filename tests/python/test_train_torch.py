"""examples/python/train_torch.py under torchrun: killed, resumed with fewer processes, the same losses."""

import json
import os
from collections import Counter

import pytest

pytest.importorskip("torch")
from torch_jobs import torchrun  # noqa: E402

EXAMPLE = os.path.join(os.environ["ROTA_EXAMPLES"], "train_torch.py")
EPOCHS, SAMPLES = 3, 200


def train(ranks, directory, *options):
    """The exit code of a run of `ranks` processes, which goes on from what is in `directory`."""
    return torchrun(
        ranks, directory, EXAMPLE, "--checkpoint", directory / "run.pt", "--history", directory / "log", *options
    )


def logged(directory):
    """The loss of each step, and what was read in it: by those that did it last."""
    steps = {}
    for path in sorted(directory.glob("log.*")):
        for step in map(json.loads, path.read_text().splitlines()):
            steps.setdefault(step["step"], []).append(step)
    return steps


def test_a_killed_run_goes_on_with_fewer_processes_and_the_same_losses(tmp_path):
    alone, moved = tmp_path / "alone", tmp_path / "moved"
    for directory, ranks, options, is_killed in (alone, 1, (), False), (moved, 4, ("--kill", 2, 8), True):
        directory.mkdir()
        code, output = train(ranks, directory, *options)
        assert (code != 0) == is_killed, output
    for path in moved.glob("log.*"):  # steps past the last checkpoint are done again
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if json.loads(line)["step"] < 5))
    for ranks, options in [(3, ("--stop-after", 13, "--workers", 1)), (2, ())]:
        code, output = train(ranks, moved, *options)
        assert code == 0, output
    expected, steps = logged(alone), logged(moved)
    assert steps.keys() == expected.keys() == set(range(EPOCHS * 9))
    assert [len(steps[step]) for step in (4, 5, 12, 13)] == [4, 3, 3, 2]
    for step, ranks in steps.items():
        assert [part["loss"] for part in ranks] == pytest.approx([expected[step][0]["loss"]] * len(ranks), abs=1e-6)
    seen = Counter(tuple(sample) for ranks in steps.values() for part in ranks for sample in part["seen"])
    assert seen == Counter((epoch, id) for epoch in range(EPOCHS) for id in range(SAMPLES))
