"""rota in MPI jobs, from Python: mpirun -n RANKS python3 -m pytest -p no:cacheprovider test_mpi.py"""

import _thread
import json
import os
import pathlib
import pickle
import random
import sys
import time

import numpy as np
import pytest
import rota
import rota.mpi
from runs import HAS_MPI, SHUFFLES, Dataset, ids, refused

MPI = pytest.importorskip("mpi4py.MPI")
if not HAS_MPI:
    pytest.skip("this rota is built without MPI", allow_module_level=True)
COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size


several = pytest.mark.skipif(SIZE == 1, reason="one rank has no others")


@pytest.fixture
def path(tmp_path):
    """One directory for all ranks."""
    return COMM.bcast(str(tmp_path / "run"))


@pytest.fixture
def comm():
    return rota.mpi.Communicator(COMM)


def source(samples=60, bad=()):
    def get(i):
        if i in bad:
            raise rota.CorruptError(f"sample {i} is bad")
        return {"x": i}

    return rota.PythonSource(Dataset(samples, get), {"x": "int64"})


def of_all(batches):
    """The global batches, of each rank's."""
    return [sorted(sum(step, [])) for step in zip(*COMM.allgather(batches))]


def test_a_communicator_knows_its_ranks(comm):
    assert (comm.rank, comm.size, comm.world) == (RANK, SIZE, rota.World(RANK, SIZE))
    assert repr(comm) == f"<rota.Communicator: rank {RANK} of {SIZE}>"
    duplicate = COMM.Dup()
    copy = rota.mpi.Communicator(duplicate)
    duplicate.Free()
    assert rota.Loader(source(), 4, comm=copy).world == comm.world
    comm.close()
    refused(lambda: comm.rank, rota.InvalidArgumentError, "closed")


def test_data_parallel_ranks_have_replicas(comm):
    one = comm.data_parallel(0)
    assert one.world == rota.World(0, 1, RANK) and (one.rank, one.size) == (RANK, SIZE)
    assert rota.Loader(source(), 4, comm=one).world == one.world
    assert comm.data_parallel(RANK).world == comm.world
    refused(lambda: comm.data_parallel(RANK + 1), rota.InvalidArgumentError)


def test_what_is_no_communicator_of_these_ranks_is_refused(path):
    refused(lambda: rota.mpi.Communicator(MPI.COMM_NULL), rota.InvalidArgumentError, "MPI_COMM_NULL")
    refused(lambda: rota.mpi.Communicator("world"), TypeError, "mpi4py")
    if SIZE > 1:
        with pytest.raises(rota.InvalidArgumentError, match=f"this is rank {RANK} of {SIZE}, and ranks do this together"):
            rota.CheckpointDirectory(path)
        assert rota.Loader(source(), 4).world == rota.World(RANK, SIZE)


@pytest.mark.parametrize("seed", range(4))
def test_loaders_over_a_communicator_read_what_those_of_a_world_do(comm, seed):
    draw = random.Random(seed)
    options = dict(
        shuffle=draw.choice(SHUFFLES), tail=draw.choice(("partial", "carry", "pad")),
        seed=seed, shards=draw.choice((1, 7)), rank_split=draw.choice(("by_sample", "interleaved")), epochs=2,
    )  # fmt: skip
    size = draw.randint(SIZE, 20)
    together = ids(rota.Loader(source(), size, comm=draw.choice((comm, COMM)), **options))
    assert together == ids(rota.Loader(source(), size, world=(RANK, SIZE), **options))
    mixed = rota.Mixture([source(30), source(50)], [1, 2])
    together = ids(rota.Loader(mixed, size, comm=comm, **{**options, "tail": "carry"}))
    assert together == ids(rota.Loader(mixed, size, world=(RANK, SIZE), **{**options, "tail": "carry"}))


@pytest.fixture
def data(path):
    """Six files of lines, on all ranks."""
    if RANK == 0:
        os.makedirs(path)
        for i in range(6):
            pathlib.Path(path, f"{i}.jsonl").write_text("".join(f"{i},{k}\n" for k in range(i + 1)))
    COMM.barrier()
    return path


def catalogs(data, comm):
    manifest = COMM.bcast(str(data) + ".list")
    if RANK == 0:
        pathlib.Path(manifest).write_text(f"{data}/3.jsonl\n{data}/1.jsonl\n")
    COMM.barrier()
    yield rota.Catalog(data, comm=comm)
    yield rota.Catalog(f"{data}/*.jsonl", comm=comm, change_detection="by_name")
    yield rota.Catalog.from_manifest(manifest, comm=comm)
    yield rota.Catalog.from_pattern(f"{data}/{{index}}.jsonl", files=6, comm=comm)


