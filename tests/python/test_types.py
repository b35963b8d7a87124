"""The annotations hold, and the stub of the module is what the module is."""

import os
import subprocess
import sys

import pytest
import rota

pytest.importorskip("mypy")
# pybind11 has a metaclass of its own, and a constructor for what cannot be made.
CLASSES = "Batch|Catalog|Checkpoint|CheckpointDirectory|Communicator|Loader|Snapshot|Source|StreamBatch|StreamLoader|StreamSource"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


def run(cache, module, *arguments):
    command = [sys.executable, "-m", module, *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment["MYPY_CACHE_DIR"] = str(cache)
    folder = os.path.dirname(os.path.dirname(rota.__file__))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_well_typed(cache):
    run(cache, "mypy", "-p", "rota", "--ignore-missing-imports")


def test_the_stub_is_that_of_the_module(tmp_path, cache):
    (tmp_path / "allowed").write_text(rf"rota\._rota\.({CLASSES})(\.__init__)?")
    run(cache, "mypy.stubtest", "rota._rota", "--allowlist", str(tmp_path / "allowed"), "--ignore-unused-allowlist")
