"""Where a process of torch.distributed is: meshes, nodes, and ranks that are asked for late, by nobody, or by two at once."""


import pytest

pytest.importorskip("torch", minversion="2")
from torch_jobs import Job  # noqa: E402


def said(directory, code, ranks, **options):
    with Job(directory, code, ranks, **options) as job:
        assert job.codes(120) == [0] * ranks, job.texts()
        return [job.said(rank).splitlines() for rank in range(ranks)]


PLACES = {}  # the number of ranks, whether torch is initialised, and what each does there
PLACES["a dimension of a mesh is a world and a communicator"] = 4, True, """
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
world = rota.torch.world(mesh["dp"])
assert world == rota.World(rank // 2, 2, rank % 2), world
assert rota.torch.world(mesh["dp"].get_group()) == world and rota.torch.world() == rota.World(rank, 4)
for _ in range(20): assert rota.torch.world(mesh["dp"]) == world  # whose groups are closed at once
comm = rota.torch.Communicator(mesh["dp"])
assert (comm.rank, comm.size) == (rank // 2, 2)
sampler = rota.ElasticBatchSampler(20, 4, world=mesh["dp"], shuffle="none")
loaders = [rota.Loader(rows(length=20, bad=0), 4, shuffle="none", **options)
           for options in (dict(world=world), dict(world=mesh["dp"]), dict(comm=comm), dict(comm=mesh["dp"]))]
expected = [[4 * step + 2 * (rank // 2) + k for k in range(2)] for step in range(5)]
assert [list(map(int, batch)) for batch in sampler] == expected and sampler.world == world
for loader in loaders: assert [batch.ids.tolist() for batch in loader] == expected, loader
assert loaders[0].world == world
stream = rota.StreamLoader(Numbers(), 8, comm=mesh["tp"])
ours = sorted(sum((batch["x"].tolist() for batch in stream), []))
all_ours = [None] * 2
dist.all_gather_object(all_ours, ours, group=mesh["tp"].get_group())
assert sorted(sum(all_ours, [])) == list(range(80))
for use in (lambda: rota.torch.Communicator(mesh), lambda: rota.torch.world(mesh), lambda: rota.Loader(rows(), world=mesh),
            lambda: rota.ElasticBatchSampler(20, 4, world=mesh), lambda: rota.StreamLoader(Numbers(), comm=mesh)):
    refused(use, rota.InvalidArgumentError, "it has 2 dimensions; name the one of data-parallel ranks")
print("done")
"""

SHARED = """
if rank == 0:
    os.mkdir(path + "/data")
    for file in range(3): np.full(50_000, file, np.uint16).tofile(f"{path}/data/{file}")
dist.barrier()
catalog = rota.Catalog(path + "/data", comm=rota.torch.Communicator(), share_files=True)
source = rota.open(catalog, "tokens", length=1000)
loader = rota.Loader(source, 30, comm=rota.torch.Communicator(), shuffle="none", shards="files", interleave=3,
                     rank_split="interleaved")
batch = loader.next()  # of all three
print(*sorted({line.split()[4] for line in open("/proc/self/maps") if "memfd:rota-file" in line}))
dist.barrier()
"""


def test_ranks_of_a_node_have_one_copy_of_shared_files(tmp_path):
    first, *others = said(tmp_path, SHARED, 3)
    assert len(first[0].split()) == 3 and others == [first, first]


PLACES["a stream loader may be made before torch is initialised"] = 2, False, """
os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))  # as torchrun does
loader = rota.StreamLoader(Numbers(), 8)
init()
seen = sum((batch["x"].tolist() for batch in loader), [])
everything = [None] * size
dist.all_gather_object(everything, seen)
assert sorted(sum(everything, [])) == list(range(80)) and loader.world == rota.World(rank, size)
print("done")
"""

NOBODY = """
loader = rota.StreamLoader(Numbers(), 8)
print(loader)
for use in (loader.next, loader.state_dict, lambda: rota.CheckpointDirectory(path + "/checkpoints")):
    for words in f"this is rank {rank} of 2", "init_process_group() first": refused(use, rota.InvalidArgumentError, words)
assert rota.Loader(rows(), 8).world == rota.World(rank, 2)
refused(lambda: rota.TraceWriter(path + "/traces", rota.Loader(rows(), 8)), rota.InvalidArgumentError, "needs a communicator")
init()
print(sorted(loader.next()["x"].tolist()))
"""


def test_ranks_of_which_only_the_environment_tells_are_refused_with_words_and_found_later(tmp_path):
    with Job(tmp_path, "os.environ['RANK'] = str(rank)\n" + NOBODY, 2, init=False, WORLD_SIZE=2) as job:
        assert job.codes(120) == [0, 0], job.texts()
        assert all("whose ranks are asked for when it is used first" in job.said(rank) for rank in range(2)), job.texts()


