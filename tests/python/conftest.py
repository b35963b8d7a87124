"""In a job of several ranks, whose test modules have COMM, a test that fails ends the job: others may wait for its rank."""

import shutil
import tempfile
import traceback

import pytest


def pytest_configure(config):
    """A directory of its own for each process, which goes with it: several at once would clean up the same ones."""
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="rota-test-")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


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
