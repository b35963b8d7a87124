"""litData: the state of rank 0, for all."""

import numpy as np
import stateful
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming.cache import Cache

NAME = "litData"
PACKAGES = ["torch", "litdata"]
ENVIRONMENT = "torch"
NEEDS_GROUP = True


def write(directory, samples, size):
    cache = Cache(str(directory), chunk_bytes=1 << 24)
    for id in range(samples):
        cache[id] = {"id": id, "data": np.zeros(size, np.uint8)}
    cache.done()
    cache.merge()


class Run(stateful.Run):
    def __init__(self, place, states):
        dataset = StreamingDataset(place.data, shuffle=True, seed=1, drop_last=False)
        own = -(-place.batch // place.ranks)
        self.loader = StreamingDataLoader(dataset, batch_size=own, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[0])
