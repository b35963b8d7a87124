"""Communicators of MPI, which mpi4py makes; and what ranks of torch.distributed compare."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rota import _rota
from rota._errors import BY_CODE, Error, TimeoutError, told


Communicator = _rota.Communicator
Communicator.__module__ = "rota.mpi"
Communicator.__doc__ = """A duplicate of an mpi4py communicator; or, of None, a world of one that needs no MPI.

All ranks make it together. They wait `deadline` seconds for a rank that makes no progress, 0: for ever; then
TimeoutError names it. Import mpi4py's MPI first: that starts MPI, and ends it after Python's end.

>>> Communicator()
<rota.mpi.Communicator: rank 0 of 1>
"""


def as_communicator(comm: Any) -> Communicator:
    """Of one of mpi4py; or what is one already."""
    return comm if isinstance(comm, Communicator) else Communicator(comm)


@contextmanager
def first(own: Callable[[], BaseException | None]) -> Iterator[None]:
    """Raises what this rank failed at by itself, and not the Error inside, by which all ranks heard of it."""
    try:
        yield
        return
    except Error:
        error = own()
        if error is None:
            raise
    raise error  # outside, so that it keeps its own cause and context


@contextmanager
def heard(by_all: Callable[[BaseException | None], Any]) -> Iterator[None]:
    """What one rank fails at inside is raised on all: `by_all` tells the others, and raises what one of them failed at."""
    failed: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failed = error
    with first(lambda: failed):
        by_all(failed)
    if failed is not None:
        raise failed


@contextmanager
def agreed(comm: Any, phase: str) -> Iterator[Communicator | None]:
    """**Collective** over `comm`, which it gives as a Communicator; or None, of None.

    What one rank fails at inside is raised on all, before they do something together.
    """
    ranks = None if comm is None else as_communicator(comm)
    if ranks is None:
        yield None
        return
    agree = ranks._agree
    with heard(lambda failed: agree(phase, told(failed))):
        yield ranks


def torch_distributed() -> Any:
    """The module, where it is initialised; else None."""
    distributed = sys.modules.get("torch.distributed")
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


@contextmanager
def compared(task: str, is_torchs: bool) -> Iterator[Callable[[str], None]]:
    """**Collective** over torch.distributed, where the world is of it.

    What one rank fails at inside is raised on all; so is a text, of lines, that differs from rank 0's.
    """
    distributed = torch_distributed() if is_torchs else None
    texts: list[str] = []
    if distributed is None or distributed.get_world_size() == 1:
        yield texts.append
        return

    def compare(failed: BaseException | None) -> None:
        ranks = _gather(distributed, task, (told(failed), "".join(texts)))
        for rank, (other, _) in enumerate(ranks):
            if other is not None:
                raise BY_CODE[other[0]](f"rank {rank}: {other[1]}")
        for rank, (_, text) in enumerate(ranks):
            try:
                _rota.require_same_lines(task, text, ranks[0][1])
            except Error as error:
                raise type(error)(f"rank {rank}: {error}") from None

    with heard(compare):
        yield texts.append


_DEADLINE = timedelta(minutes=10)
_gloo: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # of the group of all ranks, one by gloo


def _gather(distributed: Any, task: str, mine: Any) -> list[Any]:
    """What all ranks have, in their order."""
    ranks: list[Any] = [None] * distributed.get_world_size()
    try:
        all_ranks = distributed.group.WORLD
        if all_ranks not in _gloo:
            _gloo[all_ranks] = distributed.new_group(timeout=_DEADLINE, backend="gloo")
        distributed.all_gather_object(ranks, mine, group=_gloo[all_ranks])
    except RuntimeError as error:
        raise TimeoutError(
            f"{task}: ranks of torch.distributed could not compare what they make: {error}. All of them make it, within "
            f"{_DEADLINE}; what one rank makes alone takes world=(0, 1)"
        ) from error
    return ranks
