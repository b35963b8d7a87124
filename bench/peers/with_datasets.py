"""Hugging Face datasets, as a stream of Parquet files, split by rank, in torchdata's StatefulDataLoader, as its pages say."""

import pyarrow as pa
import pyarrow.parquet
import base
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torchdata.stateful_dataloader import StatefulDataLoader

NAME = "Hugging Face datasets"
ENVIRONMENT = "datasets"


def write(directory, kind):
    for shard, ids in enumerate(kind.shards(80)):
        rows = pa.table({"id": pa.array(ids, pa.int64()), "data": pa.array(map(kind.payload, ids), pa.binary())})
        pyarrow.parquet.write_table(rows, directory / f"{shard:03}.parquet", compression="zstd" if kind.is_packed else "none")


class Run(base.Run):
    def __init__(self, place, states):
        stream = load_dataset("parquet", data_files=f"{place.data}/*.parquet", split="train", streaming=True)
        stream = split_dataset_by_node(stream.shuffle(seed=1, buffer_size=100, max_buffer_input_shards=1), place.rank, place.ranks)
        self.loader = StatefulDataLoader(stream, place.own, num_workers=place.workers, collate_fn=base.collate)
        if states:
            self.loader.load_state_dict(states[place.rank % len(states)])
