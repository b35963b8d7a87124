"""rota.CheckpointDirectory and rota.Checkpoint from Python, in one process."""

import gc
import os
import pickle
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rota
from runs import DTYPES, HAS_MPI, error_of_mpi, ids, in_child, loader, python, refused, source

SAVE = """
import sys, rota, numpy as np
directory = rota.CheckpointDirectory(None, sys.argv[1])
directory.save_async({step}, {{"w": np.arange(10**6)}})
{end}
"""
FAILS = 'with directory: raise ValueError("mine")'


@pytest.fixture
def directory(tmp_path):
    with rota.CheckpointDirectory(None, tmp_path / "run") as opened:
        yield opened


@pytest.mark.parametrize("seed", range(8))
def test_tensors_come_back_bit_by_bit(directory, seed):
    draw = random.Random(seed)
    arrays = {}
    for number in range(draw.randint(1, 12)):
        shape = [draw.randint(0, 5) for _ in range(draw.randint(1, 4))]
        raw = np.random.default_rng(seed).integers(0, 2 if number % 3 == 0 else 255, shape)
        array = raw.astype(draw.choice(DTYPES if number % 3 == 0 else DTYPES[1:]))
        arrays[f"model/{number}"] = draw.choice((array, array.T, np.asfortranarray(array), array[::-1], array[:, ...]))
    save = draw.choice((directory.save, directory.save_async))
    save(seed, arrays)
    checkpoint = directory.latest()
    assert list(checkpoint) == sorted(arrays) and dict(checkpoint).keys() == arrays.keys()
    for name, array in arrays.items():
        assert checkpoint[name].dtype == array.dtype and checkpoint[name].shape == array.shape
        assert np.ascontiguousarray(array).tobytes() == checkpoint[name].tobytes()
        first = draw.randint(0, len(array))
        assert np.array_equal(checkpoint.rows(name, first, len(array) - first), array[first:])
        assert np.array_equal(checkpoint.share(name), array)


def test_tensors_of_torch_come_back_bit_by_bit(directory):
    torch = pytest.importorskip("torch")
    tensors = {
        "grown": torch.randn(3, 4, generator=torch.Generator().manual_seed(1), requires_grad=True),
        "brain": torch.arange(-4, 5, dtype=torch.float32).bfloat16().reshape(3, 3).T,
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False]),
    }
    directory.save(0, tensors)
    checkpoint = directory.latest()
    assert {(t.name, t.dtype, t.shape) for t in checkpoint.tensors} == {
        ("grown", "float32", (3, 4)), ("brain", "bfloat16", (3, 3)), ("count", "int64", (1,)), ("mask", "bool", (2,)),
    }  # fmt: skip
    bits = torch.from_numpy(checkpoint["brain"].view("int16"))
    assert torch.equal(bits.view(torch.bfloat16), tensors["brain"])
    assert np.array_equal(checkpoint["grown"], tensors["grown"].detach().numpy())
    assert checkpoint["count"].tolist() == [7] and checkpoint["mask"].tolist() == [True, False]


def test_blobs_come_back(directory):
    blobs = {"text": "grüße", "bytes": b"\x00\xff", "empty": b""}
    blobs |= {"array": bytearray(b"abc"), "view": memoryview(b"xyz")}
    directory.save(0, blobs)
    checkpoint = directory.latest()
    assert checkpoint.blob("text").decode() == "grüße"
    assert [checkpoint.blob(name) for name in ("bytes", "empty", "array", "view")] == [b"\x00\xff", b"", b"abc", b"xyz"]
    assert {(blob.name, blob.rank, blob.bytes) for blob in checkpoint.blobs} >= {("bytes", None, 2), ("empty", None, 0)}
    assert len(checkpoint) == 0 and "text" not in checkpoint


@pytest.mark.parametrize("value, advice", [
    (3, "np.asarray"), (0.5, "np.asarray"), (True, "np.asarray"), ([1, 2], "np.asarray"), ({"lr": 1}, "json.dumps"),
    ({1, 2}, "pickle.dumps"), (None, "every rank"), (np.array([{}]), "dtype"), (np.zeros(2, ">i4"), "native"),
    (np.zeros(2, complex), "dtype"), (rota.Rows(np.float32(1)), "rows"), (source(4), "no loader"),
])  # fmt: skip
def test_other_values_are_refused_with_advice(directory, value, advice):
    for save in (directory.save, directory.save_async):
        refused(lambda: save(1, {"model/w": np.zeros(3), "other": value}), (TypeError, ValueError), advice)
    assert directory.wait() is None and directory.latest() is None
    directory.save(1, {"model/w": np.zeros(3)})


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "a b", "..", "rota/x", "ä", "a\0b"])
def test_bad_names_are_refused(directory, name):
    for value in (np.zeros(1), b""):
        refused(lambda: directory.save(0, {name: value}), rota.InvalidArgumentError, "name")


def test_names_must_be_texts_and_differ(directory):
    refused(lambda: directory.save(0, {1: np.zeros(1)}), TypeError, "must be a text")
    for name, states in ("loader/main", (loader(), loader())), ("w", ({"w": np.zeros(1)}, {"w": np.zeros(1)})):
        refused(lambda: directory.save(0, *states), rota.InvalidArgumentError, f'"{name}.* give each state a name of its own')


