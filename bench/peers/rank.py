"""One rank of a loop over a peer: takes batches, saves its state, and stops or is killed. By the environment of that peer.

    python rank.py PEER PLACE: what it was given goes to the file that PLACE, in JSON, has as `result`; also why a peer refuses."""

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace


def tell(place, told):
    Path(place.result + ".part").write_text(json.dumps(told))
    os.rename(place.result + ".part", place.result)


def loop(peer, place):
    states = [pickle.loads(Path(name).read_bytes()) for name in place.states]
    begin = time.perf_counter()
    run = peer.Run(place, states)
    told = {"steps": [], "seconds": None}
    for done, batch in enumerate(run, 1):
        told["seconds"] = told["seconds"] or time.perf_counter() - begin
        if place.stop is None or done <= place.stop:
            told["steps"].append(run.ids(batch))
        if done == place.stop:
            Path(place.saved).write_bytes(pickle.dumps(run.state()))
        if place.stop and done == place.stop + place.kill:
            if place.kill:  # with all that is under way
                tell(place, told)
                os.kill(os.getpid(), signal.SIGKILL)
            break
    return told


def race(peer, place):
    """How many samples come a second after the first batch, through an epoch at most, and the bytes then in use."""
    run, count = peer.Run(place, []), 0
    batches = iter(run)  # which lives on while memory is looked at
    next(batches)
    begin = last = time.perf_counter()
    while last < begin + place.seconds and (batch := next(batches, None)) is not None:
        last, count = time.perf_counter(), count + len(run.ids(batch))
    shares = f"ps -o pid= -s {os.getpid()} | xargs -I@ cat /proc/@/smaps_rollup"  # without what is mapped of files
    lines = subprocess.run(shares, shell=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    memory = sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem")))
    return {"rate": count / (last - begin), "memory": memory}


def main():
    place = SimpleNamespace(**json.loads(sys.argv[2]))
    place.own = -(-place.batch // place.ranks)  # the nearest: a batch of all ranks that the world does not divide is another
    try:
        peer = importlib.import_module(sys.argv[1])
        if getattr(peer, "NEEDS_GROUP", False):
            import torch.distributed
            torch.distributed.init_process_group("gloo")
        told = (race if place.seconds else loop)(peer, place)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        told = {"refused": f"{type(error).__name__}: {' ... '.join(dict.fromkeys([lines[0], lines[-1]]))}"}
    tell(place, told)
    os._exit(0)  # what a peer leaves running is its own


if __name__ == "__main__":  # workers that are spawned import this, too
    main()
