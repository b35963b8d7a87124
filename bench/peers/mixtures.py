"""35 datasets mixed, on 1 and on 64 ranks of one process: threads, memory and time, beside Grain's IterDataset.mix.

    ./run bench peers mixtures

Each dataset is an array of 20,000 rows of 1 KiB in a file of its own; a rank has 16 samples of each step. Grain is as its page on
mixing has it, with the threads that it takes by itself, and with one to a dataset. Of 64 ranks it would need more threads than a
process may have, so it runs on 1 and on 4."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

DATASETS, ROWS, WIDTH, BATCH, STEPS = 35, 20_000, 256, 16, 50
WEIGHTS = [1 + d % 7 for d in range(DATASETS)]
PINS = ["grain==0.2.18", "numpy==2.1.3"]
CASES = [("rota", 1), ("rota", 64), ("grain", 1), ("grain", 4), ("grain, one thread each", 1), ("grain, one thread each", 4)]


def rota_ranks(files, ranks):
    import rota
    for rank in range(ranks):
        sources = {os.path.basename(file): rota.open(file, "npy") for file in files}
        mixture = rota.Mixture(sources, WEIGHTS, "steps", 10**6)
        yield iter(rota.Loader(mixture, BATCH * ranks, world=(rank, ranks), workers=1, epochs=None, read_ahead_batches=2))


def grain_ranks(files, ranks, options):
    import grain
    read = grain.ReadOptions(*options) if options else None
    for rank in range(ranks):
        parts = [grain.MapDataset.source(np.load(file, mmap_mode="r")).seed(d).shuffle()[rank::ranks].repeat() for d, file in enumerate(files)]
        parts = [part.to_iter_dataset(read) if read else part.to_iter_dataset() for part in parts]
        yield iter(grain.IterDataset.mix(parts, WEIGHTS).batch(BATCH))


def memory():
    """MiB of this process's own, without pages of files."""
    with open("/proc/self/status") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1]) / 1024


def measure(case, ranks, directory):
    files = [f"{directory}/{d}.npy" for d in range(DATASETS)]
    before, begun = memory(), time.monotonic()
    loaders = [*(rota_ranks(files, ranks) if case == "rota" else grain_ranks(files, ranks, (1, 2) if "," in case else None))]
    for loader in loaders:
        next(loader)
    first, begun = time.monotonic() - begun, time.monotonic()
    for _ in range(STEPS):
        for loader in loaders:
            next(loader)
    took = time.monotonic() - begun
    threads = len(os.listdir("/proc/self/task")) - 1
    print(json.dumps([threads, (memory() - before) / ranks, first, STEPS * ranks * BATCH / took]), flush=True)
    os._exit(0)  # threads of others are not waited for


def main():
    with tempfile.TemporaryDirectory() as directory:
        for d in range(DATASETS):
            np.save(f"{directory}/{d}.npy", np.random.default_rng(d).integers(0, 1000, (ROWS, WIDTH), np.int32))
        print(f"{DATASETS} datasets mixed\n\n{'':24} ranks  threads  threads a rank  MiB a rank  first step  samples/s")
        for case, ranks in CASES:
            ran = subprocess.run([sys.executable, __file__, case, str(ranks), directory], capture_output=True, text=True, timeout=600)
            if ran.returncode:
                sys.exit(f"{case}: {ran.stderr[-2000:]}")
            threads, own, first, speed = json.loads(ran.stdout.splitlines()[-1])
            print(f"{case:24} {ranks:5}  {threads:7,}  {threads / ranks:14.1f}  {own:10.1f}  {first:8.2f} s  {speed:9,.0f}")


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])
