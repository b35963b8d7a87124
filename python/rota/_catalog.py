"""The files of a dataset."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Union

from rota import _rota
from rota._communicator import agreed
from rota._errors import InvalidArgumentError

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Progress(NamedTuple):
    """How far a task has come."""

    task: str
    """ "list files", "index files", ..."""
    done: int
    """files, or what `unit` says"""
    total: int
    """0: not known yet"""
    seconds: float
    """since the task began"""
    is_over: bool
    """the last call for this task"""
    unit: str = "files"
    """what is counted: "files", or "shards" where these are written"""


class CatalogChanges(NamedTuple):
    """Changes to the files of a saved catalog since it was saved."""

    changed: int = 0
    """other sizes, or written to; 0 where changes are detected by name"""
    resized: int = 0
    """of these, with other sizes"""
    vanished: int = 0
    appeared: int = 0
    first: str = ""
    """the name of one of them; of a resized or vanished one, if there is any"""

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self.changed + self.vanished + self.appeared > 0


def path_bytes(path: PathLike) -> bytes:
    """The name of a file as the system has it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidArgumentError(f"open {path!r}: a path has no zero bytes")
    return name


class Catalog(_rota.Catalog):
    """The files of a dataset, in order. It does not change; any thread may use it.

    `path` is a file, a list of files, a directory (all files under it), a glob (`*`, `?`, `[...]`), or what `save`
    wrote (which is not opened while `changes` tells of files that vanished or have other sizes). Files are in the order
    of their names' bytes. It keeps what sources find in its files, so that the next one need not look.

    - `change_detection` "by_size" takes a file of another size for another dataset. "by_name" asks for no sizes, which
      is several times faster. Choose before the first run.
    - `listing_threads` read directories, `indexing_threads` look into files; up to 4,096.
    - `access` "cached" reads through the page cache. "direct" reads past it, for data larger than memory. "mapped" maps
      files that nobody truncates, which is the fastest for small samples that are cached. "automatic" chooses one of
      the first two, by sizes and by what is cached.
    - `share_files` copies each file once into memory of the node, up to `shared_memory_limit` bytes more than are in
      use: for distant files. `shared_directory`, on a local disk, takes the place of that memory.
    - `decoded_bytes` of memory keep decoded chunks of HDF5 files until their rows were read.
    - `all_names` takes hidden files, too, and those that programs leave, such as `x~`, `_SUCCESS` and `Thumbs.db`.
    - `max_bad_files` may be passed over, as WebDataset's handlers do, and a message names each: those of a list or of
      ranges that are missing, and those that a format finds damaged or unreadable when it looks into them. The dataset
      is then one without them: what was saved with them is refused.
    - `progress(Progress)` is called about ten times a second, by the thread that lists or opens.
    - `storages`: file systems of fsspec by scheme, such as `{"gs": fsspec.filesystem("gs", token="anon")}`. Without it,
      `gs://`, `az://`, `hf://` and whatever else rota has not itself are those of fsspec, where it is installed.

    With `comm`, which `rota.Communicator` takes, its ranks make the catalog together, and later open it together:
    rank 0 alone reads directories, and ranks share the work of looking into files. **Collective**; so are `save`,
    `to_bytes`, `rota.find_format` and `rota.open` of such a catalog. It ends before its ranks do.

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
        path: PathLike | Sequence[PathLike],
        *,
        change_detection: str = "by_size",
        listing_threads: int = 8,
        indexing_threads: int = 8,
        max_open_files: int = 256,
        access: str = "cached",
        share_files: bool = False,
        shared_memory_limit: int = 1 << 30,
        decoded_bytes: int = 1 << 28,
        shared_directory: PathLike = "",
        all_names: bool = False,
        max_bad_files: int = 0,
        progress: Callable[[Progress], Any] | None = None,
        storages: Mapping[str, Any] | None = None,
        comm: Any = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name not in ("self", "path", "comm")}
        self._make("path", path, {}, options, comm)

    def _make(
        self, kind: str, what: Any, pattern: dict[str, Any], options: dict[str, Any], comm: Any = None
    ) -> Catalog:
        options.setdefault("storages", None)
        with agreed(comm, "make a catalog") as ranks:
            given, numbers = _rota.CatalogOptions(**options), _rota.PatternOptions(**pattern)
            if kind == "path" and isinstance(what, (list, tuple)):
                kind, what = "paths", [path_bytes(path) for path in what]
            elif kind != "bytes":
                what = path_bytes(what)
        super().__init__(kind, what, given, numbers, ranks)
        self._options = dict(options, progress=None)
        return self

    @classmethod
    def from_manifest(cls, manifest: PathLike, *, comm: Any = None, **options: Any) -> Catalog:
        """The files that `manifest` lists, in its order. `comm` and `options` are those of `Catalog`.

        A line is a path, or a JSON object with `path` and perhaps `samples`, which the file must have. Paths are
        absolute, or relative to the manifest's directory.
        """
        return cls.__new__(cls)._make("manifest", manifest, {}, options, comm)

    @classmethod
    def from_pattern(
        cls,
        pattern: PathLike,
        *,
        files: int = 0,
        folders: int = 0,
        layout: str = "round_robin",
        comm: Any = None,
        **options: Any,
    ) -> Catalog:
        """Files with computed names, as in "train/{folder:02}/img_{index:08}_of_{total}.npz". None is listed.

        Their number is `files`, or {total} in their names. {index+1} begins at 1. A sample of them is looked for, which
        notices with a probability of 95 % that one in 1,000 is missing. `layout` says which folder a file is in:
        "round_robin", "blocks", or "restart" where indices begin anew in each. `comm` and other `options` are those of
        `Catalog`.
        """
        given = {"files": files, "folders": folders, "layout": layout}
        return cls.__new__(cls)._make("pattern", pattern, given, options, comm)

    @classmethod
    def from_bytes(cls, data: Any, **options: Any) -> Catalog:
        """The catalog of what `to_bytes` returned: lists no files. `options` are those of `Catalog`.

        It is of this process alone. So one rank lists, and torch.distributed or whatever carries bytes hands them out.
        CorruptError for other bytes.
        """
        return cls.__new__(cls)._make("bytes", memoryview(data).tobytes(), {}, options)

    def save(self, file: PathLike, format: str = "auto") -> None:
        """Writes the catalog to `file`, for `Catalog(file)`, with all that sources have found so far."""
        self._save(path_bytes(file), format)

    def __reduce__(self) -> tuple:
        return functools.partial(type(self).from_bytes, **self._options), (self.to_bytes(),)

    def __repr__(self) -> str:
        if "_options" not in self.__dict__:
            return "<rota.Catalog, not made>"
        return f"<rota.Catalog of {len(self)} files: {self.origin or 'a list of paths'}>"