@pytest.mark.parametrize("kind", ["save", "save_async"])
def test_loaders_go_on_where_the_checkpoint_was(directory, kind):
    one, two = loader(seed=1), loader(30, 7, seed=2, epochs=2)
    for _ in range(3):
        one.next(), two.next()
    getattr(directory, kind)(3, one, {"second": two, "note": "x"})
    rest = ids(one), ids(two)
    fresh = loader(seed=1), loader(30, 7, seed=2, epochs=2)
    checkpoint = directory.restore(fresh[0], {"second": fresh[1]})
    assert checkpoint.info.step == 3 and checkpoint.blob("note") == b"x"
    assert fresh[0].position.step == 3
    assert (ids(fresh[0]), ids(fresh[1])) == rest


def test_arrays_may_change_while_a_save_is_under_way(directory):
    array = np.arange(10**6)
    expected = array.copy()
    for step in range(5):
        directory.save_async(step, {"w": array})
        array += 1
        assert np.array_equal(directory.latest()["w"], expected + step)
    directory.save_async(9, {"w": array})
    while not directory.poll():
        pass
    assert directory.wait().info.step == 9
    assert directory.wait() is None and directory.poll()


def test_a_restore_refuses_another_dataset_and_leaves_the_loader(directory):
    directory.save(0, loader(40))
    other = loader(41)
    other.next()
    refused(lambda: directory.restore(other), rota.MismatchError)
    assert other.position.step == 1
    refused(lambda: directory.restore({"second": loader(40)}), rota.NotFoundError)
    refused(lambda: directory.restore({"w": np.zeros(3)}), TypeError, "no loader")


def test_an_empty_directory_restores_nothing(directory):
    one = loader()
    one.next()
    assert directory.restore(one) is None and directory.latest() is None and directory.list() == []
    assert one.position.step == 1
    refused(lambda: directory.open(1), rota.NotFoundError, "none")


def test_the_policy_says_what_stays(tmp_path):
    with rota.CheckpointDirectory(None, tmp_path, keep_last=1, keep_every=3) as directory:
        serials = [directory.save(step, {"n": str(step)}).info.serial for step in range(8)]
        kept = [info.serial for info in directory.list()]
        assert kept == [s for s in serials if s % 3 == 0 or s == serials[-1]]
        assert directory.open(kept[0]).blob("n") == str(serials.index(kept[0])).encode()
        info = directory.latest().info
        assert isinstance(info.path, Path) and info.path.parent == tmp_path and info.world_size == 1
        assert info.parent == serials[-2] and info.step == 7 and info.bytes == os.path.getsize(info.path)


def test_damage_is_told_and_passed_by(directory):
    directory.save(1, {"w": np.arange(100_000)})
    newest = directory.save(2, {"w": np.arange(100_000)}).info
    assert rota.verify(newest.path).is_good and rota.verify(newest.path).tensors[0].shape == (100_000,)
    damaged = bytearray(newest.path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    newest.path.write_bytes(damaged)
    checked = rota.verify(str(newest.path))
    assert not checked.is_good and checked.info.step == 2
    assert checked.damage[0].part in ("bytes", "rows") and "w" in checked.damage[0].what
    refused(lambda: rota.open_checkpoint(newest.path), rota.CorruptError)
    assert directory.latest().info.step == 1
    (rejected,) = directory.rejected
    assert rejected.path == newest.path and rejected.reason


def test_a_checkpoint_is_a_mapping_that_says_what_it_has(directory):
    directory.save(0, loader(), {"a/w": np.arange(6).reshape(3, 2), "note": ""})
    checkpoint = rota.open_checkpoint(directory.latest().info.path)
    assert "a/w" in checkpoint and "b" not in checkpoint and 3 not in checkpoint
    assert set(checkpoint) == {"a/w", "loader/main/cursors"}
    assert checkpoint.get("b") is None and checkpoint == checkpoint and {checkpoint}
    for missing in (lambda: checkpoint["b"], lambda: checkpoint.blob("b"), lambda: checkpoint.share("b")):
        refused(missing, KeyError)
    for first, count in ((-1, 1), (0, 4), (4, 0), (2**62, 2**62), (0, -1)):
        refused(lambda: checkpoint.rows("a/w", first, count), rota.OutOfRangeError)
    assert checkpoint.rows("a/w", 3, 0).shape == (0, 2)
    assert repr(checkpoint).startswith("<rota.Checkpoint ")


def test_files_that_are_none_raise(tmp_path):
    for function in (rota.open_checkpoint, rota.verify):
        refused(lambda: function(tmp_path / "none.h5"), FileNotFoundError)
    (tmp_path / "text.h5").write_text("no checkpoint")
    refused(lambda: rota.open_checkpoint(tmp_path / "text.h5"), rota.CorruptError)
    assert not rota.verify(tmp_path / "text.h5").is_good


def test_a_checkpoint_is_read_by_many_threads(directory):
    directory.save(0, {f"w{i}": np.full(50_000, i) for i in range(8)})
    checkpoint = directory.latest()

    def reads(_):
        return all((checkpoint[f"w{i}"] == i).all() for i in list(range(8)) * 5)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(reads, range(4)))


