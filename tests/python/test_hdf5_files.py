"""HDF5 files of types, shapes, layouts and filters drawn at random, as h5py reads them and as rota's loader does."""

import h5py
import numpy as np
import pytest
import rota
from runs import audit, python, refused

NUMBERS = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 >i2 >u4 >i8 >f2 >f4 >f8 c8 c16 >c8".split()
OTHERS = [
    "S1", "S7", "V5", h5py.string_dtype(), h5py.string_dtype("utf-8", 6), h5py.vlen_dtype("i4"),
    h5py.enum_dtype({"a": 1, "b": 7}, "i2"), ("f4", (2, 3)),
    [("a", "i1"), ("b", ">f8", (2,)), ("s", "S4"), ("in", [("z", "c8"), ("t", h5py.string_dtype())])],
    np.dtype({"names": ["y", "x"], "formats": ["u2", ">i4"], "offsets": [9, 2], "itemsize": 16}),
]


def random_values(draw, dtype, shape):
    """An array of `dtype`; object arrays hold bytes and arrays, as h5py takes them."""
    if dtype.subdtype:
        return random_values(draw, dtype.base, shape + dtype.shape)
    values = np.empty(shape, dtype)
    if dtype.names:
        for name in dtype.names:
            values[name] = random_values(draw, dtype[name], shape)
    elif dtype.kind == "O":
        make = of_text if h5py.check_string_dtype(dtype) else of_sequence
        for at in np.ndindex(shape):
            values[at] = make(draw, h5py.check_vlen_dtype(dtype))
    elif dtype.kind in "fc":
        numbers = draw.standard_normal(shape + (1 + (dtype.kind == "c"),))
        values[...] = numbers[..., 0] + (1j * numbers[..., 1] if dtype.kind == "c" else 0)
    elif dtype.kind in "iub":
        values[...] = draw.integers(0, 2 if dtype.kind == "b" else 100, size=shape)
    else:
        for at in np.ndindex(shape):
            values[at] = draw.integers(1, 99, size=draw.integers(dtype.itemsize + 1), dtype="u1").tobytes()
    return values


def of_text(draw, _):
    return "aé€"[: draw.integers(4)] * int(draw.integers(40))


def of_sequence(draw, dtype):
    return draw.integers(100, size=draw.integers(5)).astype(dtype)


def random_layout(draw, dtype, shape):
    """Options of create_dataset."""
    options, is_number = {}, dtype.kind in "?iuf" and not h5py.check_enum_dtype(dtype)
    if is_number and draw.integers(3) == 0:
        options["fillvalue"] = 1
    kind = draw.integers(6) if all(shape) else 0
    options["dcpl"] = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if kind == 1 and not dtype.hasobject and np.prod(shape) * dtype.itemsize < 60_000:
        options["dcpl"].set_layout(h5py.h5d.COMPACT)
    elif not dtype.hasobject:
        options["dcpl"].set_alloc_time(draw.choice([h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE]))
    if kind < 2:
        return options
    most = [extent if draw.integers(2) else min(extent, 3) for extent in shape]
    options["maxshape"] = (shape, (None,) + shape[1:], (None,) * len(shape))[draw.integers(3)]
    beyond = 1 if options["maxshape"][-1] else 4  # chunks may be larger than what they hold
    options["chunks"] = tuple(int(draw.integers(1, extent + beyond)) for extent in most)
    options["shuffle"] = bool(draw.integers(2))
    options["compression"] = (None, "gzip", "lzf")[draw.integers(3)]
    options["fletcher32"] = draw.integers(3) == 0 and not dtype.hasobject
    if dtype.kind in "iu" and is_number and draw.integers(5) == 0:
        options.update(scaleoffset=0, fletcher32=False, compression=(None, "gzip")[draw.integers(2)])
    return options


def write_dataset(draw, file, name, dtype, shape):
    """Writes all of it, or parts of it alone; sometimes, it shrinks and grows again."""
    if not shape:
        return file.create_dataset(name, data=random_values(draw, dtype, shape))
    data = file.create_dataset(name, shape, dtype, **random_layout(draw, dtype, shape))
    if dtype.kind in "?iufc" and not data.scaleoffset and draw.integers(4) == 0:
        for _ in range(3 if shape[0] else 0):
            part = slice(at := int(draw.integers(shape[0])), at + 5)
            data[part] = random_values(draw, dtype, data[part].shape)
    elif dtype.kind == "O":
        for row in range(shape[0]):  # of a single row, h5py would take a whole array for the row
            data[row] = random_values(draw, dtype, (1,))[0]
    else:
        data[...] = random_values(draw, dtype, shape)
    if data.chunks and all(shape) and data.maxshape[-1] is None and dtype.kind in "?iuf" and draw.integers(3) == 0:
        data.resize([int(draw.integers(1, extent + 1)) for extent in shape])
        data.resize(shape)


