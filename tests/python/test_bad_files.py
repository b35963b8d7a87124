"""Files that are missing, damaged or unreadable, of which so many may be passed over."""

import io
import json
import os
import pickle
import tarfile

import h5py
import numpy as np
import pytest
import rota
from runs import needs_mpi, python, refused


def as_tar(path, k, samples=4, size=600):
    with tarfile.open(path, "w") as archive:
        for i in range(samples):
            info = tarfile.TarInfo(f"{i}.jpg")
            info.size = size
            archive.addfile(info, io.BytesIO(bytes([k]) * size))


def as_hdf5(path, k):
    with h5py.File(path, "w") as file:
        file["x"] = np.full((4, 300), k, np.uint8)


KINDS = {
    "tar": as_tar,
    "hdf5": as_hdf5,
    "npy": lambda path, k: np.save(path, np.full((4, 300), k, np.uint8)),
    "npz": lambda path, k: np.savez(path, x=np.full((4, 300), k, np.uint8)),
    "tokens": lambda path, k: np.full(800, k, np.uint16).tofile(path),
    "tfrecord": lambda path, k: rota.write_shards(rota.PythonSource([{"x": bytes([k]) * 600}] * 4), path.with_suffix(""), format="tfrecord")
    and next(path.with_suffix("").iterdir()).rename(path),
}
ENDINGS = {"hdf5": "h5", "tokens": "bin"}


def made(folder, kind, count=7):
    files = [folder / f"{k}.{ENDINGS.get(kind, kind)}" for k in range(count)]
    for k, file in enumerate(files):
        KINDS[kind](file, k)
    for leftover in filter(os.path.isdir, folder.iterdir()):
        leftover.rmdir()
    return files


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2 - 1])


def values(source):
    return sorted({int(np.ravel(sample[source.fields[0].name])[0]) for sample in source})


@pytest.mark.parametrize("kind", KINDS)
def test_so_many_damaged_files_are_passed_over(tmp_path, kind, caplog):
    files = made(tmp_path, kind)
    options = {"length": 800} if kind == "tokens" else {}
    whole = rota.open(tmp_path, kind, **options)
    cut(files[0])  # from which fields are known
    cut(files[3])
    refused(lambda: rota.open(tmp_path, kind, **options), rota.CorruptError)
    refused(lambda: rota.open(tmp_path, kind, max_bad_files=1, **options), rota.CorruptError, "2 of 7 files .* max_bad_files allows 1")
    catalog = rota.Catalog(tmp_path, max_bad_files=2)
    source = rota.open(catalog, kind, **options)
    assert values(source) == [1, 2, 4, 5, 6] and len(source) * 7 == len(whole) * 5
    assert source.fingerprint == rota.open(catalog, kind, **options).fingerprint != whole.fingerprint
    told = [record.message for record in caplog.records if "passed over" in record.message]
    assert len(told) == 4 and all(str(file) in "".join(told) for file in (files[0], files[3]))
    state = rota.Loader(whole, 2).state_dict()
    refused(lambda: rota.Loader(source, 2).load_state_dict(state), rota.MismatchError)


def test_an_unreadable_first_file_hides_no_format(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "0.jsonl").unlink()
    (tmp_path / "0.jsonl").symlink_to(tmp_path / "0.jsonl.gone")
    names = [str(tmp_path / f"{k}.jsonl") for k in range(3)]
    assert len(rota.open(names, max_bad_files=1)) == 2
    refused(lambda: rota.Catalog([names[1], str(tmp_path / "x" / ".." / "1.jsonl")]), rota.InvalidArgumentError, "listed on line 1")


def test_a_look_finds_the_format_where_a_lesser_part_is_bad(tmp_path):
    files = made(tmp_path, "tar")
    files[0].write_bytes(b"")
    files[5].write_bytes(bytes(5000))
    assert values(rota.open(rota.Catalog(tmp_path, max_bad_files=2))) == [1, 2, 3, 4, 6]
    refused(lambda: rota.open(rota.Catalog(tmp_path, max_bad_files=1)), rota.CorruptError)


@pytest.mark.parametrize("change_detection", ["by_size", "by_name"])
def test_names_of_files_that_are_missing_are_passed_over(tmp_path, change_detection):
    made(tmp_path, "tar", 5)
    brace = str(tmp_path / "{0..6}.tar")
    manifest = tmp_path / "list"
    manifest.write_text("".join(json.dumps({"path": f"{k}.tar", "samples": 4}) + "\n" for k in (9, 1, 4)))
    options = dict(change_detection=change_detection)
    refused(lambda: rota.open(rota.Catalog(brace, max_bad_files=1, **options), "tar"), rota.Error, "5.tar")
    assert values(rota.open(rota.Catalog(brace, max_bad_files=2, **options))) == [0, 1, 2, 3, 4]
    assert values(rota.open(rota.Catalog.from_manifest(manifest, max_bad_files=1, **options))) == [1, 4]
    cut(tmp_path / "1.tar")  # the missing one counts, too
    with pytest.raises(rota.CorruptError, match="max_bad_files allows 1" if change_detection == "by_size" else "1.tar"):
        rota.open(rota.Catalog.from_manifest(manifest, max_bad_files=1, **options), "tar")


