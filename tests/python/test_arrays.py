"""Each kind of array that rota hands out is what numpy itself makes of the same bytes; casts; the numpy that it is made for."""

import os
import pickle

import numpy as np
import pytest
import rota
import rota.mpi
from runs import DTYPES, Dataset, python, refused

FIELDS = {
    **{f"{dtype} {list(shape)}": (dtype, shape) for dtype in DTYPES for shape in ((), (3,), (2, 3), (0,))},
    "bits": ("bfloat16", (2,)),
    "rows": ("uint16", (), True),
    "pairs": ("float32", (2,), True),
}
ROWS = [2, 0, 3, 1, 0, 5]


def made(name, i):
    """What field `name` of sample `i` is, by numpy alone."""
    dtype, shape, *is_ragged = FIELDS[name]
    shape = (ROWS[i], *shape) if is_ragged else shape
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape) + 7 * i
    return numbers.astype("uint16" if dtype == "bfloat16" else dtype)


DATASET = Dataset(len(ROWS), lambda i: {name: made(name, i) for name in FIELDS})


class Samples(rota.Stream):
    fields = FIELDS
    shards = 1

    def open(self, shard, epoch, cursor):
        for i in range(cursor or 0, len(ROWS)):
            yield DATASET[i], i + 1


def facts(array):
    flags = array.flags
    assert type(array) is np.ndarray and array.base is not None or flags.owndata
    return dict(
        bytes=array.tobytes(), values=array.tolist(), strides=array.strides if array.size else None, shape=array.shape, ndim=array.ndim,
        dtype=array.dtype, itemsize=array.itemsize, nbytes=array.nbytes, size=array.size,
        flags=(flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable),
    )  # fmt: skip


def check(array, values, dtype, is_writeable=True):
    """`array` is that of numpy of the same bytes, and takes part in numpy's arithmetic as it does."""
    expected = np.ndarray(np.shape(values), dtype, bytearray(np.asarray(values, dtype).tobytes()) or None)
    expected.flags.writeable = is_writeable
    assert facts(array) == facts(expected)
    for change in (np.copy, np.logical_not, np.transpose):
        assert facts(change(array)) == facts(change(expected))


def check_sample(sample, i, is_writeable=True):
    assert list(sample) == list(FIELDS)
    for name, array in sample.items():
        check(array, made(name, i), made(name, i).dtype, is_writeable)


def check_batch(batch, ids):
    assert list(batch) == list(dict(batch.items())) == list(FIELDS) and batch.get("none") is None
    for name, (_, _, *is_ragged) in FIELDS.items():
        values = [made(name, i) for i in ids]
        if not is_ragged:
            check(batch[name], values, values[0].dtype)
            continue
        check(batch[name].offsets, np.cumsum([0, *map(len, values)]), "int64")
        check(batch[name].values, np.concatenate(values), values[0].dtype)
        assert len(batch[name]) == len(ids)
        for i, rows in enumerate(values):
            check(batch[name][i], rows, rows.dtype)
            check(batch[name][i - len(ids)], rows, rows.dtype)


def source():
    return rota.PythonSource(DATASET, FIELDS)


def test_those_of_a_sample():
    for i in range(len(ROWS)):
        sample = source()[i]
        assert all(isinstance(value, np.generic) == (FIELDS[name][1:] == ((),)) for name, value in sample.items())
        check_sample({name: np.array(value) if isinstance(value, np.generic) else value for name, value in sample.items()}, i)


@pytest.mark.parametrize("workers", [0, 2])
def test_those_of_a_batch_and_of_functions(workers):
    def transform(sample):
        check_sample(sample, sample.id)

    def collate(batch):
        check_batch(batch, range(3 * collate.calls, 3 * collate.calls + 3))
        collate.calls += 1
        return batch

    for functions in ({}, {"transform": transform}, {"collate": collate, "collate_fields": FIELDS}):
        collate.calls = 0
        run = rota.Loader(source(), 3, shuffle="none", shards=1, world=(0, 1), workers=workers, read_ahead_batches=1, **functions)
        for step, batch in enumerate(run):
            check_batch(batch, range(3 * step, 3 * step + 3))


