"""`rota speed --generate`: data of published workloads, by any number of processes."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import rota
from rota import _generate


def tool(*arguments, **more):
    environment = os.environ | {"ROTA_PYTHON": sys.executable} | more
    return subprocess.run([os.environ["ROTA_TOOL"], "speed", *map(str, arguments)], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("shape, gib, samples", [("retinanet", 0.02, 66), ("flux", 0.05, 24), ("dlrm", 0.02, 33)])
def test_data_of_a_shape_are_as_many_different_bytes(tmp_path, shape, gib, samples):
    said = tool(tmp_path / "data", "--shape", shape, "--generate", gib)
    assert said.returncode == 0 and f"{samples} samples of {shape}" in said.stdout, said
    source = rota.open(tmp_path / "data")
    size = _generate.SHAPES[shape][0]
    assert len(source) == samples and all(len(source[i]["data"]) == size for i in (0, samples - 1))
    blocks = {bytes(source[i]["data"][at : at + 4096]) for i in (0, 1) for at in range(0, size - 4096, 4096)}
    assert len(blocks) == 2 * ((size - 1) // 4096)
    steps = samples // 4
    ended = tool(tmp_path / "data", "--shape", shape, "--batch", 4, "--step-ms", 1500 // steps, "--epochs", 1, "--seconds", 1)
    assert ended.returncode == 0 and f"{steps} steps, each of 4 samples and {1500 // steps} ms" in ended.stdout, ended
    assert f"take batches: {steps - 1} in " in ended.stderr, "long work shows its progress"


def test_sizes_of_unet3d_are_spread_as_published():
    sizes = np.array(_generate.sizes_of("unet3d", 500 * 2**30))
    assert len(sizes) == round(500 * 2**30 / 146_600_628) and abs(sizes.mean() / 146_600_628 - 1) < 0.02
    assert abs(sizes.std() / 68_341_808 - 1) < 0.05 and sizes.min() > 0


def test_several_processes_write_a_part_each(tmp_path):
    for rank, said in (1, ""), (0, "66 of 66 files are there"):
        ended = tool(tmp_path / "data", "--shape", "retinanet", "--generate", 0.02, RANK=str(rank), WORLD_SIZE="2")
        assert ended.returncode == 0 and said in ended.stdout, ended
    assert len(rota.open(tmp_path / "data")) == 66


def test_what_cannot_be_generated_is_told(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("x")
    ended = tool(tmp_path / "data", "--shape", "retinanet", "--generate", 0.02)
    assert ended.returncode == 1 and ended.stderr.startswith("error: write shards to ") and "mine" in ended.stderr, ended
    ended = tool(tmp_path / "other", "--shape", "retinanet", "--generate", 0.02, ROTA_PYTHON="/nowhere/python")
    assert ended.returncode == 1 and ended.stderr == "error: run python3: No such file or directory\n", ended


def test_the_package_is_that_of_python_or_of_the_build_of_the_tool(tmp_path):
    environment = os.environ | dict(ROTA_PYTHON=sys.executable, PYTHONPATH="/nowhere", PYTHONNOUSERSITE="1", PYTHONSAFEPATH="1")
    command = [os.environ["ROTA_TOOL"], "speed", tmp_path / "data", "--shape", "retinanet", "--generate", "0.02"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0 and "66 samples" in ended.stdout, ended
    command[0] = shutil.copy(command[0], tmp_path / "rota")
    alone = subprocess.run(command, capture_output=True, text=True, env=environment)
    if alone.returncode:  # unless rota is installed
        assert alone.returncode == 1 and " does not find the package rota: install rota for it " in alone.stderr
