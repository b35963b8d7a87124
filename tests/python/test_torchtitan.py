"""torchtitan's own Trainer with examples/python/with_torchtitan.py: killed, and gone on with other degrees."""

import itertools
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", minversion="2.11")
from torch_jobs import beside, torchrun  # noqa: E402

JOB = Path(__file__).with_name("torchtitan_job.py")
DOCUMENTS = [[2 + id, *random.Random(id).choices(range(400, 2000), k=random.Random(id).randint(4, 60))] for id in range(300)]
IGNORED = -100


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    directory = tmp_path_factory.mktemp("documents")
    lengths = np.array([*map(len, DOCUMENTS)], np.int32)
    starts = 2 * (np.cumsum(lengths, dtype=np.int64) - lengths)
    head = b"MMIDIDX\0\0" + np.uint64(1).tobytes() + b"\x08" + np.array([300, 301], np.uint64).tobytes()
    (directory / "a.idx").write_bytes(head + lengths.tobytes() + starts.tobytes() + np.arange(301, dtype=np.int64).tobytes())
    (directory / "a.bin").write_bytes(np.concatenate(DOCUMENTS).astype(np.uint16).tobytes())
    return directory


def train(directory, documents, ranks, rows, kill="no"):
    """What each step of one start gave to the model, in order: [(step, loss, pairs)]; and what was validated."""
    log = directory / "log"
    code, output = torchrun(ranks, directory, JOB, log, kill, documents, directory / "run", rows)
    assert (code != 0) == (kill != "no"), output
    told = [[*map(json.loads, Path(f"{log}.{rank}").read_text().splitlines())] for rank in range(ranks)]
    steps, validated = [], [(line["step"], line["loss"]) for line in told[0] if line["kind"] == "validated"]
    for lines in told:
        parts, at = [], 0
        for line in lines:
            if line["kind"] == "part":
                assert len(line["inputs"]) == rows
                parts.append(line)
            elif line["kind"] == "step":
                if lines is told[0]:
                    steps.append((line["step"], line["loss"], Counter()))
                assert steps[at][:2] == (line["step"], line["loss"])
                steps[at][2].update(pair for part in parts for pair in pairs(part))
                parts, at = [], at + 1
    valid = {}
    for line in sum(told, []):
        if line["kind"] == "valid":
            valid.setdefault(line["number"], []).extend(line["ids"])
    assert len(valid) in (len(validated), len(validated) + 1)  # one that was begun when all ended
    for ids in [*valid.values()][: len(validated)]:
        assert sorted(ids) == [*range(len(ids))]
    if kill == "no":  # all ended behind the same step
        assert {sum(line["kind"] == "step" for line in lines) for lines in told} == {len(steps)}
    return steps, validated


def pairs(part):
    """(token, next one, position) of each that is trained."""
    rows = zip(*(itertools.chain(*part[name]) for name in ("inputs", "labels", "positions")))
    return [row for row in rows if row[1] != IGNORED]


def test_a_run_that_is_killed_goes_on_with_other_degrees_and_accumulations(tmp_path, documents, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([beside("titan"), *sys.path]))
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole, validated = train(tmp_path / "whole", documents, 4, 3)
    assert [step for step, *_ in whole] == [*range(1, len(whole) + 1)] and len(whole) % 2 == 0
    wanted = Counter((*pair, at) for one in DOCUMENTS for at, pair in enumerate(itertools.pairwise([*one, 1])))
    for epoch in range(2):
        steps = whole[epoch * len(whole) // 2 : (epoch + 1) * len(whole) // 2]
        assert sum((given for *_, given in steps), Counter()) == wanted
    assert [step for step, _ in validated] == [1, *range(10, len(whole) + 1, 10)]

    first, found = 0, []
    for ranks, rows, kill in (4, 3, "2:7"), (3, 1, f"1:{len(whole) // 2}"), (2, 3, "no"):
        steps, more = train(tmp_path / "killed", documents, ranks, rows, kill)
        found += more
        for step, loss, given in steps:
            assert given == whole[step - 1][2]
            assert loss == pytest.approx(whole[step - 1][1], rel=1e-4)
        assert first < steps[0][0] <= steps[-1][0]
        first = steps[0][0]
    assert steps[-1][0] == len(whole)
    assert {step: loss for step, loss in found} == pytest.approx(dict(validated), rel=1e-4)
