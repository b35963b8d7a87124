"""Plain values: positions, fields, ragged tensors. This module imports numpy only where it is used."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from rota._errors import Refusal, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

DTypeLike = Any
"""A name such as "int64" or "bfloat16", or what numpy takes for a dtype."""


class Position(NamedTuple):
    """How far a run has come. The same on every rank."""

    epoch: int = 0
    """passes over the dataset that are complete"""
    consumed: int = 0
    """samples of this epoch already delivered; of streams 0"""
    step: int = 0
    """global batches delivered since the run began"""


class StreamId(NamedTuple):
    """A sample of an epoch of streams."""

    shard: int
    input: int
    """the number of its record in the shard"""
    output: int = 0
    """which of the samples made of that record"""


class World(NamedTuple):
    """This process among those that share the data: rank `rank` of `size`."""

    rank: int = 0
    size: int = 1
    replica: int = 0
    """number among the replicas of this rank (tensor or pipeline parallel peers)"""


class BatchSlot(NamedTuple):
    """The place of a sample in a run."""

    step: int
    rank: int
    slot: int
    """of the global batch"""
    is_skipped: bool = False
    """the plan leaves that step out"""


class BatchCosts(NamedTuple):
    """What a batch costs under "balanced", by the first column of lengths that costs something.

    That of all ranks, of this one, of the one that has most, of that by equal slices, and of the largest sample.
    """

    global_: float = 0
    rank: float = 0
    most: float = 0
    most_by_sample: float = 0
    largest: float = 0


class Mixture(NamedTuple):
    """Datasets with the same fields that take turns by weight. Each has epochs of its own.

    They are a list, or a dict by name; then `weights` may be one, too. `end` is "first_exhausted", "all_exhausted", or
    "steps": then the run has `steps` steps. `grown=True`: at a resume, those with names may have more samples behind
    those that they had.
    """

    sources: Sequence[Any] | Mapping[str, Any]
    weights: Sequence[float] | Mapping[str, float]
    end: str = "first_exhausted"
    steps: int = 0
    grown: bool = False


class Field(NamedTuple):
    """One named tensor of a sample.

    A fixed field has `shape` in every sample; `()` is a scalar. A ragged one has [rows, *shape], and each sample has
    its own number of rows.
    """

    name: str
    dtype: DTypeLike = "uint8"
    shape: tuple[int, ...] = ()
    ragged: bool = False


FieldsLike = Union[Iterable[Union[Field, tuple, str]], Mapping[str, Any]]
"""Fields, or tuples with the same items, or a mapping of names to a dtype or to (dtype, shape, ragged)."""


def as_fields(fields: FieldsLike) -> list[Field]:
    """A list of fields, of whatever FieldsLike allows."""
    if isinstance(fields, Mapping):
        return [Field(name, *(what if isinstance(what, tuple) else (what,))) for name, what in fields.items()]
    return [Field(field) if isinstance(field, str) else Field(*field) for field in fields]


class Ragged(Sequence["np.ndarray"]):
    """Rows of all samples, one sample after the other; sample i has rows [offsets[i], offsets[i + 1]).

    >>> import numpy as np
    >>> words = Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 3]))
    >>> len(words), words[0], words.to_list()
    (3, array([1, 2]), [[1, 2], [], [3]])
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: Any, offsets: Any) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def from_list(cls, samples: Iterable[Any], dtype: DTypeLike = None) -> Ragged:
        """Of an array, or of what numpy makes one of, for each sample. TypeError where `dtype` would lose values."""
        import numpy as np

        if dtype is None:
            arrays = [np.asarray(sample) for sample in samples]
        else:
            arrays = [as_array(sample, np.dtype(dtype)) for sample in samples]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        values = np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
        return cls(values, offsets)

    def __len__(self) -> int:
        return max(len(self.offsets) - 1, 0)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = operator.index(i)
        k = i + len(self) if i < 0 else i
        if not 0 <= k < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        return self.values[self.offsets[k] : self.offsets[k + 1]]

    def to_list(self) -> list[list]:
        """A list for each sample."""
        return [rows.tolist() for rows in self]  # type: ignore

    def __repr__(self) -> str:
        return (
            f"Ragged({len(self)} samples, {len(self.values)} rows of {self.values.dtype}{list(self.values.shape[1:])})"
        )


