"""Plans: stages, skipped steps, and what is changed by hand, of loaders, samplers and runs."""

import copy
import json
import pickle
import random

import numpy as np
import pytest
import rota
from runs import refused, source

SIZES = {"web": 300, "code": 120, "books": 60}


def random_plan(draw, names=()):
    begin, plan = 0, {"stages": [], "skip": [], "tokens_per_sample": [draw.randint(1, 9) for _ in names or (1,)]}
    for _ in range(draw.randint(0, 4)):
        stage = {draw.choice(["steps"]): begin}
        if draw.random() < 0.7:
            stage["global_batch_size"] = draw.randint(1, 30)
        if names and draw.random() < 0.5:
            stage["weights"] = {name: draw.randint(0, 4) for name in names} | {names[0]: 1}
        plan["stages"].append(stage)
        begin += draw.randint(1, 6)
    at = draw.randint(0, 9)
    if draw.random() < 0.5:
        plan["skip"] = [[at, at + 2], [at + 5, at + 6]]
    return plan


def told(batches):
    return [(batch.start.step, batch.ids.tolist(), batch.epochs.tolist()) for batch in batches]


def walked(run):
    while (batch := run.slice()) is not None:
        yield batch
        run.advance(batch)


@pytest.mark.parametrize("seed", range(12))
def test_loaders_samplers_and_runs_go_by_the_same_plan_through_any_stop(seed):
    draw = random.Random(seed)
    names = [*SIZES] if seed % 2 else []
    plan = random_plan(draw, names)
    options = {"seed": seed, "tail": draw.choice(["partial", "drop", "pad", "carry"]), "epochs": 2, "plan": plan}
    if names:
        weights = {"books": 1, "web": 3, "code": 2}
        data, mixed = {name: source(size) for name, size in SIZES.items()}, {"weights": weights, "end": "all_exhausted"}
        loader = lambda: rota.Loader(rota.Mixture(data, weights, "all_exhausted"), 16, world=(0, 1), **options)  # noqa: E731
        sampler = rota.ElasticBatchSampler({name: size for name, size in SIZES.items()}, 16, world=(0, 1), **options, **mixed)
        run = rota.Run(SIZES, 16, **options, **mixed)
    else:
        loader = lambda: rota.Loader(source(250), 16, world=(0, 1), **options)  # noqa: E731
        sampler, run = rota.ElasticBatchSampler(250, 16, world=(0, 1), **options), rota.Run(250, 16, **options)
    expected = told(walked(run.copy()))
    assert [step for step, _, _ in expected] == [step for step in range(expected[-1][0] + 1) if not any(a <= step < b for a, b in plan["skip"])]
    assert told(loader()) == told(iter(sampler.advance, None)) == expected
    assert told(walked(pickle.loads(pickle.dumps(run)))) == expected
    state, seen = None, []
    while True:
        part = loader()
        if state is not None:
            part.load_state_dict(state)
        for _ in range(draw.randint(1, 7)):
            batch = part.next()
            if batch is None:
                break
            seen += told([batch])
        state = part.state_dict()
        if batch is None:
            break
    assert seen == expected
    for step, ids, epochs in expected[:: len(expected) // 5 + 1]:
        assert told([run.at(step).slice()]) == [(step, ids, epochs)] and run.when(ids[0], epochs[0]).step <= step


def test_a_plan_in_a_file_may_be_changed_while_the_run_goes_on(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"stages": [{"steps": 3, "global_batch_size": 8}]}))
    loader = rota.Loader(source(200), 4, plan=path, world=(0, 1))
    sampler = rota.ElasticBatchSampler(200, 4, plan=str(path), world=(0, 1), epochs=1, tail="partial")
    for _ in range(5):
        assert len(loader.next().ids) == len(sampler.advance().ids)
    path.write_text(json.dumps({"stages": [{"steps": 3, "global_batch_size": 8}, {"steps": 7, "global_batch_size": 50}]}))
    for one in (loader, sampler):
        one.replan(path)
        assert [one.run.at(step).global_batch_size for step in (0, 4, 7)] == [4, 8, 50]
    path.write_text('{"stages": [{"steps": 2, "global')
    for one in (loader, sampler):
        refused(lambda one=one: one.replan(path), ValueError, "plan.json: .*no JSON")
        refused(lambda one=one: one.replan({"stages": [{"steps": 2, "global_batch_size": 8}]}), rota.MismatchError, "step 2 is past, and was of 4 samples; by this plan it is of 8 samples; leave stages")
        assert one.run.at(7).global_batch_size == 50
    restored = rota.Loader(source(200), 4, world=(0, 1))
    restored.load_state_dict(loader.state_dict())
    assert told(restored) == told(loader) == told(iter(sampler.advance, None))


