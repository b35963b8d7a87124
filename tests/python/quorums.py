"""Quorums that are played by the tests of Members, and an auditor that sees what was committed alone."""

import random
from collections import deque

import rota
from runs import samples_of

OVER = object()


class Auditor:
    """Sees (step, samples of its members) of each committed step, and knows the run alone."""

    def __init__(self, batches):
        self.batches, self.seen = [sorted(batch) for batch in batches], 0

    def see(self, step, samples):
        assert step == self.seen and sorted(samples) == self.batches[step]
        self.seen += 1


def alone(run):
    return [samples_of(run[step]) for step in range(len(run)) if not run.is_skipped(step)]


class Member:
    """One of a quorum that says each step to it."""

    def __init__(self, order, **options):
        self.order, self.answers = order, deque()
        self.members = rota.Members(order, self.answers.popleft, **options)

    def draw(self, *answer):
        """Its samples; None where it sits out, OVER at the end of the run."""
        self.answers.append(answer)
        batch = next(self.members, OVER)
        return batch if batch is OVER or answer[1] is None else samples_of(self.members.info)

    def end(self):
        """Nothing is left behind that others would wait for."""


def play(make, batches, seed, pool=map, most=7):
    """Joins, deaths, spares and failed commits at random, until the run is over; returns how many steps came again."""
    dice, auditor, there, committed, again = random.Random(seed), Auditor(batches), [], 0, 0
    while True:
        for member in [member for member in there if dice.random() < 0.1]:
            there.remove(member)
            member.end()
        there += [make() for _ in range(min(dice.choice((0, 0, 0, 1, 3)), most - len(there)))]
        dice.shuffle(there)
        size = dice.randint(len(there) // 2, len(there))  # the others are spares, or heal
        answers = [(committed, rank if rank < size else None, size) for rank in range(len(there))]
        drawn = [*pool(lambda call: call[0].draw(*call[1]), [*zip(there, answers)])]
        if OVER in drawn:
            assert all(one is OVER for one in drawn)
            assert auditor.seen == len(batches)
            return again
        assert drawn[size:] == [None] * (len(there) - size)
        if size and dice.random() < 0.8:
            auditor.see(committed, sum(drawn[:size], []))
            committed += 1
        else:
            again += size > 0
