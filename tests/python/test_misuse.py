"""What goes wrong in a user's hands raises what a Python user would catch, with a message that says what to do."""

import decimal
import os
import pickle
import re
import traceback

import numpy as np
import pytest
import rota
import rota.mpi
from runs import refused, source

ALONE = {"world": (0, 1)}


def sampler(samples=10, size=4, **options):
    return rota.ElasticBatchSampler(samples, size, **{**ALONE, **options})


def loader(data=None, size=4, **options):
    return rota.Loader(source(10) if data is None else data, size, **{**ALONE, **options})


def returning(value, fields=None):
    return loader(transform=lambda sample: value, transform_fields=fields or [("y", "int64", (2,))]).next()


def dataset(item, fields):
    return loader(rota.PythonSource([item], fields)).next()


def dispatch(stream, **options):
    return rota.StreamLoader(rota.Dispatch(stream, **options))


def changed():
    one = sampler()
    one.advance()
    one.set_epoch(3)
    return one


MISUSES = {
    # ---- samplers ----
    "a path": (lambda: rota.ElasticBatchSampler("train", 8), TypeError, "'train' is a path"),
    "a path as a dataset": (lambda: rota.PythonSource("train"), TypeError, r"a path, and no dataset: open it with rota.open"),
    "a mixture without weights": (lambda: rota.ElasticBatchSampler(rota.Mixture([source(3)], [1]), 8), TypeError, "Mixture is no dataset.*weights="),
    "a list without weights": (lambda: rota.ElasticBatchSampler([source(3), source(3)], 8), ValueError, "2 datasets needs weights="),
    "weights of one dataset": (lambda: rota.ElasticBatchSampler(source(3), 8, weights=[1, 2]), ValueError, "2 weights for a Source"),
    "weights of a length": (lambda: rota.ElasticBatchSampler(10, 8, weights=[1]), ValueError, "1 weights for a int"),
    "a negative weight of a mixture": (lambda: loader(rota.Mixture([source(3), source(3)], [1, -1])), ValueError, "weights .* to 1, -1"),
    "no weight": (lambda: loader(rota.Mixture([source(3)], [0])), ValueError, "weights"),
    "a bool as batch size": (lambda: sampler(size=True), TypeError, "global_batch_size is True; it must be a number"),
    "a batch size past 2^64": (lambda: sampler(size=2**70), ValueError, "global_batch_size"),
    "a batch size that is no number": (lambda: sampler(size="8"), TypeError, "global_batch_size is '8'; it must be a number"),
    "a negative length": (lambda: sampler(-1), (ValueError, RuntimeError), "-1"),
    "no length": (lambda: sampler(iter([1])), TypeError, "has no length"),
    "an unknown shuffle": (lambda: sampler(shuffle="all"), ValueError, "all.*none, within, global, block"),
    "a shuffle that is true": (lambda: sampler(shuffle=True), (TypeError, ValueError), "shuffle"),
    "a block of nothing": (lambda: sampler(shuffle="block", block=(0, 4)), ValueError, "blocks are to be chunks"),
    "a rank past the world": (lambda: sampler(world=(3, 3)), ValueError, "rank 3 .* 3"),
    "a world that is a number": (lambda: sampler(world=4), TypeError, r"\(rank, size\)"),
    "a position that no run has": (lambda: sampler(epochs=1).set_epoch(-2), (ValueError, IndexError), "epoch"),
    "the length of a mixture": (lambda: len(sampler([5, 5], weights=[1, 1])), TypeError, "epochs of their own"),
    "weights of other datasets": (lambda: sampler([5, 5], weights=[1]), ValueError, "1 weights for 2 datasets"),
    "a negative weight": (lambda: sampler([5, 5], weights=[1, -1]), ValueError, "weight"),
    "an empty dataset of a mixture": (lambda: sampler([5, 0], weights=[1, 1]), ValueError, "no samples; leave it out"),
    "weights without a mixture": (lambda: sampler().set_weights([1.0]), ValueError, "mixes none"),
    "a world past 2^31": (lambda: sampler(world=(2**40, 2**41)), ValueError, "world is 1099511627776"),
    "a batch before another epoch": (lambda: changed().batch(0), NotImplementedError, "find step 0: it came before .* step 1"),
    "an end without weights": (lambda: sampler(end="steps", steps=3), ValueError, "give weights"),
    "an end without steps": (lambda: sampler([5], weights=[1], end="steps"), ValueError, "steps is 0; it must be 1 or more"),
    "steps that are a text": (lambda: sampler([5], weights=[1], end="steps", steps="7"), TypeError, "steps is '7'"),
    "an id past 2^64": (lambda: sampler().when(2**70, 0), ValueError, "id is 1180591620717411303424"),
    "an unknown end": (lambda: sampler([5], weights=[1], end="never"), ValueError, "never.*first_exhausted"),
    "when of no sample": (lambda: sampler().when(10, 0), IndexError, "samples 0 to 9"),
    "when of no epoch": (lambda: sampler().when(0, -1), IndexError, "epochs begin"),
    # ---- states ----
    "a state that is a text": (lambda: sampler().load_state_dict("state"), ValueError, "what state_dict\\(\\) returned"),
    "a state of another loader": (lambda: sampler().load_state_dict({"step": 3}), ValueError, "what state_dict\\(\\) returned"),
    "a state that is damaged": (lambda: sampler().load_state_dict({"rota": '{"rota_state": 1}'}), ValueError, "take another"),
    "a state of another length": (
        lambda: sampler(11).load_state_dict(sampler(10).state_dict()), ValueError, "has 10 samples .* loader has 11 samples",
    ),
    # ---- loaders and their functions ----
    "a list for a source": (lambda: loader([1, 2]), TypeError, "rota.PythonSource"),
    "too many workers": (lambda: loader(workers=10**6), ValueError, "workers is 1000000; it must be 0 to 4096"),
    "a deadline of never": (lambda: loader(deadline=float("inf")), ValueError, "deadline is inf; it must be 0 to 10.12 seconds"),
    "a negative deadline": (lambda: loader(deadline=-1), ValueError, "deadline is -1; it must be 0 to 10.12 seconds"),
    "a negative deadline of ranks": (lambda: rota.mpi.Communicator(deadline=-1), ValueError, "deadline is -1; it must be"),
    "a deadline of ranks that is a text": (lambda: rota.mpi.Communicator(deadline="1"), TypeError, "deadline is '1'"),
    "a deadline of a directory": (lambda: rota.CheckpointDirectory(None, "/tmp", deadline=float("nan")), ValueError, "deadline is nan"),
    "a seek past 2^64": (lambda: loader().seek((2**70, 0, 0)), ValueError, "number"),
    "fields without a transform": (lambda: loader(transform_fields=["y"]), ValueError, "transform is missing"),
    "fields without a collate": (lambda: loader(collate_fields=["y"]), ValueError, "collate is missing"),
    "a mixture of lists": (lambda: loader(rota.Mixture([[1]], [1])), TypeError, "rota.PythonSource"),
    "a misspelt option": (lambda: loader(batch_sise=4), TypeError, "batch_sise"),
    "a seek to nowhere": (lambda: loader().seek((0, 11, 0)), IndexError, "11"),
    "a field of a batch that is a number": (lambda: loader().next()[5], KeyError, "5"),
    "an unknown field of a batch": (lambda: loader().next()["y"], KeyError, 'y.*"x".*"n"'),
    "a transform that returns too little": (lambda: returning({}), RuntimeError, 'it has no "y"'),
    "a transform that returns nothing": (lambda: returning(None), RuntimeError, '"y"'),
    "a transform of another shape": (lambda: returning({"y": [1, 2, 3]}), RuntimeError, r"shape \[3\].*has \[2\]"),
    "a transform that loses values": (lambda: returning({"y": [0.5, 1]}), RuntimeError, "without loss"),
    "a transform of another type": (lambda: returning({"y": np.zeros(2)}), RuntimeError, "float64.*int64.*convert it"),
    "a transform of text": (lambda: returning({"y": ["a", "b"]}), RuntimeError, "without loss"),
    "a transform that is none": (lambda: loader(transform=3).next(), RuntimeError, "not callable"),
    "a field of an unknown type": (lambda: returning(None, [("y", "int63")]), ValueError, "no dtype 'int63'"),
    "a field of complex numbers": (lambda: returning(None, [("y", "complex64")]), ValueError, "no elements of dtype"),
    "a field of the other byte order": (lambda: returning(None, [("y", ">i4")]), ValueError, "native byte order"),
    "two fields of one name": (lambda: returning(None, ["y", "y"]), ValueError, "y"),
    # ---- datasets ----
    "a dataset that is an iterator": (lambda: rota.PythonSource(iter([1])), TypeError, r"no len\(\) and no \[i\]"),
    "an empty dataset without fields": (lambda: rota.PythonSource([]), ValueError, "give fields="),
    "a sample without a field": (lambda: dataset({"x": 1}, ["y"]), RuntimeError, 'it has no "y"'),
    "a tuple of another length": (lambda: dataset((1, 2, 3), ["x", "y"]), RuntimeError, "a tuple of 3 for 2 fields"),
    "a sample that is no dict": (lambda: dataset(3, ["x", "y"]), RuntimeError, "int for 2 fields; return a dict"),
    "a sample past the end": (lambda: source(3)[3], IndexError, "3"),
    "a dataset that raises": (lambda: loader(rota.PythonSource({1: 2}, ["x"])).next(), RuntimeError, "KeyError: 0"),
    "fractions that are not one": (lambda: rota.split(source(9), [0.5, 0.6]), ValueError, "1.1"),
    "a sample past 2^64": (lambda: source(3)[2**70], IndexError, "there are 3"),
    "windows of halves": (lambda: rota.windows(source(3), 2.5), TypeError, "length is 2.5; it must be a number"),
    "a list as a stream": (lambda: rota.as_stream([1], 3), TypeError, "no rota.Source"),
    "a cast to what cannot hold it": (lambda: loader(rota.PythonSource([1e300]), cast={"data": "f4"}).next(), ValueError, "too large for float32"),
    "a cast of no field": (lambda: rota.cast(source(3), {"y": "int64"}), LookupError, 'no field "y"; there are "x" float32'),
    "a cast to no dtype": (lambda: rota.cast(source(3), {"x": "text"}), ValueError, "dtype"),
    "a cast of all fields": (lambda: rota.cast(source(3), "int64"), (TypeError, ValueError), "give a mapping"),
    "a dispatch of two shards": (lambda: dispatch(rota.as_stream(source(3), 2)), ValueError, "1; give it"),
    "a dispatch of nothing": (lambda: dispatch(None), ValueError, "rank 0"),
    "a dispatch by an unknown split": (lambda: dispatch(rota.as_stream(source(3), 1), rank_split="by_color"), ValueError, "by_color"),
    "windows past the end": (lambda: rota.windows(source(3), 4), ValueError, "4"),
    "a pack of fixed fields": (lambda: rota.pack(source(3)), ValueError, "ragged"),
    "nothing to join": (lambda: rota.join([]), ValueError, "join"),
    "ids past the end": (lambda: rota.select(source(3), [0, 3]), IndexError, r"ids\[1\] is 3; the dataset has 3"),
    "ids past 2^63": (lambda: rota.select(source(3), np.array([2**63], "u8")), IndexError, "9223372036854775808"),
    "halves of ids": (lambda: rota.select(source(3), [0.5]), TypeError, "whole numbers, and not float64"),
    "a mask of ids": (lambda: rota.select(source(3), [True, False, True]), TypeError, "flatnonzero"),
    "more than there are": (lambda: rota.take(source(3), 4), IndexError, "take the first 4 samples: the dataset has 3"),
    "less than none": (lambda: rota.skip_first(source(3), -1), IndexError, "skip the first -1"),
    "a list to zip": (lambda: rota.zip([source(3), source(3)]), TypeError, "no rota.Source"),
    "a zip of one field": (lambda: rota.zip(source(3), source(3)), ValueError, 'field "x"'),
    "a zip of other sizes": (lambda: rota.zip(source(3), source(4)), (rota.MismatchError,), "number 1 has 4"),
    "other fields to join": (lambda: rota.join([source(3), rota.PythonSource([1])]), ValueError, "fields"),
}


