"""Datasets from S3, as the environment of a program says."""

import os
import subprocess
import sys
import types

from rota import _storages
from runs import python

SERVER = os.path.join(os.environ["ROTA_ROOT"], "tests", "remote", "s3_server.py")

PROGRAM = """
import rota

source = rota.open("s3://b/corpus", "lines")
seen = [bytes(text) for batch in rota.Loader(source, 7, seed=1) for text in batch["text"]]
assert sorted(seen) == sorted(f"{i} {k}".encode() for i in range(5) for k in range(9)), seen
try:
    rota.open("s3://none/corpus")
except rota.NotFoundError as error:
    assert "NoSuchBucket" in str(error)
else:
    raise AssertionError("a bucket that is not there")
"""

MIRRORED = """
import sys, tempfile
import rota

def sampler():
    return rota.ElasticBatchSampler(100, 8)

with rota.CheckpointDirectory(None, tempfile.mkdtemp(), mirror="s3://b/run") as directory:
    assert directory.latest() is None
    saved = sampler()
    for step in range(3):
        saved.advance()
        assert directory.save(step, saved).mirror_error == ""
    directory.wait_for_mirror()
with rota.CheckpointDirectory(None, tempfile.mkdtemp(), mirror="s3://b/run") as directory:
    restored = sampler()
    assert directory.restore(restored).info.serial == 2
    assert restored.position == saved.position
for path, error in ("b/run", rota.InvalidArgumentError), ("gs://b/run", rota.NotFoundError), ("s3://none/run", rota.NotFoundError):
    try:
        rota.CheckpointDirectory(None, tempfile.mkdtemp(), mirror=path)
    except error:
        continue
    raise AssertionError(path)
"""

INTERRUPTED = """
import os, signal, threading, time
import rota

def interrupted(work):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        work()
    except KeyboardInterrupt:
        assert time.monotonic() - start < 8
    else:
        raise AssertionError("it was not interrupted")
"""
OPENING = 'interrupted(lambda: rota.open("s3://b/there"))'
READING = """
source = rota.open("s3://b/there", "files")
interrupted(lambda: source[0])
for workers in 0, 2:
    interrupted(lambda: rota.Loader(source, 4, workers=workers).next())
"""


def run_with_server(directory, program, *faults):
    """Runs it where the environment names a server of `directory`."""
    command = [sys.executable, SERVER, str(directory), *faults]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # ends with its input
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        names = dict(ENDPOINT_URL=address, ACCESS_KEY_ID="AKIDEXAMPLE", SECRET_ACCESS_KEY="test-secret", REGION="us-east-1")
        environment = os.environ | {f"AWS_{name}": value for name, value in names.items()}
        assert "test-secret" not in python(program, env=environment).stderr


def test_that_a_program_reads_what_its_environment_names(tmp_path):
    corpus = tmp_path / "b" / "corpus"
    corpus.mkdir(parents=True)
    for i in range(5):
        (corpus / f"{i}.txt").write_text("".join(f"{i} {k}\n" for k in range(9)))
    run_with_server(tmp_path, PROGRAM)


def test_that_checkpoints_are_mirrored(tmp_path):
    (tmp_path / "b").mkdir()
    run_with_server(tmp_path, MIRRORED)
    assert (tmp_path / "b" / "run" / "checkpoint-000000000002.h5").exists()


def test_certificates_may_be_those_of_certifi(tmp_path, monkeypatch):
    (tmp_path / "certifi").mkdir()
    (tmp_path / "certifi" / "__init__.py").write_text("raise AssertionError('nobody imports it')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "certifi", raising=False)
    assert _storages.ca_file_of_certifi() == str(tmp_path / "certifi" / "cacert.pem")
    monkeypatch.setitem(sys.modules, "certifi", types.ModuleType("certifi"))
    assert _storages.ca_file_of_certifi() == ""


def test_a_signal_ends_a_wait_for_a_store(tmp_path):
    (tmp_path / "b" / "there").mkdir(parents=True)
    for i in range(4):
        (tmp_path / "b" / "there" / f"{i}").write_text("text")
    for kind, program in ("list", OPENING), ("range", READING):  # whose answers do not come
        run_with_server(tmp_path, INTERRUPTED + program, "--fault", "hang", "--kind", kind, "--times", "100")
