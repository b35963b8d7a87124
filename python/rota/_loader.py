"""rota's own loader."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rota import _rota, _sources
from rota._communicator import Communicator, agreed, as_communicator, compared, torch_distributed
from rota._errors import BusyError, InvalidArgumentError, UnsupportedError
from rota._options import as_number, as_option
from rota._sources import Source
from rota._values import BatchSlot, DTypeLike, FieldsLike, Position, SkippedSample, World, document


def make_mapping(batch: Any) -> Any:
    """Gives a class of batches what mappings have beside `[name]`."""
    batch.__module__ = "rota"
    Mapping.register(batch)
    batch.keys = lambda self: list(self)
    batch.values = lambda self: [self[name] for name in self]
    batch.items = lambda self: [(name, self[name]) for name in self]
    batch.get = lambda self, name, default=None: self[name] if name in self else default
    for name in ("keys", "values", "items", "get"):
        getattr(batch, name).__doc__ = "As of a dict, by the fields' names."
    document(batch, fields="What tensors there are.", size="Samples here, which count or not.", start="The position before it.")
    batch.__repr__ = lambda self: f"<rota.{batch.__name__} of {self.size} samples: {', '.join(self)}>"
    return batch


Batch = make_mapping(_rota.Batch)
Batch.__doc__ = """One rank's slice of a global batch: a mapping of field names to arrays over its own memory, or to `Ragged`.

