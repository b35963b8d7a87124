"""What peers share: the bytes of samples, files of them that any loader reads, the array that a loop takes, and a run."""

import hashlib
import io
from itertools import islice
from typing import NamedTuple

import numpy as np

SIDE = 224  # of an image, in pixels


class Kind(NamedTuple):
    name: str
    samples: int
    size: int = 0  # bytes of one; 0: JPEG
    is_packed: bool = False  # floats, compressed in a file as its format has it

    def payload(self, id):
        noise = np.frombuffer(hashlib.shake_128(id.to_bytes(8, "little")).digest(self.size or SIDE * SIDE * 3), np.uint8)
        if self.is_packed:
            return np.cumsum(noise[: self.size // 4] % 17 - 8.0, dtype=np.float32).tobytes()
        if self.size:
            return noise.tobytes()
        from PIL import Image
        slopes = np.linspace(0, 200 + id % 40, SIDE, dtype=np.uint8)[:, None, None] + noise.reshape(SIDE, SIDE, 3) % 48
        Image.fromarray(slopes).save(image := io.BytesIO(), "JPEG", quality=85)
        return image.getvalue()

    def shards(self, count):
        """The ids of each."""
        return [range(self.samples * k // count, self.samples * (k + 1) // count) for k in range(count)]


def array(data):
    """Of the bytes of a sample: pixels, where they are a JPEG."""
    if bytes(data[:4]) != b"\xff\xd8\xff\xe0":
        return np.frombuffer(data, np.uint8)
    from PIL import Image
    return np.asarray(Image.open(io.BytesIO(data)))


def write_images(directory, kind):
    for id in range(kind.samples):
        (directory / f"{id:09}.jpg").write_bytes(kind.payload(id))


def write_hdf5(directory, kind):
    """Each row a chunk of its own where it is compressed, for it is read alone."""
    import h5py
    packing = dict(chunks=(1, kind.size // 4), compression="gzip", shuffle=True) if kind.is_packed else {}
    rows = b"".join(map(kind.payload, range(kind.samples)))
    with h5py.File(directory / "samples.h5", "w") as file:
        file["id"] = np.arange(kind.samples)
        file.create_dataset("data", data=np.frombuffer(rows, "f4" if kind.is_packed else "u1").reshape(kind.samples, -1), **packing)


def collate(rows):
    from torch.utils.data import default_collate
    return default_collate([row | {"data": array(row["data"])} for row in rows])


class Rows:
    """Beside a dataset that gives dicts with bytes."""

    def __getitem__(self, i):
        row = super().__getitem__(i)
        return row | {"data": array(row["data"])}


class Run:
    def __iter__(self):
        return iter(self.loader)

    def ids(self, batch):
        return batch["id"].tolist()

    def state(self):
        return self.loader.state_dict()


class Counting(Run):
    """Whose loader has no state, but for the number of steps; that passes over `skip` of them."""

    skip = steps = 0

    def __iter__(self):
        for batch in islice(self.loader, self.skip, None):
            self.steps += 1
            yield batch

    def state(self):
        return self.steps
