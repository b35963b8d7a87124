"""Datasets from S3, as the environment of a program says."""

import os
import subprocess
import sys

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


def test_that_a_program_reads_what_its_environment_names(tmp_path):
    corpus = tmp_path / "b" / "corpus"
    corpus.mkdir(parents=True)
    for i in range(5):
        (corpus / f"{i}.txt").write_text("".join(f"{i} {k}\n" for k in range(9)))
    server = subprocess.Popen(
        [sys.executable, SERVER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(server.stdout.readline())}",
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_REGION": "us-east-1",
        }
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert "test-secret" not in ended.stderr
    finally:
        server.stdin.close()
        server.wait(timeout=20)