def test_skipped_samples_are_told_as_such():
    run = rota.Run(100, 10, shuffle="none", plan={"skip": [[3, 5]]})
    assert [step for step in range(10) if run.is_skipped(step)] == [3, 4]
    assert run.when(35) == (3, 0, 5, True) and run.when(29) == (2, 0, 9, False)
    assert len(run) == 10 and run.at(3).slice().start.step == 5


def test_a_skip_over_an_epochs_end_begins_the_next_for_behind_it():
    sampler = rota.ElasticBatchSampler(100, 10, shuffle="none", world=(0, 1), plan={"skip": [[8, 12]]})

    def one_for():
        steps = []
        for indices in sampler:
            info = sampler.advance()
            assert [*map(int, indices)] == info.ids.tolist()
            steps.append(info.start.step)
        return steps

    assert [one_for(), one_for(), one_for()] == [[*range(8)], [*range(12, 20)], [*range(20, 30)]]
    ended = rota.Loader(source(100), 10, world=(0, 1), plan={"skip": [[7, 99]]})
    assert len([*ended]) == 7
    refused(lambda: iter(ended), ValueError, "the run is over")


def test_a_copy_of_a_sampler_goes_on_as_it_does_behind_what_was_set_by_hand():
    sampler = rota.ElasticBatchSampler(1000, 32, epochs=1, tail="partial", world=(0, 1), plan={"stages": [{"samples": 200, "global_batch_size": 64}]})
    sampler.set_global_batch_size(48)
    for _ in range(6):
        sampler.advance()
    expected = told(iter(copy.copy(sampler).advance, None))
    assert [len(ids) for _, ids, _ in expected][:2] == [64, 64]
    assert told(iter(pickle.loads(pickle.dumps(sampler)).advance, None)) == expected == told(iter(sampler.advance, None))


def test_a_run_is_replanned_by_its_names():
    run = rota.Run({"a": 30, "b": 30}, 4, weights=[1, 1], end="all_exhausted")
    run.replan({"stages": [{"steps": 2, "weights": {"b": 1}}]})
    assert set(run[2].datasets.tolist()) == {1} and pickle.loads(pickle.dumps(run)) == run
    again = rota.Run.from_state(run.state())
    again.replan({"stages": [{"steps": 3, "weights": {"a": 1}}]})
    assert set(again[3].datasets.tolist()) == {0}


def test_a_dataset_that_was_away_comes_back_in_the_first_order():
    sources = {name: rota.PythonSource([{"v": 1000 * k + i} for i in range(50)]) for k, name in enumerate(("web", "code"))}

    def leg(names, state):
        loader = rota.Loader(rota.Mixture({name: sources[name] for name in names}, [1] * len(names), "all_exhausted"), 4, epochs=None, world=(0, 1))
        if state:
            loader.load_state_dict(state)
        loader.next()
        return loader.state_dict()

    for names in (["web", "code"], ["code"], ["web", "code"]), (["web"], ["code"], ["web", "code"]):
        state = None
        for some in names:
            state = leg(some, state)


def test_a_step_that_is_left_out_has_its_own_batch():
    run = rota.Run(10, 2, shuffle="none", plan={"skip": [[1, 3]]})
    assert [run[step].ids.tolist() for step in range(len(run))] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    sampler = rota.ElasticBatchSampler(10, 2, shuffle="none", world=(0, 1), epochs=1, plan={"skip": [[1, 3]]})
    assert sampler.batch(2).ids.tolist() == [4, 5] and run.at(1).slice().start.step == 3


