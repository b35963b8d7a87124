"""One rank of a loop over a peer: takes batches, saves its state, and stops or is killed. By the environment of that peer.

    python rank.py PEER PLACE.json: what it was given goes to PLACE.json's `result`, also where the peer refuses.
"""

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


def loop(peer, place):
    states = [pickle.loads(Path(name).read_bytes()) for name in place.states]
    begin = time.perf_counter()
    run = peer.Run(place, states)
    told = {"steps": [], "seconds": None}
    for batch in run:
        if told["seconds"] is None:
            told["seconds"] = time.perf_counter() - begin
        if place.stop is None or len(told["steps"]) < place.stop:
            told["steps"].append(run.ids(batch))
        if len(told["steps"]) == place.stop and not place.has_saved:
            Path(place.saved).write_bytes(pickle.dumps(run.state()))
            place.has_saved = True
        if place.has_saved and not place.kill:
            break
        place.kill -= place.has_saved
    return told


def race(peer, place):
    """How many samples come a second after the first batch, through one epoch after another, and the bytes then in use."""
    run, count, begin, last = peer.Run(place, []), 0, None, -1
    while last < count and (begin is None or time.perf_counter() < begin + place.seconds):
        last = count
        for batch in run:
            begin, count = begin or time.perf_counter(), count + (len(run.ids(batch)) if begin else 0)
            if time.perf_counter() > begin + place.seconds:
                break
    rate = count / (time.perf_counter() - begin)
    shares = f"ps -o pid= -s {os.getpid()} | xargs -I@ cat /proc/@/smaps_rollup"  # without what is mapped of files
    lines = subprocess.run(shares, shell=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {"rate": rate, "memory": sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem")))}


def main():
    place = SimpleNamespace(**json.loads(Path(sys.argv[2]).read_text()), has_saved=False)
    place.own = -(-place.batch // place.ranks)  # the nearest: a batch of all ranks that the world does not divide is another
    killed = place.kill > 0
    try:
        peer = importlib.import_module(sys.argv[1])
        if getattr(peer, "NEEDS_GROUP", False):
            import torch.distributed

            torch.distributed.init_process_group("gloo")
        told = (race if place.seconds else loop)(peer, place)
    except Exception as error:
        told = {"refused": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"}
    Path(place.result).write_text(json.dumps(told))
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.flush()
    os._exit(0)  # what a peer leaves running is its own


main()
