"""What Members do when all is as expected, when it is not, and when others move the run; and the weights of slices."""

import time

import numpy as np
import pytest
import rota
from quorums import OVER, Member
from runs import loader, refused, samples_of


class Counted(list):
    reads = 0

    def __getitem__(self, at):
        self.reads += 1
        return super().__getitem__(at)


def test_what_was_read_ahead_stays_while_all_is_as_expected():
    rows = [Counted({"x": i} for i in range(800)) for _ in range(2)]
    alone, inner = (rota.Loader(rota.PythonSource(of), 8, workers=2, read_ahead_batches=4, world=(0, 1)) for of in rows)
    member = Member(inner)
    for step in range(4):
        member.draw(step, 0, 1)
        alone.next()
    end = time.monotonic() + 10
    while rows[0].reads != rows[1].reads and time.monotonic() < end:
        time.sleep(0.01)
    assert rows[0].reads == rows[1].reads < 8 * 20
    assert member.draw(4, None, 1) is None and member.members.world is None
    member.draw(4, 0, 1)
    assert member.members.moves == 0 and member.members.world == rota.World(0, 1)
    member.draw(4, 0, 1)  # which was not committed
    member.draw(5, 1, 2)
    member.draw(9, 1, 2)  # behind a while in which others were there
    assert member.members.moves == 3


def test_the_parts_of_a_batch_are_one_step():
    balance = rota.Balance([1] * 40, micro_batches=2)
    sampler = rota.ElasticBatchSampler(40, 8, epochs=1, rank_split="balanced", balance=balance, world=(0, 1))
    asked = []
    members = rota.Members(sampler, lambda: (asked.append(0), (len(asked) - 1) // 2, 0, 1)[1:])
    parts = [sorted(members.info.ids) for _ in members]
    assert len(asked) == 11 and len(parts) == 20 and parts[:2] == parts[2:4] != parts[4:6]
    next(members := rota.Members(sampler, lambda: (0, 0, 1)))
    first = sorted(members.info.ids)
    for _ in members:  # a loop that begins in the middle of a batch begins with its first part
        assert sorted(members.info.ids) == first
        break


@pytest.mark.parametrize("kind", ["loader", "sampler"])
@pytest.mark.parametrize("change", ["set_global_batch_size", "rescale", "replan"])
@pytest.mark.parametrize("when", ["before", "in"])
def test_what_others_change_between_steps_or_in_ask_holds_from_there(kind, change, when):
    order = loader(80) if kind == "loader" else rota.ElasticBatchSampler(80, 8, tail="partial", epochs=1, world=(0, 1))
    told = {"set_global_batch_size": 5, "rescale": (1, 2), "replan": {"skip": [[3, 5]]}}[change]
    asked = []

    def ask():
        if len(asked) == 2 and when == "in":
            getattr(order, change)(told)
        asked.append(0)
        return len(asked) - 1, 0, 1

    members = rota.Members(order, ask)
    next(members), next(members)
    if when == "before":
        getattr(order, change)(told)
    first = members.fingerprint
    for step in (2, 3):
        next(members)
        wanted = order.run.at(step + 2 * (change == "replan" and step > 2)).slice()
        assert samples_of(members.info) == samples_of(wanted)
    joiner = Member(loader(80) if kind == "loader" else rota.ElasticBatchSampler(80, 8, tail="partial", epochs=1, world=(0, 1)))
    if change != "rescale":  # a world is no part of the run
        refused(lambda: joiner.draw(4, 0, 2, members.fingerprint), rota.MismatchError, " plan:")
    assert change == "rescale" or when == "in" or first == members.fingerprint


def test_a_batch_whose_parts_were_begun_by_another_is_asked_for():
    balance = rota.Balance([1] * 40, micro_batches=2)
    sampler = rota.ElasticBatchSampler(40, 8, epochs=1, rank_split="balanced", balance=balance, world=(0, 1))
    next(rota.Members(sampler, lambda: (0, 0, 1)))
    members = rota.Members(sampler, lambda: (3, 0, 1))
    next(members)
    assert members.world == rota.World(0, 1) and members.info.start.step == 3


@pytest.mark.parametrize("kind", ["loader", "sampler"])
@pytest.mark.parametrize("when", ["made", "sat out", "loaded"])
def test_a_run_that_others_restored_before_it_is_drawn_goes_to_its_step(kind, when):
    def make():
        return loader(80) if kind == "loader" else rota.ElasticBatchSampler(80, 8, tail="partial", epochs=1, world=(0, 1))

    ahead, behind = make(), Member(make())
    ahead.seek_step(4) if kind == "loader" else ahead._seek_step(4)
    if when == "sat out":
        behind.draw(0, None, 1)
    if when == "loaded":
        behind.members.load_state_dict(behind.members.state_dict())
    behind.order.load_state_dict(ahead.state_dict())
    assert behind.members.state_dict()["committed"] == 4
    assert behind.draw(0, 0, 1) == samples_of(behind.order.run.at(0).slice())


def test_members_of_a_run_that_is_over_end_at_once():
    for order in (loader(plan={"skip": [[0, 5]]}), rota.ElasticBatchSampler(40, 8, epochs=1, world=(0, 1), plan={"skip": [[0, 5]]})):
        member = Member(order)
        assert member.draw(0, 0, 1) is OVER and member.draw(0, None, 1) is OVER
        assert member.draw(9, 0, 1) is OVER and member.draw(0, 0, 1) is OVER  # an answer beyond the end holds nobody


# ---- weights ----


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("split", ["by_sample", "balanced"])
def test_the_mean_of_weighted_gradients_is_that_of_the_global_mean(size, split):
    tokens = np.arange(23) % 6 + 1
    x, y, w = np.random.default_rng(1).normal(size=(3, 23))
    gradient = 2 * x * (w[0] * x - y)  # of each sample
    options = dict(rank_split=split, balance=rota.Balance(tokens)) if split == "balanced" else {}
    members = [Member(rota.Loader(rota.PythonSource([*x]), 4, world=(0, 1), **options)) for _ in range(size)]
    for step in range(6):  # the last batch is short
        shares, of_tokens = [], []
        for rank, one in enumerate(members):
            one.draw(step, rank, size)
            batch, ids = one.members.info, one.members.info.ids
            shares.append(one.members.weight() * gradient[ids].mean() if batch.size else one.members.weight())
            if split == "balanced":
                factor = one.members.world.size / batch.global_sums[0]
                of_tokens.append(factor * (tokens[ids] * gradient[ids]).sum())
        all_ids = one.order.run.at(step).slice().ids
        assert np.isclose(np.mean(shares), gradient[all_ids].mean())
        if split == "balanced":
            assert np.isclose(np.mean(of_tokens), np.average(gradient[all_ids], weights=tokens[all_ids]))
    members[0].draw(5, None, 1)
    assert members[0].members.weight() == 0


def test_a_loader_of_torchs_weighs_its_batches():
    torch = pytest.importorskip("rota.torch")
    sampler = rota.ElasticBatchSampler(10, 7, tail="partial", shuffle="none", epochs=1, world=(0, 1))
    one = Member(torch.DataLoader(range(10), sampler))
    weights = []
    for rank, step in ((0, 0), (1, 0), (2, 0), (0, 1), (3, 1)):
        one.draw(step, rank, 4)
        weights.append(one.members.weight())
    assert weights == [4 / 7, 8 / 7, 8 / 7, 0, 4 / 3] and one.members.info.ids.tolist() == [9]