def test_those_of_a_stream_cannot_be_written():
    def keep(sample):
        check_sample(sample, sample.id.input, is_writeable=False)
        return True

    for batch in rota.StreamLoader(rota.filter(Samples(), keep), 3, workers=0, comm=rota.mpi.Communicator()):
        check_batch(batch, range(3 * batch.start.step, 3 * batch.start.step + 3))


def test_those_that_tell_of_a_batch():
    sampler = rota.ElasticBatchSampler(10, 4, shuffle="none", shards=1, world=(0, 1))
    for step, ids in enumerate([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]):
        kinds = [0, 0, 0, 0] if step < 2 else [0, 0, 1, 1]
        for info in (sampler.batch(step), sampler.advance()):
            check(info.ids, ids, "int64")
            check(info.kinds, kinds, "uint8")
            check(info.mask, np.equal(kinds, 0), "bool")
            check(info.epochs, [0] * 4, "int64")
            check(info.datasets, [0] * 4, info.datasets.dtype)
            check(info.slots, [0, 1, 2, 3], "int64")


def test_those_of_a_checkpoint(tmp_path):
    tensors = {dtype: np.arange(6).reshape(3, 2).astype(dtype) for dtype in DTYPES}
    with rota.CheckpointDirectory(None, tmp_path) as directory:
        directory.save(1, tensors)
        checkpoint = directory.latest()
        for dtype, array in tensors.items():
            check(checkpoint[dtype], array, dtype)
            check(checkpoint.rows(dtype, 1, 2), array[1:], dtype)


# ---- casts ----


def is_allowed(a, b):
    """numpy's rule for casts that keep all values, and those that round."""
    if (a, b) == ("float64", "float32") or a == b or b == "float16":
        return True
    exact = np.can_cast(a, b, casting="safe") and b != "bool"
    return exact and not (b == "float64" and a in ("int64", "uint64"))


def ragged(dtype):
    rng = np.random.default_rng(0)
    samples = [{"x": np.array(i % 2, dtype), "rows": rng.integers(0, 2, i * 137).astype(dtype)} for i in range(12)]
    return rota.PythonSource(samples, [("x", dtype), ("rows", dtype, (), True)]), samples


def test_every_value_is_the_same_in_every_type_that_holds_it():
    for a in DTYPES:
        source, samples = ragged(a)
        assert rota.cast(source, {}).fields == source.fields
        for b in DTYPES:
            if not is_allowed(a, b):
                continue
            cast = rota.cast(source, {"x": b, "rows": np.dtype(b)})
            assert len(cast) == 12 and cast.fingerprint == source.fingerprint
            for i, sample in enumerate(samples):
                for name, values in cast[i].items():
                    assert values.dtype == b
                    np.testing.assert_array_equal(values, sample[name].astype(b))


def test_what_may_lose_values_is_refused_with_what_to_do():
    for a in DTYPES:
        for b in DTYPES:
            if not is_allowed(a, b):
                name = a.replace("bool", "boolean")
                refused(lambda: rota.cast(ragged(a)[0], {"x": b}), rota.InvalidArgumentError, f'"x" is {name}.*transform')


