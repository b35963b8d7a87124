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
                    if where == "body" and taken + len(part) == stop:
                        states.append(loader.state_dict())
                        break
            taken += len(parts[0])
            if where == "behind" and taken == stop:
                states = [loader.state_dict() for loader in run]
            seen += [tuple(sum(step, ())) for step in zip(*parts)]
            if not states or where == "behind":
                epoch += 1
        if not states:
            break
    return seen


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where, stops", [("body", (2,)), ("body", (1, 1)), ("body", (3,)), ("body", (3, 2)), ("behind", (3,)), ("behind", (3, 3))])
def test_a_run_goes_on_behind_what_it_has_trained(workers, where, stops):
    whole = epochs(workers, (), where)
    assert len(whole) == 9 and sorted(sum(whole[:3], ())) == DATA
    assert epochs(workers, stops, where, (4, 3, 2)) == whole
