"""litData: the state of rank 0, for all."""

import base
import numpy as np
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.cache import Cache

NAME = "litData"
ENVIRONMENT = "torch"
NEEDS_GROUP = True


def write(directory, kind):
    made = (lambda data: np.frombuffer(data, np.float32)) if kind.is_packed else bytes  # it cannot read what it packed of bytes
    cache = Cache(str(directory), chunk_bytes=1 << 24, compression="zstd" if kind.is_packed else None)
    for id in range(kind.samples):
        cache[id] = {"id": id, "data": made(kind.payload(id))}
    cache.done()
    cache.merge()


class Rows(base.Rows, StreamingDataset): ...


class Run(base.Run):
    def __init__(self, place, states):
        dataset = Rows(place.data, shuffle=True, seed=1, drop_last=False)
        self.loader = StreamingDataLoader(dataset, batch_size=place.own, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[0])
