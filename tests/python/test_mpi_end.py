"""How MPI jobs of Python end, with rota's objects still open. Runs mpirun itself, in one process."""

import shutil

import pytest
import rota
from runs import needs_mpi, python

pytest.importorskip("mpi4py")
pytestmark = [needs_mpi, pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")]

# Whichever is imported first.
IMPORTS = "from mpi4py import MPI; import rota.mpi", "import rota.mpi; from mpi4py import MPI"
OPEN = """
import sys, numpy as np

class Rows:
    def __len__(self): return 10**5
    def __getitem__(self, i):
        if i % 50 == 0: raise rota.CorruptError("bad")
        return {"x": i}

source = rota.PythonSource(Rows(), {"x": "int64"})
comm = rota.mpi.Communicator(MPI.COMM_WORLD)
assert comm.size == 2
part = comm.data_parallel(comm.rank)
loader = rota.Loader(source, 16, comm=part, on_bad_sample="skip", max_skipped=10**6, deadline=60, workers=2)
for _ in range(5):
    batch = loader.next()
directory = rota.CheckpointDirectory(comm, sys.argv[1], deadline=60)
rows = np.full(300_000, comm.rank)
"""
SAVE = 'directory.save_async(5, loader, {"w": rota.Rows(rows)})\n'


def job(path, code, imports=IMPORTS[0], **options):
    told = python(f"{imports}\n{OPEN}\n{code}", path, ranks=2, **options).stderr
    assert "egmentation" not in told and "MPI_ABORT" not in told, told
    return told.replace("the world is MPI's: rank 0 of 2\n", "")


@pytest.mark.parametrize("imports, end", [
    (IMPORTS[0], ""),
    (IMPORTS[1], "cycle = [loader, directory, comm, part]; cycle.append(cycle); del loader, directory, comm, part"),
    (IMPORTS[0], "import builtins; builtins.kept = [loader, directory, comm, part, batch]"),
    (IMPORTS[1], "del comm, part"),
    (IMPORTS[0], "comm.close(); sys.exit(0)"),
])  # fmt: skip
def test_a_job_that_forgets_to_close_ends_in_order_and_its_save_is_whole(tmp_path, imports, end):
    assert job(tmp_path, SAVE + end, imports) == ""
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        assert directory.latest()["w"].tolist() == [0] * 300_000 + [1] * 300_000


def test_a_job_that_fails_everywhere_ends_at_once(tmp_path):
    assert job(tmp_path, SAVE + "raise ValueError('mine')", returns=1).count("ValueError: mine") >= 1
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
    assert job(tmp_path, code) == ""


def test_mpi_may_end_while_a_save_is_under_way(tmp_path):
    assert "MPI has ended" in job(tmp_path, SAVE + "MPI.Finalize()")