def check_torch(torch: Any) -> None:
    """Refuses what is older than the oldest that is tested."""
    if int(torch.__version__.split(".")[0]) < 2:
        raise UnsupportedError(
            f"use PyTorch {torch.__version__}: rota needs 2.0 or newer; install it from PyPI: pip install torch"
        )


def of_torch(tensor: Any) -> tuple[np.ndarray, bool]:
    """A tensor of torch as an array; and whether it is bfloat16, which numpy does not have: then it is the bits."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.numpy(), False
    return tensor.contiguous().view(sys.modules["torch"].int16).numpy().view("uint16"), True


def as_array(value: Any, dtype: np.dtype, is_bfloat16: bool = False) -> np.ndarray:
    """A contiguous array of `dtype`. TypeError where values would be lost; text and bytes are bytes.

    Of a bfloat16 it takes the bits, uint16, or tensors of torch.
    """
    import numpy as np

    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, (bytes, bytearray)) or isinstance(value, memoryview) and value.format in ("B", "b", "c"):
        value = np.frombuffer(value, dtype=np.uint8)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError("a masked array would lose its mask; give value.filled(...), and the mask as a field")
    if hasattr(value, "detach"):
        value, is_brain = of_torch(value)
        if is_brain and not is_bfloat16:
            raise TypeError("it is of torch.bfloat16; convert it")
    made = np.asarray(value)
    if is_bfloat16 and made.dtype != np.uint16:
        raise TypeError(f"{made.dtype} is no bfloat16: give the bits as uint16, or a tensor of torch.bfloat16")
    is_exact = np.can_cast(made.dtype, dtype) and not (
        made.dtype.kind in "iu" and made.itemsize == 8 and dtype.kind == "f"
    )
    if made.size and not is_exact:
        if isinstance(value, (np.ndarray, np.generic)) and not np.can_cast(made.dtype, dtype, casting="same_kind"):
            raise TypeError(f"it is of dtype {made.dtype}, which does not become {dtype} without loss; convert it")
        if not _survives(made, dtype):
            raise TypeError(f"{made.dtype} {value!r:.100} does not become {dtype} without loss")
    return np.asarray(made, dtype=dtype, order="C")


def _survives(made: np.ndarray, dtype: np.dtype) -> bool:
    """Whether all numbers are the same as `dtype`. Floats may lose digits to other floats, but not become infinite."""
    import numpy as np

    if made.dtype.kind not in "biuf":
        return False
    with np.errstate(all="ignore"):
        changed = made.astype(dtype)
        if made.dtype.kind == "f" and dtype.kind == "f":
            return not np.any(np.isinf(changed) & ~np.isinf(made))
        return bool(np.all((changed.astype(made.dtype) == made) & ((changed < 0) == (made < 0))))


def make_mapping(batch: Any) -> Any:
    """Gives a class what mappings have beside `[name]`."""
    batch.__module__ = "rota"
    Mapping.register(batch)
    batch.keys = lambda self: list(self)
    batch.values = lambda self: [self[name] for name in self]
    batch.items = lambda self: [(name, self[name]) for name in self]
    batch.get = lambda self, name, default=None: self[name] if name in self else default
    for name in ("keys", "values", "items", "get"):
        getattr(batch, name).__doc__ = "As of a dict, by name."
    return batch


class Items:
    """Makes arrays of what a user's function returned, one of each field. `task` begins what it refuses with."""

    def __init__(self, task: str, fields: Iterable[Field]) -> None:
        import numpy as np

        self._task = task
        self._fields = [(field, np.dtype("uint16" if field.dtype == "bfloat16" else field.dtype)) for field in fields]

    def sample(self, returned: Any) -> list[np.ndarray]:
        """Of a mapping, a tuple in the fields' order, or the value of the only field."""
        count = len(self._fields)
        if hasattr(returned, "keys") and hasattr(returned, "__getitem__"):
            values = [self._named(returned, field) for field, _ in self._fields]
        elif isinstance(returned, tuple):
            if len(returned) != count:
                raise Refusal(f"{self._task}: a tuple of {len(returned)} for {count} fields")
            values = list(returned)
        elif count == 1:
            values = [returned]
        else:
            raise Refusal(f"{self._task}: a {type(returned).__name__} for {count} fields; return a dict")
        return [self._array(value, *field) for value, field in zip(values, self._fields)]

    def batch(self, returned: Any, samples: int) -> list[tuple[np.ndarray, list[int]]]:
        """Of a mapping: each field of `samples` samples, and the rows of each, where it is ragged."""
        import numpy as np

        if not hasattr(returned, "__getitem__") or isinstance(returned, tuple):
            raise Refusal(f"{self._task}: a {type(returned).__name__}; return a mapping of the fields to arrays")
        made: list[tuple[np.ndarray, list[int]]] = []
        for field, dtype in self._fields:
            value = self._named(returned, field)
            if not field.ragged:
                made.append((self._array(value, field._replace(shape=(samples, *field.shape)), dtype), []))
                continue
            ragged = value if isinstance(value, Ragged) else Ragged.from_list(value, dtype)
            rows: Any = np.diff(np.asarray(ragged.offsets, dtype=np.int64))
            values = self._array(ragged.values, field, dtype)
            if len(values) != rows.sum():
                raise Refusal(f'{self._task}, "{field.name}": its offsets are not those of its values')
            made.append((values, rows.tolist()))
        return made

    def _named(self, returned: Any, field: Field) -> Any:
        if field.name not in returned:
            there = ", ".join(f'"{name}"' for name in returned) or "nothing"
            how = "declare other fields by transform_fields, collate_fields or fields"
            raise Refusal(f'{self._task}: it has no "{field.name}", but {there}; {how}')
        return returned[field.name]

    def _array(self, value: Any, field: Field, dtype: np.dtype) -> np.ndarray:
        what = f'{self._task}, "{field.name}"'
        try:
            array = as_array(value, dtype, field.dtype == "bfloat16")
        except (TypeError, ValueError) as error:
            raise Refusal(f"{what}: {error}") from None
        if array.shape[field.ragged :] == field.shape and array.ndim == field.ragged + len(field.shape):
            return array
        wanted = ", ".join(map(str, ("rows", *field.shape) if field.ragged else field.shape))
        ragged = "" if field.ragged else "; one of any length is declared (dtype, row shape, True)"
        raise Refusal(f"{what}: it is of shape {list(array.shape)}; the field has [{wanted}]{ragged}")


