"""Lightning's Trainer with rota's callback: checkpoints of any place, loaded again and again, and what is refused."""

import contextlib
import logging
import random

import pytest

lightning = pytest.importorskip("lightning")
import rota  # noqa: E402
import rota.lightning  # noqa: E402
import rota.torch  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.utilities import CombinedLoader  # noqa: E402
from runs import refused  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Lightning's own
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
DATA = torch.arange(36.0).reshape(-1, 1)  # nine steps an epoch
OTHERS = "checkpoint", "test", "predict", "exception"
HOOKS = [name for name in dir(lightning.Callback) if name.startswith("on_") and not any(other in name for other in OTHERS)]


class Module(lightning.LightningModule):
    def __init__(self, estimates=False, fails=None):
        super().__init__()
        self.layer, self.estimates, self.fails, self.seen = torch.nn.Linear(1, 1), estimates, fails, []

    def training_step(self, batch, number):
        if len(self.seen) == self.fails:
            raise RuntimeError("stopped")
        self.seen.append(tuple(map(int, batch[:, 0])))
        return self.layer(batch / 40).square().mean()

    def validation_step(self, batch, number):
        self.layer(batch)

    def configure_optimizers(self):
        if self.estimates:  # which sets the data up before the checkpoint is read
            assert self.trainer.estimated_stepping_batches >= 0
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 30)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def quiet(tmp_path, **options):
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    options = {"max_epochs": 1, "callbacks": [rota.lightning.Elastic()], **options}
    return lightning.Trainer(accelerator="cpu", default_root_dir=tmp_path, **quiet, **options)


def plain(samples=36, **options):
    return rota.torch.DataLoader(DATA[:samples], rota.ElasticBatchSampler(samples, 4, seed=1, **{"world": (0, 1), **options}))


# ---- each batch is trained once ----


class Save(lightning.Callback):
    """Saves at the call number `count` of `hook`, and ends the run there; or has it stop at `count` steps."""

    def __init__(self, path, hook, count):
        self.path, self.hook, self.count, self.first, self.trained = path, hook, count, 0, None
        setattr(self, "on_train_batch_end" if hook == "should_stop" else hook, self.stop if hook == "should_stop" else self.save)

    def keep(self, trainer):
        trainer.save_checkpoint(self.path)
        self.trained = trainer.fit_loop.epoch_loop.batch_progress.total.processed

    def save(self, trainer, *_):
        self.count -= 1
        if self.count == 0:
            self.keep(trainer)
            if self.hook != "on_exception":
                raise RuntimeError("stopped")

    def stop(self, trainer, *_):
        trainer.should_stop |= trainer.global_step == self.count


def train(path, options, limits, hook="on_fit_end", count=0, fails=None, done=0):
    """What one start has trained behind `done`, the weights, and steps. It goes on from the checkpoint at `path`, and leaves one."""
    torch.manual_seed(0)
    module, save = Module(options["estimates"], fails), Save(path, hook, count)
    trainer = quiet(path.parent, callbacks=[rota.lightning.Elastic(), save][:: options["order"]], **{**options["trainer"], **limits})
    valid = plain(10, evaluation=True) if options["validates"] else None
    try:
        trainer.fit(module, plain(34, tail=options["tail"]), valid, ckpt_path=path if path.exists() else None, weights_only=False)
    except RuntimeError as error:
        assert str(error) == "stopped"
    if save.trained is None:
        save.keep(trainer)
    return module.seen[: max(save.trained - done, 0)], module.layer.weight.item(), trainer.global_step, trainer.fit_loop.epoch_loop._batches_that_stepped


def drawn(draw):
    """What all starts of a chain have in common."""
    trainer = {"accumulate_grad_batches": draw.choice([1, 1, 2, 3])} | draw.choice([{}, {}, {"limit_train_batches": 5}])
    validates = draw.choice([{}, {"val_check_interval": 3}, {"val_check_interval": 1.0}, {"val_check_interval": 1}])
    return dict(estimates=draw.random() < 0.3, order=draw.choice([1, -1]), tail=draw.choice(["pad", "drop", "partial"]),
                validates=bool(validates), trainer=trainer | validates)  # fmt: skip


