"""What `open` takes files for, or refuses by name: of formats, of stores of other programs, of files with a head."""

import contextlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import rota
from runs import refused

HDF5 = io.BytesIO()
with h5py.File(HDF5, "w") as file:
    file["x"] = np.arange(5)
TAR = io.BytesIO()
with tarfile.open(fileobj=TAR, mode="w") as archive:
    archive.addfile(tarfile.TarInfo("0.jpg"), io.BytesIO())
NPY = io.BytesIO()
np.save(NPY, np.arange(6))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"

FOREIGN = {
    "classic NetCDF": {"a.nc": b"CDF\1" + bytes(60)},
    "64-bit offsets": {"a.nc": b"CDF\2" + bytes(60), "b.txt": b"x"},
    "CDF-5": {"a.nc": b"CDF\5" + bytes(60)},
    "HDF4": {"a.hdf": b"\x0e\x03\x13\x01" + bytes(60)},
    "GRIB": {f"{i}.grib2": b"GRIB\0\0\0\2" + bytes(60) for i in range(9)},
    "BUFR": {"a": b"BUFR" + bytes(60)},
    "Parquet": {"data": b"PAR1" + bytes(60)},
    "Arrow": {"cache-0": b"ARROW1\0\0" + bytes(60)},
    "Avro": {"a": b"Obj\1" + bytes(60)},
    "an SQLite database": {"a.db": b"SQLite format 3\0" + bytes(60)},
    "version 7.3": {"a.mat": b"MATLAB 5.0 MAT-file, Platform" + bytes(99)},
    "git lfs pull": {"a.bin": POINTER, "b.bin": POINTER},
    '"git lfs pull" ': {"a.jsonl": POINTER},
    'run "git lfs': {"a.tar": POINTER, "b.tar": TAR.getvalue()},
    "Zarr": {".zgroup": b"{}", "x/.zarray": b"{}", "x/0.0": b"\1" * 9},
    "of Zarr": {"a.zarr/x/.zarray": b"{}", "a.zarr/x/0.0": b"\1"},
    "data of Zarr": {"zarr.json": b"{}", "x/zarr.json": b"{}", "x/c/0/0": b"\1"},
    "Lance": {"a.lance": b"x", "_versions/1.manifest": b"x"},
    "litData": {"index.json": b'{"chunks": []}', "chunk-0-0.bin": b"x", "chunk-0-1.bin": b"x"},
}


