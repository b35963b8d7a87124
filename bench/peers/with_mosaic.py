"""MosaicML Streaming: the state of rank 0, for all. PyPI's torchvision is for CUDA, and it uses that for its own datasets alone."""

import sys
from types import ModuleType

import base

for name, word in ("torchvision.datasets", "VisionDataset"), ("torchvision.transforms.functional", "to_tensor"):
    setattr(sys.modules.setdefault(name, ModuleType(name)), word, object)

from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

NAME = "MosaicML Streaming"
ENVIRONMENT = "torch"
NEEDS_GROUP = True  # or it makes one for each call, and ends it


def write(directory, kind):
    options = dict(columns={"id": "int", "data": "bytes"}, size_limit="16mb", compression="zstd" if kind.is_packed else None)
    with MDSWriter(out=str(directory), **options) as writer:
        for id in range(kind.samples):
            writer.write({"id": id, "data": kind.payload(id)})


class Rows(base.Rows, StreamingDataset): ...


class Run(base.Run):
    def __init__(self, place, states):
        clean_stale_shared_memory()
        dataset = Rows(local=place.data, batch_size=place.own, shuffle=True, shuffle_seed=1)
        self.loader = StreamingDataLoader(dataset, batch_size=place.own, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[0])
