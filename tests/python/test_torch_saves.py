"""Ranks of torch.distributed and of MPI write the same checkpoints, and read each other's."""

import json
import shutil

import pytest

h5py = pytest.importorskip("h5py")
pytest.importorskip("torch", minversion="2")
pytest.importorskip("mpi4py")
from runs import python  # noqa: E402
from torch_jobs import START, Job  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")

MADE = """
samples = rota.Loader(rows(length=60, bad=9), 8, comm=comm, seed=3, on_bad_sample="skip", io_retries=0, deadline=60)
stream = rota.StreamLoader(Numbers(), 8, comm=comm, deadline=60)
items = rota.StreamLoader(dispatch(), 8, comm=comm, deadline=60)
loaders = {"samples": samples, "stream": stream, "items": items}
directory = rota.CheckpointDirectory(comm, path + "/checkpoints", deadline=60)
"""
SAVE = """
for _ in range(3):
    for loader in loaders.values(): loader.next()
whole, mine = np.arange(12.0).reshape(4, 3), np.full((rank + 2, 5), rank, np.int16)
tensors = {"a/whole": whole, "a/rows": rota.Rows(mine), "half": torch.ones(3, dtype=torch.bfloat16), "one": np.float32(2)}
indexed = {name: loader for name, loader in loaders.items() if name != "items"}  # whose state has what was read ahead by then
directory.save(2, indexed, tensors, {"note": "a text"})
directory.save(3, loaders, tensors, {"note": "a text"})
directory.close()
"""
RESTORE = """
checkpoint = directory.restore(loaders)
assert checkpoint.info.world_size == size and checkpoint.blob("note") == b"a text" and checkpoint["a/rows"].shape == (5, 5)
sys.stdout.write(f"{[[loader.next()['x'].tolist() for _ in range(3)] for loader in loaders.values()]}\\n")  # in one piece
directory.close()
"""
BY_MPI = "import sys; from mpi4py import MPI; comm = MPI.COMM_WORLD; sys.argv[1:1] = [str(comm.rank), str(comm.size)]\n"


def by_torch(directory, code):
    with Job(directory, "comm = rota.torch.Communicator(deadline=60)\n" + MADE + code, 2) as job:
        assert job.codes(90) == [0, 0], job.texts()
        return sorted(job.said(rank) for rank in range(2))


def by_mpi(directory, code):
    directory.mkdir(exist_ok=True)
    return sorted(python(BY_MPI + START + MADE + code, directory, ranks=2).stdout.splitlines(keepends=True))


def contents(directory):
    """All that a file has but for its ids: what is where, with which attributes and bytes."""
    path = min((directory / "checkpoints").glob("*.h5"))
    found = {"size": path.stat().st_size}
    with h5py.File(path) as file:

        def add(name, one):
            found[name, "attributes"] = {key: value for key, value in one.attrs.items() if key != "run_id"}
            if isinstance(one, h5py.Dataset):
                found[name] = one.dtype, one.shape, one.id.get_offset(), one[()].tobytes()

        add("/", file)
        file.visititems(add)
    return found


def test_a_checkpoint_by_torch_is_that_by_mpi_and_each_restores_the_others(tmp_path):
    torchs, mpis = tmp_path / "torch", tmp_path / "mpi"
    by_torch(torchs, SAVE), by_mpi(mpis, SAVE)
    expected, found = contents(mpis), contents(torchs)
    assert found.keys() == expected.keys() and len(found) > 20
    assert [key for key in found if found[key] != expected[key]] == []
    on = by_torch(torchs, RESTORE)
    assert len(set(on)) == 2 and on == by_torch(mpis, RESTORE) == by_mpi(torchs, RESTORE) == by_mpi(mpis, RESTORE)


