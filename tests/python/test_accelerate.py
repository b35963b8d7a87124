"""Accelerate: what `prepare` leaves as it is, what `save_state` keeps, and where an accumulation and an epoch end."""

import types

import pytest

accelerate = pytest.importorskip("accelerate")
import rota  # noqa: E402
import rota.accelerate  # noqa: E402
import rota.torch  # noqa: E402
import torch  # noqa: E402
from accelerate.state import AcceleratorState, GradientState  # noqa: E402
from runs import refused  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Accelerate's own
DATA = torch.arange(34.0).reshape(-1, 1)  # nine steps an epoch, of which the last has two samples


def train(path, after=None, accumulated=1, make=rota.accelerate.DataLoader, epochs=3):
    """What one start has trained, its updates, and the weights that are left. It goes on from what was saved at `path`."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulated)
    torch.manual_seed(0)
    layer = torch.nn.Linear(1, 1)
    loader = make(DATA, rota.ElasticBatchSampler(DATA, 4, seed=1, world=(0, 1)))
    model, optimizer, prepared = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), 0.1), loader)
    assert prepared is loader
    if path.exists():
        accelerator.load_state(path)
    seen, updates, gathered = [], 0, []
    for _ in range(loader.position.epoch, epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch / 40).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            updates += accelerator.sync_gradients
            gathered += accelerator.gather_for_metrics(batch)[:, 0].int().tolist()
            seen.append(tuple(map(int, batch[:, 0])))
            if len(seen) == after:
                accelerator.save_state(path)
                return seen, updates, layer.weight.item(), gathered
    return seen, updates, layer.weight.item(), gathered


@pytest.mark.parametrize("accumulated", [1, 3, 4])
@pytest.mark.parametrize("chain", [(4,), (9,), (9, 9), (9, 4), (4, 5, 2), (12, 3)])
def test_a_run_goes_on_behind_what_it_has_trained(tmp_path, chain, accumulated):
    whole, updates, weight, gathered = train(tmp_path / "whole", accumulated=accumulated)
    assert len(whole) == 27 and updates == 3 * -(-9 // accumulated)  # an epoch's last update is of what is left
    assert sorted(gathered) == sorted(3 * [*range(34)])  # without pads
    found = [train(tmp_path / "stopped", after, accumulated) for after in (*chain, None)]
    assert sum((seen for seen, *_ in found), []) == whole
    if all(sum(chain[: at + 1]) % 9 % accumulated == 0 for at in range(len(chain))):  # else gradients of the last batches are lost
        assert sum(updates for _, updates, *_ in found) == updates and found[-1][2] == pytest.approx(weight, abs=1e-7)


def test_each_validation_gathers_each_sample_once():
    AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True)
    valid = accelerator.prepare(rota.accelerate.DataLoader(DATA, rota.ElasticBatchSampler(34, 4, evaluation=True, world=(0, 1))))
    for _ in range(2):
        gathered = torch.cat([accelerator.gather_for_metrics(batch) for batch in valid])
        assert sorted(gathered[:, 0].int().tolist()) == [*range(34)]


def test_the_loader_for_torch_keeps_its_place_too(tmp_path):
    whole, *_ = train(tmp_path / "whole", make=rota.torch.DataLoader)
    first, *_ = train(tmp_path / "stopped", 4, make=rota.torch.DataLoader)
    assert first + train(tmp_path / "stopped", make=rota.torch.DataLoader)[0] == whole


def test_batches_are_not_skipped_twice(tmp_path):
    train(tmp_path / "stopped", 4)
    loader = rota.accelerate.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, seed=1, world=(0, 1)))
    accelerator = accelerate.Accelerator(cpu=True)
    assert len([*accelerator.skip_first_batches(loader, 4)]) == 5
    refused(lambda: next(iter(loader)), rota.InvalidArgumentError, "drew all of epoch 0.*set_epoch")
    loader.set_epoch(1)
    assert [tuple(map(int, batch[:, 0])) for batch in loader] == train(tmp_path / "whole")[0][9:18]
    loader.restart()
    accelerator.prepare(loader)
    accelerator.load_state(tmp_path / "stopped", load_kwargs={})
    refused(lambda: next(iter(accelerator.skip_first_batches(loader, 4))), rota.InvalidArgumentError, "skip_first_batches does")
    assert len([*loader]) == 5


def test_a_mixture_has_no_last_batch():
    accelerate.Accelerator(cpu=True)
    sampler = rota.ElasticBatchSampler([20, 14], 4, weights=[1, 1], steps=5, end="steps", world=(0, 1))
    loader = rota.accelerate.DataLoader(DATA, sampler)
    assert [(loader.end_of_dataloader, loader.remainder) for _ in loader] == [(False, 0)] * 5


def test_a_sampler_whose_loader_has_loaded_a_state_gives_no_batches_to_others():
    loader = rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, seed=1, world=(0, 1)))
    list(loader)
    state = loader.state_dict()
    loader.load_state_dict(state)
    loader.set_epoch(0)  # which is over
    assert list(loader) == []
    loader.load_state_dict(state)
    refused(lambda: list(loader.batch_sampler), rota.InvalidArgumentError, "another loader draws them")


def test_what_gather_for_metrics_would_count_is_refused():
    AcceleratorState._reset_state(True)
    accelerate.Accelerator(cpu=True)
    partial = {"world": (0, 3), "tail": "partial"}  # 2 samples in the last batch
    for sampler, loader in ({"rank_split": "by_shard"}, {}), ({}, {"on_bad_sample": "skip"}), (partial, {}), ({**partial, "evaluation": True}, {}):
        loader = rota.accelerate.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, **{"world": (0, 1), **sampler}), **loader)
        refused(lambda: next(iter(loader)), rota.UnsupportedError, "gather_for_metrics")


def test_accumulations_end_with_each_of_several_epochs():
    AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    loader = accelerator.prepare(rota.accelerate.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, epochs=2, world=(0, 1))))
    gathered, updates = [], []
    for batch in loader:
        with accelerator.accumulate(torch.nn.Linear(1, 1)):
            updates.append(accelerator.sync_gradients)
        gathered += accelerator.gather_for_metrics(batch)[:, 0].int().tolist()
    assert sorted(gathered) == sorted(2 * [*range(34)]) and updates == 2 * (2 * [False, False, False, True] + [True])


@pytest.mark.parametrize("make, steps", [(rota.accelerate.DataLoader, 9), (None, 36)])
def test_a_prepared_scheduler_steps_once_whatever_the_number_of_processes(monkeypatch, make, steps):
    AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True)
    monkeypatch.setattr(accelerate.scheduler, "AcceleratorState", lambda: types.SimpleNamespace(num_processes=4))
    monkeypatch.setattr(rota.accelerate.DataLoader, "_has_trained", False)
    loader = make(DATA, rota.ElasticBatchSampler(DATA, 4, world=(0, 1))) if make else torch.utils.data.DataLoader(DATA, 4)
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), 1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 100)
    loader, optimizer, prepared = accelerator.prepare(loader, optimizer, scheduler)
    for _ in loader:
        optimizer.step(), prepared.step()
    assert scheduler.last_epoch == steps
    prepared.step()  # of a scheduler that steps once an epoch
    assert scheduler.last_epoch == steps + (1 if make else 4)
