"""How long samples are, and how batches are dealt by that."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rota import _rota
from rota._communicator import agreed
from rota._errors import InvalidArgumentError
from rota._sources import Source, _as_source, join

Lengths = _rota.Lengths
Lengths.__module__ = "rota"
Lengths.__doc__ = """How long each sample of a dataset is: whole numbers, 0 or more, of an array or a list. *Immutable.*

They take 4 bytes each, or 8 where one is 2^31 or longer.

>>> lengths = Lengths([5, 0, 12])
>>> len(lengths), lengths[2], lengths.most
(3, 12, 12)
"""


def read_lengths(path: str | os.PathLike) -> Lengths:
    """Those in an NPY file of one dimension, of int32 or int64: mapped into memory, which ranks of a node share."""
    return _rota.read_lengths(os.fspath(path))


def lengths_of(source: Source, field: str, comm: Any = None, threads: int = 8) -> Lengths:
    """The rows of a ragged field in each sample of `source`, which is asked for them.

    With `comm`, which `rota.Communicator` takes, its ranks share the work. **Collective**.
    """
    with agreed(comm, "ask for lengths") as ranks:
        source, threads = _as_source(f"ask for the lengths of field {field!r}", source), operator.index(threads)
        if not isinstance(field, str):
            raise TypeError(f"ask for lengths: field must be a name, not {field!r}")
    return _rota.lengths_of(source, field, threads, ranks)


def squares_of(packed: Source) -> Lengths:
    """Of each sequence of `rota.pack`, the sum of its documents' tokens squared, as attention inside costs."""
    return _rota.squares_of(packed)


def tokens_of(packed: Source) -> Lengths:
    """Of each sequence of `rota.pack`, its tokens without padding: as a column of a balance, they divide a loss."""
    return _rota.tokens_of(packed)


def _taken(given: Any) -> Lengths | str:
    """Lengths, or the name of a field."""
    if isinstance(given, os.PathLike) or (isinstance(given, str) and given.endswith(".npy")):
        return read_lengths(given)
    return given if isinstance(given, (Lengths, str)) else Lengths(given)


@dataclass(frozen=True)
class LengthColumn:
    """One number n of each sample, by which it costs linear x n + quadratic x n^2. Of both 0 it is only summed."""

    lengths: Any
    linear: float = 1
    quadratic: float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", _taken(self.lengths))


@dataclass(frozen=True)
class Balance:
    """How `rank_split="balanced"` deals batches, which stay as they are: so that ranks have as much to do.

    - `lengths`, one for each sample: `Lengths`, or what those are made of; a path that ends in .npy; the name of a
      ragged field, which the source is asked for. Or a list of `LengthColumn`, of which the worst is made small.
    - A sample of n costs linear x n + quadratic x n^2.
    - `equal_counts`: ranks have as many samples, within one.
    - `micro_batches` of each rank, of which the m-th cost about the same; or `micro_cost`: as many, the same on all
      ranks, as it takes for each to cost at most that.
    - `padded`: a micro-batch costs its costliest sample, times its samples.

    >>> import rota
    >>> run = rota.Run(4, 4, shuffle="none")
    >>> run.slice(balance=rota.Balance([5, 4, 1, 1]), world=(0, 2)).costs
    BatchCosts(global_=11.0, rank=6.0, most=6.0, most_by_sample=9.0, largest=5.0)
    """

    lengths: Any
    linear: float = 1
    quadratic: float = 0
    equal_counts: bool = True
    micro_batches: int = 1
    micro_cost: float = 0
    padded: bool = False

    def __post_init__(self) -> None:
        given = self.lengths
        if isinstance(given, (list, tuple)) and given and all(isinstance(one, LengthColumn) for one in given):
            if (self.linear, self.quadratic) != (1, 0):
                raise InvalidArgumentError("balance a batch: linear= and quadratic= are of each rota.LengthColumn here")
            object.__setattr__(self, "lengths", tuple(given))
        else:
            object.__setattr__(self, "lengths", _taken(given))
        _rota.check_balance(self)

    @property
    def columns(self) -> tuple[LengthColumn, ...]:
        """A column of lengths, or several."""
        is_one = not isinstance(self.lengths, tuple)
        return (LengthColumn(self.lengths, self.linear, self.quadratic),) if is_one else self.lengths


def with_lengths(balance: Any, dataset: Any, comm: Any) -> Any:
    """The same with the lengths of the fields that it names. **Collective** over `comm`."""
    if not isinstance(balance, Balance) or not any(isinstance(one.lengths, str) for one in balance.columns):
        return balance

    def found(lengths: Any) -> Any:
        several = [*dataset.values()] if isinstance(dataset, Mapping) else dataset  # which are mixed
        source = join(several) if isinstance(several, (list, tuple)) else dataset
        return lengths_of(source, lengths, comm) if isinstance(lengths, str) else lengths

    given = balance.lengths
    is_one = not isinstance(given, tuple)
    return replace(
        balance, lengths=found(given) if is_one else [replace(one, lengths=found(one.lengths)) for one in given]
    )