def test_ranks_open_files_together_as_each_alone_does(comm, data):
    for together, alone in zip(catalogs(data, comm), catalogs(data, None)):
        assert list(together) == list(alone) and together.fingerprint == alone.fingerprint
        assert rota.find_format(together) == rota.find_format(alone) == "lines"
        source = rota.open(together)
        assert source.fingerprint == rota.open(alone).fingerprint
        for copy in (pickle.loads(pickle.dumps(together)), pickle.loads(pickle.dumps(source))):  # each rank's own
            assert len(copy) in (len(together), len(source))
    whole = rota.open(data, comm=COMM)
    assert len(whole) == 21 and whole[RANK]["text"].tobytes() == rota.open(data)[RANK]["text"].tobytes()
    refused(lambda: rota.open(rota.Catalog(data), comm=comm), rota.InvalidArgumentError, "give comm=")


def test_rank_0_alone_lists(comm, data):
    seen = []
    catalog = rota.Catalog(data, comm=comm, progress=lambda at: seen.append(at.task))
    assert ("list files" in seen) == (RANK == 0) and len(catalog) == 6
    if RANK == 0:
        for file in os.listdir(data):
            os.remove(os.path.join(data, file))
        os.rmdir(data)
    COMM.barrier()
    refused(lambda: rota.Catalog(data, comm=comm), FileNotFoundError)


@several
def test_ranks_that_differ_are_refused_on_all(comm, data):
    documents = rota.open(data, "lines", comm=comm)
    for use in (
        lambda: rota.Loader(source(60 + RANK), 4, comm=comm), lambda: rota.Loader(source(), 4, comm=comm, seed=RANK),
        lambda: rota.Catalog(data if RANK else f"{data}/1.jsonl", comm=comm),
        lambda: rota.open(data, "lines" if RANK else "files", comm=comm),
        lambda: rota.pack(documents, 8 + RANK, comm=comm),
    ):  # fmt: skip
        refused(use, rota.MismatchError)


def test_what_one_rank_gets_wrong_is_raised_on_all(comm, data, path):
    def wrong(rank, value, right):
        return value if RANK == rank else right

    stream = rota.as_stream(source(), 4)
    documents = rota.open(data, "lines")
    for rank in range(SIZE):
        for use in (
            lambda: rota.Loader(source(), 6, comm=comm, tail=wrong(rank, "typo", "pad")),
            lambda: rota.Loader(wrong(rank, "typo", source()), 6, comm=comm),
            lambda: rota.StreamLoader(stream, wrong(rank, 4.5, 6), comm=comm),
            lambda: rota.StreamLoader(rota.Dispatch(stream, wrong(rank, "4", 4)), 6, comm=comm),
            lambda: rota.Catalog(data, comm=comm, change_detection=wrong(rank, "typo", "by_size")),
            lambda: rota.Catalog(wrong(rank, 5, data), comm=comm),
            lambda: rota.open(data, "tokens", comm=comm, **wrong(rank, {"typo": 1}, {})),
            lambda: rota.pack(documents, wrong(rank, 2.5, 8), comm=comm),
            lambda: rota.CheckpointDirectory(comm, path, deadline=wrong(rank, "typo", 60)),
            lambda: rota.CheckpointDirectory(comm, path, keep_last=wrong(rank, 3, 2), deadline=60) if SIZE > 1 else 1 / "",
            lambda: rota.mpi.Communicator(COMM, wrong(rank, "typo", 60)), lambda: comm.data_parallel(wrong(rank, "typo", 0)),
        ):  # fmt: skip
            refused(use, (rota.Error, TypeError))


def test_what_a_function_raises_stays_the_cause_on_its_rank(comm, data):
    raised = refused(lambda: rota.Catalog(data, comm=comm, progress=(lambda done: 1 / 0) if RANK == 0 else None), rota.CallbackError)
    assert isinstance(raised.__cause__, ZeroDivisionError) == (RANK == 0)


def test_ranks_pack_together_as_each_alone_does(comm, data):
    documents = rota.open(data, "lines", comm=comm)
    together, alone = (rota.pack(documents, 8, seed=3, comm=one) for one in (comm, None))
    assert together.fingerprint == alone.fingerprint and len(together) == len(alone)
    assert [s["text"].tolist() for s in together] == [s["text"].tolist() for s in alone]
    assert pickle.loads(pickle.dumps(together)).fingerprint == alone.fingerprint


def test_bad_samples_are_counted_together(comm):
    options = dict(comm=comm, on_bad_sample="skip", io_retries=0, deadline=60)
    loader = rota.Loader(source(bad={3, 30, 44}), 12, **options)
    assert sum(COMM.allgather(sum((batch.kinds == 2).sum() for batch in loader))) == 3
    assert loader.skipped_count == 3
    refused(lambda: list(rota.Loader(source(bad=range(20, 40)), 12, max_skipped=2, **options)), rota.Error, "bad")


