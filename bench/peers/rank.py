"""One rank of a loop over a peer: takes batches, saves its state, and stops or is killed. By the environment of that peer.

    python rank.py PEER PLACE.json: what it was given goes to PLACE.json's `result`, also where the peer refuses.
"""

import importlib
import json
import os
import pickle
import signal
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


def main():
    place = SimpleNamespace(**json.loads(Path(sys.argv[2]).read_text()), has_saved=False)
    killed = place.kill > 0
    try:
        peer = importlib.import_module(sys.argv[1])
        if getattr(peer, "NEEDS_GROUP", False):
            import torch.distributed

            torch.distributed.init_process_group("gloo")
        told = loop(peer, place)
    except Exception as error:
        told = {"refused": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"}
    Path(place.result).write_text(json.dumps(told))
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.flush()
    os._exit(0)  # what a peer leaves running is its own


if __name__ == "__main__":
    main()
