"""Plans of what a run changes on its way, and datasets by name."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from rota import _rota
from rota._errors import Error, InvalidArgumentError, TimeoutError, tell


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
    if not _is_path(plan):
        return plan
    return _rota.read_plan(ranks, os.fspath(plan), [*map(str, datasets)] if isinstance(datasets, Mapping) else [])


def _is_path(plan: Any) -> bool:
    """And neither a dict nor the text of a Run's plan."""
    return isinstance(plan, os.PathLike) or (isinstance(plan, str) and not plan.startswith("{"))


class PlanFile:
    """A file of a plan that every save of a CheckpointDirectory reads anew."""

    def __init__(self, path: str | os.PathLike | None) -> None:
        self._path = path
        self._refused = ""  # what was in it, or why it could not be read

    @classmethod
    def of(cls, plan: Any, replan: str) -> PlanFile | None:
        """Of the options of a loader or sampler."""
        if replan not in ("by_hand", "at_save"):
            raise InvalidArgumentError(f'plan a run: replan is {replan!r}; it must be "by_hand" or "at_save"')
        if replan == "at_save" and plan is not None and not _is_path(plan):
            raise InvalidArgumentError('plan a run: replan="at_save" reads a file: give its path to plan= or replan()')
        return cls(plan) if replan == "at_save" else None

    def follow(self, plan: Any) -> None:
        """Of what `replan` was given."""
        if _is_path(plan):
            self._path = plan

    @property
    def said(self) -> str:
        """What all ranks must have in common, for a save to read it."""
        return f'replan="at_save", {"no file yet" if self._path is None else "of a file"}'

    def read(self, loader: Any, ranks: Any) -> None:
        """**Collective** over `ranks`, which are at one place: goes on by what the file says by now.

        What it cannot go on by is told once, on all ranks, and the run stays as it was.
        """
        if self._path is None:
            return
        found = ""
        try:
            found = read_plan(self._path, dict.fromkeys(loader._run._names), ranks)
            if found == "{}" != loader._run.plan:
                raise InvalidArgumentError(
                    f"read a plan: {self._path} has none; one without stages to come has those that have begun"
                )
            if found != loader._run.plan:
                if getattr(loader, "_part", 0):
                    return  # all parts of a batch go by one plan
                loader.replan(json.loads(found))
                logging.getLogger("rota").info("the run goes on by another plan, of %s", os.fspath(self._path))
            self._refused = ""
        except TimeoutError:
            raise
        except Error as error:
            if self._refused != (found or str(error)):
                self._refused = found or str(error)
                tell(f"{error}; the run goes on by the plan that it had, until a save finds another in {self._path}")


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
