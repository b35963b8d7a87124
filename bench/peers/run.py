"""rota beside its peers: what becomes of an epoch when the world changes, and how long the first batch then takes.

    ./run bench peers [PEER...]     # of with_PEER.py; all without any

Makes an environment of PyPI for each kind of peer, in build/peers, and a dataset for each peer, by its own writer. Each
rank is a process. What came of each run goes to build/peers/resume.json, and tables to stdout.
"""

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

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "peers"
SAMPLES, BATCH, STOP = 1000, 24, 10
LIMIT = 120  # seconds of a phase: who takes longer hangs
MANY, SMALL = 100_000, 32  # samples, and batch, for the time of a first batch
START = (4, 2)  # ranks and workers

# Each goes on from START after STOP steps, and from one world to the next after as many again.
CASES = {
    "3 ranks": dict(then=[(3, 2)]),
    "2 ranks, 0 workers": dict(then=[(2, 0)]),
    "2 ranks, 1 worker": dict(then=[(2, 1)]),
    "5 ranks": dict(then=[(5, 2)]),
    "7 ranks": dict(then=[(7, 2)]),
    "killed 5 steps later": dict(then=[START], kill=5),
    "3, then 2 ranks": dict(then=[(3, 2), (2, 1)]),
}


class Peer:
    has_rota = False  # as it is in this tree

    def __init__(self, name):
        self.module = f"with_{name}"
        self.words = {}
        for line in (HERE / f"{self.module}.py").read_text().splitlines():
            key, _, value = line.partition(" = ")
            if key in ("NAME", "ENVIRONMENT"):
                self.words[key] = json.loads(value)
        self.name = self.words["NAME"]
        self.python = BUILD / self.words["ENVIRONMENT"] / "bin" / "python"

    def prepare(self):
        """Makes its environment, unless it is there; returns what is wrong with that."""
        there = self.python.parent.parent
        wanted = HERE / f"{there.name}.txt"
        if not (there / "made").exists() or (there / "made").read_text() != wanted.read_text():
            subprocess.run(["python3", "-m", "venv", "--clear", there], check=True)
            made = subprocess.run([self.python, "-m", "pip", "install", "-q", "-r", wanted], capture_output=True, text=True)
            if made.returncode:
                return made.stderr.strip().splitlines()[-1]
            (there / "made").write_text(wanted.read_text())
        if self.name.startswith("rota") and not Peer.has_rota:
            wheel = ["--no-deps", "--force-reinstall", "--config-settings", f"build-dir={ROOT}/build/wheel", ROOT]
            subprocess.run([self.python, "-m", "pip", "install", "-q", *wheel], check=True)
            Peer.has_rota = True
        return None

    def write(self, data, samples, size):
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        code = f"import sys, pathlib, {self.module} as peer; peer.write(pathlib.Path(sys.argv[1]), {samples}, {size})"
        subprocess.run([self.python, "-c", code, data], check=True, cwd=data.parent, env=os.environ | {"PYTHONPATH": str(HERE)}, timeout=600)

    def phase(self, data, world, states=(), stop=None, kill=0, batch=BATCH):
        """Runs all ranks of a world. Returns what each was given, and the files of their states."""
        ranks, workers = world
        scratch = data.parent / f"{data.name}.phase{time.monotonic_ns()}"
        scratch.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = dict(data=str(data), ranks=ranks, workers=workers, batch=batch, states=[*map(str, states)], stop=stop, kill=kill)
        processes = []
        for rank in range(ranks):
            place = common | dict(rank=rank, saved=f"{scratch}/state{rank}", result=f"{scratch}/result{rank}")
            (scratch / f"place{rank}").write_text(json.dumps(place))
            environment = dict(RANK=rank, LOCAL_RANK=rank, GLOBAL_RANK=rank, WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks)
            environment |= dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS=1, PYTHONPATH=HERE)
            command = [self.python, HERE / "rank.py", self.module, scratch / f"place{rank}"]
            with open(scratch / f"log{rank}", "w") as log:
                processes.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=scratch, start_new_session=True,
                        env=os.environ | {name: str(value) for name, value in environment.items()},
                    )
                )  # fmt: skip
        until = time.monotonic() + LIMIT
        told = []
        for rank, process in enumerate(processes):
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                pass
            result = scratch / f"result{rank}"
            told.append(json.loads(result.read_text()) if result.exists() else {"refused": "it hangs" if process.poll() is None else "it died"})
        for process in processes:  # and what it has left behind
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        return told, [scratch / f"state{rank}" for rank in range(ranks)]


