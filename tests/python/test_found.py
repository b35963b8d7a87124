"""What `open` takes files for, or refuses by name: of formats, of stores of other programs, of files with a head."""

import io
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import rota

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
    with pytest.raises(rota.UnsupportedError, match=words):
        rota.open(written(tmp_path, FOREIGN[words]))
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
        with pytest.raises(rota.UnsupportedError, match=words):
            rota.open(tmp_path / name, format)


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
        with pytest.raises(rota.InvalidArgumentError, match="leave the format out"):
            rota.open(tmp_path / name, "tokens", length=4)


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
        with pytest.raises(rota.InvalidArgumentError, match=words):
            rota.open(path, "hdf5", groups=groups)


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
    with pytest.raises(rota.UnsupportedError, match="csc_matrix.*tocsr"):
        read()
