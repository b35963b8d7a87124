"""A run as a value: an order, and a place in it, without data, threads or ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError
from rota._indices import BatchInfo
from rota._options import in_rotas_words
from rota._plan import another_plan, by_order, plan_text, read_plan
from rota._values import Mixture


def _bytes(what: str, lengths: Any) -> bytes:
    """Of whole numbers."""
    import numpy as np

    given = np.asarray([] if lengths is None else lengths)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(
            f"make a run: {what} must be whole numbers, one behind the other, and not {given.dtype} {[*given.shape]}"
        )
    return given.astype(np.int64).tobytes()


def _data(samples: Any, shards: Any, blocks: Any, are_mixed: bool) -> list[tuple]:
    """Of one dataset, or of each of those that are mixed: samples, lengths of shards and of blocks."""
    if not are_mixed:
        samples, shards, blocks = [samples], [shards], [blocks]
    none: Sequence = [None] * len(samples)
    lists = samples, none if shards is None else shards, none if blocks is None else blocks
    if len({len(one) for one in lists}) > 1:
        raise InvalidArgumentError(
            f"make a run: {len(samples)} datasets, and lengths of {len(lists[1])} and {len(lists[2])}"
        )
    return [(size, _bytes("shard_lengths", of), _bytes("block_lengths", by)) for size, of, by in zip(*lists)]


class Run(_rota.Run):
    """An order, and a place in it: what any rank of any world reads, when, and what comes next. It reads nothing.

    It is a value: `copy()` is cheap whatever there is to order, `==` compares order, batches and place, and it can be
    pickled. A `Loader` and an `ElasticBatchSampler` have one (`run`), and its `state()` is theirs.

    - `data` is a number of samples, or a source; with `weights`, a list of those, or a dict by name, for a mixture.
    - `shard_lengths`: samples of each shard, where they are files, say; else `shards` of equal length. `block_lengths`:
      of the blocks of `shuffle="block"` with `block=(0, n)`. A source is asked for them: `shards="files"` or "units".
    - All other options are those of `Loader`.

    >>> import rota
    >>> run = rota.Run(10, 4, shuffle="none")
    >>> run.slice(world=(1, 2)).ids.tolist()  # what rank 1 of 2 reads next
    [2, 3]
    >>> [run[step].ids.tolist() for step in range(len(run))]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    >>> run.when(id=9)
    BatchSlot(step=2, rank=0, slot=1, is_skipped=False)
    """

    @in_rotas_words
    def __init__(
        self,
        data: Any,
        global_batch_size: int = 32,
        *,
        shards: int | str = 0,
        interleave: int = 0,
        shuffle: str = "global",
        seed: int = 0,
        block: tuple[int, int] = (256, 16),
        tail: str = "partial",
        epochs: int | None = 1,
        weights: Sequence[float] | None = None,
        end: str = "first_exhausted",
        steps: int = 0,
        plan: Mapping[str, Any] | str | os.PathLike | None = None,
        shard_lengths: Any = None,
        block_lengths: Any = None,
        fingerprint: str | None = None,
    ) -> None:
        plan = read_plan(plan, data)
        data, weights, names = by_order("make a run", data, weights)
        options = _rota.LoaderOptions(
            global_batch_size=global_batch_size, shards=shards, interleave=interleave, shuffle=shuffle, seed=seed,
            block=block, tail=tail, epochs=epochs, plan=plan_text(plan, names),
        )  # fmt: skip
        if weights is None and (steps or end != "first_exhausted"):
            raise InvalidArgumentError(
                "make a run: end= and steps= are of a mixture; give weights=, too, or a rota.Mixture that has them"
            )
        if weights is not None and (isinstance(data, Mixture) or not isinstance(data, (list, tuple))):
            raise TypeError(f"make a run: weights= are of a list of datasets, and not of a {type(data).__name__}")
        are_sources = isinstance(data, (Mixture, _rota.Source)) or (
            weights is not None
            and isinstance(data, (list, tuple))
            and bool(data)
            and all(isinstance(one, _rota.Source) for one in data)
        )
        if are_sources:
            if not (shard_lengths is block_lengths is fingerprint is None):
                raise InvalidArgumentError(
                    "make a run of a source: leave out shard_lengths=, block_lengths= and fingerprint=, which it is "
                    "asked for"
                )
            if weights is not None:
                data = Mixture(dict(zip(names, data)) if names else data, weights, end, steps)
            super().__init__(_rota.make_run_over(data, options))
            return
        if isinstance(shards, str):
            raise InvalidArgumentError(
                f"make a run: shards={shards!r} is of a source, which is asked for them; give shard_lengths="
            )
        mixture = None if weights is None else Mixture(names, weights, end, steps)
        given = _data(data, shard_lengths, block_lengths, weights is not None)
        super().__init__(_rota.make_run(given, options, mixture, fingerprint))

    @classmethod
    def from_state(cls, state: Any, lengths: Run | None = None) -> Run:
        """Where a loader, a sampler or a run was: of what `state_dict()`, `state()` or `recipe()` returned.

        Where shards or blocks are of lengths of their own, and this is no recipe, `lengths` is a run that has them.
        """
        text = state.get("rota") if isinstance(state, Mapping) else state
        if not isinstance(text, str):
            raise InvalidArgumentError("read a run: give what state_dict(), state() or recipe() returned")
        if not (lengths is None or isinstance(lengths, _rota.Run)):
            raise TypeError(f"read a run: lengths is {lengths!r}; it must be a Run")
        return cls._of(_rota.run_of(text, None if lengths is None else lengths._data()))

    @classmethod
    def _of(cls, run: _rota.Run) -> Run:
        made = cls.__new__(cls)
        _rota.Run.__init__(made, run)
        return made

    def slice(self, world: Any = (0, 1), split: str = "by_sample", balance: Any = None) -> BatchInfo | None:
        """What the rank of `world` has of the next batch; None at the end. With a `rota.Balance`, under "balanced"."""
        batch = self._slice(world, split, balance)
        return None if batch is None else BatchInfo(batch)

    def advance(self, batch: BatchInfo | None = None) -> bool:
        """Goes behind the next batch; False at the end. With what `slice` returned: that must be it."""
        if not (batch is None or isinstance(batch, BatchInfo)):
            raise TypeError(f"go behind a batch: it is {batch!r}; it must be what slice() returned")
        return self._advance(None if batch is None else batch._batch)

    def copy(self) -> Run:
        """The same run, to be moved by itself."""
        return self._of(self)

    __copy__ = copy

    def replan(self, plan: Mapping[str, Any] | str | os.PathLike) -> None:
        """Goes on by another plan, of which all is the same that is past; else MismatchError."""
        self._replan(another_plan(plan, self._names))

    def at(self, step: int) -> Run | None:
        """The run at another step, in the future or the past; None past the end.

        UnsupportedError for a past that is not known: before a place that it was sent to, or the last 64 changes.
        """
        made = self.copy()
        return made if made._go_to_step(step, False) else None

    def __getitem__(self, step: int) -> BatchInfo:
        """The whole batch of `step`, in any world, also of one that the plan leaves out. IndexError past the end."""
        run = self.copy()
        if not run._go_to_step(len(self) + step if step < 0 else step, True):
            raise IndexError(f"step {step} of a run that ends before it")
        return run.slice()  # type: ignore

    def __deepcopy__(self, memo: Any) -> Run:
        return self.copy()

    def __reduce__(self) -> tuple:
        return type(self).from_state, (self.recipe(),)

    def __repr__(self) -> str:
        if not hasattr(self, "position"):
            return "<rota.Run, not made>"
        at = self.position
        return (
            f"<rota.Run of {self.samples} samples, batches of {self.global_batch_size}, at epoch {at.epoch}, sample "
            f"{at.consumed}, step {at.step}>"
        )
