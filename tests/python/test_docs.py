"""What the documentation shows is so."""

import doctest
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
from pathlib import Path

import pytest
import rota
from runs import needs_mpi, python, run

NAMES = sorted({"rota", *(f"rota.{module.name}" for module in pkgutil.iter_modules(rota.__path__))} - {"rota._rota"})


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_docstrings(name):
    for package in "torch", "lightning", "accelerate":
        if package in name:
            pytest.importorskip(package)
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_every_public_thing_says_what_it_is():
    for name in rota.__all__:
        thing = getattr(rota, name)
        assert thing.__doc__ and thing.__doc__.strip(), name
        is_error = isinstance(thing, type) and issubclass(thing, rota.Error)
        assert is_error or f"`{name}`" in rota.__doc__, f"help(rota) does not name {name}"


def members(cls):
    """Of classes of rota, by name: functions, and what properties hold."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        is_field = type(member).__name__ == "_tuplegetter" or inspect.isdatadescriptor(member) and not isinstance(member, property)
        is_built_in = any(name in vars(base) for base in (BaseException, tuple, dict, int, *cls.__mro__[-2:]))
        if not (name.startswith("_") or is_field or is_built_in or issubclass(cls, BaseException)):
            yield name, member


@pytest.mark.parametrize("name", rota.__all__)
def test_every_member_says_what_it_is(name):
    cls = getattr(rota, name)
    for member, thing in members(cls) if isinstance(cls, type) else ():
        text = (thing if isinstance(thing, property) else getattr(cls, member)).__doc__
        assert text and not text.startswith(f"{member}("), f"{name}.{member}"


def test_no_method_of_the_module_is_defined_twice():
    # The first of two of one name answers alone, if it takes what the second does.
    classes = [thing for thing in vars(rota._rota).values() if isinstance(thing, type)]
    twice = [f"{cls.__name__}.{name}" for cls in classes for name, it in vars(cls).items() if "Overloaded" in (it.__doc__ or "")]
    assert len(classes) > 10 and twice == []


def blocks():
    """The Python programs of the pages."""
    for page in ("README.md", "docs/balance.md", "docs/members.md", "docs/python.md", "docs/run.md", "docs/settle.md", "docs/traces.md", "docs/validate.md"):
        text = Path(os.environ["ROTA_ROOT"], page).read_text()
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.S)):
            yield pytest.param(code, id=f"{page}-{number}")


@pytest.mark.parametrize("code", list(blocks()))
def test_programs_of_the_pages_name_what_there_is(code):
    compile(code, "page", "exec")
    if "rota.torch" in code:
        pytest.importorskip("torch")
    for module, name in re.findall(r"\brota\.(?:(torch|mpi)\.)?(\w+)", code):
        thing = importlib.import_module(f"rota.{module}" if module else "rota")
        assert hasattr(thing, name) or importlib.util.find_spec(f"rota.{name}"), name


def test_importing_rota_imports_neither_numpy_nor_torch_nor_mpi4py():
    code = "import sys, rota; print([m for m in ('numpy', 'torch', 'mpi4py') if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


# ---- examples/python ----


def test_windows_of_the_climate_example_decode_each_chunk_once():
    done = run(sys.executable, os.path.join(os.environ["ROTA_EXAMPLES"], "climate.py"), 3, 30, 40)
    assert "rota:  134 windows" in done.stdout and "6 decodes of 6 chunks" in done.stdout, done.stdout + done.stderr


def test_the_example_of_a_balance_has_the_same_losses_and_ranks_that_are_as_busy():
    done = run(sys.executable, os.path.join(os.environ["ROTA_EXAMPLES"], "balance.py"))
    plain, dealt = re.findall(r"has ([\d.]+) of the mean", done.stdout)
    assert float(plain) > 1.2 > 1.01 > float(dealt) and "losses equal" in done.stdout, done.stdout


def train(ranks, output, *options):
    """The step at which each rank began, and the bytes that all read."""
    command = [sys.executable, os.path.join(os.environ["ROTA_EXAMPLES"], "quickstart.py"), *map(str, options)]
    if ranks > 1:  # each prints to a file of its own: mpirun mixes the lines of several
        command[1:1] = ["-m", "mpi4py"]
        output.mkdir()
        command = ["mpirun", "-n", str(ranks), "sh", "-c", 'exec "$@" >"$0/$OMPI_COMM_WORLD_RANK"', str(output), *command]
    done = run(*command)
    text = "".join(file.read_text() for file in sorted(output.iterdir())) if ranks > 1 else done.stdout
    begins = re.findall(r"goes on at .*step=(\d+)", text)
    return [int(step) for step in begins], sum(map(int, re.findall(r"read (\d+) bytes", text)))


@needs_mpi
def test_the_quickstart_goes_on_with_other_numbers_of_ranks(tmp_path):
    pytest.importorskip("mpi4py")
    files = tmp_path / "data"
    files.mkdir()
    for i in range(640):
        (files / f"{i:03}").write_bytes(b"x" * (1 << (i % 10)))
    epoch, output = 64 * 1023, tmp_path / "output"
    runs = [train(ranks, output, files, tmp_path / "checkpoints", "--steps", steps) for ranks, steps in ((1, 4), (2, 4), (1, 2))]
    assert [begins for begins, _ in runs] == [[0], [4, 4], [8]] and sum(read for _, read in runs) == epoch
