"""rota in Lightning's Trainer: a callback that keeps the place of the training loader in checkpoints.

>>> import lightning, rota, rota.lightning, rota.torch                                        # doctest: +SKIP
>>> trainer = lightning.Trainer(max_epochs=3, callbacks=[rota.lightning.Elastic()])           # doctest: +SKIP
>>> trainer.fit(module, rota.torch.DataLoader(dataset, sampler), ckpt_path="last")            # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

from rota import _rota
from rota._errors import InvalidArgumentError, UnsupportedError
from rota.torch import DataLoader

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

__all__ = ["Elastic"]
_STAGES = "ready", "started", "processed", "completed"  # of what Lightning counts


def _require_lightning_keeps(loader: DataLoader) -> None:
    """That Lightning's count of batches says where `loader` is, and that all ranks take all steps."""
    order, tail = loader._order, loader._order._options["tail"]
    if order._has_parts:  # Lightning's count of batches is not of steps then
        raise UnsupportedError(
            "train elastically: a balance with micro_batches= or micro_cost=; leave them out, and let Lightning "
            "accumulate batches"
        )
    if operator.length_hint(loader, -1) < 0:  # Lightning draws a batch of these ahead of the one in hand
        raise UnsupportedError(
            'train elastically: a mixture without a length; make its sampler with end="steps" and steps='
        )
    if order._evaluation:
        raise InvalidArgumentError(
            "train elastically: the sampler of the training loader has evaluation=True, and keeps no place"
        )
    if tail == "carry":  # Lightning takes the first epoch's length for all
        raise UnsupportedError(
            'train elastically: epochs of several lengths; make the sampler with another tail than "carry"'
        )
    least = order.samples % order.global_batch_size if tail == "partial" else 0
    if (least or order.global_batch_size) < order.world.size and not order._is_mixture:
        raise UnsupportedError(
            f"train elastically: a batch of {least or order.global_batch_size} samples for {order.world.size} ranks; "
            "one that has none "
            'takes no step in Lightning, and others would wait for it: leave tail="partial" out, or take larger batches'
        )


