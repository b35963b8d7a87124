"""rota beside its peers: what becomes of an epoch when the world changes, and how fast each reads.

    ./run bench peers [PEER...]          # of with_PEER.py: what each rank was given, and how long the first batch takes
    ./run bench peers speed [PEER...]    # samples/s, memory, and the first of a million samples
    ./run bench peers mixtures           # of mixtures.py: threads and memory of 35 datasets mixed
    ./run bench peers packers [WORD...]  # of packers.py: how full sequences of documents are, and what becomes of tokens

Makes environments of PyPI in build/peers, and each peer's dataset by its own writer. Tables go to stdout; of all peers also to docs/peers.md."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import audit
import mixtures
import packers
import show

HERE, ROOT = Path(__file__).parent, Path(__file__).parent.parent.parent
BUILD = ROOT / "build" / "peers"
SAMPLES, BATCH, STOP, START = 1000, 24, 10, (4, 2)  # ranks and workers
MANY, SMALL = 100_000, 32  # samples, and batch, for the time of a first batch

# Each goes on from START after STOP steps, and from one world to the next after as many again; or is killed so many steps later.
CASES = {
    "3 ranks": ([(3, 2)], 0), "2 ranks, 0 workers": ([(2, 0)], 0), "2 ranks, 1 worker": ([(2, 1)], 0), "5 ranks": ([(5, 2)], 0),
    "7 ranks": ([(7, 2)], 0), "killed 5 steps later": ([START], 5), "3, then 2 ranks": ([(3, 2), (2, 2)], 0),
}  # fmt: skip

# Of a base.Kind: name, samples, bytes of one (0: JPEG), whether they are packed.
SPEEDS = [("1 KiB", 100_000, 1 << 10), ("16 KiB", 30_000, 1 << 14), ("128 KiB", 5_000, 1 << 17), ("JPEG", 3_000), ("compressed rows", 20_000, 1 << 14, True)]
COMMON = ["torch==2.13.0", "pillow==13.0.0"]
ENVIRONMENTS = {
    "torch": ["array-record==0.8.6", "grain==0.2.18", "h5py==3.16.0", "litdata==0.2.76", "mosaicml-streaming==0.13.0", "numpy==2.1.3",
              "spdl==0.8.0", "torchdata==0.11.0", "webdataset==1.0.2"],
    "datasets": ["datasets==5.2.0", "torchdata==0.11.0"],
    "energon": ["megatron-energon==7.4.1", "webdataset==1.0.2"],
    "lance": ["lancedb==0.40.0", "pylance==14.0.2"],
}  # fmt: skip


class Peer:
    has_rota = False  # as it is in this tree

    def __init__(self, name):
        self.module = f"with_{name}"
        lines = (line.split(" = ", 1) for line in (HERE / f"{self.module}.py").read_text().splitlines())
        words = {line[0]: json.loads(line[1]) for line in lines if line[0] in ("NAME", "ENVIRONMENT")}
        self.name, self.pins = words["NAME"], COMMON + ENVIRONMENTS[words["ENVIRONMENT"]]
        self.environment, self.data = BUILD / words["ENVIRONMENT"], BUILD / "data" / self.module
        self.python = self.environment / "bin" / "python"

    def prepare(self):
        """Makes its environment; returns what is wrong with that."""
        if why := make(self.environment, self.pins):
            return why
        if "rota" in self.module and not Peer.has_rota:
            why = install_rota(self.environment)
            Peer.has_rota = not why
            return why

    def write(self, *kind):
        """A dataset of that base.Kind. What is wrong with that is what each phase says then."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        self.fault = wrong([self.python, "-c", f"import pathlib, base, {self.module} as peer; peer.write(pathlib.Path({str(self.data)!r}), base.Kind(*{kind!r}))"])

    def phase(self, world, states=(), limit=120, **given):
        """Runs all ranks of a world, `limit` seconds at most. Returns what each was given, and the files of their states."""
        if self.fault:
            return [{"failed": f"to write: {self.fault}"}], []
        ranks, workers = world
        (scratch := BUILD / "data" / f"{self.module}.phase{time.monotonic_ns()}").mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            group = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), OMP_NUM_THREADS="1")
        common = dict(data=str(self.data), ranks=ranks, workers=workers, batch=BATCH, states=[*map(str, states)], stop=None, kill=0, seconds=0)
        results, states, logs = ([scratch / f"{name}{rank}" for rank in range(ranks)] for name in ("result", "state", "log"))
        commands = []
        for rank in range(ranks):
            place = common | given | dict(rank=rank, saved=str(states[rank]), result=str(results[rank]))
            own = dict.fromkeys(("RANK", "LOCAL_RANK", "GLOBAL_RANK"), str(rank)) | dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(ranks))
            commands.append(([self.python, HERE / "rank.py", self.module, json.dumps(place)], logs[rank], group | own))
        together(commands, limit)
        return [json.loads(one.read_text()) if one.exists() else {"failed": f"no result: {log.read_bytes()[-160:]}"} for one, log in zip(results, logs)], states


