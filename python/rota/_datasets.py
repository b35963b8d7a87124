"""What rota knows of a user's dataset: its length, what names its samples, and whom it shares its objects with."""

from __future__ import annotations

import copy
import functools
import hashlib
import operator
import os
import random
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError, MismatchError, UnsupportedError
from rota._plan import by_order
from rota._values import Mixture


def length_of(dataset: Any) -> int:
    """Of a dataset, or the number that stands for one."""
    if isinstance(dataset, (str, bytes, os.PathLike)):
        raise TypeError(f"{dataset!r} is a path, and no dataset: give its samples, or their number")
    if isinstance(dataset, (bool, Mixture)):
        raise TypeError(f"a {type(dataset).__name__} is no dataset; give its samples, or a list of them and weights=")
    try:
        length = len(dataset) if hasattr(dataset, "__len__") else operator.index(dataset)  # numpy's numbers, too
    except TypeError:
        raise TypeError(
            f"a {type(dataset).__name__} has no length; rota orders what can be indexed (for the rest, see rota.Stream)"
        ) from None
    if length < 0:
        raise InvalidArgumentError(f"order a dataset: its length is {length}; it must be 0 or more")
    return length


def copy_of(dataset: Any) -> Any:
    """A shallow copy, so that what it opens when it is first read is the reader's own; itself, where it has none.

    An array opens nothing, and its copy would be of all its numbers.
    """
    numpy = sys.modules.get("numpy")
    try:
        return dataset if numpy and isinstance(dataset, numpy.ndarray) else copy.copy(dataset)
    except TypeError:
        return dataset


class KeptRandomness:
    """The states of the generators that datasets draw from, until they are put back."""

    def __init__(self) -> None:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self._put_back = [functools.partial(random.setstate, random.getstate())]
        if numpy is not None:
            self._put_back.append(functools.partial(numpy.random.set_state, numpy.random.get_state()))
        if torch is not None:
            self._put_back.append(functools.partial(torch.set_rng_state, torch.get_rng_state()))

    @staticmethod
    def seed(key: int) -> None:
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        random.seed(key)
        if numpy is not None:
            numpy.random.seed(numpy.array([key & 0xFFFFFFFF, key >> 32], dtype=numpy.uint32))
        if torch is not None:
            torch.random.default_generator.manual_seed(key)

    def restore(self) -> None:
        for put_back in self._put_back:
            put_back()


def is_reproducible(read: Callable[[], Any]) -> bool:
    """Whether `read` gives the same again."""
    kept = KeptRandomness()
    try:
        given = []
        for _ in range(2):
            kept.seed(0)
            given.append(read())
        return given[0] == given[1]
    finally:
        kept.restore()


# ---- one call at a time ----

TURN = threading.RLock()  # of datasets that did not say that they are thread-safe
_own: dict[int, Any] = {}  # locks, by the ids of datasets


def locks_of(dataset: Any) -> tuple[Any, ...]:
    """To be held, in this order, while `dataset` is called.

    All datasets take turns: they may share a file or a buffer by an attribute, a class, a module or a closure. While
    one waits for a loader inside, others have their turn, and only that one has not.
    """
    with suppress(TypeError):  # of what nobody can watch, such as a list
        if id(dataset) not in _own:
            weakref.finalize(dataset, functools.partial(_own.pop, id(dataset), None)).atexit = False
            _own[id(dataset)] = threading.RLock()
    return (_own[id(dataset)], TURN) if id(dataset) in _own else (TURN,)


def _free_all() -> None:
    for lock in (TURN, *_own.values()):  # another thread of the parent may have had it
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_all)


# ---- what names samples ----


IF_MEANT = ' (where that may be, fingerprint="" compares the length alone)'


class _Unknown(Exception):
    pass


