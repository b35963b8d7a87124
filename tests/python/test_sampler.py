"""rota.ElasticBatchSampler: every sample once, in the same batches, whatever the run goes through."""

import json
import pickle
import random

import pytest
import rota
from runs import batches_of, count, rows, samples_of, settings


def maker(samples, options):
    return lambda rank, size: rota.ElasticBatchSampler(samples, world=(rank, size), **options)


@pytest.mark.parametrize("seed", range(4))
def test_any_chain_of_worlds_gives_the_same_global_batches(seed):
    draw = random.Random(seed)
    for samples, options in settings(seed, 8):
        whole, end = batches_of(maker(samples, options), [1], [1000])
        worlds = [draw.randint(1, 5) for _ in range(1000)]
        stops = [draw.randint(1, 4) for _ in worlds]
        moved, moved_end = batches_of(maker(samples, options), worlds, stops)
        assert moved == whole, options
        assert json.loads(moved_end["rota"])["position"] == json.loads(end["rota"])["position"]


@pytest.mark.parametrize("seed", range(4))
def test_every_sample_comes_once_an_epoch(seed):
    for samples, options in settings(100 + seed, 20):
        seen = count(batches_of(maker(samples, options), [1], [1000])[0])
        size, epochs = options["global_batch_size"], options["epochs"]
        per_epoch = samples // size * size if options["tail"] == "drop" else samples
        assert len(seen) == per_epoch * epochs, options
        assert set(seen.values()) <= {1}


def test_ranks_have_equal_states_after_each_step():
    samplers = [rota.ElasticBatchSampler(50, 8, seed=3, epochs=2, world=(rank, 3)) for rank in range(3)]
    while samplers[0].advance() is not None:
        for sampler in samplers[1:]:
            sampler.advance()
        assert len({sampler.state_dict()["rota"] for sampler in samplers}) == 1


@pytest.mark.parametrize("seed", range(4))
def test_what_is_drawn_is_what_is_delivered(seed):
    for samples, options in settings(200 + seed, 10):
        sampler = rota.ElasticBatchSampler(samples, world=(1, 3), **options)
        for drawn in sampler:
            info = sampler.advance()
            assert drawn == info.ids.tolist()
            assert [index.epoch for index in drawn] == info.epochs.tolist()
        assert sampler.advance() is None


def test_drawing_ahead_changes_nothing():
    sampler = rota.ElasticBatchSampler(100, 8, world=(0, 2), epochs=2)
    before = sampler.state_dict()
    first = list(sampler)
    assert sampler.state_dict() == before
    assert list(sampler) == first


def test_one_for_is_one_epoch_unless_their_number_is_given():
    each = rota.ElasticBatchSampler(10, 4, world=(0, 1))
    assert len(list(each)) == len(each) == 3
    while each.position.epoch == 0:
        each.advance()
    assert [index.epoch for index in next(iter(each))] == [1] * 4
    whole = rota.ElasticBatchSampler(10, 4, world=(0, 1), epochs=3)
    assert len(list(whole)) == len(whole) == 9


@pytest.mark.parametrize("seed", range(3))
def test_len_is_the_number_of_batches_of_a_run(seed):
    for samples, options in settings(300 + seed, 30):
        sampler = rota.ElasticBatchSampler(samples, world=(0, 1), **options)
        assert len(sampler) == len(list(sampler)), options


@pytest.mark.parametrize("seed", range(3))
def test_the_batch_of_any_step_is_computed(seed):
    draw = random.Random(seed)
    for samples, options in settings(400 + seed, 10):
        if options["tail"] == "drop" and samples < options["global_batch_size"]:
            continue
        sampler = rota.ElasticBatchSampler(samples, world=(1, 2), **options)
        passed = rota.ElasticBatchSampler(samples, world=(1, 2), **options)
        infos = iter(passed.advance, None)
        expected = [(info.ids.tolist(), info.start, info.end) for info in infos]
        for _ in range(draw.randint(0, len(expected))):
            sampler.advance()
        for step, (ids, start, end) in enumerate(expected):
            info = sampler.batch(step)
            assert (info.ids.tolist(), info.start, info.end) == (ids, start, end), options
        assert sampler.batch(len(expected)) is None


