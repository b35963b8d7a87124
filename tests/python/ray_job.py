"""examples/python/with_ray.py on a cluster of nodes on this machine, of which one is lost, and two come: ray_job.py DIRECTORY

Each worker writes what it trains to DIRECTORY/PORT.SIZE.RANK, where the port is another one in each start. Groups of fewer than
four wait behind their sixth step, until they are disturbed.
"""

import faulthandler
import glob
import json
import os
import signal
import sys
import threading
import time

import ray.cluster_utils
import ray.train
import torch
import with_ray

faulthandler.dump_traceback_later(380, exit=True)
directory = sys.argv[1]


def loop(options):
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    out = open(f"{directory}/{os.environ['MASTER_PORT']}.{size}.{rank}", "w")
    steps = []

    def tell(module, given, loss):
        if isinstance(module, with_ray.Model):
            steps.append([int(x) for x in given[0].flatten()])
            print(json.dumps({"ids": steps[-1], "loss": loss.item(), "pid": os.getpid(), "time": time.time()}), file=out, flush=True)
            time.sleep(100 if size < 4 and len(steps) > 6 else 0.2)

    torch.nn.modules.module.register_module_forward_hook(tell)
    with_ray.train(options)


def wait(size, steps, but=0):
    """For so many steps of a group of that size. The process of its rank 1."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for path in glob.glob(f"{directory}/*.{size}.1"):
            lines = open(path).read().splitlines()
            if len(lines) >= steps and json.loads(lines[0])["pid"] != but:
                return json.loads(lines[0])["pid"]
        time.sleep(0.1)
    raise TimeoutError(f"no {steps} steps of {size} workers")


cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
ray.init(address=cluster.address, log_to_driver=False)
results = []
fit = threading.Thread(
    target=lambda: results.append(with_ray.fit(directory + "/kept", loop, elastic_resize_monitor_interval_s=1.0)), daemon=True
)
fit.start()
wait(3, 6)
cluster.remove_node(nodes[0], allow_graceful=False)
os.kill(gone := wait(2, 3), signal.SIGKILL)
wait(2, 1, gone)
cluster.add_node(num_cpus=1)
cluster.add_node(num_cpus=1)
fit.join()
print("ended:", results[0].metrics)
