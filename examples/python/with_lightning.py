"""Lightning: torchrun --nproc_per_node=4 with_lightning.py DIRECTORY; killed, and started again with any other number."""

import os
import pathlib
import sys

import lightning
import rota
import rota.lightning
import rota.torch
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

DATA = torch.arange(96.0).reshape(-1, 1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return (self.layer(x / 100) - x / 50).square().mean()


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def train_dataloader(self):
        return rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 12, seed=1))  # 12: a micro-batch of all ranks

    def val_dataloader(self):  # begins anew each time; each sample once, of ranks with other numbers of them
        return rota.torch.DataLoader(DATA[:34], rota.ElasticBatchSampler(34, 12, evaluation=True, tail="partial"))

    def validation_step(self, batch, number):
        self.log("validation", self.model(batch), sync_dist=True)

    def training_step(self, batch, number):
        return self.model(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.5)


directory = pathlib.Path(sys.argv[1])
torch.manual_seed(0)
keep = ModelCheckpoint(directory, save_last=True, every_n_train_steps=2)  # of two micro-batches each
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)), strategy="ddp",
    accumulate_grad_batches=2, callbacks=[keep, rota.lightning.Elastic()], logger=False,
)
trainer.fit(Module(), ckpt_path="last", weights_only=False)
