"""Datasets that come and go in an ElasticBatchSampler: as in a Loader, and what is read by its indices."""

import collections
import copy
import pickle
import random

import pytest
import rota
from runs import refused
from torch_jobs import Job

SIZES = {"web": 61, "code": 40, "books": 23, "news": 35, "maths": 12}
OPTIONS = {"shards": 4, "epochs": 1000, "world": (0, 1)}


def rows(names):
    """What a program has, one behind the other."""
    return [(name, i) for name in names for i in range(SIZES[name])]


def make(names, batch=6, weights=None, **options):
    data, how = {name: range(SIZES[name]) for name in names}, {**OPTIONS, "tail": "partial", "end": "all_exhausted", **options}
    return rota.ElasticBatchSampler(data, batch, weights=weights or [1] * len(names), **how)


def loader_of(names, batch, weights, world):
    data = {name: rota.PythonSource([{"v": i} for i in range(SIZES[name])]) for name in names}
    return rota.Loader(rota.Mixture(data, weights, "all_exhausted"), batch, **{**OPTIONS, "world": world})


class Auditor:
    """Counts what is read, by names alone."""

    def __init__(self):
        self.times = collections.defaultdict(collections.Counter)

    def hear(self, items, epochs):
        for (name, i), epoch in zip(items, epochs):
            self.times[name, int(epoch)][i] += 1

    def expect_each_once(self, least):
        for (name, epoch), times in self.times.items():
            assert set(times.values()) == {1}
            assert (name, epoch + 1) not in self.times or len(times) == SIZES[name]
        assert sum(map(len, self.times.values())) >= least


@pytest.mark.parametrize("seed", range(20))
def test_they_come_and_go_as_in_a_loader_and_each_sample_is_read_once_in_each_epoch(seed, tmp_path):
    draw, auditor, states, directory = random.Random(seed), Auditor(), None, rota.CheckpointDirectory(tmp_path)
    for leg in range(8):
        names, ranks, batch = draw.sample([*SIZES], draw.randint(1, 5)), draw.randint(1, 3), draw.randint(1, 9)
        weights, steps, same = {name: draw.randint(1, 4) for name in names}, draw.randint(0, 12), draw.random()
        for rank in range(ranks):
            sampler, loader, one = make(names, batch, weights, world=(rank, ranks)), loader_of(names, batch, weights, (rank, ranks)), random.Random(same)
            if states:
                loader.load_state_dict(states[0])
                sampler.load_state_dict(states[1]) if seed % 2 else directory.restore(sampler)
            assert sampler.names == loader.names
            for _ in range(steps):
                if one.random() < 0.2:
                    for run in sampler, loader:
                        run.set_weights({name: (loader.position.step + len(name)) % 3 + 1 if name in names else 0 for name in loader.names})
                sampler = one.choice([copy.copy, pickle.dumps, lambda same: same])(sampler)
                sampler = pickle.loads(sampler) if isinstance(sampler, bytes) else sampler
                indices, info, expected = next(iter(sampler)), sampler.advance(), loader.next()
                for what in "ids", "datasets", "epochs", "slots":
                    assert getattr(info, what).tolist() == getattr(expected, what).tolist()
                items = [rows(names)[index] for index in indices]
                assert [rows(loader.names)[id] for id in info.ids] == items and [index.id for index in indices] == info.ids.tolist()
                assert [index.key for index in indices] == [rota.Index.of(id, index.epoch, 0).key for id, index in zip(info.ids.tolist(), indices)]
                auditor.hear(items, info.epochs)
            behind = loader.state_dict(), sampler.state_dict()
        states, whole = behind, make(names, batch, weights)
        whole.load_state_dict(states[1])
        directory.save(leg, whole)
    auditor.expect_each_once(50)


def test_an_iterators_state_is_of_what_it_has_drawn():
    begun, other = iter(make(["web", "code"])), iter(make(["maths", "code", "web"], weights=[0, 1, 1]))
    next(begun), other.load_state_dict(begun.state_dict())
    for _ in range(3):
        assert [index.id for index in next(other)] == [index.id for index in next(begun)]


