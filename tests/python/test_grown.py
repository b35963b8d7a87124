"""Datasets that have more samples at a resume than when the run began."""

import json
import random
from collections import Counter

import numpy as np
import pytest
import rota
from runs import refused


@pytest.fixture
def files(tmp_path):
    def write(name, count, first=0):
        np.save(tmp_path / f"{name}.npy", np.arange(first, first + count, dtype=np.int64) + 1000 * (name == "code"))

    def made(weights=(3, 1), *, grown=True, **options):
        names = [name for name in ("web", "code") if (tmp_path / f"{name}.npy").exists()]
        sources = {name: rota.open(str(tmp_path / f"{name}.npy")) for name in names}
        mixture = rota.Mixture(sources, dict(zip(names, weights)), "all_exhausted", grown=grown)
        return rota.Loader(mixture, 12, **{"world": (0, 1), "epochs": 10**6, "seed": 3, "shards": 4, **options})

    write("code", 40)
    return write, made


@pytest.mark.parametrize("seed", range(8))
def test_what_was_seen_stays_seen_and_what_is_new_has_epochs_of_its_own(files, seed):
    write, made = files
    draw = random.Random(seed)
    size, seen, state, parts = draw.randint(5, 90), Counter(), None, []
    for _ in range(5):
        write("web", size)
        parts = parts if parts and size == sum(parts) else [*parts, size - sum(parts)]
        loader = made()
        if state is not None:
            loader.load_state_dict(state)
        firsts = [0, *np.cumsum(parts).tolist()[:-1]]
        called = [f"web@{first}" if first else "web" for first in firsts]
        assert loader.names == ["web", "code", *called[1:]]
        shares = Counter()
        for _ in range(draw.randint(1, 30)):
            batch = loader.next()
            for value, number, epoch in zip(batch["data"].tolist(), batch.datasets.tolist(), batch.epochs.tolist()):
                name = loader.names[number]
                at = called.index(name) if name in called else None
                assert value >= 1000 if at is None else firsts[at] <= value < firsts[at] + parts[at]
                seen[name, epoch, value] += 1
                shares["code" if at is None else "web"] += 1
        assert abs(shares["web"] - 3 * shares["code"]) <= 2 * 4 * len(loader.names)
        state = loader.state_dict()
        size += draw.choice([0, draw.randint(1, 60)])
    assert set(seen.values()) == {1}
    for name, part in zip(called, parts):
        epochs = [epoch for of, epoch, _ in seen if of == name]
        assert all(epochs.count(epoch) == part for epoch in range(max(epochs, default=0))), "each whole before the next"


