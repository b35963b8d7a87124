"""The annotations hold, and the stub of the module is what the module is."""

import os
import re
import subprocess
import sys

import pytest
import rota

pytest.importorskip("mypy")
# pybind11 has a metaclass of its own, and a constructor for what cannot be made.
CLASSES = "Batch|Catalog|Checkpoint|CheckpointDirectory|Communicator|Loader|Snapshot|Source|StreamLoader|StreamSource|TraceWriter|\\w+Options|CheckpointPolicy"


# Which elements numpy's arrays have is for mypy to check. It takes long to read numpy's annotations.
CONFIGURATION = "[mypy]\ncache_dir = /dev/null\n[mypy-numpy.*]\nfollow_imports = skip\n"


def run(module, *arguments):
    """What it complains of; the stubs say Final of what is read-only, which mypy knows and its stubtest does not."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    folder = os.path.dirname(os.path.dirname(rota.__file__))  # where mypy keeps what it knows
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
    assert done.stdout or done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not re.search("is read-only at runtime but|^(Found|Success)", line)]


def test_the_package_is_well_typed():
    assert run("mypy", "-p", "rota", "--ignore-missing-imports") == []


def test_the_stub_is_that_of_the_module(tmp_path):
    (tmp_path / "allowed").write_text(rf"rota\._rota\.({CLASSES})(\.__init__)?")
    (tmp_path / "mypy.ini").write_text(CONFIGURATION)
    options = "--mypy-config-file", tmp_path / "mypy.ini", "--allowlist", tmp_path / "allowed", "--ignore-missing-stub"
    assert run("mypy.stubtest", "rota._rota", "--concise", "--ignore-unused-allowlist", *options) == []
