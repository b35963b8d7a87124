"""Rollouts that are killed, and go on in other worlds: what an auditor finds who has the log of what was trained alone.

A run is a process for each rank, which ends by SIGKILL at a random event. Its consumers write a log, which a restart cuts
back to the save that it goes on from. ROTA_CHAINS=1000 makes as many chains of runs, as `run test --all` does.
"""

import collections
import heapq
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import tempfile
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import pytest
import rota

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's own
CHAINS = int(os.environ.get("ROTA_CHAINS", "12"))


class Course(NamedTuple):
    """What the runs of a chain have in common."""

    seed: int
    kind: str  # loader, saved (a loader, in checkpoints), sampler, or rival
    datasets: tuple[int, ...]
    epochs: int = 1
    tail: str = "partial"
    every: int = 4  # steps, between saves
    kills: int = 4
    lines: tuple[int, int] = (300, 500)  # of the log, until one

    def ranks(self, life):
        return 1 if life == self.kills or self.kind in ("saved", "rival") else (1, 3, 2)[(self.seed + life) % 3]

    def lengths(self):
        chance = random.Random(self.seed)
        return [chance.lognormvariate(0, 1) for _ in range(sum(self.datasets))]


def made_of(course, life, rank):
    """What hands out prompts, in batches, and with weights, of this life."""
    if course.kind == "rival":
        return Rival(sum(course.datasets))
    chance = random.Random(f"{course.seed} {life}")
    size = 8 if course.tail == "drop" else chance.randrange(1, 40)  # else a tail was never handed out
    options = {"seed": course.seed, "tail": course.tail, "epochs": course.epochs, "settle": "by_hand", "world": (rank, course.ranks(life))}
    weights, [first, *others] = [chance.randrange(1, 9) for _ in course.datasets], course.datasets
    if course.kind == "sampler" and others:
        return rota.ElasticBatchSampler([first, *others], size, weights=weights, end="all_exhausted", **options)
    if course.kind == "sampler":
        return rota.ElasticBatchSampler(first, size, **options)
    sources = [rota.PythonSource([{"x": i} for i in range(n)]) for n in course.datasets]
    source = rota.Mixture(sources, weights, "all_exhausted") if others else sources[0]
    return rota.Loader(source, size, workers=chance.randrange(2), **options)


def draw(made):
    """The next batch as (id, epoch) of each prompt, or None."""
    if isinstance(made, rota.ElasticBatchSampler):
        batch = next(iter(made), None)
        return batch and [(int(index), index.epoch) for index in batch if not index.is_pad]
    batch = made.next()
    if batch is None or isinstance(made, Rival):
        return batch
    return [(int(id), int(epoch)) for id, epoch, is_real in zip(batch.ids, batch.epochs, batch.mask) if is_real]


class Rival:
    """torchdata's loader, with a queue of what failed. Its state is what frameworks save."""

    open = position = dropped = None
    dropped_samples = ()

    def __init__(self, length):
        from torchdata.stateful_dataloader import StatefulDataLoader

        self.loader = StatefulDataLoader(range(length), 16, shuffle=True, collate_fn=list)
        self.load_state_dict, self.state_dict = self.loader.load_state_dict, self.loader.state_dict
        self.batches, self.failed = None, []

    def next(self):
        self.batches = self.batches or iter(self.loader)
        batch = [self.failed.pop()] if self.failed else next(self.batches, None)
        return batch and [(id, 0) for id in batch]

    def again(self, id, epoch):
        self.failed.append(id)

    def settle(self, id, epoch, reason=""):
        pass

    drop = settle


class Process:
    """A rank of a run, with its share of the consumers, on a clock of its own."""

    def __init__(self, course, life, rank, path, state):
        self.course, self.life, self.name = course, life, path / f"{life}.{rank}"
        self.chance = random.Random(f"{course.seed} {life} {rank}")
        self.killed_at = self.chance.randrange(*course.lines) if life < course.kills else None
        self.log = os.open(f"{self.name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.lines = self.steps = self.saved = 0
        self.made = made_of(course, life, rank)
        if course.kind == "saved":
            self.directory = rota.CheckpointDirectory(None, path / "checkpoints")
            self.directory.restore(self.made)
        elif state is not None:
            self.made.load_state_dict(state)
        self.tails = len(self.dropped_at_the_tail())  # a checkpoint lists those of before

    def dropped_at_the_tail(self):
        return [one for one in self.made.dropped_samples if one.error == "tail"]

    def run(self):
        lengths, clock, busy, todo, is_over = self.course.lengths(), 0.0, [], [], False
        while True:
            while len(busy) < 64 // self.course.ranks(self.life):
                while not todo and (batch := draw(self.made)) is not None:
                    todo = batch
                    self.steps += 1
                if not todo:
                    self.steps, is_over = self.steps + (not is_over), True  # a call that says so
                    break
                heapq.heappush(busy, (clock + lengths[todo[0][0]] * self.chance.lognormvariate(0, 0.5), todo.pop(0)))
            if not busy:
                break
            clock, prompt = heapq.heappop(busy)
            self.has_answer(prompt)
            if self.steps % self.course.every == 0 and self.chance.random() < (0.03 if self.course.kind == "saved" else 0.3):
                self.save()
        self.save()
        Path(f"{self.name}.end").write_bytes(pickle.dumps((self.made.open, self.made.dropped, self.made.position)))

    def has_answer(self, prompt):
        [fate] = self.chance.choices(["trained", "stale", "failed"], [94, 5, 1])
        if fate == "failed":
            return self.made.again(*prompt)
        self.write(*prompt, fate)
        self.made.settle(*prompt) if fate == "trained" else self.made.drop(*prompt, reason=fate)

    def write(self, id, epoch, fate):
        os.write(self.log, f"{id} {epoch} {fate}\n".encode())
        self.lines += 1
        if self.lines == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def save(self):
        """The state, and how many lines the log has: both or none."""
        tails = self.dropped_at_the_tail()
        for one in tails[self.tails :]:
            self.write(one.id, one.epoch, "tail")
        self.tails = len(tails)
        if self.course.kind != "saved":
            new = Path(f"{self.name}.new")
            new.write_bytes(pickle.dumps((self.lines, self.made.state_dict())))
            new.rename(f"{self.name}.{self.steps}.save")
        elif self.lines > self.saved:
            self.saved = self.lines
            self.directory.save(10**6 * self.life + self.lines, self.made, {"at": np.array([self.life, self.lines])})


def newest(course, life, path):
    """Of the last save that all ranks have: how many lines each had, and its state."""
    if course.kind == "saved":
        files = sorted(path.glob("checkpoints/*.h5"))
        at = rota.open_checkpoint(files[-1])["at"] if files else [-1, 0]
        return [(int(at[1]), None)] if at[0] == life else []
    names = [f"{life}.{rank}" for rank in range(course.ranks(life))]
    steps = set.intersection(*({int(file.name.split(".")[2]) for file in path.glob(f"{name}.*.save")} for name in names))
    return [pickle.loads((path / f"{name}.{max(steps)}.save").read_bytes()) for name in names] if steps else []


def forked(work):
    if child := os.fork():
        return child
    signal.alarm(300)
    try:
        work()
        os._exit(0)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)


