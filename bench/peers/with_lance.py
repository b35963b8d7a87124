"""LanceDB's StreamingDataset: states of all ranks, merged. A split for each sample of a global batch; workers by forkserver."""

import lancedb
import pyarrow as pa
from lancedb.streaming import StreamingDataLoader, StreamingDataset

NAME = "LanceDB"
PACKAGES = ["torch", "lancedb"]
ENVIRONMENT = "lance"




def write(directory, samples, size):
    def rows():
        for begin in range(0, samples, 1024):
            ids = range(begin, min(begin + 1024, samples))
            yield pa.record_batch({"id": pa.array(ids, pa.int64()), "data": pa.array([bytes(size)] * len(ids), pa.binary())})

    schema = pa.schema({"id": pa.int64(), "data": pa.binary()})
    lancedb.connect(str(directory)).create_table("samples", rows(), schema=schema)


class Run:
    def __init__(self, place, states):
        table = lancedb.connect(place.data).open_table("samples")
        self.dataset = StreamingDataset(table, num_splits=place.batch, shuffle_seed=1, rank=place.rank, world_size=place.ranks)
        if states:
            self.dataset.load_state_dict(StreamingDataset.merge_state_dicts(states))
        context = {"multiprocessing_context": "forkserver"} if place.workers else {}
        own = place.batch // place.ranks
        self.loader = StreamingDataLoader(self.dataset, batch_size=own, num_workers=place.workers, **context)

    def __iter__(self):
        return iter(self.loader)

    def ids(self, batch):
        return batch["id"].tolist()

    def state(self):
        return self.dataset.state_dict()
