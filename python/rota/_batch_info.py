"""What is in one rank's batch."""

from __future__ import annotations

from typing import Any

from rota._values import Position


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

    @property
    def ids(self) -> Any:
        """The samples."""
        return self._as(self._batch.ids)

    @property
    def kinds(self) -> Any:
        """0: a sample; 1: one that pads the batch."""
        return self._as(self._batch.kinds)

    @property
    def mask(self) -> Any:
        """True where a sample counts."""
        return self._as(self._batch.kinds == 0)

    @property
    def epochs(self) -> Any:
        """Of each sample."""
        return self._as(self._batch.epochs)

    @property
    def datasets(self) -> Any:
        """Which of several datasets each sample is of."""
        return self._as(self._batch.datasets)

    @property
    def slots(self) -> Any:
        """The slots of the global batch, ascending."""
        return self._as(self._batch.slots)

    @property
    def size(self) -> int:
        """Slots of this rank."""
        return self._batch.size

    @property
    def real(self) -> int:
        """Samples that count, of this rank."""
        return self._batch.real

    @property
    def global_size(self) -> int:
        """Slots of all ranks."""
        return self._batch.global_size

    @property
    def global_real(self) -> int:
        """Samples that count, over all ranks."""
        return self._batch.global_real

    def __repr__(self) -> str:
        return f"<rota.BatchInfo of step {self.step}: {self.size} slots, {self.real} samples>"
