"""What rota reads from, and writes to, servers that others have made, and what others make of rota's own test server."""

import contextlib
import gzip
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from servers import ROOT, faulty_s3, missing, nginx, swift, wait_for

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # boto3 closes no sockets
boto3 = pytest.importorskip("boto3")
rota = pytest.importorskip("rota")

PROGRAMS = pathlib.Path(os.environ["ROTA_PROGRAMS"])
FORMATS = ["files", "hdf5", "lines", "mds", "megatron", "npy", "npz", "tar", "tfrecord"]
NAMES = [f"names/{name}" for name in ("a b", "a+b", "a%20b", "é", "a&b=c;d", "a'b\"c", "x/y/z", "(1)!*~", "a#b?c")]
PAGE = 50  # keys of a list at a time

# Prints a digest of all samples, in order, and their number.
DIGEST = """
import hashlib, sys
import numpy, rota
source = rota.open(sys.argv[1], sys.argv[2])
digest = hashlib.sha256()
for batch in rota.Loader(source, 16, shuffle="none", shards=1):
    for field in source.fields:
        for row in batch[field.name]:
            digest.update(numpy.asarray(row).tobytes())
print(len(source), digest.hexdigest())
"""

needs_swift = pytest.mark.skipif(
    bool(missing("swift-proxy-server", "swift-object-server", "memcached")), reason="Swift is not installed"
)
needs_nginx = pytest.mark.skipif(bool(missing("nginx", "openssl")), reason="nginx is not installed")


def run(command, environment, *, fails=False):
    """What it prints."""
    ended = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    assert "testing" not in ended.stderr and "test-secret" not in ended.stderr, "a secret"
    return ended.stdout + ended.stderr


def write_format(directory, kind):
    directory.mkdir(parents=True)
    subprocess.run(
        [sys.executable, ROOT / "tests" / "formats" / "write.py", kind], cwd=directory, check=True, timeout=60
    )


def upload(client, bucket, directory, prefix):
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(directory)}"
            with contextlib.suppress(UnicodeEncodeError):  # S3's names are UTF-8
                client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Swift, with a bucket "data"."""
    with swift(tmp_path_factory.mktemp("swift"), PAGE) as server:
        server.client().create_bucket(Bucket="data")
        yield server


@needs_swift
@pytest.mark.parametrize("kind", FORMATS)
def test_that_datasets_in_swift_are_those_on_the_disk(store, tmp_path, kind):
    write_format(tmp_path / "data", kind)
    for path in list((tmp_path / "data").rglob("*")):
        try:
            str(path).encode()
        except UnicodeEncodeError:
            shutil.rmtree(path) if path.is_dir() else path.exists() and path.unlink()
    upload(store.client(), "data", tmp_path / "data", kind)
    here = run([sys.executable, "-c", DIGEST, tmp_path / "data", kind], os.environ)
    assert run([sys.executable, "-c", DIGEST, f"s3://data/{kind}", kind], store.environment()) == here


@needs_swift
def test_that_lists_of_many_pages_and_odd_names_are_whole(store):
    client = store.client()
    names = NAMES + [f"names/{i:04}" for i in range(3 * PAGE)]
    for name in names:
        client.put_object(Bucket="data", Key=name, Body=name.encode())
    listed = run([PROGRAMS / "rota", "ls", "s3://data/names", "--all", "--limit", "0"], store.environment())
    assert f"{len(names)} files" in listed
    program = (
        "import rota; s = rota.open(rota.Catalog('s3://data/names', all_names=True), 'files');"
        "print(*sorted(bytes(x).decode() for b in rota.Loader(s, 50) for x in b['data']), sep='\\n')"
    )
    assert run([sys.executable, "-c", program], store.environment()).splitlines() == sorted(names)


@needs_swift
def test_that_refusals_are_told_at_once(store):
    ls = [PROGRAMS / "rota", "ls"]
    assert "check the credentials" in run([*ls, "s3://data/names"], store.environment("wrong"), fails=True)
    assert "NoSuchBucket" in run([*ls, "s3://none/names"], store.environment(), fails=True)


@needs_swift
def test_that_what_is_packed_into_swift_is_read_back(store, tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(40):
        (tmp_path / "data" / f"{i:02}").write_bytes(os.urandom(1_000_000 if i % 2 else 10))
    here = run([sys.executable, "-c", DIGEST, tmp_path / "data", "files"], os.environ)
    for to, size in (("tar", 25_000_000), ("mds", 3_000_000)):  # the first in parts
        run(
            [PROGRAMS / "rota", "shard", tmp_path / "data", "-o", f"s3://data/{to}s", "--to", to, "--shard-bytes", size],
            store.environment(),
        )
        assert run([sys.executable, "-c", DIGEST, f"s3://data/{to}s", to], store.environment()) == here


@needs_swift
def test_that_checkpoints_are_mirrored_in_swift(store, tmp_path):
    program = """
import sys, rota, numpy
weights = numpy.arange(3_000_000.0)
for directory in ("a", "b"):
    with rota.CheckpointDirectory(None, sys.argv[1] + directory, mirror="s3://data/run") as checkpoints:
        if directory == "a":
            checkpoints.save(1, {"weights": weights})
            checkpoints.wait_for_mirror()
        assert (checkpoints.latest()["weights"] == weights).all()
