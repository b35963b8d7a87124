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

import functools
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils import data as _data

import rota
from rota import _rota, _sampler, _sources
from rota._checkpoint import first_row_of
from rota._communicator import as_world, torch_distributed, torchs_ranks, torchs_world
from rota._errors import CallbackError, InvalidArgumentError, MismatchError
from rota._loader import Loader
from rota._sampler import ElasticBatchSampler
from rota._sources import Source
from rota._values import Index, Position, Ragged, World

__all__ = [
    "BatchInfo", "Communicator", "DataLoader", "Tensors", "ToDevice", "fill", "open", "pinned", "seeded", "tensors", "to_device",
    "world",
]  # fmt: skip


def Communicator(group: Any = None, deadline: float = 600.0) -> rota.Communicator:
    """The ranks of torch.distributed, of a process group of it, or of a dimension of a DeviceMesh: a `rota.Communicator`.

    They get a group by gloo of their own, whatever theirs is by. All of them make it together.
    """
    if group is None:
        if torch_distributed() is None:
            raise InvalidArgumentError("make a communicator: call torch.distributed.init_process_group() first")
        group = torch.distributed.group.WORLD
    return rota.Communicator(group, deadline)


def fill(tensor: torch.Tensor, checkpoint: Any, name: str) -> None:
    """Fills a tensor with that of the checkpoint, in place: of a DTensor that is sharded, this rank's rows, in any world."""
    dtype, shape = next(((info.dtype, info.shape) for info in checkpoint.tensors if info.name == name), ("", ()))
    if shape not in ((), tuple(tensor.shape) or (1,)):
        raise MismatchError(f'fill a tensor of shape {[*tensor.shape]} with "{name}" of a checkpoint, which has {[*shape]}')
    local, first = (tensor.to_local(), first_row_of(tensor)) if hasattr(tensor, "placements") else (tensor, 0)
    rows = checkpoint.rows(name, first, len(local) if local.ndim else 1)  # which refuses a name that is not there
    values = torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16) if dtype == "bfloat16" else torch.from_numpy(rows)
    if values.dtype != local.dtype or local.is_meta:
        what = "on the device meta, which has no memory: call to_empty() first" if local.is_meta else f"{local.dtype}; convert it"
        raise MismatchError(f'fill a tensor with "{name}" of a checkpoint, of {values.dtype}: it is {what}')
    with torch.no_grad():
        local.copy_(values.reshape(local.shape))


def world(group: Any = None) -> World:
    """This process among those that share the data, where tensor or pipeline parallel ones read the same.

    `group` is a dimension of a DeviceMesh, such as `mesh["dp"]`, or the process group of data-parallel ranks. **Collective**
    over all ranks of torch.distributed, each of which is in one such group, all as large.
    """
    if group is None:
        return torchs_world(None)
    found = as_world(group)
    if not isinstance(found, World):
        raise TypeError(f"a {type(group).__name__} is no process group, nor a dimension of a DeviceMesh")
    return found


class BatchInfo(_sampler.BatchInfo):
    """What is in one rank's batch, as tensors: `mask`, `ids`, `epochs`, `slots`."""

    _as = staticmethod(lambda array: torch.from_numpy(array.copy()))


def _unless_empty(collate: Callable[[list], Any], samples: list) -> Any:
    """Of a rank with no sample in a short last batch, None."""
    return collate(samples) if samples else None


T = TypeVar("T", covariant=True)


class _NoOrder(_data.DistributedSampler):
    """What trainers ask for, whether a loader shares samples among ranks by itself; it orders nothing."""

    def __init__(self, world: World) -> None:
        super().__init__((), num_replicas=world.size, rank=world.rank, shuffle=False)

    def set_epoch(self, epoch: int) -> None:
        """Nothing: the count of a trainer begins anew at each start."""


