"""The batches of a sampler, drawn ahead of what is delivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError
from rota._indices import Index, Indices


class BatchIterator(Iterator[list[Index]]):
    """The batches of a sampler, drawn ahead of what is delivered. Stateful: it is where its caller drew to."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        is_over = sampler._rules.take_end(sampler._run)
        self._run: Any = sampler._run if sampler._is_by_hand else _rota.Run(sampler._run)
        self._draw = self._run._hand_out if sampler._is_by_hand else self._run._draw
        self._before = self._run
        self._parts: deque[list[Index]] = deque()  # of the batch drawn last, to be handed out
        if sampler._evaluation:
            self._run.restart()
        self._begin(is_over)
        self._counts_nothing = not sampler._is_counted  # unless its state is kept
        self._drawn: deque[Any] | None = None
        self._replans = sampler._replans
        if sampler._is_counted:
            if sampler._left is not None:
                self._last_epoch = sampler._until
            self._drawn = sampler._ahead = deque()
            sampler._until = self._last_epoch

    def _begin(self, is_over: bool) -> None:
        self._start = self._run.position
        self._last_epoch = self._start.epoch if self._sampler._epochs is None else None
        if is_over:  # nothing but what comes again
            self._last_epoch = self._start.epoch - 1

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> list[Index]:
        if self._parts:
            return self._parts.popleft()
        if self._replans != self._sampler._replans and not self._sampler._is_by_hand:
            raise InvalidArgumentError("draw batches by a plan: the sampler has another one by now; begin a new `for`")
        if self._sampler._has_parts and not self._sampler._is_by_hand:
            self._before = _rota.Run(self._run)
        drawn = self._draw(self._last_epoch)
        at, by_hand = self._run.position, self._sampler._by_hand
        if self._sampler._is_by_hand:
            if drawn is not None:
                self._sampler._rules.passed(self._run, drawn[1])
        elif self._counts_nothing and at != self._start:
            by_hand.drew(self._start, drawn is None)
        if drawn is None:
            carries = self._drawn is None and not self._sampler._is_by_hand
            if carries and at.epoch > self._start.epoch and at.consumed > 0:
                by_hand.carried_into = at.epoch
            raise StopIteration
        indices, batch = drawn
        parts = self._sampler._parts_of(batch)
        if self._drawn is not None:
            self._drawn += parts
        if not self._sampler._has_parts:
            return indices
        for part in parts:
            self._parts.append(Indices(indices[: part.size]))
            del indices[: part.size]
        return self._parts.popleft()

    def state_dict(self) -> dict[str, str]:
        """Behind the last batch drawn; before it, unless all of its parts were."""
        self._counts_nothing = False
        self._sampler._by_hand.kept()
        run: Any = self._before if self._parts else self._run
        return {"rota": run._state(), **self._sampler._known.told}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says. At an epoch's end it gives nothing, unless the sampler is to go behind it."""
        self._parts.clear()
        if self._sampler._is_by_hand:
            self._sampler.load_state_dict(state)
            return self._begin(False)
        self._run._load(state)
        rules = self._sampler._rules
        self._begin(rules.gives_nothing(self._run))
        self._counts_nothing = False
        if rules.ends(self._run) and not self._sampler._evaluation:
            self._sampler.load_state_dict(state)
