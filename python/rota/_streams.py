"""Data without an index: streams, what is made of them, and their loader."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Union

from rota import _rota
from rota._communicator import agreed, find_world, needed_ranks, torchs_ranks
from rota._errors import Refusal
from rota._loader import Placed, opened
from rota._options import in_rotas_words
from rota._settle import Settling
from rota._sources import Source, _as_source
from rota._values import FieldsLike, StreamSample, World

StreamSource = _rota.StreamSource
StreamSource.__module__ = "rota"
StreamSource.__doc__ = """Logical shards that are read in sequence: see `StreamLoader`."""


def _repr(self: StreamSource) -> str:
    return f"<rota.StreamSource of {self.shards} shards: {', '.join(field.name for field in self.fields)}>"


StreamSource.__repr__ = _repr  # type: ignore

Cursor = Union[int, "tuple[int, ...]", bytes]


class Stream:
    """Samples that are read in sequence, in `shards` shards. Your own class sets `fields`, and overrides `open`.

    Each worker has a shallow copy of it, if there are several shards. So open files in `open`, not in `__init__`.
    What has one shard is not copied, so it may read a pipe: see `Dispatch`.

    >>> import rota
    >>> class Rows(rota.Stream):
    ...     fields = {"x": "int64"}
    ...     shards = 2
    ...
    ...     def open(self, shard, epoch, cursor):
    ...         for i in range(cursor or 0, 3):
    ...             yield {"x": 10 * shard + i}, i + 1
    >>> [batch["x"].tolist() for batch in rota.StreamLoader(Rows(), 4)]
    [[0, 10, 1, 11], [2, 12]]
    """

    fields: FieldsLike
    """of every sample"""
    shards: int = 1
    """fixed for a run; with fewer than ranks x workers, some have nothing to do"""
    cursor_numbers: int = 1
    """how many ints a cursor has"""
    fingerprint: str | None = None
    """what the dataset is known by: a state of another one is refused"""

    def open(self, shard: int, epoch: int, cursor: Cursor | None) -> Iterable[tuple[Any, Cursor]]:
        """Yields pairs: a sample, and the cursor behind it. The same ones at every reading.

        The sample is a dict of the fields, a tuple in their order, or the value of the only one. The cursor is an int,
        a tuple of `cursor_numbers` ints, or bytes. Go on behind `cursor`, which is what was yielded with the last
        sample; None: begin. The iterator is closed when the loader needs no more of it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open(self, shard, epoch, cursor)")

    def remaining(self, shard: int, cursor: Cursor | None) -> int | None:
        """About how many samples are left behind `cursor`; None: unknown. Ranks get shards by it."""
        return None

    def where(self, shard: int) -> str:
        """The file, or other origin, of `shard`, for error messages."""
        return ""


_MANY = 1 << 63
_NUMBER, _TUPLE, _BYTES = 1, 2, 3  # kinds of cursors, in states; 0: nothing was yielded yet


# C++ reads a stream by these, with cursors that are (kind, numbers, bytes).


def remaining(stream: Stream, shard: int, cursor: tuple | None) -> int | None:
    left = stream.remaining(shard, _given(cursor))
    if left is None or _number(left) is not None:
        return left
    raise Refusal(f"a stream's remaining() returned a {type(left).__name__}; return an int, or None")


def open_shard(stream: Stream, numbers: int, shard: int, epoch: int, cursor: tuple | None) -> Opened:
    opened = stream.open(shard, epoch, _given(cursor))
    try:
        return Opened(iter(opened), numbers)
    except TypeError:
        kind = type(opened).__name__
    raise Refusal(f"a stream's open() returned a {kind}; return an iterator over (sample, cursor), or yield them")


