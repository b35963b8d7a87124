"""Grain's ElasticIterator, over what .shuffle().repeat() makes: the state of any rank, for all.

It never ends: what is of the next epoch, by its place in the order, is left out."""

import base
import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

NAME = "Grain"
ENVIRONMENT = "torch"


def write(directory, kind):
    writer = ArrayRecordWriter(f"{directory}/samples.array_record", "group_size:1,zstd:3" if kind.is_packed else "group_size:1,uncompressed")
    for id in range(kind.samples):
        writer.write(id.to_bytes(8, "little") + kind.payload(id))
    writer.close()


def decoded(record):
    return {"id": np.int64(int.from_bytes(record[:8], "little")), "data": base.array(record[8:])}


class Run:
    def __init__(self, place, states):
        from grain.experimental import ElasticIterator

        source = grain.sources.ArrayRecordDataSource(f"{place.data}/samples.array_record")
        dataset = grain.MapDataset.source(source).shuffle(seed=1).repeat().map(decoded)
        workers = grain.MultiprocessingOptions(num_workers=place.workers) if place.workers else None
        shard = grain.sharding.ShardOptions(shard_index=place.rank, shard_count=place.ranks)
        self.place, self.samples = place, len(source)
        self.iterator = iter(ElasticIterator(dataset, place.batch, shard, multiprocessing_options=workers))
        if states:
            self.iterator.set_state(states[0])

    def __iter__(self):
        while self.begin() < self.samples:
            yield next(self.iterator)

    def begin(self):
        """Of the next batch of all ranks."""
        return self.iterator.get_state()["global_next_index"]

    def ids(self, batch):
        first = self.begin() - self.place.batch + self.place.rank
        return [int(id) for slot, id in enumerate(batch["id"]) if first + slot * self.place.ranks < self.samples]

    def state(self):
        return self.iterator.get_state()