def test_one_job_at_a_time_has_a_directory(tmp_path):
    first = rota.CheckpointDirectory(None, tmp_path)
    assert first.is_locked and first.path == str(tmp_path)
    with pytest.raises(rota.BusyError, match=r"another job has locked it, or another CheckpointDirectory.*close\(\)"):
        rota.CheckpointDirectory(None, tmp_path)
    other = "import rota, sys\ntry: rota.CheckpointDirectory(None, sys.argv[1])\nexcept rota.BusyError as error: print(error)"
    assert "another job has locked it" in python(other, tmp_path).stdout
    first.close()
    first.close()
    assert first.is_closed and "closed" in repr(first)
    refused(lambda: first.save(0, {}), rota.InvalidArgumentError, "closed")
    rota.CheckpointDirectory(None, tmp_path).close()


def foreign(use):
    """A loader of others, which does that where it is saved or restored."""
    return SimpleNamespace(_save_to=lambda *_: use(), _restore_from=lambda *_: use())


def test_one_thread_at_a_time_uses_a_directory(directory):
    directory.save(0, {})
    refused(lambda: directory.restore(foreign(lambda: directory.save(0, {}))), rota.BusyError, "one thread at a time")
    assert directory.restore() is not None


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_a_loader_raises_is_raised_itself(directory, error):
    def fail():
        raise error

    directory.save(0, {})
    for use in (lambda: directory.restore(foreign(fail)), lambda: directory.save(0, foreign(fail))):
        refused(use, error)
    assert directory.latest() is not None


@pytest.mark.parametrize(
    "end", ["", "del directory", "directory.close()", "sys.exit(0)", "cycle = [directory]; cycle.append(cycle)", FAILS]
)
def test_a_save_under_way_is_finished_at_the_end_of_python(tmp_path, end):
    told = python(SAVE.format(step=5, end=end), tmp_path, returns=int(end == FAILS)).stderr
    assert ("mine" in told) == (end == FAILS), told
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        assert directory.latest().info.step == 5 and directory.latest()["w"].sum() == sum(range(10**6))


@pytest.mark.parametrize("end", ["", FAILS])
def test_a_failed_save_is_told_at_the_end_of_python(tmp_path, end):
    told = python(SAVE.format(step=-1, end=end), tmp_path, returns=int(end == FAILS)).stderr
    assert "step is -1" in told and "InvalidArgumentError" in told and ("mine" in told) == (end == FAILS), told


def test_a_forked_child_has_no_part_in_a_directory(tmp_path):
    directory = rota.CheckpointDirectory(None, tmp_path)
    directory.save_async(1, {"w": np.arange(10**6)})

    def child():
        refused(lambda: directory.save(2, {}), rota.UnsupportedError)
        rota._checkpoint.close_all()

    assert in_child(child) == 0
    directory.close()


def test_directories_and_checkpoints_die_with_what_holds_them(tmp_path):
    directory = rota.CheckpointDirectory(None, tmp_path)
    array = np.arange(5)
    count = sys.getrefcount(array)
    directory.save(0, {"w": array})
    directory.save_async(0, {"w": array})
    checkpoint = directory.latest()
    assert sys.getrefcount(array) == count
    directory.wait()
    del directory
    gc.collect()
    rota.CheckpointDirectory(None, tmp_path).close()
    assert np.array_equal(checkpoint["w"], array)


def test_a_communicator_of_one_needs_no_mpi():
    import rota.mpi

    alone = rota.mpi.Communicator()
    assert (alone.rank, alone.size, alone.world) == (0, 1, rota.World())
    assert alone.data_parallel(0).world == rota.World()
    one = rota.Loader(source(40), 4, comm=alone)
    one.next()
    one.rescale(comm=alone)
    assert one.position.step == 1
    refused(lambda: rota.Loader(source(40), 4, comm=alone, world=(0, 1)), rota.InvalidArgumentError, "world= and comm=")
    refused(lambda: rota.mpi.Communicator((0, 1)), TypeError, "mpi4py")
    refused(lambda: pickle.dumps(alone), TypeError, "pickle")
    alone.close()
    assert "closed" in repr(alone)
    refused(lambda: rota.Loader(source(40), 4, comm=alone), rota.InvalidArgumentError, "closed")


def test_a_communicator_before_mpi_runs_is_refused_and_without_mpi_built_in_always():
    told = repr(error_of_mpi())
    if HAS_MPI:
        assert "InvalidArgumentError" in told and "MPI does not run" in told, told
        return
    assert "UnsupportedError" in told and "this rota is built without it; for ranks of MPI build it where" in told, told
    pytest.importorskip("mpi4py")
    code = "import rota.mpi; from mpi4py import MPI; rota.mpi.Communicator(MPI.COMM_WORLD)"
    assert "this rota is built without it; for ranks of MPI build it where" in python(code, returns=1).stderr
