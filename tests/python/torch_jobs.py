"""Jobs of several processes of torch.distributed: by torchrun, or each started by itself."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time


def _environment():
    """Without an MPI around, and without threads that only take turns."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI"))}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}


def torchrun(ranks, directory, program, *arguments, options=(), timeout=180):
    """The exit code of `program` under torchrun with `ranks` processes, and the end of what they said."""
    # They meet at a file: --standalone takes port 29400, whoever else has it.
    meet = ["--rdzv_backend=c10d", "--rdzv_id=run", f"--rdzv_endpoint={directory / 'meet'}", "--rdzv_conf=store_type=file"]
    (directory / "meet").unlink(missing_ok=True)
    streams = ",".join(f"{rank}:1" for rank in range(ranks))
    command = [sys.executable, "-m", "torch.distributed.run", *meet, f"--nproc_per_node={ranks}", *options]
    command += ["-r", streams, "-t", streams, "--log-dir", str(directory / "out"), str(program), *map(str, arguments)]
    with open(directory / "output", "w+") as output:
        run = subprocess.Popen(command, stdout=output, stderr=output, env=_environment(), start_new_session=True)
        try:
            code = run.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGABRT)  # each says where it waits
            code = f"none: it hung, and ended with {run.wait(timeout=60)}"
        output.seek(0)
        return code, output.read()[-10000:]


START = """
import os, sys, time, signal
import numpy as np, torch, torch.distributed as dist
import rota, rota.torch

rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

class Numbers(rota.Stream):
    fields, shards, length = {"x": "int64"}, 4, 20
    def open(self, shard, epoch, cursor):
        for i in range(cursor or 0, self.length):
            yield {"x": shard * self.length + i}, i + 1

class Endless(Numbers):
    length = 10**9

class Pipe(Endless):
    shards = 1

def dispatch(): return rota.Dispatch(Pipe() if rank == 0 else None, 16)

class Rows:
    def __init__(self, length=10**6, bad=50): self.length, self.bad = length, bad
    def __len__(self): return self.length
    def __getitem__(self, i):
        if self.bad and i % self.bad == 0: raise rota.CorruptError("bad")
        return {"x": i}

def rows(**options): return rota.PythonSource(Rows(**options), {"x": "int64"})

def refused(use, kind, words):
    try: use()
    except kind as error: assert words in str(error), error
    else: raise SystemExit(f"it is not refused: {words}")

def init():
    if "MEET_AT_RANK_0" not in os.environ:
        return dist.init_process_group("gloo", init_method=f"file://{path}/meeting", rank=rank, world_size=size)
    while rank > 0 and not os.path.exists(path + "/port"): time.sleep(0.01)
    port = 0 if rank == 0 else int(open(path + "/port").read())
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0, wait_for_workers=False)
    if rank == 0:
        with open(path + "/port.new", "w") as file: file.write(str(store.port))
        os.rename(path + "/port.new", path + "/port")
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
"""


class Job:
    """Processes of START and `code`. Where one fails, nobody ends the others, as torchrun would. `with` ends what is left."""

    def __init__(self, directory, code, ranks, *arguments, init=True, **environment):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "meeting").unlink(missing_ok=True)
        program = START + ("init()\n" if init else "") + textwrap.dedent(code)
        self.processes = []
        for rank in range(ranks):
            command = [sys.executable, "-c", program, str(rank), str(ranks), str(directory), *map(str, arguments)]
            with open(self._file("out", rank), "w") as out, open(self._file("err", rank), "w") as err:
                its = _environment() | {name: str(value) for name, value in environment.items()}
                self.processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=its))

    def _file(self, what, rank):
        return self.directory / f"{what}.{rank}"

    def said(self, rank):
        return self._file("out", rank).read_text()

    def complained(self, rank):
        """On stderr, but for what torch and gloo, and the hint about the world, always say."""
        lines = self._file("err", rank).read_text().splitlines()
        return "\n".join(line for line in lines if "the world is torch.distributed's" not in line and "[Gloo] Rank" not in line)

    def wait_until_it_says(self, rank, line, timeout=60):
        def has_said():
            return f"\n{line}\n" in "\n" + self.said(rank)

        until = time.monotonic() + timeout
        while not has_said():
            assert time.monotonic() < until, (line, self.said(rank), self.complained(rank))
            assert self.processes[rank].poll() is None or has_said(), (line, self.complained(rank))
            time.sleep(0.01)

    def signal(self, rank, number):
        self.processes[rank].send_signal(number)
        return time.time()

    def codes(self, timeout=60):
        """How they ended."""
        until = time.monotonic() + timeout
        ended = []
        for rank, process in enumerate(self.processes):
            try:
                ended.append(process.wait(timeout=max(0.1, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # says where it waits
                process.wait(timeout=20)
                raise AssertionError(f"rank {rank} hung: {self.said(rank)} {self.complained(rank)}") from None
        return ended

    def texts(self):
        return [(self.said(rank), self.complained(rank)) for rank in range(len(self.processes))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait(timeout=20)


def example(name):
    """examples/python/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.environ["ROTA_EXAMPLES"], f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def beside(name):
    """The directory of what requirements-NAME.txt pins, for PYTHONPATH: what is not in build/pypi, as it would not fit there."""
    pins = pathlib.Path(__file__).with_name(f"requirements-{name}.txt")
    directory = pathlib.Path(os.environ["ROTA_ROOT"], "build", name)
    kept = directory / "pins"
    if not kept.exists() or kept.read_text() != pins.read_text():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", directory, "-r", pins]
        subprocess.run(pip, check=True, timeout=600)
        kept.write_text(pins.read_text())
    return str(directory)
