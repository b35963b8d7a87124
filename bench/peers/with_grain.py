"""Grain's ElasticIterator, over what .shuffle().repeat() makes: the state of any rank, for all. It never ends: what is of the
next epoch, by its place in the order, is left out."""

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


class Run(base.Run):
    def __init__(self, place, states):
        self.place, self.size = place, place.own * place.ranks
        rows = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(f"{place.data}/samples.array_record")).shuffle(seed=1)
        workers, reading = grain.MultiprocessingOptions(num_workers=place.workers) if place.workers else None, grain.ReadOptions(1, 2)
        self.samples, shard = len(rows), grain.sharding.ShardOptions(shard_index=place.rank, shard_count=place.ranks)
        if place.seconds:  # its usual way
            self.loader = rows[place.rank :: place.ranks].map(decoded).batch(place.own).to_iter_dataset(reading).mp_prefetch(workers)
        else:
            self.loader = grain.experimental.ElasticIterator(rows.repeat().map(decoded), self.size, shard, read_options=reading, multiprocessing_options=workers)
        self.batches = iter(self.loader)
        if states:
            self.batches.set_state(states[0])

    def __iter__(self):
        for batch in self.batches:
            yield batch
            if not self.place.seconds and self.next_index() >= self.samples:
                return

    def next_index(self):
        return self.state()["global_next_index"]

    def ids(self, batch):
        if self.place.seconds:
            return batch["id"].tolist()
        first = self.next_index() - self.size + self.place.rank
        return [int(id) for slot, id in enumerate(batch["id"]) if first + slot * self.place.ranks < self.samples]

    def state(self):
        return self.batches.get_state()