def _plain(value: Any) -> str:
    """A text that is the same in each process, of a name or of numbers."""
    if isinstance(value, os.PathLike):
        value = os.fsdecode(value)
    if isinstance(value, str):
        return _base_name(value) or repr(value)
    if value is None or isinstance(value, (bool, int, float, bytes)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_plain, value[:16]))})"
    if isinstance(value, Mapping):
        return _plain([(key, value[key]) for key in sorted(value, key=str)])
    if hasattr(value, "dtype") and hasattr(value, "reshape"):
        value = value.detach().cpu() if hasattr(value, "detach") else value
        return f"{value.dtype}{list(value.shape)}{value.reshape(-1)[:64].tolist()}"
    raise _Unknown


def _base_name(text: str) -> str:
    """Of a path or a URL, for the same files may lie elsewhere, or be signed anew; "" of another text."""
    path = text.partition("?")[0]
    is_one = len(path) < 4096 and not re.search(r"\s", path) and ("/" in path or re.search(r"\.\w{1,12}$", path))
    return path.rpartition("/")[2] if is_one else ""


def _name_of(dataset: Any, id: int) -> str:
    """What is known of a sample without asking the dataset for it. Raises _Unknown."""
    if isinstance(dataset, (list, tuple, range)) or (hasattr(dataset, "dtype") and hasattr(dataset, "reshape")):
        return _plain(dataset[id])
    parts = {
        name: getattr(dataset, name, None) for name in ("dataset", "indices", "datasets", "tensors", "_fingerprint")
    }
    if isinstance(parts["_fingerprint"], str):  # of Hugging Face
        return parts["_fingerprint"]
    if parts["dataset"] is not None and parts["indices"] is not None:  # a Subset
        id = int(parts["indices"][id])
        with suppress(_Unknown):
            return f"{id}, {_name_of(parts['dataset'], id)}"
        return str(id)
    if isinstance(parts["datasets"], (list, tuple)):  # a ConcatDataset
        for one in parts["datasets"]:
            if id < len(one):
                return _name_of(one, id)
            id -= len(one)
    if isinstance(parts["tensors"], (list, tuple)):  # a TensorDataset
        return _plain([one[id] for one in parts["tensors"]])
    size, found = len(dataset), []
    for name, value in sorted(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, (list, tuple)) or (hasattr(value, "dtype") and getattr(value.dtype, "kind", "") in "OUS"):
            one = value[id] if len(value) == size else None  # paths, or paths with classes, as of an ImageFolder
            parts_of = [*one.values()] if isinstance(one, Mapping) else one if isinstance(one, tuple) else [one]
            if any(isinstance(part, os.PathLike) or (isinstance(part, str) and _base_name(part)) for part in parts_of):
                found.append(f"{name} {_plain(one)}")
    if not found and parts["dataset"] is not None and len(parts["dataset"]) == size:  # one around another
        return _name_of(parts["dataset"], id)
    if not found:
        raise _Unknown
    return ", ".join(found)


