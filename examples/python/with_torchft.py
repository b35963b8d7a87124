"""torchft: groups that are killed and come back while the others go on, and each sample is trained once an epoch.

    torchft_lighthouse --bind '[::]:29510' --min_replicas 1
    TORCHFT_LIGHTHOUSE=http://localhost:29510 REPLICA_GROUP_ID=0 torchrun --nproc_per_node=1 --master-port=29600 with_torchft.py DIRECTORY

The last line is that of one group: start others with other ids and ports, kill any, and start it again. Each writes to
DIRECTORY the ids that it trained in each committed step, and its weights in the end.
"""

import json
import os
import sys
from datetime import timedelta

import rota
import rota.torch
import torch
import torch.distributed as dist
import torchft
from torchft.manager import WorldSizeMode

DATA = torch.arange(1000.0).reshape(-1, 1)


class Model(torch.nn.Module):
    """Its mean error over a batch."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def forward(self, x):
        return (self.layers(x / 500 - 1) - torch.sin(x / 100)).square().mean()


def train(directory, epochs=3, batch=7, is_async=False, active=None, workers=0):
    group, rank, ranks = (int(os.environ[name]) for name in ("REPLICA_GROUP_ID", "RANK", "WORLD_SIZE"))
    if ranks > 1:
        dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    torch.manual_seed(0)
    model = Model()
    sgd = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def load_state_dict(state):
        model.load_state_dict(state["model"])
        sgd.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        torchft.ProcessGroupGloo(timeout=timedelta(seconds=5)),
        load_state_dict,
        lambda: {"model": model.state_dict(), "optimizer": sgd.state_dict()},  # and none of the loader
        min_replica_size=active or 1,
        world_size_mode=WorldSizeMode.FIXED_WITH_SPARES if active else WorldSizeMode.DYNAMIC,
        use_async_quorum=is_async,  # which gains nothing: who takes part must be known before a batch is drawn
        init_sync=not is_async,  # else all but one sit out the first step, and are counted
        replica_id=f"group_{group}",
        timeout=timedelta(seconds=20),
    )
    optimizer = torchft.Optimizer(manager, sgd)

    def ask():
        optimizer.zero_grad()  # begins the quorum
        manager.wait_quorum()
        place = manager.participating_rank()  # None: a spare, or one that heals beside this step
        return manager.current_step(), None if place is None else place * ranks + rank, manager.num_participants() * ranks

    sampler = rota.ElasticBatchSampler(DATA, batch, seed=1, epochs=epochs, tail="partial", world=(0, 1))
    loader = rota.torch.DataLoader(DATA, sampler, num_workers=workers, persistent_workers=workers > 0)
    members = rota.Members(loader, ask)
    with open(f"{directory}/group{group}.{rank}.jsonl", "a") as log:
        for x in members:
            step = manager.current_step()
            (model(DATA[:1] if x is None else x) * members.weight()).backward()
            for weights in model.parameters():
                if ranks > 1:  # torchft takes the mean over groups alone
                    dist.all_reduce(weights.grad)
                    weights.grad /= ranks
                manager.allreduce(weights.grad).wait()  # on gloo torchft.DistributedDataParallel ends with the dead
            optimizer.step()
            if manager.current_step() > step:  # it was committed
                print(json.dumps({"step": step, "ids": [] if x is None else members.info.ids.tolist()}), file=log, flush=True)
    if is_async:
        manager.should_commit()  # who healed behind the last step takes its weights
    torch.save(model.state_dict(), f"{directory}/group{group}.{rank}.pt")
    manager.shutdown(wait=False)


if __name__ == "__main__":
    train(sys.argv[1])
