"""Data of the workloads of MLPerf Storage 3.0, for `rota speed --generate`: TFRecord files of what looks random."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from rota._communicator import find_world
from rota._errors import Error
from rota._report import plain
from rota._sources import PythonSource, write_shards
from rota._values import Field

# Bytes of a sample, their standard deviation, and samples of a file: of npz, JPEG and Parquet there.
SHAPES = {
    "unet3d": (146_600_628, 68_341_808, 1),
    "retinanet": (322_957, 0, 1),
    "flux": (2_200_000, 0, 288),
    "dlrm": (4096 * 160, 0, 256),  # runs of rows
}


class Samples(list):
    """Each of them is `self[i]` bytes."""

    def __getitem__(self, i: int) -> np.ndarray:  # type: ignore[override]
        size = super().__getitem__(i)
        words = np.resize(MEMORY[: size // 8 + 1], size // 8 + 1)
        # There are storages that keep equal blocks once.
        words[::512] ^= np.arange(len(words[::512]), dtype=np.uint64) + np.uint64(i << 32)
        return words.view(np.uint8)[:size]


MEMORY = np.frombuffer(np.random.default_rng(0).bytes(1 << 26), np.uint64)


def sizes_of(shape: str, size: float) -> list[int]:
    """Of samples of that shape, of about `size` bytes in all."""
    mean, spread, _ = SHAPES[shape]
    drawn = np.random.default_rng(1).normal(mean, spread, max(round(size / mean), 1))
    return drawn.clip(mean // 16).astype(int).tolist()  # type: ignore


def main(arguments: Sequence[str]) -> int:
    shape, to, gib = arguments
    mean, _, per_file = SHAPES[shape]
    samples = PythonSource(Samples(sizes_of(shape, float(gib) * 2**30)), [Field("data", "uint8", (), True)])
    try:
        report = write_shards(samples, to, format="tfrecord", shard_bytes=per_file * (mean + 16), world=find_world())
    except (Error, OSError) as error:
        print(f"error: {plain(error)}", file=sys.stderr)
        return 1
    print(
        f"{plain(to)}: {report.samples:,} samples of {shape}; {report.there:,} of {report.shards:,} files are there, "
        f"{report.bytes:,} bytes"
    )
    return 0
