"""HDF5 files as xarray, netCDF4, h5netcdf, anndata and hdf5plugin write them, in a process of their own: each brings an HDF5."""

import importlib.util
import os
import textwrap
from pathlib import Path

import numpy as np
import pytest
import rota
from runs import python, refused

WRITERS = "anndata", "h5netcdf", "hdf5plugin", "netCDF4", "xarray"
if missing := [name for name in WRITERS if importlib.util.find_spec(name) is None]:
    pytest.skip(f"no {missing[0]}", allow_module_level=True)
PLUGINS = Path(importlib.util.find_spec("hdf5plugin").origin).parent / "plugins"
os.environ["HDF5_PLUGIN_PATH"] = str(PLUGINS)  # before rota's HDF5 looks for one

# Two years of fields of xarray, with what each engine can: year 1 is longer than year 0, and ends within a chunk.
XARRAY = """
    import xarray as xr
    for engine, year in itertools.product(("netcdf4", "h5netcdf"), (0, 1)):
        shape = 50 + 3 * year, 6, 9
        fields = {name: (("time", "lat", "lon"), draw.random(shape) * 100) for name in ("deflated", "packed", "plain")}
        fields["packed"][1][3, 2:4] = np.nan
        fields["flag"] = ("time",), draw.random(shape[0]) < 0.5
        fields["name"] = ("time",), np.array([f"hour {i}" for i in range(shape[0])])
        hours = np.datetime64("2000-01-01", "ns") + np.arange(shape[0]) * np.timedelta64(1, "h")
        data = xr.Dataset(fields, {"time": hours, "lat": np.linspace(0, 5, 6), "lon": np.linspace(0, 8, 9)})
        encoding = {
            "deflated": dict(dtype="f4", zlib=True, shuffle=True, complevel=4, chunksizes=(7, 4, 9)),
            "packed": dict(dtype="i2", scale_factor=0.01, add_offset=1.0, _FillValue=-999, zlib=True, fletcher32=True),
        }
        path = folder / f"{engine}-{year}.nc"
        data.to_netcdf(path, engine=engine, encoding=encoding, unlimited_dims=["time"])
        keep(path, "deflated", "packed", "plain", "flag", "time")
        np.save(f"{path}.meant.npy", xr.open_dataset(path)["packed"].values)
"""
# What xarray has no word for: text of characters, big-endian numbers, rounded ones, rows that nobody wrote.
NETCDF4 = """
    import netCDF4
    for year in 0, 1:
        path = folder / f"variables-{year}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 5)
            make = lambda name, kind, **options: file.createVariable(name, kind, ("time", "x"), **options)
            gaps = make("gaps", "i4", zlib=True, fill_value=-1, chunksizes=(3, 2))
            gaps[:4], gaps[35:40] = draw.integers(99, size=(4, 5)), draw.integers(99, size=(5, 5))
            make("swapped", ">f8", chunksizes=(16, 5), shuffle=True, zlib=True)[:] = draw.random((40, 5))
            make("rounded", "f4", compression="zstd", significant_digits=3)[:] = draw.random((40, 5))
            make("szip", "u2", compression="szip", chunksizes=(8, 4))[:] = draw.integers(999, size=(40, 5))
            make("bzip2", "i8", compression="bzip2", chunksizes=(8, 4))[:] = draw.integers(999, size=(40, 5))
            file.createGroup("in").createVariable("side", "u1", ("time",))[:] = draw.integers(99, size=40)
        keep(path, "gaps", "swapped", "rounded", "szip", "bzip2", "in/side")
"""
ANNDATA = """
    import anndata, pandas, scipy.sparse
    counts = draw.random((60, 12)).astype("f4")
    counts[counts < 0.8] = 0
    kinds = pandas.DataFrame({"kind": pandas.Categorical(["a", "b", "c"] * 20)}, index=[f"cell {i}" for i in range(60)])
    for name, matrix, options in ("plain", counts, {}), ("gzip", counts, {"compression": "gzip"}), ("csr", scipy.sparse.csr_matrix(counts), {}):
        anndata.AnnData(matrix, obs=kinds, obsm={"pca": counts[:, :3]}).write_h5ad(folder / f"{name}.h5ad", **options)
    np.save(folder / "counts.npy", counts)
    keep(folder / "plain.h5ad", "X", "obsm/pca", "obs/kind/codes")
    keep(folder / "gzip.h5ad", "X", "obsm/pca")
"""
PLUGIN_FILES = """
    import hdf5plugin as p
    filters = dict(
        zstd=p.Zstd(clevel=5), lz4=p.LZ4(), lz4_blocks=p.LZ4(nbytes=100), blosc=p.Blosc(), blosc_zlib=p.Blosc("zlib", shuffle=p.Blosc.BITSHUFFLE),
        blosc2=p.Blosc2(), blosc2_zstd=p.Blosc2("zstd"), bitshuffle=p.Bitshuffle(), bitshuffle_zstd=p.Bitshuffle(cname="zstd"),
        bitshuffle_none=p.Bitshuffle(cname="none"), bzip2=p.BZip2(), zfp=p.Zfp(reversible=True))
    for (name, filter), others in itertools.product(filters.items(), ({}, dict(shuffle=True, fletcher32=True))):
        path = folder / f"{name}{'_and_others' * bool(others)}.h5"
        with h5py.File(path, "w", libver=("earliest", "v110")) as file:
            file.create_dataset("x", data=draw.integers(0, 50, size=(40, 2, 8), dtype="i4"), chunks=(7, 2, 5), **filter, **others)
            file.create_dataset("noise", data=draw.integers(-(2**62), 2**62, size=(40, 3)), chunks=(16, 3), **filter, **others)
        keep(path, "x", "noise")
        with h5py.File(path) as file:
            at = next(c.byte_offset for c in map(file["x"].id.get_chunk_info, range(12)) if c.chunk_offset == (14, 0, 5))
        damaged = bytearray(path.read_bytes())
        damaged[at : at + 12] = bytes(12 * [255])
        (folder / f"{at}-{path.stem}.damaged").write_bytes(damaged)
"""
BEGIN = """
    import itertools, pathlib, sys, warnings
    import h5py, numpy as np
    folder, draw = pathlib.Path(sys.argv[1]), np.random.default_rng(7)
    warnings.simplefilter("ignore")
    def keep(path, *names):
        with h5py.File(path) as file:
            np.savez(f"{path}.npz", **{name: file[name][...] for name in names})
"""