def test_bfloat16_becomes_floats():
    bits = (np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    source = rota.PythonSource([{"x": bits}], [("x", "bfloat16", (2,))])
    assert rota.cast(source, {"x": "float32"})[0]["x"].tolist() == [1.5, -2.0]


def test_a_loader_casts_before_it_transforms():
    source, samples = ragged("int16")
    seen = set()

    def transform(sample):
        seen.add(sample["rows"].dtype.name)

    for workers in (0, 2):
        loader = rota.Loader(
            source, 5, shuffle="none", shards=1, workers=workers, cast={"rows": "int64"}, transform=transform
        )
        batches = [batch["rows"].to_list() for batch in loader]
        assert sum(batches, []) == [sample["rows"].tolist() for sample in samples]
    assert seen == {"int64"}
    for batch in rota.Loader(rota.Mixture([source, source], [1, 1]), 5, cast={"x": "float32"}):
        assert batch["x"].dtype == np.float32


def test_a_state_fits_with_and_without_the_cast():
    source, _ = ragged("int16")
    loader = rota.Loader(source, 5)
    loader.next()
    other = rota.Loader(source, 5, cast={"rows": "int64"})
    other.load_state_dict(loader.state_dict())
    assert other.position == loader.position
    np.testing.assert_array_equal(other.next().ids, loader.next().ids)


def test_a_cast_travels_in_a_pickle(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.uint16))
    cast = pickle.loads(pickle.dumps(rota.cast(rota.open(tmp_path), {"data": "int64"})))
    assert cast[5]["data"] == 5 and cast.fields[0].dtype == "int64"


@pytest.mark.parametrize("made_of", [list, np.array, lambda ids: np.array(ids, "u2"), lambda ids: np.array(ids)[::-1][::-1]])
def test_samples_that_are_selected_taken_and_zipped_travel_in_a_pickle(made_of):
    given = made_of([4, 0, 4, 5])
    texts = rota.PythonSource(["a" * i for i in range(6)], [("text", "uint8", (), True)])
    made = rota.zip(rota.skip_first(rota.take(rota.PythonSource([{"x": i} for i in range(9)]), 8), 2), texts)
    made = rota.select(made, given)
    given[0] = 1  # which is the user's own
    for source in made, pickle.loads(pickle.dumps(made)):
        assert [(int(source[i]["x"]), len(source[i]["text"])) for i in range(4)] == [(6, 4), (2, 0), (6, 4), (7, 5)]
        assert source.fingerprint == made.fingerprint
        batches = [list(batch["x"]) for batch in rota.Loader(source, 3, shuffle="global")]
        assert sorted(sum(batches, [])) == [2, 6, 6, 7]
    assert len(rota.select(texts, [])) == 0


# ---- a module whose pybind11 knows numpy 1 alone ----


@pytest.mark.parametrize("order", ["numpy, rota", "rota, numpy"])
def test_a_module_for_numpy_1_refuses_2_whatever_is_imported_first(order, tmp_path):
    module = os.environ.get("ROTA_NUMPY_1")
    if not module:
        pytest.skip("no module was built with a pybind11 that knows numpy 1 alone")
    if np.__version__.startswith("1."):
        (tmp_path / "numpy").mkdir()
        (tmp_path / "numpy" / "__init__.py").write_text("__version__ = '2.1.0'")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{module}"}
    for use in ("rota.ElasticBatchSampler(8, 4, world=(0, 1)).batch(0).ids", "rota.PythonSource([1.5], ['x'])"):
        told = python(f"import {order}; {use}", returns=1, env=environment).stderr.strip().split("\n")[-1]
        assert "knows numpy 1 alone" in told and "pip install ." in told and 'pip install "numpy<2"' in told, told


def test_fields_are_taken_as_they_are_told():
    fields = source().fields
    assert rota.PythonSource(DATASET, fields).fields == fields == rota.cast(source(), {f.name: f.dtype for f in fields}).fields


@pytest.mark.parametrize("value", [np.ma.array([1.0, 2.0], mask=[True, False]), np.ma.array([1, 2], mask=True)])
def test_a_masked_array_is_refused(value):
    refused(lambda: rota.PythonSource([{"x": value}], {"x": (value.dtype, (2,))})[0], rota.CallbackError, "lose its mask")


def test_a_memoryview_of_numbers_is_numbers():
    numbers = rota.PythonSource([{"x": memoryview(np.array([1, 2], np.int32))}], {"x": ("int32", (), True)})
    assert numbers[0]["x"].tolist() == [1, 2]
