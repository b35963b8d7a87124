"""Builds rota's wheel by CMake, for `pip install .`: a build backend as in PEP 517.

`pip install . --config-settings build-dir=DIR` keeps CMake's build in DIR, where the next one begins.
"""

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = 3, 10


def _version():
    return re.search(r"^project\(rota VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)


def _check_interpreter():
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        raise SystemExit(f"rota needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {version}, {sys.executable}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit(f"rota needs a Python with the GIL; {version}, {sys.executable}, is a free-threaded build")


def _pybind11():
    """Where the environment's pybind11 is, for CMake. Where it has none, CMake takes the system's."""
    try:
        import pybind11
    except ImportError:
        return []
    return [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]


def _cmake(*arguments):
    for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build")):
        if shutil.which(tool) is None:
            raise SystemExit(f"rota is compiled, and there is no {tool}. On Debian: apt install {package}")
    if subprocess.run(["cmake", *map(str, arguments)]).returncode != 0:
        raise SystemExit("rota was not built: see what CMake said above")


def _install(build, prefix):
    # -U: a build that is kept may be of another interpreter.
    _cmake("-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DROTA_BUILD_PYTHON=ON",
           "-DROTA_UNITY_BUILD=ON", "-DROTA_BUILD_TESTS=OFF", "-DROTA_BUILD_EXAMPLES=OFF", "-DROTA_BUILD_BENCHES=OFF",
           "-DROTA_BUILD_CLI=OFF", "-U*Python_*", "-Upybind11_DIR", f"-DPython_EXECUTABLE={sys.executable}",
           "-DROTA_PYTHON_DIR=.", *_pybind11())  # fmt: skip
    _cmake("--build", build, "--target", "rota_python", "--parallel", os.cpu_count())
    _cmake("--install", build, "--component", "python", "--prefix", prefix)


def _metadata(version):
    return (
        f"Metadata-Version: 2.1\nName: rota\nVersion: {version}\n"
        "Summary: Elastic, exactly-once data loading for training loops on many ranks\n"
        f"License: Apache-2.0\nRequires-Python: >={OLDEST[0]}.{OLDEST[1]}\nRequires-Dist: numpy>=1.24\n"
    )


def _digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _check_interpreter()
    version = _version()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"rota-{version}.dist-info"
    name = f"rota-{version}-{tag}.whl"
    wheel = f"Wheel-Version: 1.0\nGenerator: rota\nRoot-Is-Purelib: false\nTag: {tag}\n"
    with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as out:
        prefix = Path(work, "prefix")
        _install(Path((config_settings or {}).get("build-dir", Path(work, "build"))), prefix)
        files = {path.relative_to(prefix).as_posix(): path.read_bytes() for path in sorted(prefix.rglob("*")) if path.is_file()}
        files[f"{info}/METADATA"] = _metadata(version).encode()
        files[f"{info}/WHEEL"] = wheel.encode()
        record = [f"{path},{_digest(data)},{len(data)}" for path, data in files.items()] + [f"{info}/RECORD,,"]
        files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
        for path, data in files.items():
            out.writestr(path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"rota-{_version()}"
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    with tarfile.open(Path(sdist_directory, f"{name}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as out:
        for file in listed.split("\0")[:-1]:
            out.add(ROOT / file, f"{name}/{file}", recursive=False)
        info = _metadata(_version()).encode()
        member = tarfile.TarInfo(f"{name}/PKG-INFO")
        member.size = len(info)
        out.addfile(member, io.BytesIO(info))
    return f"{name}.tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    _check_interpreter()  # before anything is built
    return []
