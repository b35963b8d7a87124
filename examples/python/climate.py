"""Windows of six hours over months of hourly fields, shuffled within each month, as archives keep these: float32 on a grid
of 0.25 degrees, in deflated chunks of a day. Each chunk is decoded once; h5py decodes one or two for each window.

    python3 climate.py [DAYS_OF_A_MONTH [LATITUDES LONGITUDES]]

The files take 20 MB a day, and are gone when it ends.
"""

import pathlib
import sys
import tempfile
import time

import h5py
import numpy as np
import rota

HOURS = 6  # of a window
MONTHS = 2


def write_month(path, first_day, days, latitudes, longitudes):
    """Temperatures that change slowly, with some noise: as compressible as such fields are."""
    noise = np.random.default_rng(first_day).normal(0, 0.05, (24, latitudes, longitudes)).astype("f4")
    zone = 300 - 0.4 * np.abs(np.linspace(-90, 90, latitudes, dtype="f4"))[:, None]
    with h5py.File(path, "w") as file:
        field = file.create_dataset("t2m", (24 * days, latitudes, longitudes), "f4", chunks=(24, latitudes, longitudes),
                                    compression="gzip", compression_opts=1, shuffle=True)
        for day in range(days):
            hours = np.arange(24, dtype="f4")[:, None, None]
            values = zone + 5 * np.sin(hours / 24 * 2 * np.pi) + 0.1 * (first_day + day) + np.roll(noise, day, axis=2)
            field[24 * day:24 * (day + 1)] = values.round(2)


def read_with_rota(directory, month_bytes):
    """All windows once: the hours of two months have to fit, decoded, and what finds them."""
    hours = rota.open(rota.Catalog(directory, decoded_bytes=2 * month_bytes + (1 << 20)), "hdf5")
    loader = rota.Loader(rota.windows(hours, HOURS), 4, shards="files", interleave=1, shuffle="within", workers=2)
    began, windows, total = time.perf_counter(), 0, 0.0
    for batch in rota.progress(loader):
        windows += len(batch.ids)
        total += float(batch["t2m"][:, 0, 0, 0].sum())  # train on it
    return windows, time.perf_counter() - began, loader.stats["decodes"], total


def read_with_h5py(paths, most_windows):
    """The first of them in the same manner, each as a slice."""
    began = time.perf_counter()
    with h5py.File(paths[0]) as file:
        field = file["t2m"]
        first = np.random.default_rng(0).permutation(len(field) - HOURS + 1)[:most_windows]
        for hour in first:
            field[hour:hour + HOURS]
    return len(first), time.perf_counter() - began


def main(days=4, latitudes=721, longitudes=1440):
    with tempfile.TemporaryDirectory() as directory:
        paths = [pathlib.Path(directory) / f"2024-{month + 1:02}.h5" for month in range(MONTHS)]
        for month, path in enumerate(paths):
            write_month(path, month * days, days, latitudes, longitudes)
        windows, seconds, decodes, total = read_with_rota(directory, 4 * 24 * days * latitudes * longitudes)
        rate = windows / seconds
        print(f"rota:  {windows} windows in {seconds:.1f} s, {rate:.1f} / s; {decodes} decodes of {MONTHS * days} chunks")
        print(f"       mean of their first corners: {total / windows:.2f} K")
        windows, seconds = read_with_h5py(paths, 12)
        print(f"h5py:  {windows / seconds:.1f} windows / s as slices; rota is {rate * seconds / windows:.1f} times as fast")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