def start(draw, steps):
    """The limits of a start, where it is saved, and where it fails."""
    hook = draw.choice([draw.choice(HOOKS), "on_exception", "should_stop", "on_fit_end"])
    limit = {"max_steps": draw.randint(0, steps)} if hook == "on_fit_end" else {}
    limits = draw.choice([{"max_epochs": 3}, {"max_epochs": -1, "max_steps": steps}, {"max_epochs": 3, "max_steps": 1000}]) | limit
    return limits, hook, {"on_fit_end": 0, "on_exception": 1}.get(hook, draw.randint(1, 12)), draw.randint(0, 9) if hook == "on_exception" else None


@pytest.mark.parametrize("seed", range(60))
def test_each_batch_is_trained_once_wherever_a_run_is_saved_and_ended(tmp_path, seed):
    draw = random.Random(seed)
    options = drawn(draw)
    whole, weight, steps, stepped = train(tmp_path / "whole", options, {"max_epochs": 3})
    assert len(whole) == 3 * (5 if "limit_train_batches" in options["trainer"] else 8 if options["tail"] == "drop" else 9)
    seen, starts = [], [start(draw, steps) for _ in range(draw.randint(1, 3))]
    starts[1:1] = [({"max_epochs": 3, "max_steps": 0},)] * (seed % 2)  # which has nothing to do, and keeps the place
    starts.append((draw.choice([{"max_epochs": 3}, {"max_epochs": 3, "max_steps": 1000}]),))
    for how in starts:
        trained, *found = train(tmp_path / "chain", options, *how, done=len(seen))
        seen += trained
        assert seen == whole[: len(seen)], (options, starts)
    assert seen == whole, (options, starts)
    if options["trainer"]["accumulate_grad_batches"] == 1:  # else gradients of a save's last batches are lost
        assert found[0] == pytest.approx(weight, abs=1e-6) and (found[2] == stepped or options["validates"]), (options, starts)


@pytest.mark.parametrize("trainer", [{}, {"limit_train_batches": 5}])
def test_a_save_in_an_epochs_last_validation_goes_on_without_it(tmp_path, trainer):
    options = dict(estimates=False, order=1, tail="pad", trainer=trainer, validates=False)
    whole, *_ = train(tmp_path / "whole", options, {"max_epochs": 3})
    first, *_ = train(tmp_path / "saved", options | {"validates": True}, {"max_epochs": 3}, "on_validation_end", 2)  # behind a trial
    assert len(first) == len(whole) // 3
    assert first + train(tmp_path / "saved", options, {"max_epochs": 3}, done=len(first))[0] == whole


def test_another_fit_of_a_trainer_goes_on_where_the_last_one_ended(tmp_path):
    whole, module = Module(), Module(fails=11)
    quiet(tmp_path, max_epochs=3).fit(whole, plain())
    trainer = quiet(tmp_path, max_steps=4)
    for steps, epochs, seen in (4, 3, 4), (9, 3, 9), (12, 3, 11), (12, 3, 12), (-1, 2, 18), (-1, 3, 27):
        trainer.fit_loop.epoch_loop.max_steps, trainer.fit_loop.max_epochs = steps, epochs
        with pytest.raises(RuntimeError, match="stopped") if seen == 11 else contextlib.nullcontext():
            trainer.fit(module, plain())
        assert len(module.seen) == seen
        module.fails = 11 if seen == 9 else None
    assert module.seen == whole.seen
    trainer.fit_loop.max_epochs = 4
    trainer.fit(module, plain(12))  # another dataset
    assert len(module.seen) == 30


def test_a_checkpoint_that_is_validated_moves_no_training(tmp_path):
    trainer, module = quiet(tmp_path, max_steps=4), Module()
    trainer.fit(Module(), plain())
    trainer.save_checkpoint(tmp_path / "middle")
    trainer = quiet(tmp_path)
    trainer.validate(module, plain(evaluation=True), ckpt_path=tmp_path / "middle", weights_only=False)
    trainer.save_checkpoint(tmp_path / "validated")
    trainer.fit(module, plain())
    assert sorted(sum(module.seen, ())) == [*range(36)]


