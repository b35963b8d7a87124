"""What reads the samples of a batch for rota.torch.DataLoader, in its workers."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import data as _data

from rota._datasets import KeptRandomness
from rota._errors import CorruptError, text_of
from rota._indices import Index
from rota._values import check_torch

check_torch(torch)


class Samples(NamedTuple):
    """Of a batch, its indices, and what could not be read of it: its slots, and why."""

    samples: list
    indices: Sequence[Index]
    bad: dict[int, str]


class Wrapped(_data.Dataset):
    """A dataset read in another way: the same in all else, also where a worker_init_fn changes it."""

    def __init__(self, dataset: Any) -> None:
        self._rota_dataset = dataset

    def __getitem__(self, index: int) -> Any:
        return self._rota_dataset[index]

    def __len__(self) -> int:
        return len(self._rota_dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_rota_")):  # or it is being unpickled, and has nothing yet
            raise AttributeError(name)
        return getattr(self._rota_dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith(("__", "_rota_")):
            super().__setattr__(name, value)
        else:
            setattr(self._rota_dataset, name, value)


class Whole(Wrapped):
    """Reads many samples at once, where it can, and not none of them."""

    def __getitems__(self, indices: Sequence[Index]) -> Any:
        many = getattr(self._rota_dataset, "__getitems__", None)
        samples = many(indices) if many and indices else [self._rota_dataset[index] for index in indices]
        return Samples(samples, indices, {})


class Skipping(Wrapped):
    """Gives another sample in the place of a bad one: the first good one of the batch, or else of those behind it."""

    def __init__(self, dataset: Any, samples: int, errors: tuple[type[Exception], ...]) -> None:
        super().__init__(dataset)
        self._rota_samples = samples
        self._rota_errors = errors

    def __getitems__(self, indices: Sequence[Index]) -> Samples:
        """What torch asks for. A dataset that reads many at once has its way, unless that fails."""
        if indices and hasattr(self._rota_dataset, "__getitems__"):
            with contextlib.suppress(*self._rota_errors):
                return Samples(self._rota_dataset.__getitems__(indices), indices, {})
        samples: list[Any] = []
        bad: dict[int, str] = {}
        for slot, index in enumerate(indices):
            try:
                samples.append(self[index])
            except self._rota_errors as error:
                samples.append(None)
                bad[slot] = text_of(error).decode()
        if bad:
            good = [slot for slot in range(len(samples)) if slot not in bad]
            other = samples[good[0]] if good else self._next_good(indices[0], bad[0])
            for slot in bad:
                samples[slot] = other
        return Samples(samples, indices, bad)

    def _next_good(self, index: Index, why: str) -> Any:
        tries = min(self._rota_samples, 1000)
        for k in range(1, tries):
            with contextlib.suppress(*self._rota_errors):
                return self[Index.of((index + k) % self._rota_samples, index.epoch, index.seed)]
        raise CorruptError(f"read a batch: no sample can be read of {tries}, from sample {int(index)} on: {why}")


class Collate:
    """Calls a user's collate, which may take the indices of its samples, too."""

    def __init__(self, collate: Callable[..., Any] | None, skips: bool) -> None:
        self._collate: Callable[..., Any] = collate or _data.default_collate
        self._skips = skips
        self.takes_indices = False
        with contextlib.suppress(TypeError, ValueError):  # of what tells no signature
            self.takes_indices = "indices" in inspect.signature(self._collate).parameters

    def __call__(self, read: Any) -> Any:
        """Of a rank with no sample in a short last batch, None."""
        samples, indices, bad = read if isinstance(read, Samples) else (read, [], {})
        made = None
        if not isinstance(samples, list) or samples:
            made = self._collate(samples, indices=indices) if self.takes_indices else self._collate(samples)
        return (made, bad) if self._skips else made


class Seeded(Wrapped):
    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, Index):
            raise TypeError(
                "a seeded dataset is read by the indices of a rota.ElasticBatchSampler, which have keys; "
                "of several datasets: seeded(ConcatDataset(...)), not one by one"
            )
        kept = KeptRandomness()
        try:
            kept.seed(index.key)
            return self._rota_dataset[index]
        finally:
            kept.restore()

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """What torch asks for where there is one: the inner dataset's would read without seeds."""
        return [self[index] for index in indices]


def seeded(dataset: Any) -> Any:
    """The same dataset, whose random augmentation repeats at any number of ranks and workers, and after a resume.

    Around `dataset[i]`, `random`, `numpy.random` and `torch` are seeded by the sample's key: of seed, epoch and id.
    """
    return Seeded(dataset)