def test_a_loader_goes_on_with_fewer_ranks(comm):
    whole = of_all(ids(rota.Loader(source(), 6, comm=comm)))
    loader = rota.Loader(source(), 6, comm=comm)
    seen = of_all(ids([loader.next(), loader.next()]))
    stays = RANK < max(SIZE - 1, 1)
    fewer = COMM.Split(0 if stays else MPI.UNDEFINED, RANK)
    rest = []
    if stays:
        loader.rescale(comm=fewer)
        assert loader.world == rota.World(RANK, max(SIZE - 1, 1))
        rest = ids(loader)
    rest = [batches for batches in COMM.allgather(rest) if batches]
    assert seen + [sorted(sum(step, [])) for step in zip(*rest)] == whole


@pytest.mark.parametrize("kind", ["save", "save_async"])
def test_ranks_save_tensors_together(comm, path, kind):
    whole = np.arange(70, dtype=np.float32).reshape(35, 2)
    mine = np.full((RANK + 1, 3), RANK, dtype=np.int16)
    with rota.CheckpointDirectory(comm, path, deadline=60) as directory:
        states = {"whole": whole if RANK == 0 else whole * 0, "rows": rota.Rows(mine), "note": f"of rank {RANK}"}
        getattr(directory, kind)(4, states, {"one": np.float64(0.5)})
        mine[:] = -1
        checkpoint = directory.latest()
        assert np.array_equal(checkpoint["whole"], whole) and checkpoint["one"].tolist() == [0.5]
        rows = [rank for rank in range(SIZE) for _ in range(rank + 1)]
        assert checkpoint["rows"][:, 0].tolist() == rows
        assert checkpoint.blob("note") == b"of rank 0" and checkpoint.info.world_size == SIZE
        assert np.array_equal(np.concatenate(COMM.allgather(checkpoint.share("whole"))), whole)


@pytest.mark.parametrize("kind", ["save", "save_async"])
def test_saves_read_a_plan_for_all_ranks_at_one_step(comm, path, kind, caplog):
    plan = pathlib.Path(f"{path}-plan.json")

    def save(step, size, loader):
        """Rank 0's file alone counts: for others it is elsewhere, or another one."""
        COMM.barrier()
        if RANK == 0:
            plan.write_text(json.dumps({"stages": [{"steps": step, "global_batch_size": size}]}))
        getattr(directory, kind)(loader.position.step, loader)

    if RANK == 0:
        plan.write_text("{}")
    mine = plan if RANK == 0 else f"{path}-none"
    loader = rota.Loader(source(), 6, comm=comm, plan=mine, replan="at_save")
    sampler = rota.ElasticBatchSampler(60, 6, world=comm.world, plan={}, tail="partial", epochs=1)
    if SIZE > 1:
        refused(lambda: rota.Loader(source(), 6, comm=comm, plan=mine, replan=("at_save", "by_hand")[RANK % 2]), rota.MismatchError, "replan")
    with rota.CheckpointDirectory(comm, path, deadline=60) as directory:
        batches = iter(loader)
        seen = ids([next(batches), next(batches)])
        save(3, 4, loader)
        seen += ids([next(batches), next(batches)])
        save(3, 9, loader)
        save(3, 9, loader)
        directory.wait()
        assert directory.latest().info.serial == 2
        said = COMM.allgather([record.getMessage().split("; the run goes on")[0] for record in caplog.records if "the plan that it had" in record.getMessage()])
        assert said == [said[0]] * SIZE and len(said[0]) == 1 and "step 3 is past" in said[0][0]
        seen += ids(batches)
        sampler.replan({"stages": [{"steps": 3, "global_batch_size": 4}]})
        if SIZE > 1:
            COMM.barrier()
            apart = rota.Loader(source(), 6, world=(RANK, SIZE), plan=plan, replan=("at_save", "by_hand")[RANK % 2])
            refused(lambda: directory.save(9, {"apart": apart}), rota.MismatchError, "apart/plan")
    assert of_all(seen) == of_all(ids(iter(sampler.advance, None)))


@pytest.mark.parametrize("of_torch", [False, True])
def test_ranks_draw_by_weights_as_one_does(comm, of_torch):
    for samples in range(1, 9):
        data = [*range(samples)] if of_torch else source(samples)
        weights = np.arange(1.0, samples + 1)
        alone, together = rota.weighted(data, weights, 12), rota.weighted(data, weights, 12, comm=comm)
        draws = [(draw, epoch) for epoch in range(3) for draw in range(12)]
        assert [together.drawn(*one) for one in draws] == [alone.drawn(*one) for one in draws]
    of_last = {"dataset": None, "draws": 1 << 63, "seed": -1}
    for name in of_last:
        own = {"dataset": data, "draws": 12, "seed": 0} | ({name: of_last[name]} if RANK == SIZE - 1 else {})
        with pytest.raises((rota.Error, TypeError)):
            rota.weighted(own["dataset"], weights, own["draws"], own["seed"], comm=comm)


