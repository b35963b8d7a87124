"""rota.Run: the order and the place in it, as a value."""

import copy
import json
import pickle
import random

import pytest
import rota
from runs import in_threads, loader, refused, settings, source


def told(batch):
    return [batch.ids.tolist(), batch.kinds.tolist(), batch.epochs.tolist(), batch.slots.tolist(), batch.start, batch.end, batch.global_size]


@pytest.mark.parametrize("seed", range(3))
def test_it_tells_what_a_loader_and_a_sampler_of_any_world_hand_out(seed):
    draw = random.Random(seed)
    for samples, options in settings(400 + seed, 10):
        size = draw.randint(1, 4)
        world = draw.randrange(size), size
        run = rota.Run(samples, **{name: value for name, value in options.items() if name != "rank_split"})
        sampler = rota.ElasticBatchSampler(samples, world=world, **options)
        assert sampler.run == run == rota.Run.from_state(sampler.state_dict())
        split = options.get("rank_split", "by_sample")
        for step, batch in enumerate(loader(samples, world=world, **options)):
            assert told(run.slice(world, split)) == told(batch) == told(run.copy().at(step).slice(world, split)), options
            assert run.advance(run.slice(world, split)) and run.position == batch.end
        assert run.slice(world, split) is None and not run.advance() and run.is_over


def test_it_is_a_value():
    run = rota.Run([70, 30], 8, weights=[3, 1], end="steps", steps=40, seed=2)
    again = [copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run)), rota.Run.from_state(run.state())]
    assert all(other == run and type(other) is rota.Run for other in again)
    assert run.advance() and all(other != run for other in again)
    assert [told(run[step]) for step in range(len(run))][1] == told(run.slice()) and len(run) == 40


def test_lengths_of_its_own_come_with_a_recipe_or_another_run():
    run = rota.Run(20, 4, shard_lengths=[5, 9, 6], interleave=1, shuffle="within")
    refused(lambda: rota.Run.from_state(run.state()), rota.UnsupportedError, "recipe")
    assert rota.Run.from_state(run.recipe()) == rota.Run.from_state(run.state(), lengths=run) == run
    refused(lambda: rota.Run.from_state(run.state(), lengths=rota.Run(20, shard_lengths=[9, 5, 6])), rota.MismatchError, "lengths")
    assert run.cursors().tolist() == [[0, 0]] * 3


def mixture():
    return rota.Mixture([source(10)], [1])


@pytest.mark.parametrize("make, error, words", [
    (lambda: rota.Run(-1), ValueError, "samples is -1"),
    (lambda: rota.Run(10, shards="files"), ValueError, "shard_lengths="),
    (lambda: rota.Run(10, shard_lengths=[3, 3]), ValueError, "all 2 shards together have 6"),
    (lambda: rota.Run(10, shard_lengths=[3.0, 7.0]), TypeError, "whole numbers"),
    (lambda: rota.Run(10, weights=[1]), TypeError, "a list of datasets"),
    (lambda: rota.Run([10, 5], weights=[1]), ValueError, "2 datasets for 1 weights"),
    (lambda: rota.Run(10).slice((2, 2)), ValueError, "rank 2 of 2"),
    (lambda: rota.Run(10)[7], IndexError, "step 7"),
    (lambda: rota.Run(10).at(-1), IndexError, "step -1"),
    (lambda: rota.Run.from_state({}), ValueError, "state_dict"),
    (lambda: rota.Run.from_state(rota.Run(10).state()[:-9]), rota.CorruptError, "no JSON"),
    (lambda: rota.Run.from_state("\ud800"), ValueError, "surrogates"),
    (lambda: rota.Run.from_state(rota.Run(10).state(), lengths=5), TypeError, "lengths is 5; it must be a Run"),
    (lambda: rota.Run(mixture(), weights=[1]), TypeError, "not of a Mixture"),
    (lambda: rota.Run(mixture(), end="steps", steps=2), ValueError, "give weights="),
    (lambda: rota.Run(10, end="all_exhausted"), ValueError, "give weights="),
    (lambda: rota.Run(10, shards=5, shard_lengths=[5, 5]), ValueError, "2 shards, and not 5"),
    (lambda: rota.Run(10, fingerprint=5), TypeError, "fingerprint is 5"),
    (lambda: rota.ElasticBatchSampler(10, 2, fingerprint=5, world=(0, 1)), TypeError, "fingerprint is 5"),
    (lambda: rota.Run([3], weights=[1], steps=5), ValueError, "steps is 5; it must be left out"),
    (lambda: rota.Run(10).advance(5), TypeError, "it is 5; it must be what slice"),
    (lambda: rota.Run(10).advance(loader(10).next()), TypeError, "rota.Batch of .*what slice"),
    (lambda: rota.Run(0).when(0), IndexError, "no samples"),
])  # fmt: skip
def test_it_refuses_what_there_is_not(make, error, words):
    refused(make, error, words)


def test_a_past_that_was_otherwise_is_refused_also_of_a_state():
    run = rota.Run(100, 8)
    run.advance()
    run.set_global_batch_size(4)
    run.advance()
    for known in run, rota.Run.from_state(run.state()):
        assert known.at(1).position == (0, 8, 1)
        assert known.at(0).global_batch_size == 8
        known.seek((0, 5, 1))  # to which no batches of its own lead
        refused(lambda: known.at(0), rota.UnsupportedError, "not known")
    run = rota.Run(100, 8)
    run.advance()
    run.set_global_batch_size(4)
    assert json.loads(run.state())["run"]["since"] == {"epoch": 0, "consumed": 8, "step": 1}


def test_threads_ask_it_at_once():
    run, wrong = rota.Run(1000, 8), []

    def ask():
        for step in range(100):
            if run.at(step).slice((1, 2)).ids.tolist() != run[step].ids[4:].tolist():
                wrong.append(step)

    in_threads(*[ask] * 4)
    assert not wrong
