"""What ranks do together over gloo, beside the same over MPI, in turns.

    PYTHONPATH=build/release/python python3 bench/python/bench_ranks.py [RANKS...]

Python needs torch and mpi4py: that of `./run setup --torch` has both, with a module that was built for it. Ratios are what to
look at: machines are noisy.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS = int(os.environ.get("ROUNDS", 5))
STEPS, SAMPLES, MEBIBYTES = 500, 100_000, 256
WHAT = {
    "agree": "agreement, us a step",
    "for": "a for of 100 steps of 256, us a step",
    "for_alone": "the same, of ranks that compare nothing",
    "trained": "the for, 2 ms of training and a sum, us a step",
    "trained_alone": "the same, of ranks that compare nothing",
    "skip": "Loader that skips, 512 a step, us",
    "stream": "StreamLoader, 512 of 4 KiB a step, us",
    "training": "the same, and 2 ms of training, us",
    "dispatch": "Dispatch, 512 of 4 KiB a step, us",
    "save": f"save of {MEBIBYTES} MiB, ms",
    "barrier": "the transport's own reduction, us",
}


def seconds(work, times):
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times


def measured(over):
    """Of this rank, over "gloo" or "MPI"."""
    import numpy as np
    import rota

    if over == "MPI":
        from mpi4py import MPI

        comm, own = rota.Communicator(MPI.COMM_WORLD), MPI.COMM_WORLD.Dup()
        one = np.zeros(1)

        def barrier():
            own.Allreduce(MPI.IN_PLACE, one)
    else:
        import rota.torch
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"file://{os.environ['MEET']}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
        comm, one = rota.torch.Communicator(), torch.zeros(1)

        def barrier():
            dist.all_reduce(one)

    class Numbers(rota.Stream):
        fields, shards = {"x": ("uint8", (4096,))}, 8
        row = np.zeros(4096, np.uint8)

        def open(self, shard, epoch, cursor):
            for i in range(cursor or 0, SAMPLES // self.shards):
                yield {"x": self.row}, i + 1

    class One(Numbers):
        shards = 1

    def steps(loader, training=0, meet=lambda: None):
        begin, count = time.perf_counter(), 0
        for _ in loader:
            count += 1
            time.sleep(training)
            meet()  # as trainers sum gradients
        return (time.perf_counter() - begin) / count * 1e6

    result = {"agree": seconds(lambda: comm._agree("bench", None), STEPS) * 1e6, "barrier": seconds(barrier, STEPS) * 1e6}
    if comm.rank == 0:
        np.save(Path(os.environ["WORK"] + ".npy"), np.zeros((25_600, 16), np.float32))
    barrier()
    source = rota.open(os.environ["WORK"] + ".npy")
    loaders = {name: rota.Loader(source, 256, evaluation=True, **how) for name, how in (("", {"comm": comm}), ("_alone", {"world": (comm.rank, comm.size)}))}
    fors = [(name, steps(loader), steps(loader, 0.002, barrier)) for _ in range(10) for name, loader in loaders.items()]  # in turns
    for name in loaders:
        result["for" + name] = median(bare for one, bare, _ in fors if one == name)
        result["trained" + name] = median(trained for one, _, trained in fors if one == name)
    result["skip"] = steps(rota.Loader(source, 512, comm=comm, on_bad_sample="skip"))
    result["stream"] = steps(rota.StreamLoader(Numbers(), 512, comm=comm))
    result["training"] = steps(rota.StreamLoader(Numbers(), 512, comm=comm), 0.002)
    result["dispatch"] = steps(rota.StreamLoader(rota.Dispatch(One() if comm.rank == 0 else None), 512, comm=comm))
    rows = np.ones((MEBIBYTES * 2**20 // 1024 // comm.size, 128))
    directory = rota.CheckpointDirectory(comm, Path(os.environ["WORK"]))
    directory.save(0, {"rows": rota.Rows(rows)})
    step = iter(range(1, 100))
    result["save"] = seconds(lambda: directory.save(next(step), {"rows": rota.Rows(rows)}), 2) * 1e3
    if comm.rank == 0:
        print("\n" + json.dumps(result), flush=True)


def run(over, ranks):
    command = [sys.executable, __file__, "--rank", over]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as work:
        environment = dict(os.environ, WORK=f"{work}/checkpoints", MEET=f"{work}/meet", OMP_NUM_THREADS="1")
        if over == "MPI":
            outputs = [subprocess.run(["mpirun", "-n", str(ranks), *command], env=environment, stdout=subprocess.PIPE, text=True, timeout=300).stdout]
        else:
            places = [dict(environment, RANK=str(rank), WORLD_SIZE=str(ranks)) for rank in range(ranks)]
            jobs = [subprocess.Popen(command, env=place, stdout=subprocess.PIPE, text=True) for place in places]
            outputs = [job.communicate(timeout=300)[0] for job in jobs]
    return json.loads(outputs[0].strip().splitlines()[-1])


def main():
    for ranks in map(int, sys.argv[1:] or ("2", "4")):
        results = [(run("MPI", ranks), run("gloo", ranks)) for _ in range(ROUNDS)]
        for name, what in WHAT.items():
            mpi, gloo = (median(result[over][name] for result in results) for over in range(2))
            print(f"{ranks} ranks  {what:38} MPI {mpi:9,.0f}   gloo {gloo:9,.0f}   gloo/MPI {gloo / mpi:6.2f}", flush=True)


if __name__ == "__main__":
    measured(sys.argv[2]) if sys.argv[1:2] == ["--rank"] else main()
