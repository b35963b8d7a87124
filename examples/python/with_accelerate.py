"""Accelerate: torchrun --nproc_per_node=4 with_accelerate.py DIRECTORY; killed, and started again with any other number."""

import os
import sys

import accelerate
import rota
import rota.accelerate
import torch

DATA = torch.arange(96.0).reshape(-1, 1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return (self.layer(x / 100) - x / 50).square().mean()


checkpoint = os.path.join(sys.argv[1], "checkpoint")
torch.manual_seed(0)
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
valid = rota.accelerate.DataLoader(DATA[:34], rota.ElasticBatchSampler(34, 12, evaluation=True, shuffle="none"))
loader = rota.accelerate.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 12, seed=1))  # 12: a micro-batch of all ranks
model = Model()
model, optimizer, loader, valid = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.5), loader, valid)
if os.path.exists(checkpoint):
    accelerator.load_state(checkpoint)
for epoch in range(loader.position.epoch, 3):
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch))
            optimizer.step()
            optimizer.zero_grad()
        if loader.position.step % 4 == 0:
            accelerator.save_state(checkpoint + ".new")
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                os.path.exists(checkpoint) and os.rename(checkpoint, f"{checkpoint}.{loader.position.step}")
                os.rename(checkpoint + ".new", checkpoint)
            accelerator.wait_for_everyone()
    seen = torch.cat([accelerator.gather_for_metrics(batch) for batch in valid])
    assert seen.equal(DATA[:34]), "each sample once: pads are left out"
accelerator.end_training()
