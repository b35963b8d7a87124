"""transformers: torchrun --nproc_per_node=4 with_transformers.py DIRECTORY; killed, and started again with any other number."""

import sys

import rota
import rota.torch
import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

DATA = [{"x": torch.tensor([float(i)])} for i in range(96)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x):
        return {"loss": (self.layer(x / 100) - x / 50).square().mean()}


class ElasticTrainer(transformers.Trainer):
    def get_train_dataloader(self):
        sampler = rota.ElasticBatchSampler(self.train_dataset, 12, tail="drop", seed=1)  # 12: a micro-batch of all ranks
        return rota.torch.DataLoader(self.train_dataset, sampler, collate_fn=self.data_collator)


options = transformers.TrainingArguments(
    sys.argv[1], num_train_epochs=3, gradient_accumulation_steps=2, save_steps=2, use_cpu=True, report_to=[], learning_rate=0.5,
    optim="sgd", lr_scheduler_type="constant",
)
transformers.set_seed(0)
trainer = ElasticTrainer(Model(), options, train_dataset=DATA)
trainer.train(resume_from_checkpoint=get_last_checkpoint(sys.argv[1]))
