"""Where a `for` over a rota.torch.DataLoader begins and ends."""

import pytest
import rota

torch = pytest.importorskip("torch")
import rota.torch  # noqa: E402
from runs import refused  # noqa: E402


def plain(**options):
    return rota.torch.DataLoader(range(20), rota.ElasticBatchSampler(20, 4, shuffle="none", world=(0, 1), **options))


def ids(run):
    return torch.cat(list(run)).tolist()


def test_a_for_that_goes_on_says_so_once_and_restart_begins_anew():
    run = plain()
    next(iter(run))
    with pytest.warns(UserWarning, match=r"goes on in epoch 0 behind sample 4.*restart\(\).*evaluation=True"):
        assert ids(run) == list(range(4, 20))
    run = plain()
    next(iter(run))
    run.restart()
    assert ids(run) == list(range(20))


def test_an_evaluation_gives_all_whatever_was_left():
    run = plain(evaluation=True)
    next(iter(run))
    assert ids(run) == ids(run) == list(range(20)) and run.state_dict() == {}


def test_epochs_that_are_over_are_an_error_but_behind_a_load():
    run = plain(epochs=2)
    assert ids(run) == 2 * list(range(20))
    refused(lambda: list(run), ValueError, r"epochs=2.*evaluation=True")
    again = plain(epochs=2)
    again.load_state_dict(run.state_dict())
    assert list(again) == []


def test_an_epoch_past_the_last_one_is_an_error_wherever_the_run_stands():
    run = plain(epochs=2)
    run.set_epoch(7)
    refused(lambda: list(run), ValueError, r"epochs=2")


def test_a_for_that_gave_nothing_has_drawn_no_epoch():
    sampler = rota.ElasticBatchSampler(3, 4, tail="drop", world=(0, 1))
    run = rota.torch.DataLoader(range(3), sampler)
    assert [list(run), list(sampler), list(run)] == [[], [], []]


def test_no_sample_comes_twice_where_larger_batches_leave_nothing_of_an_epoch():
    run, seen = plain(tail="drop"), []
    for epoch in 0, 0, 1:
        if (epoch, run.position.step) != (0, 4):
            run.set_epoch(epoch)
        for batch in run:
            seen.append((epoch, batch.tolist()))
            if run.position.step == 4:
                run.batch_sampler.set_global_batch_size(8)
                break
    assert seen == [(0, [*range(i, i + 4)]) for i in range(0, 16, 4)] + [(1, [*range(i, i + 8)]) for i in (0, 8)]


def test_a_batch_of_before_a_move_has_no_state_whatever_came_since():
    run = plain()
    old = next(iter(run))
    run.restart()
    new = next(iter(run))
    refused(lambda: run.state_dict(old), ValueError, "moved since")
    assert run.state_dict(new) == run.state_dict()


class Stops(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        if i == 7:
            raise StopIteration
        return i


def test_a_dataset_that_raises_stop_iteration_does_not_end_the_epoch():
    run = rota.torch.DataLoader(Stops(), rota.ElasticBatchSampler(20, 4, shuffle="none", world=(0, 1)))
    refused(lambda: list(run), rota.CallbackError, "StopIteration")
    mixed = rota.ElasticBatchSampler([10, 10], 4, weights=[1, 1], shuffle="none", world=(0, 1))
    refused(lambda: list(rota.torch.DataLoader(Stops(), mixed)), rota.CallbackError, "StopIteration")
    run = rota.torch.DataLoader(range(8), rota.ElasticBatchSampler(8, 4, tail="drop", epochs=1, world=(0, 1)))
    next(iter(run))
    run.batch_sampler.set_global_batch_size(8)
    assert list(run) == []  # nothing is left for a whole batch, and no dataset is to blame


@pytest.mark.parametrize("sets_epoch", [True, False])
def test_a_for_whose_rest_is_dropped_gives_nothing_and_the_next_one_all_of_its_epoch(sets_epoch):
    def moved():
        run = plain(tail="drop")
        batches = iter(run)
        for _ in range(4):
            next(batches)
        run.batch_sampler.set_global_batch_size(6)
        return run

    for by_hand in (False, True):
        run = moved()
        batches = run.batch_sampler if by_hand else run
        assert list(batches) == []
        if sets_epoch:
            run.set_epoch(1)
        assert [list(map(int, batch)) for batch in batches] == [[*range(at, at + 6)] for at in (0, 6, 12)]
    kept = iter(plain(tail="drop").batch_sampler)
    run = moved()
    state, run = run.state_dict(), plain(tail="drop")
    run.batch_sampler.set_global_batch_size(6)
    batches = iter(run.batch_sampler)
    batches.load_state_dict(state)
    assert list(batches) == [] and next(kept) == [0, 1, 2, 3]


def test_the_loop_that_everybody_writes_resumes_anywhere():
    def train(run, begin, seen, stop):
        """Until `stop` steps were taken; the state behind them."""
        for epoch in range(begin, 3):
            run.set_epoch(epoch)
            for batch in run:
                seen.append((epoch, batch.tolist()))
                if run.position.step == stop:
                    return epoch, run.state_dict()
        return None

    whole = []
    train(plain(), 0, whole, None)
    for stop in range(1, 15):
        seen = []
        epoch, state = train(plain(), 0, seen, stop)
        run = plain()
        run.load_state_dict(state)
        train(run, epoch, seen, None)
        assert seen == whole, stop


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_a_loop_with_a_carried_tail_resumes_anywhere_and_warns_of_nothing(stop, recwarn):
    def run(state=None, stop=None):
        loader = rota.torch.DataLoader(range(10), rota.ElasticBatchSampler(10, 4, tail="carry", world=(0, 1)))
        if state is not None:
            loader.load_state_dict(state)
        seen = []
        for epoch in range(0 if state is None else first[-1][0], 2):
            loader.set_epoch(epoch)
            assert state or len(loader) == 3 - epoch
            for _ in loader:
                seen.append((epoch, loader.info.step, loader.info.ids.tolist()))
                assert len(loader) == 3 - loader.info.end.epoch % 2
                if len(seen) == stop:
                    return seen, loader.state_dict()
        return seen, None

    whole, _ = run()
    first, state = run(stop=stop)
    resumed, _ = run(state)
    assert [step for _, step, _ in whole] == [0, 1, 2, 3, 4]
    assert first + resumed == whole
    assert not [str(one.message) for one in recwarn if "goes on" in str(one.message)]


def test_each_kind_of_warning_is_given_once():
    sampler = rota.ElasticBatchSampler(20, 4, world=(0, 1))
    loader = rota.torch.DataLoader(range(20), sampler)
    next(iter(loader))
    with pytest.warns(UserWarning, match="goes on in epoch 0"):
        next(iter(loader))
    run = iter(sampler)
    next(run)
    sampler.state_dict()
    with pytest.warns(UserWarning, match="none of the batches that were drawn"):
        next(run)
    with pytest.warns(UserWarning, match="begins with the same batches"):
        iter(sampler)
