"""How MPI jobs of Python end, with rota's objects still open. Runs mpirun itself, in one process."""

import shutil
import subprocess
import sys
import textwrap

import pytest
import rota

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")

OPEN = """
import sys, numpy as np
from mpi4py import MPI
import rota, rota.mpi

class Rows:
    def __len__(self): return 10**5
    def __getitem__(self, i):
        if i % 50 == 0: raise rota.CorruptError("bad")
        return {"x": i}

source = rota.PythonSource(Rows(), {"x": "int64"})
comm = rota.mpi.Communicator(MPI.COMM_WORLD)
part = comm.data_parallel(comm.rank)
loader = rota.Loader(source, 16, comm=part, on_bad_sample="skip", max_skipped=10**6, deadline=60, workers=2)
for _ in range(5):
    batch = loader.next()
directory = rota.CheckpointDirectory(comm, sys.argv[1], deadline=60)
rows = np.full(300_000, comm.rank)
"""
SAVE = 'directory.save_async(5, loader, {"w": rota.Rows(rows)})\n'


def job(path, code, returns=0):
    program = OPEN + textwrap.dedent(code)
    command = ["mpirun", "-n", "2", sys.executable, "-X", "faulthandler", "-c", program, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode == 0) == (returns == 0), (done.returncode, done.stdout, done.stderr)
    assert "egmentation" not in done.stderr and "MPI_ABORT" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    "end",
    [
        "",
        "cycle = [loader, directory, comm, part]; cycle.append(cycle); del loader, directory, comm, part",
        "import builtins; builtins.kept = [loader, directory, comm, part, batch]",
        "del comm, part",
        "comm.close(); sys.exit(0)",
    ],
)
def test_a_job_that_forgets_to_close_ends_in_order_and_its_save_is_whole(tmp_path, end):
    done = job(tmp_path, SAVE + end)
    assert done.stderr == ""
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        assert directory.latest()["w"].tolist() == [0] * 300_000 + [1] * 300_000


def test_a_job_that_fails_everywhere_ends_at_once(tmp_path):
    assert job(tmp_path, SAVE + "raise ValueError('mine')", returns=1).stderr.count("ValueError: mine") >= 1
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        directory.latest()


def test_mpi_may_end_before_what_used_it(tmp_path):
    code = """
        directory.save(1, loader)
        stream = rota.StreamLoader(rota.as_stream(source, 4), 8, comm=comm)
        catalog = rota.Catalog(sys.argv[1], comm=comm)
        MPI.Finalize()
        for use in (lambda: directory.save(2, loader), lambda: directory.latest(), lambda: directory.wait(),
                    lambda: rota.mpi.Communicator(MPI.COMM_WORLD), lambda: comm.data_parallel(0),
                    lambda: rota.Loader(source, 16, comm=comm), lambda: loader.rescale(comm=comm), loader.next,
                    stream.next, stream.state_dict, lambda: rota.open(catalog, "files"), catalog.to_bytes):
            try:
                use()
            except rota.InvalidArgumentError as error:
                assert "MPI has ended" in str(error), error
            else:
                raise SystemExit(1)
        """
    assert job(tmp_path, code).stderr == ""


def test_mpi_may_end_while_a_save_is_under_way(tmp_path):
    done = job(tmp_path, SAVE + "MPI.Finalize()")
    assert "MPI has ended" in done.stderr


@pytest.mark.parametrize("modules", ["mpi4py.MPI, rota.mpi", "rota.mpi, mpi4py.MPI"])
def test_either_may_be_imported_first(modules):
    program = f"import {modules}; comm = rota.mpi.Communicator(mpi4py.MPI.COMM_WORLD); print(comm.size, flush=True)"
    command = ["mpirun", "-n", "2", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, sorted(done.stdout)) == (0, ["\n", "\n", "2", "2"]), done.stderr
