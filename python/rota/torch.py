"""rota with PyTorch: its DataLoader in rota's order, tensors of rota's batches, and copies to a device.

>>> import rota, rota.torch
>>> dataset = [(float(i), i % 2) for i in range(100)]
>>> sampler = rota.ElasticBatchSampler(dataset, global_batch_size=8, seed=1)
>>> loader = rota.torch.DataLoader(dataset, sampler)
>>> for x, y in loader:
...     loss = (x * loader.info.mask).sum()
>>> loader.position
Position(epoch=1, consumed=0, step=13)
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rota import _communicator, _rota, _sources
from rota._catalog import Catalog
from rota._checkpoint import first_row_of
from rota._communicator import as_world, needed_ranks, torch_distributed, torchs_ranks, torchs_world
from rota._errors import InvalidArgumentError, MismatchError
from rota._loader import Loader
from rota._members import Members
from rota._sources import Source
from rota._torch_loader import BatchInfo, DataLoader
from rota._torch_reading import seeded
from rota._values import Position, Ragged, World

__all__ = [
    "BatchInfo", "Communicator", "DataLoader", "Members", "StopSignal", "Tensors", "ToDevice", "fill", "open", "pinned",
    "seeded", "tensors", "to_device", "varlen", "world",
]  # fmt: skip


def Communicator(group: Any = None, deadline: float = 600.0) -> _rota.Communicator:
    """A `rota.Communicator` of the ranks of torch.distributed, of a process group, or of a dimension of a DeviceMesh.

    They get a group by gloo of their own, whatever theirs is by. All of them make it together.
    """
    if group is None:
        if torch_distributed() is None:
            raise InvalidArgumentError("make a communicator: call torch.distributed.init_process_group() first")
        group = torch.distributed.group.WORLD
    return _communicator.Communicator(group, deadline)


def fill(tensor: torch.Tensor, checkpoint: Any, name: str) -> None:
    """Fills a tensor with that of the checkpoint, in place: of a DTensor that is sharded, this rank's rows."""
    dtype, shape = next(((info.dtype, info.shape) for info in checkpoint.tensors if info.name == name), ("", ()))
    if shape not in ((), tuple(tensor.shape) or (1,)):
        raise MismatchError(
            f'fill a tensor of shape {[*tensor.shape]} with "{name}" of a checkpoint, which has {[*shape]}'
        )
    local, first = (tensor.to_local(), first_row_of(tensor)) if hasattr(tensor, "placements") else (tensor, 0)
    rows = checkpoint.rows(name, first, len(local) if local.ndim else 1)  # which refuses a name that is not there
    values = (
        torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16) if dtype == "bfloat16" else torch.from_numpy(rows)
    )
    if values.dtype != local.dtype or local.is_meta:
        what = (
            "on the device meta, which has no memory: call to_empty() first"
            if local.is_meta
            else f"{local.dtype}; convert it"
        )
        raise MismatchError(f'fill a tensor with "{name}" of a checkpoint, of {values.dtype}: it is {what}')
    with torch.no_grad():
        local.copy_(values.reshape(local.shape))


def world(group: Any = None) -> World:
    """This process among those that share the data, where tensor or pipeline parallel ones read the same.

    `group` is a dimension of a DeviceMesh, such as `mesh["dp"]`, or the process group of data-parallel ranks.
    **Collective** over all ranks of torch.distributed, each of which is in one such group, all as large.
    """
    if group is None:
        return torchs_world(None)
    found = as_world(group)
    if not isinstance(found, World):
        raise TypeError(f"a {type(group).__name__} is no process group, nor a dimension of a DeviceMesh")
    return found


class StopSignal(_rota.StopSignal):
    """SIGTERM or SIGUSR1 on one rank stops all ranks at the same step: of a cluster that ends a job, or is about to.

    `comm` is what `rota.Communicator` takes; left out, all ranks of torch.distributed. It has the handlers until
    `close`; a process has one. All ranks make it, and ask it once a step, which costs a small reduction.

    >>> import rota.torch
    >>> stop = rota.torch.StopSignal()
    >>> stop.requested()
    False
    >>> stop.close()
    """

    def __init__(self, comm: Any = ...) -> None:
        super().__init__(needed_ranks(comm, "make a StopSignal"))


def _tensor(array: np.ndarray, dtype: str, name: str) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if dtype in ("uint16", "uint32", "uint64") and not hasattr(torch, dtype):
        raise TypeError(
            f'this torch has no tensors of {dtype}: make the loader with cast={{"{name}": '
            f'"int{min(2 * int(dtype[4:]), 64)}"}}'
        )
    return torch.from_numpy(array)


class Tensors(dict):
    """Tensors by field, and `batch`, which knows ids, kinds and position."""

    batch: Any = None


