"""The package as it is installed: by CMake's component, and as a wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import rota
from runs import python, refused, run

BUILT = Path(rota.__path__[0]).parent.parent
USE = "import rota; print(rota.__file__); assert sum(b.size for b in rota.Loader(rota.PythonSource(range(9)), 4)) == 9"


def use(folder):
    """Where a fresh interpreter finds rota, of what is installed in `folder`."""
    return Path(python(USE, env={**os.environ, "PYTHONPATH": str(folder)}).stdout.strip()).parent.parent


def install(prefix):
    return run("cmake", "--install", BUILT, "--component", "python", "--prefix", prefix).stdout


def test_cmake_installs_it_and_says_where(tmp_path):
    output = install(tmp_path)
    folder = Path(output.split("PYTHONPATH=")[1].split()[0])
    assert folder.is_relative_to(tmp_path) and use(folder) == folder
    assert (folder / "rota" / "py.typed").exists() and (folder / "rota" / "_rota.pyi").exists()


@pytest.fixture
def backend(monkeypatch):
    """The build backend, which takes what is built here."""
    file = Path(os.environ["ROTA_BACKEND"])
    spec = importlib.util.spec_from_file_location("build_backend", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def take(build, prefix, options):
        assert options == []
        install(prefix / "all")
        shutil.move(next((prefix / "all").rglob("rota")), prefix / "rota")
        shutil.rmtree(prefix / "all")

    monkeypatch.setattr(module, "_install", take)
    return module


def test_a_wheel_is_one_that_pip_takes(tmp_path, backend):
    name = backend.build_wheel(str(tmp_path))
    assert backend.get_requires_for_build_wheel() == []
    pip = sys.executable, "-m", "pip", "install", "--no-deps", "--no-index"
    done = run(*pip, "--target", tmp_path / "to", tmp_path / name, returns=None)
    if "No module named pip" in done.stderr:
        pytest.skip("pip is not installed")
    assert done.returncode == 0, done.stderr
    assert use(tmp_path / "to") == tmp_path / "to"
    script = [str(tmp_path / "to" / "bin" / "rota"), "--version"]
    assert subprocess.check_output(script, env={**os.environ, "PYTHONPATH": str(tmp_path / "to")}, timeout=60).startswith(b"rota ")


@pytest.mark.parametrize("replaced, words", [
    (("version_info", (3, 9, 18)), "rota needs Python 3.10 or newer; this is 3.9.18"),
    (("get_config_var", lambda name: name == "Py_GIL_DISABLED"), "rota needs a Python with the GIL; .* is a free-threaded build"),
])  # fmt: skip
def test_an_interpreter_that_is_not_supported_is_refused_before_anything_is_built(replaced, words, backend, monkeypatch, tmp_path):
    monkeypatch.setattr(backend.sys if replaced[0] == "version_info" else backend.sysconfig, *replaced)
    for build in (backend.get_requires_for_build_wheel, lambda: backend.build_wheel(str(tmp_path))):
        refused(build, SystemExit, words)
    assert not list(tmp_path.iterdir())


def test_a_torch_that_is_too_old_is_refused_when_rota_torch_is_imported():
    old = """
import sys, types, rota
sys.modules["torch"] = types.SimpleNamespace(__version__="1.13.0a0")
sys.modules["torch.utils"] = types.SimpleNamespace(data=None)
try: import rota.torch
except rota.UnsupportedError as error: print(error)
"""
    assert python(old).stdout.startswith("use PyTorch 1.13.0a0: rota needs 2.0 or newer; install it from PyPI")


def test_what_building_lacks_is_named_by_its_package(tmp_path, backend, monkeypatch):
    configure = "cmake", "-S", os.environ["ROTA_ROOT"], "-B", tmp_path, "-GNinja", "-DCMAKE_DISABLE_FIND_PACKAGE_Minizip=ON"
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = run(*configure, returns=None, env=environment)
    assert done.returncode != 0 and "rota needs Minizip. On Debian: apt install libminizip-dev" in " ".join(done.stderr.split())
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(backend._check_tools, SystemExit, "there is no cmake. On Debian: apt install cmake")


def test_that_it_compiles_is_said_on_the_terminal_though_pip_keeps_what_is_printed():
    told = f"import sys; sys.path.insert(0, {os.path.dirname(os.environ['ROTA_BACKEND'])!r}); import build_backend as b; b._tell('It compiles.')"
    pip = f"import subprocess, sys; subprocess.run([sys.executable, '-B', '-c', {told!r}], stdout=subprocess.DEVNULL)"
    master, terminal = os.openpty()
    subprocess.run([sys.executable, "-c", pip], stdout=terminal, timeout=60, check=True)
    os.close(terminal)
    assert os.read(master, 100).replace(b"\r", b"") == b"\nIt compiles.\n"
    os.close(master)
    assert python(pip).stdout == "\nIt compiles.\n"  # a log


def test_the_packages_that_a_program_needs_to_run_are_listed():
    if shutil.which("dpkg") is None:
        pytest.skip("this is no Debian")
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.check_output(["readelf", "-d", os.environ["ROTA_TOOL"]], text=True))
    found = dict(re.findall(r"(\S+) => (\S+)", subprocess.check_output(["ldd", os.environ["ROTA_TOOL"]], text=True)))
    files = [path for name in needed if name in found for path in (found[name], os.path.realpath(found[name]))]  # it knows one
    owners = set(re.findall(r"^([^:]+):", subprocess.run(["dpkg", "-S", *files], stdout=subprocess.PIPE, text=True).stdout, re.M))
    text = " ".join(Path(os.environ["ROTA_ROOT"], "docs", "embed.md").read_text().split())
    listed = re.search(r"it needs these packages of Debian 12 .*?: (.*?)\. ", text)[1].replace(" and ", ", ").split(", ")
    if "libmpi.so" not in " ".join(needed):
        listed.remove("libopenmpi3 (libopenmpi40)")
    owners = {one for one in owners if not re.fullmatch(r"libc6|libgcc-s1|libstdc\+\+6|lib[a-z]+san\d", one)}
    of_12, of_13 = ({re.sub(pattern, r"\1", one) for one in listed} for pattern in (r"(.*) \(.*", r".* \((.*)\)"))
    assert owners in (of_12, of_13) and listed == sorted(listed)


def test_a_source_archive_has_what_builds_a_wheel(tmp_path, backend):
    if not Path(os.environ["ROTA_ROOT"], ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no clone, or there is no git")
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "PKG-INFO", "CMakeLists.txt", "python/build_backend.py", "src/CMakeLists.txt"} <= names
