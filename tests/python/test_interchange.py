"""Checkpoints between C++ and Python. The C++ side is interchange.cpp, at ROTA_INTERCHANGE."""

import ast
import itertools
import os

import numpy as np
import pytest
import rota
from runs import ids, next_of, run

PROGRAM = os.environ.get("ROTA_INTERCHANGE", "")
needs_program = pytest.mark.skipif(not PROGRAM, reason="ROTA_INTERCHANGE does not name the program of interchange.cpp")

LINES = [f"line {i}" for i in range(47)]
OPTIONS = dict(shards=5, seed=11, tail="carry", epochs=3)  # as interchange.cpp has them
WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) + 0.5


def cpp(*arguments):
    return run(PROGRAM, "interchange", *arguments).stdout.splitlines()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "data.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


@pytest.fixture(scope="module")
def fingerprint(data):
    return cpp("fingerprint", data)[0]


def make(kind, fingerprint):
    """A loader or a sampler of Python in the order of interchange.cpp."""
    if kind == "sampler":
        return rota.ElasticBatchSampler(len(LINES), 6, fingerprint=fingerprint, world=(0, 1), **OPTIONS)
    source = rota.PythonSource(LINES, {"data": ("uint8", (), True)}, fingerprint=fingerprint)
    return rota.Loader(source, 6, world=(0, 1), **OPTIONS)


def take(reader, steps):
    """The ids of the next `steps` batches, or of all that are left."""
    return ids(itertools.islice(iter(lambda: next_of(reader), None), steps))


@needs_program
@pytest.mark.parametrize("steps", [0, 9, 24])
def test_python_goes_on_from_a_checkpoint_of_cpp(data, fingerprint, tmp_path, steps):
    cpp("save", data, tmp_path, steps)
    for kind in ("loader", "sampler"):
        whole = take(make(kind, fingerprint), None)
        reader = make(kind, fingerprint)
        with rota.CheckpointDirectory(None, tmp_path) as directory:
            checkpoint = directory.restore(reader)
        assert checkpoint.info.step == steps and checkpoint.blob("note") == b"from C++"
        assert np.array_equal(checkpoint["model/w"], WEIGHTS) and checkpoint["model/w"].dtype == np.float32
        assert take(reader, None) == whole[steps:]


@needs_program
@pytest.mark.parametrize("kind, steps", [("sampler", 0), ("loader", 9), ("sampler", 24)])
def test_cpp_goes_on_from_a_checkpoint_of_python(data, fingerprint, tmp_path, kind, steps):
    reader = make(kind, fingerprint)
    take(reader, steps)
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        directory.save(steps, reader, {"model/w": WEIGHTS, "note": "from Python"})
    step, note, weights, *batches = cpp("restore", data, tmp_path)
    assert (int(step), note) == (steps, "from Python")
    assert np.array_equal(ast.literal_eval(weights), WEIGHTS.ravel())
    assert [ast.literal_eval(batch) for batch in batches] == take(reader, None)


@pytest.mark.parametrize("steps", [0, 1, 9, 23])
def test_states_of_samplers_and_loaders_are_the_same(steps):
    fingerprint = make("loader", "lines").source.fingerprint
    kinds = {"loader": make("loader", "lines"), "sampler": make("sampler", fingerprint)}
    for reader in kinds.values():
        take(reader, steps)
    states = {kind: reader.state_dict() for kind, reader in kinds.items()}
    assert states["loader"] == states["sampler"]
    rest = take(kinds["loader"], None)
    for kind, other in (("loader", "sampler"), ("sampler", "loader")):
        reader = make(kind, "lines" if kind == "loader" else fingerprint)
        reader.load_state_dict(states[other])
        assert take(reader, None) == rest