@pytest.mark.parametrize("what", MISUSES)
def test_it_raises_what_one_would_catch_and_says_what_to_do(what):
    work, error, message = MISUSES[what]
    caught = refused(work, error, message)
    assert not isinstance(caught, AssertionError) and not re.search("pybind11|incompatible function arguments", str(caught), re.I)


def test_each_error_is_a_rota_error_and_a_built_in_one():
    for name in rota.__all__:
        thing = getattr(rota, name)
        if isinstance(thing, type) and issubclass(thing, rota.Error) and thing not in (rota.Error, rota.BadSample):
            assert thing.code and thing.__mro__[2].__module__ == "builtins", name


@pytest.mark.parametrize("value, dtype", [
    (np.array([2**40]), "int32"), (np.array([70000], np.int32), "int16"), (np.array([2**63], np.uint64), "int64"),
    (np.array([1e300]), "float32"), ([2**24 + 1], "float32"), ([300], "uint8"), ([-1], "uint16"), ([0.5], "int64"),
    ([1.0, 2.0], "bfloat16"), (np.array([1.0], np.float32), "bfloat16"),
    (np.array([2**53 + 1]), "float64"), (np.array([2**64 - 1], np.uint64), "float64"),
])  # fmt: skip
def test_no_value_is_lost(value, dtype):
    refused(lambda: rota.PythonSource([{"x": value}], {"x": (dtype, (len(value),))})[0], rota.CallbackError, "without loss|is no bfloat16")


