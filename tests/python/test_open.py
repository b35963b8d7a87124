"""Files of every format, as Python opens them."""

import io
import os
import pickle
import re
import signal
import tarfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import rota
from runs import python, refused

OPTIONS = {
    "files": {"keys": True},
    "hdf5": {"datasets": ["x"], "allow_external_links": True, "swmr": True},
    "tfrecord": {"verify": False},
    "tar": {"fields": ["txt"], "keys": True, "allow_missing_end": True},
    "npy": {"file_is_sample": True},
    "npz": {"arrays": ["a"], "rows": True},
    "tokens": {"dtype": "uint32", "length": 4, "stride": 2},
    "megatron": {"sequence_is_sample": True},
    "mds": {"columns": ["n"], "verify": False},
}


# TFRecords: "first" and "second", with lengths and checksums.
RECORDS = "0500000000000000eab2043e666972737455ff23e5", "06000000000000007369d5377365636f6e64d3e0d3ca"
TEXT = ("uint8", (), True)
SHARDS = {
    "tar": rota.PythonSource([{"txt": "zero", "cls": "0"}, {"txt": "one", "cls": "1"}], {"txt": TEXT, "cls": TEXT}),
    "mds": rota.PythonSource([{"n": 5}, {"n": 6}]),
}


def megatron(directory):
    header = b"MMIDIDX\0\0" + np.uint64(1).tobytes() + b"\x08" + np.array([3, 3], np.uint64).tobytes()
    lengths, pointers = np.array([2, 1, 3], np.int32), np.array([0, 4, 6], np.int64)
    documents = np.array([0, 2, 3], np.int64)
    (directory / "a.idx").write_bytes(header + lengths.tobytes() + pointers.tobytes() + documents.tobytes())
    (directory / "a.bin").write_bytes(np.arange(6, dtype=np.uint16).tobytes())


def write(directory, format):
    directory.mkdir()
    if format == "hdf5":
        with h5py.File(directory / "a.h5", "w") as file:
            file["x"], file["y"] = np.arange(5, dtype=np.int32), np.ones((5, 2))
    elif format == "npz":
        np.savez(directory / "a.npz", a=np.arange(6).reshape(3, 2), b=np.zeros(3))
    elif format == "megatron":
        megatron(directory)
    elif format in SHARDS:
        rota.write_shards(SHARDS[format], directory, format=format)
    else:
        data = {
            "files": b"one", "lines": b'{"a": 1}\n{}\n', "tokens": np.arange(10, dtype=np.uint32).tobytes(),
            "tfrecord": bytes.fromhex("".join(RECORDS)),
        }
        if format == "npy":
            np.save(directory / "a.npy", np.arange(6, dtype=np.int16).reshape(3, 2))
        else:
            (directory / {"lines": "a.jsonl"}.get(format, "a.bin")).write_bytes(data[format])
    return directory


def same(a, b):
    assert a.fields == b.fields and len(a) == len(b) and a.fingerprint == b.fingerprint
    for i in range(len(a)):
        for name, values in a[i].items():
            np.testing.assert_array_equal(values, b[i][name])


def test_every_format_is_found_opened_with_and_without_its_options_and_travels_in_a_pickle(tmp_path):
    for format in rota.formats()[1:]:
        directory = write(tmp_path / format, format)
        if format not in ("npz", "tokens"):  # which are not recognised
            assert rota.find_format(directory) == format
            same(rota.open(directory), rota.open(directory, format))
        for options in ({}, OPTIONS.get(format, {})):
            if format == "tokens" and not options:
                options = {"length": 2}  # a window that the file has
            source = rota.open(directory, format, **options)
            assert len(source) > 0
            same(pickle.loads(pickle.dumps(source)), source)
            same(rota.open(rota.Catalog(directory), format=format, **options), source)


