"""The files of a dataset."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Union

from rota import _rota
from rota._communicator import as_communicator
from rota._errors import InvalidArgumentError, OutOfRangeError

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_Bytes = bytes  # a catalog has a method of that name


class Progress(NamedTuple):
    """How far a task has come."""

    task: str
    """ "list files", "index files", ..."""
    done: int
    """files"""
    total: int
    """0: not known yet"""
    failed: int
    """of those done"""
    seconds: float
    """since the task began"""
    is_over: bool
    """the last call for this task"""


class CatalogChanges(NamedTuple):
    """Changes to the files of a saved catalog since it was saved."""

    changed: int = 0
    """other sizes, or written to; 0 where changes are detected by name"""
    vanished: int = 0
    appeared: int = 0
    first: str = ""
    """the name of one of them"""

    @property
    def any(self) -> bool:
        return self.changed + self.vanished + self.appeared > 0


def path_bytes(path: PathLike) -> bytes:
    """The name of a file as the system has it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgumentError(f"open {path!r}: a path has no zero bytes")
    return name


def as_option(task: str, name: str, value: Any, like: Any) -> Any:
    """`value` in the type of option `name`, whose default is `like`. TypeError, or an error that names the option."""
    if isinstance(like, bool):
        if not isinstance(value, (bool, int)) or value not in (0, 1):
            raise TypeError(f"{task}: {name} is {value!r}; it must be True or False")
        return bool(value)
    if isinstance(like, (int, float)):
        try:
            number = float(value) if isinstance(like, float) else operator.index(value)
        except (TypeError, ValueError):
            raise TypeError(f"{task}: {name} is {value!r}; it must be a number") from None
        low, high = (0, 2**64) if name == "seed" else (-(2**63), 2**63)
        if isinstance(number, int) and not low <= number < high:
            raise InvalidArgumentError(f"{task}: {name} is {number}; it must be {low} to {high - 1}")
        return number
    if isinstance(like, tuple):
        if isinstance(value, (str, bytes)) or not all(isinstance(one, str) for one in value):
            raise TypeError(f"{task}: {name} is {value!r}; it must be a list of names")
        return list(value)
    if isinstance(like, str) and name != "dtype" and not isinstance(value, str):
        raise TypeError(f"{task}: {name} is {value!r}; it must be a name")
    if name == "progress" and value is not None and not callable(value):
        raise TypeError(f"{task}: progress is {value!r}; it must be a function")
    return value


def _check(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: as_option("make a catalog", name, given[name], like) for name, like in defaults.items()}


_PATTERN_OPTIONS: dict[str, Any] = dict(
    files=0,
    first_index=0,
    folders=0,
    first_folder=0,
    layout="round_robin",
    confidence=0.95,
    missing_fraction=0.001,
    seed=0,
)

_CATALOG_OPTIONS: dict[str, Any] = dict(
    change_detection="by_size",
    listing_threads=8,
    indexing_threads=8,
    max_open_files=256,
    share_files=False,
    shared_memory_limit=1 << 30,
    progress=None,
)


