"""rota.ElasticBatchSampler, in rota.torch.DataLoader, over a dataset of Python's."""

import base
import rota
import rota.torch
import with_torch

NAME = "rota's sampler"
ENVIRONMENT = "torch"
write = with_torch.write


class Run(base.Run):
    def __init__(self, place, states):
        rows = with_torch.Rows(place)
        sampler = rota.ElasticBatchSampler(rows, place.batch, world=(place.rank, place.ranks), seed=1, tail="pad")
        self.loader = rota.torch.DataLoader(rows, sampler, num_workers=place.workers)
        if states:
            self.loader.load_state_dict(states[0])

    def ids(self, batch):
        return [id if counts else None for id, counts in zip(batch["id"].tolist(), self.loader.info.mask.tolist())]
