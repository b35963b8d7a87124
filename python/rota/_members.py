"""A run whose members come and go between steps, as a quorum says."""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rota._errors import CallbackError, InvalidArgumentError, MismatchError, UnsupportedError
from rota._indices import BatchInfo
from rota._loader import Loader
from rota._sampler import ElasticBatchSampler
from rota._values import World

_PARTS = dict(dataset="data", datasets="data", fields="data", plan="plan", rank_split="split", balance="split")
"""of a fingerprint, by the first word of a line; all else is the order"""
_TASK = "ask who takes part in a step"


def _require_own(order: Any, sampler: ElasticBatchSampler | None) -> None:
    """A member that dies must leave nothing behind that the others wait for."""
    of: Any = order if sampler is None else sampler
    for is_wrong, why in (
        (
            sampler is None and order._ranks is not None,
            "the ranks of this loader's communicator would wait for one that is gone; make it with world=(0, 1), which "
            "each step sets",
        ),
        (
            of._is_by_hand,
            'what is trained is said by hand, and not by the number of committed steps; leave out settle="by_hand": a '
            "state with open samples may be loaded all the same",
        ),
        (
            order._is_evaluation if sampler is None else of._evaluation,
            "a `for` over them goes to the end of the run; leave evaluation= out",
        ),
        (
            sampler is not None and of._epochs is None,
            "a `for` over them goes to the end of the run, and this sampler has none; give it epochs=",
        ),
        (getattr(order, "_skips", False), 'all ranks would meet to list bad samples; leave on_bad_sample="skip" out'),
    ):
        if is_wrong:
            raise InvalidArgumentError(f"make members: {why}")


