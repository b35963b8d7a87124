"""Fields with other element types."""

import pickle

import numpy as np
import pytest
import rota
from runs import DTYPES


def is_allowed(a, b):
    """numpy's rule for casts that keep all values, and the one that rounds."""
    if (a, b) == ("float64", "float32") or a == b:
        return True
    exact = np.can_cast(a, b, casting="safe") and b not in ("bool", "float16")
    return exact and not (b == "float64" and a in ("int64", "uint64"))


def ragged(dtype):
    rng = np.random.default_rng(0)
    samples = [{"x": np.array(i % 2, dtype), "rows": rng.integers(0, 2, i * 137).astype(dtype)} for i in range(12)]
    return rota.PythonSource(samples, [("x", dtype), ("rows", dtype, (), True)]), samples


def test_every_value_is_the_same_in_every_type_that_holds_it():
    for a in DTYPES:
        source, samples = ragged(a)
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
                with pytest.raises(rota.InvalidArgumentError, match=f'"x" is {name}.*transform'):
                    rota.cast(ragged(a)[0], {"x": b})


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


def test_a_state_fits_with_and_without_the_cast():
    source, _ = ragged("int16")
    loader = rota.Loader(source, 5)
    loader.next()
    other = rota.Loader(source, 5, cast={"rows": "int64"})
    other.load_state_dict(loader.state_dict())
    assert other.position == loader.position
    np.testing.assert_array_equal(other.next().ids, loader.next().ids)


def test_all_datasets_of_a_mixture_are_cast():
    mixture = rota.Mixture([ragged("int16")[0], ragged("int16")[0]], [1, 1])
    for batch in rota.Loader(mixture, 5, cast={"x": "float32"}):
        assert batch["x"].dtype == np.float32


def test_a_cast_travels_in_a_pickle(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.uint16))
    cast = pickle.loads(pickle.dumps(rota.cast(rota.open(tmp_path), {"data": "int64"})))
    assert cast[5]["data"] == 5 and cast.fields[0].dtype == "int64"


def test_what_cannot_be_cast_is_refused():
    source, _ = ragged("int8")
    with pytest.raises(rota.NotFoundError, match='no field "y"; there are "x" int8'):
        rota.cast(source, {"y": "int64"})
    with pytest.raises(rota.InvalidArgumentError, match="dtype"):
        rota.cast(source, {"x": "text"})
    for wrong in ((None, {"x": "int64"}), (source, 5), (source, "int64")):
        with pytest.raises((TypeError, ValueError)):
            rota.cast(*wrong)
    assert rota.cast(source, {}).fields == source.fields
