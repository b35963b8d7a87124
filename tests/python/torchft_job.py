"""Groups of torchft's in processes, which run examples/python/with_torchft.py and are killed at random; see test_torchft.py.

    python torchft_job.py chains 50    # so many, of 10 kills
    python torchft_job.py own 5        # what torchft's own sampler loses in such chains
    python torchft_job.py death 5      # the time from a kill to the next committed step, and what of it Members took
    python torchft_job.py overlap 3    # the time of a step without kills: the quorum beside the forward pass, and before it

Each process writes what it draws before it trains it, with the quorum: who is killed has said it by then.
"""

import faulthandler
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import rota
import rota.torch
import torch
import torch_jobs
import torchft
from torch.distributed import TCPStore
from torchft._torchft import LighthouseServer

example = torch_jobs.example("with_torchft")
torch.set_num_threads(1)
SAMPLES, FREE = len(example.DATA), 2**40


# ---- in a member ----


class Manager(torchft.Manager):
    """One that tells what it committed."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        Manager.made = self
        self.tell(here=True)

    def start_quorum(self, *args, **options):
        """Not further than that, without one that is on its way: behind the end of the run it would begin anew, alone."""
        while self.current_step() >= Manager.hold.value:
            time.sleep(0.01)
        super().start_quorum(*args, **options)

    def should_commit(self, *args, **options):
        step = self.current_step()  # of one that heals, too, as it has waited for the quorum
        committed = super().should_commit(*args, **options)
        if committed:
            self.tell(committed=step, time=time.time())
        return committed

    def tell(self, **line):
        print(json.dumps({"quorum": self._quorum_id, **line}), file=Manager.log, flush=True)

    def tell_drawn(self, ids, **more):
        self.tell(step=self.current_step(), size=self.num_participants(), ids=ids, **more)


class Optimizer(torchft.Optimizer):
    def __init__(self, *args):
        super().__init__(*args)
        Optimizer.made = self


class Seen(rota.Members):
    """Members that tell, also how long they took themselves."""

    def __init__(self, order, ask):
        super().__init__(order, lambda: (ask(), setattr(self, "begun", time.perf_counter()))[0])

    def __next__(self):
        batch = super().__next__()
        own = time.perf_counter() - self.begun
        Manager.made.tell_drawn(None if self.world is None else self.info.ids.tolist(), own=own)
        time.sleep(Manager.forward)
        return batch


class Own:
    """What torchft's own train_ddp does, in the place of Members: its sampler, begun anew by each start, and no wait."""

    def __init__(self, *_):
        sampler = torchft.DistributedSampler(example.DATA, int(os.environ["REPLICA_GROUP_ID"]), 4, 0, 1, seed=1)
        batches = torch.utils.data.DataLoader(range(SAMPLES), Own.batch, sampler=sampler)
        self.batches = (batch for _ in range(1000) for batch in batches)

    def __iter__(self):
        manager = Manager.made
        while True:
            Optimizer.made.zero_grad()
            ids = next(self.batches)
            time.sleep(Manager.forward)
            manager.wait_quorum()
            if manager.current_step() >= Own.steps:
                return
            self.info = SimpleNamespace(ids=ids)
            manager.tell_drawn(ids.tolist() if manager.is_participating() else None)
            yield example.DATA[ids]

    def weight(self):
        return 1.0