class DataLoader(_data.DataLoader[T]):
    """torch's DataLoader in rota's order, which counts what it delivers.

    A batch is counted before the loop's body gets it. So a state saved in the body has the batch in hand, and none that
    was drawn ahead. A new `for` goes on behind the last batch delivered, whatever ended the one before.

    All of torch's options work, but for those that make an order of their own. The sampler may be called `batch_sampler`,
    as torch does. With `tail` "partial", "carry" or "drop" a rank may have no sample in an epoch's last batch: then the
    batch is None.

    Trainers leave it as it is: Lightning and Fabric see that it shares samples by itself (`sampler`), and so does
    `prepare` of Accelerate, which saves and loads its state.
    """

    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    def __init__(
        self,
        dataset: _data.Dataset[T] | Any,
        sampler: ElasticBatchSampler | None = None,
        num_workers: int = 0,
        *,
        batch_sampler: ElasticBatchSampler | None = None,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        **options: Any,
    ) -> None:
        if (sampler is None) == (batch_sampler is None):
            raise TypeError("give a rota.ElasticBatchSampler, as sampler or as batch_sampler")
        sampler = sampler if batch_sampler is None else batch_sampler
        if not isinstance(sampler, ElasticBatchSampler):
            raise TypeError(f"a {type(sampler).__name__} is no rota.ElasticBatchSampler")
        if isinstance(dataset, _data.IterableDataset):
            raise TypeError("an IterableDataset has an order of its own; see rota.Stream")
        for name in ("batch_size", "shuffle", "drop_last"):
            if name in options:
                raise TypeError(f"{name}= is the sampler's: see rota.ElasticBatchSampler")
        if not options.get("in_order", True):
            raise InvalidArgumentError("in_order=False: batches would come in another order at every run")
        if hasattr(dataset, "__len__") and len(dataset) != sampler.samples:
            raise MismatchError(f"the dataset has {len(dataset)} samples, the sampler orders {sampler.samples}")
        self._iterations = 0
        self._order = sampler
        # torch draws a number at every `for`: not from the generator of the model, whose numbers a resume would change.
        self._has_own_generator = generator is None
        super().__init__(
            dataset,
            batch_sampler=sampler,
            num_workers=num_workers,
            collate_fn=functools.partial(_unless_empty, collate_fn or _data.default_collate),
            pin_memory=pin_memory,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator or torch.Generator(),
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
            **options,
        )
        self._info: BatchInfo | None = None
        self._batches, self._waited = 0, 0.0

    @property
    def sampler(self) -> _NoOrder:  # type: ignore[override]
        """Says to trainers which rank this is, and that they need not share samples among ranks."""
        return _NoOrder(self._order.world)

    @sampler.setter
    def sampler(self, of_torch: Any) -> None:
        pass  # torch sets one of its own, and does not use it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_info": None}

    def __repr__(self) -> str:
        return f"<rota.torch.DataLoader over {self._order!r}, {self.num_workers} workers>"

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        sampler = self._order
        self._iterations += 1
        if not sampler._begins_for():
            return
        drawn = self._iterations, sampler.changes, sampler.position
        if self._has_own_generator:
            self.generator.manual_seed(_rota.sample_key(sampler.seed, sampler.position.step, sampler.world.rank))
        batches, begin = super().__iter__(), sampler.position.epoch
        while True:
            if drawn != (self._iterations, sampler.changes, sampler.position):
                raise InvalidArgumentError(
                    "this `for` goes on from batches that were drawn before the loader was moved, "
                    "or another `for` over it began; end this one, and begin a new one"
                )
            begun = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration as error:
                if not sampler._is_done(begin):  # it came from the dataset
                    raise CallbackError("read a batch: the dataset raised StopIteration") from error
                return
            self._waited += time.perf_counter() - begun
            self._batches += 1
            self._info = sampler.advance(BatchInfo)
            drawn = self._iterations, sampler.changes, sampler.position
            yield batch

    @property
    def stats(self) -> dict[str, float]:
        """`batches` of all `for`s, and `wait_seconds` that the loop has waited for them: take it before and after a step."""
        return {"batches": self._batches, "wait_seconds": self._waited}

    @property
    def info(self) -> BatchInfo:
        """Of the batch in hand."""
        if self._info is None:
            raise InvalidArgumentError("ask for the info of a batch: none was delivered yet")
        return self._info

    @property
    def position(self) -> Position:
        """Behind the last batch delivered."""
        return self._order.position

    def state_dict(self) -> dict[str, str]:
        """Where the run is, the batch in hand included; the same on all ranks."""
        return self._order.state_dict()

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, in any world and with any number of workers."""
        self._order.load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of `epoch`; behind a load it keeps the place in it."""
        self._order.set_epoch(epoch)

    def restart(self) -> None:
        """Begins anew, with the first sample of the first epoch."""
        self._order.restart()


