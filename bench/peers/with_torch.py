"""torch's DistributedSampler; a run that goes on skips in the sampler as many samples as were done."""

import os
from itertools import islice
from pathlib import Path

import base
import h5py
import numpy as np
from torch.utils.data import DataLoader, Dataset, DistributedSampler

NAME = "DistributedSampler, skipped"
ENVIRONMENT = "torch"


def write(directory, kind):
    if not kind.size:
        base.write_images(directory, kind)
    elif kind.is_packed:
        base.write_hdf5(directory, kind)
    else:
        rows = ((id, np.frombuffer(kind.payload(id), np.uint8)) for id in range(kind.samples))
        np.save(directory / "samples.npy", np.fromiter(rows, [("id", "i8"), ("data", "u1", (kind.size,))], kind.samples))


class Rows(Dataset):
    """Of one of these, which workers open anew."""

    def __init__(self, place):
        self.place, self.images, self.packed = place, sorted(Path(place.data).glob("*.jpg")), None
        self.rows = np.load(f"{place.data}/samples.npy", mmap_mode="r") if Path(f"{place.data}/samples.npy").exists() else None
        self.length = len(self.images) or len(self.rows if self.rows is not None else self.open())

    def open(self):
        if self.packed is None or self.owner != os.getpid():
            self.packed, self.owner = h5py.File(f"{self.place.data}/samples.h5")["data"], os.getpid()
        return self.packed

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if self.images:
            return {"id": i, "data": base.array(self.images[i].read_bytes())}
        if self.rows is None:
            return {"id": i, "data": self.open()[i]}
        row = self.rows[i]
        return {"id": int(row["id"]), "data": np.array(row["data"])}


class Skipping(DistributedSampler):
    skip = 0

    def __iter__(self):
        return islice(super().__iter__(), self.skip, None)


class Run(base.Counting):
    def __init__(self, place, states):
        rows = Rows(place)
        sampler = Skipping(rows, place.ranks, place.rank, seed=1)
        self.done, self.size = states[0] if states else 0, place.own * place.ranks
        sampler.skip = self.done // place.ranks
        self.loader = DataLoader(rows, place.own, sampler=sampler, num_workers=place.workers)

    def state(self):
        return self.done + self.steps * self.size
