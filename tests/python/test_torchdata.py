"""torchdata's StatefulDataLoader over rota's sampler: its own state, at any place and in other worlds."""

import pytest

pytest.importorskip("torchdata")
import rota  # noqa: E402
from torchdata.stateful_dataloader import StatefulDataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's own
DATA = list(range(36))  # nine steps an epoch


def made(workers, state=None, rank=0, ranks=1):
    sampler = rota.ElasticBatchSampler(DATA, 12, seed=1, world=(rank, ranks))
    loader = StatefulDataLoader(DATA, batch_sampler=sampler, num_workers=workers, collate_fn=lambda batch: tuple(map(int, batch)))
    if state is not None:
        loader.load_state_dict(state)
    return loader, sampler


def epochs(workers, stops, where, worlds=(1,), calls_set_epoch=True):
    """What all ranks trained in three epochs, as a start of `worlds[k]` ranks takes `stops[k]` steps."""
    seen, states, epoch = [], [None], 0
    for turn, stop in enumerate((*stops, None)):
        ranks = worlds[turn % len(worlds)]
        run = [made(workers, states[0], rank, ranks)[0] for rank in range(ranks)]
        taken, states = 0, []
        while epoch < 3 and not states:
            parts = [[] for _ in run]
            for part, loader in zip(parts, run):
                if calls_set_epoch:
                    loader.batch_sampler.set_epoch(epoch)
                for batch in loader:
                    part.append(batch)
                    if where != "behind" and taken + len(part) == stop:
                        states.append(loader.state_dict())
                        break
            taken += len(parts[0])
            if where == "behind" and taken == stop:
                states = [loader.state_dict() for loader in run]
            seen += [tuple(sum(step, ())) for step in zip(*parts)]
            if not states or where == "behind" or (where == "next" and len(parts[0]) == 3):
                epoch += 1
        if not states:
            break
    return seen


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where, stops", [("body", (2,)), ("body", (1, 1)), ("body", (3,)), ("body", (3, 2)), ("behind", (3,)), ("behind", (3, 3)), ("next", (3,)), ("next", (3, 2, 1)), ("next", (3, 3))])
def test_a_run_goes_on_behind_what_it_has_trained(workers, where, stops):
    whole = epochs(workers, (), where)
    assert len(whole) == 9 and sorted(sum(whole[:3], ())) == DATA
    assert epochs(workers, stops, where, (4, 3, 2)) == whole


@pytest.mark.parametrize("options, steps", [({"epochs": 3}, 6), ({"tail": "carry"}, 0), ({"evaluation": True}, 0)])
def test_a_state_at_an_epochs_last_batch_is_the_end_of_a_for_where_it_ends_there(options, steps):
    def take(state=None):
        loader = StatefulDataLoader(range(20), batch_sampler=rota.ElasticBatchSampler(20, 8, world=(0, 1), **options), collate_fn=tuple)
        if state is not None:
            loader.load_state_dict(state)
        run = iter(loader)
        return loader, run

    loader, run = take()
    assert [len(next(run)) for _ in range(3)] == [8, 8, 8]
    state = loader.state_dict()
    behind = [*run]
    loader, after = take(state)
    assert [*after] == behind and len(behind) == steps


def test_a_carried_tail_goes_through_its_epochs_in_one_for_and_warns_where_set_epoch_ends_it():
    def made(**options):
        sampler = rota.ElasticBatchSampler(10, 4, tail="carry", world=(0, 1), **options)
        return StatefulDataLoader(range(10), batch_sampler=sampler, collate_fn=tuple), sampler

    assert sorted(sum(made(epochs=2)[0], ())) == sorted(2 * [*range(10)])
    loader, sampler = made()
    assert len([*loader]) == 3
    with pytest.warns(UserWarning, match="samples of epoch 1, which come again"):
        sampler.set_epoch(1)


@pytest.mark.filterwarnings("error::UserWarning:rota")
def test_the_state_of_a_loader_that_has_one_is_nothing_to_warn_of(recwarn):
    loader, sampler = made(0)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for _ in loader:
            loader.state_dict()
    assert not [str(one.message) for one in recwarn if "batches" in str(one.message)]
