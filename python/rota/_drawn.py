"""Datasets whose epochs draw samples of another one: rota's sources, and what torch's DataLoader indexes."""

from __future__ import annotations

import operator
from typing import Any

from rota import _rota
from rota._communicator import agreed
from rota._datasets import length_of, names_of
from rota._errors import InvalidArgumentError
from rota._indices import Index
from rota._sources import Source, _made


class DrawnIndex(Index):
    """A sample that was drawn: with id and randomness of the draw, for it may be drawn again."""

    @staticmethod
    def at(sample: int, draw: Index) -> DrawnIndex:
        made = DrawnIndex(sample)
        made.epoch, made.seed, made.is_pad, made.shift = draw.epoch, draw.seed, draw.is_pad, draw.id - sample
        return made

    def __reduce__(self) -> tuple:
        return DrawnIndex.at, (int(self), Index.of(self.id, self.epoch, self.seed, self.is_pad))


class Drawn:
    """A map-style dataset whose epochs draw samples of another one. An `ElasticBatchSampler` says which epoch it is."""

    def __init__(self, dataset: Any, how: tuple, comm: Any = None) -> None:
        self.dataset, self._how = dataset, how
        self._draws = _rota.Draws(*how) if comm is None else _rota.Draws(*how, comm)
        self._fingerprint = f"{self._draws.fingerprint} of {length_of(dataset)}: {names_of(dataset)}"

    def __len__(self) -> int:
        return len(self._draws)

    def __getitem__(self, index: Index) -> Any:
        return self.dataset[self._drawn(index)]

    def __getitems__(self, indices: list[Index]) -> Any:
        drawn = [*map(self._drawn, indices)]
        read = getattr(self.dataset, "__getitems__", None)
        return read(drawn) if read else [self.dataset[index] for index in drawn]

    def _drawn(self, index: Index) -> DrawnIndex:
        if not isinstance(index, Index):
            raise TypeError(
                f"read a draw: {index!r} does not say of which epoch; take indices of a rota.ElasticBatchSampler over "
                "this dataset, or rota.Index.of(draw, epoch, seed)"
            )
        return DrawnIndex.at(self._draws.drawn(index, index.epoch), index)

    def drawn(self, id: int, epoch: int) -> int:
        """The sample that draw `id` of `epoch` is."""
        return self._draws.drawn(id, epoch)

    def draws_of(self, sample: int, epoch: int) -> list[int]:
        """All draws of a sample in `epoch`, ascending: `sampler.when` tells the step of each."""
        return self._draws.draws_of(sample, epoch)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_draws"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._draws = _rota.Draws(*self._how)


def _seed(seed: int) -> int:
    if 0 <= operator.index(seed) < 1 << 64:
        return operator.index(seed)
    raise InvalidArgumentError(f"draw samples: seed is {seed}; it must be 0 to 2^64 - 1")


def repeat(dataset: Any, times: float, seed: int = 0) -> Any:
    """Each sample `times` times in an epoch: 2.5 is each twice, and half of them once more, in the next epoch others.

    Of a `Source`, for a `Loader`, or of a dataset of torch's, for an `ElasticBatchSampler`. `drawn(id, epoch)` of what
    it returns says which sample a draw is, `draws_of(sample, epoch)` which draws a sample has.

    >>> import rota
    >>> twice = rota.repeat(rota.PythonSource([10, 11, 12]), 2)
    >>> len(twice), twice.draws_of(1, epoch=0)
    (6, [1, 4])
    """
    if isinstance(dataset, Source):
        return _made("repeat", dataset, float(times), _seed(seed))
    return Drawn(dataset, (length_of(dataset), float(times), _seed(seed)))


def weighted(dataset: Any, weights: Any, draws: int | None = None, seed: int = 0, *, comm: Any = None) -> Any:
    """An epoch has `draws` samples, in proportion to `weights`: one for each sample, an array, a tensor or a list.

    Sample i comes draws x weights[i] / sum(weights) times, rounded down or up, and over many epochs just as often.
    `draws=None`: as many as there are samples. Weights of classes are `1 / numpy.bincount(labels)[labels]`. As
    `repeat` in all else. It takes 8 bytes a sample; with `comm`, once on each node. **Collective** over that.

    >>> import rota
    >>> source = rota.weighted(rota.PythonSource([10, 11, 12]), [1, 0, 3], draws=4)
    >>> sorted(source.drawn(id, epoch=0) for id in range(4))
    [0, 2, 2, 2]
    """
    import numpy as np

    with agreed(comm, "draw samples by weights") as ranks:
        given = np.ascontiguousarray(weights, np.float64)
        if given.ndim != 1:
            raise TypeError(f"draw samples by weights: weights have the shape {given.shape}; give one for each sample")
        size = length_of(dataset)
        count = size if draws is None else operator.index(draws)
        if not -1 << 63 <= count < 1 << 63:
            raise InvalidArgumentError(f"draw samples by weights: {count} draws of an epoch; give 1 to 2^62")
        how = given, count, _seed(seed)
    if isinstance(dataset, Source):
        return _made("weighted", dataset, *how, comm=ranks)
    return Drawn(dataset, (size, *how), ranks)
