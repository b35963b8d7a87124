"""What became of an epoch in a run that was stopped and went on, by the samples that its ranks were given. Knows no loader.

A rank is a list of steps, a step a list of samples, in which None is padding that was marked as such. Step k of all ranks is a global batch."""

from collections import Counter
from itertools import zip_longest


def global_batches(ranks):
    """The samples of each step, sorted: which rank has which does not matter."""
    return [sorted(id for step in steps for id in step if id is not None) for steps in zip_longest(*ranks, fillvalue=[])]


def audit(samples, whole, phases):
    """`whole` are the ranks of a run that nobody stopped; `phases` those of one that was: each up to where the next went on.

    The counts of what the epoch's `samples` came to, of other batches than in `whole`, and of all `behind` the first stop."""
    seen = Counter(id for ranks in phases for steps in ranks for step in steps for id in step if id is not None)
    begun = max(len(steps) for steps in phases[0])
    wanted, got = global_batches(whole), [batch for ranks in phases for batch in global_batches(ranks)]
    return {
        "lost": sum(id not in seen for id in range(samples)),
        "repeated": sum(count - 1 for count in seen.values()),
        "others": sum(mine != theirs for mine, theirs in zip_longest(got, wanted)),
        "behind": max(len(got), len(wanted)) - begun,
        "uneven": any(len({len(steps) for steps in ranks}) > 1 for ranks in phases),
        "pads": sum(id is None for ranks in phases for steps in ranks for step in steps for id in step),
        "size": max(map(len, got[begun:]), default=0),
        "ranks": len(phases[-1]),
    }
