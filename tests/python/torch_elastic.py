"""A run under torchrun that may be killed in any step: of samples, of streams, or of a dispatch. See test_torchrun.py."""

import argparse
import json
import os
import signal

import numpy as np
import rota
import rota.torch
import torch
import torch.distributed as dist

SAMPLES, BATCH, EPOCHS, TABLE = 180, 16, 2, 37
BAD = 7, 60, 111
SHARDS = 6


class Dataset:
    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        if i in BAD:
            raise rota.CorruptError(f"sample {i} is bad")
        return {"x": i}


class Numbers(rota.Stream):
    """The numbers of a shard of `shards`."""

    fields = {"x": "int64"}

    def __init__(self, shards):
        self.shards = shards

    def open(self, shard, epoch, cursor):
        for i in range(cursor or shard, SAMPLES, self.shards):
            yield {"x": i}, i + self.shards


def make_loader(kind, ranks):
    if kind == "samples":
        source = rota.PythonSource(Dataset(), {"x": "int64"})
        return rota.Loader(source, BATCH, epochs=EPOCHS, seed=5, on_bad_sample="skip", io_retries=0, **ranks)
    stream = Numbers(SHARDS) if kind == "streams" else rota.Dispatch(Numbers(1) if dist.get_rank() == 0 else None, 16)
    return rota.StreamLoader(stream, BATCH, epochs=EPOCHS, **ranks)


class Model:
    """Weights that all have, and a table whose rows are shared out among ranks."""

    def __init__(self, rank, ranks):
        bounds = [TABLE * r // ranks for r in range(ranks + 1)]
        self.begin, self.sizes = bounds[rank], np.diff(bounds).tolist()
        self.weights, self.rows = torch.zeros(3, dtype=torch.float64), torch.zeros(self.sizes[rank], 2, dtype=torch.float64)

    def states(self):
        return {"model/weights": self.weights, "model/table": rota.Rows(self.rows)}

    def restore(self, checkpoint):
        self.weights = torch.from_numpy(checkpoint["model/weights"])
        self.rows = torch.from_numpy(checkpoint["model/table"][self.begin : self.begin + len(self.rows)].copy())

    def table(self):
        whole = torch.zeros(TABLE, 2, dtype=torch.float64)
        whole[self.begin : self.begin + len(self.rows)] = self.rows
        dist.all_reduce(whole)
        return whole

    def step(self, x):
        """The loss of the global batch, of which this rank has the samples `x`."""
        features = torch.stack([torch.ones(len(x)), x / SAMPLES, (x / SAMPLES) ** 2], 1).double()
        table, weights = self.table().requires_grad_(), self.weights.clone().requires_grad_()
        errors = features @ weights + table[x % TABLE].sum(1) - torch.sin(x.double())
        errors.square().sum().backward()
        sums = torch.cat([weights.grad, table.grad.flatten(), errors.detach().square().sum()[None], torch.tensor([1.0 * len(x)])])
        dist.all_reduce(sums)
        sums /= sums[-1].clone()
        self.weights -= 0.1 * sums[:3]
        self.rows -= 0.1 * sums[3:-2].view(TABLE, 2)[self.begin : self.begin + len(self.rows)]
        return sums[-2].item()


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("kind", choices=["samples", "streams", "dispatch"])
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--save", choices=["save", "save_async"], default="save")
    parser.add_argument("--left-out", action="store_true", help="comm= is left out wherever it may be")
    parser.add_argument("--stop-after", type=int)
    parser.add_argument("--kill", type=int, nargs=2, metavar=("RANK", "STEP"))
    return parser.parse_args()


def main():
    options = parse()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    comm = rota.torch.Communicator(deadline=60)
    ranks = {} if options.left_out else {"comm": comm}
    loader, model = make_loader(options.kind, ranks), Model(rank, size)
    where = options.directory + "/checkpoints"
    checkpoints = rota.CheckpointDirectory(where) if options.left_out else rota.CheckpointDirectory(comm, where, deadline=60)
    checkpoint = checkpoints.restore({"loader": loader})
    if checkpoint is not None:
        model.restore(checkpoint)
    trace = rota.TraceWriter(options.directory + "/traces", loader, comm=comm)
    history = open(f"{options.directory}/history.{rank}", "a")

    def save(step):
        getattr(checkpoints, options.save)(step, {"loader": loader}, model.states())

    for batch in loader:
        step = batch.start.step
        if options.kill == [rank, step]:
            os.kill(os.getpid(), signal.SIGKILL)
        trace.write(batch)
        loss = model.step(torch.from_numpy(batch["x"][batch.mask]))
        print(json.dumps({"step": step, "ranks": size, "loss": loss}), file=history, flush=True)
        checkpoints.poll()
        if (step + 1) % options.every == options.every - 1:
            checkpoints.wait()  # so that a kill finds the checkpoint before
        if (step + 1) % options.every == 0:
            save(step + 1)
        if step + 1 == options.stop_after:
            break
    trace.end()
    save(loader.position.step)
    checkpoints.close()


if __name__ == "__main__":
    main()