class Opened(Iterator[tuple]):
    """What a stream's `open` returned: a sample, and the cursor behind it, whose numbers are `count`."""

    def __init__(self, samples: Iterator[Any], count: int) -> None:
        self._samples, self._count = samples, count

    def __next__(self) -> tuple:
        item = next(self._samples)
        if isinstance(item, tuple) and len(item) == 2:
            sample, cursor = item
            if type(cursor) is int and self._count == 1 and -_MANY <= cursor < _MANY:  # as most are, and fast
                return sample, _NUMBER, item[1:], b""
            return sample, *self._taken(cursor)
        raise Refusal(
            f"a stream yielded a {type(item).__name__}; yield a pair: the sample, and the cursor behind it, as in "
            '`yield {"x": 1}, i + 1`'
        )

    def _taken(self, cursor: Any) -> tuple[int, tuple, bytes]:
        if isinstance(cursor, bytes):
            return _BYTES, (0,) * self._count, cursor
        numbers = tuple(map(_number, cursor if isinstance(cursor, tuple) else (cursor,)))
        if len(numbers) == self._count and None not in numbers:
            return _TUPLE if isinstance(cursor, tuple) else _NUMBER, numbers, b""
        ints = {0: "", 1: "an int or "}.get(self._count, f"a tuple of {self._count} ints or ")
        raise Refusal(
            f"a stream yielded {repr(cursor):.100} as the cursor behind a sample; yield sample, cursor, where the "
            f"cursor is {ints}bytes (cursor_numbers = {self._count}), and the numbers are of 64 bits"
        )

    def close(self) -> None:
        """Runs what `finally` and `with` hold."""
        if hasattr(self._samples, "close"):
            self._samples.close()


def _given(cursor: tuple | None) -> Cursor | None:
    """As the user yielded it."""
    kind, numbers, data = cursor or (0, (), b"")
    if not kind:
        return None
    return data if kind == _BYTES else numbers if kind == _TUPLE else numbers[0]


