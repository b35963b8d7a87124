"""Texts of any length on eight ranks: how much the others wait for one of them, without a balance and with one.

    python3 balance.py
"""

import numpy as np
import rota

RANKS, BATCH, WIDTH = 8, 256, 1024  # BATCH of all ranks; WIDTH of a transformer, for which 6 WIDTH : 1 is about right
COST = dict(linear=6 * WIDTH, quadratic=1)


def texts(count):
    """Most are short, some are very long."""
    draw = np.random.default_rng(0)
    lengths = np.minimum(draw.lognormal(6.5, 1.0, count).astype(int) + 1, 8192)
    rows = [{"tokens": draw.integers(0, 50_000, n, dtype=np.uint16)} for n in lengths]
    return rota.PythonSource(rows, {"tokens": ("uint16", (), True)})


def work(tokens):
    """What a forward and a backward pass cost."""
    n = np.diff(tokens.offsets).astype(float)
    return float((COST["linear"] * n + COST["quadratic"] * n * n).sum())


def summed_loss(tokens):
    """Stands for a model's loss, summed over tokens."""
    return float(np.log1p(tokens.values.astype(float)).sum())


def train(source, **options):
    """Of each step the loss, the ids of all ranks, and the work of the busiest rank over the mean."""
    ranks = [rota.Loader(source, BATCH, world=(rank, RANKS), seed=1, tail="drop", **options) for rank in range(RANKS)]
    for batches in zip(*ranks):  # in a job each process has one of them, and the sums below are all_reduce's
        costs = [work(batch["tokens"]) for batch in batches]
        tokens = sum(batch["tokens"].values.size for batch in batches)
        if options:  # each rank knows this by itself
            assert all(batch.global_sums[0] == tokens for batch in batches)
        loss = sum(summed_loss(batch["tokens"]) / tokens for batch in batches)
        yield loss, sorted(id for batch in batches for id in batch.ids.tolist()), max(costs) / np.mean(costs)


def main():
    source = texts(8192)
    balance = rota.Balance(rota.lengths_of(source, "tokens"), **COST)
    plain = [*train(source)]
    dealt = [*train(source, rank_split="balanced", balance=balance)]
    for what, steps in ("by_sample", plain), ("balanced", dealt):
        print(f"{what}: the busiest of {RANKS} ranks has {np.mean([most for *_, most in steps]):.3f} of the mean")
    assert [ids for _, ids, _ in plain] == [ids for _, ids, _ in dealt]
    print("same batches, losses", "equal" if np.allclose([loss for loss, *_ in plain], [loss for loss, *_ in dealt]) else "differ")


if __name__ == "__main__":
    main()
