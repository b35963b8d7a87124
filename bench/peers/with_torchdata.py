"""torchdata's StatefulDataLoader with its StatefulDistributedSampler: each rank takes a state of the old run."""

import base
import with_torch
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

NAME = "torchdata"
ENVIRONMENT = "torch"
write = with_torch.write


class Run(base.Run):
    def __init__(self, place, states):
        rows = with_torch.Rows(place)
        sampler = StatefulDistributedSampler(rows, place.ranks, place.rank, seed=1)
        self.loader = StatefulDataLoader(rows, place.own, sampler=sampler, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[place.rank % len(states)])
