"""Reads the bytes of all files below a directory, in any number of processes, stopped and resumed at will.

    python3 quickstart.py /usr/include checkpoints
    mpirun -n 4 python3 -m mpi4py quickstart.py /usr/include checkpoints     # goes on with 4 ranks, if rota is built with MPI
"""

import argparse
import sys

import rota


def communicator():
    """mpi4py's, if this program was started with it; else None: a process alone."""
    if "mpi4py" not in sys.modules:
        return None
    import rota.mpi
    from mpi4py import MPI

    return rota.mpi.Communicator(MPI.COMM_WORLD)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("checkpoints")
    parser.add_argument("--steps", type=int, default=20, help="stops after so many")
    options = parser.parse_args()

    comm = communicator()
    loader = rota.Loader(rota.open(options.data, "files"), 64, comm=comm, workers=2, epochs=None, seed=1)
    with rota.CheckpointDirectory(comm, options.checkpoints) as directory:
        directory.restore(loader)  # does nothing in the first run
        print(f"rank {loader.world.rank} of {loader.world.size} goes on at {loader.position}", flush=True)
        total = 0
        for step, batch in enumerate(rota.progress(loader), 1):  # which shows how far it is
            total += len(batch["data"].values)  # all files of this rank's slice, one behind the other
            if step == options.steps:
                break
        directory.save(loader.position.step, loader)
    print(f"rank {loader.world.rank} read {total} bytes, and stops at {loader.position}", flush=True)


if __name__ == "__main__":
    main()