class Elastic(Callback):
    """Goes on behind the last batch trained, in any world, from whatever checkpoint Lightning has made.

    Lightning itself restores a loader in the middle of an epoch alone. So checkpoints have the place here, too, and
    Lightning's counts of epochs and batches as they are of one. Each of Lightning's epochs begins at the first sample
    of one, if `limit_train_batches` has left the one before early, too.
    """

    def __init__(self) -> None:
        self._saved: Any = None  # a state that was loaded, until training begins there
        self._ended: Any = None  # where a fit has ended: its trainer, and the state and counts
        self._first = 0  # the loader's step where Lightning's count of batches is 0
        self._steps = 0  # of optimizers, up to the last batch's end

    def _loader(self, trainer: Any) -> Any:
        combined = trainer.fit_loop._combined_loader
        if combined is None:
            return None  # there is none yet
        loaders = [one for one in combined.flattened if isinstance(one, DataLoader)]
        if not loaders:
            raise InvalidArgumentError("train elastically: no training loader is a rota.torch.DataLoader")
        if len(loaders) > 1:  # Lightning begins the shorter ones anew, and counts that nowhere
            raise UnsupportedError(
                "train elastically: several training loaders; mix their datasets in one sampler, by weights="
            )
        _require_lightning_keeps(loaders[0])
        limits = dict(zip(map(id, combined.flattened), combined.limits))
        if combined._mode != "min_size" and limits[id(loaders[0])] < max(limits.values()):
            raise UnsupportedError(
                f"train elastically: beside a longer loader, which {combined._mode!r} goes through, this one would be "
                "begun anew, or give "
                'nothing; pass CombinedLoader(loaders, "min_size"), or make the other one no longer'
            )
        return loaders[0]

    def _place(self, trainer: Any, loader: DataLoader) -> tuple[dict[str, str], dict[str, Any]]:
        """The state behind what is trained; and of Lightning's loop, as if it were of there."""
        loop, order = trainer.fit_loop, loader._order
        epochs, batches = loop.epoch_progress.current, loop.epoch_loop.batch_progress
        state, in_hand = loader.state_dict(), loader.position.step - self._first - batches.total.processed
        if epochs.started < epochs.ready or epochs.processed == epochs.ready:
            in_hand = 0
        is_automatic = trainer.lightning_module.automatic_optimization
        if in_hand > 1 or (in_hand and not is_automatic and trainer.global_step != self._steps):
            raise UnsupportedError(
                f"save a checkpoint: {in_hand} batches were drawn that are not all trained, or one was in part, by an "
                "optimizer of the module's own (automatic_optimization = False); save between batches"
            )
        if in_hand == 1:
            run: Any = _rota.Run(order._run)
            run.seek(loader.info.start)
            state = {**state, "rota": run._state()}
        epoch, done = epochs.processed, batches.current.processed
        if epochs.started < epochs.ready:
            done = 0  # of the epoch before
        elif epochs.processed == epochs.ready:
            # By `max_steps` or `should_stop`: the rest is to come.
            is_left = 0 < done < loop.max_batches and not batches.is_last_batch
            epoch, done = (epoch - 1, done) if is_left else (epoch, 0)
        elif done == loop.max_batches and batches.current.completed < done:
            epoch, done = epoch + 1, 0
        counts = loop.state_dict()
        stepped = batches.current.completed < batches.current.processed and not loop._should_accumulate()
        counts["epoch_loop.state_dict"]["_batches_that_stepped"] += stepped
        counts["epoch_loop.batch_progress"]["is_last_batch"] = done == loop.max_batches
        for kind, number in ("current", done), ("total", batches.total.processed):
            counts["epoch_loop.batch_progress"][kind].update(dict.fromkeys(_STAGES, number))
            counts["epoch_progress"][kind].update(dict.fromkeys(_STAGES, epoch))
            counts["epoch_progress"][kind].update(dict.fromkeys(_STAGES[:2], epoch + (done > 0)))
        return state, counts

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Called by Lightning."""
        if stage == "fit" and trainer.overfit_batches:
            raise UnsupportedError(
                "train elastically: overfit_batches= makes loaders anew, in another order; give a small dataset instead"
            )
        if stage == "fit" and self._ended and self._ended[0] is trainer:  # another fit of it, which goes on there
            _, state, counts = self._ended
            trainer.fit_loop.load_state_dict(counts)
            if counts["epoch_progress"]["current"]["ready"] > counts["epoch_progress"]["current"]["processed"]:
                self._saved = state  # else an epoch begins, perhaps of another dataset

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Called by Lightning: keeps where the training loader is."""
        state, loader = self._saved, self._loader(trainer)
        if state is None and loader is not None:
            state, checkpoint["loops"]["fit_loop"] = self._place(trainer, loader)
        if state is not None:
            checkpoint["callbacks"][self.state_key] = {"loader": state}

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Called by Lightning."""
        if trainer.state.fn == "fit":  # what validates may load one, too
            self._saved, self._ended = checkpoint["callbacks"].get(self.state_key, {}).get("loader"), None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        loader, saved, self._saved = self._loader(trainer), self._saved, None
        loop, order = trainer.fit_loop, loader._order
        batches = loop.epoch_loop.batch_progress
        if saved is not None:
            loader.load_state_dict(saved)
        if saved is not None and loop.restarted_mid_epoch:
            done, at = batches.current.ready, loader.position
            if not order._is_mixture:  # whose batches may be of another size now
                left = order.samples - at.consumed if at.epoch == trainer.current_epoch else 0
                size = order.global_batch_size
                done = len(loader) - (left // size if order._options["tail"] == "drop" else -(-left // size))
            done = min(done, loop.max_batches)
            batches.current.load_state_dict(dict.fromkeys(_STAGES, done))
            batches.is_last_batch = done == loop.max_batches
            order._rules.end_epoch(batches.is_last_batch)
        self._first = loader.position.step - batches.total.processed
        self._steps = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Called by Lightning."""
        self._steps = trainer.global_step

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        loader = self._loader(trainer)
        loader.set_epoch(trainer.current_epoch)
        self._first = loader.position.step - trainer.fit_loop.epoch_loop.batch_progress.total.processed

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        self._ended = trainer, *self._place(trainer, self._loader(trainer))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Called by Lightning."""
        self._ended = None
        if trainer.state.fn == "fit" and trainer.fit_loop._data_fetcher is not None and self._saved is None:
            with contextlib.suppress(UnsupportedError):  # which would hide `exception`
                self.on_train_end(trainer, pl_module)