Memory goes back to the loader when the batch and all of its arrays are gone. One number for each of its `size` slots have
`ids`, `kinds` (0: a sample; 1: padding; 2: skipped), `mask` (True where a sample counts), `epochs`, `datasets` and `slots`
(of the global batch). `start` is the position before it; `real`, `global_size` and `global_real` count. Of streams there are
`stream_ids` and `positions` in place of `ids`, `datasets` and `slots`, which are empty.
"""
Batch.mask = property(lambda self: self.kinds == 0, doc="[size], True where a sample counts.")
document(
    Batch,
    ids="[size], int64: the samples.",
    kinds="[size], uint8: 0 a sample, 1 padding, 2 skipped.",
    epochs="[size], int64: of each sample.",
    datasets="[size], int32: which of a mixture's datasets each sample is of.",
    slots="[size], int64: places in the global batch, ascending.",
    stream_ids="[size, 3], int64: of streams, shard, input and output of each sample: see `StreamId`.",
    positions="[size], int64: of streams, the number of each sample in its shard's stream.",
    real="Samples here that count.",
    global_size="Samples of all ranks, which count or not. Not of streams.",
    global_real="Samples of all ranks that count. An error where several ranks may skip some: sum `real` over ranks.",
)


class _Mixture(NamedTuple):
    sources: Sequence[Any]
    weights: Sequence[float]
    end: str = "first_exhausted"
    steps: int = 0


class Mixture(_Mixture):
    """Datasets with the same fields that take turns by weight. Each has epochs of its own.

    `end` is "first_exhausted", "all_exhausted", or "steps": then the run has `steps` steps.
    """

    __slots__ = ()

    def __new__(cls, sources: Sequence[Any], weights: Sequence[float], end: str = "first_exhausted", steps: int = 0) -> Mixture:
        numbers = [as_option("mix datasets", "a weight", weight, 1.0) for weight in weights]
        if len(sources) != len(numbers):
            raise InvalidArgumentError(f"mix datasets: {len(sources)} datasets, but {len(numbers)} weights")
        if not all(0 <= number < float("inf") for number in numbers) or not any(numbers):
            raise InvalidArgumentError(f"mix datasets: the weights are {numbers}; each must be 0 or more, and one above 0")
        return super().__new__(cls, sources, weights, end, steps)


def find_world(world: Any = None) -> World:
    """This process among those that share the data.

    What the caller says, or (rank, size); else MPI's, where it runs; torch.distributed's, where it is initialised; or
    that of the environment: torchrun, mpirun, srun. Alone otherwise.
    """
    if world is not None:
        if not isinstance(world, tuple) or not 2 <= len(world) <= 3:
            raise TypeError(f"a world is (rank, size), not {world!r}")
        return World(*(as_number("place a loader", "a number of its world", number, 32) for number in world))
    mpi = _rota.mpi_world()
    if mpi is not None:
        return _told("MPI", World(*mpi))
    distributed = torch_distributed()
    if distributed is not None:
        return _told("torch.distributed", World(distributed.get_rank(), distributed.get_world_size()))
    return World(*_rota.world_from_environment())


_is_told = False


def _told(by: str, world: World) -> World:
    """Says once where the world is from."""
    global _is_told
    if world.rank == 0 and world.size > 1 and not _is_told:
        _is_told = True
        logging.getLogger("rota").warning("the world is %s's: rank 0 of %d", by, world.size)
    return world


def is_torchs(world: Any) -> bool:
    """Whether `find_world` asks torch.distributed."""
    return world is None and _rota.mpi_world() is None and torch_distributed() is not None


def check_mixture(sources: Sequence[Any], weights: Sequence[float], end: str, steps: int) -> tuple:
    """What the C++ side takes for a mixture."""
    if end not in ("first_exhausted", "all_exhausted", "steps"):
        raise InvalidArgumentError(f'mix datasets: end is "{end}"; it must be first_exhausted, all_exhausted or steps')
    if steps if end != "steps" else not as_number("mix datasets", "steps", steps) > 0:
        raise InvalidArgumentError(f'mix datasets: steps is {steps} and end "{end}"; steps must be 1 or more with end="steps"')
    made = [_sources._as_source("mix datasets", source) for source in sources]
    return made, [as_option("mix datasets", "a weight", weight, 1.0) for weight in weights], end, steps


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


def _weakly(function: Any) -> Any:
    """Calls `function` without holding it: so that a loader whose functions lead to itself can be collected."""
    try:
        found = weakref.ref(function)
    except TypeError:
        return function

    def call(value: Any) -> Any:
        kept: Any = found()  # gone: the loader is being dropped
        return kept(value)

    return call


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
    _world: Any
    _fingerprint: Any
    _stats: Any
    _close: Any
    _is_closed: Any

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

    @property
    def world(self) -> World:
        """This process among those that share the data."""
        return self._world()

    @property
    def fingerprint(self) -> str:
        """What the dataset is known by: a state of another one is refused."""
        return self._fingerprint()

    @property
    def stats(self) -> dict[str, Any]:
        """Counts since the loader was made: batches, samples, bytes, seconds that `next` waited, and of each worker."""
        return self._stats()

    def close(self) -> None:
        """Ends the workers, and frees what they have read. Batches in hand stay."""
        self._close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Loader(LoaderBase, _rota.Loader):
    """Reads ahead with worker threads and hands out this rank's slice of each global batch, in order.

    Iterate over it: a `Batch` is a mapping of field names to numpy arrays without a copy, or to `Ragged`. The position
    moves when a batch is handed out. One thread at a time uses a loader.

    - The dataset, `shards`, `interleave`, `shuffle` ("none", "within", "global", "block"), `seed` and `block` define the
      order: they must be the same on resume. All else may change, the world included. `shards="files"` makes one of each
      file; `shards=0` makes 256, or one under
      "none", which is then the dataset's order.
    - `tail` says what happens at the end of an epoch: "partial", "carry", "drop" or "pad". `epochs=None`: no last one.
    - `cast={"tokens": "int64"}` changes element types before all else: see `rota.cast`.
    - `transform(sample)` gets a `Sample`, and changes it in place or returns a dict of `transform_fields`.
      `collate(batch)` gets a dict of arrays, and returns one of `collate_fields`. Workers call both, under Python's lock.
    - `comm`, of mpi4py or a `rota.mpi.Communicator`: all ranks make the loader together, check that dataset and options
      are the same, and count bad samples together.
    - A message of the logger "rota" says what workers are reading, each time that a batch has been waited for `slow_after` seconds.
    - A `for` gives what is left of the run. `evaluation=True`, for validation: each `for` begins at the first sample.
    - `on_bad_sample="skip"` masks what cannot be read, up to `max_skipped` samples.

    >>> import rota
    >>> loader = rota.Loader(rota.PythonSource([{"x": i} for i in range(10)]), 4, shuffle="none")
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
        shards: int | str = 0,
        interleave: int = 0,
        shuffle: str = "global",
        seed: int = 0,
        block: tuple[int, int] = (256, 16),
        tail: str = "partial",
        rank_split: str = "by_sample",
        worker_split: str = "by_sample",
        epochs: int | None = 1,
        evaluation: bool = False,
        workers: int = 1,
        read_ahead_batches: int = 4,
        read_ahead_bytes: int = 1 << 28,
        slow_after: float = 60.0,
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
        options = dict(locals())
        place = _place(world, comm)
        with compared("make loaders", comm is None and is_torchs(world)) as describe:
            with agreed(place if isinstance(place, Communicator) else None, "make a loader"):
                if on_bad_sample not in ("fail", "skip"):
                    raise InvalidArgumentError(f'make a loader: on_bad_sample is "{on_bad_sample}"; it must be fail or skip')
                for name, function, made in (
                    ("transform", transform, transform_fields),
                    ("collate", collate, collate_fields),
                ):
                    if made and function is None:
                        raise InvalidArgumentError(f"make a loader: {name}_fields are given, but no {name}")
                if not isinstance(source, Mixture):
                    source = _sources._as_source("make a loader", source)
                if cast is not None:
                    source = _cast(source, cast)
                for name in ("self", "source", "world", "comm", "cast", "on_bad_sample", "__class__"):
                    options.pop(name, None)
                options["skip_bad_samples"] = on_bad_sample == "skip"
                data: Any = check_mixture(*source) if isinstance(source, Mixture) else source
                given = {**options, "transform": _weakly(transform), "collate": _weakly(collate)}
                _rota.check_loader_options(given)
            self._options = options
            super().__init__(data, given, place)
            self._source = source
            self._opened()
            describe(self._described())

    def __iter__(self) -> Iterator[Any]:
        self._begin()
        return self

    def __bool__(self) -> bool:
        return True  # however many steps there are

    def __len__(self) -> int:
        """Steps of all epochs, wherever the run stands. TypeError of a mixture, and without a last epoch."""
        try:
            return self._steps(False)
        except UnsupportedError as error:  # by which list() knows that there is no length
            raise TypeError(str(error)) from None

    @property
    def steps_per_epoch(self) -> int:
        """At this batch size. UnsupportedError of a mixture."""
        return self._steps(True)

    def restart(self) -> None:
        """Begins anew, with the first sample of the first epoch."""
        super().restart()

    def state_dict(self) -> dict[str, str]:
        """Where the loader is; the same on all ranks. An evaluation has no state: {}, which `load_state_dict` takes."""
        return {} if self._options["evaluation"] else super().state_dict()

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, in any world. MismatchError, with both values, for another dataset or order."""
        if state or not self._options["evaluation"]:
            super().load_state_dict(state)

    @property
    def source(self) -> Source | Mixture:
        """What the loader was made of."""
        return self._source

    def warm_up(self) -> None:
        """Opens what the first batch needs, and waits for it: so that a job does not wait in its first step."""
        super().warm_up()

    def seek(self, position: tuple) -> None:
        """Goes to `position`, as of this order; what was read ahead is dropped."""
        numbers = [as_number("go to a position", "a number of it", number) for number in position]
        super().seek(tuple(numbers))

    def when(self, id: int, epoch: int) -> BatchSlot | None:
        """The step, rank and slot in which sample `id` is read in `epoch`; None where it never is."""
        what = "look up a sample"
        return super().when(as_number(what, "id", id), as_number(what, "epoch", epoch))

    def first_id(self, dataset: int) -> int:
        """The id of the first sample of a mixture's dataset: ids number all of them, one dataset after the other."""
        return super().first_id(as_number("look up a dataset", "its number", dataset))

    def set_global_batch_size(self, size: int) -> None:
        """Goes on with batches of another size. All ranks do it at the same step."""
        super().set_global_batch_size(as_number("set a batch size", "it", size))
        self._options["global_batch_size"] = size

    def set_weights(self, weights: Sequence[float]) -> None:
        """Goes on with other weights of a mixture's datasets. All ranks do it at the same step."""
        super().set_weights([as_option("set weights", "a weight", weight, 1.0) for weight in weights])

    @property
    def position(self) -> Position:
        """Behind the last batch handed out."""
        return super().position

    @property
    def skipped(self) -> list[SkippedSample]:
        """The first bad samples that were skipped, of all ranks."""
        return super().skipped

    @property
    def skipped_count(self) -> int:
        """All that were skipped, of all ranks."""
        return super().skipped_count

    def rescale(self, world: Any = None, *, comm: Any = None) -> None:
        """Goes on from the same position in another world: (rank, size); or that of `comm`, whose ranks all call it."""
        self._rescale(_place(world, comm))

    def __repr__(self) -> str:
        if not hasattr(self, "_process") or self.is_closed:
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
