"""In a job of several ranks, whose test modules have COMM, a test that fails ends the job: others may wait for its rank."""

import shutil
import sys
import tempfile
import traceback

import pytest


def pytest_configure(config):
    """A directory of its own for each process, which goes with it: several at once would clean up the same ones."""
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="rota-test-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


def pytest_pycollect_makemodule(module_path):
    """Tests find no torch where rota.torch refuses the one that is there."""
    if "torch" in module_path.read_text():
        try:
            import rota.torch  # noqa: F401
        except ImportError:
            pass  # which they find themselves
        except NotImplementedError:  # rota.UnsupportedError
            sys.modules["torch"] = None


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    done = yield
    comm = getattr(pyfuncitem.module, "COMM", None)
    if comm is None or comm.size == 1:
        return
    if done.excinfo is None:
        return comm.barrier()
    with pyfuncitem.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        traceback.print_exception(*done.excinfo)
        print(f"rank {comm.rank} of {comm.size} failed in {pyfuncitem.name}", flush=True)
    comm.Abort(1)
