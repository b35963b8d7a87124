"""The job scripts under Debian's Slurm, on this machine alone: what is stopped, killed or queued again goes on where it was."""

import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(os.environ["ROTA_ROOT"])
SCRIPTS = ROOT / "examples" / "slurm"
# Slurm listens on all addresses: in a network of its own, which needs one beside loopback for it.
NETWORK = "ip link set lo up && ip link add one type veth peer name other && ip address add 10.9.9.9/24 dev one && ip link set one up"
INTERFACES = {name for _, name in socket.if_nameindex()}
IS_ALONE = shutil.which("slurmctld") and INTERFACES == {"lo"}
pytestmark = pytest.mark.skipif(not IS_ALONE, reason="needs Slurm, and a network of its own")
NAME = socket.gethostname().split(".")[0]
CONFIGURATION = """
ClusterName=test
SlurmctldHost={name}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={at}/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
JobRequeue=1
KillWait=5
NodeName={name} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


def until(done, what, seconds=90):
    """What `done` returns, once that is true."""
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, what()
        time.sleep(0.1)
    return found


class Cluster:
    def __init__(self, at):
        self.at = at
        (at / "slurm.conf").write_text(CONFIGURATION.format(name=NAME, at=at))
        (at / "key").write_bytes(secrets.token_bytes(1024))
        (at / "key").chmod(0o400)
        own = {"SLURM_CONF": at / "slurm.conf", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": 1}
        own["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = os.environ | {name: str(value) for name, value in own.items()}
        self.servers = []

    def start(self):
        files = {"key-file": "key", "socket": "munge", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "seed"}
        self.serve("munged", "--foreground", "--force", *(f"--{option}={self.at / name}" for option, name in files.items()))
        for name in "slurmctld", "slurmd":
            self.serve(name, "-D")
        until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), self.said)

    def end(self):
        self.run("scancel", "--user=root")
        time.sleep(2)
        for server in reversed(self.servers):
            server.terminate()
            server.wait(timeout=30)

    def serve(self, *command):
        with open(self.at / f"{command[0]}.out", "w") as out:
            self.servers.append(subprocess.Popen(command, stdout=out, stderr=out, env=self.environment))
        time.sleep(1)

    def run(self, *command):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, env=self.environment, cwd=self.at, timeout=60).stdout

    def submit(self, *command):
        job = self.run("sbatch", "--parsable", "--output=said", *command).strip()
        assert job, command
        return job

    def said(self):
        """What the job said; before it, what the servers do."""
        return "".join(path.read_text() for path in sorted(self.at.glob("said")) or self.at.glob("*.out"))

    def wait_for(self, pattern):
        return until(lambda: re.search(pattern, self.said()), self.said)

    def stop(self, job):
        """As a minute before its time is up."""
        self.run("scancel", "--batch", "--signal=USR1", job)
        until(lambda: self.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "PENDING", self.said)

    def begin_again(self, job):
        (self.at / "said").unlink()
        time.sleep(2)  # credentials of the second in which the job ended are revoked
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now")


@pytest.fixture(scope="module")
def network():
    subprocess.run(NETWORK, shell=True, check=True)


@pytest.fixture
def cluster(tmp_path, network):
    made = Cluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


def test_a_program_of_mpi_is_stopped_queued_again_and_goes_on_with_other_tasks(cluster):
    text = cluster.at / "text"
    shutil.copytree(ROOT / "docs", text)
    program = pathlib.Path(os.environ["ROTA_TOOL"]).parent / "train_mpi"
    command = SCRIPTS / "srun.sbatch", program, "--data", text, "--checkpoint", "run", "--epochs", 10**6, "--save-every", 10**6
    job = cluster.submit("--ntasks=4", *command)
    cluster.wait_for("step +50 ")
    cluster.stop(job)
    step = cluster.wait_for(r"at step (\d+): validation")[1]
    cluster.begin_again(job)
    cluster.wait_for(f"4 ranks, from step {step}\n")
    cluster.wait_for(r"step +\d+50 ")
    cluster.stop(job)
    step = cluster.wait_for(r"at step (\d+): validation")[1]
    cluster.run("scancel", job)
    cluster.submit("--ntasks=3", *command)
    cluster.wait_for(f"3 ranks, from step {step}\n")


def steps(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()] if path.exists() else []


def test_torchrun_restarts_what_died_and_its_job_is_stopped_and_queued_again(cluster):
    command = ROOT / "examples" / "python" / "train_torch.py", "--checkpoint", "run.pt", "--epochs", 10**6, "--history", "history"
    first = cluster.at / "history.0"
    job = cluster.submit(SCRIPTS / "torchrun.sbatch", 3, *command, "--every", 20)
    until(lambda: len(steps(first)) > 50, cluster.said)
    victim = subprocess.run(["pgrep", "-n", "-f", "train_torch.py --checkpoint run.pt"], capture_output=True, text=True).stdout
    os.kill(int(victim), signal.SIGKILL)
    begun = until(lambda: sum(a >= b for a, b in zip(steps(first), steps(first)[1:])), cluster.said)  # it went back, once
    assert begun == 1
    count = len(steps(first))
    until(lambda: len(steps(first)) > count + 50, cluster.said)
    cluster.stop(job)
    last = [steps(cluster.at / f"history.{rank}")[-1] for rank in range(3)]
    assert len(set(last)) == 1
    cluster.begin_again(job)
    again = until(lambda: [step for step in steps(first) if step > last[0]], cluster.said)
    assert again[0] == last[0] + 1 and steps(first).count(last[0]) == 1
