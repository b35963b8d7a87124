"""Traces of what each rank was given, for `rota audit`."""

from __future__ import annotations

import operator
import os
from typing import Any

from rota import _rota
from rota._communicator import agreed
from rota._loader import Loader
from rota._streams import StreamLoader


class TraceWriter(_rota.TraceWriter):
    """Writes what this rank is given, a line for each batch, so that `rota audit` can check the whole run.

    Make it after the restore, with the same directory for all starts of a run. Each start is another *phase*. Give `comm`
    where there are several ranks, which then make it together; or the same `phase` on all, above earlier ones.

    >>> import rota, tempfile
    >>> loader = rota.Loader(rota.PythonSource([{"x": i} for i in range(10)]), 4)
    >>> trace = rota.TraceWriter(tempfile.mkdtemp(), loader)
    >>> for batch in loader:
    ...     trace.write(batch)
    >>> trace.end()
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        loader: Loader | StreamLoader,
        *,
        comm: Any = None,
        phase: int | None = None,
    ) -> None:
        with agreed(comm, "begin a trace") as ranks:
            number = None if phase is None else operator.index(phase)
            path = os.fspath(directory)
            if not isinstance(loader, (Loader, StreamLoader)):
                raise TypeError(f"begin a trace: a {type(loader).__name__} is no loader of rota")
        super().__init__(path, loader, ranks, number)
        self._loader = loader

    def end(self) -> None:
        """The phase ended in order, where the loader stands. Without it, a phase counts as killed."""
        self._end(self._loader)