UNMADE = {
    "Run": (lambda: rota.Run(-1), "position slice state copy __len__ __repr__"),
    "Loader": (lambda: loader(size=0), "position state_dict run next close __repr__"),
    "StreamLoader": (lambda: rota.StreamLoader(5, 3), "position next close __repr__"),
    "Catalog": (lambda: rota.Catalog("/nonexistent"), "fingerprint __len__ __repr__"),
    "CheckpointDirectory": (lambda: rota.CheckpointDirectory(None, "/proc/none"), "close __repr__"),
    "Source": (None, "fields __len__"),
    "Communicator": (None, "world close"),
}


@pytest.mark.parametrize("kind", UNMADE)
def test_what_could_not_be_made_says_so_also_in_a_traceback_with_locals(kind):
    def use(made, name):
        got = getattr(made, name)
        return got() if callable(got) else got

    make, names = UNMADE[kind]
    unmade = getattr(rota, kind).__new__(getattr(rota, kind))
    for name in names.split():
        if name == "__repr__":
            assert re.search("not made|closed", repr(unmade))
        else:
            refused(lambda: use(unmade, name), AttributeError)
    if make is not None:
        error = refused(make, Exception)
        told = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
        assert f"self = <rota.{kind}, " in told


class Early(rota.Run):
    def __init__(self):
        self.first = self.position


