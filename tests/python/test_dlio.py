"""DLIO, from PyPI, loads by rota: examples/python/dlio_rota.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ["ROTA_ROOT"])
HERE = ROOT / "build" / "dlio"
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=900, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def test_dlio_trains_by_rota(tmp_path):
    pip = HERE / "bin" / "pip"
    if not pip.exists():
        run(sys.executable, "-m", "venv", HERE)
    run(pip, "install", "-q", "-r", ROOT / "tests" / "python" / "requirements-dlio.txt")
    (wheel,) = (ROOT / "build" / "wheels").glob(f"rota-*-{TAG}-*.whl")
    run(pip, "install", "-q", "--no-deps", "--force-reinstall", "dlio-benchmark==2.0.0", wheel)

    environment = os.environ | {"PYTHONPATH": os.environ["ROTA_EXAMPLES"]}
    dataset = dict(data_folder="data", num_files_train=56, record_length=400_000, record_length_stdev=100_000)
    given = {
        "workflow.checkpoint": False, "train.epochs": 2, "train.computation_time": 0.02, "reader.read_threads": 2,
        **{f"dataset.{name}": value for name, value in dataset.items()},
    }  # fmt: skip
    generate = {"workflow.generate_data": True, "workflow.train": False}
    by_rota = {"reader.data_loader_classname": "dlio_rota.Rota", "reader.data_loader_sampler": "iterative"}

    def dlio(more):
        words = [f"++workload.{name}={value}" for name, value in (given | more).items()]
        return run("mpirun", "-n", 2, HERE / "bin" / "dlio_benchmark", "workload=unet3d_h100", *words, cwd=tmp_path, env=environment)

    dlio(generate)
    said = dlio(by_rota)
    assert "custom data loader class Rota" in said
    assert len(re.findall("Ending block 1 - 4 steps completed", said)) == 2, said  # 56 samples, of 7 on each of 2 ranks
    assert float(re.search(r"Training Accelerator Utilization \[AU\] \(%\): ([0-9.]+)", said)[1]) > 0
