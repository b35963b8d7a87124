"""rota's own loader."""

from __future__ import annotations

import operator
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota import _rota, _sources
from rota._communicator import as_communicator
from rota._errors import BusyError, InvalidArgumentError
from rota._sources import Source
from rota._values import DTypeLike, FieldsLike, World


def make_mapping(batch: Any) -> Any:
    """Gives a class of batches what mappings have beside `[name]`."""
    batch.__module__ = "rota"
    Mapping.register(batch)
    batch.keys = lambda self: list(self)
    batch.values = lambda self: [self[name] for name in self]
    batch.items = lambda self: [(name, self[name]) for name in self]
    batch.get = lambda self, name, default=None: self[name] if name in self else default
    batch.__repr__ = lambda self: f"<rota.{batch.__name__} of {self.size} samples: {', '.join(self)}>"
    return batch


Batch = make_mapping(_rota.Batch)
Batch.__doc__ = """One rank's slice of a global batch: a mapping of field names to arrays over its own memory, or to `Ragged`.

Memory goes back to the loader when the batch and all of its arrays are gone. One number for each of its `size` slots have
`ids`, `kinds` (0: a sample; 1: padding; 2: skipped), `mask` (True where a sample counts), `epochs`, `datasets` and `slots`
(of the global batch). `start` is the position before it; `real`, `global_size` and `global_real` count.
"""
Batch.mask = property(lambda self: self.kinds == 0)


class Mixture(NamedTuple):
    """Datasets with the same fields that take turns by weight. Each has epochs of its own.

    `end` is "first_exhausted", "all_exhausted", or "steps": then the run has `steps` steps.
    """

    sources: Sequence[Any]
    weights: Sequence[float]
    end: str = "first_exhausted"
    steps: int = 0


def find_world(world: Any = None) -> World:
    """This process among those that share the data.

    What the caller says, or (rank, size); else MPI's, where it runs; torch.distributed's, where it is initialised; or
    that of the environment: torchrun, mpirun, srun. Alone otherwise.
    """
    if world is not None:
        if not isinstance(world, tuple) or not 2 <= len(world) <= 3:
            raise TypeError(f"a world is (rank, size), not {world!r}")
        return World(*map(operator.index, world))
    mpi = _rota.mpi_world()
    if mpi is not None:
        return World(*mpi)
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    return World(*_rota.world_from_environment())


def check_mixture(sources: Sequence[Any], weights: Sequence[float], end: str, steps: int) -> tuple:
    """What the C++ side takes for a mixture."""
    if len(sources) != len(weights):
        raise InvalidArgumentError(f"mix datasets: {len(sources)} datasets, but {len(weights)} weights")
    if end not in ("first_exhausted", "all_exhausted", "steps"):
        raise InvalidArgumentError(f'mix datasets: end is "{end}"; it must be first_exhausted, all_exhausted or steps')
    return list(sources), [float(weight) for weight in weights], end, steps


def _cast(source: Source | Mixture, types: Mapping[str, DTypeLike]) -> Source | Mixture:
    if isinstance(source, Mixture):
        return source._replace(sources=[_sources.cast(one, types) for one in source.sources])
    return _sources.cast(source, types)


def _place(world: Any, comm: Any) -> Any:
    """The communicator, where there is one, or else the world."""
    if comm is None:
        return find_world(world)
    if world is not None:
        raise InvalidArgumentError("place a loader: world= and comm= are given; a communicator has a world")
    return as_communicator(comm)


_open: weakref.WeakSet[LoaderBase] = weakref.WeakSet()


def close_all() -> None:
    """Ends what threads of loaders do, before Python ends and takes its lock with it."""
    _rota.end_waits()
    until = time.monotonic() + 5  # for threads that are in a loader
    for loader in list(_open):
        while loader._process == os.getpid():
            try:
                loader.close()
                break
            except BusyError:
                if time.monotonic() > until:
                    break
                time.sleep(0.01)


