"""What is in one rank's batch."""

from __future__ import annotations

from typing import Any

from rota._values import Position


def _of_batch(name: str, text: str) -> Any:
    def get(self: BatchInfo) -> Any:
        value = getattr(self._batch, name)
        return value if isinstance(value, int) else self._as(value)

    return property(get, doc=text)


class BatchInfo:
    """What is in one rank's batch. Arrays of numpy, one number for each of its slots."""

    @staticmethod
    def _as(array: Any) -> Any:
        return array

    def __init__(self, batch: Any, end: Position) -> None:
        self._batch = batch
        self.end: Position = end
        """the position behind it"""

    @property
    def start(self) -> Position:
        """The position before it."""
        return self._batch.start

    @property
    def step(self) -> int:
        """Its number since the run began."""
        return self._batch.start.step

    ids: Any = _of_batch("ids", "The samples.")
    kinds: Any = _of_batch("kinds", "0: a sample; 1: one that pads the batch.")
    mask: Any = _of_batch("mask", "True where a sample counts.")
    epochs: Any = _of_batch("epochs", "Of each sample.")
    datasets: Any = _of_batch("datasets", "Which of several datasets each sample is of.")
    slots: Any = _of_batch("slots", "The slots of the global batch, ascending.")
    size: int = _of_batch("size", "Slots of this rank.")
    real: int = _of_batch("real", "Samples that count, of this rank.")
    global_size: int = _of_batch("global_size", "Slots of all ranks.")
    global_real: int = _of_batch("global_real", "Samples that count, over all ranks.")

    def __repr__(self) -> str:
        return f"<rota.BatchInfo of step {self.step}: {self.size} slots, {self.real} samples>"
