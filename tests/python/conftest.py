"""In a job of several ranks, whose test modules have COMM, a test that fails ends the job: others may wait for its rank."""

import traceback

import pytest


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
