"""Real servers, each with its files in a directory of its own, on loopback. They end with their block, or with this process."""

import ctypes
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress

ROOT = pathlib.Path(os.environ["ROTA_ROOT"])
SECONDS = 30  # in which a server begins, or ends
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def wait_for(what, *, seconds=SECONDS):
    """What `what` answers, as soon as that is true."""
    limit = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < limit, f"{what.__name__}: not within {seconds} s"
        time.sleep(0.01)
    return answer


def free_ports(count):
    with ExitStack() as sockets:
        taken = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def end_with_this_process():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextmanager
def started(command, **options):
    """A process, which is ended behind the block."""
    process = subprocess.Popen(list(map(str, command)), preexec_fn=end_with_this_process, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(SECONDS)


@contextmanager
def listening(port, command, log):
    """A server, once it takes connections."""
    with open(log, "wb") as output:
        with started(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:

            def listens():
                assert process.poll() is None, f"{command[0]} has ended:\n" + pathlib.Path(log).read_text()
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    return True

            wait_for(listens)
            yield process


def missing(*programs):
    """Those of the programs that are not installed."""
    return [program for program in programs if not shutil.which(program, path=PATH)]


class S3:
    """Where an S3 server is, and who may use it."""

    def __init__(self, port, key, secret):
        self.endpoint, self.key, self.secret = f"http://127.0.0.1:{port}", key, secret

    def client(self, secret=None):
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=secret or self.secret,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
        )

    def environment(self, secret=None):
        """Of a program that reads from it."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": secret or self.secret,
            "AWS_REGION": "us-east-1",
        }


STORAGE = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {directory}
devices = {directory}/devices
mount_check = false
workers = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""

PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {directory}
workers = 0
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:s3api]
use = egg:swift#s3api
max_bucket_listing = {page}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
"""


@contextmanager
def swift(directory, page):
    """OpenStack Swift with one disk, which answers as S3 does, with `page` keys of a list at a time."""
    proxy, memcached, *storage = free_ports(5)
    (directory / "devices" / "disk").mkdir(parents=True)
    common = {"directory": directory, "user": getpass.getuser(), "memcached": memcached, "page": page}
    with ExitStack() as servers:
        serve = lambda port, name, *command: servers.enter_context(  # noqa: E731
            listening(port, [shutil.which(command[0], path=PATH), *command[1:]], directory / f"{name}.log")
        )
        serve(memcached, "memcached", "memcached", "-l", "127.0.0.1", "-p", memcached, "-u", common["user"])
        for kind, port in zip(("account", "container", "object"), storage):
            build = lambda *words: subprocess.run(  # noqa: E731
                ["swift-ring-builder", directory / f"{kind}.builder", *words], check=True, capture_output=True, timeout=SECONDS
            )
            build("create", "4", "1", "0")
            build("add", f"r1z1-127.0.0.1:{port}/disk", "1")
            build("rebalance")
            configuration = directory / f"{kind}.conf"
            configuration.write_text(STORAGE.format(kind=kind, port=port, **common))
            serve(port, kind, f"swift-{kind}-server", configuration)
        configuration = directory / "proxy.conf"
        configuration.write_text(PROXY.format(port=proxy, **common))
        serve(proxy, "proxy", "swift-proxy-server", configuration)
        yield S3(proxy, "test:tester", "testing")


@contextmanager
def faulty_s3(directory, *options):
    """Our own, tests/remote/s3_server.py, which serves directory/BUCKET/KEY."""
    command = [sys.executable, ROOT / "tests" / "remote" / "s3_server.py", directory, *options]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield S3(int(process.stdout.readline()), "AKIDEXAMPLE", "test-secret")


NGINX = """
daemon off;
master_process off;
pid {directory}/pid;
error_log stderr;
events {{}}
http {{
  access_log {directory}/requests;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {directory}/server.crt;
    ssl_certificate_key {directory}/server.key;
    root {files};
  }}
}}
"""


def certify(directory, name):
    """An authority NAME.crt, and what it signs: a certificate server.crt of 127.0.0.1, with its key."""
    openssl = lambda *words: subprocess.run(  # noqa: E731
        ["openssl", *words], check=True, capture_output=True, timeout=SECONDS, cwd=directory
    )
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.crt")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
    (directory / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", f"{name}.crt", "-CAkey", f"{name}.key", "-CAcreateserial", "-days",
            "2", "-extfile", "extensions", "-out", "server.crt")  # fmt: skip


@contextmanager
def nginx(directory, files):
    """A web server of `files` by TLS, whose authority is directory/ca.crt. Yields its address."""
    [port] = free_ports(1)
    certify(directory, "ca")
    (directory / "nginx.conf").write_text(NGINX.format(directory=directory, files=files, port=port))
    command = [shutil.which("nginx", path=PATH), "-p", directory, "-c", directory / "nginx.conf", "-e", "stderr"]
    with listening(port, command, directory / "nginx.log"):
        yield f"https://127.0.0.1:{port}"
