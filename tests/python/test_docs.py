"""What the documentation shows is so."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest
import rota

NAMES = sorted({"rota", *(f"rota.{module.name}" for module in pkgutil.iter_modules(rota.__path__))} - {"rota._rota"})


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_docstrings(name):
    if name == "rota.torch":
        pytest.importorskip("torch")
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_every_public_thing_says_what_it_is():
    for name in rota.__all__:
        thing = getattr(rota, name)
        assert thing.__doc__ and thing.__doc__.strip(), name
        is_error = isinstance(thing, type) and issubclass(thing, rota.Error)
        assert is_error or f"`{name}`" in rota.__doc__, f"help(rota) does not name {name}"


def test_importing_rota_imports_neither_numpy_nor_torch_nor_mpi4py():
    code = "import sys, rota; print([m for m in ('numpy', 'torch', 'mpi4py') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
