"""examples/python/quickstart.py: alone, then with two ranks, then alone again."""

import os
import re
import subprocess
import sys

import pytest

EXAMPLE = os.path.join(os.environ["ROTA_EXAMPLES"], "quickstart.py")


def run(command, *options):
    """The step at which each rank began, and the bytes that it read."""
    done = subprocess.run([*command, EXAMPLE, *map(str, options)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    begins = re.findall(r"goes on at .*step=(\d+)", done.stdout)
    return [int(step) for step in begins], sum(map(int, re.findall(r"read (\d+) bytes", done.stdout)))


def test_it_goes_on_with_other_numbers_of_ranks(tmp_path):
    pytest.importorskip("mpi4py")
    files = tmp_path / "data"
    files.mkdir()
    for i in range(640):
        (files / f"{i:03}").write_bytes(b"x" * (1 << (i % 10)))
    epoch = 64 * 1023
    arguments = (files, tmp_path / "checkpoints", "--steps", 4)
    first, read = run([sys.executable], *arguments)
    second, more = run(["mpirun", "-n", "2", sys.executable, "-m", "mpi4py"], *arguments)
    assert (first, second) == ([0], [4, 4])
    third, rest = run([sys.executable], *arguments[:-1], 2)
    assert third == [8] and read + more + rest == epoch
