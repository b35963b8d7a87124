"""Hugging Face datasets, as a stream of Parquet files, split by rank, in torchdata's StatefulDataLoader, as its pages say."""

import pyarrow as pa
import pyarrow.parquet
import stateful
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torchdata.stateful_dataloader import StatefulDataLoader

NAME = "Hugging Face datasets"
PACKAGES = ["torch", "datasets", "torchdata"]
ENVIRONMENT = "datasets"
SHARDS = 80


def write(directory, samples, size):
    for shard in range(SHARDS):
        ids = range(samples * shard // SHARDS, samples * (shard + 1) // SHARDS)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "data": pa.array([bytes(size)] * len(ids), pa.binary())})
        pyarrow.parquet.write_table(rows, directory / f"{shard:03}.parquet")


class Run(stateful.Run):
    def __init__(self, place, states):
        stream = load_dataset("parquet", data_files=f"{place.data}/*.parquet", split="train", streaming=True)
        stream = split_dataset_by_node(stream.shuffle(seed=1, buffer_size=100, max_buffer_input_shards=1), place.rank, place.ranks)
        self.loader = StatefulDataLoader(stream, -(-place.batch // place.ranks), num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[place.rank % len(states)])
