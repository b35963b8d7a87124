"""What is said to those who draw batches of a sampler themselves."""

from __future__ import annotations

import warnings

from rota._errors import InvalidArgumentError
from rota._values import Position


class ByHand:
    """What is said to those who iterate over a sampler, which counts nothing then."""

    def __init__(self) -> None:
        self.drawn_at: Position | None = None  # where a batch was drawn
        self.drawn_over: Position | None = None  # where an iterator began that has given all of its batches
        self.carried_into: int | None = None  # an epoch of which the last batch of the one before had samples
        self.lacks_drawn = False  # a state that was asked for, unless the iterator is asked for its own as well
        self.warned: set[str] = set()

    def moved(self) -> None:
        self.drawn_at = self.drawn_over = self.carried_into = None

    def kept(self) -> None:
        """The state of an iterator is, and counts what it has drawn."""
        self.drawn_at, self.lacks_drawn = None, False

    def begin_counted(self, at: Position | None) -> None:
        """A `for` begins that counts what it delivers, at `at` unless it is an evaluation."""
        self.drawn_at = None
        if at is not None and self.drawn_over == at:
            raise InvalidArgumentError(
                f"begin a `for`: another loader drew all of epoch {at.epoch} (skip_first_batches does), which counts "
                "none; call set_epoch() first"
            )

    def begin(self, at: Position) -> None:
        if self.drawn_at == at:
            self.warn(
                "this iterator begins with the same batches as the one before: batches that are drawn from a sampler "
                "count by advance(), or in a rota.torch.DataLoader; for one that begins anew at each `for`, make it "
                "with evaluation=True",
                4,
            )

    def drew(self, at: Position, is_over: bool) -> None:
        """A batch, or the end behind one, of an iterator that began at `at`."""
        if self.lacks_drawn:
            self.warn(
                "the last state has none of the batches that were drawn: batches that are drawn from a sampler count "
                "by advance(), or in a rota.torch.DataLoader",
                5,
            )
        self.drawn_at = at
        if is_over:
            self.drawn_over = at

    def warn(self, text: str, stacklevel: int = 3) -> None:
        """Once."""
        kind = text[:20]
        if kind not in self.warned:
            warnings.warn(text, stacklevel=stacklevel)
        self.warned.add(kind)
