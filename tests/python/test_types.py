"""The annotations hold, and the stub of the module is what the module is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rota

pytest.importorskip("mypy")
# pybind11 has a metaclass of its own, and a constructor for what cannot be made.
CLASSES = "Batch|Catalog|Checkpoint|CheckpointDirectory|Communicator|ForRules|Lengths|Loader|Run|Snapshot|Source|StopSignal|StreamLoader|StreamSource|TraceWriter|\\w+Options|CheckpointPolicy"


def run(module, *arguments):
    """What it complains of; the stubs say Final of what is read-only, which mypy knows and its stubtest does not."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    how = {"cwd": Path(rota.__file__).parents[1], "env": environment}  # where mypy keeps what it knows
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=300, **how)
    assert done.stdout or done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not re.search("is read-only at runtime but|^(Found|Success)", line)]


def test_the_package_is_well_typed(tmp_path):
    (tmp_path / "mypy.ini").write_text("[mypy-torch.*]\nfollow_imports = skip\n")  # whichever is there, or none
    assert run("mypy", "-p", "rota", "--ignore-missing-imports", "--config-file", tmp_path / "mypy.ini") == []


def test_the_stub_is_that_of_the_module(tmp_path):
    (tmp_path / "allowed").write_text(rf"rota\._rota\.({CLASSES})(\.__init__)?")
    # Which elements numpy's arrays have is for mypy to check. It takes long to read numpy's annotations.
    (tmp_path / "mypy.ini").write_text("[mypy]\ncache_dir = /dev/null\n[mypy-numpy.*]\nfollow_imports = skip\n")
    options = "--concise", "--ignore-missing-stub", "--ignore-unused-allowlist", "--allowlist", tmp_path / "allowed"
    assert run("mypy.stubtest", "rota._rota", *options, "--mypy-config-file", tmp_path / "mypy.ini") == []