def test_an_object_that_is_used_before_its_init_says_what_to_call_first():
    refused(Early, AttributeError, r"super\(\).__init__ first")
    refused(lambda: rota.Run.from_state(rota.Run(3).state(), lengths=rota.Run.__new__(rota.Run)), AttributeError, "not made")
    refused(lambda: rota.Run(3) == rota.Run.__new__(rota.Run), AttributeError, "not made")


def test_values_that_survive_are_taken():
    for value, dtype in [([1, 2], "uint8"), (np.array([3]), "int32"), ([1.5], "float32"), ([True], "float64"), ([0.1], "float16")]:
        got = rota.PythonSource([{"x": value}], {"x": (dtype, (len(value),))})[0]["x"]
        assert got.tolist() == pytest.approx(np.asarray(value, float).tolist(), rel=1e-3)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("raised, says", [(ValueError("\udcff"), r"\\udcff"), (Unspeakable(), "__str__ fails")])
def test_what_a_function_raises_is_the_cause_whatever_it_says(raised, says):
    def fail(sample):
        raise raised

    caught = refused(lambda: rota.Loader(rota.PythonSource(range(8)), 4, transform=fail, world=(0, 1)).next(), rota.CallbackError, says)
    assert caught.__cause__ is raised


def test_errors_name_files_whose_names_are_no_text(tmp_path):
    file = os.fsencode(tmp_path) + b"/\xff.npy"
    refused(lambda: rota.open(file), FileNotFoundError, r"\\xff")
    with open(file, "wb") as out:
        out.write(b"junk")
    for use in (lambda: rota.open(file, "npy"), lambda: rota.open_checkpoint(os.fsdecode(file))):
        refused(use, rota.CorruptError, r"\\xff")


