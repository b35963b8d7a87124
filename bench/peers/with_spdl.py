"""SPDL: a pipeline of threads over rows, a batch at a time. It has no state."""

import base
import numpy as np
import with_torch
from spdl.pipeline import PipelineBuilder
from torch.utils.data import default_collate

NAME = "SPDL"
ENVIRONMENT = "torch"
write = with_torch.write


class Run(base.Run):
    def __init__(self, place, states):
        assert not states, "it has no state"
        self.rows, self.place = with_torch.Rows(place), place

    def __iter__(self):
        order, own = np.random.default_rng(1).permutation(len(self.rows))[self.place.rank :: self.place.ranks], self.place.own
        builder = PipelineBuilder().add_source(order[i : i + own].tolist() for i in range(0, len(order), own))
        builder = builder.pipe(self.batch, concurrency=self.place.workers or 1).add_sink(4)
        pipeline = builder.build(num_threads=self.place.workers or 1)
        with pipeline.auto_stop():
            yield from pipeline

    def batch(self, order):
        return default_collate([self.rows[i] for i in order])

    def state(self): ...
