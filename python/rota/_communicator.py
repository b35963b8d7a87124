"""Communicators of MPI, which mpi4py makes."""

from __future__ import annotations

from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError
from rota._values import World


class Communicator(_rota.Communicator):
    """A duplicate of an mpi4py communicator; or, of None, a world of one that needs no MPI.

    All ranks make it together. Import mpi4py's MPI first: that starts MPI, and ends it after Python's end.

    >>> Communicator()
    <rota.mpi.Communicator: rank 0 of 1>
    """

    def __init__(self, comm: Any = None) -> None:
        if comm is None:
            super().__init__()
            return
        if not hasattr(comm, "py2f"):
            raise TypeError(f"a {type(comm).__name__} is no communicator of mpi4py, such as mpi4py.MPI.COMM_WORLD")
        _rota.require_mpi()
        super().__init__(comm.py2f())

    def data_parallel(self, rank: int) -> Communicator:
        """For tensor, pipeline or context parallel training: processes that pass the same `rank` read the same slice.

        All ranks call it. The result's `world` has that rank, and the process's number among its replicas.
        """
        made = Communicator.__new__(Communicator)
        _rota.Communicator.__init__(made, self, rank)
        return made

    @property
    def rank(self) -> int:
        """Of `size` processes."""
        return super().rank

    @property
    def size(self) -> int:
        return super().size

    @property
    def world(self) -> World:
        """The slice of the data that this process reads: `rank` of `size`, unless `data_parallel` made it."""
        return super().world

    def __reduce__(self) -> Any:
        raise TypeError("a communicator cannot be pickled: it is of this process")

    def __repr__(self) -> str:
        try:
            return f"<rota.mpi.Communicator: rank {self.rank} of {self.size}>"
        except InvalidArgumentError:
            return "<rota.mpi.Communicator, closed>"


def as_communicator(comm: Any) -> Communicator:
    """Of one of mpi4py; or what is one already."""
    return comm if isinstance(comm, Communicator) else Communicator(comm)