def test_when_finds_each_sample_of_a_run():
    sampler = rota.ElasticBatchSampler(31, 8, seed=9, tail="partial", epochs=2, world=(0, 1))
    for step in range(len(sampler)):
        for slot, epoch, id in samples_of(sampler.batch(step)):
            assert sampler.when(id, epoch) == rota.BatchSlot(step, 0, slot)


def test_a_sample_has_the_same_key_in_every_world():
    def keys(world):
        sampler = rota.ElasticBatchSampler(40, 8, seed=2, tail="partial", epochs=2, world=world)
        return {(index.epoch, int(index)): index.key for batch in sampler for index in batch}

    alone = keys((0, 1))
    assert {**keys((0, 3)), **keys((1, 3)), **keys((2, 3))} == alone
    assert len(set(alone.values())) == 80


def test_an_index_is_an_int_and_keeps_its_key_in_another_process():
    index = next(iter(rota.ElasticBatchSampler(10, 2, world=(0, 1))))[0]
    again = pickle.loads(pickle.dumps(index))
    assert (again, again.key, again.epoch) == (index, index.key, index.epoch)
    assert isinstance(index, int) and index + 1 == int(index) + 1 and hash(index) == hash(int(index))
    with pytest.raises(AttributeError):
        index.epoch = 7


def test_a_state_restores_where_it_was_taken_and_twice_in_a_row():
    sampler = rota.ElasticBatchSampler(30, 4, world=(0, 1), epochs=2)
    states, rest = [], []
    while True:
        states.append(sampler.state_dict())
        info = sampler.advance()
        if info is None:
            break
        rest.append(info.ids.tolist())
    for step, state in enumerate(states):
        again = rota.ElasticBatchSampler(30, 4, world=(0, 1), epochs=2)
        again.load_state_dict(state)
        again.load_state_dict(again.state_dict())
        assert list(again) == rest[step:]


@pytest.mark.parametrize(
    "change", [dict(seed=2), dict(shards=7), dict(shuffle="none"), dict(interleave=1), dict(fingerprint="other")]
)
def test_a_state_of_another_order_is_refused_with_both_values(change):
    state = rota.ElasticBatchSampler(30, 4, world=(0, 1)).state_dict()
    other = rota.ElasticBatchSampler(30, 4, world=(0, 1), **change)
    with pytest.raises(rota.MismatchError, match="the text has .*, this loader has "):
        other.load_state_dict(state)


def test_a_pickled_sampler_stands_where_it_stood():
    sampler = rota.ElasticBatchSampler(30, 4, world=(1, 2), seed=5, fingerprint="mine")
    sampler.advance()
    again = pickle.loads(pickle.dumps(sampler))
    assert (again.position, again.world, again.state_dict()) == (sampler.position, sampler.world, sampler.state_dict())
    assert list(again) == list(sampler)


def test_set_epoch_does_nothing_inside_the_epoch():
    sampler = rota.ElasticBatchSampler(30, 4, world=(0, 1))
    sampler.advance()
    sampler.set_epoch(0)
    assert sampler.position == (0, 4, 1)
    sampler.set_epoch(5)
    assert sampler.position == (5, 0, 1)


def test_datasets_take_turns_by_weight():
    sampler = rota.ElasticBatchSampler([300, range(100)], 40, weights=[3, 1], world=(0, 1), tail="drop")
    for info in iter(sampler.advance, None):
        assert [(info.datasets == d).sum() for d in (0, 1)] == [30, 10]
    assert sampler.position.consumed >= 360


def test_it_orders_what_a_loader_of_the_same_samples_reads():
    data = rota.PythonSource(rows(60), fingerprint="mine")
    options = dict(seed=4, tail="partial", epochs=2, world=(1, 2))
    loader = rota.Loader(data, 8, **options)
    sampler = rota.ElasticBatchSampler(60, 8, fingerprint=data.fingerprint, **options)
    for _ in range(5):
        loader.next()
    sampler.load_state_dict(loader.state_dict())
    assert sampler.state_dict() == loader.state_dict()
    assert [batch.ids.tolist() for batch in loader] == list(sampler)


def test_set_epoch_does_not_go_back_where_batches_pass_epochs():
    sampler = rota.ElasticBatchSampler(3, 8, tail="carry", world=(0, 1), epochs=9)
    sampler.advance()
    for epoch in (0, 1, 2):
        sampler.set_epoch(epoch)
        assert sampler.position == (2, 2, 1)
    sampler.set_epoch(5)
    assert sampler.position == (5, 0, 1)
