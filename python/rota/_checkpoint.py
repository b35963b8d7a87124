"""Checkpoints: loaders, tensors and blobs in one HDF5 file, saved by all ranks together, and found again."""

from __future__ import annotations

import itertools
import operator
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rota import _rota
from rota._communicator import agreed, first, needed_ranks
from rota._errors import Error, InvalidArgumentError, UnsupportedError, told
from rota._sampler import ElasticBatchSampler
from rota._values import World, make_mapping, of_torch

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


class SaveReport(NamedTuple):
    """What a save did.

    `mirror_error`: on rank 0, what could not be copied to the mirror since the last report; empty: nothing.
    """

    info: CheckpointInfo
    seconds: float
    mirror_error: str = ""


class RejectedCheckpoint(NamedTuple):
    """A damaged checkpoint that a restore went past."""

    path: Path
    reason: str


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
Checkpoint.__repr__ = lambda self: (
    f"<rota.Checkpoint {self.info.path}: step {self.info.step}, {len(self)} tensors, {len(self.blobs)} blobs>"
)


def open_checkpoint(file: str | os.PathLike) -> _rota.Checkpoint:
    """Opens and verifies one file, without other ranks. CorruptError says what is damaged."""
    return _rota.open_checkpoint(file)


def verify(file: str | os.PathLike) -> Verification:
    """Verifies a whole file, and goes on past damage."""
    return _rota.verify(file)


# ---- what is saved ----


class Rows(NamedTuple):
    """This rank's rows of a tensor whose rows are distributed. They follow those of the lower ranks."""

    array: Any


def _loader_of(state: Any) -> Any:
    """The loader that has the state of a loader, a sampler, or rota.torch.DataLoader; None for all else."""
    sampler = getattr(state, "_order", state)
    if isinstance(sampler, ElasticBatchSampler):
        if sampler._evaluation:
            raise InvalidArgumentError("save or restore a loader: one for evaluation has no state; leave it out")
        return sampler
    return state if hasattr(state, "_save_to") else None


def _named(states: tuple) -> Iterator[tuple[str, Any]]:
    for state in states:
        for name, value in state.items() if isinstance(state, Mapping) else [("main", state)]:
            if not isinstance(name, str):
                raise TypeError(f"the name of a state must be a text, not {name!r}")
            yield name, value


def _refuse(name: str, value: Any) -> None:
    kind = type(value).__name__
    if isinstance(getattr(value, "batch_sampler", None), ElasticBatchSampler):
        raise TypeError(f'save "{name}": a {kind} does not count what it delivers; take rota.torch.DataLoader')
    if hasattr(value, "state_dict"):
        raise TypeError(
            f'save "{name}": a {kind} is saved by its state: give json.dumps(value.state_dict()), or its tensors'
        )
    if value is None:
        raise TypeError(f'save "{name}": it is None; every rank gives the tensor, and only rank 0\'s rows are written')
    if isinstance(value, (int, float, list, tuple)):
        raise TypeError(f'save "{name}": a {kind} has no dtype; give np.asarray(value), or json.dumps(value)')
    raise TypeError(
        f'save "{name}": a {kind} is no loader, array, tensor, bytes or str; give json.dumps(value) or '
        "pickle.dumps(value), or the tensors in it, each by a name"
    )