def _number(value: Any) -> int | None:
    """None, where it is none of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return number if -_MANY <= number < _MANY else None


StreamLike = Union[Stream, StreamSource]


def _source(stream: StreamLike) -> StreamSource:
    if isinstance(stream, StreamSource):
        return stream
    if not isinstance(stream, Stream) or isinstance(stream, type):
        what = f"the class {stream.__name__}" if isinstance(stream, type) else f"a {type(stream).__name__}"
        raise TypeError(
            f"{what} is no stream: give an object of a subclass of rota.Stream, or rota.as_stream(source, shards)"
        )
    if not hasattr(stream, "fields"):
        raise TypeError(f'{type(stream).__name__} has no fields; set them, as in fields = {{"x": "float32"}}')
    return _rota.python_stream(stream)


def as_stream(source: Source, shards: int) -> StreamSource:
    """The samples of an indexed source, in order, in `shards` shards."""
    return _rota.as_stream(_as_source("read in sequence", source), shards)


def filter(stream: StreamLike, keep: Callable[[StreamSample], bool], name: str = "") -> StreamSource:
    """The samples that `keep` keeps. `name` says what it does, with a version: a state of another name is refused."""
    return _rota.filter(_source(stream), _callable(keep, "keep"), name)


def flat_map(
    stream: StreamLike,
    make: Callable[[StreamSample], Iterable[Any]],
    fields: FieldsLike = (),
    name: str = "",
    *,
    most: int = 1 << 20,
) -> StreamSource:
    """What `make` makes of each sample: a list of dicts of `fields` (else the stream's), or a generator of them.

    After a resume it may be called again for a sample, and must then make the same. It makes no more than `most`.
    """
    return _rota.flat_map(_source(stream), _callable(make, "make"), dict(fields=fields, name=name, most=most))


def shuffle_buffer(stream: StreamLike, size: int, seed: int) -> StreamSource:
    """The samples of each shard, mixed by a buffer of `size` samples, which a state stores."""
    return _rota.shuffle_buffer(_source(stream), size, seed)


def _callable(function: Any, what: str) -> Any:
    if not callable(function):
        raise TypeError(f"{what} is a {type(function).__name__}; it must be a function of a sample")
    return function


class Dispatch(NamedTuple):
    """A stream of one shard that exists once: a pipe, a socket, a database cursor. Rank 0 reads it for all ranks.

    On other ranks `stream` may be None. Item i is number i / `shards` of shard i mod `shards`. Batches are the same in
    all worlds. `rank_split` is "by_sample", for equal slices, or "by_shard".

    A state has what was read and not delivered. So what cannot be opened at a cursor loses nothing if the program
    saves, ends and goes on: then `open` goes on where the pipe is, at a cursor that counts its items.
    """

    stream: StreamLike | None
    shards: int = 256
    rank_split: str = "by_sample"


class StreamLoader(Placed, Settling, _rota.StreamLoader):
    """Reads ahead with worker threads and hands out this rank's samples of each step. Ranks own whole shards.

    Iterate over it: a `Batch` is a mapping of field names to arrays, or to `Ragged`. All ranks take the same
    number of steps; a batch is empty on a rank that has no more of the epoch. `epochs=None`: no last one. Each sample
    comes exactly once per epoch, also after a resume in another world.

    `next`, `state_dict`, and making one are collective over the ranks of `comm`, which `rota.Communicator` takes; None
    is this process alone. Left out, it is that of torch.distributed; where that is not initialised yet, at the first
    use.

    `settle="by_hand"`, of a `Dispatch`: an item is trained when `settle` says so; by its number, `batch.ids`. A state
    has those that are open. `next` waits while the open ones of this rank have `open_bytes` or more. What was given up
    comes next after `merge`, which is collective, or after a restore.

    >>> import rota
    >>> source = rota.PythonSource([{"x": i} for i in range(10)])
    >>> loader = rota.StreamLoader(rota.filter(rota.as_stream(source, 2), lambda sample: sample["x"] % 2 == 1), 3)
    >>> [batch["x"].tolist() for batch in loader]
    [[1, 5, 3], [7, 9]]
    """

    @in_rotas_words
    def __init__(
        self,
        stream: StreamLike | Dispatch,
        global_batch_size: int = 32,
        *,
        comm: Any = ...,
        epochs: int | None = 1,
        workers: int = 1,
        read_ahead_batches: int = 4,
        read_ahead_bytes: int = 1 << 28,
        deadline: float = 600.0,
        allocator: Any = None,
        settle: str = "at_delivery",
        open_bytes: int = 1 << 28,
    ) -> None:
        options = {
            name: value for name, value in locals().items() if name not in ("self", "stream", "comm", "__class__")
        }
        what = "make a stream loader"
        world = find_world() if comm is ... and torchs_ranks() is None else World()
        is_early = world.size > 1  # nobody can say yet who they are
        ranks: Any = (lambda: needed_ranks(comm, what, world)) if is_early else needed_ranks(comm, what)
        with agreed(None if is_early else ranks, what):
            given = _rota.StreamLoaderOptions(**options)
            if isinstance(stream, Dispatch):
                data: Any = stream._replace(stream=None if stream.stream is None else _source(stream.stream))
                _rota.check_dispatch(data)
            else:
                data = _source(stream)
        super().__init__(data, given, ranks)
        self._is_placed = is_early or comm is not ...
        self._stream = stream
        self._is_by_hand = settle == "by_hand"
        if not is_early:
            _ = self._ledger
        opened(self)

    _is_evaluation = False

    @cached_property
    def _ledger(self) -> Any:
        return self._made_ledger  # kept, for threads: it needs no turn

    merge = _rota.StreamLoader.merge  # of its own ranks

    @property
    def stream(self) -> StreamLike | Dispatch:
        """What the loader was made of."""
        return self._stream

    def __repr__(self) -> str:
        if not hasattr(self, "_is_placed") or self.is_closed:
            return "<rota.StreamLoader, closed>"
        if not self._is_made:
            return f"<rota.StreamLoader of {self._stream!r}, whose ranks are asked for when it is used first>"
        at, world = self.position, self.world
        return (
            f"<rota.StreamLoader of {self._stream!r}, batches of {self.global_batch_size}, rank "
            f"{world.rank} of {world.size}, at epoch {at.epoch}, step {at.step}>"
        )
