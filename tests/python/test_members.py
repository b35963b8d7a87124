"""Members that come and go: quorums that are played, and an auditor that sees what was committed alone."""

import contextlib
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rota
from quorums import OVER, Member, alone, play
from runs import Dataset, loader, refused, samples_of, settings, source


def with_plan(seed, options):
    """And steps that are left out, at random."""
    dice, at, skip = random.Random(seed), 0, []
    for _ in range(dice.choice((0, 0, 3))):
        at += dice.randint(1, 9)
        skip.append([at, at := at + dice.randint(1, 4)])
    return {**options, "plan": {"stages": [{"steps": 5, "global_batch_size": dice.randint(1, 20)}], "skip": skip}}


@pytest.mark.parametrize("kind", ["loader", "sampler", "torch"])
def test_any_chain_of_quorums_trains_each_sample_once_in_the_same_global_batches(kind):
    torch = pytest.importorskip("rota.torch") if kind == "torch" else None
    again, count = 0, 200
    with ThreadPoolExecutor(7) as pool:
        for seed, (samples, options) in enumerate(settings(kind, count)):
            options = with_plan(seed, options)
            data = source(samples)

            def make():
                if kind == "loader":
                    return Member(rota.Loader(data, world=(0, 1), workers=1 + seed % 2, **options))
                sampler = rota.ElasticBatchSampler(samples, world=(0, 1), **options)
                return Member(torch.DataLoader(range(samples), sampler) if torch else sampler)

            again += play(make, alone(make().members._placed.run), seed, pool.map)
    assert again > count


@pytest.mark.parametrize("kind", ["loader", "sampler"])
def test_a_mixture_that_changes_on_its_way_is_trained_as_alone(kind):
    plan = {"stages": [{"samples": 30, "weights": {"a": 1, "b": 4}, "toward": {"a": 3, "b": 1}}, {"samples": 80, "weights": {"a": 0, "b": 1}}], "skip": [[4, 6]]}
    sources, weights = {"a": source(40), "b": source(30)}, {"a": 1, "b": 2}
    options = {"plan": plan, "world": (0, 1), "epochs": 2}

    def make():
        if kind == "loader":
            return Member(rota.Loader(rota.Mixture(sources, weights, "all_exhausted"), 5, **options))
        return Member(rota.ElasticBatchSampler(sources, 5, weights=weights, end="all_exhausted", **options))

    there = make()
    reference = [samples_of(batch) for batch in iter(there.order.next if kind == "loader" else there.order.advance, None)]
    assert len(reference) > 15 and there.members.fingerprint == make().members.fingerprint
    for seed in range(5):
        play(make, reference, seed)


def test_a_run_goes_on_by_another_plan():
    torch = pytest.importorskip("rota.torch")
    for kind in range(3):
        sampler = rota.ElasticBatchSampler(40, 4, epochs=1, world=(0, 1))
        member = Member([loader(40, 4), sampler, torch.DataLoader(range(40), sampler)][kind])
        for step in range(4):
            member.draw(step, 0, 1)
        (member.order if kind < 2 else sampler).replan({"skip": [[4, 6]]})
        for _ in range(2):
            assert member.draw(4, 0, 1, member.members.fingerprint) and member.members.info.start.step == 6
        other = Member(loader(40, 4) if kind == 0 else rota.ElasticBatchSampler(40, 4, epochs=1, world=(0, 1)))
        refused(lambda: other.draw(4, 0, 2, member.members.fingerprint), rota.MismatchError, " plan:")


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_of_torchs_workers_at_an_old_step_are_dropped(persistent):
    torch = pytest.importorskip("rota.torch")

    def make():
        sampler = rota.ElasticBatchSampler(50, 5, epochs=2, world=(0, 1))
        return Member(torch.DataLoader(range(50), sampler, 2, persistent_workers=persistent))

    assert play(make, alone(rota.ElasticBatchSampler(50, 5, epochs=2).run), 4, most=2) > 2


PROCESS = """
import json, sys, rota
from runs import samples_of, source
loader = rota.Loader(source(60), 7, epochs=2, seed=3, workers=2, world=(0, 1))
members = rota.Members(loader, lambda: json.loads(sys.stdin.readline()))
while True:
    batch = next(members, 0)
    print(json.dumps(None if batch is None else samples_of(batch) if batch != 0 else 0), flush=True)
"""


