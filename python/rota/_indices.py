"""Lists of indices, and what is in each batch."""

from __future__ import annotations

import functools
import operator
from typing import Any

from rota import _rota
from rota._values import BatchCosts, Position


class Index(int):
    """The number of a sample, which also knows its epoch, and whether it pads its batch. An int in all else.

    `id` is what the run calls the sample: the same number, until datasets come or go (docs/change.md). `key` is 64 bits
    of randomness of seed, epoch and id: see `rota.torch.seeded`.
    """

    __slots__ = ()
    epoch: int
    seed: int
    is_pad: bool
    shift: int

    @staticmethod
    def of(id: int, epoch: int, seed: int, is_pad: bool = False, shift: int = 0) -> Index:
        """Sample `id` of `epoch`, which a dataset gets as `id - shift`."""
        kind = index_type(operator.index(epoch), operator.index(seed), bool(is_pad), operator.index(shift))
        made: Index = kind(id - shift)
        return made

    @property
    def id(self) -> int:
        """Of the sample in the run: as in `BatchInfo.ids`."""
        return int(self) + self.shift

    @property
    def key(self) -> int:
        """64 bits of randomness of seed, epoch and id."""
        return _rota.sample_key(self.seed, self.epoch, self.id)

    def __reduce__(self) -> tuple:
        return Index.of, (self.id, self.epoch, self.seed, self.is_pad, self.shift)


@functools.lru_cache(maxsize=256)
def index_type(epoch: int, seed: int, is_pad: bool, shift: int) -> Any:
    """Of all such indices of an epoch: what they have in common costs none of them anything."""
    own: dict[str, Any] = {"epoch": epoch, "seed": seed, "is_pad": is_pad, "shift": shift}
    return type("Index", (Index,), {"__slots__": (), "__module__": "rota", **own})


class Indices(list):
    """Those of a batch. Between processes they go as numbers."""

    __slots__ = ()

    def __reduce__(self) -> tuple:
        encoded = _rota.encode_indices(self)
        return (Indices, (list(self),)) if encoded is None else (decoded, encoded)


def decoded(ids: bytes, epochs: bytes, pads: bytes, seed: int, shifts: bytes) -> list[Index]:
    """What `Indices` went as."""
    return _rota.decode_indices(ids, epochs, pads, seed, shifts)


def _of_batch(name: str, text: str) -> Any:
    def get(self: BatchInfo) -> Any:
        value = getattr(self._batch, name)
        return value if isinstance(value, (int, tuple)) else self._as(value)

    return property(get, doc=text)


class BatchInfo:
    """What is in one rank's batch. Arrays of numpy, one number for each of its slots.

    Where batches are handed out in parts, it is of one: number `part` of `parts`.
    """

    part: int = 0
    parts: int = 1

    @staticmethod
    def _as(array: Any) -> Any:
        return array

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._moves: Any = None  # of the sampler that has delivered it, before it

    @property
    def step(self) -> int:
        """Its number since the run began."""
        return self._batch.start.step

    start: Position = _of_batch("start", "The position before it.")
    end: Position = _of_batch("end", "The position behind it.")
    is_again: bool = _of_batch("is_again", "Whether its samples were handed out before, and come again: it is no step.")
    ids: Any = _of_batch("ids", "The samples.")
    kinds: Any = _of_batch("kinds", "0: a sample; 1: padding; 2: left out by the plan, and another is read.")
    mask: Any = _of_batch("mask", "True where a sample counts.")
    epochs: Any = _of_batch("epochs", "Of each sample.")
    datasets: Any = _of_batch("datasets", "Which of several datasets each sample is of.")
    slots: Any = _of_batch("slots", "The slots of the global batch, ascending.")
    size: int = _of_batch("size", "Slots of this rank.")
    real: int = _of_batch("real", "Samples that count, of this rank.")
    global_size: int = _of_batch("global_size", "Slots of all ranks.")
    global_real: int = _of_batch("global_real", "Samples that count, over all ranks.")
    micro_ends: Any = _of_batch("micro_ends", 'Under "balanced", where each micro-batch ends, of the whole batch.')
    global_sums: Any = _of_batch("global_sums", "The sum of each column of lengths over all ranks.")
    costs: BatchCosts = _of_batch("costs", "What the batch costs.")

    def __repr__(self) -> str:
        return f"<rota.BatchInfo of step {self.step}: {self.size} slots, {self.real} samples>"
