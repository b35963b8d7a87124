"""Lightning's Fabric: torchrun --nproc_per_node=4 with_fabric.py DIRECTORY; killed, and started again with any other number."""

import os
import sys

import lightning
import rota
import rota.torch
import torch

DATA = torch.arange(96.0).reshape(-1, 1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return (self.layer(x / 100) - x / 50).square().mean()


path = os.path.join(sys.argv[1], "checkpoint")
fabric = lightning.Fabric(accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)), strategy="ddp")
fabric.launch()
torch.manual_seed(0)
model = Model()
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.5))
loader = rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 12, seed=1, epochs=3))
valid = rota.torch.DataLoader(DATA[:34], rota.ElasticBatchSampler(34, 12, evaluation=True, tail="partial"))  # each sample once
everything = {"model": model, "optimizer": optimizer, "loader": loader}
if os.path.exists(path):
    fabric.load(path, everything)
for batch in fabric.setup_dataloaders(loader):
    is_update = loader.position.step % 2 == 0  # of two micro-batches
    with fabric.no_backward_sync(model, enabled=not is_update):
        fabric.backward(model(batch) / 2)
    if is_update:
        optimizer.step()
        optimizer.zero_grad()
    if loader.position.step % 4 == 0:
        fabric.save(path, everything)
    if loader.position.consumed == 0:  # an epoch is over
        model.eval()
        with torch.no_grad():
            error = sum(model(batch) * len(batch) for batch in fabric.setup_dataloaders(valid))
        fabric.print("validation:", (fabric.all_reduce(error, reduce_op="sum") / 34).item())
        model.train()
