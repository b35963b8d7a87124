"""rota.ElasticBatchSampler: every sample once, in the same batches, whatever the run goes through."""

import gc
import itertools
import json
import pickle
import random
import sys

import pytest
import rota
from runs import batches_of, count, loader, refused, samples_of, settings


def maker(samples, options):
    return lambda rank, size: rota.ElasticBatchSampler(samples, world=(rank, size), **options)


def loader_maker(samples, options):
    draw = random.Random(samples)
    return lambda rank, size: loader(samples, world=(rank, size), workers=draw.randint(0, 3), **options)


@pytest.mark.parametrize("kind", [maker, loader_maker])
@pytest.mark.parametrize("seed", range(4))
def test_any_chain_of_worlds_gives_the_same_global_batches_and_every_sample_once_an_epoch(seed, kind):
    draw = random.Random(seed)
    for samples, options in settings(seed, 15):
        make = kind(samples, options)
        whole, end = batches_of(make, [1], [1000])
        worlds = [draw.randint(1, 5) for _ in range(1000)]
        stops = [draw.randint(1, 4) for _ in worlds]
        moved, moved_end = batches_of(make, worlds, stops)
        assert moved == whole, options
        assert json.loads(moved_end["rota"])["position"] == json.loads(end["rota"])["position"]
        size, seen = options["global_batch_size"], count(whole)
        per_epoch = samples // size * size if options["tail"] == "drop" else samples
        assert len(seen) == per_epoch * options["epochs"] and set(seen.values()) <= {1}, options


@pytest.mark.parametrize("seed", range(4))
def test_what_is_drawn_ahead_is_what_is_computed_counted_and_delivered(seed):
    draw = random.Random(seed)
    for samples, options in settings(200 + seed, 20):
        sampler = maker(samples, options)(1, 3)
        before = sampler.state_dict()
        drawn = list(sampler)
        assert sampler.state_dict() == before and list(sampler) == drawn and len(sampler) == len(drawn), options
        delivered = []
        for batch in sampler:
            info = sampler.advance()
            assert (info.ids.tolist(), info.epochs.tolist()) == (batch, [index.epoch for index in batch]), options
            delivered.append((batch, info.start, info.end))
        assert sampler.advance() is None and [batch for batch, *_ in delivered] == drawn
        if options["tail"] == "drop" and not drawn:
            continue
        computer = maker(samples, options)(1, 3)
        for _ in range(draw.randint(0, len(drawn))):
            computer.advance()
        computed = [computer.batch(step) for step in range(len(drawn))]
        assert [(info.ids.tolist(), info.start, info.end) for info in computed] == delivered, options
        assert computer.batch(len(drawn)) is None


def test_one_for_is_one_epoch_unless_their_number_is_given():
    each = rota.ElasticBatchSampler(10, 4, world=(0, 1))
    assert len(list(each)) == len(each) == 3
    while each.position.epoch == 0:
        each.advance()
    assert [index.epoch for index in next(iter(each))] == [1] * 4
    whole = rota.ElasticBatchSampler(10, 4, world=(0, 1), epochs=3)
    assert len(list(whole)) == len(whole) == 9
    mixed = rota.ElasticBatchSampler([5, 9], 4, weights=[1, 2], end="steps", steps=6, world=(0, 1))
    assert len(list(mixed)) == len(mixed) == 6


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


@pytest.mark.parametrize(
    "change", [dict(seed=2), dict(shards=7), dict(shuffle="none"), dict(interleave=1), dict(fingerprint="other")]
)
def test_a_state_of_another_order_is_refused_with_both_values(change):
    state = rota.ElasticBatchSampler(30, 4, world=(0, 1)).state_dict()
    other = rota.ElasticBatchSampler(30, 4, world=(0, 1), **change)
    error = refused(lambda: other.load_state_dict(state), rota.MismatchError, "the text has .*, this loader has ")
    assert ("fingerprint= was None then, and is 'other' now" in str(error)) == ("fingerprint" in change)


def test_a_pickled_sampler_stands_where_it_stood():
    sampler = rota.ElasticBatchSampler(30, 4, world=(1, 2), seed=5, fingerprint="mine")
    sampler.advance()
    again = pickle.loads(pickle.dumps(sampler))
    assert (again.position, again.world, again.state_dict()) == (sampler.position, sampler.world, sampler.state_dict())
    assert list(again) == list(sampler)