def _digest(lines: list[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(errors="replace"), digest_size=4).hexdigest()


class Members(Iterator[Any]):
    """The batches of a run whose members come and go: `ask()` says before each step who takes part.

    `order` is a `Loader`, an `ElasticBatchSampler`, or a `rota.torch.DataLoader` over one; this gives what that gives,
    and of a sampler lists of `Index`. Make it with world=(0, 1): each step sets the world. A `for` goes to the end of
    the run, which is at the same step on all.

    `ask()` returns (step, rank, size): how many steps were committed, this member's place among those that take part,
    and how many these are; with the fingerprint of another member as a fourth value, that is compared. rank None: this
    member sits the step out, and gets None. Nobody counts for himself. So a step that was not committed comes again,
    and a member that joins, or is behind, reads what the others do, without a file.

    What was read ahead stays where the answer is the expected one. Else it is dropped, and counted (`moves`).

    Step n is the n-th that the plan does not leave out, wherever `order` stands. `committed` is for runs that count
    otherwise, and says how many steps were committed where `order` stands: those that begin at another step, or were
    sent there; and those with samples that are open and come again, in batches that are no steps (settled by hand
    before). Then others cannot know from the number alone, and `state_dict` goes into what the members share, too. It
    also has the count of bad samples. In all other cases a member needs no state.

    >>> import rota
    >>> answers = iter([(0, 0, 1), (1, 1, 2), (1, 0, 1), (2, 0, 1)])  # the second step was not committed
    >>> loader = rota.Loader(rota.PythonSource([{"x": i} for i in range(8)]), 4, shuffle="none", world=(0, 1))
    >>> [batch["x"].tolist() for batch in rota.Members(loader, lambda: next(answers))]
    [[0, 1, 2, 3], [6, 7], [4, 5, 6, 7]]
    """

    def __init__(self, order: Any, ask: Callable[[], Any], *, committed: int | None = None) -> None:
        sampler = order if isinstance(order, ElasticBatchSampler) else getattr(order, "_order", None)
        if not isinstance(order, Loader) and not isinstance(sampler, ElasticBatchSampler):
            raise TypeError(
                f"make members of a {type(order).__name__}: give a rota.Loader, a rota.ElasticBatchSampler, or a "
                "rota.torch.DataLoader"
            )
        if not callable(ask):
            raise TypeError(f"make members: ask is {ask!r}; it must return (step, rank, size) when it is called")
        _require_own(order, sampler)
        self._of, self._sampler, self._ask = order, sampler, ask
        self._placed: Any = order if sampler is None else sampler  # what has a place and a world
        self._moves = 0
        self._batches: Any = None  # what is drawn of a sampler, or of a loader of torch's
        self._begin(None if committed is None else operator.index(committed))

    def _begin(self, committed: int | None) -> None:
        """The run stands where so many steps were committed; None: where its own number says."""
        self._left_at, run = self._place(), self._placed.run
        self._index = self._index_of(run.position.step)
        self._committed = self._index if committed is None else committed
        self._again = 0  # batches that come again before its next step
        while not run.is_over and run.slice().is_again and run.advance():
            self._again += 1
        if "that come again" in run._described():
            raise InvalidArgumentError(
                "make members of a run whose open samples come again later, behind steps that are to come: train on to "
                "there first"
            )
        if committed is None and self._again:
            raise InvalidArgumentError(
                "make members of a run with open samples, which come again in batches that are no steps: say how many "
                "steps were committed (committed=), and let who joins load the members' state_dict()"
            )
        self._state: Any = dict(self._of.state_dict()) if self._again else None
        self._next, self._most = self._committed, 0  # the number that is drawn next, and the highest that was heard
        self._is_drawn = False  # a batch, since the last move
        self._size, self._info = 0, None

    def _place(self) -> Any:
        """Another one where others have moved the run; of a sampler, what is noted of batches that are drawn."""
        return self._of.position if self._sampler is None else self._sampler._ahead

    # ---- numbers of committed steps, and steps ----

    def _left_out(self) -> list[list[int]]:
        return json.loads(self._placed.run.plan or "{}").get("skip", [])

    def _index_of(self, step: int) -> int:
        """How many of the steps before it are not left out."""
        return step - sum(min(end, step) - begin for begin, end in self._left_out() if begin < step)

    def _index_at(self, number: int) -> int:
        behind = number - self._committed
        return self._index + behind - min(max(behind, 0), self._again)

    def _step_at(self, index: int) -> int:
        for begin, end in self._left_out():
            index += (end - begin) * (begin <= index)
        return index

    # ---- what comes next ----

    def __iter__(self) -> Members:
        if self._sampler is not None and self._sampler._part:
            self._left_at = ...  # a loop was left in the middle of a batch, which comes anew
        return self

    def __next__(self) -> Any:
        sampler = self._sampler
        is_begun = sampler is not None and sampler._part and self._batches is not None
        if not is_begun or self._place() is not self._left_at:  # else it is another part of the batch asked for
            number, world = self._asked()
            if world is None:
                self._require_more(number)
                self._most, self._size, self._info = number, 0, None
                return None
            place = self._place()
            was_moved = place != self._left_at if sampler is None else place is not self._left_at
            if was_moved or not self._is_drawn or number != self._next or world != self._placed.world:
                self._go_to(number, world, was_moved)
            self._most, self._size = number, world.size
        try:
            batch = self._draw()
        except BaseException:
            self._batches, self._left_at = None, ...  # the next one begins anew
            raise
        self._next += sampler is None or not sampler._part
        self._left_at, self._is_drawn = self._place(), True
        return batch

    def _asked(self) -> tuple[int, World | None]:
        try:
            answer = self._ask()
        except StopIteration as error:  # which would end the loop without a word
            raise CallbackError(f"{_TASK}: ask() raised StopIteration") from error
        try:
            number, rank, size, *told = answer
            number, size = operator.index(number), operator.index(size)
            rank = None if rank is None else operator.index(rank)
        except (TypeError, ValueError):
            raise CallbackError(
                f"{_TASK}: ask() returned {answer!r}; it must be (step, rank, size), and perhaps the fingerprint of "
                "another member"
            ) from None
        if number < 0 or size < 0 or not (rank is None or 0 <= rank < size):
            raise CallbackError(
                f"{_TASK}: ask() said step {number}, rank {rank} of {size}; steps begin with 0, and a rank is None, or "
                "0 to size - 1"
            )
        if number < self._most:
            raise CallbackError(
                f"{_TASK}: ask() said that {number} steps are committed, and that {self._most} are, before; what was "
                "committed never comes again; where all go back to a checkpoint, make Members anew"
            )
        if told and told[0] != (own := self.fingerprint):
            theirs = str(told[0]).split()
            parts = [one.partition(":")[0] for one in own.split() if one not in theirs]
            raise MismatchError(
                f"{_TASK}: this one has {own}, another {told[0]}; make all with the same {' and '.join(parts)}"
            )
        return number, None if rank is None else World(rank, size)

    def _require_more(self, number: int) -> tuple[int, int]:
        """Its step, and which of those it is that are not left out. At the end of the run StopIteration."""
        index = self._index_at(number)
        step = self._step_at(index)
        if index < 0:
            raise CallbackError(
                f"{_TASK}: ask() said step {number}; the run began at its step {self._index}, where {self._committed} "
                "were committed"
            )
        if not 0 <= number - self._committed < self._again and self._placed.run.at(step) is None:
            raise StopIteration
        return step, index

    def _go_to(self, number: int, world: World, was_moved: bool) -> None:
        """To where so many steps were committed, in another world."""
        placed = self._placed
        step, index = self._require_more(number)
        comes_again = self._next < self._committed + self._again
        if was_moved and not comes_again and not placed.run.is_over and placed.run.slice().is_again:
            raise InvalidArgumentError(
                "go on with members: the run was moved to where samples come again in batches that are no steps; load "
                "such a state by load_state_dict() of the Members"
            )
        self._drop()
        if world != placed.world or (self._sampler is not None and not self._is_drawn):  # its ranks compare nothing
            placed.rescale(world)
        self._moves += self._is_drawn
        self._is_drawn = False
        if 0 <= number - self._committed < self._again:
            self._of.load_state_dict(self._state)
            for _ in range(number - self._committed):
                placed.next() if self._sampler is None else placed.advance()
        elif self._sampler is not None:
            placed._seek_step(step)
        elif was_moved or comes_again or self._index_of(placed.position.step) != index:
            placed.seek_step(step)
        self._next, self._left_at = number, self._place()

    def _drop(self) -> None:
        """What is drawn ahead."""
        if self._batches is not None and self._sampler is not self._of:
            self._batches.close()
        self._batches = None

    def _draw(self) -> Any:
        order, sampler = self._of, self._sampler
        if sampler is None:
            self._info = order.next()
            if self._info is None:
                raise StopIteration
            return self._info
        if self._batches is None:
            self._batches = sampler._counted() if sampler is order else iter(order)
        batch = next(self._batches)
        is_alone = sampler is order
        self._info = sampler._deliver(self._place().popleft(), BatchInfo) if is_alone else order._in_use.last
        return batch

    # ---- what there is to know ----

    @property
    def moves(self) -> int:
        """How often what was read ahead was dropped, because the answer was another than expected."""
        return self._moves

    @property
    def world(self) -> World | None:
        """This member among those that take part in this step; None where it sits out."""
        return self._placed.world if self._size else None

    @property
    def info(self) -> Any:
        """What is in the batch given last: the `Batch` of a loader, else a `BatchInfo`; None where it sits out."""
        return self._info

    def weight(self) -> float:
        """What to multiply the loss of the batch given last by, a mean over real samples, where gradients are averaged.

        Their mean over all members is then the gradient of the mean over the global batch, whatever slices they have:
        real samples of this slice x members / real samples of all. 0 for a member that has none, or sits out.
        A loss that is a sum over tokens is multiplied by members / `info.global_sums[column]` instead. Raises
        InvalidArgumentError of a loader that skips bad samples, in a world of several: how many others have is not
        known then.
        """
        of: Any = self._info
        return 0.0 if of is None or not of.real else of.real * self._size / of.global_real

    @property
    def fingerprint(self) -> str:
        """Of data, order, plan and split, which all members must have alike: for `ask`, or to be compared by yourself.

        It takes up to 32 samples of a loader's source, once.
        """
        run = self._placed.run
        now, first = set(run._described().splitlines()), run
        with contextlib.suppress(UnsupportedError):  # of one that was changed, and sent elsewhere
            first = run.at(0) or run
        lines = first._described().splitlines()
        lines += [line for line in self._placed._described().splitlines() if line not in now or line[:4] == "rank"]
        state = json.loads(self._of.state_dict()["rota"])
        by_hand = str(state.get("way", {}).get("changes", ""))
        parts: dict[str, set[str]] = {name: set() for name in ("data", "order", "plan", "split")}
        parts["data"].add(str(state.get("content")))
        parts["plan"].add(by_hand)
        for line in lines:
            if not line.startswith(("its place ", "sample ")) and "that come again" not in line:
                parts[_PARTS.get(line.partition(" ")[0], "order")].add(line)
        return " ".join(f"{part}:{_digest(sorted(of))}" for part, of in parts.items())

    def state_dict(self) -> dict[str, Any]:
        """For runs that count otherwise: a loader's state, and how many steps were committed there. From this thread.

        All members have the same, so a manager may give that of any to one that joins, or keep it in a checkpoint.
        """
        if self._again and self._next <= self._committed + self._again:
            return {**self._state, "committed": self._committed}
        behind = self._index_of(self._placed.position.step) - self._index
        return {**self._of.state_dict(), "committed": self._committed + self._again + behind}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes by what `state_dict` returned, also of a checkpoint before: then `ask` may say less than it did."""
        if not isinstance(state, Mapping) or "committed" not in state:
            raise InvalidArgumentError(
                "load a state of Members: it has no committed; load that of a loader there, and make "
                "Members(..., committed=) where its number is another than theirs"
            )
        self._drop()
        self._of.load_state_dict({name: value for name, value in state.items() if name != "committed"})
        self._begin(operator.index(state["committed"]))
