"""rota in MPI jobs.

Ranks of an MPI job check that they have the same data and options, count bad samples together, and save together:

    from mpi4py import MPI
    import rota, rota.mpi

    comm = rota.Communicator(MPI.COMM_WORLD)
    loader = rota.Loader(source, 64, comm=comm)
    directory = rota.CheckpointDirectory(comm, "checkpoints")
    directory.restore(loader)

Calls that are **collective** are to be made by all ranks, in the same order. What fails on one rank is raised on all.
"""

from __future__ import annotations

from rota._checkpoint import CheckpointDirectory
from rota._communicator import Communicator

__all__ = ["CheckpointDirectory", "Communicator"]
