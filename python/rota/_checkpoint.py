"""A checkpoint as it is read: what it says of itself, its tensors and blobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from rota import _rota
from rota._loader import make_mapping

if TYPE_CHECKING:
    from pathlib import Path


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


Checkpoint = make_mapping(_rota.Checkpoint)
Checkpoint.__doc__ = """An open checkpoint, of which every byte was verified: tensors by name, read as numpy arrays.

Each rank reads what it wants, in any world; any thread may. bfloat16 comes as its bits, uint16; `tensors` says so.

>>> import numpy as np, rota, tempfile
>>> directory = rota.CheckpointDirectory(None, tempfile.mkdtemp())
>>> report = directory.save(7, {"model/w": np.arange(3), "notes": "any text"})
>>> checkpoint = rota.open_checkpoint(report.info.path)
>>> checkpoint["model/w"], checkpoint.blob("notes"), checkpoint.info.step
(array([0, 1, 2]), b'any text', 7)
"""


def _repr(self: Any) -> str:
    return f"<rota.Checkpoint {self.info.path}: step {self.info.step}, {len(self)} tensors, {len(self.blobs)} blobs>"


Checkpoint.__repr__ = _repr


def open_checkpoint(file: str | os.PathLike) -> _rota.Checkpoint:
    """Opens and verifies one file, without other ranks. CorruptError says what is damaged."""
    return _rota.open_checkpoint(file)


def verify(file: str | os.PathLike) -> Verification:
    """Verifies a whole file, and goes on past damage."""
    return _rota.verify(file)