def tensors(batch: Any) -> Tensors:
    """The fields of a batch as tensors over its own memory: nothing is copied.

    A ragged field is a jagged nested tensor, where torch has those, else a `Ragged` of tensors.
    """
    made = Tensors()
    made.batch = batch
    for field in batch.fields:
        array = batch[field.name]
        if not field.ragged:
            made[field.name] = _tensor(array, field.dtype, field.name)
            continue
        values = _tensor(array.values, field.dtype, field.name)
        offsets = torch.from_numpy(array.offsets)
        jagged = getattr(getattr(torch, "nested", None), "nested_tensor_from_jagged", None)
        made[field.name] = jagged(values, offsets) if jagged else Ragged(values, offsets)
    return made


def varlen(batch: Any, part: int | None = None, padding: str = "drop", mask: Any = None) -> dict[str, Any]:
    """One flat batch, as attention of several lengths takes it: without padding, or with padding="segment" as segments.

    Of packed sequences, [B, length] with `segment_ids`; or of ragged fields, which have as many rows. `batch` is one of
    a loader, or a mapping of tensors or arrays; `part` one of its micro-batches. `cu_seqlens`, int32, is where segments
    begin, and the last one ends; `max_seqlen` is the longest. Samples that `mask` leaves out are left out: that of a
    loader's batch, unless another is given.

    >>> flat = varlen({"tokens": np.array([[5, 6, 7, 0]]), "segment_ids": np.array([[1, 1, 2, 0]])})
    >>> flat["tokens"].tolist(), flat["cu_seqlens"].tolist(), flat["max_seqlen"]
    ([5, 6, 7], [0, 2, 3], 2)
    """
    if padding not in ("drop", "segment"):
        raise InvalidArgumentError(f'make a flat batch: padding is {padding!r}; it must be "drop" or "segment"')
    rows = slice(None)
    if part is not None:
        ends = getattr(batch, "batch", batch).micro_ends.tolist()
        if not 0 <= part < len(ends):
            raise InvalidArgumentError(f"make a flat batch: there is no part {part}; the batch has {len(ends)}")
        rows = slice(ends[part - 1] if part else 0, ends[part])
    mask = getattr(batch, "mask", None) if mask is None else mask
    is_real = None if mask is None else torch.as_tensor(mask, dtype=torch.bool)[rows]
    types = {field.name: field.dtype for field in getattr(batch, "fields", ())}
    made, lengths = dict[str, Any](), dict[str, torch.Tensor]()
    for name, value in batch.items():
        values, offsets = _rows_of(value)
        if offsets is not None:
            offsets = torch.as_tensor(offsets)[rows.start : None if rows.stop is None else rows.stop + 1]
            values, lengths[name] = values[offsets[0] : offsets[-1]], offsets.diff()
            if is_real is not None and not is_real.all():
                values = values[is_real.repeat_interleave(lengths[name])]
                lengths[name] = lengths[name][is_real]
        else:
            values = values[rows]
            if is_real is not None and not is_real.all() and hasattr(values, "shape"):
                values = values[is_real]
        is_array = isinstance(values, np.ndarray)
        made[name] = _tensor(values, types.get(name, values.dtype.name), name) if is_array else values
    if "segment_ids" in made:
        ids = made.pop("segment_ids")
        begins = torch.ones_like(ids, dtype=torch.bool)
        begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
        kept = (ids != 0) | (padding == "segment")
        for name, value in made.items():
            made[name] = value[kept] if getattr(value, "shape", ())[:2] == ids.shape else value
        of_each = torch.cat([begins[kept].nonzero().flatten(), kept.sum().reshape(1)]).diff()
    elif lengths:
        of_each = next(iter(lengths.values()))
        if any(not torch.equal(of_each, other) for other in lengths.values()):
            raise InvalidArgumentError(f"make a flat batch: {', '.join(lengths)} have other numbers of rows")
        starts = (of_each.cumsum(0) - of_each).repeat_interleave(of_each)
        made.setdefault("position_ids", torch.arange(len(starts), device=starts.device) - starts)
    else:
        raise InvalidArgumentError("make a flat batch: there is no field segment_ids, and none that is ragged")
    made["cu_seqlens"] = torch.nn.functional.pad(of_each.cumsum(0), (1, 0)).to(torch.int32)
    made["max_seqlen"] = int(of_each.max()) if len(of_each) else 0
    return made


def _rows_of(value: Any) -> tuple[Any, Any]:
    """Those of all samples, and where each begins, of a ragged field; else itself, and None."""
    if isinstance(value, Ragged):
        return value.values, value.offsets
    return (value.values(), value.offsets()) if getattr(value, "is_nested", False) else (value, None)