class LoaderBase:
    """What loaders of samples and of streams do alike."""

    _next: Any
    _state: Any
    _restore: Any
    close: Any

    def _opened(self) -> None:
        self._process = os.getpid()
        _open.add(self)

    def next(self) -> Any:
        """The next batch, or None after the last epoch. Waits until it is read.

        What fails is raised in its batch's place. The position stays: the next call tries the same batch again.
        """
        return self._next()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._next()
        if batch is None:
            raise StopIteration
        return batch

    def state_dict(self) -> dict[str, str]:
        """Where the loader is; the same on all ranks. See `load_state_dict`."""
        return {"rota": self._state()}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, in any world. MismatchError, with both values, for another dataset or order."""
        self._restore(state_text(state))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Loader(LoaderBase, _rota.Loader):
    """Reads ahead with worker threads and hands out this rank's slice of each global batch, in order.

    Iterate over it: a `Batch` is a mapping of field names to numpy arrays without a copy, or to `Ragged`. The position
    moves when a batch is handed out. One thread at a time uses a loader.

    - The dataset, `shards`, `interleave`, `shuffle` ("none", "within", "global", "block"), `seed` and `block` define the
      order: they must be the same on resume. All else may change, the world included.
    - `tail` says what happens at the end of an epoch: "partial", "carry", "drop" or "pad". `epochs=None`: no last one.
    - `cast={"tokens": "int64"}` changes element types before all else: see `rota.cast`.
    - `transform(sample)` gets a `Sample`, and changes it in place or returns a dict of `transform_fields`.
      `collate(batch)` gets a dict of arrays, and returns one of `collate_fields`. Workers call both, under Python's lock.
    - `comm`, of mpi4py or a `rota.mpi.Communicator`: all ranks make the loader together, check that dataset and options
      are the same, and count bad samples together.
    - `on_bad_sample="skip"` masks what cannot be read, up to `max_skipped` samples.

    >>> import rota
    >>> loader = rota.Loader(rota.PythonSource([{"x": i} for i in range(10)]), 4, shuffle="none", shards=1)
    >>> [batch["x"].tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        source: Source | Mixture,
        global_batch_size: int = 32,
        *,
        world: Any = None,
        comm: Any = None,
        shards: int = 256,
        interleave: int = 0,
        shuffle: str = "global",
        seed: int = 0,
        block: tuple[int, int] = (256, 16),
        tail: str = "partial",
        rank_split: str = "by_sample",
        worker_split: str = "by_sample",
        epochs: int | None = 1,
        workers: int = 1,
        read_ahead_batches: int = 4,
        read_ahead_bytes: int = 1 << 28,
        cast: Mapping[str, DTypeLike] | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_fields: FieldsLike = (),
        collate: Callable[[Any], Any] | None = None,
        collate_fields: FieldsLike = (),
        allocator: Any = None,
        on_bad_sample: str = "fail",
        max_skipped: int = 1000,
        deadline: float = 600.0,
        io_retries: int = 2,
        retry_wait: float = 0.01,
    ) -> None:
        if on_bad_sample not in ("fail", "skip"):
            raise InvalidArgumentError(f'make a loader: on_bad_sample is "{on_bad_sample}"; it must be fail or skip')
        if not isinstance(source, (Source, Mixture)):
            raise TypeError(
                f"a {type(source).__name__} is no rota.Source: open files with rota.open(...), "
                "or wrap a Python dataset as rota.PythonSource(dataset)"
            )
        if cast is not None:
            source = _cast(source, cast)
        options = dict(locals())
        for name in ("self", "source", "world", "comm", "cast", "on_bad_sample", "__class__"):
            options.pop(name, None)
        options["skip_bad_samples"] = on_bad_sample == "skip"
        data: Any = check_mixture(*source) if isinstance(source, Mixture) else source
        super().__init__(data, options, _place(world, comm))
        self._options = options
        self._source = source
        self._opened()

    @property
    def source(self) -> Source | Mixture:
        """What the loader was made of."""
        return self._source

    def rescale(self, world: Any = None, *, comm: Any = None) -> None:
        """Goes on from the same position in another world: (rank, size); or that of `comm`, whose ranks all call it."""
        self._rescale(_place(world, comm))

    def __repr__(self) -> str:
        if self.is_closed:
            return "<rota.Loader, closed>"
        at, world = self.position, self.world
        return (
            f"<rota.Loader of {self._source!r}, batches of {self._options['global_batch_size']}, rank {world.rank} of "
            f"{world.size}, at epoch {at.epoch}, sample {at.consumed}, step {at.step}>"
        )


def state_text(state: Mapping[str, str]) -> str:
    """The text in what `state_dict` returned."""
    if not isinstance(state, Mapping) or not isinstance(state.get("rota"), str):
        raise InvalidArgumentError('load a state: it must be what state_dict() returned, a dict with the text "rota"')
    return state["rota"]