def test_options_do_what_they_say(tmp_path):
    def opened(format, **options):
        directory = tmp_path / format
        return rota.open(directory if directory.exists() else write(directory, format), format, **options)

    assert [f.name for f in opened("hdf5").fields] == ["x", "y"]
    assert [f.name for f in opened("hdf5", datasets=("y",)).fields] == ["y"]
    assert [f.name for f in opened("tar", fields=["txt"], keys=True).fields] == ["txt", "__key__"]
    joined = opened("tar", fields={"text": ["txt", "md"]})
    assert joined[0]["text"].tolist() == opened("tar", fields=["txt"])[0]["txt"].tolist()
    same(pickle.loads(pickle.dumps(joined)), joined)
    refused(lambda: opened("tar", fields={"text": "txt"}), TypeError, "fields is 'txt'; it must be a list of names")
    refused(lambda: opened("tar", fields={"text": []}), ValueError, '"text" has no extensions')
    assert [f.name for f in opened("files", keys=True).fields] == ["data", "path", "folder"]
    assert opened("npy", file_is_sample=True)[0]["data"].shape == (3, 2)
    assert opened("npz", arrays=["b"], rows=True)[0].keys() == {"b"}
    tokens = opened("tokens", dtype=np.uint32, length=4, stride=3)
    assert [tokens[i]["tokens"].tolist() for i in range(len(tokens))] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert [len(opened("megatron", sequence_is_sample=is_one)) for is_one in (False, True)] == [2, 3]
    assert opened("mds", columns=["n"])[1]["n"] == 6
    records = tmp_path / "tfrecord" / "a.bin"
    opened("tfrecord")
    records.write_bytes(records.read_bytes()[:-1] + b"!")
    refused(lambda: opened("tfrecord")[1], rota.CorruptError)
    assert bytes(opened("tfrecord", verify=False)[1]["data"]) == b"second"


def test_options_of_another_format_are_refused_and_the_formats_own_are_named(tmp_path):
    directory = write(tmp_path / "data", "tar")
    for format in rota.formats():
        for other, options in OPTIONS.items():
            for name, value in options.items():
                if name in OPTIONS.get(format, {}):
                    continue
                error = refused(lambda: rota.open(directory, format, **{name: value}), TypeError)
                for known in OPTIONS[other] if format == "auto" else OPTIONS.get(format, {}):
                    assert known in str(error)
    refused(lambda: rota.open(directory, verfiy=True), TypeError, "no option verfiy; name the format")


def test_options_of_a_wrong_type_or_value_are_refused(tmp_path):
    directory = write(tmp_path / "data", "tokens")
    for format, options in [
        ("hdf5", {"datasets": "x"}), ("tar", {"fields": [1]}), ("tar", {"keys": "yes"}), ("tokens", {"length": "4"}),
        ("tokens", {"length": 2.5}), ("mds", {"columns": None}),
    ]:
        refused(lambda: rota.open(directory, format, **options), TypeError)
    for options in ({"length": 0}, {"length": 2**63}, {"dtype": "float32"}, {"dtype": "text"}, {"stride": -1}):
        refused(lambda: rota.open(directory, "tokens", **options), rota.InvalidArgumentError)


def test_what_is_not_there_is_refused(tmp_path):
    refused(lambda: rota.open(tmp_path / "nothing"), rota.NotFoundError)
    refused(lambda: rota.open(tmp_path), rota.NotFoundError)  # without any file
    with pytest.raises(rota.InvalidArgumentError, match="no format \"zip\"; use one of .*hdf5"):
        rota.open(write(tmp_path / "data", "lines"), "zip", keys=True)
    for path in ("", f"{tmp_path}\0"):
        refused(lambda: rota.open(path), rota.InvalidArgumentError)
    for path in (None, 5, [5]):
        refused(lambda: rota.open(path), TypeError)


def test_a_source_is_loaded_where_it_was_not_made(tmp_path, monkeypatch):
    write(tmp_path / "data", "lines")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickled").write_bytes(pickle.dumps(rota.open("data")))
    program = "import pickle, sys; s = pickle.load(open(sys.argv[1], 'rb')); print(bytes(s[0]['text']).decode(), len(s))"
    assert python(program, tmp_path / "pickled", cwd="/").stdout == '{"a": 1} 2\n'


def test_a_pickled_source_has_the_users_dataset_itself():
    samples = [{"x": np.uint16(7)}, {"x": np.uint16(8)}]
    source = rota.PythonSource(samples, {"x": ("bfloat16", ())})
    first = source[0]["x"]
    samples.append({"x": np.uint16(9)})
    again = pickle.loads(pickle.dumps(source))
    assert len(again) == 3 and again[0]["x"] == first


def test_a_pickled_source_is_what_it_was_when_it_was_made():
    one = rota.PythonSource(range(30))
    parts, fractions = [one, one], [0.5, 0.5]
    joined, split = rota.join(parts), rota.split(rota.join(iter(parts)), fractions, seed=3)
    parts.append(one)
    fractions[:] = [1.0]
    for made in (joined, *split, rota.windows(one, 4)):
        same(pickle.loads(pickle.dumps(made)), made)
    assert (len(joined), len(split[1])) == (60, 30) and split[1][-1] == split[1][29]
    refused(lambda: split[1][30], IndexError)


