"""`pip install .` into a fresh environment of each Python that is here, and its wheel, with numpy 1 and 2; older Pythons are refused."""

import os
import subprocess
from pathlib import Path

import pytest
from test_lifetime import ASKS, asks

ROOT = os.environ["ROTA_ROOT"]
NUMPY = {"3.10": ["2.2.6", "1.24.4"], "3.11": ["2.4.6", "1.26.4"], "3.12": ["2.4.6", "1.26.4"], "3.13": ["2.4.6"]}
EXACT = """
import numpy as np, rota
assert np.__version__ == {numpy!r}
seen = [
    [(int(i), bool(m)) for i, m in zip(info.ids, info.mask)]
    for info in map(rota.ElasticBatchSampler(10, 4, shuffle="none", shards=1, world=(0, 1)).batch, range(3))
]
assert sum(seen, []) == [(i, True) for i in range(10)] + [(0, False), (1, False)], seen
batches = [batch["data"].tolist() for batch in rota.Loader(rota.PythonSource(range(10)), 4, shuffle="none", shards=1)]
assert sum(batches, []) == list(range(10)), batches
"""


def interpreters():
    """One for each minor version, by version."""
    folders = [*map(Path, os.get_exec_path()), *Path.home().glob(".pyenv/versions/*/bin"), Path("/usr/bin")]
    found = {}
    for folder in folders:
        for python in folder.glob("python3.*"):
            version = python.name.removeprefix("python")
            if version.replace(".", "").isdigit() and "shims" not in folder.parts:
                found[version] = python
    return found


def run(*command, fails=False):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=900, env=environment)
    output = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, output[-4000:]
    return output


def environment(python, folder):
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


# pip's build goes on from that of the last interpreter.
BUILD = "--config-settings", f"build-dir={os.environ['ROTA_WHEEL_BUILD']}"


@pytest.mark.parametrize("version", NUMPY)
def test_a_fresh_environment_is_exact(version, tmp_path):
    if version not in interpreters():
        pytest.skip(f"no Python {version} is here")
    python = environment(interpreters()[version], tmp_path / "environment")
    for numpy in NUMPY[version]:
        run(python, "-m", "pip", "install", f"numpy=={numpy}")
        if numpy == NUMPY[version][0]:
            run(python, "-m", "pip", "install", ROOT, *BUILD)
        run(python, "-c", EXACT.format(numpy=numpy))
    for wheel in Path(ROOT, "build", "wheels").glob(f"*-cp{version.replace('.', '')}-*.whl"):  # of ./run wheel
        run(python, "-m", "pip", "install", "--no-deps", "--force-reinstall", wheel)
        run(python, "-c", EXACT.format(numpy=numpy))
    for what in ASKS:  # each Python ends threads in its own way, and a wheel has a C++ library of its own
        run(python, "-c", asks(what))
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").write_bytes(b"x" * 100)
    quickstart = os.path.join(os.environ["ROTA_EXAMPLES"], "quickstart.py")
    assert "read 100 bytes" in run(python, quickstart, data, tmp_path / "checkpoints", "--steps", 1)


@pytest.mark.parametrize("version", [version for version in interpreters() if 8 <= int(version[2:]) < 10])
def test_an_older_python_is_refused_in_words(version, tmp_path):
    python = environment(interpreters()[version], tmp_path / "environment")
    assert f"rota needs Python 3.10 or newer; this is {version}" in run(python, "-m", "pip", "install", ROOT, fails=True)