def write_folder(folder, draw):
    """Files of the same fields, each with a layout of its own; and their datasets."""
    datasets = {}
    for number in range(draw.integers(1, 5)):
        other = draw.integers(3) == 0
        dtype = OTHERS[draw.integers(len(OTHERS))] if other else NUMBERS[draw.integers(len(NUMBERS))]
        dtype, is_ragged = np.dtype(dtype), bool(not other and draw.integers(4) == 0)
        row = tuple(int(extent) for extent in draw.integers(1, 6, size=draw.integers(4)))
        row = () if dtype.kind in "SO" or dtype.names else row[:2] if is_ragged else row
        datasets[("", "in/side/")[draw.integers(2)] + f"d{number}"] = dtype, row, is_ragged
    for number in range(draw.integers(1, 4)):
        version = ("earliest", "v110")[draw.integers(2)]
        with h5py.File(folder / f"{number}.h5", "w", libver=(version, "v110"), userblock_size=512 * draw.integers(3)) as file:
            write_file(draw, file, datasets)
    return list(datasets)


def write_file(draw, file, datasets):
    samples = int(draw.integers(1, 50))
    for name, (dtype, row, is_ragged) in datasets.items():
        rows = samples
        if is_ragged:
            offsets = np.append(0, np.cumsum(draw.integers(6, size=samples)))
            rows = int(offsets[-1])
            file.create_dataset(name + "_offsets", data=offsets.astype(("i8", "u2", ">i4")[draw.integers(3)]))
        write_dataset(draw, file, name, dtype, (rows,) + row)


def fields_of(name, values, samples):
    """The fields that `values` of h5py become, with the array of each sample; `samples` are (begin, end) of rows, or None."""
    if values.dtype.names:
        return {k: v for m in values.dtype.names for k, v in fields_of(f"{name}.{m}", values[m], samples).items()}
    if values.dtype.kind in "SO":
        as_bytes = lambda one: np.frombuffer(one.encode() if isinstance(one, str) else one, "u1")  # noqa: E731
        return {name: [one if isinstance(one, np.ndarray) else as_bytes(one) for one in values]}
    values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    if values.dtype.kind == "V":
        values = values.view("u1").reshape(values.shape + (values.itemsize,))
    return {name: list(values) if samples is None else [values[begin:end] for begin, end in samples]}


def read_by_h5py(folder, datasets):
    wanted = {}
    for path in sorted(folder.glob("*.h5")):
        with h5py.File(path) as file:
            for name in datasets:
                offsets = file[name + "_offsets"][...].astype(int) if name + "_offsets" in file else None
                samples = None if offsets is None else list(zip(offsets, offsets[1:]))
                for field, values in fields_of(name, file[name][...], samples).items():
                    wanted.setdefault(field, []).extend(values)
    return wanted


def expect(field, got, wanted, what):
    assert got.dtype == wanted.dtype.newbyteorder("=") and got.shape == wanted.shape, (field, what)
    assert got.tobytes() == wanted.astype(got.dtype).tobytes(), (field, what, got, wanted)


def same(source, wanted, what, **options):
    """Expects of two epochs each sample twice, as it is in `wanted`, by its field and id."""
    assert {field.name for field in source.fields} == set(wanted)
    seen = []
    for batch in rota.Loader(source, 7, epochs=2, tail="partial", **options):
        seen += batch.ids.tolist()
        for at, sample in enumerate(batch.ids):
            for field, values in wanted.items():
                expect(field, batch[field][at], values[sample], (what, sample))
    assert sorted(seen) == sorted(2 * list(range(len(source)))) and len(source) == len(values)


@pytest.mark.parametrize("seed", range(80))
def test_of_any_layout_a_loader_gives_what_h5py_reads(tmp_path, seed):
    draw = np.random.default_rng(seed)
    datasets = write_folder(tmp_path, draw)
    wanted = read_by_h5py(tmp_path, datasets)
    for workers, decoded_bytes in ((0, 1 << 28), (2, 1 << 28), (0, 2000), (2, int(draw.integers(50_000)))):
        source = rota.open(rota.Catalog(tmp_path, decoded_bytes=decoded_bytes), "hdf5", datasets=datasets)
        same(source, wanted, (seed, workers, decoded_bytes), shuffle="global", seed=seed, workers=workers)


@pytest.mark.parametrize("seed", range(20))
def test_of_a_group_for_each_sample_a_loader_gives_what_h5py_reads(tmp_path, seed):
    draw = np.random.default_rng(seed)
    names = [NUMBERS[draw.integers(len(NUMBERS))] for _ in range(draw.integers(1, 4))]
    rows = [tuple(draw.integers(1, 4, size=draw.integers(4)).tolist()) for _ in names]
    lengths, ragged, wanted = draw.integers(9, size=30), draw.integers(2, size=3), {}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for sample, length in enumerate(lengths):
            for name, (dtype, row) in enumerate(zip(map(np.dtype, names), rows)):
                write_dataset(draw, file, f"demo_{sample}/{name}", dtype, (int(length),) * ragged[name] + row)
                for field, values in fields_of(str(name), file[f"demo_{sample}/{name}"][...][None], None).items():
                    wanted.setdefault(field, []).extend(values)
    for workers, decoded_bytes in ((0, 1 << 28), (2, 500)):
        source = rota.open(rota.Catalog(tmp_path, decoded_bytes=decoded_bytes))
        same(source, wanted, (seed, workers), shuffle="global", seed=seed, workers=workers)