def test_files_are_opened_by_names_of_any_bytes(tmp_path):
    directory = write(tmp_path / "data", "files")
    name = bytes(directory) + b"/\xff\xfe"
    with open(name, "wb") as file:
        file.write(b"two")
    assert bytes(rota.open(name)[0]["data"]) == b"two"
    source = rota.open(directory)
    assert [bytes(source[i]["data"]) for i in range(2)] == [b"one", b"two"]
    assert rota.Catalog(directory)[1].encode("utf-8", "surrogateescape") == name


def test_names_of_files_and_fields_are_what_the_os_module_makes_of_any_bytes(tmp_path):
    path = os.fsencode(tmp_path) + b"/a\xff.tar"
    with tarfile.open(path, "w", errors="surrogateescape") as tar:
        for name in (b"k\xe4.j\xff", b"k\xe5.j\xff"):
            member = tarfile.TarInfo(os.fsdecode(name))
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
    source, field = rota.open(path), os.fsdecode(b"j\xff")
    assert path in os.fsencode(source.where(0)) and b"k\xe4" in os.fsencode(source.where(0))
    assert field in repr(source) and list(source[0]) == [field]
    assert rota.open(path, "tar", fields=[field]).fields == source.fields
    with rota.Loader(source, 2, epochs=1, transform=lambda sample: {field: sample[field]}) as loader:
        batch = next(loader)
        assert field in batch and list(batch) == [field] and bytes(batch[field].values) == b"abcabc"

    def refuse(sample):
        raise ValueError(source.where(sample.id))

    with rota.Loader(source, 2, epochs=1, transform=refuse) as loader, pytest.raises(rota.Error, match=r"a\\xff.tar"):
        next(loader)
    with rota.Loader(source, 2, epochs=1, transform=refuse, on_bad_sample="skip") as loader:
        next(loader)
        assert {one.where for one in loader.skipped} == {source.where(0), source.where(1)}


@pytest.mark.parametrize("kind", ["tar", "mds", "tfrecord"])
def test_that_shards_are_read_back(tmp_path, kind):
    texts = [b"x" * (i * 37 % 500) for i in range(100)]
    for i, text in enumerate(texts):
        (tmp_path / f"{i:03}.txt").write_bytes(text)
    source = rota.open(tmp_path, "files")
    shards = tmp_path / "shards"
    options = {"format": kind, "shard_bytes": 10_000}
    first = rota.write_shards(source, shards, world=rota.World(0, 2), **options)
    assert not first.is_complete and 0 < first.written < first.shards
    second = rota.write_shards(source, shards, world=rota.World(1, 2), **options)
    assert second.is_complete and first.written + second.written == second.shards == second.there
    assert [bytes(sample["data"]) for sample in rota.open(shards)] == texts
    refused(lambda: rota.write_shards(source, shards, format="zip"), rota.InvalidArgumentError, "format")
    refused(lambda: rota.write_shards(source, shards, format=kind), rota.MismatchError, "other options")


READS_NEWER = re.search(r"/libhdf5_\w+\.so\.3", Path("/proc/self/maps").read_text())  # rota's is 1.14


@pytest.mark.skipif(READS_NEWER or h5py.version.hdf5_version_tuple < (1, 14), reason="this h5py writes what rota's HDF5 reads")
def test_what_a_newer_hdf5_wrote_is_refused_and_not_left_out(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file["rows"] = np.arange(10.0)
        file.create_dataset("rows_offsets", data=[0, 2, 10], compression="gzip")
    refused(lambda: rota.open(tmp_path), rota.UnsupportedError, '"/rows_offsets".*newer HDF5.*libver')


def test_writing_shards_shows_how_far_it_is_and_ends_by_ctrl_c(tmp_path):
    class Slow(list):
        def __getitem__(self, i):
            time.sleep(0.005)
            return super().__getitem__(i)

    samples = rota.PythonSource(Slow(range(200)), {"x": "int64"})
    seen = []

    def stop(at):
        seen.append(at.done)
        if not at.is_over and len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    refused(lambda: rota.write_shards(samples, tmp_path / "shards", format="mds", shard_bytes=100, progress=stop), KeyboardInterrupt)
    report = rota.write_shards(samples, tmp_path / "shards", format="mds", shard_bytes=100)
    assert report.is_complete and 0 < report.written < report.shards and seen[:2] == sorted(seen[:2])