def what_is_known_of(batch):
    return [(type(index.key), index, index.epoch, index.seed, index.key) for index in batch]


def test_indices_travel_as_numbers_whatever_became_of_their_list():
    across = rota.ElasticBatchSampler(10, 4, tail="carry", epochs=9, seed=2**64 - 1, world=(0, 1))
    mixed = rota.ElasticBatchSampler([5, 99], 8, weights=[1, 1], steps=9, end="steps", world=(0, 1))
    one = rota.ElasticBatchSampler(2**62, 256, shards=1, world=(0, 1))
    batches = [list(sampler) for sampler in (across, mixed)] + [[next(iter(one))]]
    assert len(pickle.dumps(batches[2][0])) < 256 * 20
    changed = batches[0][0][1:] + batches[1][0]
    batches[0][0].reverse()
    batches[0][1] += batches[1][1]
    batches[1][0].clear()
    for batch in [*itertools.chain.from_iterable(batches), changed]:
        again = pickle.loads(pickle.dumps(batch))
        assert (what_is_known_of(again), type(again)) == (what_is_known_of(batch), type(batch))
    batches[2][0][0] = 7
    assert pickle.loads(pickle.dumps(batches[2][0])) == batches[2][0]


def test_set_epoch_goes_to_the_start_of_an_epoch():
    sampler = rota.ElasticBatchSampler(30, 4, world=(0, 1))
    sampler.advance()
    for epoch, position in (0, (0, 0, 1)), (5, (5, 0, 1)), (2, (2, 0, 1)):
        sampler.set_epoch(epoch)
        assert sampler.position == position
    passes_epochs = rota.ElasticBatchSampler(3, 8, tail="carry", world=(0, 1), epochs=9)
    passes_epochs.advance()
    for epoch, position in (0, (2, 2, 1)), (1, (2, 2, 1)), (2, (2, 2, 1)), (5, (5, 0, 1)):
        passes_epochs.set_epoch(epoch)
        assert passes_epochs.position == position


def test_no_epoch_is_below_0():
    for sampler in loaded(0), loaded(0, evaluation=True):
        refused(lambda: sampler.set_epoch(-1), rota.OutOfRangeError, "go to epoch -1: epochs begin with 0")


def test_a_for_gives_nothing_of_an_epoch_whose_rest_is_no_batch():
    sampler = loaded(4, tail="drop")
    sampler.set_global_batch_size(8)
    again = iter(rota.ElasticBatchSampler(20, 8, tail="drop", shuffle="none", world=(0, 1)))
    again.load_state_dict(sampler.state_dict())
    assert list(again) == list(sampler) == [] and [batch[0].epoch for batch in sampler] == [1, 1]
    assert sampler.position == (1, 0, 4)


def test_set_epoch_behind_a_for_of_all_epochs_is_refused():
    sampler = rota.ElasticBatchSampler(30, 4, world=(0, 1), epochs=3)
    while sampler.advance():
        pass
    refused(lambda: sampler.set_epoch(1), ValueError, "go to epoch 1: epochs=3, .* leave epochs out")


def test_a_state_that_counts_nothing_of_what_was_drawn_says_so():
    sampler = rota.ElasticBatchSampler(30, 4, world=(0, 1))
    batches = iter(sampler)
    next(batches)
    sampler.state_dict()
    with pytest.warns(UserWarning, match="none of the batches that were drawn"):
        next(batches)


def loaded(steps, **options):
    """A sampler of five steps an epoch, with the state behind so many."""
    options = {"shuffle": "none", "world": (0, 1), **options}
    before, behind = (rota.ElasticBatchSampler(20, 4, **options) for _ in range(2))
    for _ in range(steps):
        before.advance()
    behind.load_state_dict(before.state_dict())
    return behind


def test_set_epoch_behind_a_load_keeps_the_place_until_the_epoch_is_over():
    sampler = loaded(7)
    sampler.set_epoch(1)
    assert sampler.position == (1, 8, 7)
    for _ in range(3):
        sampler.advance()
    assert sampler.position == (2, 0, 10)
    sampler.advance()
    sampler.set_epoch(2)  # the first `for` is over
    assert sampler.position == (2, 0, 11)


