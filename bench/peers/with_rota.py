"""rota.Loader."""

import h5py
import numpy as np

import rota

NAME = "rota.Loader"
PACKAGES = ["rota", "h5py"]
ENVIRONMENT = "torch"


def write(directory, samples, size):
    with h5py.File(directory / "samples.h5", "w") as file:
        file["id"] = np.arange(samples)
        file["data"] = np.zeros((samples, size), np.uint8)


class Run:
    def __init__(self, place, states):
        self.loader = rota.Loader(
            rota.open(f"{place.data}/samples.h5"), place.batch, world=(place.rank, place.ranks), workers=place.workers, seed=1, tail="pad"
        )
        if states:
            self.loader.load_state_dict(states[0])

    def __iter__(self):
        return iter(self.loader)

    def ids(self, batch):
        return [id if counts else None for id, counts in zip(batch["id"].tolist(), batch.mask.tolist())]

    def state(self):
        return self.loader.state_dict()
