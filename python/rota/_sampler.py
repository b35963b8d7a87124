"""rota's order for any dataset with a length, without its threads and without MPI."""

from __future__ import annotations

import copy
import operator
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from rota import _rota
from rota._balance import Balance, with_lengths
from rota._batch_iterator import BatchIterator
from rota._by_hand import ByHand
from rota._communicator import as_world, check_world, compared, find_world, torchs_ranks
from rota._datasets import Known
from rota._errors import InvalidArgumentError, MismatchError, UnsupportedError
from rota._indices import BatchInfo
from rota._options import in_rotas_words
from rota._plan import PlanFile, another_plan, plan_text, read_plan, weights_by_order
from rota._run import Run
from rota._settle import Settling
from rota._values import BatchSlot, Position, World


class _Base(Generic[TypeVar("T")]):  # type: ignore[misc]
    """Once torch is there, its Sampler stands in this place, for those who ask for one: it is laid out alike."""


def _of_run(name: str, text: str) -> Any:
    return property(lambda self: getattr(self._run, name), doc=text)


class _Computed:
    """What a sampler's run says, without any data."""

    _run: Any
    _options: dict[str, Any]
    _epochs: int | None

    world: World = _of_run("_world", "This process among those that share the data.")
    global_batch_size: int = _of_run("global_batch_size", "Samples of all ranks in a step.")
    position: Position = _of_run("position", "Behind the last batch that was delivered.")
    seed: int = _of_run("seed", "Of the order.")
    samples: int = _of_run("samples", "Of all datasets.")
    names: list[str] = _of_run("_names", "Of its datasets, by number: also of those that were left out.")

    def __len__(self) -> int:
        """Batches of an epoch, with "carry" of this one; of all of them, where the number of `epochs` was given.

        Each of their parts counts. TypeError where `micro_cost` says how many these are.
        """
        balance = self._options["balance"]
        if balance and balance.micro_cost:
            raise TypeError("count the parts of batches: micro_cost= says at each step how many; give micro_batches=")
        parts = balance.micro_batches if balance else 1
        if self._epochs is not None:
            return len(self._run) * parts
        if self._options["tail"] != "carry":
            return self._run.steps_per_epoch * parts
        size = self.global_batch_size
        return -(-(self.samples - self.position.consumed % size) // size) * parts  # the rest is of the epoch before

    def __repr__(self) -> str:
        if not hasattr(self, "_run"):
            return "<rota.ElasticBatchSampler, not made>"
        at, world = self.position, self.world
        return (
            f"<rota.ElasticBatchSampler of {self.samples} samples, batches of {self.global_batch_size}, rank "
            f"{world.rank} of {world.size}, at epoch {at.epoch}, sample {at.consumed}, step {at.step}>"
        )

    @property
    def run(self) -> Run:
        """Where it is, as a value, behind the last batch that was delivered."""
        return Run._of(self._run)

    def when(self, id: int, epoch: int) -> BatchSlot | None:
        """The step, rank and slot in which sample `id` is read in `epoch`; None where it never is."""
        return self._run.when(id, epoch, self.world.size, self._options["rank_split"], self._options["balance"])

    def batch(self, step: int) -> BatchInfo | None:
        """This rank's batch of `step`, computed; None past the end. Not of steps before a change of epoch."""
        run: Any = _rota.Run(self._run)
        return BatchInfo(run._slice_here()) if run._go_to_step(step, True) else None


class ElasticBatchSampler(_Computed, Settling, _Base):
    """The batches of one rank, as lists of `Index`, for torch's DataLoader or any other.

    The order is computed: no list of samples is kept, and none is replayed. A run stops at any step and goes on in any
    world, with the same global batches. `rota.torch.DataLoader` counts what it delivers; so use that one in a training
    loop, or ask the iterator for its `state_dict`.

    - `dataset` is one, or its length; with `weights`, a list of those, or a dict by name, whose samples are numbered as
      ConcatDataset does. By name they come and go between a state and the sampler that loads it (docs/change.md).
    - `plan` says what the run changes on its way: batch sizes, weights, steps that are left out (docs/change.md). It is
      a dict, or the path of a file of JSON, which one rank reads. With `replan="at_save"` each save of a
      `CheckpointDirectory` reads it anew, and the run goes on by what it says then.
    - `epochs=None`: each `for` goes through the rest of one epoch, as torch's do. `epochs=3`: one `for` goes through
      all three.
    - `tail` "pad" fills up an epoch's last batch with samples that `BatchInfo.mask` masks; "drop" leaves it out;
      "partial" makes it short; "carry" goes on into the next epoch.
    - `shards=0` makes 256 logical shards, or one under `shuffle="none"`, which is then the dataset's order.
    - `fingerprint` names the dataset: a state of another one is refused, and ranks that differ are. Without it, its
      length does, and what names its samples without reading them: paths, the indices of a Subset, values of a list or
      an array. fingerprint="" compares the length alone.
    - `settle="by_hand"`: what is drawn is handed out, by any loader, and a sample is trained when `settle` says so.
      What is open goes with the sampler's state, and comes again. At most `open_limit` samples are out.
    - `rank_split="balanced"` deals each batch so that ranks have as much to do, as `balance` says. With several
      micro-batches there is a list for each, perhaps an empty one: the place moves with the last one of a batch.
    - Ranks of torch.distributed compare place, options and dataset when it is made and at each `for`: **collective**,
      unless `world` is given.

    >>> import rota
    >>> sampler = rota.ElasticBatchSampler(10, 4, shuffle="none", world=(0, 1))
    >>> list(sampler)
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    """

    _changes = 0
    _replans = 0
    _left: deque[Any] | None = None  # what the `for` that is delivered had drawn, by another plan
    _until: int | None = None  # the last epoch of that `for`

    @in_rotas_words
    def __init__(
        self,
        dataset: Any,
        global_batch_size: int,
        *,
        world: Any = None,
        shards: int = 0,
        interleave: int = 0,
        shuffle: str = "global",
        block: tuple[int, int] = (256, 16),
        seed: int = 0,
        tail: str = "pad",
        epochs: int | None = None,
        rank_split: str = "by_sample",
        balance: Balance | None = None,
        weights: Sequence[float] | Mapping[str, float] | None = None,
        end: str = "first_exhausted",
        steps: int = 0,
        plan: Mapping[str, Any] | str | os.PathLike | None = None,
        replan: str = "by_hand",
        fingerprint: str | None = None,
        evaluation: bool = False,
        settle: str = "at_delivery",
        open_limit: int = 16_384,
    ) -> None:
        torch = sys.modules.get("torch.utils.data")
        if torch is not None and not isinstance(self, torch.Sampler):
            ElasticBatchSampler.__bases__ = (_Computed, Settling, torch.Sampler)  # type: ignore[misc]
        self._is_mixture, self._evaluation = weights is not None, bool(evaluation)
        ranks = torchs_ranks() if world is None else None
        balance = with_lengths(balance, dataset, ranks)
        text = read_plan(plan, dataset if weights is not None else None, ranks)
        with compared(ranks, "make samplers") as describe:
            is_plain = weights is None and epochs is None and plan is None and tail in ("pad", "partial")
            if evaluation and not is_plain:
                raise InvalidArgumentError(
                    "make a sampler: evaluation=True gives each sample once in each `for`: leave out weights=, plan= "
                    'and epochs=, and let tail be "pad" or "partial"'
                )
            self._plan_file = PlanFile.of(plan, replan)
            self._known = Known(dataset, weights, end, steps, fingerprint)
            if evaluation or (weights is not None and epochs is None):
                epochs = 1  # of a mixture: until one is exhausted
            self._options = _rota.LoaderOptions.plain(
                global_batch_size=global_batch_size, shards=shards, interleave=interleave, shuffle=shuffle, block=block,
                seed=seed, tail=tail, epochs=epochs, rank_split=rank_split, balance=balance, settle=settle,
                open_limit=open_limit, plan=plan_text(text, self._known.called),
            )  # fmt: skip
            self._options["balance"] = balance
            self._has_parts = balance is not None and (balance.micro_batches > 1 or balance.micro_cost > 0)
            self._parts: deque[Any] = deque()  # of a batch, to be counted by advance()
            self._part = 0  # the next one to be counted
            self._epochs = self._options["epochs"]
            self._run = self._known.run(self._options, find_world() if world is None else as_world(world))
            self._is_by_hand = settle == "by_hand"
            if self._is_by_hand:
                if evaluation:
                    raise InvalidArgumentError("make a sampler: an evaluation keeps no place: leave settle= out")
                self._run._settle_by_hand(open_limit)
            self._rules = _rota.ForRules(self._evaluation, self._epochs is None)
            self._by_hand = ByHand()
            self._is_placed = world is not None
            self._is_compared = False  # with other ranks, since it was moved
            self._moves = object()  # another one since it was moved
            self._ahead: deque[Any] | None = None  # batches of the `for` that is delivered; none since it was moved
            self._is_counted = False  # by what delivers its batches
            self._is_in_loader = False  # a rota.torch.DataLoader, which does
            describe(self._described() + f"replan {replan}\n")

    def _described(self) -> str:
        """What must be the same on all ranks, by lines."""
        return self._run._described() + self._known.lines()

    def _compare(self) -> None:
        """**Collective** over the ranks of torch.distributed, where the world is theirs. Throws MismatchError on all.

        Threads beside the main one need not be as far on all ranks: there nothing is compared.
        """
        if self._is_placed or threading.current_thread() is not threading.main_thread():
            return
        check_world(self.world)
        ranks = torchs_ranks()
        if ranks is not None:
            ranks._require_same("begin a `for` over samplers", self._described())
        self._is_compared = True

    def _learn(self, dataset: Any) -> None:
        if self._known.learn(dataset):
            kept = self._ahead, self._moves
            self.__setstate__(self.__getstate__())
            self._ahead, self._moves = kept

    # ---- what a loader asks of a batch sampler ----

    def __iter__(self) -> BatchIterator:
        """The batches from `position` on. Changes nothing here: what is drawn ahead is not delivered."""
        if not self._is_counted:
            self._compare()
        if self._is_in_loader and self._rules.is_restored and not (self._is_counted or self._is_by_hand):
            raise InvalidArgumentError(
                "draw batches of a sampler whose loader has loaded a state: another loader draws them, which would "
                "pass over batches twice (skip_first_batches does), or count none; use the rota.torch.DataLoader "
                "itself, which goes on where it was"
            )
        if not (self._evaluation or self._is_by_hand):
            self._by_hand.begin(self.position)
        return BatchIterator(self)

    def _begins_for(self) -> bool:
        """Whether a `for` that counts what it delivers has any batch; where it begins is settled before it."""
        self._ahead = None
        self._start_batch()
        if self._evaluation:
            self.restart()
        self._compare()
        self._by_hand.begin_counted(None if self._evaluation else self.position)
        if self._run._has_more:
            return True
        gives, said = self._rules.begin(self._run)
        if said:
            self._by_hand.warn(said)
        return gives

    def _counted(self) -> Any:
        """What draws the batches of a `for` that counts them, and notes them in `_ahead`; none at the run's end."""
        if not self._begins_for():
            return iter(())
        self._is_counted = True
        try:
            return iter(self)
        finally:
            self._is_counted = False

    # ---- where it is ----

    @property
    def batch_size(self) -> int:
        """None has it: what asks, as Accelerate's `prepare` does, would share samples among ranks again."""
        if self._is_in_loader or self.world.size == 1:
            raise AttributeError("batch_size")
        raise UnsupportedError(
            "share samples among ranks: a rota.ElasticBatchSampler has done so, and another loader would do it again; "
            "give it to a rota.torch.DataLoader, or to rota.accelerate.DataLoader"
        )

    @property
    def changes(self) -> int:
        """How often it was moved, or changed what it makes, by other than `advance`."""
        return self._changes

    def advance(self, info: type[BatchInfo] | None = None) -> Any:
        """Counts the next batch, or part of one, as delivered, and tells of it (as `info`); None behind the last."""
        if not self._is_compared:
            self._compare()
        if not self._parts:
            if self._is_by_hand:
                drawn = self._run._hand_out(None)
                batch = None if drawn is None else drawn[1]
            else:
                batch = self._run._slice_here()
            if batch is None:
                return None
            self._ahead = None
            self._start_batch()
            self._parts += self._parts_of(batch)
        return self._deliver(self._parts.popleft(), info or BatchInfo)

    def _parts_of(self, batch: Any) -> list[Any]:
        return _rota.parts_of(batch) if self._has_parts else [batch]

    def _start_batch(self) -> None:
        self._parts.clear()
        self._part = 0

    def _deliver(self, batch: Any, info: Any) -> Any:
        """Counts what was drawn from `position` on."""
        made = info(batch)
        if self._has_parts:
            made.part, made.parts = self._part, len(batch.micro_ends)
            self._part = (self._part + 1) % made.parts
        if self._part == 0:
            if not self._is_by_hand:  # else it was handed out when it was drawn
                self._run._advance(batch)
            self._rules.passed(self._run, batch)
        made._moves = self._moves
        return made

    def state_dict(self, behind: BatchInfo | None = None) -> dict[str, str]:
        """Where the run is and what defines its order: the state of a C++ loader over as many samples. From any thread.

        That behind a batch that was delivered, where others were since. An evaluation has none: {}, which
        `load_state_dict` takes.
        """
        if self._evaluation:
            return {}
        if self._is_by_hand:
            return {"rota": self._run._state(), **self._known.told}
        self._by_hand.lacks_drawn = self._by_hand.drawn_at == self.position
        if behind is not None and behind._moves is not self._moves:
            raise InvalidArgumentError(
                "take the state behind a batch: it was not delivered here, or the loader was moved since"
            )
        run = self._run if behind is None else self._run._behind(behind._batch, behind.part == behind.parts - 1)
        return {"rota": run._state(), **self._known.told}

    def load_state_dict(self, state: Mapping[str, str]) -> None:
        """Goes to where `state` says, in any world. MismatchError, with both values, for another dataset or order."""
        if self._evaluation:
            if state:
                raise MismatchError("restore an evaluation: it keeps no place, and this is the state of a training")
            return
        with self._known.explained(state):
            self._run._load(state)
        self._restored()

    def _restored(self) -> None:
        self._moved()
        self._rules.restored()

    def _save_to(self, snapshot: Any, name: str) -> None:
        self._run._save_to(snapshot, name)

    def _restore_from(self, checkpoint: Any, name: str) -> None:
        self._run._restore_from(checkpoint, name)
        self._restored()

    @property
    def _ledger(self) -> Any:
        return self._run._ledger

    def _merge(self, comm: Any) -> None:
        if self._ledger:  # which raises without settle="by_hand"
            self._run._merge(comm)

    def _seek_step(self, step: int) -> None:
        self._run.seek_step(step)
        self._restored()

    def restart(self) -> None:
        """Begins anew, with the first sample of the first epoch."""
        self._run.restart()
        self._run._restart_ledger("restart()")
        self._moved()
        self._rules.restarted()

    def _moved(self) -> None:
        self._moves = object()
        self._by_hand.moved()
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._is_compared, self._ahead, self._left = False, None, None
        self._start_batch()

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of `epoch`.

        Only behind a load, for trainers that call it then, too, it keeps the place in the state's epoch, until that is
        over. If the state is at the end of `epoch`, the next `for` gives nothing. An earlier epoch is an error.

        With `tail` "carry" it does not go back behind batches that count: one may have passed an epoch. A mixture has
        no epochs, and an evaluation always begins anew.
        """
        epoch = operator.index(epoch)
        self._by_hand.drawn_over = None
        before = self.position.epoch
        if self._rules.set_epoch(self._run, epoch):
            if self.position.epoch <= before:
                self._run._restart_ledger("set_epoch()")
            come_again = self._by_hand.carried_into == epoch
            self._moved()
            if come_again:
                self._by_hand.warn(
                    f'the batches that were drawn have samples of epoch {epoch}, which come again: with tail="carry" '
                    "count batches by advance(), or in a rota.torch.DataLoader; or make the sampler with epochs=, for "
                    "one `for`"
                )

    def rescale(self, world: Any = None) -> None:
        """Goes on from the same position in another world: (rank, size)."""
        self._run._world = find_world() if world is None else as_world(world)
        self._is_placed = world is not None
        self._changed()

    def set_global_batch_size(self, size: int) -> None:
        """Goes on with other batches. All ranks do it at the same step."""
        self._run.set_global_batch_size(size)
        self._options["global_batch_size"] = self.global_batch_size
        self._changed()

    def replan(self, plan: Mapping[str, Any] | str | os.PathLike) -> None:
        """Goes on by another plan, of which all is the same that is past, else MismatchError. All ranks at one step."""
        ranks = None if self._is_placed else torchs_ranks()
        self._run._replan(text := another_plan(plan, self.names, ranks))
        if self._plan_file:
            self._plan_file.follow(plan)
        self._options["plan"] = text
        self._run._keep_ledger()
        left = self._left if self._ahead is None else self._ahead
        self._changed()
        self._left, self._replans = left, self._replans + 1

    def set_weights(self, weights: Sequence[float] | Mapping[str, float]) -> None:
        """Goes on with other weights of the datasets, in order or by name. All ranks do it at the same step."""
        self._run.set_weights(weights_by_order("set weights", weights, self.names))
        self._run._keep_ledger()
        self._changed()

    def __getstate__(self) -> dict[str, Any]:
        if self._is_by_hand and self.open.out:
            raise InvalidArgumentError(
                f"copy a sampler: {self.open.out} samples are out, which the copy would hand out again; settle or "
                "give up these first"
            )
        at = self.world, self._run._state(), self.global_batch_size
        own = {name: copy.copy(self.__dict__[name]) for name in ("_rules", "_by_hand", "_known")}
        own |= {"_moves": object(), "_ahead": None, "_left": None, "_parts": deque(), "_part": 0}
        return {**self.__dict__, **own, "_run": at}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        world, at, size = state["_run"]
        self._run = self._known.run({**self._options, "plan": None}, world)
        if self._is_by_hand:
            self._run._settle_by_hand(self._options["open_limit"])
        self._run._load({"rota": at})
        if self._options["plan"] is not None:  # by the numbers that datasets have there
            self._run._replan(self._options["plan"])
        self._run.set_global_batch_size(size)