class ToDevice:
    """What `to_device` returns. Iterate over it; its state is that of the batches that it has delivered."""

    def __init__(self, loader: Loader, device: Any, ahead: int, settle: str) -> None:
        if ahead < 0:
            raise InvalidArgumentError(f"copy to a device: ahead is {ahead}; it must be 0 or more")
        if settle not in ("at_delivery", "by_hand"):
            raise InvalidArgumentError(f"copy to a device: settle is {settle!r}; it must be at_delivery or by_hand")
        self._loader = loader
        self._settles = loader._is_by_hand and settle == "at_delivery"
        self._device = torch.device(device)
        self._ahead = 0 if self._device.type == "cpu" else ahead
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None  # of the copies alone
        self._next: Any = None  # taken from the loader, and not yet copied
        self._ready: deque[tuple[Tensors, Any, dict, Position]] = deque()
        self._state = loader.state_dict()
        self._position = loader.position

    def _start_copy(self) -> bool:
        loader = self._loader
        if self._next is None:
            if self._ready and loader._is_by_hand and not loader._ledger.has_room():
                return False  # else `next` would wait for room
            self._next = loader.next()
        if self._next is None:
            return False
        made, done = tensors(self._next), None
        if self._stream is not None:
            with torch.cuda.stream(self._stream):
                self._copy(made)
                done = self._stream.record_event()
        elif self._device.type != "cpu":
            self._copy(made)
        self._ready.append((made, done, {} if loader._is_by_hand else loader.state_dict(), loader.position))
        self._next = None
        return True

    def _copy(self, made: Tensors) -> None:
        is_cuda = self._stream is not None
        for name, value in made.items():
            if isinstance(value, Ragged):
                made[name] = Ragged(
                    *(part.to(self._device, non_blocking=is_cuda) for part in (value.values, value.offsets))
                )
            else:
                made[name] = value.to(self._device, non_blocking=is_cuda)

    def __iter__(self) -> Iterator[Tensors]:
        if self._loader._is_evaluation:
            self._ready.clear()
            self._next = None
        if not self._ready and self._next is None:
            iter(self._loader)  # begins a `for` over it
        return self

    def __next__(self) -> Tensors:
        try:
            while len(self._ready) <= self._ahead and self._start_copy():
                pass
        except Exception:
            if not self._ready:  # else it is raised in its batch's place: the next call tries again
                raise
        if not self._ready:
            raise StopIteration
        made, done, state, position = self._ready[0]
        if self._settles:
            self._loader.settle(made.batch)  # where this raises, it is still to come
        self._state, self._position = state, position
        self._ready.popleft()
        if done is not None:
            done.synchronize()  # `made.batch` has held the memory until here
            for value in made.values():
                for tensor in (value.values, value.offsets) if isinstance(value, Ragged) else (value,):
                    tensor.record_stream(torch.cuda.current_stream(self._device))  # which uses what another one made
        return made

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # of a loader that does not settle by hand, or went elsewhere
            for made, *_ in self._ready:
                self._loader.again(made.batch)
            if self._next is not None:
                self._loader.again(self._next)

    @property
    def position(self) -> Position:
        """Behind the last batch delivered: not that of the loader, which is ahead."""
        return self._position

    def state_dict(self) -> dict[str, str]:
        """Of the batches delivered; that of the loader, where it settles by hand."""
        return self._loader.state_dict() if self._loader._is_by_hand else self._state

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, and drops what was copied ahead."""
        self._loader.load_state_dict(state)
        self._ready.clear()
        self._next = None
        self._state, self._position = self._loader.state_dict(), self._loader.position


def to_device(loader: Loader, device: Any, ahead: int = 2, settle: str = "at_delivery") -> ToDevice:
    """The loader's batches as `Tensors` on `device`, `ahead` of them being copied while the loop works.

    The memory of a batch is held until its copy is over. Save the state of what this returns, not of the loader, which
    is ahead of the loop. On a CPU the tensors are those of the batch.

    Of a loader that settles by hand, either state will do: each batch is settled when the loop gets it. With
    `settle="by_hand"` you do: `loader.settle(tensors.batch)`.
    """
    return ToDevice(loader, device, ahead, settle)


class _Pinned:
    def __init__(self) -> None:
        self._tensors: dict[int, torch.Tensor] = {}

    def allocate(self, size: int) -> int:
        made = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        self._tensors[made.data_ptr()] = made
        return made.data_ptr()

    def release(self, address: int, size: int) -> None:
        del self._tensors[address]


def open(path: Any, format: str = "auto", **options: Any) -> Source:
    """`rota.open` on all ranks of torch.distributed: rank 0 lists the files, and all share the work of indexing them.

    **Collective.** What one rank fails at is raised on all. Without torch.distributed it is `rota.open`.
    """
    ranks = None if isinstance(path, Catalog) else torchs_ranks()  # a catalog has its own
    return _sources.open(path, format, comm=ranks, **options)


def pinned() -> Any:
    """An `allocator` for `rota.Loader`: batches in page-locked memory. None without CUDA: plain memory."""
    return _Pinned() if torch.cuda.is_available() else None