def test_set_epoch_of_what_a_load_has_behind_it_gives_nothing_or_is_refused():
    sampler = loaded(10)
    sampler.set_epoch(1)
    assert list(sampler) == [] and sampler.position == (2, 0, 10)
    sampler.set_epoch(2)
    assert len(list(sampler)) == 5
    refused(lambda: sampler.set_epoch(0), ValueError, "go to epoch 0: the state that was loaded is in epoch 2")
    sampler.restart()
    sampler.set_epoch(0)
    assert sampler.position == (0, 0, 0)


def test_an_evaluation_begins_anew_and_has_no_state(tmp_path):
    sampler = rota.ElasticBatchSampler(10, 4, shuffle="none", world=(0, 1), evaluation=True)
    whole = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    next(iter(sampler))
    assert [list(sampler), list(sampler)] == [whole, whole] and sampler.state_dict() == {}
    sampler.load_state_dict({})
    refused(lambda: rota.CheckpointDirectory(None, tmp_path).save(1, sampler), ValueError, "one for evaluation has no state")
    for options in {"tail": "drop"}, {"tail": "carry"}, {"epochs": 2}, {"weights": [1]}:
        with pytest.raises(ValueError, match="evaluation=True gives each sample once"):
            rota.ElasticBatchSampler([10] if "weights" in options else 10, 4, world=(0, 1), evaluation=True, **options)


def test_batches_that_are_drawn_twice_because_nothing_counts_them_are_told_once():
    sampler = rota.ElasticBatchSampler(20, 4, world=(0, 1))
    iter(sampler)
    next(iter(sampler))
    with pytest.warns(UserWarning, match="count by advance"):
        iter(sampler)
    iter(sampler)
    kept = rota.ElasticBatchSampler(20, 4, world=(0, 1))
    batches = iter(kept)
    next(batches)
    batches.state_dict()
    iter(kept)


def test_carried_samples_that_come_again_because_nothing_counts_are_told():
    sampler = rota.ElasticBatchSampler(10, 4, tail="carry", world=(0, 1))
    batches = iter(sampler)
    for _ in batches:
        batches.state_dict()
    with pytest.warns(UserWarning, match="samples of epoch 1, which come again.*advance.*epochs="):
        sampler.set_epoch(1)


def test_an_iterator_that_is_loaded_at_its_end_gives_nothing_and_moves_its_sampler():
    sampler = loaded(0)
    batches = iter(sampler)
    assert len(list(batches)) == 5
    other = loaded(0)
    again = iter(other)
    again.load_state_dict(batches.state_dict())
    assert list(again) == [] and other.position == (1, 0, 5)


def test_datasets_take_turns_by_weight():
    sampler = rota.ElasticBatchSampler([300, range(100)], 40, weights=[3, 1], world=(0, 1), tail="drop")
    for info in iter(sampler.advance, None):
        assert [(info.datasets == d).sum() for d in (0, 1)] == [30, 10]
    assert sampler.position.consumed >= 360


def test_who_would_share_samples_again_is_refused():
    assert not hasattr(rota.ElasticBatchSampler(10, 4, world=(0, 1)), "batch_size")
    refused(lambda: rota.ElasticBatchSampler(10, 4, world=(0, 2)).batch_size, rota.UnsupportedError, "rota.accelerate.DataLoader")


def test_an_evaluation_takes_no_state_of_a_training():
    with pytest.raises(rota.MismatchError, match="evaluation"):
        rota.ElasticBatchSampler(10, 4, evaluation=True, world=(0, 1)).load_state_dict(loaded(2).state_dict())


def test_an_evaluation_that_is_advanced_by_hand_ends():
    sampler = rota.ElasticBatchSampler(10, 4, evaluation=True, world=(0, 1))
    assert [info and info.step for info in (sampler.advance() for _ in range(5))] == [0, 1, 2, None, None]
    assert len(sampler) == 3 and [len(batch) for batch in sampler] == [4, 4, 4]


def test_nobody_sees_indices_that_are_half_made():
    def look(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "index_type":
            for one in gc.get_objects():
                if type(one) in (list, tuple) and len(one) in (1, 777):
                    one[0]

    batches = iter(rota.ElasticBatchSampler(1000, 777, tail="carry", seed=77, world=(0, 1), epochs=None))
    sys.setprofile(look)
    try:
        assert len(next(batches)) == 777 and len({index.epoch for index in next(batches)}) == 2
    finally:
        sys.setprofile(None)
