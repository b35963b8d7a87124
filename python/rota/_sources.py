"""Datasets: rota's own formats, datasets made of others, and Python's."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from rota import _rota
from rota._catalog import Catalog, PathLike
from rota._communicator import agreed
from rota._datasets import copy_of, locks_of
from rota._errors import CallbackError, InvalidArgumentError, MismatchError, OutOfRangeError
from rota._values import DTypeLike, Field, FieldsLike, World, as_fields

Source = _rota.Source

def _made(name: str, *args: Any, comm: Any = None) -> Any:
    """What a function of C++ makes. Sources are pickled as the call; of several ranks, as that of a process alone."""
    made = getattr(_rota, name)(*args) if comm is None else getattr(_rota, name)(*args, comm)
    for part, source in enumerate(made) if isinstance(made, list) else [(None, made)]:
        source._recipe = name, args, part
    return made


def _make_again(name: str, args: tuple, part: int | None, fingerprint: str | None = None) -> Any:
    made = _made(name, *args)
    made = made if part is None else made[part]
    if fingerprint not in (None, made.fingerprint):
        raise MismatchError(
            "unpickle a source: its files have changed since it was pickled, or others can be read here"
        )
    return made


def _reduce(self: Source) -> tuple:
    if self._recipe is None:
        raise TypeError("this source cannot be pickled: make it in the other process")
    return _make_again, (*self._recipe, self.fingerprint if self._recipe[0] == "open" else None)


def _repr(self: Source) -> str:
    fields = ", ".join(f"{f.name}: {f.dtype}{'[rows]' if f.ragged else ''}{list(f.shape) or ''}" for f in self.fields)
    return f"<rota.Source of {len(self)} samples: {fields}>"


Source.__reduce__ = _reduce  # type: ignore
Source.__repr__ = _repr  # type: ignore
Source.__module__ = "rota"
Source.__doc__ = """A dataset: `len`, and `[i]`, a dict of the sample's arrays by field. Any thread may read it.