def write(folder, program):
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}  # they have their own
    python(textwrap.dedent(BEGIN) + textwrap.dedent(program), folder, env=environment)


def expect(path, read_by="global", **options):
    """What a loader gives of the files `path`, compared with what h5py read of each; that is, (file, row) by id."""
    stored = [dict(np.load(f"{one}.npz")) for one in sorted(path.parent.glob(path.name))]
    wanted = {name: np.concatenate([file[name] for file in stored]) for name in stored[0]}
    for workers, decoded_bytes in ((0, 1 << 28), (2, 1 << 28), (2, 3000)):
        source = rota.open(rota.Catalog(path, decoded_bytes=decoded_bytes), "hdf5", **options)
        seen = []
        for batch in rota.Loader(source, 9, shuffle=read_by, workers=workers, epochs=2, tail="partial"):
            seen += batch.ids.tolist()
            for name in options.get("datasets", wanted):
                values = wanted[name][batch.ids].astype(wanted[name].dtype.newbyteorder("="))
                assert batch[name].dtype == values.dtype and batch[name].tobytes() == values.tobytes(), (name, workers)
        assert sorted(seen) == sorted(2 * list(range(len(source)))) and len(source) == len(wanted[name])


@pytest.fixture(scope="module")
def of_xarray(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xarray")
    write(folder, XARRAY)
    return folder


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_what_xarray_writes_is_read_as_it_is_stored(of_xarray, engine):
    values = ["deflated", "packed", "plain", "flag"]
    assert [field.name for field in rota.open(of_xarray / f"{engine}-0.nc", "hdf5").fields] == sorted(values)
    expect(of_xarray / f"{engine}-*.nc", datasets=values)
    expect(of_xarray / f"{engine}-1.nc", datasets=["deflated", "time"])
    source = rota.open(of_xarray / f"{engine}-*.nc", "hdf5", datasets=["name", "packed"])
    assert bytes(source[52]["name"]) == b"hour 2" and source[0]["packed"].dtype == np.int16


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_what_xarray_packs_is_unpacked_as_xarray_does(of_xarray, engine):
    meant = np.concatenate([np.load(of_xarray / f"{engine}-{year}.nc.meant.npy") for year in (0, 1)])
    source = rota.open(of_xarray / f"{engine}-*.nc", "hdf5", datasets=["packed", "flag"], unpack=True)
    for batch in rota.Loader(source, 9, shuffle="global", workers=2):
        assert batch["packed"].dtype == np.float64 and batch["flag"].dtype == rota.open(of_xarray / f"{engine}-0.nc", "hdf5")[0]["flag"].dtype
        np.testing.assert_allclose(batch["packed"], meant[batch.ids], rtol=1e-6)
    assert np.isnan(meant).sum() == 2 * 2 * 9


def test_variables_of_netcdf4_are_read_with_the_rows_that_nobody_wrote(tmp_path):
    write(tmp_path, NETCDF4)
    expect(tmp_path / "variables-*.nc")


def test_matrices_of_anndata_are_read_where_they_are_named(tmp_path):
    write(tmp_path, ANNDATA)
    expect(tmp_path / "plain.h5ad", datasets=["X"])
    expect(tmp_path / "plain.h5ad", datasets=["X", "obsm/pca", "obs/kind/codes"])
    expect(tmp_path / "gzip.h5ad", datasets=["X", "obsm/pca"])
    refused(lambda: rota.open(tmp_path / "csr.h5ad", "hdf5", datasets=["X"]), rota.NotFoundError, 'no dataset "/X"; it has "/X/data"')
    names = "X/data", "X/indices", "obsm/pca"
    rows = rota.open(tmp_path / "csr.h5ad", "hdf5", datasets=names, offsets="indptr")
    counts = np.load(tmp_path / "counts.npy")
    for cell in range(60):
        data, indices, pca = (rows[cell][name] for name in names)
        assert np.array_equal(np.flatnonzero(counts[cell]), indices) and np.array_equal(counts[cell][indices], data)
        assert np.array_equal(pca, counts[cell, :3])


@pytest.fixture(scope="module")
def of_plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    write(folder, PLUGIN_FILES)
    return folder


def test_what_plugins_compress_is_read(of_plugins):
    paths = sorted(of_plugins.glob("*.h5"))
    assert len(paths) == 24
    for path in paths:
        expect(path)


def test_a_damaged_chunk_of_a_plugin_is_named(of_plugins):
    for path in sorted(of_plugins.glob("*.damaged")):
        at, _, filters = path.stem.partition("-")
        if filters in ("zfp", "bitshuffle_none"):  # which cannot tell
            continue
        where = f"byte {at}: " if filters.startswith(("zstd", "lz4")) else '"/x", rows from 14 on'
        caught = refused(lambda: rota.open(path, "hdf5")[15], rota.CorruptError, f"{path}.*{where}")
        assert '"/x"' in str(caught)
        assert rota.open(path, "hdf5")[13]["x"].shape == (2, 8)


OPENED = "import rota, sys; print(rota.open(sys.argv[1])[39]['x'].tolist())"


def test_what_plugins_compress_is_read_without_them_or_they_are_named(of_plugins):
    environment = {**os.environ, "HDF5_PLUGIN_PATH": "/nowhere"}
    for name in "zstd", "lz4_blocks_and_others":
        python(OPENED, of_plugins / f"{name}.h5", env=environment)
    for name, number in {"blosc": 32001, "blosc2_zstd": 32026, "bitshuffle_and_others": 32008, "zfp": 32013}.items():
        failed = python(OPENED, of_plugins / f"{name}.h5", env=environment, returns=1).stderr
        assert f"UnsupportedError: open {of_plugins}/{name}.h5" in failed
        assert f"uses filter {number}" in failed and "HDF5_PLUGIN_PATH" in failed


@pytest.mark.parametrize("version", ["v114", "latest"])
def test_what_a_newer_hdf5_wrote_is_read_or_said_to_be(tmp_path, version):
    program = f"""
    with h5py.File(folder / "a.h5", "w", libver=("earliest", "v110")) as file: file["x"] = np.arange(40) * 1j
    with h5py.File(folder / "b.h5", "w", libver="{version}") as file: file["x"] = np.arange(40) * 1j
    with h5py.File(folder / "link.hdf", "w") as file: file["x"] = h5py.ExternalLink("b.h5", "x")
    with h5py.File(folder / "view.hdf", "w") as file:
        view = h5py.VirtualLayout((40,), "c16")
        view[:] = h5py.VirtualSource("b.h5", "x", (40,))
        file.create_virtual_dataset("x", view)
    """
    write(tmp_path, program)
    assert rota.open(tmp_path / "a.h5")[39]["x"].tolist() == [0, 39]
    for path in "b.h5", "link.hdf":
        with pytest.raises(rota.UnsupportedError, match=r'b.h5: dataset "/x" .*newer HDF5.*libver=\("earliest", "v110"\)'):
            rota.open(tmp_path / path, "hdf5", allow_external_links=True)
    with pytest.raises(rota.CorruptError, match='view.hdf: dataset "/x": dataset "x" in .*/b.h5.* newer HDF5'):
        rota.open(tmp_path / "view.hdf", "hdf5")