def test_loaders_go_on_together_and_alone(comm, path):
    whole = of_all(ids(rota.Loader(source(), 6, comm=comm, seed=2)))
    loader = rota.Loader(source(), 6, comm=comm, seed=2)
    for step in range(4):
        loader.next()
    with rota.CheckpointDirectory(comm, path, deadline=60) as directory:
        directory.save(4, loader)
        again = rota.Loader(source(), 6, comm=comm, seed=2)
        assert directory.restore(again).info.step == again.position.step == 4
        assert of_all(ids(again)) == whole[4:]
    if RANK == 0:
        with rota.CheckpointDirectory(rota.mpi.Communicator(), path) as directory:
            alone = rota.Loader(source(), 6, world=(0, 1), seed=2)
            directory.restore(alone)
        assert [sorted(batch) for batch in ids(alone)] == whole[4:]


@several
def test_parts_of_some_ranks_and_the_whole_of_another_are_no_tensor(comm, path):
    rows = np.full((2, 2), RANK)
    with rota.CheckpointDirectory(comm, path, deadline=60) as directory:
        refused(lambda: directory.save(1, {"c": rows if RANK == 1 else rota.Rows(rows)}), rota.MismatchError, "rank 0 has c: Rows")
        assert directory.latest() is None


@pytest.mark.parametrize("kind", ["save", "save_async"])
def test_a_rank_that_cannot_save_is_told_to_all(comm, path, kind):
    with rota.CheckpointDirectory(COMM, path, deadline=60) as directory:
        for failing in range(SIZE):
            value = {1, 2} if RANK == failing else b"good"
            with pytest.raises((rota.Error, TypeError), match="pickle.dumps") as raised:
                getattr(directory, kind)(1, {"state": value})
                directory.wait()
            if RANK != failing:
                assert isinstance(raised.value, rota.InvalidArgumentError) and f"rank {failing}" in str(raised.value)
            elif kind == "save":
                assert type(raised.value) is TypeError
        assert directory.latest() is None
        directory.save(2, {"state": b"good"})
        assert directory.latest().info.step == 2


def test_a_rank_that_cannot_restore_is_told_to_all(comm, path):
    with rota.CheckpointDirectory(comm, path, deadline=60) as directory:
        directory.save(1, {"main": rota.Loader(source(), 6, world=(RANK, SIZE))})
        for failing in range(SIZE):
            other = rota.Loader(source(61 if RANK == failing else 60), 6, world=(RANK, SIZE))
            raised = refused(lambda: directory.restore(other), rota.MismatchError)
            assert RANK == failing or f"rank {failing}" in str(raised)
        assert directory.restore(rota.Loader(source(), 6, world=(RANK, SIZE))).info.step == 1


def test_statistics_that_one_rank_cannot_give_fail_on_all_and_then_name_the_last(comm):
    loader = rota.Loader(source(), 4 * SIZE, comm=comm, workers=0, transform=lambda sample: time.sleep(0.02 if RANK == SIZE - 1 else 0))
    next(loader)
    refused(lambda: rota.compare_ranks("none" if RANK == 0 else loader, comm), TypeError if RANK == 0 else rota.Error, "need a rota.Loader")
    found = rota.compare_ranks(loader, comm)
    assert found["wait"]["rank"] == SIZE - 1 and found["wait"]["most"] >= 0.08
    assert found["straggler"].startswith(f"rank {SIZE - 1} waits for its transform: ") == (SIZE > 1)


def test_other_threads_run_while_a_rank_waits(comm, path):
    if SIZE == 1 or MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        return
    with rota.CheckpointDirectory(comm, path, deadline=20) as directory:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # so the thread runs when this one gives the lock away, which is in `save`
        if RANK == 0:
            _thread.start_new_thread(COMM.send, ("go", 1))
        if RANK == 1:
            assert COMM.recv(source=0) == "go"
        directory.save(0, {"w": np.zeros(3)})
        sys.setswitchinterval(interval)


@several
def test_members_refuse_what_ranks_would_wait_for(comm, path):
    if RANK == 0:
        pathlib.Path(path).mkdir()
        pathlib.Path(path, "a.jsonl").write_text("1\n2\n3\n")
    COMM.barrier()
    order = {"shuffle": "none", "shards": 1, "interleave": 1}
    refused(lambda: rota.Members(rota.Loader(source(), 6, comm=comm), tuple), rota.InvalidArgumentError, "communicator")
    opened = rota.open(rota.Catalog(path, share_files=True, comm=comm))
    members = rota.Members(rota.Loader(rota.take(opened, 2), 2, world=(0, 1), **order), lambda: (0, 0, 1))
    assert next(members).size == 2
    COMM.barrier()