FILTERS = [
    dict(compression="gzip"), dict(compression="gzip", shuffle=True), dict(fletcher32=True), dict(compression="lzf"),
    dict(compression="gzip", shuffle=True, fletcher32=True), dict(compression="lzf", shuffle=True, fletcher32=True),
    dict(compression="gzip", scaleoffset=0),
]


def damage(path, is_cut, **filters):
    """Writes a file, damages the head of its chunk of row 12 and column 4, and tells where that is."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("in/x", data=np.arange(240).reshape(24, 10), chunks=(6, 4), **filters)
        if is_cut:
            data.id.write_direct_chunk((12, 4), data.id.read_direct_chunk((12, 4))[1][:-6])
        chunks = map(data.id.get_chunk_info, range(data.id.get_num_chunks()))
        at = next(chunk.byte_offset for chunk in chunks if chunk.chunk_offset == (12, 4))
    if not is_cut:
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(b"\xff" * 4)
    return at


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("filters", FILTERS, ids=" ".join)
def test_a_damaged_chunk_is_named(tmp_path, filters, is_cut):
    at = damage(tmp_path / "a.h5", is_cut, **filters)
    named = "rows from 12 on" if "scaleoffset" in filters else f"byte {at}: "
    if filters == {"fletcher32": True} and is_cut:  # which open sees, without reading it
        refused(lambda: rota.open(tmp_path), rota.CorruptError, f'a.h5.*"/in/x".*byte {at} ')
        return
    source = rota.open(tmp_path)
    for read in (lambda: source[17], lambda: list(rota.Loader(source, 7, epochs=1, workers=2))):
        caught = refused(read, rota.CorruptError, f"a.h5.*{named}")
        assert '"/in/x"' in str(caught)
    assert [source[i]["in/x"][9] for i in (11, 18)] == [119, 189]
    ids = {one for batch in rota.Loader(source, 7, epochs=1, on_bad_sample="skip") for one in batch.ids[batch.mask].tolist()}
    assert ids == set(range(24)) - set(range(12, 18))


# A phase of all ranks of a world. It saves its state two steps before it is killed, when rank 0 alone has a last batch.
RUN = """
import os, pickle, signal, sys, rota

data, traces, saved, phase, ranks, workers, steps = sys.argv[1:4] + list(map(int, sys.argv[4:]))
source = rota.open(rota.Catalog(data, decoded_bytes=20_000))
options = dict(shards="units", interleave=4, shuffle="within", seed=5, epochs=2, workers=workers)
loaders = [rota.Loader(source, 12, world=(rank, ranks), **options) for rank in range(ranks)]
for loader in loaders if os.path.exists(saved) else []:
    loader.load_state_dict(pickle.load(open(saved, "rb")))
tracers = [rota.TraceWriter(traces, loader, phase=phase) for loader in loaders]
for step in range(steps):
    for loader, trace in zip(loaders, tracers):
        batch = loader.next()
        if batch is None:
            sys.exit([each.end() for each in tracers] and None)
        assert (batch["x"][batch.mask] == batch.ids[batch.mask, None]).all()
        trace.write(batch)
        if step == steps - 1:
            os.kill(os.getpid(), signal.SIGKILL)
    if step == steps - 4:
        pickle.dump(loaders[0].state_dict(), open(saved, "wb"))
"""


def test_a_run_over_chunks_that_is_killed_goes_on_elsewhere_with_exactly_the_rest(tmp_path):
    (tmp_path / "data").mkdir()
    for number, (first, rows) in enumerate([(0, 150), (150, 91), (241, 5)]):
        with h5py.File(tmp_path / f"data/{number}.h5", "w") as file:
            numbers = np.repeat(np.arange(first, first + rows), 20).reshape(rows, 20)
            file.create_dataset("x", data=numbers, chunks=(min(7, rows), 6), compression="gzip", shuffle=True)
    for run, phases in {"whole": [(1, 0, 99, 0)], "killed": [(2, 2, 9, -9), (3, 0, 15, -9), (1, 3, 14, -9), (4, 1, 99, 0)]}.items():
        for phase, (ranks, workers, steps, returns) in enumerate(phases):
            traces, saved = tmp_path / run, tmp_path / f"{run}.state"
            traces.mkdir(exist_ok=True)
            python(RUN, tmp_path / "data", traces, saved, phase, ranks, workers, steps, returns=returns)
        options = "--samples", 246, "--epochs", 2, "--batch", 12, "--complete", "--same-as", tmp_path / "whole"
        audited = audit(traces, *options)
        assert audited.returncode == 0, audited.stdout + audited.stderr
