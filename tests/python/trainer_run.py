"""Runs a program of one of the trainers: trainer_run.py LOG KILLS PROGRAM ARGUMENT...

Each rank writes to LOG.<rank> which samples its class `Model` trains, and the loss; to LOG.<rank>.valid what it validates.
KILLS "2:7" ends rank 2 as it begins its seventh batch.
"""

import json
import os
import runpy
import signal
import sys

import torch

log, kills, program, *arguments = sys.argv[1:]
rank = int(os.environ.get("RANK", 0))
out = {True: open(f"{log}.{rank}", "w"), False: open(f"{log}.{rank}.valid", "w")}
last = [0]
batches = [0]


def is_model(module):
    return type(module).__name__ in ("Model", "FSDPModel")


def before(module, given, named):
    if is_model(module):
        batches[0] += module.training
        if kills == f"{rank}:{batches[0]}":
            os.kill(os.getpid(), signal.SIGKILL)
        last[0] = [int(x) for x in [*given, *named.values()][0].flatten()]


def after(module, given, made):
    if is_model(module):
        loss = made["loss"] if isinstance(made, dict) else made
        print(json.dumps({"ids": last[0], "loss": loss.item()}), file=out[module.training], flush=True)


torch.nn.modules.module.register_module_forward_hook(after)
original = torch.nn.Module.__call__


def call(module, *given, **named):
    before(module, given, named)
    return original(module, *given, **named)


torch.nn.Module.__call__ = call
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
