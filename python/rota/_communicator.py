"""Communicators of MPI, which mpi4py makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rota import _rota
from rota._errors import Error, InvalidArgumentError, told
from rota._options import as_number
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
            self._is_made = True
            return
        if not (hasattr(comm, "py2f") and hasattr(comm, "Split")):
            raise TypeError(f"a {type(comm).__name__} is no communicator of mpi4py, such as mpi4py.MPI.COMM_WORLD")
        _rota.require_mpi()
        super().__init__(comm.py2f())
        self._is_made = True

    def data_parallel(self, rank: int) -> Communicator:
        """For tensor, pipeline or context parallel training: processes that pass the same `rank` read the same slice.

        All ranks call it. The result's `world` has that rank, and the process's number among its replicas.
        """
        made = Communicator.__new__(Communicator)
        _rota.Communicator.__init__(made, self, as_number("share out data", "rank", rank, 32))
        made._is_made = True
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
        if not self.__dict__.get("_is_made"):
            return "<rota.mpi.Communicator, not made>"
        try:
            return f"<rota.mpi.Communicator: rank {self.rank} of {self.size}>"
        except InvalidArgumentError:
            return "<rota.mpi.Communicator, closed>"


def as_communicator(comm: Any) -> Communicator:
    """Of one of mpi4py; or what is one already."""
    return comm if isinstance(comm, Communicator) else Communicator(comm)


@contextmanager
def agreed(comm: Communicator | None, phase: str) -> Iterator[None]:
    """**Collective.** What one rank fails at inside is raised on all, before they do something together."""
    failed: BaseException | None = None
    try:
        yield
    except BaseException as error:
        if comm is None:
            raise
        failed = error
    if comm is not None:
        try:
            comm._agree(phase, told(failed))
        except Error:
            if failed is None:
                raise
    if failed is not None:
        raise failed