def chain(course):
    """The log as (id, epoch, fate), how many processes were killed, and what the last one said."""
    log, state, killed = [], None, 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        for life in range(course.kills + 1):
            ranks = range(course.ranks(life))
            children = [forked(lambda rank=rank: Process(course, life, rank, path, state).run()) for rank in ranks]
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            assert set(codes) <= {0, -signal.SIGKILL}, (course, life, codes)
            killed += codes.count(-signal.SIGKILL)
            parts = newest(course, life, path)
            for rank, (lines, _) in enumerate(parts):
                words = [line.split() for line in (path / f"{life}.{rank}.log").read_text().splitlines()[:lines]]
                log += [(int(id), int(epoch), fate) for id, epoch, fate in words]
            if parts:
                states = [state for _, state in parts]
                state = rota.merge_states(states) if len(states) > 1 else states[0]
        return log, killed, pickle.loads((path / f"{course.kills}.0.end").read_bytes())


def chains(courses):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return zip(courses, pool.map(chain, courses, chunksize=1))


def lost_and_twice(course, log):
    times = collections.Counter((id, epoch) for id, epoch, _ in log)
    all = itertools.product(range(sum(course.datasets)), range(course.epochs))
    return [prompt for prompt in all if prompt not in times], [prompt for prompt in times if times[prompt] > 1]


def course_of(seed):
    chance = random.Random(seed)
    kind, tail = chance.choice(9 * ["loader", "sampler"] + 2 * ["saved"]), chance.choice(["partial", "pad", "carry", "drop"])
    datasets = (240,) if tail == "drop" or chance.randrange(2) else (150, 90)
    return Course(seed, kind, datasets, chance.randrange(1, 3), tail, chance.randrange(1, 6), chance.randrange(2, 6), (1, 240))


def test_each_prompt_is_trained_once_or_listed_as_dropped(capsys):
    totals = collections.Counter()
    for course, (log, killed, (open, dropped, position)) in chains([course_of(seed) for seed in range(CHAINS)]):
        fates = collections.Counter(fate for _, _, fate in log)
        totals += fates + collections.Counter(killed=killed)
        assert lost_and_twice(course, log) == ([], []), course
        assert (open.out, open.to_come) == (0, 0), course
        assert dropped == {fate: count for fate, count in fates.items() if fate != "trained"}, course
        if len(course.datasets) > 1:  # also of epochs that are not complete
            assert len(log) == position.consumed, course
    with capsys.disabled():
        print(f"\n{CHAINS} chains: {dict(totals)}; 0 lost, 0 twice")


@pytest.mark.parametrize("kind", ["loader", "sampler", "rival"])
def test_lengths_of_what_was_trained_are_the_datasets(kind, capsys):
    pytest.importorskip("torchdata" if kind == "rival" else "rota")
    distances, lost, rejected = [], 0, 0
    seeds = range(20 if CHAINS >= 1000 else 3)
    for course, (log, _, _) in chains([Course(seed, kind, (2400,)) for seed in seeds]):
        lengths = course.lengths()
        trained, all = sorted(lengths[id] for id, _, fate in log if fate == "trained"), sorted(lengths)
        distances.append(max(abs(bisect_right(trained, x) / len(trained) - rank / len(all)) for rank, x in enumerate(all, 1)))
        rejected += distances[-1] > 1.63 / len(trained) ** 0.5  # by Kolmogorov and Smirnov, at 1 %
        missing, twice = lost_and_twice(course, log)
        lost += len(missing)
        assert twice == [] and (kind == "rival") == bool(missing), course
    with capsys.disabled():
        print(f"\n{kind}: {lost} of {2400 * len(seeds)} lost; distances {min(distances):.4f} to {max(distances):.4f}, {rejected} of {len(seeds)} rejected")
    assert rejected == (len(seeds) if kind == "rival" else 0)
