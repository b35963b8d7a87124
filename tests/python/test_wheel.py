"""The wheels of `./run wheel`: what is in them; beside others' libraries in one process; on a machine that has nothing else."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(os.environ["ROTA_ROOT"])
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHEELS = sorted((ROOT / "build" / "wheels").glob("*.whl"))
FORMATS = "files hdf5 lines mds megatron npy npz tar tfrecord tokens".split()

# Prints what datasets in folders that are named for their formats have.
READ = """
import hashlib, sys
import rota
options = {"tokens": {"dtype": "uint16", "length": 2048}, "hdf5": {"datasets": ["x", "group/packed"]}}
for name in sys.argv[2:]:
    digest, count = hashlib.sha256(), 0
    for batch in rota.Loader(rota.open(sys.argv[1] + name, name, **options.get(name, {})), 7, seed=3, workers=2):
        count += batch.size
        for field in sorted(batch):
            value = batch[field]
            digest.update(getattr(value, "values", value).tobytes())
    print(name, count, digest.hexdigest())
"""

# Each before rota, after it, and while rota has an HDF5 file open.
NEIGHBOURS = {
    "h5py": "with h5py.File('mine.h5', 'w') as f: f['y'] = range(9)\nassert h5py.File('mine.h5')['y'][3] == 3",
    "netCDF4": "with netCDF4.Dataset('mine.nc', 'w') as f: f.createDimension('t', 5)\nwith netCDF4.Dataset('mine.nc') as f: assert f.dimensions['t'].size == 5",
    "mpi4py.MPI": "assert mpi4py.MPI.COMM_WORLD.allreduce(3) == 3 * mpi4py.MPI.COMM_WORLD.size",
    "pyarrow.parquet": "t = pyarrow.table({'a': [1, 2]})\npyarrow.parquet.write_table(t, 'mine.parquet', compression='zstd')",
    "torch": "assert torch.ones(4).sum() == 4",
    "ssl": "ssl.create_default_context()",
}
BESIDE = """
import {first}
import {second}
import numpy as np

def use():
{use}

source = rota.open("theirs.h5", "hdf5")
use()
for batch in rota.Loader(source, 4, workers=2, shuffle="none", shards=1):
    use()
    assert batch["x"].tolist() == [[i, i * i] for i in batch.ids.tolist()]
with rota.CheckpointDirectory(None, "checkpoints") as directory:
    directory.save(1, rota.Loader(source, 4), {{"w": np.arange(3.0)}})
    use()
    assert directory.latest()["w"].tolist() == [0, 1, 2]
