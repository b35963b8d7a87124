"""Rollouts that are killed, and go on in other worlds: what an auditor finds who has the log of what was trained alone.

Each run is a process that ends by SIGKILL at a random event; its ranks are processes, too. Its consumers write a log, which a
restart cuts back to the save that it goes on from, as it does the model. ROTA_CHAINS=1000 makes it as long as `run test --all` does.
"""

import collections
import heapq
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import sys
import tempfile
import traceback
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

import pytest
import rota

np = pytest.importorskip("numpy")

CHAINS = int(os.environ.get("ROTA_CHAINS", "12"))
CONSUMERS = 64
FATES = {"trained": 94, "stale": 5, "failed": 1}  # in percent


class Course(NamedTuple):
    """What the runs of a chain have in common."""

    seed: int
    kind: str  # loader, saved (a loader, in checkpoints), sampler, or rival
    datasets: tuple[int, ...] = (240,)
    epochs: int = 1
    tail: str = "partial"
    every: int = 4  # steps, between saves
    kills: int = 4
    events: tuple[int, int] = (300, 500)  # until one

    @property
    def lengths(self):
        """Of the prompts' answers."""
        chance = random.Random(self.seed)
        return [chance.lognormvariate(0, 1) for _ in range(sum(self.datasets))]

    def ranks(self, life):
        is_alone = life == self.kills or self.kind in ("saved", "rival")
        return 1 if is_alone else (1, 3, 2)[(self.seed + life) % 3]


# ---- what hands out prompts, by (id, epoch) ----


def made_of(course, life, rank):
    """A loader or a sampler of rota, with sizes of batches and weights of this life."""
    chance = random.Random(f"{course.seed} {life}")
    size = 8 if course.tail == "drop" else chance.randrange(1, 40)
    weights = [chance.randrange(1, 9) for _ in course.datasets]
    options = {"seed": course.seed, "tail": course.tail, "epochs": course.epochs, "settle": "by_hand"}
    options |= {"world": (rank, course.ranks(life)), "shuffle": "global"}
    if course.kind == "sampler":
        if len(weights) == 1:
            return rota.ElasticBatchSampler(course.datasets[0], size, **options)
        return rota.ElasticBatchSampler(list(course.datasets), size, weights=weights, end="all_exhausted", **options)
    sources = [rota.PythonSource([{"x": i} for i in range(n)]) for n in course.datasets]
    source = sources[0] if len(sources) == 1 else rota.Mixture(sources, weights, "all_exhausted")
    return rota.Loader(source, size, workers=chance.randrange(2), **options)


def draw(made):
    """The next batch, or None."""
    if isinstance(made, rota.ElasticBatchSampler):
        batch = next(iter(made), None)
        return batch and [(int(index), index.epoch) for index in batch if not index.is_pad]
    batch = made.next()
    if batch is None or isinstance(made, Rival):
        return batch
    return [(int(id), int(epoch)) for id, epoch, is_real in zip(batch.ids, batch.epochs, batch.mask) if is_real]


class Rival:
    """torchdata's loader, with a queue of what failed. Its state is what frameworks save."""

    dropped_samples = ()

    def __init__(self, course):
        from torchdata.stateful_dataloader import StatefulDataLoader

        self.loader = StatefulDataLoader(range(sum(course.datasets)), 16, shuffle=True, collate_fn=list)
        self.load_state_dict, self.state_dict = self.loader.load_state_dict, self.loader.state_dict
        self.batches, self.failed = None, []

    def next(self):
        self.batches = self.batches or iter(self.loader)
        if self.failed:
            return [self.failed.pop()]
        batch = next(self.batches, None)
        return batch and [(id, 0) for id in batch]

    def again(self, id, epoch):
        self.failed.append((id, epoch))

    def settle(self, id, epoch):
        pass

    def drop(self, id, epoch, reason):
        pass


# ---- a run ----