"""
    run([sys.executable, "-c", program, f"{tmp_path}/"], store.environment())


def processes_of(session):
    """Whatever their parents are."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            fields = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


def kill(process):
    """All that it has started, at once."""
    for number in processes_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait(60)
    wait_for(lambda: not processes_of(process.pid))


def test_that_killed_runs_go_on_and_others_beside_them_too(tmp_path):
    (tmp_path / "b").mkdir()
    for i in range(12):  # compressed, so that ranks share them in memory
        (tmp_path / "b" / f"{i:02}.txt.gz").write_bytes(gzip.compress(b"".join(b"%d %d\n" % (i, k) for k in range(3000))))
    what = ["--data", "s3://b", "--format", "lines", "--batch", "40", "--epochs", "2", "--shards", "12",
            "--interleave", "4", "--shuffle", "within"]  # fmt: skip
    before = set(os.listdir("/dev/shm"))
    with faulty_s3(tmp_path) as server, contextlib.ExitStack() as ending:
        beside = subprocess.Popen(
            list(map(str, [PROGRAMS / "rescale_demo", *what, "--worlds", "3x1:200,2x1", "--work", tmp_path / "beside"])),
            env=server.environment(), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        ending.callback(beside.kill)
        saved = set()
        for ranks, workers in ((8, 1), (7, 0), (13, 0), (1, 1)):
            command = ["mpirun", "-n", ranks, PROGRAMS / "rescale_demo", "--phase", "--resume", *what, "--workers", workers,
                       "--checkpoint", tmp_path / "saved", "--save-every", "10", "--trace", tmp_path / "traces"]  # fmt: skip
            with open(tmp_path / f"log-{ranks}", "wb") as log:
                process = subprocess.Popen(
                    list(map(str, command)), env=server.environment(), start_new_session=True, stdout=log, stderr=log
                )
            ending.callback(kill, process)
            if ranks > 1:
                wait_for(lambda: set((tmp_path / "saved").glob("*.h5")) - saved, seconds=120)
                assert process.poll() is None, "it is to be killed on its way"
                kill(process)
                saved = set((tmp_path / "saved").glob("*.h5"))
            else:
                assert process.wait(300) == 0, (tmp_path / f"log-{ranks}").read_text()
        run([PROGRAMS / "rota", "audit", tmp_path / "traces", "--samples", "36000", "--epochs", "2"], os.environ)
        assert beside.wait(300) == 0
    of_others = ("vader", "rota-test-")  # Open MPI's files, and folders of tests beside
    assert not {name for name in set(os.listdir("/dev/shm")) - before if not name.startswith(of_others)}


@needs_nginx
def test_that_nginx_serves_by_tls_what_is_on_the_disk(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for i in range(20):
        (files / f"{i:03}.txt").write_text("".join(f"{i} {k}\n" for k in range(i)))
    with nginx(tmp_path, files) as address:
        right = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "ca.crt")}
        here = run([sys.executable, "-c", DIGEST, files, "lines"], os.environ)
        there = [sys.executable, "-c", DIGEST, address + "/{000..019}.txt", "lines"]
        assert run(there, right) == here
        wrong = {**os.environ, "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"}
        assert "certificate" in run(there, wrong, fails=True)
        missing_one = [sys.executable, "-c", DIGEST, address + "/{000..020}.txt", "lines"]
        assert "020.txt" in run(missing_one, right, fails=True)


def test_that_others_find_our_own_server_right(tmp_path):
    (tmp_path / "b").mkdir()
    with faulty_s3(tmp_path, "--page", "7") as server:
        client = server.client()
        for name in NAMES + [f"many/{i:02}" for i in range(20)]:
            client.put_object(Bucket="b", Key=name, Body=name.encode())
        listed = client.get_paginator("list_objects_v2").paginate(Bucket="b", Prefix="many/")
        assert [item["Key"] for page in listed for item in page["Contents"]] == [f"many/{i:02}" for i in range(20)]
        for name in NAMES:
            assert client.get_object(Bucket="b", Key=name)["Body"].read() == name.encode()
            assert client.head_object(Bucket="b", Key=name)["ContentLength"] == len(name.encode())
        assert client.get_object(Bucket="b", Key="many/03", Range="bytes=2-4")["Body"].read() == b"ny/"
        begun = client.create_multipart_upload(Bucket="b", Key="large")["UploadId"]
        parts = []
        for number, body in ((1, b"x" * (5 << 20)), (2, b"y")):
            part = client.upload_part(Bucket="b", Key="large", UploadId=begun, PartNumber=number, Body=body)
            parts.append({"PartNumber": number, "ETag": part["ETag"]})
        client.complete_multipart_upload(Bucket="b", Key="large", UploadId=begun, MultipartUpload={"Parts": parts})
        assert client.head_object(Bucket="b", Key="large")["ContentLength"] == (5 << 20) + 1
        from botocore.exceptions import ClientError

        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            server.client("wrong").get_object(Bucket="b", Key="many/00")
        with pytest.raises(ClientError, match="NoSuchKey"):
            client.get_object(Bucket="b", Key="none")