def member(directory, environment, hold, forward, own, options):
    os.environ.update(environment)
    faulthandler.dump_traceback_later(150, exit=True)
    multiprocessing.set_start_method("fork", force=True)  # workers of a loader, else of a server that outlives who is killed
    os.dup2(os.open(f"{directory}/log.{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2)
    if "MASTER_PORT" not in environment:
        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        os.environ["MASTER_PORT"] = str(store.port)
    Manager.log, Manager.forward, Manager.hold = open(f"{directory}/drawn.{os.getpid()}", "w"), forward, hold
    torchft.Manager, torchft.Optimizer, rota.Members = Manager, Optimizer, Own if own else Seen
    if own:
        Own.batch, Own.steps = own
    example.train(directory, **options)
    os._exit(0)  # torchft's servers may wait for others


# ---- beside them ----


class Job:
    """So many groups of so many ranks, started once; `kill` ends a group by SIGKILL, and starts it again."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torchft_job"])

    def __init__(self, directory, groups=4, ranks=1, forward=0.005, own=None, **options):
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for the server that forks members off, and knows no other
        self.hold = self.context.Value("q", FREE, lock=False)
        self.directory, self.ranks, self.arguments = Path(directory), ranks, (self.hold, forward, own, options)
        self.lighthouse = LighthouseServer("[::]:0", 1, 500, 10, 500)
        self.processes, self.stores, self.lines = [[] for _ in range(groups)], [], {}
        self.kills = []

    def __enter__(self):
        for group in range(len(self.processes)):
            self.start(group)
        return self

    def __exit__(self, *_):
        for process in sum(self.processes, []):
            process.kill()
            process.join()
        self.lighthouse.shutdown()

    def start(self, group):
        environment = {"REPLICA_GROUP_ID": str(group), "WORLD_SIZE": str(self.ranks), "MASTER_ADDR": "localhost"}
        environment["TORCHFT_LIGHTHOUSE"] = self.lighthouse.address()
        if self.ranks > 1:  # as torchrun has one for each start
            self.stores.append(TCPStore("localhost", 0, is_master=True, wait_for_workers=False))
            environment.update(MASTER_PORT=str(self.stores[-1].port), TORCHELASTIC_USE_AGENT_STORE="True")
        self.processes[group] = [
            self.context.Process(target=member, args=(str(self.directory), {**environment, "RANK": str(rank)}, *self.arguments))
            for rank in range(self.ranks)
        ]
        for process in self.processes[group]:
            process.start()

    def kill(self, group, rank, ahead):
        """The others go so many steps on, until it is back."""
        self.hold.value = max(line.get("step", 0) for of in self.read().values() for line in of) + ahead
        self.kills.append(time.time())
        self.processes[group][rank].kill()
        for process in self.processes[group]:  # what is left of the group ends by itself
            process.join(60)
            assert process.exitcode, "a rank waits for one that is gone"
        self.start(group)
        self.wait()
        self.hold.value = FREE

    def read(self):
        """What was told since. `lines` has that of each process."""
        for path in self.directory.glob("drawn.*"):
            lines = self.lines.setdefault(int(path.suffix[1:]), [])
            lines.extend(map(json.loads, path.read_text().splitlines()[len(lines) :]))
        return self.lines

    def wait(self, step=None):
        """Until all that were started are here; with a step, until all have drawn something, and that."""
        end = time.monotonic() + 60
        while True:
            lines = self.read()
            here = [lines.get(process.pid, []) for process in sum(self.processes, [])]
            drawn = [max((line["step"] for line in of if "step" in line), default=-1) for of in here]
            if all(here) and (step is None or min(drawn) >= 0 and max(drawn) >= step):
                return
            assert time.monotonic() < end, f"no step {step}: {drawn}"
            time.sleep(0.02)

    def chain(self, kills, seed, every=20):
        """Kills a random one every so many steps, and waits for the end of the run."""
        dice, at = random.Random(seed), 0
        for _ in range(kills):
            at += dice.randint(every * 3 // 4, every * 5 // 4)
            self.wait(at)
            time.sleep(dice.random() * 0.03)  # anywhere in a step
            self.kill(dice.randrange(len(self.processes)), dice.randrange(self.ranks), every // 2)
        for process in sum(self.processes, []):
            process.join(60)
            assert process.exitcode == 0, (self.directory / f"log.{process.pid}").read_text()[-3000:]
        self.read()

    def committed(self):
        """{(step, quorum): ids of its members} of each step that anyone has committed."""
        drawn, done = {}, set()
        for lines in self.lines.values():
            for line in lines:
                if "committed" in line:
                    done.add((line["committed"], line["quorum"]))
                elif "step" in line:
                    drawn.setdefault((line["step"], line["quorum"]), []).append(line)
        self.again, done = len({*drawn} - done), done & {*drawn}  # without what ends a run
        assert all(len({line["size"] for line in drawn[key]}) == 1 for key in done)
        return {key: [line["ids"] for line in drawn[key] if line["ids"] is not None] for key in sorted(done)}

    def audit(self, batch, epochs):
        """Each step is committed in order, with the samples of a run of one group, and all have its weights."""
        steps = {}
        sampler = rota.ElasticBatchSampler(example.DATA, batch, seed=1, epochs=epochs, tail="partial", world=(0, 1))
        for (step, quorum), ids in self.committed().items():
            assert sorted(sum(ids, [])) == sorted(sampler.run.at(step).slice().ids), (step, quorum)
            steps[step] = quorum  # the last of them; a commit of one that died before others took it is gone
        for line in map(json.loads, "".join(path.read_text() for path in self.directory.glob("*.jsonl")).splitlines()):
            assert {*line["ids"]} <= {*sampler.run.at(line["step"]).slice().ids}  # as the example says it
        assert [*steps] == [*range(len(sampler.run))]
        assert [*steps.values()] == sorted(steps.values())
        torch.manual_seed(0)
        model = example.Model()
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        for x in rota.torch.DataLoader(example.DATA, sampler):
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
        found = [*self.directory.glob("*.pt")]
        assert len(found) == len(sum(self.processes, []))
        for path in found:
            torch.testing.assert_close(torch.load(path), model.state_dict(), rtol=0, atol=2e-5)
        return steps


def chain_of(seed, kills):
    """The settings of a chain, which differ by the seed: batches that no number of members divides, and smaller than them."""
    batch, epochs = [(7, 2), (3, 1), (11, 3)][seed % 3]
    with tempfile.TemporaryDirectory() as directory:
        with Job(directory, epochs=epochs, batch=batch, is_async=seed % 2 == 1) as job:
            job.chain(kills, seed)
        return len(job.audit(batch, epochs)), job.again


def lost_by_own(seed, kills):
    """Of two epochs, what torchft's own sampler has not trained, and what more than twice; and how many there are."""
    with tempfile.TemporaryDirectory() as directory:
        with Job(directory, own=(2, SAMPLES // 4), is_async=True) as job:
            job.chain(kills, seed)
    last = {step: ids for (step, _), ids in job.committed().items()}
    count = Counter(id for ids in last.values() for id in sum(ids, []))
    return sum(max(2 - count[id], 0) for id in range(SAMPLES)), sum(max(count[id] - 2, 0) for id in range(SAMPLES)), 2 * SAMPLES


def milliseconds_of_a_step(**options):
    with tempfile.TemporaryDirectory() as directory:
        with Job(directory, groups=2, forward=0.02, **options) as job:
            job.chain(0, 0)
    times = [[line["time"] for line in lines if "time" in line] for lines in job.lines.values()]
    return 1000 * statistics.median(b - a for of in times for a, b in zip(of[20:], of[21:]))


def deaths(kills, **options):
    """Milliseconds from each kill to the next step that the others committed, and what of them their Members took at most."""
    with tempfile.TemporaryDirectory() as directory:
        with Job(directory, epochs=1, batch=7, **options) as job:
            job.chain(kills, 0)
    lines = sum(job.lines.values(), [])
    done = sorted((line["time"], line["quorum"], line["committed"]) for line in lines if "committed" in line)
    for kill in job.kills:
        before = max(quorum for time, quorum, _ in done if time < kill)
        time, *at = next(one for one in done if one[0] > kill and one[1] > before)
        own = [line["own"] for line in lines if "own" in line and [line["quorum"], line["step"]] == at]
        yield 1000 * (time - kill), 1000 * max(own)


if __name__ == "__main__":
    import torchft_job  # whose classes the members know

    for seed in range(int(sys.argv[2])):
        if sys.argv[1] == "chains":
            print("%d steps, %d of them came again" % torchft_job.chain_of(seed, 10), flush=True)
        elif sys.argv[1] == "own":
            print("%d lost, %d repeated, of %d" % torchft_job.lost_by_own(seed, 10), flush=True)
        elif sys.argv[1] == "death":
            for found in torchft_job.deaths(3, workers=2):
                print("%.0f ms, of them %.1f in Members" % found, flush=True)
        else:
            for options in {"own": (2, 150), "is_async": True}, {"own": (2, 150)}, {"epochs": 1, "batch": 7}:
                print("%.2f ms" % torchft_job.milliseconds_of_a_step(**options), options, flush=True)
