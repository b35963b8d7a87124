"""Lightning's Trainer with rota's callback: checkpoints of any place, loaded again and again."""

import contextlib
import logging

import pytest

lightning = pytest.importorskip("lightning")
import rota  # noqa: E402
import rota.lightning  # noqa: E402
import rota.torch  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.utilities import CombinedLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning's own
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
DATA = torch.arange(36.0).reshape(-1, 1)  # nine steps an epoch


class Module(lightning.LightningModule):
    def __init__(self, cycle):
        super().__init__()
        self.layer, self.cycle, self.seen = torch.nn.Linear(1, 1), cycle, []

    def training_step(self, batch, number):
        self.seen.append(tuple(map(int, batch[:, 0])))
        return self.layer(batch / 40).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        if not self.cycle:
            return optimizer
        steps = self.trainer.estimated_stepping_batches  # which sets the data up before the checkpoint is read
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Stop(lightning.Callback):
    """Saves and ends behind so many batches, or at the end of the first epoch."""

    def __init__(self, path, after):
        self.path, self.after = path, after

    def stop(self, trainer):
        trainer.save_checkpoint(self.path)
        raise RuntimeError("stopped")

    def on_train_batch_end(self, trainer, *_):
        self.after = self.after - 1 if isinstance(self.after, int) else self.after
        if self.after == 0:
            self.stop(trainer)

        if self.after == "should_stop" and trainer.global_step == 4:
            trainer.should_stop = True

    def on_train_epoch_start(self, trainer, _):
        if self.after == "start" and trainer.current_epoch == 1:
            self.stop(trainer)

    def on_train_epoch_end(self, trainer, _):
        if self.after == "epoch":
            self.stop(trainer)
        if self.after == "should_stop" and trainer.should_stop:
            trainer.save_checkpoint(self.path)


def train(path, after=None, cycle=False, **options):
    """What one start has trained, and the weights that are left. It goes on from the checkpoint at `path`, if there is one."""
    torch.manual_seed(0)
    module = Module(cycle)
    loader = rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, seed=1, world=(0, 1)))
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer = lightning.Trainer(
        max_epochs=3, accelerator="cpu", callbacks=[rota.lightning.Elastic(), Stop(path, after)], default_root_dir=path.parent,
        **quiet, **options,
    )  # fmt: skip
    try:
        trainer.fit(module, loader, ckpt_path=path if path.exists() else None, weights_only=False)
        if "max_steps" in options:
            trainer.save_checkpoint(path)
    except RuntimeError as error:
        assert str(error) == "stopped"
    return module.seen, module.layer.weight.item()


CHAINS = [(4,), (9,), (4, 2), (9, 3), (9, 9), (9, 4, 5, 2), ("epoch",), ("epoch", "epoch"), ("epoch", 3)]


@pytest.mark.parametrize("options", [{}, {"cycle": True}, {"accumulate_grad_batches": 2}, {"cycle": True, "accumulate_grad_batches": 3}])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_run_goes_on_behind_what_it_has_trained(tmp_path, chain, options):
    whole, weight = train(tmp_path / "whole", **options)
    assert len(whole) == 27 and all(sorted(sum(whole[at : at + 9], ())) == [*range(36)] for at in (0, 9, 18))
    seen = []
    for after in (*chain, None):
        trained, found = train(tmp_path / "stopped", after, **options)
        seen += trained
    assert seen == whole
    accumulated = options.get("accumulate_grad_batches", 1)
    if all(after == "epoch" or after % accumulated == 0 for after in chain):  # else gradients of the last batches are lost
        assert found == pytest.approx(weight, abs=1e-7)


@pytest.mark.parametrize("after", ["start", "should_stop", {"max_steps": 4}])
def test_a_fit_that_ended_in_another_way_goes_on_behind_what_it_has_trained(tmp_path, after):
    whole, _ = train(tmp_path / "whole")
    first, _ = train(tmp_path / "stopped", **(after if isinstance(after, dict) else {"after": after}))
    assert first + train(tmp_path / "stopped")[0] == whole


def test_an_epoch_of_limited_batches_begins_at_its_first_sample(tmp_path):
    whole, _ = train(tmp_path / "whole")
    limited, _ = train(tmp_path / "limited", limit_train_batches=5)
    assert limited == whole[0:5] + whole[9:14] + whole[18:23]
    stopped = [train(tmp_path / "stopped", after, limit_train_batches=5)[0] for after in (7, 4, None)]
    assert sum(stopped, []) == limited


def test_a_trainer_without_a_loader_of_rotas_is_refused(tmp_path):
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=tmp_path)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[rota.lightning.Elastic()], **quiet)
    with pytest.raises(rota.InvalidArgumentError, match="rota.torch.DataLoader"):
        trainer.fit(Module(False), torch.utils.data.DataLoader(DATA, 4))


def quiet(tmp_path, **options):
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    options = {"max_epochs": 1, "callbacks": [rota.lightning.Elastic()], **options}
    return lightning.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet, **options)