SHARDED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(7, 13), torch.nn.Linear(13, 3))
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")) if size == 4 else init_device_mesh("cpu", (size,))
whole = {name: value.clone() for name, value in model.state_dict().items()}
fully_shard(model, mesh=mesh)
directory = rota.CheckpointDirectory(rota.torch.Communicator(deadline=60), path + "/../checkpoints")
last = directory.latest()
if last:
    for value in model.parameters():
        value.data.to_local().zero_()
    for name, value in model.state_dict().items():
        rota.torch.fill(value, last, name)
for name, value in model.state_dict().items():
    assert torch.equal(value.full_tensor(), whole[name]), name
directory.save(last.info.step + 1 if last else 1, model.state_dict(), {"half": torch.ones(3, dtype=torch.bfloat16)})
last = directory.latest()
half = torch.zeros(3, dtype=torch.bfloat16)
rota.torch.fill(half, last, "half")
assert half.tolist() == [1, 1, 1]
assert all(torch.equal(torch.from_numpy(last[name]), value) for name, value in whole.items())
for length in 2, 4:
    try: rota.torch.fill(torch.zeros(length), last, "half")
    except rota.MismatchError as error: print("told", f"shape [{length}]" in str(error))
for other, words in (torch.zeros(3), "convert it"), (torch.zeros(3, dtype=torch.bfloat16, device="meta"), "to_empty"):
    refused(lambda: rota.torch.fill(other, last, "half"), rota.MismatchError, words)
directory.close()
if size == 4:
    from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
    directory = rota.CheckpointDirectory(path + "/others")
    part = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["dp"]
    for mesh in part, DeviceMesh("cpu", [3, 2, 1, 0]):  # whose rows would be there twice, and in another order
        saved = {"w": distribute_tensor(torch.arange(8), mesh, [Shard(0)])}
        refused(lambda: directory.save(1, saved), rota.UnsupportedError, "in ascending order; give tensor.full_tensor()")
    directory.save(1, {"w": distribute_tensor(torch.arange(8), part, [Replicate()])})
    assert directory.latest()["w"].tolist() == [*range(8)]
    directory.close()
"""


def test_a_model_that_fsdp_has_sharded_is_filled_again_in_any_world(tmp_path):
    for turn, ranks in enumerate((3, 4, 2)):
        with Job(tmp_path / str(turn), SHARDED, ranks) as job:
            assert job.codes(120) == [0] * ranks, job.texts()
            assert job.said(0) == "told True\n" * 2


DCP = """
import torch.distributed.checkpoint as dcp

loader = rota.torch.DataLoader(range(96), rota.ElasticBatchSampler(96, 12, seed=1, epochs=2, tail="drop"), num_workers=int(sys.argv[4]))
checkpoint, own = path + "/dcp", dist.new_group(backend="gloo")
if os.path.exists(checkpoint): dcp.load({"loader": loader}, checkpoint_id=checkpoint)
parts, saved = [], None
for batch in loader:
    part = [None] * size
    dist.all_gather_object(part, batch.tolist())
    parts.append(sorted(sum(part, [])))
    if loader.position.step in (6, 16): saved = dcp.async_save({"loader": loader}, checkpoint_id=checkpoint, process_group=own)
    if loader.position.step == int(sys.argv[5]): break  # what comes behind the save is in no checkpoint
if saved: saved.result()
print(parts)
dist.destroy_process_group()
time.sleep(0.2)  # threads of gloo still have calls of torch's own, and would want Python's lock when it has ended
"""


def test_a_loader_saved_in_the_background_by_dcp_goes_on_in_other_worlds(tmp_path):
    found = []
    for ranks, workers, last in (4, 0, 8), (3, 2, 12), (2, 0, 99):
        with Job(tmp_path, DCP, ranks, workers, last) as job:
            assert job.codes(200) == [0] * ranks, job.texts()
            found.append(json.loads(job.said(0)))
    first, second, third = found
    assert (len(first), len(second), len(third)) == (8, 6, 10)
    assert first[6:] == second[:2] and second == third[:6]  # from step 6 on, as nothing was saved since
    assert sorted(sum(first[:8], [])) == sorted(sum(third[2:], [])) == [*range(96)]
