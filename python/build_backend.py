"""Builds rota's wheel by CMake, for `pip install .`: a build backend as in PEP 517.

`pip install . --config-settings build-dir=DIR` keeps CMake's build in DIR, where the next one begins. `cmake=OPTIONS`
are for CMake. `./run wheel` gives -DROTA_BUNDLE=ON: rota's libraries and their licences are then in the wheel.
"""

import base64
import hashlib
import importlib.metadata
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _said(file, pattern):
    return re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.M).group(1)


VERSION = _said("CMakeLists.txt", r"^project\(rota VERSION ([0-9.]+)")
# Older Pythons, which have no tomllib, are refused by it.
OLDEST = tuple(map(int, _said("pyproject.toml", r'^requires-python = ">=([0-9.]+)"').split(".")))


def _project():
    """What pyproject.toml says."""
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib
        except ImportError:
            raise SystemExit("rota is built by tomli on Python 3.10; pip install tomli") from None
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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


def _check_tools():
    compiler = os.environ.get("CXX", "c++").split()[0]
    for tool, package in (("cmake", "cmake"), ("ninja", "ninja-build"), (compiler, "g++")):
        if shutil.which(tool) is None:
            raise SystemExit(f"rota is compiled, and there is no {tool}. On Debian: apt install {package}")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise SystemExit(
            f"rota is compiled, and there is no Python.h of {sys.executable}. On Debian: apt install python3-dev"
        )


def _tell(text):
    """Tells people at once, where pip writes, or on a terminal: pip keeps what a backend prints, unless it has -v."""
    print(text, flush=True)
    for place in () if sys.stdout.isatty() else (f"/proc/{os.getppid()}/fd/1", "/dev/tty"):
        try:
            with open(place, "a") as out:
                out.write(f"\n{text}\n")
            return
        except OSError:
            pass  # there is none, or it is another user's


def _cmake(*arguments):
    if subprocess.run(["cmake", *map(str, arguments)]).returncode != 0:
        raise SystemExit("rota was not built: see what CMake said above")


def _install(build, prefix, options=()):
    _check_tools()
    minutes = -(-6 // (os.cpu_count() or 1))
    _tell(f"rota: compiling C++, which takes about {minutes} min on this machine; `pip -v` shows how far it is")
    # -U: a build that is kept may be of another interpreter.
    _cmake("-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DROTA_BUILD_PYTHON=ON",
           "-DROTA_UNITY_BUILD=ON", "-DROTA_BUILD_TESTS=OFF", "-DROTA_BUILD_EXAMPLES=OFF", "-DROTA_BUILD_BENCHES=OFF",
           "-DROTA_BUILD_CLI=OFF", "-U*Python_*", "-Upybind11_DIR", f"-DPython_EXECUTABLE={sys.executable}",
           "-DROTA_PYTHON_DIR=.", *_pybind11(), *options)  # fmt: skip
    _cmake("--build", build, "--target", "rota_python", "--parallel", os.cpu_count())
    _cmake("--install", build, "--component", "python", "--prefix", prefix)


def _metadata(licences=("LICENSE",)):
    project = _project()
    fields = [("Metadata-Version", "2.4"), ("Name", project["name"]), ("Version", VERSION)]
    fields += [("Summary", project["description"]), ("Keywords", ",".join(project["keywords"]))]
    fields += [("License-Expression", project["license"]), ("Requires-Python", project["requires-python"])]
    fields += [("Classifier", one) for one in project["classifiers"]]
    fields += [("Requires-Dist", one) for one in project["dependencies"]]
    fields += [("License-File", name) for name in licences] + [("Description-Content-Type", "text/markdown")]
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return f"{head}\n{(ROOT / project['readme']).read_text(encoding='utf-8')}"


def _output(*command, **how):
    return subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, **how).stdout


def _licences(build):
    """The licences, by name, of all Debian packages of which something is in the module, and those they refer to."""
    link = _output("ninja", "-C", build, "-t", "commands", "rota_python", check=True).splitlines()[-1].split()
    shared = re.findall(r"=> (/\S+)", _output("ldd", next(Path(build).glob("python/rota/_rota*.so")), check=True))
    headers = re.findall(r"^    (/usr/include/\S+)", _output("ninja", "-C", build, "-t", "deps", check=True), re.M)
    static = [_output("c++", f"-print-file-name={name}", check=True).strip() for name in ("libstdc++.a",)]
    used = {
        path
        for path in [*link, *shared, *headers, *static]
        if path.endswith((".a", "so", ".h", ".hpp")) or ".so." in path
    }
    used |= {os.path.realpath(path) for path in used if path.startswith("/")}
    owners = _output("dpkg", "-S", *sorted(used), stderr=subprocess.DEVNULL)  # of some it does not know the owner
    packages = set(re.findall(r"^([^:,\s]+)", owners, re.M)) - {"libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1"}
    texts = {name: Path("/usr/share/doc", name, "copyright").read_bytes() for name in sorted(packages)}
    for name in set(re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", b"".join(texts.values()))):
        texts[f"common-licenses/{name.decode()}"] = Path("/usr/share/common-licenses", name.decode()).read_bytes()
    try:
        texts["pybind11"] = importlib.metadata.distribution("pybind11").read_text("licenses/LICENSE").encode()
    except importlib.metadata.PackageNotFoundError:
        pass  # it is Debian's
    return texts


def _digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = Path(metadata_directory, f"rota-{VERSION}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(_metadata(), encoding="utf-8")
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _check_interpreter()
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{tag}-{tag}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"rota-{VERSION}.dist-info"
    name = f"rota-{VERSION}-{tag}.whl"
    wheel = f"Wheel-Version: 1.0\nGenerator: rota\nRoot-Is-Purelib: false\nTag: {tag}\n"
    settings = config_settings or {}
    options = shlex.split(settings.get("cmake", ""))
    path = Path(wheel_directory, name)
    with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        prefix = Path(work, "prefix")
        build = Path(settings.get("build-dir", Path(work, "build")))
        _install(build, prefix, options)
        built = [path for path in sorted(prefix.rglob("*")) if path.is_file()]
        files = {path.relative_to(prefix).as_posix(): path.read_bytes() for path in built}
        licences = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
        if "-DROTA_BUNDLE=ON" in options:
            licences |= _licences(build)
        files |= {f"{info}/licenses/{licence}": text for licence, text in licences.items()}
        files[f"{info}/METADATA"] = _metadata(licences).encode()
        files[f"{info}/WHEEL"] = wheel.encode()
        scripts = "".join(f"{script} = {function}\n" for script, function in _project()["scripts"].items())
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
        record = [f"{path},{_digest(data)},{len(data)}" for path, data in files.items()] + [f"{info}/RECORD,,"]
        files[f"{info}/RECORD"] = ("\n".join(record) + "\n").encode()
        for path, data in files.items():
            out.writestr(path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"rota-{VERSION}"
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z"]  # of a tree that is another user's, too
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with tarfile.open(Path(sdist_directory, f"{name}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as out:
        for file in listed.split("\0")[:-1]:
            out.add(ROOT / file, f"{name}/{file}", recursive=False)
        info = _metadata().encode()
        member = tarfile.TarInfo(f"{name}/PKG-INFO")
        member.size = len(info)
        out.addfile(member, io.BytesIO(info))
    return f"{name}.tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    _check_interpreter()  # before anything is built
    return []
