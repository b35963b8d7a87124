"""MosaicML Streaming: the state of rank 0, for all. PyPI's torchvision is for CUDA, and it uses that for its own datasets alone."""

import sys
from types import ModuleType

import numpy as np
import stateful

for name, word in ("torchvision.datasets", "VisionDataset"), ("torchvision.transforms.functional", "to_tensor"):
    sys.modules[name] = ModuleType(name)
    setattr(sys.modules[name], word, object)

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

NAME = "MosaicML Streaming"
PACKAGES = ["torch", "mosaicml-streaming"]
ENVIRONMENT = "torch"


def write(directory, samples, size):
    with MDSWriter(out=str(directory), columns={"id": "int", "data": "ndarray:uint8"}, size_limit="16mb") as writer:
        for id in range(samples):
            writer.write({"id": id, "data": np.zeros(size, np.uint8)})


class Run(stateful.Run):
    def __init__(self, place, states):
        clean_stale_shared_memory()
        own = -(-place.batch // place.ranks)
        dataset = StreamingDataset(local=place.data, batch_size=own, shuffle=True, shuffle_seed=1)
        self.loader = StreamingDataLoader(dataset, batch_size=own, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[0])
