"""rota's own loader."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rota import _rota, _sources
from rota._balance import Balance
from rota._communicator import Communicator, as_communicator, as_world, check_world, compared, find_world, torchs_ranks
from rota._datasets import names_of
from rota._errors import BusyError, InvalidArgumentError
from rota._options import in_rotas_words
from rota._plan import PlanFile, another_plan, by_order, plan_text, read_plan, weights_by_order
from rota._run import Run
from rota._settle import Settling
from rota._sources import Source
from rota._values import DTypeLike, FieldsLike, Mixture, make_mapping

Batch = make_mapping(_rota.Batch)
Batch.__doc__ = """One rank's slice of a global batch: a mapping of fields to arrays over its memory, or to `Ragged`.

Memory goes back to the loader when the batch and all of its arrays are gone. One number for each of its `size` slots
have `ids`, `kinds` (0: a sample; 1: padding; 2: skipped), `mask` (True where a sample counts), `epochs`, `datasets` and
`slots` (of the global batch). `start` is the position before it; `real`, `global_size` and `global_real` count. Under
"balanced" there are `micro_ends`, `global_sums` and `costs`. Of
streams there are `stream_ids` and `positions` in place of `ids`, `datasets` and `slots`, which are empty;
but a dispatch that is settled by hand has `ids`.
"""
Batch.mask = property(lambda self: self.kinds == 0, doc="[size], True where a sample counts.")
Batch.__repr__ = lambda self: f"<rota.Batch of {self.size} samples: {', '.join(self)}>"


def _taken(source: Any, types: Mapping[str, DTypeLike] | None) -> Any:
    """`source` with those types, or each of a mixture."""
    if isinstance(source, Mixture):
        sources, weights, names = by_order("mix datasets", source.sources, source.weights)
        taken = [_taken(one, types) for one in sources]
        return source._replace(sources=dict(zip(names, taken)) if names else taken, weights=weights)
    source = _sources._as_source("make a loader", source)
    return source if types is None else _sources.cast(source, types)


def _place(world: Any, comm: Any) -> Any:
    """The communicator, where there is one, or else the world."""
    if comm is ...:
        comm = torchs_ranks() if world is None else None
    if comm is None:
        return find_world() if world is None else as_world(world)
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


_open: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # in this process, to be closed
os.register_at_fork(after_in_child=_open.clear)


def close_all() -> None:
    """Ends what threads of loaders do, before Python ends and takes its lock with it.

    A worker ends behind the sample in hand. One that takes longer, in code of others, is left behind.
    """
    _rota.end_waits()
    until = time.monotonic() + 5  # for threads that are in a loader
    patience = time.monotonic() + 1
    # A list that is made at once, for threads may make others meanwhile.
    for loader in [loader for ref in _open.valuerefs() if (loader := ref()) is not None]:
        while True:
            try:
                loader._close_within(max(patience - time.monotonic(), 0.1))
                break
            except BusyError:
                if time.monotonic() > until:
                    break
                time.sleep(0.01)


def opened(loader: Any) -> None:
    """To be closed before Python ends."""
    _open[id(loader)] = loader


class Placed:
    """A loader of samples or of streams, whose world torch.distributed may have contradicted since it was made."""

    _is_placed: bool  # by world= or comm=

    def __iter__(self: Any) -> Iterator[_rota.Batch]:
        if not self._is_placed:
            check_world(self.world)
        super().__iter__()  # type: ignore
        return iter(super().next, None)  # type: ignore # not self: a comprehension of Python 3.13 asks what it gets once more

    def next(self: Any) -> _rota.Batch | None:
        """The next batch, or None after the last epoch. Waits until it is read; of streams **collective**.

        What fails is raised in its batch's place, of streams on all ranks. The position stays: the next call tries the
        same batch again.
        """
        if not self._is_placed:
            check_world(self.world)
        return super().next()  # type: ignore


class Loader(Placed, Settling, _rota.Loader):
    """Reads ahead with worker threads and hands out this rank's slice of each global batch, in order.

    Iterate over it: a `Batch` is a mapping of field names to numpy arrays without a copy, or to `Ragged`. The position
    moves when a batch is handed out. One thread at a time uses a loader.

    - The dataset, `shards`, `interleave`, `shuffle` ("none", "within", "global", "block"), `seed` and `block` define
      the order: they must be the same on resume. All else may change, the world included. `shards="files"` makes one of
      each file, "units" one of each compressed chunk; `shards=0` makes 256, or one under "none", which is then the
      dataset's order. `block=(0, n)` takes chunks for blocks.
    - `tail` says what happens at the end of an epoch: "partial", "carry", "drop" or "pad". `epochs=None`: no last one.
    - `cast={"tokens": "int64"}` changes element types before all else: see `rota.cast`.
    - `transform(sample)` gets a `Sample`, and changes it in place or returns a dict of `transform_fields`.
      `collate(batch)` gets a dict of arrays, with `ids` and `mask`, and returns one of `collate_fields`, a row for each
      sample. Workers call both, under Python's lock, several at once.
    - The ranks of `comm`, which `rota.Communicator` takes, make the loader together, check that dataset and options are
      the same, and count bad samples together. Left out, it is that of torch.distributed, where that is initialised.
    - `world` is this process among those that share the data, which then exchange nothing: (rank, size), or what
      `rota.torch.world` returns.
    - `rank_split="balanced"` deals each batch so that ranks have as much to do, as `balance` says.
    - `plan` says what the run changes on its way: batch sizes, weights, steps that are left out (docs/change.md). It is
      a dict, or the path of a file of JSON, which one rank of `comm` reads. With `replan="at_save"` each save of a
      `CheckpointDirectory` reads it anew, and the run goes on by what it says then.
    - A message of the logger "rota" says what workers are reading, each time that a batch has been waited for
      `slow_after` seconds.
    - A `for` gives what is left of the run. `evaluation=True`, for validation: each `for` begins at the first sample.
    - `settle="by_hand"`: a sample is trained when `settle` says so, and not when it is handed out. What is open goes
      with the state, and comes again. At most `open_limit` samples are out.
    - `on_bad_sample="skip"` masks what cannot be read, up to `max_skipped` samples.

    >>> import rota
    >>> loader = rota.Loader(rota.PythonSource([{"x": i} for i in range(10)]), 4, shuffle="none")
    >>> [batch["x"].tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    @in_rotas_words
    def __init__(
        self,
        source: Source | Mixture,
        global_batch_size: int = 32,
        *,
        world: Any = None,
        comm: Any = ...,
        shards: int | str = 0,
        interleave: int = 0,
        shuffle: str = "global",
        seed: int = 0,
        block: tuple[int, int] = (256, 16),
        tail: str = "partial",
        rank_split: str = "by_sample",
        balance: Balance | None = None,
        worker_split: str = "by_sample",
        epochs: int | None = 1,
        plan: Mapping[str, Any] | str | os.PathLike | None = None,
        replan: str = "by_hand",
        evaluation: bool = False,
        settle: str = "at_delivery",
        open_limit: int = 16_384,
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
        options = dict(locals(), transform=_weakly(transform), collate=_weakly(collate))
        for name in ("self", "source", "world", "comm", "cast", "plan", "replan", "__class__"):
            options.pop(name, None)
        place = _place(world, comm)
        self._ranks = place if isinstance(place, Communicator) else None
        text = read_plan(plan, source.sources if isinstance(source, Mixture) else None, self._ranks)
        names: list[str] = []
        with compared(self._ranks, "make a loader") as describe:
            self._plan_file = PlanFile.of(plan, replan)
            self._source = _taken(source, cast)
            sources = [self._source]
            if isinstance(self._source, Mixture):
                _rota.check_mixture(self._source)
                sources, _, names = by_order("mix datasets", self._source.sources, self._source.weights)
            given = _rota.LoaderOptions(**options, plan=plan_text(text, names))
            describe(f"replan {replan}\n" + "".join(f"{name}\n" for one in sources for name in names_of(one)))
        super().__init__(self._source, given, place)
        self._is_placed = world is not None or comm is not ...
        self._functions = transform, collate  # which C++ holds weakly
        self._is_by_hand = settle == "by_hand"
        self._ledger = self._made_ledger  # kept, for threads: it needs no turn
        opened(self)

    @property
    def source(self) -> Source | Mixture:
        """What the loader was made of."""
        return self._source

    @property
    def run(self) -> Run:
        """Where it is, as a value, behind the last batch handed out."""
        return Run._of(self._run)

    def rescale(self, world: Any = None, *, comm: Any = ...) -> None:
        """Goes on from the same position in another world: (rank, size); or that of `comm`, whose ranks all call it."""
        place = _place(world, comm)
        self._rescale(place)
        self._ranks = place if isinstance(place, Communicator) else None
        self._is_placed = world is not None or comm is not ...

    def replan(self, plan: Mapping[str, Any] | str | os.PathLike) -> None:
        """Goes on by another plan, of which all is the same that is past, else MismatchError. All ranks at one step."""
        self._replan(another_plan(plan, self.names, self._ranks))
        if self._plan_file:
            self._plan_file.follow(plan)

    def set_weights(self, weights: Any) -> None:
        """Goes on with other weights of a mixture's datasets, in order or by name. All ranks do it at the same step."""
        super().set_weights(weights_by_order("set weights", weights, self.names))

    def __repr__(self) -> str:
        if not hasattr(self, "_is_placed") or self.is_closed:
            return "<rota.Loader, closed>"
        at, world = self.position, self.world
        return (
            f"<rota.Loader of {self._source!r}, batches of {self.global_batch_size}, rank {world.rank} of "
            f"{world.size}, at epoch {at.epoch}, sample {at.consumed}, step {at.step}>"
        )