def make(environment, pins, alone=()):
    """An environment of PyPI, unless it is there; returns what is wrong with that. `alone` come without what they ask for."""
    pip, made = [environment / "bin" / "python", "-m", "pip", "install", "-q"], environment / "made"
    if not made.exists() or made.read_text().split() != [*pins, *alone]:
        if why := wrong(["python3", "-m", "venv", "--clear", environment]) or wrong([*pip, *pins]):
            return why
        if alone and (why := wrong([*pip, "--no-deps", *alone])):
            return why
        made.write_text("\n".join([*pins, *alone]))


def install_rota(environment):
    """That of this tree."""
    pip = [environment / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall"]
    return wrong([*pip, "--config-settings", f"build-dir={ROOT}/build/wheel", ROOT])


def together(commands, limit):
    """Runs commands, each with its log and environment, for `limit` seconds at most; ends what they leave behind. Returns their codes."""
    processes, until = [], time.monotonic() + limit
    try:
        for command, log, environment in commands:
            own = dict(cwd=log.parent, env=os.environ | environment, start_new_session=True, stdin=subprocess.DEVNULL)
            with open(log, "w") as out:
                processes.append(subprocess.Popen(command, stdout=out, stderr=out, **own))
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0.1))
    finally:
        for process, number in itertools.product(processes, (signal.SIGTERM, signal.SIGKILL)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                until = time.monotonic() + 5 * (number == signal.SIGTERM)  # in which Python frees shared memory
                while time.monotonic() < until:
                    process.poll()
                    os.killpg(process.pid, 0)
                    time.sleep(0.01)
    return [process.wait() for process in processes]


def wrong(command):
    """What is wrong, in the last line of what it says."""
    (code,) = together([(command, log := BUILD / "data" / "log", {})], 1800)
    return ([f"exit {code}"] + log.read_text().strip().splitlines())[-1] if code else None


def refusal(told):
    """In place of a cell: of the first rank that refuses, or else fails."""
    return next(({word: f"rank {rank}: {one[word]}"} for word in ("refused", "failed") for rank, one in enumerate(told) if word in one), None)


def resumed(peer, whole, then, kill):
    """Goes from world to world. Returns the audit, or who refused what."""
    told, states = peer.phase(START, stop=STOP, kill=kill)
    phases = []
    for k, world in enumerate(then):
        if not refusal(told):
            phases.append([one["steps"] for one in told])
            told, states = peer.phase(world, states, stop=STOP if k + 1 < len(then) else None)
    return refusal(told) or audit.audit(SAMPLES, whole, [*phases, [one["steps"] for one in told]])


def first_batches(peer, samples, percents):
    """Seconds to the first batch of a run that goes on: by how much of the epoch was done, the median of three."""
    peer.write("tiny", samples, 16)
    found = {}
    for percent in percents:
        stop = samples * percent // 100 // SMALL
        told, states = peer.phase((1, 2), stop=stop, batch=SMALL, limit=600) if percent else ([], [])
        told = told if refusal(told) else [peer.phase((1, 2), states, stop=1, batch=SMALL)[0][0] for _ in range(3)]
        why = refusal(told) or next(({"failed": "no batch"} for one in told if not one["seconds"]), None)
        found[f"{percent} %"] = why or statistics.median(one["seconds"] for one in told)
    return found


def resume(peers):
    for peer, row in peers:
        peer.write("tiny", SAMPLES, 16)
        told, _ = peer.phase(START)
        whole = [one["steps"] for one in told] if not refusal(told) else []
        row["not stopped"] = refusal(told) or audit.audit(SAMPLES, whole, [whole])
        for case, given in CASES.items():
            row[case] = resumed(peer, whole, *given) if whole else row["not stopped"]
        row["first batch"] = first_batches(peer, MANY, (0, 10, 50, 90))
        print(json.dumps({peer.name: row}, indent=1), file=sys.stderr, flush=True)


def speed(peers):
    """In turns; what counts is the median of three."""
    for kind in SPEEDS:
        for peer, row in peers:
            row[kind[0]] = {"1": [], "2": []}
            peer.write(*kind)
        os.sync()
        for _, workers, (peer, row) in itertools.product(range(3), "12", peers):
            row[kind[0]][workers] += peer.phase((1, int(workers)), batch=SMALL, seconds=2)[0]
        for peer, row in peers:
            row[kind[0]]["memory"] = peer.phase((1, 2), batch=SMALL, seconds=2, stop=30)[0]
    for peer, row in peers:
        row["first batch"] = first_batches(peer, 10 * MANY, (0, 10))
        print(json.dumps({peer.name: row}, indent=1), file=sys.stderr, flush=True)
        shutil.rmtree(peer.data)


def pack(words):
    """The table of all packers, or of those that have one of these words in their name."""
    names = [name for name in packers.PACKERS if any(word.lower() in name.lower() for word in words or [""])]
    if not names:
        sys.exit(f"./run bench peers packers [WORD...]: of {'; '.join(packers.PACKERS)}")
    environment, table = BUILD / "packers", BUILD / f"{'-'.join(['packers', *words])}.json"
    (BUILD / "data").mkdir(parents=True, exist_ok=True)
    why = make(environment, packers.PINS, packers.ALONE) or (any("rota" in name for name in names) and install_rota(environment))
    if why or (why := wrong([environment / "bin" / "python", HERE / "packers.py", table, *names])):
        sys.exit(f"./run bench peers packers: {why}")
    found = json.loads(table.read_text())
    page = show.table(packers.HEADS, [packers.cells(*row) for row in found["rows"].items()])
    page += show.measured(found["date"], packers.PINS + packers.ALONE)
    print(page)
    if not words:
        show.put(ROOT / "docs", "packers", page)


def main():
    os.environ["PYTHONPATH"] = str(HERE)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # which ends what was begun
    if sys.argv[1:2] == ["packers"]:
        return pack(sys.argv[2:])
    if sys.argv[1:] == ["mixtures"]:
        (BUILD / "data").mkdir(parents=True, exist_ok=True)
        why = make(environment := BUILD / "mixtures", mixtures.PINS) or install_rota(environment)
        sys.exit(why and f"./run bench peers mixtures: {why}" or subprocess.run([environment / "bin" / "python", HERE / "mixtures.py"]).returncode)
    verb = speed if sys.argv[1:2] == ["speed"] else resume
    named = sys.argv[2 if verb is speed else 1 :]
    known = sorted(path.stem.removeprefix("with_") for path in HERE.glob("with_*.py"))
    if not {*named} <= {*known}:
        sys.exit(f"./run bench peers [speed] [PEER...]: of {', '.join(known)}")
    shutil.rmtree(BUILD / "data", ignore_errors=True)
    (BUILD / "data").mkdir(parents=True, exist_ok=True)
    rows, peers = {}, []
    for peer in map(Peer, named or known):
        rows[peer.name] = row = {"pins": peer.pins}
        if why := peer.prepare():
            row["environment"] = {"failed": why}
        else:
            peers.append((peer, row))
    verb(peers)
    table = BUILD / f"{'-'.join([verb.__name__, *named])}.json"
    table.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=1))
    show.show(verb.__name__, json.loads(table.read_text()), ROOT / "docs", not named and len(peers) == len(rows))


if __name__ == "__main__":
    main()