def names_of(dataset: Any, most: int = 32) -> list[str]:
    """Of some samples, from the first to the last, what names them: a line each. None that would have to be read."""
    if isinstance(dataset, _rota.Source):  # what it is made of
        name, args, _ = dataset._recipe or ("", (), None)
        if name == "python_source":
            return names_of(args[0], most) if args[2] is None else []
        made_of = [
            one for arg in args for one in (arg if isinstance(arg, list) else [arg]) if isinstance(one, _rota.Source)
        ]
        return [line for one in made_of for line in names_of(one, most)]
    size = len(dataset) if hasattr(dataset, "__len__") else 0
    count = min(size, most)
    ids = [k * (size - 1) // max(count - 1, 1) for k in range(count)]
    try:
        return [f"sample {id} {_name_of(dataset, id)!r:.200}{IF_MEANT}" for id in ids]
    except Exception:  # whoever reads it finds out
        return []


def digest_of(name: str) -> int:
    """As a state has it: 62 bits, and odd."""
    return int.from_bytes(hashlib.blake2b(name.encode(errors="replace"), digest_size=8).digest(), "big") >> 2 | 1


def _lengths(dataset: Any, weights: Any) -> list[int]:
    """Of one dataset, or of each of those that are mixed."""
    is_list = isinstance(dataset, (list, tuple))
    if weights is not None:
        if not is_list or len(dataset) != len(weights):
            what = f"{len(dataset)} datasets" if is_list else f"a {type(dataset).__name__}"
            raise InvalidArgumentError(
                f"make a sampler: {len(weights)} weights for {what}; give a list of as many datasets"
            )
        return [length_of(one) for one in dataset]
    torch = sys.modules.get("torch.utils.data")
    kinds = (_rota.Source, torch.Dataset) if torch else (_rota.Source,)
    if is_list and dataset and all(isinstance(one, kinds) for one in dataset):
        raise InvalidArgumentError(
            f"make a sampler: a list of {len(dataset)} datasets needs weights=; for one behind the other give what "
            "joins them, such as torch's ConcatDataset"
        )
    return [length_of(dataset)]


class Known:
    """What a sampler knows its samples by: their number, a fingerprint, or what names them without reading them."""

    def __init__(self, dataset: Any, weights: Any, end: str, steps: int, fingerprint: str | None) -> None:
        if weights is None and (steps or end != "first_exhausted"):
            raise InvalidArgumentError("make a sampler: end= and steps= are of a mixture; give weights, too")
        if weights is not None and fingerprint is not None:
            raise UnsupportedError("make a sampler: fingerprint= of a mixture; leave it out")
        dataset, weights, self.called = by_order("make a sampler", dataset, weights)
        self.lengths = _lengths(dataset, weights)
        self.samples = sum(self.lengths)  # of what is read, whatever a state knows besides
        self.mixing = None if weights is None else (weights, _rota.MixtureOptions.plain(end=end, steps=steps))
        self.fingerprint = fingerprint or None
        is_text = fingerprint and re.fullmatch("[0-9a-f]{32}", str(fingerprint)) is None
        self.told: dict[str, Any] = {"fingerprint": fingerprint} if is_text else {}  # kept for people
        datasets = [] if fingerprint is not None else [dataset] if weights is None else dataset
        self.names = [names_of(one) for one in datasets]
        self.seen: list[str] = []

    def see(self, dataset: Any) -> None:
        """Takes what names the samples now, for ranks to compare."""
        self.seen = names_of(dataset) if self.names and not self.mixing else []

    def learn(self, dataset: Any) -> bool:
        """Knows the samples by those of `dataset`, where it had their number alone; whether it does now."""
        if self.mixing or not self.names or any(self.names):
            return False
        self.names = [names_of(dataset)]
        return any(self.names)

    def lines(self) -> str:
        return "".join(f"{name}\n" for names in (*self.names, self.seen) for name in names)

    def run(self, options: dict, world: Any) -> Any:
        known = self.names or [[]] * len(self.lengths)
        digests = ([*map(digest_of, names)] for names in known)
        data: Any = [_rota.numbers(size, self.fingerprint, of) for size, of in zip(self.lengths, digests)]
        named = dict(zip(self.called, data)) if self.called else data
        data = Mixture(named, self.mixing[0], **self.mixing[1]) if self.mixing else data[0]
        made = _rota.make_sampler_run(data, _rota.LoaderOptions(**options), world)
        if self.mixing:  # of Python's own numbers, to be pickled
            self.mixing = [*map(float, self.mixing[0])], self.mixing[1]
        return made

    @contextmanager
    def explained(self, state: Mapping[str, str]) -> Iterator[None]:
        """A MismatchError inside says how the dataset was called then."""
        try:
            yield
        except MismatchError as error:
            then, now = state.get("fingerprint"), self.told.get("fingerprint")
            if then == now:
                raise
            raise MismatchError(f"{error}; fingerprint= was {then!r} then, and is {now!r} now") from None
