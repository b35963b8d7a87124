"""Samples that are drawn anew in each epoch, and those that a plan leaves out."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
import rota
from runs import refused, source

WEIGHTS = [1, 0, 3, 2.5, 0.5, 1] * 10


class Letters:
    """Of torch's kind: tells what it was asked for."""

    def __len__(self):
        return len(WEIGHTS)

    def __getitem__(self, index):
        return int(index), index.epoch, index.key


def made(data, kind):
    return rota.repeat(data, 2.25, seed=3) if kind == "repeat" else rota.weighted(data, WEIGHTS, 77, seed=3)


@pytest.mark.parametrize("kind", ["repeat", "weighted"])
def test_a_loader_and_a_sampler_draw_the_same_samples_anew_in_each_epoch(kind):
    files, letters = made(source(len(WEIGHTS)), kind), made(Letters(), kind)
    assert len(files) == len(letters) and files.fingerprint == pickle.loads(pickle.dumps(files)).fingerprint
    loader = rota.Loader(files, 8, epochs=3, workers=2, world=(0, 1))
    sampler = rota.ElasticBatchSampler(letters, 8, epochs=3, tail="partial", world=(0, 1))
    counts = [Counter() for _ in range(3)]
    keys = set()
    for batch, indices in zip(loader, copy.copy(sampler), strict=True):
        drawn = [files.drawn(id, epoch) for id, epoch in zip(batch.ids, batch.epochs)]
        assert batch["n"].tolist() == drawn == [letters[index][0] for index in indices]
        assert drawn == [sample for sample, _, _ in pickle.loads(pickle.dumps(letters)).__getitems__(indices)]
        for index in indices:
            sample, epoch, key = letters[index]
            counts[epoch][sample] += 1
            keys.add(key)
            assert letters.drawn(index, epoch) == sample and int(index) in letters.draws_of(sample, epoch)
    assert len(keys) == 3 * len(files), "what comes twice is not augmented alike"
    share = np.array(WEIGHTS) / sum(WEIGHTS) * 77 if kind == "weighted" else np.full(len(WEIGHTS), 2.25)
    for one in counts:
        assert np.all(np.abs([one[id] - share[id] for id in range(len(WEIGHTS))]) < 1)
    assert counts[0] != counts[1]
    for draw in files.draws_of(2, 1):
        assert loader.when(draw, 1).step == sampler.when(draw, 1).step


def test_draws_of_other_data_or_other_weights_are_told_apart():
    sampler = rota.ElasticBatchSampler(rota.weighted([*range(6)], [1, 2, 3, 4, 5, 6]), 2, world=(0, 1))
    state = sampler.state_dict()
    for other in (rota.weighted([*range(6)], [1, 2, 3, 4, 5, 7]), rota.weighted([*range(1, 7)], [1, 2, 3, 4, 5, 6]), rota.repeat([*range(6)], 1)):
        refused(lambda other=other: rota.ElasticBatchSampler(other, 2, world=(0, 1)).load_state_dict(state), rota.MismatchError, "the dataset differs")


def test_a_draw_is_not_read_for_no_epoch():
    letters = rota.repeat(Letters(), 2)
    refused(lambda: letters[3], TypeError, "does not say of which epoch")
    assert letters[rota.Index.of(63, epoch=5, seed=0)][:2] == (letters.drawn(63, 5), 5)
    refused(lambda: rota.weighted(Letters(), [1, 2]), ValueError, "there are 2 weights, and 60 samples")
    refused(lambda: rota.weighted(Letters(), [[1, 2]]), TypeError, "shape")
    refused(lambda: rota.repeat(5, 0), ValueError, "5 samples 0 times")
    refused(lambda: rota.repeat([], 2), ValueError, "0 samples 2 times")
    refused(lambda: rota.repeat(5, 2, seed=-1), ValueError, "seed is -1")
    refused(lambda: rota.weighted([1, 2], [1, 1], 1 << 63), ValueError, "9223372036854775808 draws")
    refused(lambda: source(5).drawn(0, 0), ValueError, "repeat.. or weighted")
    refused(lambda: letters.drawn(120, 0), IndexError, "0 to 119")