class Process:
    """One rank of one run of a chain, with its share of the consumers, on a clock of its own."""

    def __init__(self, course, life, rank, path, state):
        self.course, self.life, self.name, self.path = course, life, f"{life}.{rank}", path
        self.chance = random.Random(f"{course.seed} {life} {rank}")
        self.events_left = self.chance.randrange(*course.events) if life < course.kills else None
        self.log = os.open(path / f"{self.name}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.lines = self.draws = self.tails = 0
        self.saved = None  # how many lines there were then
        self.consumers = CONSUMERS // course.ranks(life)
        self.made = Rival(course) if course.kind == "rival" else made_of(course, life, rank)
        if course.kind == "saved":
            self.directory = rota.CheckpointDirectory(None, path / "checkpoints")
            self.directory.restore(self.made)
        elif state is not None:
            self.made.load_state_dict(state)

    def run(self):
        lengths, clock, busy, todo = self.course.lengths, 0.0, [], []
        while True:
            while len(busy) < self.consumers:
                while not todo and (batch := draw(self.made)) is not None:
                    todo = batch
                    self.draws += 1
                if not todo:
                    break
                seconds = lengths[todo[0][0]] * self.chance.lognormvariate(0, 0.5)
                heapq.heappush(busy, (clock + seconds, todo.pop(0)))
            if not busy:
                return self.end()
            clock, name = heapq.heappop(busy)
            self.has_answer(name)
            if self.draws % self.course.every == 0 and self.chance.random() < (0.03 if self.course.kind == "saved" else 0.3):
                self.save()

    def has_answer(self, name):
        self.may_be_killed()
        fate = self.chance.choices(list(FATES), FATES.values())[0]
        if fate == "failed":
            return self.made.again(*name)
        self.write(name, fate)
        if fate == "stale":
            self.made.drop(*name, reason=fate)
        else:
            self.made.settle(*name)

    def write(self, name, fate):
        os.write(self.log, b"%d %d %s\n" % (*name, fate.encode()))
        self.lines += 1

    def may_be_killed(self):
        if self.events_left is not None:
            self.events_left -= 1
            if self.events_left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def save(self):
        """What a restart needs, and where the log is: both or none."""
        tails = [one for one in self.made.dropped_samples if one.error == "tail"]
        for one in tails[self.tails :]:
            self.write((one.id, one.epoch), "tail")
        self.tails = len(tails)
        if self.course.kind != "saved":
            self.put(f"{self.draws}.save", (self.lines, self.made.state_dict()))
        elif self.lines != self.saved:
            self.saved = self.lines
            self.directory.save(10**6 * self.life + self.lines, self.made, {"at": np.array([self.life, self.lines])})

    def put(self, what, value):
        file = self.path / f"{self.name}.new"
        file.write_bytes(pickle.dumps(value))
        self.may_be_killed()
        file.rename(self.path / f"{self.name}.{what}")

    def end(self):
        self.save()
        if self.course.kind != "rival":
            self.put("end", (self.made.open, self.made.dropped, self.made.position.consumed))


def forked(work):
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    return child


def newest(course, life, path):
    """Of the last save that all ranks have: how many lines each had, and its state."""
    if course.kind == "saved":
        files = sorted(path.glob("checkpoints/*.h5"))
        at = rota.open_checkpoint(files[-1])["at"] if files else [-1, 0]
        return [(int(at[1]), None)] if at[0] == life else []
    names = [f"{life}.{rank}" for rank in range(course.ranks(life))]
    steps = set.intersection(*({int(file.name.split(".")[2]) for file in path.glob(f"{name}.*.save")} for name in names))
    return [pickle.loads((path / f"{name}.{max(steps)}.save").read_bytes()) for name in names] if steps else []


def chain(course):
    """Its log, how many processes were killed, and what the last one said."""
    log, state, killed = [], None, 0
    with tempfile.TemporaryDirectory() as path:
        path = Path(path)
        for life in range(course.kills + 1):
            ranks = range(course.ranks(life))
            children = [forked(lambda rank=rank: Process(course, life, rank, path, state).run()) for rank in ranks]
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            assert set(codes) <= {0, -signal.SIGKILL}, (course, life, codes)
            killed += codes.count(-signal.SIGKILL)
            parts = newest(course, life, path)
            for rank, (lines, _) in enumerate(parts):
                for line in (path / f"{life}.{rank}.log").read_text().splitlines()[:lines]:
                    id, epoch, fate = line.split()
                    log.append((int(id), int(epoch), fate))
            if parts:
                states = [state for _, state in parts]
                state = states[0] if len(states) == 1 else rota.merge_states(states)
        end = path / f"{course.kills}.0.end"
        return log, killed, pickle.loads(end.read_bytes()) if end.exists() else None


def chains(courses):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return list(zip(courses, pool.map(chain, courses, chunksize=1)))


def lost_and_twice(course, log):
    """What an auditor says, who knows how many prompts there are."""
    times = collections.Counter((id, epoch) for id, epoch, _ in log)
    all = itertools.product(range(sum(course.datasets)), range(course.epochs))
    return [name for name in all if name not in times], [name for name, count in times.items() if count > 1]


def course_of(seed):
    chance = random.Random(seed)
    kind = chance.choice(9 * ["loader", "sampler"] + 2 * ["saved"])
    tail = chance.choice(["partial", "pad", "carry", "drop"])
    datasets = (240,) if tail == "drop" or chance.randrange(2) else (150, 90)
    every, kills = chance.randrange(1, 6), chance.randrange(2, 6)
    return Course(seed, kind, datasets, chance.randrange(1, 3), tail, every, kills, (1, 240))


def test_each_prompt_is_trained_once_or_listed_as_dropped(capsys):
    totals = collections.Counter()
    for course, (log, killed, (open, dropped, consumed)) in chains([course_of(seed) for seed in range(CHAINS)]):
        fates = collections.Counter(fate for _, _, fate in log)
        totals += fates + collections.Counter(killed=killed)
        assert lost_and_twice(course, log) == ([], []), course
        assert (open.out, open.to_come) == (0, 0), course
        assert dropped == {fate: count for fate, count in fates.items() if fate != "trained"}, course
        if len(course.datasets) > 1:  # also of the epochs that are not complete
            assert len(log) == consumed, course
    with capsys.disabled():
        print(f"\n{CHAINS} chains: 0 lost, 0 twice; {dict(totals)}")


@pytest.mark.parametrize("kind", ["loader", "sampler", "rival"])
def test_lengths_of_what_was_trained_are_the_datasets(kind, capsys):
    if kind == "rival":
        pytest.importorskip("torchdata")
    greatest, lost, rejected = 0.0, 0, 0
    seeds = range(20 if CHAINS >= 1000 else 3)
    for course, (log, _, _) in chains([Course(seed, kind, (2400,)) for seed in seeds]):
        lengths = course.lengths
        trained = sorted(lengths[id] for id, _, fate in log if fate == "trained")
        all = sorted(lengths)
        distance = max(abs(bisect_right(trained, x) / len(trained) - rank / len(all)) for rank, x in enumerate(all, 1))
        rejected += distance > 1.63 / len(trained) ** 0.5  # Kolmogorov and Smirnov, at 1 %
        greatest = max(greatest, distance)
        missing, twice = lost_and_twice(course, log)
        lost += len(missing)
        assert twice == [] and (kind == "rival") == bool(missing), course
    with capsys.disabled():
        print(f"\n{kind}: {lost} of {2400 * len(seeds)} lost; KS rejects {rejected} of {len(seeds)}, distance up to {greatest:.3f}")
    assert rejected == (len(seeds) if kind == "rival" else 0)