def test_a_resume_in_the_middle_of_an_epoch_may_have_other_batches(tmp_path):
    for size in 2, 8, 12, 36:
        first, second = Module(), Module()
        trainer = quiet(tmp_path, max_steps=4)
        trainer.fit(first, plain())
        trainer.save_checkpoint(tmp_path / "middle")
        sampler = rota.ElasticBatchSampler(DATA, size, seed=1, world=(0, 1), tail="partial")
        quiet(tmp_path).fit(second, rota.torch.DataLoader(DATA, sampler), ckpt_path=tmp_path / "middle", weights_only=False)
        assert sorted(sum(first.seen + second.seen, ())) == [*range(36)]


# ---- what is refused ----


def test_a_trainer_without_a_loader_of_rotas_is_refused(tmp_path):
    refused(lambda: quiet(tmp_path).fit(Module(), torch.utils.data.DataLoader(DATA, 4)), rota.InvalidArgumentError, "rota.torch.DataLoader")


def test_loaders_whose_place_lightning_cannot_keep_are_refused(tmp_path):
    def mixed(**options):
        sampler = rota.ElasticBatchSampler([20, 16], 4, weights=[1, 1], world=(0, 1), **options)
        return rota.torch.DataLoader(DATA, sampler)

    refused(lambda: quiet(tmp_path).fit(Module(), mixed()), rota.UnsupportedError, 'end="steps"')
    refused(lambda: quiet(tmp_path).fit(Module(), {"a": plain(), "b": plain()}), rota.UnsupportedError, "several training loaders")
    refused(lambda: quiet(tmp_path).fit(Module(), plain(tail="carry")), rota.UnsupportedError, 'another tail than "carry"')
    for parts in dict(micro_batches=2), dict(micro_cost=9):
        dealt = dict(rank_split="balanced", balance=rota.Balance([1] * 36, **parts))
        refused(lambda: quiet(tmp_path).fit(Module(), plain(**dealt)), rota.UnsupportedError, "micro_cost")
    refused(lambda: quiet(tmp_path).fit(Module(), plain(evaluation=True)), rota.InvalidArgumentError, "evaluation=True")
    for samples, ranks in (34, 3), (36, 8):  # the last batch has two; each has four
        with pytest.raises(rota.UnsupportedError, match=f"{samples % 4 or 4} samples for {ranks} ranks"):
            quiet(tmp_path).fit(Module(), plain(samples, tail="partial", world=(0, ranks)))
    refused(lambda: quiet(tmp_path, overfit_batches=2).fit(Module(), plain()), rota.UnsupportedError, "overfit_batches")
    module = Module()
    quiet(tmp_path).fit(module, mixed(end="steps", steps=5))
    assert len(module.seen) == 5


class Paired(Module):
    def training_step(self, batch, number):
        return super().training_step(batch["a"], number)


@pytest.mark.parametrize("mode, steps", [("max_size_cycle", 0), ("max_size", 0), ("min_size", 9)])
def test_a_longer_loader_beside_it_is_refused_where_it_would_go_on(tmp_path, mode, steps):
    module, longer = Paired(), torch.utils.data.DataLoader(torch.zeros(11, 1))
    expected = contextlib.nullcontext() if steps else pytest.raises(rota.UnsupportedError, match="min_size")
    with expected:
        quiet(tmp_path).fit(module, CombinedLoader({"a": plain(), "b": longer}, mode))
    assert len(module.seen) == steps


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

    for module, batches in (Ahead(), 2), (Manual(), 1):
        refused(lambda: quiet(tmp_path).fit(module, plain()), rota.UnsupportedError, f"{batches} batches were drawn.*save between batches")
    assert (tmp_path / "manual").exists()


def test_a_loader_predicts_by_its_iterator(tmp_path):
    class Predicting(Module):
        def predict_step(self, batch, number):
            return batch

    refused(lambda: quiet(tmp_path).predict(Predicting(), plain(evaluation=True)), TypeError, "iter\\(loader\\)")
    found = quiet(tmp_path).predict(Predicting(), iter(plain(evaluation=True, shuffle="none")))
    assert torch.cat(found).equal(DATA)