class Catalog(_rota.Catalog):
    """The files of a dataset, in order. It does not change; any thread may use it.

    `path` is a file, a directory (all files under it), a glob (`*`, `?`, `[...]`), or what `save` wrote. Files are in
    the order of the bytes of their names. It keeps what sources find in its files, so that the next one need not look.

    - `change_detection` "by_size" takes a file of another size for another dataset. "by_name" asks for no sizes, which
      is several times faster. Choose before the first run.
    - `listing_threads` read directories, `indexing_threads` look into files; up to 4,096.
    - `share_files` copies each file once into memory of the node, up to `shared_memory_limit` bytes more than are in
      use: for distant files.
    - `progress(Progress)` is called about ten times a second, by the thread that lists or opens.

    With `comm`, of mpi4py or a `rota.mpi.Communicator`, its ranks make the catalog together, and later open it together:
    rank 0 alone reads directories, and ranks share the work of looking into files. **Collective**. It ends before MPI does.

    >>> import rota, tempfile, pathlib
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> for name in "ba":
    ...     _ = (directory / name).write_text("text")
    >>> catalog = rota.Catalog(directory)
    >>> len(catalog), pathlib.Path(catalog[0]).name, catalog.bytes(0)
    (2, 'a', 4)
    """

    def __init__(
        self,
        path: PathLike,
        *,
        change_detection: str = "by_size",
        listing_threads: int = 8,
        indexing_threads: int = 8,
        max_open_files: int = 256,
        share_files: bool = False,
        shared_memory_limit: int = 1 << 30,
        progress: Callable[[Progress], Any] | None = None,
        comm: Any = None,
    ) -> None:
        options = dict(locals())
        self._make("path", path_bytes(path), {}, options, comm)

    def _make(
        self, kind: str, what: _Bytes, pattern: dict[str, Any], options: dict[str, Any], comm: Any = None
    ) -> Catalog:
        options = _check(options, _CATALOG_OPTIONS)
        super().__init__(kind, what, pattern, options, None if comm is None else as_communicator(comm))
        self._options = dict(options, progress=None)
        return self

    @classmethod
    def _of(
        cls, kind: str, what: _Bytes, pattern: dict[str, Any], options: dict[str, Any], comm: Any = None
    ) -> Catalog:
        for name in options:
            if name not in _CATALOG_OPTIONS:
                raise TypeError(f"make a catalog: there is no option {name}; there are {', '.join(_CATALOG_OPTIONS)}")
        return cls.__new__(cls)._make(kind, what, pattern, {**_CATALOG_OPTIONS, **options}, comm)

    @classmethod
    def from_manifest(cls, manifest: PathLike, *, comm: Any = None, **options: Any) -> Catalog:
        """The files that `manifest` lists, in its order. `comm` and `options` are those of `Catalog`.

        A line is a path, or a JSON object with `path` and perhaps `samples`, which the file must have. Paths are
        absolute, or relative to the manifest's directory.
        """
        return cls._of("manifest", path_bytes(manifest), {}, options, comm)

    @classmethod
    def from_pattern(
        cls,
        pattern: PathLike,
        *,
        files: int = 0,
        first_index: int = 0,
        folders: int = 0,
        first_folder: int = 0,
        layout: str = "round_robin",
        confidence: float = 0.95,
        missing_fraction: float = 0.001,
        seed: int = 0,
        comm: Any = None,
        **options: Any,
    ) -> Catalog:
        """Files with computed names, as in "train/{folder:02}/img_{index:08}_of_{total}.npz". None is listed.

        Their number is `files`, or {total} in their names. A sample of them is looked for, which notices with
        `confidence` that `missing_fraction` of them is missing. `layout` says which folder a file is in: "round_robin",
        "blocks", or "restart" where indices begin anew in each. `comm` and other `options` are those of `Catalog`.
        """
        given = dict(locals())
        return cls._of("pattern", path_bytes(pattern), _check(given, _PATTERN_OPTIONS), options, comm)

    @classmethod
    def from_bytes(cls, data: Any, **options: Any) -> Catalog:
        """The catalog of what `to_bytes` returned: lists no files. `options` are those of `Catalog`.

        It is of this process alone. So one rank lists, and torch.distributed or whatever carries bytes hands them out. CorruptError for other bytes.
        """
        return cls._of("bytes", memoryview(data).tobytes(), {}, options)

    def _number(self, i: Any) -> int:
        number = operator.index(i)
        if not -len(self) <= number < len(self):
            raise OutOfRangeError(f"look up file {number} of a catalog: it has {len(self)}, numbered from 0 on")
        return number % len(self)

    def __getitem__(self, i: int) -> str:
        """The path of file i."""
        return self._path(self._number(i))

    def bytes(self, i: int) -> int:
        """The size of file i when it was listed. InvalidArgumentError where changes are detected by name."""
        return self._bytes(self._number(i))

    def save(self, file: PathLike, format: str = "auto") -> None:
        """Writes the catalog to `file`, for `Catalog(file)`, with all that sources have found so far."""
        self._save(path_bytes(file), format)

    def __reduce__(self) -> tuple:
        return _load, (type(self), self.to_bytes(), self._options)

    def __repr__(self) -> str:
        return f"<rota.Catalog of {len(self)} files: {self.origin}>"


def _load(cls: type[Catalog], data: bytes, options: dict[str, Any]) -> Catalog:
    return cls.from_bytes(data, **options)
