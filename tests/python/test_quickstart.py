"""examples/python/quickstart.py: alone, then with two ranks, then alone again."""

import os
import re
import subprocess
import sys

import pytest

EXAMPLE = os.path.join(os.environ["ROTA_EXAMPLES"], "quickstart.py")


def run(command, *options):
    """The step at which each rank began, and the bytes that all read."""
    done = subprocess.run([*command, EXAMPLE, *map(str, options)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return begins_and_bytes(done.stdout)


def run_ranks(number, output, *options):
    """As run. Each rank prints to a file of its own: mpirun mixes the lines of several."""
    mpirun = ["mpirun", "-n", str(number), "--output-filename", str(output)]
    run([*mpirun, sys.executable, "-m", "mpi4py"], *options)
    texts = [file.read_text() for file in sorted(output.rglob("stdout"))]
    return begins_and_bytes("".join(texts))


def begins_and_bytes(text):
    begins = re.findall(r"goes on at .*step=(\d+)", text)
    return [int(step) for step in begins], sum(map(int, re.findall(r"read (\d+) bytes", text)))


def test_it_goes_on_with_other_numbers_of_ranks(tmp_path):
    pytest.importorskip("mpi4py")
    files = tmp_path / "data"
    files.mkdir()
    for i in range(640):
        (files / f"{i:03}").write_bytes(b"x" * (1 << (i % 10)))
    epoch = 64 * 1023
    arguments = (files, tmp_path / "checkpoints", "--steps", 4)
    first, read = run([sys.executable], *arguments)
    second, more = run_ranks(2, tmp_path / "output", *arguments)
    assert (first, second) == ([0], [4, 4])
    third, rest = run([sys.executable], *arguments[:-1], 2)
    assert third == [8] and read + more + rest == epoch