def test_another_process_passes_over_the_same_or_says_so(tmp_path):
    files = made(tmp_path, "tar")
    cut(files[2])
    bytes_of_whole = files[4].read_bytes()
    files[4].write_bytes(b"x" * len(bytes_of_whole))
    pickled = pickle.dumps(rota.open(rota.Catalog(tmp_path, max_bad_files=2), "tar"))
    assert values(pickle.loads(pickled)) == [0, 1, 3, 5, 6]
    files[4].write_bytes(bytes_of_whole)
    refused(lambda: pickle.loads(pickled), rota.MismatchError, "its files have changed")


def test_all_files_and_files_of_another_shape_are_never_passed_over(tmp_path):
    files = made(tmp_path, "npy", 3)
    np.save(tmp_path / "9.npy", np.zeros((4, 7)))
    refused(lambda: rota.open(rota.Catalog(tmp_path, max_bad_files=3), "npy"), rota.InvalidArgumentError, "9.npy")
    for file in (*files, tmp_path / "9.npy"):
        cut(file)
    refused(lambda: rota.open(rota.Catalog(tmp_path, max_bad_files=9), "npy"), rota.CorruptError)
    refused(lambda: rota.Catalog(tmp_path, max_bad_files=-1), rota.InvalidArgumentError, "max_bad_files")


def test_an_index_that_was_saved_knows_the_others(tmp_path):
    (tmp_path / "in").mkdir()
    files = made(tmp_path / "in", "tar")
    cut(files[2])
    catalog = rota.Catalog(tmp_path / "in", max_bad_files=1)
    source = rota.open(catalog)
    catalog.save(tmp_path / "data.rota")
    looked = []
    again = rota.Catalog(tmp_path / "data.rota", max_bad_files=1, progress=lambda p: looked.append((p.task, p.total)))
    assert rota.open(again).fingerprint == source.fingerprint
    assert max(total for task, total in looked if task == "index files") == 1


RANKS = """
from mpi4py import MPI; import rota.mpi
import rota
comm = rota.mpi.Communicator(MPI.COMM_WORLD)
assert len(rota.open(rota.Catalog({folder!r}, max_bad_files=0 if comm.rank else 2, comm=comm), "tar")) == 20
try:
    rota.open(rota.Catalog({folder!r}, max_bad_files=1, comm=comm), "tar")
    raise SystemExit("none was missed")
except rota.CorruptError as error:
    assert "2 of 7 files" in str(error)
"""


@needs_mpi
def test_ranks_agree_on_what_is_passed_over(tmp_path):
    files = made(tmp_path, "tar")
    cut(files[1])
    cut(files[6])
    assert python(RANKS.format(folder=str(tmp_path)), ranks=3).stderr.count("passed over") == 2


def test_other_shards_of_mds_are_another_dataset(tmp_path):
    rota.write_shards(rota.PythonSource([{"x": i} for i in range(400)], {"x": "int64"}), tmp_path, format="mds", shard_bytes=1600)
    shards = sorted(tmp_path.glob("*.mds"))
    assert len({shard.stat().st_size for shard in shards[:-1]}) == 1 and len(shards) > 3
    fingerprints = set()
    for shard in shards[:3]:
        shard.rename(tmp_path / "away")
        fingerprints.add(rota.open(rota.Catalog(tmp_path, max_bad_files=1), "mds").fingerprint)
        (tmp_path / "away").rename(shard)
    assert len(fingerprints) == 3


@pytest.mark.parametrize("kind, options", [("hdf5", dict(datasets=["x", "y"])), ("npz", dict(arrays=["x", "y"]))])
def test_what_a_file_does_not_have_is_no_damage(tmp_path, kind, options):
    made(tmp_path, kind, 3)
    refused(lambda: rota.open(rota.Catalog(tmp_path, max_bad_files=2), kind, **options), rota.NotFoundError, "y")


def test_a_file_of_another_kind_is_no_damage_and_an_empty_one_of_records_is_none(tmp_path):
    made(tmp_path, "npy", 3)
    (tmp_path / "README.md").write_text("of what is here")
    refused(lambda: rota.open(rota.Catalog(tmp_path, max_bad_files=1)), rota.InvalidArgumentError, "README.md")
    (tmp_path / "records").mkdir()
    made(tmp_path / "records", "tfrecord", 1)
    (tmp_path / "records" / "8.tfrecord").touch()
    (tmp_path / "records" / "9.tfrecord").touch()
    assert len(rota.open(rota.Catalog(tmp_path / "records", max_bad_files=1))) == 4


def test_want_of_descriptors_is_no_damage(tmp_path):
    made(tmp_path, "npy", 3)
    program = """
        import os, resource, sys, rota
        rota.open(rota.Catalog(sys.argv[1]), "npy")  # what is loaded when first used
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        try:
            while True: os.dup(0)
        except OSError: pass
        try: rota.open(rota.Catalog(sys.argv[1], max_bad_files=2), "npy")
        except rota.IOError as error: assert "open files" in str(error), error
        else: raise SystemExit("files were passed over")
    """
    python(program, tmp_path)