def test_a_plan_goes_on_behind_growth_once_it_names_what_is_new(files, tmp_path):
    write, made = files
    write("web", 60)
    stages = [{"samples": 0, "weights": {"web": 1, "code": 1}}, {"steps": 20, "weights": {"web": 3, "code": 1}}]
    loader = made(plan={"stages": stages, "tokens_per_sample": {"web": 2, "code": 3}})
    for _ in range(5):
        loader.next()
    state = loader.state_dict()
    write("web", 120)
    refused(lambda: made(grown=False).load_state_dict(state), rota.MismatchError, "the dataset web differs: .*let its mixture be grown")
    refused(lambda: made(plan={"stages": stages}).load_state_dict(state), rota.MismatchError, "datasets have grown, and there is a plan with weights: .*weights of web, web@60, code")
    grown = made(replan="at_save")
    grown.load_state_dict(state)
    assert [grown.run.at(step).slice().datasets.tolist() for step in range(5)] == [loader.run.at(step).slice().datasets.tolist() for step in range(5)]
    now = Counter(number for _ in range(8) for number in grown.next().datasets.tolist())
    assert now[1] == 24 and now[0] == now[2] == 36, "by size, of what the program gives"
    refused(lambda: grown.replan({"stages": [*stages, {"steps": 30, "weights": {"web": 1}}]}), ValueError, "is of web, and does not name web@60")
    plan = tmp_path / "plan.json"

    def write_plan(part):
        past = {"samples": 0, "weights": {"web": 1, "web@60": 0, "code": 1}}
        later = {"steps": 20, "weights": {"web": 1, "web@60": part, "code": 1}}
        plan.write_text(json.dumps({"stages": [past, later], "tokens_per_sample": {"web": 2, "code": 3, "web@60": 2}}))

    write_plan(1)
    grown.replan(plan)
    assert Counter(grown.run.at(30).slice().datasets.tolist()) == {0: 4, 1: 4, 2: 4}
    with rota.CheckpointDirectory(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(1, grown)
        write_plan(4)
        checkpoints.save(2, grown)
    assert Counter(grown.run.at(30).slice().datasets.tolist()) == {0: 2, 1: 2, 2: 8}


def test_a_stage_that_begins_where_the_run_goes_on_counts(files):
    write, made = files
    write("web", 60)
    loader = made()
    for _ in range(4):
        loader.next()
    loader.set_weights({"web": 1, "code": 0})
    loader.replan({"stages": [{"steps": 4, "weights": {"code": 1}}]})
    assert set(loader.next().datasets.tolist()) == {1}
    loader.set_weights({"web": 1, "code": 0})
    loader.replan({"stages": [{"steps": 4, "weights": {"code": 1}}, {"steps": 9, "global_batch_size": 3}]})
    assert set(loader.next().datasets.tolist()) == {0}, "what was set by hand behind it"


def test_what_has_not_only_grown_is_refused(files):
    write, made = files
    write("web", 60)
    loader = made()
    loader.next()
    state = loader.state_dict()
    write("web", 59)
    refused(lambda: made().load_state_dict(state), rota.MismatchError, "web has 59 samples, and had 60 or more")
    write("web", 90, first=1)
    refused(lambda: made().load_state_dict(state), rota.MismatchError, "content of the dataset differs: .*web.npy")
    write("web", 90)
    grown = made()
    grown.load_state_dict(state)
    grown.next()
    state = grown.state_dict()
    made().load_state_dict(state)
    write("web", 89)
    refused(lambda: made().load_state_dict(state), rota.MismatchError, "web has 89 samples, and had 90 or more")
    write("web", 90, first=1)
    refused(lambda: made().load_state_dict(state), rota.MismatchError, "content of the dataset differs")
    refused(lambda: rota.Loader(rota.Mixture([rota.PythonSource([1])], [1], grown=True), 1, world=(0, 1)), ValueError, "have no names")
    refused(lambda: rota.Loader(rota.Mixture({"a@1": rota.PythonSource([1])}, {"a@1": 1}, grown=True), 1, world=(0, 1)), ValueError, "without .@.")


@pytest.mark.parametrize("made_of", [lambda rows: rota.windows(rows, 3), lambda rows: rota.take(rota.zip(rows), len(rows))])
def test_what_is_made_of_rows_that_have_grown_has_grown(made_of):
    def made(rows):
        sources = {"a": made_of(rota.PythonSource([*range(rows)])), "b": made_of(rota.PythonSource([*range(100, 112)]))}
        return rota.Loader(rota.Mixture(sources, [1, 1], "steps", steps=40, grown=True), 4, world=(0, 1))

    loader = made(20)
    loader.next()
    grown = made(31)
    grown.load_state_dict(loader.state_dict())
    assert len(grown.run._names) == 3


DRAWS = {
    "repeat": lambda rows: rota.known_as(twice := rota.repeat(rows, 2), "1" * 32, twice.fingerprint),
    "weighted": lambda rows: rota.take(rota.weighted(rows, [1] * len(rows)), len(rows)),
    "split": lambda rows: rota.windows(rota.split(rows, [0.5, 0.5])[0], 2),
    "pack": lambda rows: rota.pack(rows, 4),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_what_makes_other_samples_of_more_rows_has_not_grown(kind):
    def made(rows):
        rows = rota.PythonSource([np.arange(i % 4 + 1) for i in range(rows)], {"tokens": ("int64", [], True)}) if kind == "pack" else rota.PythonSource([*range(rows)])
        return rota.Loader(rota.Mixture({"a": DRAWS[kind](rows)}, [1], "steps", steps=40, grown=True), 4, world=(0, 1))

    state = made(20).state_dict()
    made(20).load_state_dict(state)
    refused(lambda: made(32).load_state_dict(state), rota.MismatchError, "the dataset a has grown, and .*of another name")


def test_other_fingerprints_are_taken_for_each_other_by_a_word_that_names_both(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(50))
    loader = rota.Loader(rota.open(str(tmp_path / "a.npy")), 5, world=(0, 1))
    expected = [loader.next()["data"].tolist() for _ in range(3)]
    state, was = loader.state_dict(), loader.fingerprint
    expected = [batch["data"].tolist() for batch in loader]
    np.save(tmp_path / "b.npy", np.arange(50) + 7)
    source = rota.open(str(tmp_path / "b.npy"))
    refused(lambda: rota.Loader(source, 5, world=(0, 1)).load_state_dict(state), rota.MismatchError, f"{was}.*{source.fingerprint}.*content differs: .*b.npy")
    refused(lambda: rota.known_as(source, was, was), rota.MismatchError, f"its own is {source.fingerprint}")
    refused(lambda: rota.known_as(source, "x", source.fingerprint), ValueError, "32 digits")
    same = rota.Loader(rota.known_as(source, was, source.fingerprint), 5, world=(0, 1))
    same.load_state_dict(state)
    again = same.state_dict()
    assert [(batch["data"] - 7).tolist() for batch in same] == expected
    assert f'"taken_for":[["{was}","{source.fingerprint}"]]' in again["rota"]
    rota.Loader(rota.known_as(source, was, source.fingerprint), 5, world=(0, 1)).load_state_dict(again)
    refused(lambda: rota.Loader(source, 5, world=(0, 1)).load_state_dict(again), rota.MismatchError, "known_as")
    trace = rota.TraceWriter(tmp_path / "trace", same)
    trace.end()
    assert "taken_for" in next((tmp_path / "trace").iterdir()).read_text()
