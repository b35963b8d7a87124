"""Plans of what a run changes on its way, and datasets by name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError


def plan_text(plan: Any, names: Sequence[str] = ()) -> str | None:
    """A plan as C++ writes it, of datasets in order: of a dict, or of what `read_plan` gave."""
    if plan is None:
        return None
    if not isinstance(plan, (Mapping, str)):
        raise TypeError(f"plan a run: plan= is a {type(plan).__name__}; give a dict, or the path of a file of JSON")
    try:
        text = plan if isinstance(plan, str) else json.dumps(plan, default=_plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"plan a run: it has what JSON has not: {error}") from None
    return _rota.plan_text(text, list(names))


def _plain(value: Any) -> Any:
    """Of numpy's numbers and arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


def another_plan(plan: Any, names: Sequence[str], ranks: Any = None) -> str:
    """As `plan_text`, of what `replan` is given: **collective** over `ranks`, where it is a path."""
    text = plan_text(read_plan(plan, dict.fromkeys(names), ranks), names)
    if text is None:
        raise TypeError("go on by another plan: it is None; give a dict, or the path of a file; {} has no stages")
    return text


def read_plan(plan: Any, datasets: Any = None, ranks: Any = None) -> Any:
    """As `plan_text`, of the path of a file, which rank 0 of `ranks` reads for all: **collective**. Else what it got.

    `datasets` may be named by a dict.
    """
    if not isinstance(plan, (str, os.PathLike)):
        return plan
    return _rota.read_plan(ranks, os.fspath(plan), [*map(str, datasets)] if isinstance(datasets, Mapping) else [])


def by_order(task: str, datasets: Any, weights: Any) -> tuple[Any, Any, list[str]]:
    """Datasets, weights and names of a dict of datasets, with weights in its order or by its names."""
    if not isinstance(datasets, Mapping) or weights is None:
        return datasets, weights_by_order(task, weights, []), []
    names = [*datasets]
    if not all(isinstance(name, str) and name and name.isprintable() for name in names):
        raise TypeError(f"{task}: names of datasets are texts that can be printed, and not {names!r}")
    return [*datasets.values()], weights_by_order(task, weights, names), names


def weights_by_order(task: str, weights: Any, names: Sequence[str]) -> Any:
    """Of a dict, one for each name."""
    if not isinstance(weights, Mapping):
        return weights
    if sorted(weights, key=str) != sorted(names):
        raise InvalidArgumentError(f"{task}: weights of {[*weights]}, and datasets {[*names]}; each has one (0: none)")
    return [weights[name] for name in names]
