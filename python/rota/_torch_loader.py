"""torch's DataLoader in rota's order: what it delivers, counts and skips."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch.utils import data as _data

from rota import _indices, _rota
from rota._communicator import agreed, torchs_ranks
from rota._errors import CallbackError, CorruptError, InvalidArgumentError, MismatchError
from rota._in_use import InUse, require_rows
from rota._sampler import ElasticBatchSampler
from rota._torch_reading import Collate, Skipping, Whole, Wrapped
from rota._values import Position, SkippedSample, World


class BatchInfo(_indices.BatchInfo):
    """What is in one rank's batch, as tensors: `mask`, `ids`, `epochs`, `slots`."""

    _as = staticmethod(lambda array: torch.from_numpy(array.copy()))


class SkippingInfo(BatchInfo):
    """Of a loader that skips bad samples."""

    def __init__(self, batch: Any, bad: Mapping[int, str]) -> None:
        super().__init__(batch)
        self._bad = bad

    @property
    def kinds(self) -> torch.Tensor:
        """0: a sample; 1: one that pads the batch; 2: one that was skipped."""
        kinds = super().kinds
        kinds[[slot for slot in self._bad if kinds[slot] == 0]] = 2
        return kinds

    @property
    def mask(self) -> torch.Tensor:
        """True where a sample counts."""
        return self.kinds == 0

    @property
    def real(self) -> int:  # type: ignore[override]
        """Samples that count, of this rank."""
        return int(self.mask.sum())

    @property
    def global_real(self) -> int:  # type: ignore[override]
        """Samples that count, over all ranks, of which one knows its own alone."""
        if self._batch.size == self._batch.global_size:
            return self.real
        raise InvalidArgumentError(
            "count the samples of a global batch: what other ranks skip is not known here; sum real over ranks"
        )


T = TypeVar("T", covariant=True)


class _NoOrder(_data.DistributedSampler):
    """What trainers ask for, whether a loader shares samples among ranks by itself; it orders nothing."""

    def __init__(self, world: World) -> None:
        super().__init__((), num_replicas=world.size, rank=world.rank, shuffle=False)

    def set_epoch(self, epoch: int) -> None:
        """Nothing: the count of a trainer begins anew at each start."""


def _is_profiled() -> bool:
    """By torch.profiler, on this thread or on all; an ExecutionTraceObserver alone is not seen."""
    autograd: Any = torch.autograd
    return getattr(autograd.profiler, "_is_profiler_enabled", True) or autograd._profiler_enabled()


class _SingleProcessDataLoaderIter(_data.dataloader._SingleProcessDataLoaderIter):
    """torch's, without workers. What it notes for a profiler takes a tenth of a step: not while none runs."""

    def __next__(self) -> Any:
        if _is_profiled():
            return super().__next__()
        data = self._next_data()
        self._num_yielded += 1
        return data