def plain(**options):
    return rota.torch.DataLoader(DATA, rota.ElasticBatchSampler(DATA, 4, seed=1, world=(0, 1), **options))


def test_a_checkpoint_that_is_validated_moves_no_training(tmp_path):
    class Validating(Module):
        def validation_step(self, batch, number):
            self.layer(batch)

    train(tmp_path / "middle", 4)
    trainer, module = quiet(tmp_path), Validating(False)
    trainer.validate(module, plain(evaluation=True), ckpt_path=tmp_path / "middle", weights_only=False)
    trainer.save_checkpoint(tmp_path / "validated")
    trainer.fit(module, plain())
    assert sorted(sum(module.seen, ())) == [*range(36)]


def test_loaders_whose_place_lightning_cannot_keep_are_refused(tmp_path):
    def mixed(**options):
        sampler = rota.ElasticBatchSampler([20, 16], 4, weights=[1, 1], world=(0, 1), **options)
        return rota.torch.DataLoader(DATA, sampler)

    with pytest.raises(rota.UnsupportedError, match='end="steps"'):
        quiet(tmp_path).fit(Module(False), mixed())
    with pytest.raises(rota.UnsupportedError, match="several training loaders"):
        quiet(tmp_path).fit(Module(False), {"a": plain(), "b": plain()})
    with pytest.raises(rota.UnsupportedError, match='another tail than "carry"'):
        quiet(tmp_path).fit(Module(False), plain(tail="carry"))
    with pytest.raises(rota.InvalidArgumentError, match="evaluation=True"):
        quiet(tmp_path).fit(Module(False), plain(evaluation=True))
    for samples, size, ranks in (34, 4, 3), (36, 4, 8):  # the last batch has two; each has four
        few = rota.ElasticBatchSampler(samples, size, tail="partial", world=(0, ranks))
        with pytest.raises(rota.UnsupportedError, match=f"{samples % size or size} samples for {ranks} ranks"):
            quiet(tmp_path).fit(Module(False), rota.torch.DataLoader(DATA[:samples], few))
    with pytest.raises(rota.UnsupportedError, match="overfit_batches"):
        quiet(tmp_path, overfit_batches=2).fit(Module(False), plain())
    module = Module(False)
    quiet(tmp_path).fit(module, mixed(end="steps", steps=5))
    assert len(module.seen) == 5


class Paired(Module):
    def training_step(self, batch, number):
        return super().training_step(batch["a"], number)


@pytest.mark.parametrize("mode, steps", [("max_size_cycle", 0), ("max_size", 0), ("min_size", 9)])
def test_a_longer_loader_beside_it_is_refused_where_it_would_go_on(tmp_path, mode, steps):
    module, longer = Paired(False), torch.utils.data.DataLoader(torch.zeros(11, 1))
    expected = contextlib.nullcontext() if steps else pytest.raises(rota.UnsupportedError, match="min_size")
    with expected:
        quiet(tmp_path).fit(module, CombinedLoader({"a": plain(), "b": longer}, mode))
    assert len(module.seen) == steps


def test_another_fit_of_a_trainer_goes_on_where_the_last_one_ended(tmp_path):
    whole, _ = train(tmp_path / "whole")
    trainer, module = quiet(tmp_path, max_steps=4), Module(False)
    for steps, epochs in (4, 3), (9, 3), (11, 3), (-1, 2), (-1, 3):
        trainer.fit_loop.epoch_loop.max_steps, trainer.fit_loop.max_epochs = steps, epochs
        trainer.fit(module, plain())
        assert len(module.seen) == (steps if steps > 0 else 9 * epochs)
    assert module.seen == whole


def test_batches_that_may_be_trained_in_part_are_in_no_checkpoint(tmp_path):
    class Ahead(Module):
        def training_step(self, dataloader_iter):
            for _ in range(2):
                batch, number, _ = next(dataloader_iter)
            self.trainer.save_checkpoint(tmp_path / "ahead")

    class Manual(Module):
        automatic_optimization = False

        def training_step(self, batch, number):
            for _ in range(2):
                self.manual_backward(super().training_step(batch, number))
                if number == 3:  # before an optimizer's first step of the batch; and behind it
                    self.trainer.save_checkpoint(tmp_path / "manual")
                self.optimizers().step()

    for module, batches in (Ahead(False), 2), (Manual(False), 1):
        with pytest.raises(rota.UnsupportedError, match=f"{batches} batches were drawn.*save between batches"):
            quiet(tmp_path).fit(module, plain())
    assert (tmp_path / "manual").exists()


def test_a_loader_predicts_by_its_iterator(tmp_path):
    class Predicting(Module):
        def predict_step(self, batch, number):
            return batch

    with pytest.raises(TypeError, match="iter\\(loader\\)"):
        quiet(tmp_path).predict(Predicting(False), plain(evaluation=True))
    found = quiet(tmp_path).predict(Predicting(False), iter(plain(evaluation=True, shuffle="none")))
    assert torch.cat(found).equal(DATA)
