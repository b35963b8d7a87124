"""Hugging Face datasets: Parquet as a stream, split by rank, in torchdata's loader; no state has a shuffle buffer."""

import base
import pyarrow as pa
import pyarrow.parquet
from datasets import load_dataset
from datasets.distributed import split_dataset_by_node
from torchdata.stateful_dataloader import StatefulDataLoader

NAME = "Hugging Face datasets"
ENVIRONMENT = "datasets"


def write(directory, kind):
    for shard, ids in enumerate(kind.shards(240)):
        rows = pa.table({"id": pa.array(ids, pa.int64()), "data": pa.array(map(kind.payload, ids), pa.binary())})
        pyarrow.parquet.write_table(rows, directory / f"{shard:03}.parquet", compression="zstd" if kind.is_packed else "none")


class Run(base.Run):
    def __init__(self, place, states):
        stream = load_dataset("parquet", data_files=f"{place.data}/*.parquet", split="train", streaming=True)
        stream = split_dataset_by_node(stream.shuffle(seed=1, buffer_size=100 if place.seconds else 1, max_buffer_input_shards=1), place.rank, place.ranks)
        self.loader = StatefulDataLoader(stream, place.own, num_workers=place.workers, collate_fn=base.collate)
        if states:
            self.loader.load_state_dict(states[place.rank % len(states)])
