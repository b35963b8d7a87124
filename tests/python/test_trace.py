"""Traces that Python's loaders write, read by `rota audit`."""

import rota
import rota.mpi
from runs import audit, next_of, refused, source


def phase(folder, number, world, steps, state):
    """`steps` steps of all ranks in a phase of their own; the state behind them."""
    loaders = [rota.Loader(source(20), 3, shuffle="global", world=(rank, world)) for rank in range(world)]
    for loader in loaders:
        if state:
            loader.load_state_dict(state)
        trace = rota.TraceWriter(folder, loader, phase=number)
        assert trace.phase == number
        for _ in range(steps):
            trace.write(next_of(loader))
        trace.end()
    return loaders[0].state_dict()


def test_of_a_run_that_goes_on_elsewhere_the_audit_finds_each_sample_once(tmp_path):
    state = phase(tmp_path, 0, 2, 3, None)
    phase(tmp_path, 1, 3, 4, state)
    assert audit(tmp_path, "--samples", 20, "--epochs", 1).returncode == 0
    phase(tmp_path, 2, 1, 1, state)  # goes back, and leaves three steps out
    assert audit(tmp_path, "--samples", 20, "--epochs", 1).returncode != 0


def test_of_a_stream_as_well(tmp_path):
    loader = rota.StreamLoader(rota.as_stream(source(20), 4), 3)
    trace = rota.TraceWriter(tmp_path, loader, comm=rota.mpi.Communicator())
    for batch in loader:
        trace.write(batch)
    trace.end()
    assert audit(tmp_path, "--samples", 20, "--epochs", 1).returncode == 0
    for wrong in (lambda: trace.write(batch), trace.end):
        refused(wrong, rota.InvalidArgumentError, "it has ended")


def test_what_cannot_be_a_trace_is_refused(tmp_path):
    loader = rota.Loader(source(20), 3)
    refused(lambda: rota.TraceWriter(tmp_path, rota.Loader(source(20), 3, world=(0, 2))), rota.InvalidArgumentError, "needs a communicator")
    refused(lambda: rota.TraceWriter(tmp_path, loader, phase=-1), rota.InvalidArgumentError, "phase -1")
    rota.TraceWriter(tmp_path, loader, phase=4)
    refused(lambda: rota.TraceWriter(tmp_path, loader, phase=4), rota.IOError, "File exists")
    for wrong in (lambda: rota.TraceWriter(tmp_path, [1, 2]), lambda: rota.TraceWriter(tmp_path, loader).write([1, 2])):
        refused(wrong, TypeError)