class Process:
    """A member in a process of its own, which ends by kill -9."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=__file__.rpartition("/")[0])

    def draw(self, *answer):
        print(json.dumps(answer), file=self.process.stdin, flush=True)
        drawn = json.loads(self.process.stdout.readline())
        return OVER if drawn == 0 else drawn and [*map(tuple, drawn)]

    def end(self):
        self.process.kill()
        self.process.communicate()


def test_processes_that_are_killed_lose_nothing():
    made = []
    with contextlib.ExitStack() as stack:

        def make():
            made.append(Process())
            stack.callback(made[-1].end)
            return made[-1]

        play(make, alone(rota.Run(60, 7, epochs=2, seed=3)), 2, most=3)
    assert sum(one.process.returncode == -9 for one in made) > 4


# ---- runs that count otherwise ----


@pytest.mark.parametrize("kind", ["loader", "sampler", "torch"])
def test_samples_that_come_again_are_committed_steps_too(kind):
    torch = pytest.importorskip("rota.torch") if kind == "torch" else None
    first = rota.Loader(source(30), 4, settle="by_hand", world=(0, 1), epochs=2)
    batches = [first.next() for _ in range(4)]
    for batch in batches:
        first.settle(batch.ids[:-2], batch.epochs[:-2])
    state = first.state_dict()

    def begun():
        if kind == "loader":
            return rota.Loader(source(30), 4, world=(0, 1), epochs=2)
        sampler = rota.ElasticBatchSampler(30, 4, tail="partial", world=(0, 1), epochs=2, fingerprint=first.fingerprint)
        return torch.DataLoader(range(30), sampler) if torch else sampler

    def restored():
        made = begun()
        made.load_state_dict(state)
        return made

    single = rota.Loader(source(30), 4, world=(0, 1), epochs=2)
    single.load_state_dict(state)
    reference = [samples_of(batch) for batch in single]
    assert len(reference) == 2 + 12
    refused(lambda: rota.Members(restored(), tuple), rota.InvalidArgumentError, "committed=")
    member = None

    def join():  # by the state of any other
        nonlocal member
        told, member = member, Member(restored(), committed=0)
        if told is not None:
            member = Member(begun())
            member.members.load_state_dict(told.members.state_dict())
        return member

    for seed in range(5):
        member = None
        play(join, reference, seed, most=4)
    member = Member(restored(), committed=0)
    for step in range(4):
        assert member.draw(step, 0, 1) == reference[step]
        joiner = Member(begun())
        joiner.members.load_state_dict(member.members.state_dict())
        assert joiner.draw(step, 0, 1) == reference[step]  # which is not committed yet
    member.order.load_state_dict(state)
    refused(lambda: member.draw(4, 0, 1), rota.InvalidArgumentError, "load_state_dict")


@pytest.mark.parametrize("kind", ["loader", "sampler"])
def test_a_run_that_begins_at_another_step_counts_from_there(kind):
    def make(at=0):
        options = dict(epochs=2, plan={"skip": [[2, 4], [9, 10]]}, world=(0, 1))
        made = loader(40, 4, **options) if kind == "loader" else rota.ElasticBatchSampler(40, 4, **options)
        made.seek_step(at) if kind == "loader" else made._seek_step(at)
        return made

    reference = alone(make().run)
    there = Member(make(7), committed=0)
    assert there.draw(0, 0, 1) == reference[5]
    joiner = Member(make())
    joiner.members.load_state_dict(there.members.state_dict())
    assert joiner.draw(0, 0, 1) == reference[5] and joiner.draw(3, 0, 1) == reference[8]
    assert Member(make(7)).draw(3, 0, 1) == reference[3]  # the number is the run's, unless one says otherwise
    refused(lambda: joiner.members.load_state_dict(make().state_dict()), rota.InvalidArgumentError, "committed")
    refused(lambda: there.members.load_state_dict({**there.members.state_dict(), "committed": 9}) or there.draw(0, 0, 1),
            rota.CallbackError, "began at its step")  # fmt: skip


# ---- what is refused ----


@pytest.mark.parametrize(
    "answer, words",
    [
        ((3, 2, 2), "step 3, rank 2 of 2"),
        ((3, 0, 0), "rank 0 of 0"),
        ((3, -1, 2), "rank -1 of 2"),
        ((-1, 0, 2), "step -1"),
        ((1, 0, 2), "1 steps are committed, and that 2 are"),
        (("3", 0, 2), r"returned \('3', 0, 2\)"),
        ((3.0, 0, 2), "returned"),
        ((3, 0), "returned"),
        (None, "returned None"),
    ],
)
def test_wrong_answers_are_refused_and_move_nothing(answer, words):
    member = Member(loader())
    member.draw(2, 0, 2)
    before = member.order.position, member.order.world, member.members.state_dict()
    member.answers.append(answer)
    refused(lambda: next(member.members), rota.CallbackError, words)
    assert before == (member.order.position, member.order.world, member.members.state_dict())
    assert member.draw(3, 0, 2) == samples_of(member.order.run.at(3).slice(world=(0, 2)))


def test_an_error_of_the_callback_is_raised_and_moves_nothing():
    def ask():
        raise answers.pop()

    answers = [StopIteration(), OSError("no quorum")]
    members = rota.Members(loader(), ask)
    refused(lambda: next(members), OSError, "no quorum")
    assert isinstance(refused(lambda: next(members), rota.CallbackError).__cause__, StopIteration)
    assert members.info is None and members.moves == 0


def test_members_of_other_data_orders_plans_or_splits_are_refused():
    first = Member(loader())
    told = first.members.fingerprint
    first.draw(3, 1, 2, told)
    assert first.members.fingerprint == told
    others = {
        "data": rota.Loader(rota.PythonSource([{"x": np.full(3, 1, np.float32), "n": i} for i in range(40)]), 8, world=(0, 1)),
        "order": loader(seed=1),
        "plan": loader(plan={"skip": [[1, 2]]}),
        "split": loader(rank_split="interleaved"),
    }
    for part, order in others.items():
        joiner = Member(order)
        own = joiner.members.fingerprint
        refused(lambda: joiner.draw(3, 0, 2, told), rota.MismatchError, f"{own}, another {told}")
        assert [mine.partition(":")[0] for mine, its in zip(told.split(), own.split()) if mine != its] == [part]
    options = {"epochs": 1, "rank_split": "balanced", "world": (0, 1)}
    orders = [rota.ElasticBatchSampler(40, 8, balance=rota.Balance(np.arange(40) + more), **options) for more in (1, 2)]
    assert len({Member(order).members.fingerprint for order in orders}) == 2


def test_orders_that_a_member_cannot_have_are_refused(tmp_path):
    sampler = rota.ElasticBatchSampler
    for order, error, words in [
        (rota.Loader(source(8), comm=rota.Communicator(None)), rota.InvalidArgumentError, "communicator"),
        (loader(evaluation=True), rota.InvalidArgumentError, "end of the run"),
        (sampler(8, 4, world=(0, 1)), rota.InvalidArgumentError, "epochs="),
        (loader(settle="by_hand"), rota.InvalidArgumentError, "settle="),
        (sampler(8, 4, epochs=1, settle="by_hand"), rota.InvalidArgumentError, "settle="),
        ([1, 2], TypeError, "a list"),
    ]:
        refused(lambda: rota.Members(order, tuple), error, words)
    rota.Members(rota.Loader(source(8), comm=None), tuple)
    refused(lambda: rota.Members(loader(), (0, 0, 1)), TypeError, "ask is")
    torch = pytest.importorskip("rota.torch")
    skips = torch.DataLoader(range(8), sampler(8, 4, epochs=1), on_bad_sample="skip")
    refused(lambda: rota.Members(skips, tuple), rota.InvalidArgumentError, "on_bad_sample")


def test_a_loader_of_torchs_begins_a_batch_anew_behind_an_error_of_its_dataset():
    torch = pytest.importorskip("rota.torch")
    bad, asked, answer = set(), [], [0, 0, 1]

    def get(i):
        if int(i) in bad:
            raise KeyError(int(i))
        return int(i)

    balance = rota.Balance([1] * 8, micro_batches=2)
    sampler = rota.ElasticBatchSampler(8, 4, shuffle="none", epochs=1, rank_split="balanced", balance=balance, world=(0, 1))
    members = rota.Members(torch.DataLoader(Dataset(8, get), sampler), lambda: asked.append(0) or answer)
    first = next(members).tolist()
    bad |= {*range(4)} - {*first}
    refused(lambda: next(members), KeyError)
    bad.clear()
    assert next(members).tolist() == first and sorted(first + next(members).tolist()) == [0, 1, 2, 3] and len(asked) == 2
    answer[0] = 1
    assert sorted(next(members).tolist() + next(members).tolist()) == [4, 5, 6, 7] and len(asked) == 3
    for answer in (2, 0, 1), (2, 1, 2), (2, None, 0):
        assert next(members, OVER) is OVER
