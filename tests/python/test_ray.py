"""Ray Train with examples/python/with_ray.py: a node that is lost, a worker that is killed, and nodes that come."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

torch = pytest.importorskip("torch", minversion="2.7")
import rota  # noqa: E402
import rota.torch  # noqa: E402
from torch_jobs import beside, example  # noqa: E402

EVERY = 4  # steps from one checkpoint to the next
JOB = Path(__file__).with_name("ray_job.py")


def whole():
    """The ids of each step, and its loss, of a run of one process that is never stopped."""
    with mock.patch.dict(sys.modules, dict.fromkeys(("ray", "ray.train", "ray.train.torch"), mock.MagicMock())):
        with_ray = example("with_ray")
    torch.manual_seed(0)
    model = with_ray.Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)
    sampler = rota.ElasticBatchSampler(with_ray.DATA, 12, seed=1, epochs=3, world=(0, 1))
    for batch in rota.torch.DataLoader(with_ray.DATA, sampler):
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        yield sorted(map(int, batch.flatten())), loss.item()


def test_a_run_goes_on_when_workers_are_lost_and_come(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([beside("ray"), os.environ["ROTA_EXAMPLES"], *sys.path]))
    for name, value in {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "20", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}.items():
        monkeypatch.setenv(name, value)
    # Alone in its namespaces: nothing listens elsewhere, outlives it, or is found by another Ray, in /tmp/ray.
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec"]
    alone += ['ip link set lo up; mkdir -p /tmp/ray; mount --bind "$1" /tmp/ray; shift; exec "$@"', "sh", tmp_path]
    job = subprocess.run([*alone, sys.executable, JOB, tmp_path], capture_output=True, text=True, timeout=400)
    assert job.returncode == 0 and "ended: {'step': 24}" in job.stdout, (job.stdout + job.stderr)[-4000:]
    starts = {}
    for path in tmp_path.glob("*.*.*"):
        lines = [*map(json.loads, path.read_text().splitlines())]
        if lines:
            starts.setdefault(path.name.rpartition(".")[0], []).append(lines)

    steps = [*whole()]
    starts = sorted(starts.items(), key=lambda start: start[1][0][0]["time"])
    sizes = [int(name.rpartition(".")[2]) for name, _ in starts]
    assert sizes[:3] == [3, 2, 2] and sizes[-1] == 4  # Ray may have gone on with 3 when the first node had come
    places = []
    for _, ranks in starts:
        done = [(sorted(sum((line["ids"] for line in batch), [])), batch) for batch in zip(*ranks)]
        places.append([ids for ids, _ in steps].index(done[0][0]))
        for (ids, batch), (wanted, loss) in zip(done, steps[places[-1] :]):
            assert ids == wanted
            assert sum(line["loss"] for line in batch) / len(batch) == pytest.approx(loss, abs=1e-5)
    assert places[0] == 0 and all(place % EVERY == 0 for place in places)
    for place, after, (_, ranks) in zip(places, [*places[1:], 24], starts):  # what the checkpoints kept was trained there
        assert place <= after <= place + min(map(len, ranks))
    for at in 0, 8, 16:
        assert sorted(sum((ids for ids, _ in steps[at : at + 8]), [])) == [*range(96)]
