"""FSDP2 and torch.distributed.checkpoint: torchrun --nproc_per_node=4 with_fsdp.py DIRECTORY; killed, and started again with
any other number."""

import os
import sys

import rota
import rota.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

DATA = torch.arange(96.0).reshape(-1, 1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return (self.layer(x / 100) - x / 50).square().mean()


dist.init_process_group("gloo")
torch.manual_seed(0)
loader = rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 12, seed=1, epochs=3))
model = fully_shard(Model(), mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.SGD(model.parameters(), 0.5)
weights, state = get_state_dict(model, optimizer)
everything = {"model": weights, "optimizer": state, "loader": loader}
saved = sorted((int(name) for name in os.listdir(sys.argv[1]) if name.isdigit() and os.path.exists(f"{sys.argv[1]}/{name}/.metadata")))
if saved:
    dcp.load(everything, checkpoint_id=f"{sys.argv[1]}/{saved[-1]}")
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
for batch in loader:
    model.set_requires_gradient_sync(loader.position.step % 2 == 0)  # an update of two micro-batches
    (model(batch) / 2).backward()
    if loader.position.step % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if loader.position.step % 4 == 0:
        everything["model"], everything["optimizer"] = get_state_dict(model, optimizer)
        dcp.save(everything, checkpoint_id=f"{sys.argv[1]}/{loader.position.step}")
dist.destroy_process_group()