class SkippedSample(NamedTuple):
    """A bad sample that a loader skipped."""

    epoch: int
    id: int
    where: str
    """the file, or other origin"""
    error: str


class StreamSample(dict):
    """One sample of a stream: read-only arrays by name, which end with the call. `id` is a `StreamId`."""

    __slots__ = ("epoch", "id")

    def __init__(self, fields: Mapping[str, Any], id: Any, epoch: int = 0) -> None:
        super().__init__(fields)
        self.id, self.epoch = id, epoch


class Samples(dict):
    """The samples of a batch, for a collate: arrays by name, which end with the call.

    `ids` and `mask` (False: it pads, or was skipped) are in the order of the batch: where a collate changes that, they
    belong to what it returns.
    """

    __slots__ = ("ids", "mask")

    def __init__(self, fields: Mapping[str, Any], ids: Any, kinds: Any) -> None:
        super().__init__(fields)
        self.ids, self.mask = ids, kinds == 0


class Sample(StreamSample):
    """One sample, for a transform: arrays by name, which end with the call.

    `key` is 64 bits of randomness of seed, epoch and id. What draws from it repeats in any world and after any resume.
    """

    __slots__ = ("key",)

    def __init__(self, fields: Mapping[str, Any], id: int = 0, epoch: int = 0, key: int = 0) -> None:
        super().__init__(fields, id, epoch)
        self.key = key
