"""The programs examples/python/with_*.py under torchrun: killed, gone on with fewer processes, each sample once an epoch."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch", minversion="2")
from torch_jobs import torchrun  # noqa: E402

RUN = os.path.join(os.path.dirname(__file__), "trainer_run.py")
NEEDS = {"fsdp": [], "lightning": ["lightning"], "fabric": ["lightning"], "accelerate": ["accelerate"], "transformers": ["transformers", "accelerate"]}
VALIDATE = "lightning", "fabric"  # by the model, with another number of samples on each rank
STEPS = 8  # of an epoch, of which there are three


def train(directory, name, ranks, start, kill="no"):
    """The global batches of one start, in order: ids, and the mean of losses. And how often it validated, each sample once."""
    log = directory / f"log{start}"
    code, output = torchrun(ranks, directory, RUN, log, kill, os.path.join(os.environ["ROTA_EXAMPLES"], f"with_{name}.py"), directory)
    assert (code != 0) == (kill != "no"), output

    def batches(kind):
        parts = [[*map(json.loads, Path(f"{log}.{rank}{kind}").read_text().splitlines())] for rank in range(ranks)]
        return [(sorted(sum((part["ids"] for part in batch), [])), sum(part["loss"] for part in batch) / ranks) for batch in zip(*parts)]

    trained, validated = batches(""), batches(".valid")
    for at in range(len(validated) % 3, len(validated), 3):  # behind two batches of Lightning's, which tries whether it can
        assert sorted(sum((ids for ids, _ in validated[at : at + 3]), [])) == [*range(34)]
    return trained, len(validated) // 3


@pytest.mark.parametrize("name", NEEDS)
def test_a_run_that_is_killed_goes_on_with_fewer_processes(tmp_path, name):
    for package in NEEDS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"there is no {package}")
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole, validations = train(tmp_path / "whole", name, 1, 0)
    assert len(whole) == 3 * STEPS and validations == 3 * (name in VALIDATE)
    for epoch in range(3):
        assert sorted(sum((ids for ids, _ in whole[epoch * STEPS : (epoch + 1) * STEPS]), [])) == [*range(96)]
    # In the middle of an epoch; behind an epoch's last batch; in the middle of the next one.
    at = 0
    for start, (ranks, kill, saved) in enumerate([(4, "2:7", 4), (3, "0:6", 8), (3, "1:7", 12), (2, "no", 24)]):
        done, validations = train(tmp_path / "killed", name, ranks, start, kill)
        assert name not in VALIDATE or validations >= (at + len(done)) // STEPS - at // STEPS
        ids = [ids for ids, _ in whole]
        assert [ids for ids, _ in done] == ids[at : at + len(done)], (start, at)
        assert [loss for _, loss in done] == pytest.approx([loss for _, loss in whole[at : at + len(done)]], abs=1e-5)
        assert at + len(done) >= saved
        at = saved
