"""One rank of a loop over a peer: takes batches, saves its state, and stops or is killed. By the environment of that peer.

    python rank.py PEER PLACE: what it was given goes to the file that PLACE, in JSON, has as `result`; also why a peer refuses."""

import gc
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


def memory():
    """Bytes in use, by workers too, without what is mapped of files."""
    shares = f"ps -o pid= -s {os.getpid()} | xargs -I@ cat /proc/@/smaps_rollup"
    lines = subprocess.run(shares, shell=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem")))


def loop(peer, place):
    states = [pickle.loads(Path(name).read_bytes()) for name in place.states]
    told, before, begin = {"steps": [], "seconds": None}, memory() if place.seconds and place.stop else 0, time.perf_counter()
    run = peer.Run(place, states)
    batches = iter(run)  # which lives on while memory is looked at
    for done, batch in enumerate(batches, 1):
        last = time.perf_counter()
        told["seconds"] = told["seconds"] or last - begin
        if place.stop is None or done <= place.stop:
            told["steps"].append(run.ids(batch))
        if place.seconds and (done == place.stop or last > begin + told["seconds"] + place.seconds):
            break
        if done == place.stop:
            Path(place.saved).write_bytes(pickle.dumps(run.state()))
        if place.stop and done == place.stop + place.kill:
            if place.kill:  # with all that is under way
                tell(place, told)
                os.kill(os.getpid(), signal.SIGKILL)
            break
    if place.seconds:  # how many samples came a second behind the first batch, through as many epochs as it is given
        samples = sum(id is not None for step in told["steps"][1:] for id in step)
        told = {"memory": memory() - before} if place.stop else {"rate": samples / (last - begin - told["seconds"])}
    return told


def main():
    place = SimpleNamespace(**json.loads(sys.argv[2]))
    place.own = -(-place.batch // place.ranks)  # where the world does not divide the batch, that of all ranks is another
    try:
        peer = importlib.import_module(sys.argv[1])
        if getattr(peer, "NEEDS_GROUP", False):
            importlib.import_module("torch.distributed").init_process_group("gloo")
        gc.freeze()  # or it is chance whether Python looks through all of that in a worker, and so copies it
        told = loop(peer, place)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        told = {"refused": f"{type(error).__name__}: {' ... '.join(dict.fromkeys([lines[0], lines[-1]]))}"}
    tell(place, told)
    until = time.monotonic() + 30
    while len([*Path(place.result).parent.glob("result*[0-9]")]) < place.ranks and time.monotonic() < until:
        time.sleep(0.01)  # with one that leaves, the others may lose the store of their group
    os._exit(0)  # what a peer leaves running is its own


if __name__ == "__main__":  # workers that are spawned import this, too
    main()
