"""rota: training data for loops on many ranks, which stop at any step and go on with any other number of ranks.

- `ElasticBatchSampler`, with `rota.torch.DataLoader`: rota's order for any dataset, in torch's own DataLoader. Its
  `BatchIterator` gives lists of `Index`; a `BatchInfo` says what is in a batch; `BatchSlot` is a sample's place in a
  run.
- `Run`: the order and the place in it alone, as a value: what any rank reads at any step.
- `Loader`: rota's own loader. A `Batch` has numpy arrays, or `Ragged` ones, of each `Field`; a transform gets a
  `Sample`, a collate `Samples`.
- `Members` is a run whose members come and go between steps, as a quorum says: torchft's, say.
- `Balance` deals the same batches so that ranks have as much to do, by `Lengths` of samples (`lengths_of`,
  `read_lengths`, `squares_of`, `tokens_of`), or several a `LengthColumn` each; `BatchCosts` says how well.
- `open`: files of any of the `formats` as a `Source`; `find_format` tells which. A `Catalog` is the list of files, made
  once (`Progress`, `CatalogChanges`).
- `PythonSource` wraps a dataset of Python; `join`, `split`, `select`, `without`, `take`, `skip_first`, `zip`,
  `windows`, `pack`, `cast` and `Mixture` make others of these; `repeat` and `weighted` draw anew in each epoch, from a
  dataset of torch's, too. `known_as` goes on with data that only look different.
- `write_shards` writes a dataset as tar, MDS or TFRecord shards, and tells so in a `ShardReport`.
- `StreamLoader` reads in sequence what cannot be indexed: a `Stream` of yours, or `as_stream` of a source; `filter`,
  `flat_map` and `shuffle_buffer` make a `StreamSource` of another, and get a `StreamSample`. `Dispatch` is for what
  exists once. Their batches have a `StreamId` for each sample.
- `CheckpointDirectory` saves loaders, tensors (whole, or `Rows` of each rank) and blobs of all ranks, and finds them
  again as a `Checkpoint`. `open_checkpoint` and `verify` look at one file.
- `Position`, `World`, `SkippedSample`: what loaders tell of a run. `CheckpointInfo`, `TensorInfo`, `BlobInfo`,
  `SaveReport`, `RejectedCheckpoint`, `Verification`, `Damage`: what checkpoints tell.
- `progress` shows how far a loop is, `compare_ranks` which rank the others wait for; `to_prometheus` is for monitoring.
- Samples that are settled by hand are `OpenSamples` meanwhile; `merge_states` joins what ranks know of them.
- A `TraceWriter` writes what a rank is given, for `rota audit`.
- `Communicator`: a group of ranks that load and save together, of MPI or of torch.distributed; `rota.mpi` has what is
  for MPI jobs alone.
- `Error` and its subclasses: each is also the built-in exception that says the same. `BadSample` is for you to raise.
- What there is to tell beside errors goes to the logger "rota" of Python's `logging`.
"""

from __future__ import annotations

import atexit as _atexit

from rota import _checkpoint, _loader, _rota
from rota._balance import Balance, LengthColumn, Lengths, lengths_of, read_lengths, squares_of, tokens_of
from rota._catalog import Catalog, CatalogChanges, Progress
from rota._checkpoint import (
    BlobInfo, Checkpoint, CheckpointDirectory, CheckpointInfo, Damage, RejectedCheckpoint, Rows, SaveReport, TensorInfo,
    Verification, open_checkpoint, verify,
)  # fmt: skip
from rota._communicator import Communicator
from rota._drawn import repeat, weighted
from rota._errors import tell as _tell
from rota._errors import (
    BadSample, BusyError, CallbackError, CorruptError, Error, InvalidArgumentError, IOError, MismatchError,
    NotFoundError, OutOfRangeError, TimeoutError, UnsupportedError,
)  # fmt: skip
from rota._indices import BatchInfo, Index
from rota._loader import Batch, Loader
from rota._members import Members
from rota._run import Run
from rota._sampler import BatchIterator, ElasticBatchSampler
from rota._settle import OpenSamples, merge_states
from rota._sources import (
    PythonSource, ShardReport, Source, cast, find_format, formats, join, known_as, open, pack, select, skip_first,
    split, take, windows, without, write_shards, zip,
)  # fmt: skip
from rota._storages import ca_file_of_certifi as _ca_file_of_certifi
from rota._streams import (
    Dispatch, Stream, StreamLoader, StreamSource, as_stream, filter, flat_map, shuffle_buffer,
)  # fmt: skip
from rota._trace import TraceWriter
from rota._values import (
    BatchCosts, BatchSlot, Field, Mixture, Position, Ragged, Sample, Samples, SkippedSample, StreamId, StreamSample,
    World,
)  # fmt: skip
from rota._watch import compare_ranks, progress, to_prometheus

__all__ = [
    "BadSample", "Balance", "Batch", "BatchCosts", "BatchInfo", "BatchIterator", "BatchSlot", "BlobInfo", "BusyError",
    "CallbackError", "Catalog", "CatalogChanges", "Checkpoint", "CheckpointDirectory", "CheckpointInfo", "Communicator",
    "CorruptError", "Damage", "Dispatch", "ElasticBatchSampler", "Error", "Field", "IOError", "Index",
    "InvalidArgumentError", "LengthColumn", "Lengths", "Loader", "Members", "MismatchError", "Mixture", "NotFoundError",
    "OpenSamples", "OutOfRangeError", "Position", "Progress", "PythonSource", "Ragged", "RejectedCheckpoint", "Rows",
    "Run", "Sample", "Samples", "SaveReport", "ShardReport", "SkippedSample", "Source", "TensorInfo", "Stream",
    "StreamId", "StreamLoader", "StreamSample", "StreamSource", "TimeoutError", "TraceWriter", "UnsupportedError",
    "Verification", "World", "cast", "compare_ranks", "find_format", "formats", "as_stream", "filter", "flat_map",
    "join", "known_as", "lengths_of", "merge_states", "open", "open_checkpoint", "pack", "progress", "read_lengths",
    "repeat", "select", "shuffle_buffer", "skip_first", "split", "squares_of", "take", "to_prometheus", "tokens_of",
    "verify", "weighted", "windows", "without", "write_shards", "zip",
]  # fmt: skip

_rota.send_messages_to(_tell)  # to the logger "rota", which prints them, unless the program says otherwise
_rota.add_ca_file(_ca_file_of_certifi())  # for systems that have none
__version__: str = _rota.__version__

_atexit.register(_loader.close_all)  # before what _rota has registered: the last one is the first to run
_atexit.register(_checkpoint.close_all)