def first_row_of(tensor: Any) -> int:
    """The first row that this rank has of a DTensor. As torch shards: rows / ranks, rounded up, to each."""
    shards = [at for at, place in enumerate(tensor.placements) if not place.is_replicate()]
    if len(shards) > 1 or any(not tensor.placements[at].is_shard(0) for at in shards):
        raise UnsupportedError(
            f"take the rows of a DTensor of placements {tensor.placements}: its first dimension may be sharded, once; "
            "give tensor.full_tensor()"
        )
    rows = tensor.shape[0] if shards else 0
    return min(
        [rows, *(-(-rows // tensor.device_mesh.size(at)) * tensor.device_mesh.get_local_rank(at) for at in shards)]
    )


def _rows_of(value: Any, world: World) -> Any:
    """Of a DTensor that is sharded, as FSDP leaves it, this rank's rows; none, where another rank has the same."""
    if not hasattr(value, "placements"):
        return value
    first_row_of(value)  # refuses what has no rows here
    local, mesh = value.to_local(), value.device_mesh
    if all(place.is_replicate() for place in value.placements):
        return local
    ranks = mesh.mesh.flatten().tolist()
    if len(ranks) != world.size or ranks != sorted(ranks) or ranks[world.rank] != mesh.get_rank():
        raise UnsupportedError(
            f"save a DTensor that is sharded over ranks {ranks}: this directory is of {world.size} ranks, and these "
            "must be all of them, in ascending order; give tensor.full_tensor(), or open the directory with comm= of "
            "that mesh"
        )
    counts = all(not place.is_replicate() or mesh.get_local_rank(at) == 0 for at, place in enumerate(value.placements))
    return Rows(local if counts else local[:0])


def _to_array(value: Any) -> tuple[np.ndarray, Any]:
    """A contiguous array of one dimension at least, and its dtype."""
    import numpy as np

    is_bfloat16 = False
    if hasattr(value, "detach"):
        value, is_bfloat16 = of_torch(value)
    array = np.ascontiguousarray(value)
    return array, "bfloat16" if is_bfloat16 else array.dtype


def _add(snapshot: Any, name: str, value: Any, world: World) -> None:
    loader = _loader_of(value)
    if loader is not None:
        return loader._save_to(snapshot, name)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return snapshot.blob(name, bytes(value))
    value = _rows_of(value, world)
    is_rows = isinstance(value, Rows)
    is_mine = world.rank == 0 or is_rows
    if is_rows:
        value = value.array
        if not getattr(value, "ndim", 0):
            raise TypeError(f'save "{name}": Rows takes an array of rows')
    if not (hasattr(value, "ndim") and hasattr(value, "dtype")):
        _refuse(name, value)
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise TypeError(
            f'save "{name}": a masked array would lose its mask; give value.filled(...), and the mask by a name'
        )
    try:
        array, dtype = _to_array(value if is_mine or not value.ndim else value[:0])
        snapshot.tensor(name, dtype, array.shape[1:], array if is_mine else array[:0])
        snapshot.same(name, "Rows, of each rank its part" if is_rows else "an array, which rank 0 has whole")
    except Error as error:
        raise type(error)(f'save "{name}": {error}') from error


# ---- the directory ----

_numbers = itertools.count()
_open: weakref.WeakValueDictionary[int, CheckpointDirectory] = weakref.WeakValueDictionary()
_saving: set[CheckpointDirectory] = set()  # which live until their save is waited for
os.register_at_fork(after_in_child=_open.clear)  # the parent closes them


def close_all() -> None:
    """When Python ends: closes directories, in the same order on all ranks."""
    for ref in _open.valuerefs():  # in the order in which they were opened
        directory = ref()
        if directory is None:
            continue
        try:
            directory._end(is_failing=hasattr(sys, "last_type"))
        except Exception:
            sys.excepthook(*sys.exc_info())


class CheckpointDirectory(_rota.CheckpointDirectory):
    """A directory of checkpoints. A file appears whole or not at all, and the newest good one is found again.

    **Collective**: all ranks of `comm` make the same calls, and all return or all raise. `rota.Communicator` takes it;
    None is a process alone; left out, it is that of torch.distributed. The directory belongs to one job at a time:
    BusyError otherwise. One thread at a time uses it.

    What is saved are states:

    - a loader (`Loader`, `ElasticBatchSampler`, `rota.torch.DataLoader`), which is then called "main";
    - a mapping of names, such as "model/layer0.weight", to loaders, arrays, tensors of torch (on any device), bytes
      and texts.

    A tensor is whole on rank 0, which writes it; all ranks name it. `Rows(array)` is this rank's part of it instead.
    A scalar is saved as one row, [1]. Bytes and texts are rank 0's, too.

    Loaders and samplers with `replan="at_save"` then go on by what the file of their plan says: of `save_async`, once
    the states are copied. What is wrong with it costs no save: the logger "rota" says so.

    - `keep_last` checkpoints of this run stay, and for ever each one of a step that `keep_every` divides (0: none).
      A run goes on where its newest one is restored. Those of other runs stay, and the first save beside such says so.
    - `deadline`: seconds that the other ranks wait for one; 0: for ever. After TimeoutError, end the job.
    - `mirror`: "s3://bucket/run", where rank 0 copies each checkpoint to, in the background. Of those that wait for an
      earlier one, only the newest is copied; nothing is deleted there. `latest` and `restore` look there, too.
    - `storages`: file systems of fsspec for a mirror, as of `Catalog`.

    >>> import rota, tempfile
    >>> sampler = rota.ElasticBatchSampler(100, 8)
    >>> with rota.CheckpointDirectory(None, tempfile.mkdtemp()) as directory:
    ...     _ = sampler.advance()
    ...     _ = directory.save(1, sampler, {"config": '{"lr": 0.1}'})
    ...     checkpoint = directory.restore(sampler)
    >>> sampler.position, checkpoint.blob("config")
    (Position(epoch=0, consumed=8, step=1), b'{"lr": 0.1}')
    """

    def __init__(
        self,
        comm: Any = ...,
        path: Any = ...,
        *,
        keep_last: int = 2,
        keep_every: int = 0,
        deadline: float = 600.0,
        mirror: str | None = None,
        storages: Mapping[str, Any] | None = None,
    ) -> None:
        what = "open a checkpoint directory"
        if path is ...:
            comm, path = ..., comm
        ranks = needed_ranks(comm, what)
        with agreed(ranks, what):
            to = None if mirror is None else (mirror, storages)
            policy = _rota.CheckpointPolicy(keep_last=keep_last, keep_every=keep_every, deadline=deadline, mirror=to)
            path = os.fsdecode(path)
        super().__init__(ranks, path, policy)
        self._path = path
        self._ranks = ranks
        self._world = World(ranks.rank, ranks.size)
        _open[next(_numbers)] = self

    def save(self, step: int, *states: Any) -> SaveReport:
        """Writes the newest checkpoint. When this returns it is complete and on disk; then old ones are deleted.

        When it raises, the directory is as before. A rank that fails at its own states raises that; the others
        raise an Error that names the rank.
        """
        return self._write(self._save, _saving.discard, step, states)

    def save_async(self, step: int, *states: Any) -> None:
        """The same in the background: copies the states, and returns. Call `poll` every step.

        A save under way is waited for first. What fails is raised by the next collective call, such as `wait`.
        `close`, and Python's end, wait for it. Do not use another HDF5 library meanwhile.
        """
        self._write(self._save_async, _saving.add, step, states)

    def _write(self, write: Callable, note: Callable, step: int, states: tuple) -> Any:
        snapshot = self._new_snapshot()
        planned: dict[str, Any] = {}  # by files
        failed = None
        try:
            step = operator.index(step)
            for name, value in _named(states):
                _add(snapshot, name, value, self._world)
                if getattr(loader := _loader_of(value), "_plan_file", None):
                    planned[name] = loader
                    snapshot.same(f"{name}/plan", loader._plan_file.said)
                    if loader.world.size > self._world.size:
                        raise InvalidArgumentError(
                            f'save "{name}", with replan="at_save": it is of {loader.world.size} ranks, and this '
                            f"directory of {self._world.size}, so that ranks may find other plans; open it with the "
                            "comm= of all ranks, or call replan() yourself"
                        )
        except BaseException as error:
            if self._world.size == 1:
                raise
            step, failed = 0, error
        with first(lambda: failed):
            report = write(step, snapshot, told(failed))
        note(self)
        for name in sorted(planned):
            planned[name]._plan_file.read(planned[name], self._ranks)
        return report

    def wait(self) -> SaveReport | None:
        """Waits for the background save, and raises its error; None without one."""
        _saving.discard(self)
        return self._wait()

    def wait_for_mirror(self) -> None:
        """Waits until all checkpoints are copied to the mirror, and raises what could not be since the last report.

        `close` waits, too, and raises nothing.
        """
        _saving.discard(self)
        self._wait_for_mirror()

    def restore(self, *states: Any) -> _rota.Checkpoint | None:
        """Restores loaders, named as in `save`, from the newest checkpoint that verifies; None in an empty directory.

        The checkpoint has the tensors and blobs. It goes back to an older one only past damage: see `rejected`.
        MismatchError on all ranks, if one has another dataset or order. Some loaders may be restored then.
        """
        loaders = [(name, state, _loader_of(state)) for name, state in _named(states)]
        for name, state, loader in loaders:
            if loader is None:
                kind = type(state).__name__
                raise TypeError(f'restore "{name}": a {kind} is no loader; read it: checkpoint["{name}"]')
        failed = None

        def restore(raw: Any) -> tuple[str, str] | None:
            nonlocal failed
            failed = None  # of an older checkpoint, behind one that is corrupt in itself
            try:
                for name, _, loader in loaders:
                    loader._restore_from(raw, name)
            except BaseException as error:
                failed = error
            return told(failed)

        with first(lambda: failed):
            return self._restore(restore)

    @property
    def path(self) -> str:
        """As it was given."""
        return self._path

    def close(self) -> None:
        """Waits for a save under way, whose error it raises, and unlocks the directory. Collective."""
        self._end(is_failing=False)

    def _end(self, is_failing: bool) -> None:
        """Closes; a rank that fails alone gives a save up, for the others may never come to its end."""
        if self.is_closed:
            return
        try:
            if self in _saving and (not is_failing or self._world.size == 1):
                self.wait()
        finally:
            _saving.discard(self)
            self._close()

    def __enter__(self) -> CheckpointDirectory:
        return self

    def __exit__(self, type: Any, *_: Any) -> None:
        self._end(is_failing=type is not None)

    def __repr__(self) -> str:
        if not hasattr(self, "_path"):
            return "<rota.CheckpointDirectory, not made>"
        return f"<rota.CheckpointDirectory {self._path}{', closed' if self.is_closed else ''}>"