class DataLoader(_data.DataLoader[T]):
    """torch's DataLoader in rota's order, which counts what it delivers.

    A batch is counted before the loop's body gets it. So a state saved in the body has the batch in hand, and none that
    was drawn ahead. A new `for` goes on behind the last batch delivered, whatever ended the one before.

    Where something between the loader and the loop draws ahead (a thread, a prefetcher), ask `info_of(batch)`, and save
    `state_dict(batch)`: `info` and `state_dict()` are then refused.

    A `collate_fn` gets a list of samples, and keeps their number and order. One that has a parameter `indices` also
    gets those (`Index`: `epoch`, `is_pad`), and may do otherwise.

    All of torch's options work, but for those that make an order of their own. The sampler may be called
    `batch_sampler`, as torch does. With `tail` "partial", "carry" or "drop" a rank may have no sample in an epoch's
    last batch: then the batch is None.

    With `on_bad_sample="skip"` a sample is masked whose `__getitem__` raises `rota.BadSample`, another CorruptError, or
    one of `bad_errors`; in its place is another one. All ranks take the same steps. Behind an epoch, `skipped` lists
    those of all ranks of torch.distributed, which meet there. A rank that has met more than `max_skipped` different
    ones raises CorruptError.

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
        collate_fn: Callable[..., Any] | None = None,
        generator: torch.Generator | None = None,
        on_bad_sample: str = "fail",
        bad_errors: Sequence[type[Exception]] = (),
        max_skipped: int = 1000,
        **options: Any,
    ) -> None:
        if (sampler is None) == (batch_sampler is None):
            raise TypeError("give a rota.ElasticBatchSampler, as sampler or as batch_sampler")
        sampler = sampler if batch_sampler is None else batch_sampler
        if not isinstance(sampler, ElasticBatchSampler):
            is_wrapped = hasattr(sampler, "_batch_sampler")  # by Lightning's predict
            remedy = "; to predict in Lightning pass iter(loader), which it does not make anew" if is_wrapped else ""
            raise TypeError(f"a {type(sampler).__name__} is no rota.ElasticBatchSampler{remedy}")
        inner = dataset._rota_dataset if isinstance(dataset, Wrapped) else dataset
        if isinstance(inner, _data.IterableDataset):
            raise TypeError("an IterableDataset has an order of its own; see rota.Stream")
        for name in ("batch_size", "shuffle", "drop_last", "settle"):
            if name in options:
                raise TypeError(f"{name}= is the sampler's: see rota.ElasticBatchSampler")
        if not options.get("in_order", True):
            raise InvalidArgumentError("in_order=False: batches would come in another order at every run")
        samples = sampler._known.samples
        if hasattr(inner, "__len__") and len(inner) != samples:
            raise MismatchError(f"the dataset has {len(inner)} samples, the sampler orders {samples}")
        if on_bad_sample not in ("fail", "skip") or (bad_errors and on_bad_sample == "fail"):
            raise InvalidArgumentError(
                f'on_bad_sample is {on_bad_sample!r}; it must be "fail", or "skip", which bad_errors= needs'
            )
        self._skips, self._max_skipped, self._skipped = on_bad_sample == "skip", max_skipped, list[SkippedSample]()
        self._skipped_here: list[tuple[int, int, str, str]] = []  # since skipped was told
        self._bad_ids: set[int] = set()  # of this rank
        collate = Collate(collate_fn, self._skips)
        self._checks_rows = not collate.takes_indices and (self._skips or sampler._options["tail"] == "pad")
        if self._skips:
            dataset = Skipping(dataset, samples, (CorruptError, *bad_errors))
        elif hasattr(dataset, "__getitems__") or collate.takes_indices:
            dataset = Whole(dataset)
        self._order = sampler
        sampler._is_in_loader = True
        sampler._learn(inner)
        # torch draws a number at every `for`: not from the generator of the model, whose numbers a resume would change.
        self._has_own_generator = generator is None
        super().__init__(
            dataset,
            batch_sampler=sampler,
            num_workers=num_workers,
            collate_fn=collate,
            generator=generator or torch.Generator(),
            **options,
        )
        self._in_use = InUse()
        self._batches, self._waited = 0, 0.0

    @property
    def sampler(self) -> _NoOrder:  # type: ignore[override]
        """Says to trainers which rank this is, and that they need not share samples among ranks."""
        return _NoOrder(self._order.world)

    @sampler.setter
    def sampler(self, of_torch: Any) -> None:
        pass  # torch sets one of its own, and does not use it

    def __getstate__(self) -> dict[str, Any]:
        made = {"generator": None} if self._has_own_generator else {}
        return {**self.__dict__, "_in_use": None, "_iterator": None, **made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        made = {"generator": torch.Generator()} if state["_has_own_generator"] else {}
        self.__dict__.update(state, _in_use=InUse(), **made)

    def __repr__(self) -> str:
        return f"<rota.torch.DataLoader over {self._order!r}, {self.num_workers} workers>"

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        sampler, in_use = self._order, self._in_use
        self._require_length()
        sampler._known.see(getattr(self.dataset, "_rota_dataset", self.dataset))
        if not sampler._begins_for():
            return
        batches, ahead = self._begun()
        in_use.begin()
        try:
            while True:
                if sampler._left is ahead:  # by another plan
                    self._take_back(ahead)
                    batches, ahead = self._begun()
                    sampler._left = None
                if sampler._ahead is not ahead:
                    raise InvalidArgumentError(
                        "this `for` goes on from batches that were drawn before the loader was moved, "
                        "or another `for` over it began; end this one, and begin a new one"
                    )
                begun = time.perf_counter()
                try:
                    batch = next(batches)
                except StopIteration as error:
                    if ahead:  # it came from the dataset
                        raise CallbackError("read a batch: the dataset raised StopIteration") from error
                    if self._skips and sampler._is_mixture:
                        self._tell_skipped()
                    return
                self._waited += time.perf_counter() - begun
                self._batches += 1
                make_info: Any = BatchInfo
                if self._skips:
                    batch, bad = batch
                    make_info = functools.partial(SkippingInfo, bad=bad)
                    self._note_skipped(make_info(ahead[0]), bad)  # which may fail: then the batch does not count
                if self._checks_rows:
                    require_rows(batch, ahead[0].size)
                in_use.note(batch, sampler._deliver(ahead.popleft(), make_info), sys._getframe(1))
                yield batch
        finally:
            if sampler._ahead is ahead:
                self._take_back(ahead)

    def _begun(self) -> tuple[Any, Any]:
        """torch's iterator from here on, and what it will have drawn."""
        sampler = self._order
        if self._has_own_generator:
            self.generator.manual_seed(_rota.sample_key(sampler.seed, sampler.position.step, sampler.world.rank))
        sampler._is_counted = True
        try:
            return super().__iter__(), sampler._ahead  # it asks the sampler for an iterator
        finally:
            sampler._is_counted = False

    def _take_back(self, ahead: Any) -> None:
        """What a `for` did not deliver."""
        for drawn in ahead if self._order._is_by_hand else ():
            with contextlib.suppress(InvalidArgumentError):  # of what was given up, or settled, before
                self._order.again(BatchInfo(drawn))

    def _get_iterator(self) -> Any:
        return _SingleProcessDataLoaderIter(self) if self.num_workers == 0 else super()._get_iterator()

    def _require_length(self) -> None:
        """A dataset that has grown would never be read to its end."""
        dataset: Any = getattr(self.dataset, "_rota_dataset", self.dataset)
        then = self._order._known.samples
        now = len(dataset) if hasattr(dataset, "__len__") else then
        if now != then:
            raise MismatchError(
                f"the dataset has {now} samples now, the sampler orders {then}; make sampler and loader anew"
            )

    def _note_skipped(self, info: BatchInfo, bad: Mapping[int, str]) -> None:
        real = [slot for slot in bad if info._batch.kinds[slot] == 0]
        here = [(int(info.epochs[slot]), int(info.ids[slot]), "", bad[slot]) for slot in real]
        ids = self._bad_ids | {id for _, id, *_ in here}
        is_last = info.end.epoch != info.start.epoch
        with agreed(self._ranks() if is_last else None, "list bad samples"):  # else others would wait for this one
            if here and len(ids) > self._max_skipped:
                _, id, _, why = here[-1]
                raise CorruptError(
                    f"read sample {id}: {why}; more than max_skipped={self._max_skipped} samples are bad"
                )
        self._bad_ids = ids
        self._skipped_here += here
        if is_last:
            self._tell_skipped()

    def _ranks(self) -> Any:
        """Those that share the samples; None of one that has them alone."""
        return torchs_ranks() if self._order.world.size > 1 else None

    def _tell_skipped(self) -> None:
        """**Collective** over all ranks of torch.distributed."""
        ranks = self._ranks()
        texts = (
            [json.dumps(self._skipped_here)]
            if ranks is None
            else ranks._gather("list bad samples", json.dumps(self._skipped_here))
        )
        told = {tuple(one) for text in texts for one in json.loads(text)}  # replicas read the same
        told -= {*self._skipped}
        self._skipped_here = []
        self._skipped += sorted(itertools.starmap(SkippedSample, told))
        if told and self._order.world.rank == 0:
            first = self._skipped[-len(told)]
            logging.getLogger("rota").warning(
                "epoch %d: %d bad samples were skipped, such as %d: %s", first.epoch, len(told), first.id, first.error
            )

    @property
    def skipped(self) -> list[SkippedSample]:
        """The bad samples of all ranks, up to the last epoch's end; without torch.distributed, of this one."""
        return list(self._skipped)

    @property
    def stats(self) -> dict[str, float]:
        """`batches` of all `for`s, and `wait_seconds` for them: take it before and after a step."""
        return {"batches": self._batches, "wait_seconds": self._waited}

    @property
    def info(self) -> BatchInfo:
        """Of the batch in hand. Refused where batches are drawn ahead of the loop: ask `info_of(batch)`."""
        if self._in_use.last is None:
            raise InvalidArgumentError("ask for the info of a batch: none was delivered yet")
        if self._in_use.is_elsewhere() or self._in_use.is_ahead():
            raise InvalidArgumentError(
                "ask for the info of the batch in hand: a thread, or something between the loader and the loop, draws "
                "batches ahead, so that it may be of another one; ask info_of(batch)"
            )
        return self._in_use.last

    def info_of(self, batch: Any) -> BatchInfo:
        """Of a batch that was delivered, and is still there: the same tensors, not copies of them. From any thread."""
        return self._in_use.find(batch)

    @property
    def position(self) -> Position:
        """Behind the last batch delivered."""
        return self._order.position

    def state_dict(self, behind: Any = None) -> dict[str, str]:
        """Where the run is, the batch in hand included; the same on all ranks. From any thread.

        Where a thread draws ahead of the loop: `state_dict(batch)`, of the last one that was trained.
        """
        if self._order._is_by_hand:
            return self._order.state_dict()
        if behind is not None:
            return self._order.state_dict(self.info_of(behind))
        if not self._in_use.is_elsewhere() and self._in_use.is_ahead():
            self._order._by_hand.warn(
                "several batches of this `for` are in use: where something between the loader and the loop draws "
                "ahead, this state has some that were not trained; save state_dict(batch), with the last one that was"
            )
        if self._in_use.is_fed():
            raise InvalidArgumentError(
                "save the state of a loader: a thread draws batches ahead of the loop, so that it has some that were "
                "not trained; save state_dict(batch), with the last batch that was trained"
            )
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


