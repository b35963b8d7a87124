"""WebDataset: it has no state, so a run that goes on passes over as many batches as were done."""

from glob import glob

import base
import webdataset

NAME = "WebDataset"
ENVIRONMENT = "torch"


def write(directory, kind, packed=".tar.gz"):
    for shard, ids in enumerate(kind.shards(40)):
        with webdataset.TarWriter(f"{directory}/{shard:03}{packed if kind.is_packed else '.tar'}") as writer:
            for id in ids:
                writer.write({"__key__": f"{id:09}", "data": kind.payload(id)})


class Run(base.Counting):
    def __init__(self, place, states):
        options = dict(nodesplitter=webdataset.split_by_node, shardshuffle=40, seed=1, empty_check=False)
        dataset = webdataset.WebDataset(sorted(glob(f"{place.data}/*.tar*")), **options)
        dataset = dataset.shuffle(100, seed=1).to_tuple("__key__", "data").map_tuple(str, base.array).batched(place.own)
        self.loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=place.workers)
        self.skip = self.steps = states[0] if states else 0

    def ids(self, batch):
        return [int(key) for key in batch[0]]
