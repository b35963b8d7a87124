"""What `rota plan` computes: what ranks will read of a dataset, by its order alone. No sample is read."""

from __future__ import annotations

import argparse
import bisect
import heapq
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rota import _rota
from rota._catalog import Catalog
from rota._errors import Error, InvalidArgumentError
from rota._loader import Loader
from rota._report import plain
from rota._sources import open as open_source

MOST_SAMPLES = 1 << 22  # that are looked at: what an epoch has beyond is taken to be like it


def batches(loader: Any) -> Iterator[np.ndarray]:
    """The ids of each global batch of an epoch."""
    run = loader.run
    epoch = run.position.epoch
    while (batch := run.slice()) is not None and batch.start.epoch == epoch:
        yield batch.ids
        run.advance(batch)


def nearest(ids: np.ndarray, samples: int) -> float:
    """How far the next neighbour on disk is, on the mean, in units of what it is among as many drawn at random."""
    if ids.size < 2:
        return 1.0
    gaps = np.diff(np.sort(ids))
    to_next = np.minimum(np.append(gaps, samples), np.insert(gaps, 0, samples))
    among = samples / (ids.size + 1) * (ids.size + 2) / (2 * ids.size) / (1 - ids.size / (2 * samples))  # without repetition
    return float(to_next.mean() / among)


def most_alive(first: np.ndarray, last: np.ndarray) -> int:
    """How many are between their first and their last step at once."""
    begun, ended = np.sort(first), np.sort(last)
    return int((np.searchsorted(begun, begun, "right") - np.searchsorted(ended, begun, "left")).max(initial=0))