class _Seeded(_data.Dataset):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet: this object is being unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, Index):
            raise TypeError(
                "a seeded dataset is read by the indices of a rota.ElasticBatchSampler, which have keys; "
                "of several datasets: seeded(ConcatDataset(...)), not one by one"
            )
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        try:
            random.seed(index.key)
            np.random.seed(np.array([index.key & 0xFFFFFFFF, index.key >> 32], dtype=np.uint32))
            torch.random.default_generator.manual_seed(index.key)
            return self.dataset[index]
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """What torch asks for where there is one: the inner dataset's would read without seeds."""
        return [self[index] for index in indices]


def seeded(dataset: Any) -> Any:
    """The same dataset, whose random augmentation repeats at any number of ranks and workers, and after a resume.

    Around `dataset[i]`, `random`, `numpy.random` and `torch` are seeded by the sample's key: of seed, epoch and id.
    """
    return _Seeded(dataset)


def _tensor(array: np.ndarray, dtype: str, name: str) -> torch.Tensor:
    if dtype == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if dtype in ("uint16", "uint32", "uint64") and not hasattr(torch, dtype):
        raise TypeError(
            f'this torch has no tensors of {dtype}: make the loader with cast={{"{name}": "int{min(2 * int(dtype[4:]), 64)}"}}'
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


class ToDevice:
    """What `to_device` returns. Iterate over it; its state is that of the batches that it has delivered."""

    def __init__(self, loader: Loader, device: Any, ahead: int) -> None:
        if ahead < 0:
            raise InvalidArgumentError(f"copy to a device: ahead is {ahead}; it must be 0 or more")
        self._loader = loader
        self._device = torch.device(device)
        self._ahead = 0 if self._device.type == "cpu" else ahead
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None  # of the copies alone
        self._next: Any = None  # taken from the loader, and not yet copied
        self._ready: deque[tuple[Tensors, Any, dict, Position]] = deque()
        self._state = loader.state_dict()
        self._position = loader.position

    def _start_copy(self) -> bool:
        if self._next is None:
            self._next = self._loader.next()
        if self._next is None:
            return False
        made, done = tensors(self._next), None
        if self._stream is not None:
            with torch.cuda.stream(self._stream):
                self._copy(made)
                done = self._stream.record_event()
        elif self._device.type != "cpu":
            self._copy(made)
        self._ready.append((made, done, self._loader.state_dict(), self._loader.position))
        self._next = None
        return True

    def _copy(self, made: Tensors) -> None:
        is_cuda = self._stream is not None
        for name, value in made.items():
            if isinstance(value, Ragged):
                made[name] = Ragged(*(part.to(self._device, non_blocking=is_cuda) for part in (value.values, value.offsets)))
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
        made, done, self._state, self._position = self._ready.popleft()
        if done is not None:
            done.synchronize()  # `made.batch` has held the memory until here
            for value in made.values():
                for tensor in (value.values, value.offsets) if isinstance(value, Ragged) else (value,):
                    tensor.record_stream(torch.cuda.current_stream(self._device))  # which uses what another one made
        return made

    @property
    def position(self) -> Position:
        """Behind the last batch delivered: not that of the loader, which is ahead."""
        return self._position

    def state_dict(self) -> dict[str, str]:
        """Of the batches delivered."""
        return self._state

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, and drops what was copied ahead."""
        self._loader.load_state_dict(state)
        self._ready.clear()
        self._next = None
        self._state, self._position = self._loader.state_dict(), self._loader.position


def to_device(loader: Loader, device: Any, ahead: int = 2) -> ToDevice:
    """The loader's batches as `Tensors` on `device`, `ahead` of them being copied while the loop works.

    The memory of a batch is held until its copy is over. Save the state of what this returns, not of the loader, which is
    ahead of the loop. On a CPU the tensors are those of the batch.
    """
    return ToDevice(loader, device, ahead)


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
    """`rota.open` on all ranks of torch.distributed: rank 0 lists the files, and all share the work of looking into them.

    **Collective.** What one rank fails at is raised on all. Without torch.distributed it is `rota.open`.
    """
    ranks = None if isinstance(path, rota.Catalog) else torchs_ranks()  # a catalog has its own
    return _sources.open(path, format, comm=ranks, **options)


def pinned() -> Any:
    """An `allocator` for `rota.Loader`: batches in page-locked memory. None without CUDA: plain memory."""
    return _Pinned() if torch.cuda.is_available() else None