def test_numbers_of_numpy_are_taken_and_what_is_none_is_refused(tmp_path):
    plan = {"stages": [{"steps": np.int64(3), "global_batch_size": np.int32(2), "weights": np.array([1.5, 3])}]}
    run = rota.Run([10, 20], 4, weights=[1, 1], plan=plan)
    assert run.at(3).global_batch_size == 2
    refused(lambda: run.replan(None), TypeError, "it is None")
    refused(lambda: rota.Run(10, plan="a\0b"), ValueError, "NUL")
    refused(lambda: rota.ElasticBatchSampler(10, 2, evaluation=True, plan={"skip": [[0, 1]]}), ValueError, "plan=")
    refused(lambda: rota.Run({"\ud800": 3}, weights={"\ud800": 1}), TypeError, "printed")
    one = rota.Run({"a": 14}, 5, weights={"a": 1})
    rota.ElasticBatchSampler({"a": 14}, 5, weights={"a": 1}, world=(0, 1), epochs=1, tail="partial").load_state_dict({"rota": one.state()})


def test_weights_are_set_by_name():
    loader = rota.Loader(rota.Mixture({"a": source(30), "b": source(30)}, {"b": 1, "a": 2}), 3, world=(0, 1))
    loader.set_weights({"a": 0, "b": 1})
    assert loader.next().datasets.tolist() == [1, 1, 1]
    refused(lambda: loader.set_weights({"c": 1}), ValueError, "'a', 'b'")
    refused(lambda: rota.Mixture({"a": source(3)}, {"b": 1}) and rota.Loader(rota.Mixture({"a": source(3)}, {"b": 1})), ValueError, "weights of")
    sampler = rota.ElasticBatchSampler({"a": 30, "b": 30}, 3, weights=[1, 1], world=(0, 1))
    sampler.set_weights({"b": 1, "a": 0})
    assert min(sampler.advance().ids) >= 30


def test_datasets_come_and_go_by_name(tmp_path):
    def make(names, **options):
        return rota.Loader(rota.Mixture({name: source(SIZES[name]) for name in names}, [1] * len(names), "all_exhausted"), 6, world=(0, 1), **options)

    first = make(["web", "code"], plan={"stages": [{"steps": 0, "weights": {"web": 2, "code": 1}}]})
    for _ in range(4):
        first.next()
    second = make(["books", "code"])
    second.load_state_dict(first.state_dict())
    assert second.names == ["web", "code", "books"] and second.first_id(2) == SIZES["web"] + SIZES["code"]
    second.replan({"stages": [{"steps": 0, "weights": {"web": 2, "code": 1}}, {"steps": 6, "weights": {"books": 1}}]})
    second.set_weights({"web": 0, "code": 1, "books": 0})
    assert [second.next().datasets.tolist() for _ in range(3)] == [[1] * 6, [1] * 6, [2] * 6]
    directory = rota.CheckpointDirectory(tmp_path)
    directory.save(7, second)
    third = make(["code", "books", "web"])
    directory.restore(third)
    assert third.names == second.names and third.position == second.position
    refused(lambda: rota.Loader(source(100)).load_state_dict(third.state_dict()), rota.MismatchError)


@pytest.mark.parametrize("plan, error, words", [
    ({"stages": [{"step": 3}]}, ValueError, "\"step\" is not known"),
    ({"stages": [{"steps": 3, "weights": [1]}]}, ValueError, "mixes no datasets"),
    ([1], TypeError, "give a dict"),
    ({"skip": object()}, TypeError, "JSON has not"),
    ("/nowhere/plan.json", FileNotFoundError, "no such file"),
    ("/", ValueError, "regular file"),
])  # fmt: skip
def test_bad_plans_are_refused(plan, error, words):
    refused(lambda: rota.Run(10, plan=plan), error, words)
    refused(lambda: rota.Loader(source(10), plan=plan), error, words)
    refused(lambda: rota.ElasticBatchSampler(10, 4, plan=plan), error, words)