def test_a_draw_is_settled_and_seeded_as_itself_however_its_sample_is_drawn():
    class Told(Letters):
        def __getitem__(self, index):
            return index

    letters = rota.repeat(rota.weighted(Told(), WEIGHTS, 77, seed=3), 2)
    sampler = rota.ElasticBatchSampler(letters, 8, epochs=2, tail="carry", settle="by_hand", world=(0, 1))
    keys, draws = set(), set()
    for indices in sampler:
        told = pickle.loads(pickle.dumps(letters.__getitems__(indices)))
        assert [(index.id, index.epoch, index.key) for index in told] == [(draw.id, draw.epoch, draw.key) for draw in indices]
        assert pickle.loads(pickle.dumps(type(indices)(told))) == told
        sampler.settle(told)
        keys |= {index.key for index in told}
        draws |= {(index.id, index.epoch) for index in told}
    assert len(keys) == len(draws) == 2 * 154 and sampler.open == rota.OpenSamples(0, 0, 0)


def test_a_draw_is_as_long_as_its_sample_within_what_passes_it_on():
    rows = rota.PythonSource([np.arange(n % 5) for n in range(20)], {"n": ("int64", [], True)})
    drawn = rota.repeat(rows, 1.5)
    known = rota.known_as(drawn, "1" * 32, drawn.fingerprint)
    assert known.drawn(29, 3) == drawn.drawn(29, 3) and known.draws_of(7, 1) == drawn.draws_of(7, 1)
    for these in known, rota.cast(drawn, {"n": "int64"}), rota.repeat(rota.cast(rows, {"n": "int64"}), 1.5):
        for batch in rota.Loader(these, 4, epochs=3, world=(0, 1)):
            lengths = [drawn.drawn(id, epoch) % 5 for id, epoch in zip(batch.ids, batch.epochs)]
            assert [one.tolist() for one in batch["n"]] == [[*range(length)] for length in lengths]


# ---- what a plan leaves out ----


def test_what_is_left_out_is_not_read_and_its_slot_stays():
    plan = {"stages": [{"samples": 0, "leave_out": np.array([3, 17, 18])}, {"samples": 60, "leave_out": [5, [40, 43]]}]}
    asked = []

    class Asked:
        def __len__(self):
            return 60

        def __getitem__(self, index):
            asked.append(int(index))
            return int(index)

    options = {"plan": plan, "epochs": 2, "tail": "pad", "world": (0, 1)}
    loader = rota.Loader(rota.PythonSource(Asked()), 7, **options)
    sampler = rota.ElasticBatchSampler(60, 7, **options)
    run = rota.Run(60, 7, plan=plan, epochs=2, tail="pad")
    asked.clear()
    for batch, indices in zip(loader, copy.copy(sampler), strict=True):
        info, there = sampler.advance(), run.at(batch.start.step).slice()
        gone = {3, 17, 18} if batch.start.epoch == 0 else {3, 5, 17, 18, 40, 41, 42}
        assert batch.ids.tolist() == info.ids.tolist() == there.ids.tolist()
        assert batch.mask.tolist() == info.mask.tolist() == [id not in gone and kind == 0 for id, kind in zip(batch.ids, batch.kinds)]
        assert batch.global_real == info.global_real == sum(batch.mask)
        assert not gone & {*map(int, indices)}, "another is read there"
        for id, index, kind in zip(batch.ids, indices, batch.kinds):
            assert index.is_pad == (kind != 0) and (kind == 2 or id == int(index))
            assert run.when(id, batch.start.epoch).is_skipped == (id in gone) or kind == 1
        assert all(value == (0 if kind == 2 else id) for value, id, kind in zip(batch["data"], batch.ids, batch.kinds))
    assert not {3, 17, 18} & {*asked}


def test_what_is_left_out_is_named_in_a_file(tmp_path):
    (tmp_path / "bad.txt").write_text("7\n3\n")
    (tmp_path / "plan.json").write_text('{"stages": [{"steps": 1, "leave_out": "bad.txt"}]}')
    loader = rota.Loader(source(20), 5, shuffle="none", world=(0, 1), plan=tmp_path / "plan.json")
    assert [batch.real for batch in loader] == [5, 4, 5, 5]
    assert rota.Run.from_state(loader.state_dict()["rota"]).when(7).is_skipped
    refused(lambda: rota.Run(20, 5, plan={"stages": [{"steps": 1, "leave_out": "bad.txt"}]}), ValueError, "is a path: give the plan as a file")
    refused(lambda: rota.Run(20, 5, plan={"stages": [{"steps": 1, "leave_out": [20]}]}), ValueError, "has sample 20; there are 20")
