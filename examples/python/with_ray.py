"""Ray Train 2.60: python with_ray.py DIRECTORY; two to four workers, as many as the cluster has room for. When one is lost, or there is
room for more, Ray begins anew from the last checkpoint, and each sample is trained once an epoch in what the checkpoints kept."""

import os
import sys
import tempfile

import ray.train
import ray.train.torch
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


def train(options):
    torch.manual_seed(0)
    sampler = rota.ElasticBatchSampler(DATA, 12, seed=1, epochs=3)  # its ranks are those of the process group that Ray has begun
    loader = rota.torch.DataLoader(DATA, sampler)
    model = ray.train.torch.prepare_model(Model())
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    everything = {"model": model, "optimizer": optimizer, "loader": loader}
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as directory:
            for name, state in torch.load(os.path.join(directory, "state.pt"), weights_only=True).items():
                everything[name].load_state_dict(state)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        if loader.position.step % 4 == 0:
            with tempfile.TemporaryDirectory() as directory:
                kept = None
                if ray.train.get_context().get_world_rank() == 0:  # the loader's state is the same on all
                    torch.save({name: one.state_dict() for name, one in everything.items()}, os.path.join(directory, "state.pt"))
                    kept = ray.train.Checkpoint.from_directory(directory)
                ray.train.report({"step": loader.position.step}, checkpoint=kept)


def fit(directory, loop=train, **scaling):
    return ray.train.torch.TorchTrainer(
        loop,
        scaling_config=ray.train.ScalingConfig(num_workers=(2, 4), **scaling),
        run_config=ray.train.RunConfig(
            storage_path=directory, name="run", failure_config=ray.train.FailureConfig(max_failures=3)
        ),
    ).fit()


if __name__ == "__main__":
    fit(os.path.abspath(sys.argv[1]))