def test_what_is_open_comes_again_by_the_indices_of_now():
    first, second, now = make(["web", "code"], settle="by_hand"), make(["maths", "code", "web"], settle="by_hand"), rows(["maths", "code", "web"])
    indices = next(iter(first))
    first.settle(indices[:2])
    first.again()
    second.load_state_dict(first.state_dict())
    again = next(iter(second))
    assert [now[index] for index in again] == [rows(["web", "code"])[index] for index in indices[2:]]
    assert {index.shift for index in pickle.loads(pickle.dumps(again))} == {index.shift for index in again} == {-52, 49}
    second.settle(again[:1])
    second.settle(again[1].id, again[1].epoch)
    assert second.open.out == len(again) - 2
    refused(lambda: make(["web"], settle="by_hand").load_state_dict(second.state_dict()), rota.MismatchError, "of the dataset code are open")


def test_weights_and_plans_go_by_the_names_of_now():
    first, sampler = make(["web", "code"], plan={"stages": [{"steps": 0, "weights": {"web": 2, "code": 1}}]}), make(["books", "code"])
    for _ in range(4):
        first.advance()
    refused(lambda: make(["web"], plan={"skip": [[9, 10]]}).load_state_dict(first.state_dict()), rota.MismatchError, "code is not there .*replan")
    sampler.load_state_dict(first.state_dict())
    stages = [{"steps": 0, "weights": {"web": 2, "code": 1}}, {"steps": 6, "weights": {"books": 1}}]
    sampler.replan({"stages": stages})
    sampler.set_weights({"web": 0, "code": 1, "books": 0})
    told = [[one.advance().datasets.tolist() for _ in range(3)] for one in (pickle.loads(pickle.dumps(sampler)), sampler)]
    assert told == [[[1] * 6, [1] * 6, [2] * 6]] * 2
    refused(lambda: sampler.set_weights({"web": 1, "code": 0, "books": 0}), ValueError, "dataset web turns")
    refused(lambda: sampler.replan({"stages": [*stages, {"steps": 20, "weights": {"web": 1}}]}), ValueError, "dataset web turns from step 20")
    sampler.restart()
    refused(lambda: next(iter(sampler)), ValueError, "samples of the dataset web, which was left out")


def test_what_cannot_go_on_is_refused_and_nothing_moves():
    state = make(["web", "code"]).state_dict()
    for dataset, words in ({"code": 40, "web": 62}, "the dataset web differs"), ([61, 40, 3], "differs"), ([40, 61], "differs"):
        other = rota.ElasticBatchSampler(dataset, 6, weights=[1] * len(dataset), **OPTIONS)
        other.advance()
        refused(lambda one=other: one.load_state_dict(state), rota.MismatchError, words)
        assert other.position.step == 1 and next(iter(other))[0].shift == 0
    balanced = make(["web", "books"], rank_split="balanced", balance=rota.Balance([1] * 84))
    refused(lambda: balanced.load_state_dict(state), rota.UnsupportedError, "balance")


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 1, "multiprocessing_context": "spawn"}], ids=str)
def test_torchs_loader_reads_the_right_items(workers):
    pytest.importorskip("torch")
    import rota.torch

    auditor, state = Auditor(), {}
    for names in (["web", "code"], ["maths", "code"], ["code", "news", "web"], ["news", "maths", "code"]):
        sampler = make(names)
        loader = rota.torch.DataLoader(rows(names), sampler, collate_fn=list, **workers)
        if state:
            loader.load_state_dict(state)
            assert len(rota.torch.DataLoader(rows(names), sampler).dataset) < sampler.samples
        for items in loader:
            assert [rows(sampler.names)[id] for id in loader.info.ids] == items
            auditor.hear(items, loader.info.epochs)
            if loader.position.step % 6 == 0:
                break
        state = loader.state_dict()
    auditor.expect_each_once(144)


RANKS = """
def make(*names, **options): return rota.ElasticBatchSampler(dict.fromkeys(names, 40), 8, weights=[1] * len(names), **options)
try: make(*"ab" if rank == 0 else "ba")
except rota.MismatchError as error: print("datasets" in str(error))
sampler = make("a", "c")
sampler.load_state_dict(make("b", "a", world=(0, 1)).state_dict())
print(sampler.names, sum(map(len, sampler)))
"""


def test_ranks_have_them_in_one_order(tmp_path):
    pytest.importorskip("torch")
    with Job(tmp_path, RANKS, 2) as job:
        assert job.codes() == [0, 0] and {job.said(rank) for rank in (0, 1)} == {"True\n['b', 'a', 'c'] 40\n"}
