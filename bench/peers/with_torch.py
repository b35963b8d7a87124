"""torch's DistributedSampler; a run that goes on skips in the sampler as many steps as were done."""

from itertools import islice

import numpy as np
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

NAME = "DistributedSampler, skipped"
PACKAGES = ["torch"]
ENVIRONMENT = "torch"


def write(directory, samples, size):
    rows = np.zeros(samples, [("id", "i8"), ("data", "u1", (size,))])
    rows["id"] = range(samples)
    np.save(directory / "samples.npy", rows)


class Rows(Dataset):
    def __init__(self, place):
        self.rows = np.load(f"{place.data}/samples.npy", mmap_mode="r")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {"id": int(row["id"]), "data": np.array(row["data"])}


def own_batch(place):
    """The nearest: a batch of all ranks that the world does not divide is another."""
    return -(-place.batch // place.ranks)


class Skipping(BatchSampler):
    skip = 0

    def __iter__(self):
        return islice(super().__iter__(), self.skip, None)


class Run:
    def __init__(self, place, states):
        rows = Rows(place)
        sampler = Skipping(DistributedSampler(rows, place.ranks, place.rank, seed=1), own_batch(place), False)
        sampler.skip = self.steps = states[0] if states else 0
        self.loader = DataLoader(rows, batch_sampler=sampler, num_workers=place.workers)

    def __iter__(self):
        for batch in self.loader:
            self.steps += 1
            yield batch

    def ids(self, batch):
        return batch["id"].tolist()

    def state(self):
        return self.steps
