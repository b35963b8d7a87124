"""Chains of starts of Lightning's Trainer: saved at any hook, ended by any limit, gone on with another; each batch is trained once."""

import logging
import random

import pytest

lightning = pytest.importorskip("lightning")
import rota  # noqa: E402
import rota.lightning  # noqa: E402
import rota.torch  # noqa: E402
import torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning's own
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
DATA = torch.arange(34.0).reshape(-1, 1)
OTHERS = "checkpoint", "test", "predict", "exception"
HOOKS = [name for name in dir(lightning.Callback) if name.startswith("on_") and not any(other in name for other in OTHERS)]


class Module(lightning.LightningModule):
    def __init__(self, estimates, fails=None):
        super().__init__()
        self.layer, self.estimates, self.fails = torch.nn.Linear(1, 1), estimates, fails
        self.seen, self.trained = [], 0

    def training_step(self, batch, number):
        if len(self.seen) == self.fails:
            raise RuntimeError("stopped")
        self.seen.append(tuple(map(int, batch[:, 0])))
        return self.layer(batch / 40).square().mean()

    def optimizer_step(self, *given, **named):
        super().optimizer_step(*given, **named)
        self.trained += 1

    def validation_step(self, batch, number):
        self.layer(batch)

    def configure_optimizers(self):
        if self.estimates:  # which sets the data up before the checkpoint is read
            assert self.trainer.estimated_stepping_batches > 0
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 30)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Save(lightning.Callback):
    """Saves at the call number `count` of `hook`, and ends the run there; or has it stop at `count` steps."""

    def __init__(self, path, hook, count):
        self.path, self.hook, self.count, self.trained = path, hook, count, None
        setattr(self, "on_train_batch_end" if hook == "should_stop" else hook, self.stop if hook == "should_stop" else self.save)

    def save(self, trainer, module, *_):
        self.count -= 1
        if self.count == 0:
            trainer.save_checkpoint(self.path)
            self.trained = module.trained
            if self.hook != "on_exception":
                raise RuntimeError("stopped")

    def stop(self, trainer, module, *_):
        trainer.should_stop |= module.trained == self.count


def loader(samples, **options):
    return rota.torch.DataLoader(DATA[:samples], rota.ElasticBatchSampler(samples, 4, seed=1, world=(0, 1), **options))


def train(path, options, limits, hook="on_fit_end", count=1, fails=None):
    """What one start has trained, and the weights that are left. It goes on from the checkpoint at `path`, and leaves one there."""
    torch.manual_seed(0)
    module, save = Module(options["estimates"], fails), Save(path, hook, count)
    callbacks = [rota.lightning.Elastic(), save][:: options["order"]]
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    trainer = lightning.Trainer(
        accelerator="cpu", callbacks=callbacks, default_root_dir=path.parent, **quiet, **options["trainer"], **limits
    )  # fmt: skip
    valid = loader(10, evaluation=True) if options["validates"] else None
    try:
        trainer.fit(module, loader(34, tail=options["tail"]), valid, ckpt_path=path if path.exists() else None, weights_only=False)
    except RuntimeError as error:
        assert str(error) == "stopped"
    if save.trained is None:
        trainer.save_checkpoint(path)
        save.trained = module.trained
    return module.seen[: save.trained], module.layer.weight.item(), trainer.fit_loop.epoch_loop._batches_that_stepped


def drawn(draw):
    """What all starts of a chain have in common."""
    validates = draw.random() < 0.5
    trainer = {"limit_train_batches": 5} if draw.random() < 0.3 else {}
    if validates:
        trainer["val_check_interval"] = draw.choice([1.0, 3, 1])
    return dict(estimates=draw.random() < 0.3, order=draw.choice([1, -1]), validates=validates, tail=draw.choice(["pad", "drop", "partial"]),
                trainer=trainer)  # fmt: skip


def start(draw, done, steps):
    """Of how many steps a start is at most, and where it is saved."""
    hook = draw.choice([draw.choice(HOOKS), "on_exception", "should_stop", "on_fit_end"])
    count = 1 if hook == "on_exception" else draw.randint(1, 12)
    each = {"max_steps": done + draw.randint(0, 12)} if hook == "on_fit_end" else {}
    limits = draw.choice([{"max_epochs": 3, **each}, {"max_epochs": -1, "max_steps": steps, **each}, {"max_epochs": 3, "max_steps": 1000, **each}])
    return limits, hook, 1 if hook == "on_fit_end" else count, draw.randint(0, 9) if hook == "on_exception" else None


@pytest.mark.parametrize("seed", range(60))
def test_each_batch_is_trained_once_wherever_a_run_is_saved_and_ended(tmp_path, seed):
    draw = random.Random(seed)
    options = drawn(draw)
    whole, weight, stepped = train(tmp_path / "whole", options, {"max_epochs": 3})
    assert len(whole) == 3 * (5 if options["trainer"].get("limit_train_batches") else 8 if options["tail"] == "drop" else 9)
    seen, starts = [], []
    for _ in range(draw.randint(1, 3)):
        starts.append(start(draw, len(seen), len(whole)))
        seen += train(tmp_path / "chain", options, *starts[-1])[0]
        assert seen == whole[: len(seen)], (options, starts)
    last, found, logged = train(tmp_path / "chain", options, draw.choice([{"max_epochs": 3}, {"max_epochs": 3, "max_steps": len(whole)}]))
    assert seen + last == whole and found == pytest.approx(weight, abs=1e-6), (options, starts)
    assert logged == stepped or options["validates"], (options, starts)  # else Lightning counts a step for loggers where it resumes
