"""A data-parallel training run that may be killed at any step, and goes on with any other number of processes.

    torchrun --nproc_per_node=4 train_torch.py --checkpoint run.pt
    torchrun --nproc_per_node=3 train_torch.py --checkpoint run.pt     # goes on, with the same losses
"""

import argparse
import json
import os
import signal

import rota
import rota.torch
import torch
import torch.distributed as dist


class Noisy(torch.utils.data.Dataset):
    """Points of a curve, with noise that is drawn anew in each epoch."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        x = torch.tensor([i / self.samples * 6 - 3], dtype=torch.float64)
        return x, torch.sin(x) + 0.1 * torch.randn(1, dtype=torch.float64)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="where the run is kept, by rank 0")
    parser.add_argument("--every", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="torch's worker processes of each rank")
    parser.add_argument("--stop-after", type=int, help="stops in order after this step")
    parser.add_argument("--kill", type=int, nargs=2, metavar=("RANK", "STEP"), help="this rank dies in this step")
    parser.add_argument("--history", help="a file for each rank: the loss of each step, and the samples that it read")
    return parser.parse_args()


def save(path, **states):
    torch.save(states, path + ".new")
    os.replace(path + ".new", path)  # the checkpoint before it, or this one; never half of it


def train(options, total):
    """`total` is where the ranks sum up their losses."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)

    dataset = rota.torch.seeded(Noisy(200))
    sampler = rota.ElasticBatchSampler(dataset, global_batch_size=24, seed=1, epochs=options.epochs)
    loader = rota.torch.DataLoader(dataset, sampler, num_workers=options.workers)
    net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    if os.path.exists(options.checkpoint):
        states = torch.load(options.checkpoint)
        model.load_state_dict(states["model"])
        optimizer.load_state_dict(states["optimizer"])
        loader.load_state_dict(states["loader"])

    def checkpoint():
        if rank == 0:
            save(
                options.checkpoint,
                model=model.state_dict(),
                optimizer=optimizer.state_dict(),
                loader=loader.state_dict(),
            )

    stop = rota.torch.StopSignal()  # a cluster ends the job, or is about to
    history = open(f"{options.history}.{rank}", "a") if options.history else None
    for x, y in rota.progress(loader):  # which shows how far it is
        info = loader.info
        if options.kill == [rank, info.step]:
            os.kill(os.getpid(), signal.SIGKILL)
        # The mean over the global batch, wherever its samples are. DDP takes the mean over ranks.
        loss = ((model(x) - y).square().squeeze(1) * info.mask).sum() / info.global_real
        optimizer.zero_grad()
        (loss * ranks).backward()
        optimizer.step()

        total.copy_(loss.detach())
        dist.all_reduce(total)
        if rank == 0 and info.step % 10 == 0:
            print(f"step {info.step}, epoch {info.start.epoch}: loss {total.item():.6f} with {ranks} ranks", flush=True)
        if history:
            seen = [[int(e), int(i)] for e, i, counts in zip(info.epochs, info.ids, info.mask) if counts]
            print(json.dumps({"step": info.step, "loss": total.item(), "seen": seen}), file=history, flush=True)
        if loader.position.step % options.every == 0:
            checkpoint()
        if stop.requested() or loader.position.step == options.stop_after:
            break
    checkpoint()


def main():
    options = parse()
    dist.init_process_group("gloo")
    # What the last collective has in hand outlives the group: gloo's thread would want Python's lock to drop it last.
    total = torch.zeros((), dtype=torch.float64)
    train(options, total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
