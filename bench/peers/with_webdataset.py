"""WebDataset: it has no state, so a run that goes on passes over as many batches as were done."""

from itertools import islice

import webdataset

NAME = "WebDataset"
PACKAGES = ["torch", "webdataset"]
ENVIRONMENT = "torch"
NEEDS_GROUP = True
SHARDS = 40


def write(directory, samples, size):
    for shard in range(SHARDS):
        with webdataset.TarWriter(f"{directory}/{shard:03}.tar") as writer:
            for id in range(samples * shard // SHARDS, samples * (shard + 1) // SHARDS):
                writer.write({"__key__": f"{id:09}", "data": bytes(size)})


class Run:
    def __init__(self, place, states):
        shards = f"{place.data}/{{000..{SHARDS - 1:03}}}.tar"
        dataset = webdataset.WebDataset(shards, nodesplitter=webdataset.split_by_node, shardshuffle=SHARDS, seed=1, empty_check=False)
        dataset = dataset.shuffle(100, seed=1).to_tuple("__key__", "data").batched(-(-place.batch // place.ranks))
        self.loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=place.workers)
        self.steps = states[0] if states else 0

    def __iter__(self):
        for batch in islice(self.loader, self.steps, None):
            self.steps += 1
            yield batch

    def ids(self, batch):
        return [int(key) for key in batch[0]]

    def state(self):
        return self.steps