def written(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("words", FOREIGN)
def test_what_rota_does_not_read_is_named_with_what_to_do(tmp_path, words):
    refused(lambda: rota.open(written(tmp_path, FOREIGN[words])), rota.UnsupportedError, words)
    assert rota.open(tmp_path, "files")  # who says so has it


@pytest.mark.parametrize("kind, data", [("hdf5", HDF5.getvalue()), ("tar", TAR.getvalue()), ("npy", NPY.getvalue())])
@pytest.mark.parametrize("ending", ["", ".nc", ".00000-of-00010"])
def test_a_file_of_a_format_among_others_is_no_sample(tmp_path, kind, data, ending):
    written(tmp_path, {f"{i}{ending}": data for i in range(3)})
    assert rota.find_format(tmp_path) == kind
    written(tmp_path, {"sizes.json": b"{}", "README.md": b"x"} | {f"{i}.jpg": b"x" for i in range(99)})
    with pytest.raises(rota.InvalidArgumentError, match=f"0{ending} is of the format {kind}, and other files are not: name those"):
        rota.open(tmp_path)
    assert rota.find_format(f"{tmp_path}/[0-2]{ending or '.'}*" if ending else f"{tmp_path}/[0-2]") == kind


def test_files_that_look_like_nothing_else_are_samples(tmp_path):
    written(tmp_path, {"cat/0.jpg": b"\xff\xd8", "cat/1.png": b"\x89PNG", "dog/2.txt": b"GRI", "dog/3": b"", "index.json": b"{}", "dog/chunk.bin": b"x"})
    assert rota.find_format(tmp_path) == "files" and len(rota.open(tmp_path)) == 6


def test_a_format_that_is_named_refuses_what_is_another(tmp_path):
    written(tmp_path, {"a.nc": b"CDF\1" + bytes(60), "b.jsonl": POINTER, "c.bin": POINTER})
    for name, format, words in ("a.nc", "hdf5", "classic NetCDF"), ("b.jsonl", "lines", "git lfs"), ("c.bin", "tokens", "git lfs"):
        refused(lambda: rota.open(tmp_path / name, format), rota.UnsupportedError, words)


def test_heads_of_token_files_are_no_tokens(tmp_path):
    for magic, dtype in (20240520, "uint16"), (20240801, "uint32"):
        tokens, head = np.arange(5000, dtype=dtype), np.zeros(256, "i4")
        head[:3] = magic, 1, len(tokens)
        written(tmp_path, {"llm.bin": head.tobytes() + tokens.tobytes(), "own.bin": b"1234567" + tokens.tobytes()})
        source = rota.open(tmp_path / "llm.bin", "tokens", dtype=dtype, length=64)
        assert len(source) == 5000 // 64 and np.array_equal(source[1]["tokens"], tokens[64:128])
        source = rota.open(tmp_path / "own.bin", "tokens", dtype=dtype, length=64, skip_bytes=7)
        assert np.array_equal(source[0]["tokens"], tokens[:64])
        with pytest.raises(rota.InvalidArgumentError, match=f"says that tokens are {dtype}"):
            rota.open(tmp_path / "llm.bin", "tokens", dtype="uint32" if dtype == "uint16" else "uint16")
    written(tmp_path, {"a.npy": NPY.getvalue(), "a.h5": HDF5.getvalue()})
    for name in "a.npy", "a.h5":
        refused(lambda: rota.open(tmp_path / name, "tokens", length=4), rota.InvalidArgumentError, "leave the format out")


@pytest.mark.parametrize("rows", [10, 2200, 5200])
def test_an_npz_of_any_size_is_read(tmp_path, rows):
    """The zeros of the array are holes of the file, so it takes no disk."""

    class Holes:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            self.file.seek(len(data), 1) if len(data) >= 1 << 20 and not any(memoryview(data)[:99]) else self.file.write(data)
            return len(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

    with open(tmp_path / "big.npz", "w+b") as file, zipfile.ZipFile(Holes(file), "w") as made:
        with made.open("x.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (rows, 1 << 20)})
            for _ in range(rows):
                member.write(bytes(1 << 20))
        with made.open("y.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.arange(rows))
    source = rota.open(tmp_path / "big.npz", "npz", rows=True)
    assert len(source) == rows and source[rows - 1]["y"] == rows - 1
    assert rota.open(tmp_path / "big.npz", "npz", arrays=["y"])[0]["y"][-1] == rows - 1


def hdf5(path, items):
    with h5py.File(path, "w") as made:
        for name, value in items.items():
            made[name] = value
    return path


def test_groups_anywhere_are_samples_by_a_glob(tmp_path):
    items = {f"data/demo_{i}/{name}": np.full((i + 1, 2) if name == "obs/x" else (3,), i, "f4") for i in range(12) for name in ("obs/x", "a")}
    path = hdf5(tmp_path / "robomimic.h5", items | {"mask/train": np.arange(5)})
    source = rota.open(path, "hdf5", groups="/data/demo_*")
    assert [field.name for field in source.fields] == ["a", "obs/x"] and len(source) == 12
    for i in range(12):
        assert np.array_equal(source[i]["obs/x"], items[f"data/demo_{i}/obs/x"]) and source[i]["a"].tolist() == [i] * 3
    assert rota.open(path, "hdf5", groups="/data/demo_*", datasets=["a"])[11]["a"].tolist() == [11] * 3
    molecules = hdf5(tmp_path / "spice.h5", {f"{name}/energy": k for k, name in enumerate(["c1cc", "C#N", "O"])})
    assert [float(rota.open(molecules, "hdf5", groups="/*")[i]["energy"]) for i in range(3)] == [1, 2, 0]  # by name
    for groups, words in ("/none_*", "no group with numbers"), ("/mask/**x", r"\*\*"):
        refused(lambda: rota.open(path, "hdf5", groups=groups), rota.InvalidArgumentError, words)


def test_groups_by_links_are_groups_and_what_one_lacks_is_told(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for k in range(3):
            file[f"data/demo_{k}/x"] = np.arange(k + 1)
        file["train/a"], file["train/b"] = h5py.SoftLink("/data/demo_1"), file["data/demo_2"]
        file["train/c/x"] = h5py.SoftLink("/data/demo_0/x")
        file["train/gone"], file["loop"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/")
        file["tables/a/t"] = np.array([(1, 2.5)], [("i", "i8"), ("f", "f8")])
    assert [len(sample["x"]) for sample in rota.open(tmp_path, "hdf5", groups="/train/*")] == [2, 3, 1]
    assert [len(sample["x"]) for sample in rota.open(tmp_path, "hdf5", groups="/data/demo_*")] == [1, 2, 3]
    assert rota.open(tmp_path, "hdf5", groups="/tables/*")[0]["t.f"] == 2.5
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["data/demo_1/y"] = np.zeros(3)
        file["data/demo_0/y"] = np.zeros(3)
    with pytest.raises(rota.NotFoundError, match='"/data/demo_2" has no dataset "y"'):
        rota.open(tmp_path, "hdf5", groups="/data/demo_*", max_bad_files=1)


def test_groups_whose_extents_differ_by_more_than_the_first_are_ragged_rows(tmp_path):
    """As molecules are (SPICE, ANI): conformations x atoms x 3."""
    expected = {}
    for k in range(2):
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            for name, atoms, conformations in ("CH4", 5, 2 + k), ("H2O", 3, 4), ("C2H6", 8, 1):
                expected[k, name] = np.random.rand(conformations, atoms, 3)
                file.create_dataset(f"{name}/at", data=expected[k, name], chunks=(1, atoms, 3), compression="gzip" if k else None)
                file[f"{name}/energy"] = expected[k, name][:, 0, 0]
                file[f"{name}/tokens"] = np.arange(atoms * conformations).reshape(atoms, conformations)
    refused(lambda: rota.open(tmp_path), rota.InvalidArgumentError, "the option groups")
    source = rota.open(tmp_path, "hdf5", groups="/*")
    assert source.fields[0] == rota.Field("at", "float64", (3,), True) and len(source) == 6
    everything = [expected[key] for key in sorted(expected)]
    for sample, rows in zip(source, everything):
        assert np.array_equal(sample["at"].reshape(rows.shape), rows) and np.array_equal(sample["energy"], rows[:, 0, 0])
    got = [row for batch in rota.Loader(source, 4, shuffle="none") for row in batch["at"]]
    assert all(np.array_equal(row, rows.reshape(-1, 3)) for row, rows in zip(got, everything))
    packed = rota.pack(rota.open(tmp_path, "hdf5", groups="/*", datasets=["tokens"]), 7, shuffle_documents=False)
    tokens = np.concatenate([sample["tokens"] for sample in packed])[: sum(rows.size // 3 for rows in everything)]
    assert tokens.tolist() == [i for rows in everything for i in range(rows.size // 3)]


def test_a_file_may_be_a_sample_whose_shapes_differ(tmp_path):
    for i in range(3):
        hdf5(tmp_path / f"{i}.h5", {"image": np.full((4 + i, 5), i, "f4"), "label": i})
    source = rota.open(tmp_path, "hdf5", groups="/")
    assert len(source) == 3
    for i in range(3):
        assert source[i]["image"].shape == (4 + i, 5) and (source[i]["image"] == i).all() and source[i]["label"] == i
    batch = next(iter(rota.Loader(source, 3, shuffle="none")))
    assert batch["label"].tolist() == [0, 1, 2]


def test_scalars_that_are_left_out_are_told(tmp_path, caplog):
    hdf5(tmp_path / "a.h5", {"image": np.zeros((4, 5)), "label": 1})
    assert len(rota.open(tmp_path)) == 4
    assert '"/label" (a scalar)' in caplog.text


def test_a_link_is_looked_for_beside_the_real_file_too(tmp_path):
    hdf5(tmp_path / "part.h5", {"y": np.arange(3)})
    with h5py.File(tmp_path / "main.h5", "w") as made:
        made["x"] = h5py.ExternalLink("part.h5", "/y")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/main.h5").symlink_to("../main.h5")
    source = rota.open(tmp_path / "links/main.h5", "hdf5", datasets=["/x"], allow_external_links=True)
    assert [int(source[i]["x"]) for i in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", b"csc_matrix"])
def test_a_matrix_by_columns_is_not_read_as_rows(tmp_path, kind):
    with h5py.File(tmp_path / "a.h5ad", "w") as made:
        group = made.create_group("X")
        group.attrs["encoding-type"] = np.bytes_(kind) if isinstance(kind, bytes) else kind
        group["data"], group["indptr"] = np.arange(6, dtype="f4"), np.array([0, 2, 3, 6], "i4")

    def read():
        return rota.open(tmp_path / "a.h5ad", "hdf5", datasets=["/X/data"], offsets="indptr")

    if kind == "csr_matrix":
        assert len(read()) == 3
        return
    refused(read, rota.UnsupportedError, "csc_matrix.*tocsr")


def write_text(path, values, kind):
    """Texts of one width, as long as the longest."""
    wide = max(map(len, values))
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file["label"] = np.array(values, f"S{wide}")
            file["x"] = np.arange(len(values))
    elif kind == "blanks":  # as Fortran has them
        with h5py.File(path, "w") as file:
            text = h5py.h5t.C_S1.copy()
            text.set_size(wide)
            text.set_strpad(h5py.h5t.STR_SPACEPAD)
            space = h5py.h5s.create_simple((len(values),))
            dataset = h5py.h5d.create(file.id, b"label", text, space)
            dataset.write(space, space, np.array([value.ljust(wide).encode() for value in values], f"S{wide}"), text)
            file["x"] = np.arange(len(values))
    else:
        np.savez(path, label=np.array(values[0], kind), x=np.arange(3))


@pytest.mark.parametrize("kind", ["hdf5", "blanks", "U", "S"])
def test_texts_of_other_widths_join(tmp_path, kind):
    words = [["cat"], ["crocodile"], ["", "ox", "elephant"][: 1 if kind in "US" else 3], ["ape"]]
    ending = "npz" if kind in "US" else "h5"
    for i, values in enumerate(words):
        write_text(tmp_path / f"{i}.{ending}", values, kind)
    source = rota.open(tmp_path, "npz") if kind in "US" else rota.open(tmp_path, "hdf5", datasets=["label", "x"])
    assert [bytes(sample["label"]).decode() for sample in source] == sum(words, [])
    got = [bytes(row).decode() for batch in rota.Loader(source, 2, shuffle="none") for row in batch["label"]]
    assert got == sum(words, [])


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_wider_text_that_is_added_makes_no_index_of_before_a_wrong_one(tmp_path, kind):
    (tmp_path / "data").mkdir()

    def write(name, text):
        path = tmp_path / "data" / f"{name}.{kind}"
        np.save(path, np.array(text, "S")) if kind == "npy" else np.savez(path, data=np.array(text, "S"))

    options = dict(file_is_sample=True) if kind == "npy" else {}
    write("a", b"cat")
    write("c", b"dog")
    catalog = rota.Catalog(tmp_path / "data")
    rota.open(catalog, kind, **options)
    catalog.save(tmp_path / "kept.rota")
    write("b", b"crocodile" * 50)
    source = rota.open(rota.Catalog(tmp_path / "kept.rota"), kind, **options)
    assert [bytes(sample["data"]) for sample in source] == [b"cat", b"crocodile" * 50, b"dog"]


def test_text_that_cannot_join_is_told_as_text(tmp_path):
    write_text(tmp_path / "0.h5", ["cat"], "hdf5")
    with h5py.File(tmp_path / "1.h5", "w") as file:
        file["label"], file["x"] = ["dog"], np.arange(1)
    with pytest.raises(rota.InvalidArgumentError, match='"label": text of any length.*"label": text of 3 bytes'):
        rota.open(tmp_path, "hdf5", datasets=["label", "x"])


def test_rows_of_texts_of_other_widths_are_refused_in_their_terms(tmp_path):
    np.save(tmp_path / "0.npy", np.array(["cat"]))
    np.save(tmp_path / "1.npy", np.array(["crocodile"]))
    refused(lambda: rota.open(tmp_path), rota.UnsupportedError, r"text of 9 characters \[1\], and text of 3 .* write texts as wide")
    assert bytes(rota.open(tmp_path, "npy", file_is_sample=True)[1]["data"]) == b"crocodile"


def test_offsets_that_are_none_are_a_field_where_both_are_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["x_offsets"] = np.arange(5.0), np.array([3, 1, 4, 1, 5])
        file["y"], file["y_offsets"] = np.arange(9.0), np.array([0, 2, 2, 5, 8, 9])
    refused(lambda: rota.open(tmp_path), rota.CorruptError, "begins with 3.*name both")
    source = rota.open(tmp_path, "hdf5", datasets=["x", "x_offsets", "y", "y_offsets"])
    assert [field.name for field in source.fields] == ["x", "x_offsets", "y"]
    assert source[2]["x_offsets"] == 4 and source[3]["y"].tolist() == [5, 6, 7]


def test_tables_of_pytables_are_found_and_their_indices_left_alone(tmp_path):
    """As pandas writes them with format="table"."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["df/table"] = np.array([(1, 2.5), (2, 3.5)], [("index", "i8"), ("a", "f8")])
        file["df/_i_table/index/sortedLR"] = np.zeros(131201)
        file["df/_i_table/index/abounds"] = np.zeros(0)
    source = rota.open(tmp_path)
    assert [field.name for field in source.fields] == ["df/table.index", "df/table.a"] and source[1]["df/table.a"] == 3.5
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["w"], file["e"], file["_i_w/of_nothing"] = np.zeros(3), np.zeros(6), np.zeros(4)
        del file["_i_w"]
    refused(lambda: rota.open(tmp_path), rota.InvalidArgumentError, '"/w" holds 3.*left out "/df/table"')


@pytest.mark.parametrize("stored, said, meant", [("i1", "true", "u1"), ("u2", "false", "i2"), ("i4", "true", "u4"), ("i1", "false", "i1")])
def test_unpacking_takes_integers_for_what_netcdf_says_they_are(tmp_path, caplog, stored, said, meant):
    values = np.arange(-3, 3).astype(stored)
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name in "xyz":
            file[name] = values
            file[name].attrs["_Unsigned"] = said if name == "x" else np.bytes_(said)
        file["y"].attrs["scale_factor"], file["y"].attrs["add_offset"] = np.float32(0.5), np.float32(1)
        file["y"].attrs["_FillValue"] = values[1]
    assert rota.open(tmp_path)[0]["x"].dtype == stored and (meant == stored or "_Unsigned" in caplog.text)
    source = rota.open(tmp_path, "hdf5", unpack=True)
    expected = values.view(meant)
    assert source[0]["x"].dtype == meant and [sample["x"] for sample in source] == expected.tolist()
    found = np.array([sample["y"] for sample in source])
    assert np.isnan(found[1]) and np.array_equal(np.delete(found, 1), np.delete(expected * 0.5 + 1.0, 1))


WRITER = """
import sys, h5py
file = h5py.File(sys.argv[1], "w", libver=("v110", "v110"))
x = file.create_dataset("x", (0, 3), "i4", maxshape=(None, 3), chunks=(4, 3), compression="gzip")
if sys.argv[2] == "swmr": file.swmr_mode = True
for line in sys.stdin:
    at, more = len(x), int(line)
    x.resize(at + more, 0)
    x[at:] = [[i] * 3 for i in range(at, at + more)]
    x.flush()
    print("written", flush=True)
"""


@contextlib.contextmanager
def writing(path, mode):
    """What has another process write so many rows, and returns when it has flushed them."""
    command = [sys.executable, "-c", WRITER, path, mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        yield lambda rows: print(rows, file=writer.stdin, flush=True) or writer.stdout.readline()
        writer.stdin.close()


def test_rows_that_a_swmr_writer_has_flushed_are_read_by_an_explicit_word(tmp_path):
    with writing(tmp_path / "a.h5", "swmr") as write:
        write(10)
        refused(lambda: rota.open(tmp_path), rota.BusyError, "the option swmr")
        catalog = rota.Catalog(tmp_path)
        write(3)  # after it was listed
        first = rota.open(catalog, "hdf5", swmr=True)
        write(500)
        for _ in range(2):
            got = [row.tolist() for batch in rota.Loader(first, 4, shuffle="global") for row in batch["x"]]
            assert sorted(got) == [[i] * 3 for i in range(13)]
        assert len(rota.open(tmp_path, "hdf5", swmr=True)) == 513
        refused(lambda: rota.open(rota.Catalog(tmp_path, share_files=True), "hdf5", swmr=True), rota.UnsupportedError, "share_files")
    assert rota.open(tmp_path, "hdf5", swmr=True)[512]["x"].tolist() == rota.open(tmp_path)[512]["x"].tolist() == [512] * 3
    with writing(tmp_path / "a.h5", "") as write:  # which lets nobody read
        write(5)
        refused(lambda: rota.open(tmp_path, "hdf5", swmr=True), rota.BusyError)


# Of one shard, by Python's xxhash.
HASHES = {'xxh32': 'fd202383', 'xxh64': '5b9770833fb7eef8', 'xxh3_64': 'a532c653fbebadc4', 'xxh128': '69e20265e3d929d0cd172204af60881e'}


def test_hashes_of_mds_are_checked_when_asked(tmp_path):
    rows = rota.PythonSource([{"x": b"abc"}, {"x": b""}], fields=[rota.Field("x", "uint8", ragged=True)])
    rota.write_shards(rows, tmp_path, format="mds")
    index = json.loads((tmp_path / "index.json").read_text())

    def opened(hashes):
        index["shards"][0]["raw_data"]["hashes"] = hashes
        (tmp_path / "index.json").write_text(json.dumps(index))
        assert len(rota.open(tmp_path)) == 2  # nobody asked
        return rota.open(tmp_path, "mds", verify=True)

    for name, digits in HASHES.items():
        assert len(opened({"sha1": "unknown", name: digits})) == 2
        refused(lambda: opened({name: "0"}), rota.CorruptError, f"its {name} is {digits}, and index.json says 0")
    for hashes, words in ({}, "no hash"), ({"sha1": "x", "md5": "y"}, "md5, sha1"):
        refused(lambda: opened(hashes), rota.UnsupportedError, words)
