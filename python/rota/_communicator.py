"""Groups of ranks, of MPI or of torch.distributed; and where this process is among those that share the data."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rota import _rota
from rota._errors import ALONE, Error, InvalidArgumentError, TimeoutError, UnsupportedError, told
from rota._values import World

Communicator = _rota.Communicator
Communicator.__module__ = "rota"
Communicator.__doc__ = """A group of ranks that load and save together; or, of None, this process alone.

`comm` is a communicator of mpi4py, of which this is a duplicate; or a process group of torch.distributed, or a
dimension of a DeviceMesh, whose ranks get a group by gloo of their own. All ranks make it together. They wait
`deadline` seconds for a rank that makes no progress, 0: for ever; then TimeoutError names it. Import mpi4py's MPI
first: that starts MPI, and ends it after Python's end.

>>> Communicator()
<rota.Communicator: rank 0 of 1>
"""


def group_of(comm: Any, deadline: float) -> Any:
    """**Collective**, where `comm` is of torch.distributed: what carries its calls, or None of one rank. Else False."""
    if torch_distributed() is None:
        return False
    from rota import _torch_ranks

    group = _torch_ranks.group_of(comm)
    return False if group is None else _torch_ranks.Group.of(group, "make a communicator", deadline)


def as_communicator(comm: Any) -> Any:
    """One of rota's, of what `Communicator` takes; or what is one already."""
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
def agreed(comm: Any, phase: str) -> Iterator[Any]:
    """**Collective** over `comm`, which it gives as a Communicator; or None, of None.

    What one rank fails at inside is raised on all, before they do something together.
    """
    ranks = None if comm is None else as_communicator(comm)
    if ranks is None:
        yield None
        return
    failed: BaseException | None = None
    try:
        yield ranks
    except BaseException as error:
        failed = error
    with first(lambda: failed):
        try:
            ranks._agree(phase, told(failed))
        except TimeoutError as error:
            if ranks not in _of_torch.values():
                raise
            raise TimeoutError(f"{error}. {ALONE}") from None
    if failed is not None:
        raise failed


@contextmanager
def compared(comm: Any, phase: str) -> Iterator[Callable[[str], None]]:
    """The same; and raises on all where texts, of lines, are not the same on all ranks."""
    texts: list[str] = []
    with agreed(comm, phase):
        yield texts.append
    if comm is not None:
        comm._require_same(phase, "".join(texts))


# ---- the world of this process ----


def torch_distributed() -> Any:
    """The module, where it is there and initialised; else None."""
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None
    )


_is_told = False


def _told(by: str, world: World) -> World:
    """Says once where the world is from."""
    global _is_told
    if world.rank == 0 and world.size > 1 and not _is_told:
        _is_told = True
        logging.getLogger("rota").warning("the world is %s's: rank 0 of %d", by, world.size)
    return world


def find_world() -> World:
    """This process among those that share the data.

    MPI's, where it runs; torch.distributed's, where it is initialised; or that of the environment: torchrun, mpirun,
    srun. Alone otherwise.
    """
    torch = sys.modules.get("torch.utils.data")
    worker = torch.get_worker_info() if torch is not None else None
    if worker is not None and worker.num_workers > 1:
        raise UnsupportedError(
            f"find the world: this is worker {worker.id} of {worker.num_workers} of torch's DataLoader, and each would "
            "read the same; say which part is its own, world=(rank * workers + worker, ranks * workers), or let rota's "
            "loader read with threads instead"
        )
    mpi, distributed = _rota.mpi_world(), torch_distributed()
    theirs = World(distributed.get_rank(), distributed.get_world_size()) if distributed is not None else World()
    if mpi is not None and theirs.size > 1 and tuple(mpi)[:2] != tuple(theirs)[:2]:
        raise InvalidArgumentError(
            f"find the world: this is rank {mpi[0]} of {mpi[1]} of MPI, and rank {theirs.rank} of {theirs.size} of "
            "torch.distributed; pass comm= or world=, of the one that shares the data"
        )
    if mpi is not None:
        return _told("MPI", mpi)
    if distributed is not None:
        return _told("torch.distributed", theirs)
    return _rota.world_from_environment()


def check_world(world: World) -> None:
    """Refuses to read in a world that was found before torch.distributed had another one."""
    distributed = torch_distributed()
    if distributed is None or distributed.get_world_size() == 1:
        return
    theirs = World(distributed.get_rank(), distributed.get_world_size())
    if theirs[:2] != world[:2]:
        raise InvalidArgumentError(
            f"read batches: this was made for rank {world.rank} of {world.size}, and is rank {theirs.rank} of "
            f"{theirs.size} of torch.distributed by now; make it after init_process_group(), or say where it is: "
            "world=(0, 1), of streams comm=None"
        )


_of_parent: Any = None  # the group of all ranks that a forked child has from its parent


def _keep_parents() -> None:
    global _of_parent
    distributed = torch_distributed()
    _of_parent = None if distributed is None else distributed.group.WORLD


os.register_at_fork(after_in_child=_keep_parents)

_of_torch: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # of the group of all ranks, its own


def as_world(world: Any) -> Any:
    """(rank, size), or that of a dimension of a DeviceMesh, or of a process group."""
    if not isinstance(world, (tuple, list)) and torch_distributed() is not None:
        from rota import _torch_ranks

        group = _torch_ranks.group_of(world)
        if group is not None:
            return torchs_world(group)
    return world


def torchs_world(group: Any) -> World:
    """This process in `group`, among ranks of torch.distributed that are in as large ones. **Collective** over all."""
    ranks = torchs_ranks()
    if ranks is None:
        return World()
    distributed = torch_distributed()
    rank, size = distributed.get_rank(group), distributed.get_world_size(group)
    placed = ranks.data_parallel(rank)
    world: World = placed.world
    placed.close()
    if world.size != size:
        raise InvalidArgumentError(
            f"take the world of a group of {size} ranks: others gave one of {world.size}; all give as large ones"
        )
    return world


def torchs_ranks() -> Any:
    """Of all ranks of torch.distributed, where the world is theirs; else None. **Collective** at its first call."""
    distributed = torch_distributed()
    if distributed is None or distributed.get_world_size() == 1:
        return None
    find_world()  # which MPI, if it is there, must not contradict
    world = distributed.group.WORLD
    if world is _of_parent:
        raise UnsupportedError(
            "find the ranks that work together: torch.distributed is the parent's, of which this process was forked; "
            "say that it is alone: comm=None, or world=(0, 1)"
        )
    if world not in _of_torch:
        _of_torch[world] = Communicator(world)
    return _of_torch[world]


def needed_ranks(comm: Any, task: str, world: World | None = None) -> Any:
    """Of `comm`, which is ... where it was left out: then torch.distributed's, of the `world` that was found."""
    ranks = torchs_ranks() if comm is ... else as_communicator(comm)
    if ranks is not None:
        return ranks
    world = world or find_world()
    if world.size == 1:
        return Communicator()
    raise InvalidArgumentError(
        f"{task}: this is rank {world.rank} of {world.size}, and ranks do this together; call "
        "torch.distributed.init_process_group() first, or pass comm=MPI.COMM_WORLD of mpi4py; comm=None is this "
        "process alone"
    )