def refusal(told):
    return next((f"rank {rank}: {one['refused']}" for rank, one in enumerate(told) if "refused" in one), None)


def steps_of(told):
    return [one["steps"] for one in told]


def resume(peer, data, whole, then, kill=0):
    """Goes from world to world. Returns the audit, or who refused what."""
    told, states = peer.phase(data, START, stop=STOP, kill=kill)
    phases = [steps_of(told)] if not refusal(told) else []
    for k, world in enumerate(then):
        if why := refusal(told):
            return {"refused": why}
        told, states = peer.phase(data, world, states, STOP if k + 1 < len(then) else None)
        phases.append(None if refusal(told) else steps_of(told))
    return {"refused": refusal(told)} if refusal(told) else audit.audit(SAMPLES, whole, phases)


def cell(found, is_whole=False):
    if "refused" in found:
        return "refused"
    if is_whole:
        return f"{found['lost']} / {found['repeated']}" + (f", {found['pads']} marked" if found["pads"] else "")
    others = "all" if found["others"] >= found["steps"] - STOP > 0 else found["others"]
    size = f", batches of {found['size']}" if found["size"] != BATCH else ""
    return f"{found['lost']} / {found['repeated']} / {others}{size}{', uneven' if found['uneven'] else ''}"


def first_batches(peer, data):
    """Seconds to the first batch of a run that goes on: by how much of the epoch was done, the median of three."""
    found = {}
    for percent in (0, 10, 50, 90):
        told, states = peer.phase(data, (1, 2), stop=MANY * percent // 100 // SMALL, batch=SMALL) if percent else ([], [])
        seconds = []
        for _ in range(3):
            told = told if refusal(told) else peer.phase(data, (1, 2), states, stop=1, batch=SMALL)[0]
            seconds += [one["seconds"] for one in told if "seconds" in one]
        found[f"{percent} %"] = refusal(told) or statistics.median(seconds)
    return found


def main():
    names = sys.argv[1:] or sorted(path.stem.removeprefix("with_") for path in HERE.glob("with_*.py"))
    table = {}
    for peer in map(Peer, names):
        row = table[peer.name] = {}
        if why := peer.prepare():
            row["environment"] = {"refused": why}
            continue
        data = BUILD / "data" / peer.module
        shutil.rmtree(BUILD / "data", ignore_errors=True)
        peer.write(data, SAMPLES, 16)
        told, _ = peer.phase(data, START)
        if why := refusal(told):
            row["not stopped"] = {"refused": why}
            continue
        whole = steps_of(told)
        row["not stopped"] = audit.audit(SAMPLES, whole, [whole])
        for case, given in CASES.items():
            row[case] = resume(peer, data, whole, **given)
            print(f"{peer.name}, {case}: {cell(row[case])} {row[case].get('refused', '')}", file=sys.stderr, flush=True)
        peer.write(data, MANY, 16)
        row["first batch"] = first_batches(peer, data)
        print(f"{peer.name}, first batch: {row['first batch']}", file=sys.stderr, flush=True)
        (BUILD / "resume.json").write_text(json.dumps(table, indent=1))
    print("| | " + " | ".join(["not stopped", *CASES]) + " |\n|---|" + "---|" * (len(CASES) + 1))
    for name, row in table.items():
        cells = [cell(row.get(case, {"refused": ""}), case == "not stopped") for case in ["not stopped", *CASES]]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
