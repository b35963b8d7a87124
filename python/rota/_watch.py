"""What a loop sees of its loader: how far it is, what it waits for, and which rank others wait for."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from rota import _rota
from rota._communicator import agreed, as_communicator, torchs_ranks
from rota._errors import Error


def compare_ranks(loader: Any, comm: Any = ...) -> dict[str, Any]:
    """Compares what the loaders of all ranks did since this was last called. **Collective**: all ranks, at the same step.

    For `wait`, `read`, `transform` and `step` (the loop itself): seconds a batch of the `least`, the `median` and the `most`,
    and which `rank` has the most. `straggler` says in words whom the others wait for, and for which file: "rank 3 waits for
    reads of data-0412.h5: 40 ms a batch, others 3 ms"; or is empty. `comm` left out: the ranks of torch.distributed.

    >>> import rota
    >>> rota.compare_ranks(rota.Loader(rota.PythonSource([{"x": 1}]), 1))["straggler"]
    ''
    """
    with agreed(torchs_ranks() if comm is ... else comm, "compare what ranks wait for") as ranks:
        if not hasattr(loader, "_stats_now"):
            raise TypeError(f"compare ranks: they need a rota.Loader or a rota.StreamLoader each, and this is {loader!r}")
        now = loader._stats_now()
    found: dict[str, Any] = _rota.compare_ranks(as_communicator(ranks), now, getattr(loader, "_compared", None))
    loader._compared = now
    return found


def progress(loader: Any, *, every: float = 10.0, file: TextIO | None = None) -> Iterator[Any]:
    """Iterates over `loader`, and shows on stderr, or `file`, how far it is, how fast of late, and for which share of its time
    the loop waits for data: on a terminal by a bar, elsewhere by a line each `every` seconds; on rank 0 alone.

    Any loader of rota: `rota.Loader`, `rota.StreamLoader`, `rota.torch.DataLoader`.

    >>> import rota
    >>> for batch in rota.progress(rota.Loader(rota.PythonSource([{"x": 1}]), 1)):
    ...     train = batch["x"]
    """
    if not all(hasattr(getattr(loader, "_order", loader), name) for name in ("world", "position", "global_batch_size")) or not hasattr(loader, "stats"):
        raise TypeError(f"show progress: a {type(loader).__name__} is no loader of rota; such as enumerate(rota.progress(loader))")
    return _watched(loader, _Meter(loader, every, sys.stderr if file is None else file))


def _watched(loader: Any, meter: _Meter) -> Iterator[Any]:
    asked = time.monotonic()
    try:
        for batch in loader:
            meter.count(time.monotonic() - asked)
            yield batch
            asked = time.monotonic()
    finally:
        meter.end()


def to_prometheus(stats: Mapping[str, Any], **labels: object) -> str:
    """`stats` of a loader as text for Prometheus, such as for a file of its node exporter. `labels` go into each line.

    >>> import rota
    >>> rota.to_prometheus(rota.Loader(rota.PythonSource([{"x": 1}]), 1).stats, rank=3).splitlines()[2]
    'rota_batches_total{rank="3"} 0'
    """
    for key in labels:
        if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key) or key in ("worker", "dataset", "quantile"):
            raise ValueError(f"to_prometheus: {key!r} is no name for a label of yours: letters, digits and _, not worker, dataset or quantile")
    lines = []
    summary: list[tuple[str, Mapping[str, object], str]] = [
        ("", {"quantile": share}, key) for share, key in (("0.5", "p50"), ("0.99", "p99"), ("0.999", "p999"))
    ]
    summary += [("_sum", {}, "seconds"), ("_count", {}, "count")]
    for name, kind, unit, text, label in _rota.statistics():
        each: list = [({}, stats)]
        if label:
            each = [({label: one.get("name") or number}, one) for number, one in enumerate(stats[f"{label}s"])]
        shown = "rota_" + (f"{label}_{name}" if label and name in stats else name)
        if kind == "summary":
            shown = f"{shown.removesuffix('s')}_seconds"
        elif kind == "counter":
            shown += "_total"
        lines += [f"# HELP {shown} {unit} {text}", f"# TYPE {shown} {kind}"]
        for own, one in each:
            value = one[name]
            for end, more, key in summary if kind == "summary" else [("", {}, "")]:
                pairs = (f'{label}="{_escaped(text)}"' for label, text in {**labels, **own, **more}.items())
                lines.append(f"{shown}{end}{{{','.join(pairs)}}} {value[key] if key else value}")
    return "\n".join(lines) + "\n"


def _escaped(label: object) -> str:
    return str(label).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_LATELY = 1.0  # seconds that rates are of, at the least


class _Mark(NamedTuple):
    time: float
    steps: int
    waited: float
    samples: int
    bytes: int


class _Meter:
    def __init__(self, loader: Any, every: float, file: TextIO) -> None:
        self._loader, self._file = loader, file
        self._order = getattr(loader, "_order", loader)  # a torch.utils.data.DataLoader has one
        self._is_shown = self._order.world.rank == 0 and file is not None and not file.closed
        self._is_terminal = self._is_shown and file.isatty()
        self._every = 0.1 if self._is_terminal else every
        self._shown = time.monotonic()
        self._steps = 0
        self._waited = 0.0
        self._first = self._now()
        self._marks = deque([self._first])  # that rates are since: the first is behind another step than this
        self._total = self._steps_left()

    def count(self, waited: float) -> None:
        self._steps += getattr(self._order, "_part", 0) == 0  # with the last part of a batch
        self._waited += waited
        now = time.monotonic()
        if not self._is_shown:
            return
        while len(self._marks) > 1 and now - self._marks[0].time > max(self._every, _LATELY):
            self._marks.popleft()
        if now - self._shown >= self._every:
            self._shown = now
            with suppress(OSError, ValueError):  # nobody can read it: that ends no training
                self._show(self._text(self._marks[0]))
        if now - self._marks[-1].time >= _LATELY / 10:
            self._marks.append(self._now())

    def end(self) -> None:
        if not self._is_shown:
            return
        with suppress(Error, OSError, ValueError):  # of a loader that was closed meanwhile, and of a file
            if self._is_terminal:
                self._file.write("\r\x1b[K")
            if self._steps:
                print(self._text(self._first), file=self._file, flush=True)

    def _steps_left(self) -> int:
        """Of this `for`; 0 where nobody knows."""
        at = self._order.position
        try:
            is_epoch = getattr(self._order, "_epochs", at) is None
            balance = getattr(self._order, "_options", {}).get("balance")
            steps = len(self._loader) // (balance.micro_batches if balance else 1)
            return max(steps - (at.consumed // self._order.global_batch_size if is_epoch else at.step), 0)
        except TypeError:
            return 0

    def _now(self) -> _Mark:
        stats = self._loader.stats
        return _Mark(time.monotonic(), self._steps, self._waited, stats.get("samples", 0), stats.get("bytes", 0))

    def _text(self, since: _Mark) -> str:
        at, size = self._order.position, self._order.world.size
        seconds, steps, waited, samples, mine = (now - then for now, then in zip(self._now(), since))
        seconds = max(seconds, 1e-9)
        rate = steps / seconds
        samples = samples * size or steps * self._order.global_batch_size
        parts = [f"epoch {at.epoch}, step {at.step:,}", f"{samples / seconds:,.0f} samples/s"]
        if mine:
            parts.append(f"{mine * size / seconds / 1e9:.2f} GB/s")
        parts.append(f"waits {100 * waited / seconds:.0f} %")
        if self._total > self._steps and rate > 0:
            left = round((self._total - self._steps) / rate)
            parts.append(f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left")
        return ", ".join(parts)

    def _show(self, text: str) -> None:
        if not self._is_terminal:
            print(text, file=self._file, flush=True)
            return
        bar = f"[{'=' * (20 * self._steps // self._total):20}] " if self._total else ""
        self._file.write(f"\r{bar}{text}\x1b[K")
        self._file.flush()