@pytest.mark.parametrize("number", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("tail", ["pad", "drop", "carry"])
def test_numbers_of_numpy_count_as_pythons_do(number, tail, tmp_path):
    def run(number):
        sampler = rota.ElasticBatchSampler(10**10, number(100), seed=number(7), epochs=number(2), tail=tail, world=(number(0), number(2)))
        sampler.set_epoch(number(1))
        sampler.set_global_batch_size(number(120))
        sampler.advance()
        return len(sampler), sampler.position, sampler.batch(number(99)).ids.tolist(), sampler.when(number(3), number(1)), sampler.state_dict()

    assert run(number) == run(int)
    (tmp_path / "file").write_bytes(b"x")
    assert len(rota.Catalog(tmp_path, share_files=np.bool_(False))) == 1


@pytest.mark.parametrize("fraction", [2.5, np.float32(2.5), np.float64(2.5), np.array(2.5), decimal.Decimal("2.5")])
def test_no_fraction_of_a_number_is_cut(fraction, tmp_path):
    names = "global_batch_size shards interleave seed epochs workers read_ahead_batches read_ahead_bytes max_skipped io_retries".split()
    for options in [{name: fraction} for name in names] + [{"block": (fraction, 4), "shuffle": "block"}]:
        refused(lambda: loader(**options), (TypeError, ValueError))
    for options in {"shards": fraction}, {"interleave": fraction}, {"seed": fraction}, {"block": (3, fraction), "shuffle": "block"}:
        refused(lambda: sampler(**options), (TypeError, ValueError))
    refused(lambda: rota.write_shards(source(3), tmp_path / "to", world=(0, fraction)), TypeError)


def test_pickles_name_no_numpy():
    options = dict(shards=np.int64(3), block=(np.int32(3), np.uint8(2)), seed=np.uint64(7), world=(0, 1))
    for made in (
        rota.ElasticBatchSampler(10, np.int16(2), **options),
        rota.ElasticBatchSampler([10, 10], 2, weights=np.array([1, 2]), end="steps", steps=np.int8(3), world=(0, 1)),
        rota.windows(rota.PythonSource(range(9)), np.int64(3)),
        rota.select(rota.PythonSource(range(9)), np.arange(3)),
        rota.take(rota.PythonSource(range(9)), np.int64(3)),
    ):
        text = pickle.dumps(made)
        assert b"numpy" not in text and type(pickle.loads(text)) is type(made)


def test_small_numbers_of_numpy_count_rows_and_seconds(tmp_path):
    ragged = rota.Ragged.from_list([[i] * (i % 5) for i in range(300)])
    for number in (np.uint8(255), np.int8(127), np.int8(-1), np.int16(299), np.uint64(7)):
        assert ragged[number].tolist() == ragged[int(number)].tolist()
    for deadline in (np.int16(600), np.uint8(200), np.int8(100), np.float32(0.5)):
        rota.CheckpointDirectory(None, tmp_path, deadline=deadline).close()


@pytest.mark.parametrize("value, dtype", [([300], np.uint8), ([0.5], "int64"), (np.array([1.5]), "int32"), ([-1], np.dtype("uint16"))])
def test_ragged_rows_lose_no_value(value, dtype):
    refused(lambda: rota.Ragged.from_list([[1, 2], value], dtype), TypeError, "without loss")
    assert rota.Ragged.from_list([[1, 2], [], (3,)], dtype).to_list() == [[1, 2], [], [3]]
