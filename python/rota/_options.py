"""Options and numbers as the C++ side takes them; what it could not take is refused by name."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from rota._errors import InvalidArgumentError, OutOfRangeError


def as_number(task: str, name: str, value: Any, bits: int = 64, is_signed: bool = True) -> int:
    """An integer of so many bits. TypeError, or an error that names `name`, for all else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{task}: {name} is {value!r}; it must be a number") from None
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise InvalidArgumentError(f"{task}: {name} is {number}; it must be {low} to {high}")
    return number


def as_seed(task: str, value: Any) -> int:
    """An unsigned integer of 64 bits."""
    return as_number(task, "seed", value, is_signed=False)


def as_index(task: str, i: Any, size: int) -> int:
    """The number of an item of a sequence, also counted from its end. IndexError outside of it."""
    number = operator.index(i)
    if not -size <= number < size:
        raise OutOfRangeError(f"{task} {number}: there are {size}, numbered from 0 on")
    return number % size


def as_option(task: str, name: str, value: Any, like: Any) -> Any:
    """`value` in the type of option `name`, whose default is `like`."""
    if name == "seed":
        return as_seed(task, value)
    if name == "shared_directory":
        return os.fspath(value)
    if isinstance(like, bool):
        is_numpys = getattr(value, "shape", None) == () and value.dtype == "bool"
        if not (isinstance(value, (bool, int)) or is_numpys) or value not in (0, 1):
            raise TypeError(f"{task}: {name} is {value!r}; it must be True or False")
        return bool(value)
    if isinstance(like, int):
        return as_number(task, name, value)
    if isinstance(like, float):
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{task}: {name} is {value!r}; it must be a number") from None
    if isinstance(like, tuple):
        if isinstance(value, (str, bytes)) or not all(isinstance(one, str) for one in value):
            raise TypeError(f"{task}: {name} is {value!r}; it must be a list of names")
        return list(value)
    if isinstance(like, str) and name != "dtype" and not isinstance(value, str):
        raise TypeError(f"{task}: {name} is {value!r}; it must be a name")
    if name == "progress" and value is not None and not callable(value):
        raise TypeError(f"{task}: progress is {value!r}; it must be a function")
    return value


def as_options(task: str, given: Mapping[str, Any], function: Any) -> dict[str, Any]:
    """All keyword options of `function` but `comm`: those `given`, and the defaults of the rest."""
    defaults = {name: like for name, like in function.__kwdefaults__.items() if name != "comm"}
    for name in given:
        if name not in defaults:
            raise TypeError(f"{task}: there is no option {name}; there are {', '.join(defaults)}")
    return {name: as_option(task, name, given.get(name, like), like) for name, like in defaults.items()}