def decodes(parts: Sequence[Any], row_bytes: float, rows: int, limit: int) -> int:
    """How often one rank decodes units whose numbers `parts` has, batch by batch, in memory that does not hold them.

    Of a decoded unit, those of its `rows` stay that are needed soonest, as src/formats/hdf5/chunk_memory.hpp has it.
    """
    note_bytes = 256
    ahead = min(int(2 * limit / row_bytes), limit // note_bytes)
    uses: dict[int, list[int]] = {}
    groups: list[dict[int, list[int]]] = [{} for _ in parts]
    for at, (group, unit) in enumerate((group, unit) for group, part in zip(groups, parts) for unit in part.tolist()):
        uses.setdefault(unit, []).append(at)
        group.setdefault(unit, []).append(at)
    kept: dict[int, int] = {}  # rows by when they are needed, and their units
    of_unit: Counter[int] = Counter()
    farthest: list[int] = []
    count, used = 0, 0.0

    def change(unit: int, by: int) -> float:
        before = of_unit[unit]
        of_unit[unit] += by
        costs = [min(n * (row_bytes + note_bytes), (rows * row_bytes + note_bytes) * (n > 0)) for n in (before, before + by)]
        return costs[1] - costs[0]

    for group in groups:
        for unit, wanted in group.items():
            if not all(at in kept for at in wanted):
                count += 1
                of = uses[unit]
                for at in of[bisect.bisect_right(of, wanted[-1]) : bisect.bisect_right(of, wanted[-1] + ahead)]:
                    if at not in kept:
                        kept[at] = unit
                        used += change(unit, 1)
                        heapq.heappush(farthest, -at)
            for at in wanted:
                if kept.pop(at, None) is not None:
                    used += change(unit, -1)
            while used > limit:
                gone = kept.pop(-heapq.heappop(farthest), None)
                used += 0 if gone is None else change(gone, -1)
    return count


def looks(ids: np.ndarray, files: np.ndarray, workers: np.ndarray, row: float, is_fixed: bool) -> np.ndarray:
    """Reads, and the requests that a store would get, with their bytes, for a batch whose slots these workers have.

    What lies side by side in a file is one read, and what is up to 1 MiB apart one request, up to 16 MiB. What is
    longer is asked for by 8 MiB: a sample, or several of a fixed size that lie so in memory, too. See src/files/reads.hpp.
    """
    most = int((16 << 20) // max(row, 1))
    starts = np.append(0, np.flatnonzero((not is_fixed) | (np.diff(ids) != 1) | (np.diff(workers) > 0) | (np.diff(files) != 0)) + 1)
    order = np.lexsort((ids[starts], workers[starts]))
    first, long = ids[starts][order], np.diff(np.append(starts, ids.size))[order]
    ends, workers, files = first + long, workers[starts][order], files[starts][order]
    gaps, others = first[1:] - ends[:-1], (np.diff(workers) > 0) | (np.diff(files) != 0)
    begins = np.append(0, np.flatnonzero(others | (gaps * row > 1 << 20)) + 1)
    while True:  # behind as much as a request takes, the next begins
        stops = np.append(begins[1:], first.size)
        full = np.flatnonzero((ends[stops - 1] - first[begins] > most) & (stops - begins > 1))
        if not full.size:
            break
        fits = [np.searchsorted(ends[i:j], first[i] + most, "right") for i, j in zip(begins[full], stops[full])]
        begins = np.insert(begins, full + 1, begins[full] + np.maximum(fits, 1))
    taken = (ends[stops - 1] - first[begins]) * row
    each = np.where(taken > 16 << 20, np.ceil(taken / (8 << 20)), 1)
    return np.array([1 + (others | (gaps > 0)).sum(), each.sum(), taken.sum()])


class Uses:
    """Which of some pieces, such as files, each of some groups of ranks uses, and from when to when."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.ends = np.cumsum(sizes)
        self.steps: list[np.ndarray] = []  # of each: which group uses which piece

    def of(self, ids: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.ends, ids, "right")

    def add(self, groups: np.ndarray, pieces: np.ndarray) -> None:
        self.steps.append(np.unique(groups * self.ends.size + pieces) if self.ends.size else pieces[:0])

    def end(self) -> None:
        """All steps were added."""
        keys = np.concatenate([np.zeros(0, np.int64), *self.steps])
        at = np.repeat(np.arange(len(self.steps)), [step.size for step in self.steps])
        used, first = np.unique(keys, return_index=True)
        last = keys.size - 1 - np.unique(keys[::-1], return_index=True)[1]
        groups = np.flatnonzero(np.diff(used // max(self.ends.size, 1))) + 1
        spans = zip(np.split(at[first], groups), np.split(at[last], groups))
        self.uses = int(used.size)  # a piece counts once for each group that uses it
        self.used = int(np.unique(used % max(self.ends.size, 1)).size)
        self.most_at_once = max(most_alive(*span) for span in spans)


def plan(
    source: Any, batch: int, *, ranks: int = 1, workers: int = 1, node: int = 8, decoded_bytes: int = 1 << 28, files: int = 1,
    **order: Any,
) -> dict[str, Any]:
    """What an epoch of `source`, of so many files, takes: per step, per rank, and per node of `node` ranks.

    `order` is as of `rota.Loader`.
    """
    loader = Loader(source, batch, world=(0, 1), workers=0, epochs=1, **order)
    samples, steps = len(source), loader.steps_per_epoch
    part_sizes = source._part_sizes() or ([1] * samples if files == samples else [samples])
    parts, units = (np.asarray(sizes, dtype=np.int64) for sizes in (part_sizes, source._unit_sizes()))
    of_rank, of_node, chunks = Uses(parts), Uses(parts), Uses(units)
    shares, bytes_, touched, mixes = [], [], [], []
    of_ranks: list[list[np.ndarray]] = []  # of each batch, the units that each rank reads
    seen, counts = 0, np.zeros(3)
    row = source._bytes(np.arange(0, samples, samples // 1000 + 1)).mean() if samples else 0
    for ids in itertools.takewhile(lambda _: seen < MOST_SAMPLES, batches(loader)):
        bounds = np.arange(ranks + 1) * ids.size // ranks
        parts_of = bounds[:-1, None] + np.arange(workers + 1) * np.diff(bounds)[:, None] // workers
        worker_of = np.repeat(np.arange(ranks * workers), np.diff(parts_of).ravel())
        of_files, of_units = of_rank.of(ids), chunks.of(ids)
        of_rank.add(worker_of // workers, of_files)
        of_node.add(worker_of // workers // node, of_files)
        chunks.add(worker_of // workers, of_units)
        of_ranks.append(np.split(of_units, bounds[1:-1]) if units.size else [])
        counts += looks(ids, of_files, worker_of, row, not any(field.ragged for field in source.fields))
        shares.append(np.diff(bounds))
        bytes_.append(np.diff(np.append(0, np.cumsum(source._bytes(ids)))[bounds]))
        touched.append(np.unique(of_files).size)
        mixes.append(nearest(ids, samples))
        seen += ids.size
    for uses in of_rank, of_node, chunks:
        uses.end()
    scale = samples / max(seen, 1)
    full = shares[:-1] or shares  # the last one may be short
    step_bytes = max((int(one.max()) for one in bytes_), default=0)
    all_bytes = sum(int(one.sum()) for one in bytes_)
    found = {
        "steps": steps,
        "looked_at": seen,
        "samples_a_step": [int(min((one.min() for one in full), default=0)), int(max((one.max() for one in full), default=0))],
        "bytes_a_step": step_bytes,
        "bytes": round(all_bytes * scale),
        "mixing": round(float(np.mean(mixes)), 3) if mixes else 1.0,
        "files": int(parts.size),
        "files_a_step": round(float(np.mean(touched)), 1) if touched else 0.0,
        "files_at_once": of_rank.most_at_once,
        **{name: round(count * scale) for name, count in zip(("reads", "requests", "requested_bytes"), counts)},
        "fetches_by_ranks": round(of_rank.uses * parts.size / max(of_rank.used, 1)),
        "fetches_by_nodes": round(of_node.uses * parts.size / max(of_node.used, 1)),
        "read_ahead_bytes": min(1 << 28, 5 * step_bytes) * min(ranks, node),
        "shared_bytes": round(of_node.most_at_once * parts.max(initial=0) * row),
    }
    if units.size:
        row_bytes = all_bytes / max(seen, 1)
        to_hold = round(chunks.most_at_once * row_bytes * int(units.max()))
        count = chunks.uses if to_hold <= decoded_bytes else sum(decodes(one, row_bytes, int(units.max()), decoded_bytes) for one in zip(*of_ranks))
        del found["requests"], found["requested_bytes"]  # of whole chunks, of which only their files know how long they are
        found |= {"chunks": int(units.size), "decodes_of_a_chunk": round(count / max(chunks.used, 1), 3), "decoded_bytes_to_hold": to_hold}
    return found


# ---- the command ----

ROWS = {
    "steps": "steps",
    "samples_a_step": "samples a step, of a rank",
    "bytes_a_step": "bytes a step, of a rank",
    "bytes": "bytes",
    "mixing": "mixing (1: full shuffle)",
    "files": "files",
    "files_a_step": "files a step",
    "files_at_once": "files at once, of a rank",
    "reads": "reads",
    "requests": "requests, of a store",
    "requested_bytes": "bytes, of a store",
    "fetches_by_ranks": "file fetches, by ranks",
    "fetches_by_nodes": "file fetches, by nodes",
    "chunks": "chunks",
    "decodes_of_a_chunk": "decodes of a chunk",
    "decoded_bytes_to_hold": "decoded memory, of a rank",
    "read_ahead_bytes": "read-ahead memory, of a node",
    "shared_bytes": "files in use, of a node",
    "names_bytes": "names and index, of a node",
}


def shown(value: Any, name: str) -> str:
    if isinstance(value, list):
        return " - ".join(f"{one:,}" for one in value)
    return _rota.human_bytes(value) if "bytes" in name else f"{value:,}"


def whole(least: int, most: int = 1 << 31) -> Any:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise ValueError
        return int(text)

    number.__name__ = f"number of {least} to {most}"
    return number


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="rota plan", allow_abbrev=False,
        description="What an epoch takes of a dataset, for several settings side by side, and how well each mixes. No sample is read.",
    )
    parser.add_argument("data", metavar="DATA", help="as rota ls has it")
    parser.add_argument("--format", default="auto", help="of the files (auto)")
    parser.add_argument("--batch", type=whole(1), default=256, help="samples of a global batch (256)")
    parser.add_argument("--ranks", type=whole(1, 1 << 16), default=1, help="(1)")
    parser.add_argument("--workers", type=whole(1, 4096), default=1, help="reading threads of a rank (1)")
    parser.add_argument("--node", type=whole(1), default=8, help="ranks of a node (8)")
    parser.add_argument("--decoded-bytes", type=whole(1, 1 << 62), default=1 << 28, help="memory of a rank for decoded chunks (256 MiB)")
    parser.add_argument("--shuffle", default="none,within,block,global", help="one or several of none,within,block,global")
    parser.add_argument("--interleave", type=lambda text: [*map(whole(0), text.split(","))], default=[0], help="shards at a time, one number or several; 0: all (0)")
    parser.add_argument("--shards", type=whole(0), default=0, help="as of a loader; 0: its own choice (0)")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    given = parse(arguments)
    try:
        catalog = Catalog(given.data)
        source = open_source(catalog, given.format)
        settings = [dict(shuffle=s, interleave=i) for s in given.shuffle.split(",") for i in given.interleave]
        plans = [
            plan(
                source, given.batch, ranks=given.ranks, workers=given.workers, node=given.node, shards=given.shards,
                decoded_bytes=given.decoded_bytes, files=len(catalog), **setting,
            ) | {"names_bytes": len(catalog.to_bytes())}  # fmt: skip
            for setting in settings
        ]
    except Error as error:
        print(f"error: {plain(error)}", file=sys.stderr)
        return 2 if isinstance(error, InvalidArgumentError) else 1
    if given.json:
        print(json.dumps([{"setting": setting, **one} for setting, one in zip(settings, plans)], indent=2))
        return 0
    heads = [s["shuffle"] + (f", {s['interleave']} at a time" if s["interleave"] else "") for s in settings]
    rows = [[ROWS[name], *(shown(one[name], name) for one in plans)] for name in ROWS if name in plans[0]]
    print(f"an epoch of {plain(given.data)}: {len(source):,} samples, batches of {given.batch:,}, {given.ranks:,} ranks x {given.workers:,} workers\n")
    print(_rota.table_text([["", *heads], *rows], 1), end="")
    if (looked := plans[0]["looked_at"]) < len(source):
        print(f"\nThe first {looked:,} samples of an epoch were looked at; the rest is taken to be like them.")
    return 0
