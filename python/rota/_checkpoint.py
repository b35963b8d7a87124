"""A checkpoint as it is read: what it says of itself, its tensors and blobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rota import _rota
from rota._loader import find_world
from rota._options import as_number
from rota._values import World

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


class CheckpointInfo(NamedTuple):
    """What a checkpoint says of itself."""

    path: Path
    serial: int
    """number of the file in its directory; higher is newer"""
    parent: int | None
    """serial of the checkpoint restored or saved before it in its run"""
    step: int
    """as given to save"""
    format_version: int
    world_size: int
    """ranks that saved it"""
    run_id: str
    bytes: int


class TensorInfo(NamedTuple):
    """What a checkpoint says of one tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    """(rows, ...)"""


class BlobInfo(NamedTuple):
    """What a checkpoint says of one blob."""

    name: str
    rank: int | None
    """its owner; None: the whole job"""
    bytes: int


class Damage(NamedTuple):
    """A damaged part of a checkpoint file."""

    part: str
    """page, size, table, contents, bytes, rows or blob; a restore refuses all but damage to a blob"""
    offset: int
    bytes: int
    """from `offset` in the file; the damage lies within"""
    what: str


class Verification(NamedTuple):
    """All the damage of a file, not only the first."""

    info: CheckpointInfo | None
    tensors: list[TensorInfo]
    blobs: list[BlobInfo]
    damage: list[Damage]

    @property
    def is_good(self) -> bool:
        """Whether there is no damage."""
        return not self.damage


class Checkpoint(Mapping[str, "np.ndarray"]):
    """An open checkpoint, of which every byte was verified: tensors by name, read as numpy arrays.

    Each rank reads what it wants, in any world; any thread may. bfloat16 comes as its bits, uint16; `tensors` says so.

    >>> import numpy as np, rota, tempfile
    >>> directory = rota.CheckpointDirectory(None, tempfile.mkdtemp())
    >>> report = directory.save(7, {"model/w": np.arange(3), "notes": "any text"})
    >>> checkpoint = rota.open_checkpoint(report.info.path)
    >>> checkpoint["model/w"], checkpoint.blob("notes"), checkpoint.info.step
    (array([0, 1, 2]), b'any text', 7)
    """

    def __init__(self, raw: Any, world: World | None = None) -> None:
        self._raw = raw
        self._world = world

    @property
    def info(self) -> CheckpointInfo:
        """Which checkpoint it is."""
        return self._raw.info

    @property
    def tensors(self) -> list[TensorInfo]:
        """Name, dtype and shape of each; those of loaders are called "loader/..."."""
        return self._raw.tensors

    @property
    def blobs(self) -> list[BlobInfo]:
        """Name, owner and size of each."""
        return self._raw.blobs

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str):
            raise KeyError(name)
        return self._raw.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter([tensor.name for tensor in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._raw.has_tensor(name)

    def rows(self, name: str, first: int, count: int) -> np.ndarray:
        """Rows [first, first + count) of a tensor."""
        what = "read rows"
        return self._raw.read(name, as_number(what, "the first", first), as_number(what, "their number", count))

    def share(self, name: str) -> np.ndarray:
        """This rank's part of the rows, divided as equally as possible over the ranks in order."""
        rows = self._raw.tensor(name).shape[0]
        world = self._world or find_world()
        first, end = (rows * part // world.size for part in (world.rank, world.rank + 1))
        return self._raw.read(name, first, end - first)

    def blob(self, name: str) -> bytes:
        """The blob `name` of the job."""
        return self._raw.blob(name)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        info = self.info
        return f"<rota.Checkpoint {info.path}: step {info.step}, {len(self)} tensors, {len(self.blobs)} blobs>"


def open_checkpoint(file: str | os.PathLike) -> Checkpoint:
    """Opens and verifies one file, without other ranks. CorruptError says what is damaged."""
    return Checkpoint(_rota.open_checkpoint(file))


def verify(file: str | os.PathLike) -> Verification:
    """Verifies a whole file, and goes on past damage."""
    return _rota.verify(file)
