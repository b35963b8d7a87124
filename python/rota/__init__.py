"""rota: training data for loops on many ranks, which stop at any step and go on with any other number of ranks.

- `ElasticBatchSampler`, with `rota.torch.DataLoader`: rota's order for any dataset, in torch's own DataLoader. Its
  `BatchIterator` gives lists of `Index`; a `BatchInfo` says what is in a batch; `BatchSlot` is a sample's place in a run.
- `Loader`: rota's own loader. A `Batch` has numpy arrays, or `Ragged` ones, of each `Field`; a transform gets a `Sample`.
- `Source`: a dataset. `PythonSource` wraps one of Python; `join`, `split`, `windows`, `pack` and `Mixture` make others.
- `Position`, `World`, `SkippedSample`: what loaders tell of a run.
- `Error` and its subclasses: each is also the built-in exception that says the same.
"""

from __future__ import annotations

import atexit as _atexit

from rota._errors import (
    BusyError,
    CallbackError,
    CorruptError,
    Error,
    InvalidArgumentError,
    IOError,
    MismatchError,
    NotFoundError,
    OutOfRangeError,
    TimeoutError,
    UnsupportedError,
)
from rota._loader import Batch, Loader, Mixture, close_all
from rota._sampler import BatchInfo, BatchIterator, ElasticBatchSampler
from rota._sources import PythonSource, Source, join, pack, split, windows
from rota._values import BatchSlot, Field, Index, Position, Ragged, Sample, SkippedSample, World

__all__ = [
    "Batch",
    "BatchInfo",
    "BatchIterator",
    "BatchSlot",
    "BusyError",
    "CallbackError",
    "CorruptError",
    "ElasticBatchSampler",
    "Error",
    "Field",
    "IOError",
    "Index",
    "InvalidArgumentError",
    "Loader",
    "MismatchError",
    "Mixture",
    "NotFoundError",
    "OutOfRangeError",
    "Position",
    "PythonSource",
    "Ragged",
    "Sample",
    "SkippedSample",
    "Source",
    "TimeoutError",
    "UnsupportedError",
    "World",
    "join",
    "pack",
    "split",
    "windows",
]

_atexit.register(close_all)