"""


def run(*command, **how):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, **how)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel():
    return next(path for path in WHEELS if TAG in path.name)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment of programs that import the wheel's rota; ROTA is its console script."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", folder, wheel)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "MODULE": str(next(folder.glob("rota/_rota*.so"))), "ROTA": str(folder / "bin" / "rota")}


@pytest.mark.parametrize("path", WHEELS, ids=lambda path: path.name.split("-")[2])
def test_a_wheel_is_small_and_says_where_it_goes_and_whose_it_is(path):
    assert path.stat().st_size < 15e6 and "-manylinux_2_34_x86_64." in path.name
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        info = {Path(name).name: archive.read(name).decode() for name in names if ".dist-info/" in name and name.count("/") == 1}
    licences = {name.split("/licenses/")[1] for name in names if "/licenses/" in name and not name.endswith("/")}
    assert {"LICENSE", "libcurl4-openssl-dev", "libhdf5-dev", "libssl-dev", "libaio1", "libisal2", "liblzf1", "pybind11"} <= licences
    assert {line.split(": ")[1] for line in info["METADATA"].splitlines() if line.startswith("License-File: ")} == licences
    assert "rota = rota._tool:main" in info["entry_points.txt"] and "\n# rota\n" in info["METADATA"]
    libraries = [name.split("/")[1].split("-")[0] for name in names if name.startswith("rota.libs/lib")]
    assert sorted(libraries) == ["libaio", "libisal", "liblzf"]


def test_the_module_shows_the_process_nothing_but_its_entry(installed):
    symbols = run("nm", "-D", "--defined-only", installed["MODULE"]).splitlines()
    assert [line.split()[-1] for line in symbols] == ["PyInit__rota"]


@pytest.mark.parametrize("rota_is_first", [True, False])
@pytest.mark.parametrize("neighbour", [*NEIGHBOURS, ", ".join(NEIGHBOURS)])
def test_libraries_of_others_and_of_rota_do_not_meet(neighbour, rota_is_first, installed, tmp_path):
    names = neighbour.split(", ")
    for name in names:
        pytest.importorskip(name)
    run(sys.executable, "-c", "import h5py; h5py.File('theirs.h5', 'w')['x'] = [[i, i * i] for i in range(50)]", cwd=tmp_path)
    use = "\n".join("    " + line for name in names for line in NEIGHBOURS[name].splitlines())
    first, second = ("rota", neighbour) if rota_is_first else (neighbour, "rota")
    run(sys.executable, "-c", BESIDE.format(first=first, second=second, use=use), cwd=tmp_path, env=installed)


@pytest.mark.parametrize("command, code", [("--version", 0), ("ls none", 1), ("ls {0}", 0), ("nothing", 2), ("", 2)])
def test_the_console_script_ends_as_the_program_does(command, code, installed, tmp_path):
    (tmp_path / "a.txt").write_text("a\nb\n")
    words = command.format(tmp_path).split()
    tools = installed["ROTA"], os.environ["ROTA_TOOL"]
    script, program = (subprocess.run([tool, *words], capture_output=True, timeout=60, env=installed) for tool in tools)
    assert script.returncode == code
    assert (script.returncode, script.stdout, script.stderr) == (program.returncode, program.stdout, program.stderr)


def test_ctrl_c_and_a_closed_pipe_end_the_console_script_as_a_program(installed):
    with socket.create_server(("127.0.0.1", 0)) as server:  # which never answers
        command = [installed["ROTA"], "head", f"http://127.0.0.1:{server.getsockname()[1]}/a.txt"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=installed) as waiting:
            server.accept()[0].detach()
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(20) == -signal.SIGINT and waiting.stderr.read() == b""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([installed["ROTA"], "ls", ROOT / "docs"], stdout=writer, stderr=subprocess.PIPE, env=installed)
    assert done.returncode in (-signal.SIGPIPE, 128 + signal.SIGPIPE) and done.stderr == b""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A directory with a Debian of Python and numpy, and nothing else that rota might use."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("a root of its own needs debootstrap, and to be root")
    made = ROOT / "build" / "empty-root"
    if not (made / "complete").exists():
        shutil.rmtree(made, ignore_errors=True)
        run("debootstrap", "--variant=minbase", "--include=python3,python3-numpy,python3-pip", "bookworm", made)
        (made / "complete").touch()
    copy = tmp_path_factory.mktemp("root") / "root"
    run("cp", "-a", made, copy)
    return copy


def inside(root, *command, **environment):
    """What it prints in a mount namespace of its own, with /proc and /dev."""
    enter = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && cd "$0" && exec chroot . "$@"'
    names = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/bin", "HOME": "/root", "PYTHONWARNINGS": "ignore", **environment}
    return run("unshare", "--mount", "sh", "-c", enter, root, *command, env=names)


@contextlib.contextmanager
def s3(folder, authority):
    """A server of folder/BUCKET by TLS, whose certificate `authority` has signed. Yields the environment of its clients."""
    sys.path.insert(0, str(ROOT / "tests" / "servers"))
    from servers import certify

    certify(authority.parent, authority.stem)
    pair = authority.parent / "pair"
    pair.write_text((authority.parent / "server.crt").read_text() + (authority.parent / "server.key").read_text())
    command = [sys.executable, ROOT / "tests" / "remote" / "s3_server.py", folder, "--certificate", pair]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        names = {"ENDPOINT_URL": f"https://127.0.0.1:{int(server.stdout.readline())}", "REGION": "us-east-1"}
        names |= {"ACCESS_KEY_ID": "AKIDEXAMPLE", "SECRET_ACCESS_KEY": "test-secret"}
        yield {f"AWS_{name}": value for name, value in names.items()}
        server.stdin.close()


@pytest.fixture(scope="module")
def datasets(root):
    """In the root's /b, a folder for each format."""
    for name in FORMATS:
        (root / "b" / name).mkdir(parents=True)
        run("/usr/bin/python3", ROOT / "tests" / "formats" / "write.py", name, cwd=root / "b" / name)
    for path in sorted(root.glob("b/**/*"), reverse=True):
        path.rename(path.with_name("".join("-" if c >= "\udc80" else c for c in path.name)))  # a list of S3 is UTF-8
    return root / "b"


def test_a_machine_without_any_library_runs_it(root, datasets, tmp_path):
    [wheel] = [path for path in WHEELS if "cp311" in path.name]
    shutil.copy(wheel, root)
    assert not list(root.rglob("libhdf5*")) + list(root.rglob("libcurl*")) + list(root.rglob("libarchive*"))
    inside(root, "pip", "install", "-q", "--no-index", "--break-system-packages", f"/{wheel.name}")
    shutil.copy(ROOT / "examples" / "python" / "quickstart.py", root)
    assert "and stops at" in inside(root, "python3", "/quickstart.py", "/usr/share/doc", "/checkpoints", "--steps", "3")
    assert "60 files" in inside(root, "rota", "ls", "/b/files") and ": good" in inside(root, "rota", "verify", "/checkpoints")

    built = os.environ | {"PYTHONPATH": os.environ["ROTA_BUILT"]}
    expected = run("/usr/bin/python3", "-c", READ, f"{datasets}/", *FORMATS, env=built)
    assert inside(root, "python3", "-c", READ, "/b/", *FORMATS) == expected and len(expected.splitlines()) == len(FORMATS)
    with s3(root, tmp_path / "ca.crt") as environment:
        shutil.copy(tmp_path / "ca.crt", root)
        read = ["python3", "-c", READ, "s3://b/", *FORMATS]
        assert inside(root, *read, **environment, AWS_CA_BUNDLE="/ca.crt") == expected
        (root / "etc/ssl/certs/ca-certificates.crt").unlink()
        (root / "etc/pki/tls/certs").mkdir(parents=True)  # where Red Hat has those of the system
        shutil.move(root / "ca.crt", root / "etc/pki/tls/certs/ca-bundle.crt")
        assert inside(root, *read, **environment) == expected
