"""torchft with Members: groups that are killed and come back lose no sample, and have the weights of a run alone."""

import os

import pytest

pytest.importorskip("torchft")
pytest.importorskip("torch", minversion="2.7")
import torchft_job  # noqa: E402

CHAINS = int(os.environ.get("ROTA_CHAINS", 0))


@pytest.mark.parametrize("seed", range(CHAINS or 1))
def test_groups_that_are_killed_and_come_back_train_each_sample_once(seed):
    torchft_job.chain_of(seed, 10 if CHAINS else 3)


def test_spares_take_the_place_of_the_dead(tmp_path):
    with torchft_job.Job(tmp_path, groups=3, epochs=1, batch=7, active=2, is_async=True) as job:
        job.chain(2, 1)
    assert max(len(ids) for ids in job.committed().values()) == 2
    assert sum(line.get("ids", 0) is None for lines in job.lines.values() for line in lines) > 50  # they sat out
    job.audit(7, 1)


def test_groups_of_several_ranks_are_one_world(tmp_path):
    with torchft_job.Job(tmp_path, groups=2, ranks=2, epochs=1, batch=7) as job:
        job.chain(2, 2)
    assert max(len(ids) for ids in job.committed().values()) == 4
    job.audit(7, 1)
