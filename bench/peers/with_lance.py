"""LanceDB's StreamingDataset: states of all ranks, merged. A split for each sample of a global batch; workers by forkserver."""

from itertools import islice

import base
import lancedb
import pyarrow as pa
from lancedb.streaming import StreamingDataLoader, StreamingDataset

NAME = "LanceDB"
ENVIRONMENT = "lance"


def write(directory, kind):
    ids = range(kind.samples)
    columns = {"id": pa.array(ids, pa.int64()), "data": pa.array(map(kind.payload, ids), pa.binary())}
    lancedb.connect(str(directory)).create_table("samples", pa.table(columns))


class Run(base.Run):
    def __init__(self, place, states):
        table = lancedb.connect(place.data).open_table("samples")
        workers = place.workers or 1
        self.parts, splits = (1, workers) if place.seconds else (workers, place.batch)  # whose batches make a step
        self.dataset = StreamingDataset(table, num_splits=splits, shuffle_seed=1, rank=place.rank, world_size=place.ranks)
        if states:
            self.dataset.load_state_dict(StreamingDataset.merge_state_dicts(states))
        options = dict(multiprocessing_context="forkserver" if place.workers else None, num_workers=place.workers, collate_fn=base.collate)
        self.loader = StreamingDataLoader(self.dataset, place.own // self.parts, **options)

    def __iter__(self):
        batches = iter(self.loader)
        while step := list(islice(batches, self.parts)):
            yield step

    def ids(self, step):
        return [id for batch in step for id in batch["id"].tolist()]

    def state(self):
        return self.dataset.state_dict()