PLACES["what was made alone before torch was initialised is refused"] = 2, False, """
made = [rota.Loader(rows(bad=0), 8), rota.StreamLoader(Numbers(), 8), rota.ElasticBatchSampler(20, 4)]
said = [rota.Loader(rows(bad=0), 8, world=(0, 1)), rota.StreamLoader(Numbers(), 8, comm=None), rota.ElasticBatchSampler(20, 4, world=(0, 1))]
for one in made[0], made[2]: assert len(list(zip(one, range(2)))) == 2
init()
for use in [*map(lambda one: lambda: iter(one), made), made[0].next, made[1].next]:
    refused(use, rota.InvalidArgumentError, f"is rank {rank} of 2 of torch.distributed by now; make it after")
for one in made[0], made[2]:
    one.rescale((0, 1))
for one in said + [made[0], made[2]]: next(iter(one))
print("done")
"""

PLACES["a forked child is no rank"] = 2, True, """
import traceback
child = os.fork()
if child == 0:
    try:
        for use in (lambda: rota.StreamLoader(Numbers(), 8), lambda: rota.Loader(rows(), 8), lambda: rota.ElasticBatchSampler(20, 4)):
            refused(use, rota.UnsupportedError, "is the parent's, of which this process was forked")
        assert len(rota.StreamLoader(Numbers(), 8, comm=None).next()["x"]) == len(rota.Loader(rows(bad=0), 8, world=(0, 1)).next().ids) == 8
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert rota.StreamLoader(Numbers(), 8).world == rota.World(rank, size)
print("done")
"""

ALONE = """
if sys.argv[4] == "init": init()
else: os.environ.update(RANK=str(rank), WORLD_SIZE="2")
if rank == 0:  # and nobody waits for rank 1
    every = list(range(80))
    assert sorted(sum((batch["x"].tolist() for batch in rota.StreamLoader(Numbers(), 8, comm=None)), [])) == every
    items = rota.StreamLoader(rota.Dispatch(Pipe()), 8, comm=None)
    assert items.next()["x"].tolist() == every[:8] and items.world == rota.World(0, 1)
    items.close()
    loader = rota.Loader(rows(length=80, bad=0), 8, comm=None, world=(0, 1), shuffle="none")
    trace = rota.TraceWriter(path + "/traces", loader, comm=None)
    for batch in loader: trace.write(batch)
    trace.end()
    with rota.CheckpointDirectory(None, path + "/checkpoints") as directory: assert directory.save(1, loader).info.world_size == 1
    assert len(rota.Catalog(path + "/traces", comm=None)) == len(rota.Catalog(path + "/traces")) == 1
    assert rota.Communicator(None).size == 1
print("done")
"""


@pytest.mark.parametrize("how", ["init", "environment"])
def test_no_communicator_is_this_process_alone(tmp_path, how):
    with Job(tmp_path, ALONE, 2, how, init=False) as job:
        assert job.codes(120) == [0, 0], job.texts()


PLACES["MPI with another world is an error"] = 2, True, """
from rota import _communicator, _rota
mpi = rota.World(rank, size)
_rota.mpi_world = lambda: mpi
comm = rota.torch.Communicator()  # named by the caller: no conflict
assert rota.Loader(rows(), 8).world == mpi
mpi = rota.World(1 - rank, 2)
for use in (lambda: rota.Loader(rows(), 8), lambda: rota.StreamLoader(Numbers(), 8), lambda: rota.ElasticBatchSampler(20, 4),
            lambda: rota.CheckpointDirectory(path + "/checkpoints"), rota.torch.world):
    refused(use, rota.InvalidArgumentError, f"rank {mpi.rank} of 2 of MPI, and rank {rank} of 2 of torch.distributed; pass comm= or world=")
assert rota.Loader(rows(), 8, comm=comm).world == rota.Loader(rows(), 8, world=(rank, 2)).world == rota.World(rank, 2)
print("done")
"""


@pytest.mark.parametrize("place", PLACES)
def test_each_process_knows_that(tmp_path, place):
    ranks, init, program = PLACES[place]
    assert said(tmp_path, program, ranks, init=init) == [["done"]] * ranks


SINGLETON = """
from mpi4py import MPI
assert MPI.COMM_WORLD.size == 1
assert rota.StreamLoader(Numbers(), 8).world == rota.Loader(rows(), 8).world == rota.World(rank, 2)
print("done")
"""


def test_a_process_that_mpirun_did_not_start_has_no_world_of_mpi(tmp_path):
    pytest.importorskip("mpi4py")
    assert said(tmp_path, SINGLETON, 2) == [["done"]] * 2