`fields` and `fingerprint` say what it is, `where(i)` of which file sample `i` is.
"""


def _as_source(task: str, source: Any) -> Source:
    if isinstance(source, Source):
        return source
    raise TypeError(
        f"{task}: a {type(source).__name__} is no rota.Source: open files with rota.open(...), "
        "or wrap a Python dataset as rota.PythonSource(dataset)"
    )


def formats() -> list[str]:
    """The formats that `open` knows, "auto" first."""
    return _rota.formats()


def _as_catalog(
    path: PathLike | Sequence[PathLike] | Catalog, comm: Any, storages: Mapping[str, Any] | None, max_bad_files: int = 0
) -> Catalog:
    with agreed(comm, "open files") as ranks:
        if isinstance(path, Catalog) and not (ranks is None and storages is None and max_bad_files == 0):
            raise InvalidArgumentError(
                "open files: a catalog has its ranks and options; give comm=, storages= and max_bad_files= to it"
            )
    return (
        path if isinstance(path, Catalog) else Catalog(path, comm=ranks, storages=storages, max_bad_files=max_bad_files)
    )


def find_format(
    path: PathLike | Sequence[PathLike] | Catalog, *, comm: Any = None, storages: Mapping[str, Any] | None = None
) -> str:
    """The format that `open` finds for these files. A catalog remembers it."""
    return _rota.find_format(_as_catalog(path, comm, storages))


def open(
    path: PathLike | Sequence[PathLike] | Catalog,
    format: str = "auto",
    *,
    comm: Any = None,
    storages: Mapping[str, Any] | None = None,
    max_bad_files: int = 0,
    **options: Any,
) -> Source:
    """The samples of files: a path, a list of them, a glob, or a `Catalog`. "auto" looks which format they are of.

    ========  ======================================================================================================
    files     each file is a sample: `data`, its bytes; `keys` adds `path` and `folder`, the name of its directory
    hdf5      rows of `datasets`; ragged: `x_offsets`, or `offsets`; `groups`; `unpack`; `allow_external_links`; `swmr`
    tfrecord  records: `data`, bytes; `verify` their checksums
    tar       WebDataset: `fields`, extensions or lists of them by name (all); `keys`: `__key__`; `allow_missing_end`
    lines     lines of text or JSON: `text`, bytes
    npy       rows of arrays: `data`; or each file, with `file_is_sample`
    npz       each file, or with `rows` each row of its `arrays` (all)
    tokens    windows of flat files: `tokens` of `dtype` "uint16", "uint32"; `length`, `stride` (0: that), `skip_bytes`
    megatron  documents: `tokens`; or their sequences, with `sequence_is_sample`; of x, x.idx, x.bin, or a directory
    mds       MosaicML's shards: `columns` (all); `verify` their hashes
    ========  ======================================================================================================

    With `comm`, which `rota.Communicator` takes, its ranks open the files together. Files may be in a bucket, or in
    a file system of fsspec (`storages`); `max_bad_files` may be passed over. See `Catalog` for all three.

    A source is pickled with its catalog: whoever loads it lists no files, and indexes none again.

    >>> import rota, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> _ = file.write_text('{"x": 1}\\n{"x": 2}\\n')
    >>> bytes(rota.open(file)[1]["text"])
    b'{"x": 2}'
    """
    with agreed(comm, "open files") as ranks:
        options = _rota.plain_format_options(format, options)
    return _made("open", _as_catalog(path, ranks, storages, max_bad_files), format, options)


def cast(source: Source, types: Mapping[str, DTypeLike]) -> Source:
    """`source` with other element types: `cast(source, {"tokens": "int64"})`. Whoever reads converts.

    Every value must survive: integers become wider ones, or floats with enough digits; floats become wider ones;
    booleans become any number. Only float16, bfloat16, and float64 to float32, round. The dataset stays the same, so
    that a state fits both.

    >>> import rota
    >>> rota.cast(rota.PythonSource([{"x": True}]), {"x": "float32"}).fields
    (Field(name='x', dtype='float32', shape=(), ragged=False),)
    """
    if not isinstance(types, Mapping):
        raise TypeError(f'cast: types is {types!r}; give a mapping, such as {{"tokens": "int64"}}')
    return _made("cast", _as_source("cast", source), dict(types))


def join(sources: Iterable[Source]) -> Source:
    """The samples of all `sources`, one source after the other. Their fields must be the same."""
    return _made("join", [_as_source("join", source) for source in sources])


class ShardReport(NamedTuple):
    """What of a dataset is written: `there` of `shards`, `written` of them by this call."""

    samples: int
    shards: int
    there: int
    written: int
    bytes: int
    is_complete: bool


def write_shards(
    source: Source,
    destination: str | os.PathLike,
    *,
    format: str = "tar",
    shard_bytes: int = 64 << 20,
    world: World = World(),
    workers: int = 2,
    progress: Any = None,
    storages: Mapping[str, Any] | None = None,
) -> ShardReport:
    """Writes all samples, in order, as shards of about `shard_bytes`, to an empty directory or "s3://bucket/prefix".

    - `format`: "tar", for fields that are bytes, "tfrecord", for one such field, or "mds", for numbers and fixed
      shapes, too.
    - `progress` is called with a `Progress` now and then. Ctrl-C ends the call behind a shard.
    - `world`: the process that calls this, as `rota.World(rank, size)`. Each writes its part, and need not know of the
      others.
    - `storages`: file systems of fsspec, as of `Catalog`.

    A shard is there whole, or not at all. After a kill, the same call writes those that lack. Until all are there, so
    is a file "unfinished.tar" (or of the format), by which `rota.open` refuses the directory.
    """
    options = _rota.ShardOptions(
        format=format,
        shard_bytes=shard_bytes,
        world=tuple(world),
        workers=workers,
        progress=progress,
        storages=storages,
    )
    return _rota.write_shards(_as_source("write shards", source), os.fspath(destination), options)


def split(source: Source, fractions: Sequence[float], seed: int = 0) -> list[Source]:
    """Splits a dataset at random, for example into training and validation: part k gets `fractions[k]` of it.

    The same seed gives the same parts in any world.
    """
    return _made("split", _as_source("split", source), [*map(float, fractions)], operator.index(seed))


def select(source: Source, ids: Any) -> Source:
    """The samples `ids` of `source`, in that order: an array or a list, some of them, some several times, or none.

    The way to an order or a choice of your own. It takes 8 bytes an id.

    >>> import rota
    >>> source = rota.PythonSource([10, 11, 12, 13])
    >>> [int(sample["data"]) for sample in rota.select(source, [3, 0, 3])]
    [13, 10, 13]
    """
    task, source = "select samples", _as_source("select samples", source)
    return _made("select", source, _bytes_of_ids(task, source, ids))


def without(source: Source, ids: Any) -> Source:
    """All samples of `source` but `ids`, in order. Of a run that goes on, leave them out by its plan (docs/change.md).

    >>> import rota
    >>> source = rota.PythonSource([10, 11, 12, 13])
    >>> [int(sample["data"]) for sample in rota.without(source, [3, 1])]
    [10, 12]
    """
    task, source = "leave out samples", _as_source("leave out samples", source)
    return _made("without", source, _bytes_of_ids(task, source, ids))


def known_as(source: Source, was: str, now: str) -> Source:
    """`source`, whose fingerprint is `now`, for a run that knew it by `was`: data that only look different.

    They were moved, mended or written anew, and you know them to be the same samples. States and traces say both
    fingerprints from here on. Keep it around the dataset, outermost, for as long as the run goes on.
    """
    return _made("known_as", _as_source("know a dataset by another fingerprint", source), was, now)


def _bytes_of_ids(task: str, source: Source, ids: Any) -> bytes:
    import numpy as np

    given = np.asarray(ids)
    if given.ndim != 1 or (given.size > 0 and given.dtype.kind not in "iu"):
        raise TypeError(
            f"{task}: ids must be an array or a list of whole numbers, and not {given.dtype} of shape "
            f"{given.shape}; of a mask they are numpy.flatnonzero(mask)"
        )
    if given.dtype == np.uint64 and given.size > 0 and given.max() > np.iinfo(np.int64).max:
        raise OutOfRangeError(f"{task}: one of ids is {given.max()}; the dataset has {len(source)} samples")
    return np.ascontiguousarray(given, np.int64).tobytes()


def take(source: Source, n: int) -> Source:
    """The first `n` samples of `source`, which must have as many.

    >>> import rota
    >>> source = rota.PythonSource([10, 11, 12, 13])
    >>> len(rota.take(source, 3)), int(rota.skip_first(source, 3)[0]["data"])
    (3, 13)
    """
    return _made("take", _as_source("take samples", source), operator.index(n))


def skip_first(source: Source, n: int) -> Source:
    """All but the first `n` samples of `source`, which must have as many."""
    return _made("skip_first", _as_source("skip samples", source), operator.index(n))


def zip(*sources: Source) -> Source:
    """Sample i has the fields of sample i of all `sources`: as many samples of each, and fields of other names.

    >>> import rota
    >>> x, y = rota.PythonSource([{"x": 1}, {"x": 2}]), rota.PythonSource([{"y": 3}, {"y": 4}])
    >>> {name: int(value) for name, value in rota.zip(x, y)[1].items()}
    {'x': 2, 'y': 4}
    """
    return _made("zip", [_as_source("zip", source) for source in sources])


def windows(
    rows: Source,
    length: int = 0,
    stride: int = 1,
    *,
    across_files: bool = False,
    offsets: Iterable[int] = (),
    edges: str = "drop",
    jitter: int = 0,
    seed: int = 0,
    episodes: Iterable[int] | str | None = None,
) -> Source:
    """Windows of `length` rows over the samples of `rows`: a field of shape [...] becomes [length, ...].

    With `across_files` the files are one time axis, in the order of their names. Otherwise no window has rows of two.

    Or windows of the rows at rising `offsets` from every `stride`-th row, such as [-2, -1, 0, 4, 8]: [offsets, ...].
    edges="drop" leaves out windows that would have rows beyond their file. With edges="clamp" they have its first or
    last row instead, and there is one more field: `is_real`, uint8, 1 where a row is there.

    `jitter` moves each window by up to so many rows, to and fro, by another number in each epoch (of `seed`), but not
    out of its file. `source[i]` is that of epoch 0.

    `episodes` are the parts in place of files: how many rows each has, in order; or the name of an integer field that
    numbers them, such as "episode_index", for which all of `rows` is read once, on this thread. For large rows, find
    lengths in that column alone: `numpy.unique(column, return_counts=True)[1]`, of one that rises.

    >>> import rota
    >>> steps = rota.PythonSource([{"n": n} for n in range(5)])
    >>> rota.windows(steps, offsets=[-1, 0, 2], edges="clamp")[4]
    {'n': array([3, 4, 4]), 'is_real': array([1, 1, 0], dtype=uint8)}
    >>> [window["n"].tolist() for window in rota.windows(steps, 2, episodes=[3, 2])]
    [[0, 1], [1, 2], [3, 4]]
    """
    rows = _as_source("make windows of", rows)
    if isinstance(episodes, str):
        episodes = _rota.episode_lengths(rows, episodes)
    options = _rota.WindowOptions.plain(
        length=length, stride=stride, across_files=across_files, offsets=tuple(offsets), edges=edges, jitter=jitter,
        seed=seed, episodes=episodes,
    )  # fmt: skip
    return _made("windows", rows, options)


def pack(
    documents: Source,
    length: int = 2048,
    *,
    bos: int | None = None,
    eos: int | None = None,
    pad: int = 0,
    fit: str = "concat",
    cut_longer: bool = True,
    seed: int = 0,
    shuffle_documents: bool = True,
    field: str = "",
    fields: Mapping[str, int] | None = None,
    threads: int = 8,
    comm: Any = None,
) -> Source:
    """Packs the tokens of `documents` into sequences of `length`: no token is lost or repeated.

    Fields, all [length]: the tokens, `segment_ids` (int32; 0 is padding) and `position_ids` (int32). Then `fields`,
    such as {"labels": -100}: more ragged fields with a value for each token, and what stands at bos, eos and padding.

    fit="concat" puts documents one behind the other, and cuts where a sequence is full. fit="best" lays them whole, and
    documents of the same length change places in each epoch; `source[i]` is that of epoch 0. It cuts what is longer
    than a sequence, or refuses it (`cut_longer=False`).

    With `comm`, which `rota.Communicator` takes, its ranks share the work of asking for lengths. **Collective**.
    """
    options = dict(locals())
    del options["documents"], options["comm"]
    with agreed(comm, "pack documents") as ranks:
        options = _rota.PackOptions.plain(**options)
        documents = _as_source("pack documents", documents)
    return _made("pack", documents, options, comm=ranks)


def PythonSource(
    dataset: Any, fields: FieldsLike | None = None, *, fingerprint: str | None = None, thread_safe: bool = False
) -> Source:
    """A Python dataset (`len` and `[i]`), read by rota's threads under Python's lock.

    `dataset[i]` is a dict of the fields, a tuple in their order, or the value of the only one. Without `fields`, sample
    0 says which there are; ragged fields must be declared.

    One thread at a time is in it, and in all others, which may share a file: what it returns is copied before the next
    call. `thread_safe=True` says that several threads may call it at once.

    `fingerprint` names the dataset: a state of another one is refused. Without it, so is one whose samples differ, as
    far as a few of them tell that are the same at each reading. fingerprint="" compares the length alone.

    >>> import rota
    >>> source = rota.PythonSource([{"x": 1.5}, {"x": 2.5}])
    >>> source.fields, float(source[1]["x"])
    ((Field(name='x', dtype='float64', shape=(), ragged=False),), 2.5)
    """
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise TypeError(f"{dataset!r} is a path, and no dataset: open it with rota.open(...)")
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise TypeError(
            f"a {type(dataset).__name__} has no len() and no [i]; for what is read in sequence, see rota.Stream"
        )
    with ExitStack() as stack:
        for lock in () if thread_safe else locks_of(dataset):
            stack.enter_context(lock)
        fields = _fields_of(dataset) if fields is None else as_fields(fields)
    return _made("python_source", dataset, fields, fingerprint, thread_safe)


def _fields_of(dataset: Any) -> list[Field]:
    import numpy as np

    if len(dataset) == 0:
        raise ValueError("an empty dataset does not tell its fields; give fields=")
    try:
        sample = copy_of(dataset)[0]  # what looking at a sample opens does not go to the workers
    except StopIteration as error:  # which would end a loop around this without a word
        raise CallbackError("take sample 0 of a dataset: it raised StopIteration") from error
    if isinstance(sample, tuple):
        sample = {str(i): value for i, value in enumerate(sample)}
    elif not isinstance(sample, dict):
        sample = {"data": sample}
    fields = []
    for name, value in sample.items():
        if isinstance(value, (str, bytes)):
            fields.append(Field(name, "uint8", (), True))
        elif hasattr(value, "detach"):  # a tensor of torch
            fields.append(Field(name, str(value.dtype).removeprefix("torch."), tuple(value.shape)))
        else:
            array = np.asarray(value)
            fields.append(Field(name, array.dtype.name, array.shape))
    return fields
