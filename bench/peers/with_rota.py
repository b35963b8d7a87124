"""rota.Loader."""

from glob import glob

import base
import rota

NAME = "rota.Loader"
ENVIRONMENT = "torch"


def write(directory, kind):
    (base.write_hdf5 if kind.size else base.write_images)(directory, kind)


def decoded(sample):
    return {"data": base.array(sample["data"])}


class Run(base.Run):
    def __init__(self, place, states):
        options = dict(world=(place.rank, place.ranks), workers=place.workers, seed=1, tail="pad", epochs=1000 if place.seconds else 1)
        if glob(f"{place.data}/*.jpg"):
            options |= dict(transform=decoded, transform_fields={"data": ("uint8", (base.SIDE, base.SIDE, 3))})
        source = rota.open(rota.Catalog(place.data, decoded_bytes=0))  # or later epochs would find rows unpacked
        self.loader = rota.Loader(source, place.batch, **options)
        if states:
            self.loader.load_state_dict(states[0])

    def ids(self, batch):
        return [id if counts else None for id, counts in zip((batch["id"] if "id" in batch else batch.ids).tolist(), batch.mask.tolist())]
