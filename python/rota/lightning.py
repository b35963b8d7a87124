"""rota in Lightning's Trainer: a callback that keeps the place of the training loader in checkpoints.

>>> import lightning, rota, rota.lightning, rota.torch                                        # doctest: +SKIP
>>> trainer = lightning.Trainer(max_epochs=3, callbacks=[rota.lightning.Elastic()])           # doctest: +SKIP
>>> trainer.fit(module, rota.torch.DataLoader(dataset, sampler), ckpt_path="last")            # doctest: +SKIP
"""

from __future__ import annotations

import operator
from typing import Any

from rota._errors import InvalidArgumentError, UnsupportedError
from rota.torch import DataLoader

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

__all__ = ["Elastic"]


class Elastic(Callback):
    """Goes on behind the last batch trained, in any world, from whatever checkpoint Lightning has made.

    Lightning itself restores a loader in the middle of an epoch alone. So checkpoints have the place here, too. Each of
    Lightning's epochs begins at the first sample of one, if `limit_train_batches` has left the one before early, too.
    """

    def __init__(self) -> None:
        self._trainer: Any = None
        self._saved: Any = None

    def _loader(self) -> Any:
        combined = self._trainer.fit_loop._combined_loader
        if combined is None:
            return None  # there is none yet
        loaders = [one for one in combined.flattened if isinstance(one, DataLoader)]
        if not loaders:
            raise InvalidArgumentError("train elastically: no training loader is a rota.torch.DataLoader")
        if len(loaders) > 1:  # Lightning begins the shorter ones anew, and counts that nowhere
            raise UnsupportedError("train elastically: several training loaders; mix their datasets in one sampler, by weights=")
        if operator.length_hint(loaders[0], -1) < 0:  # Lightning draws a batch of these ahead of the one in hand
            raise UnsupportedError('train elastically: a mixture without a length; make its sampler with end="steps" and steps=')
        if loaders[0]._order._evaluation:
            raise InvalidArgumentError("train elastically: the sampler of the training loader has evaluation=True, and keeps no place")
        if loaders[0]._order._options["tail"] == "carry":  # Lightning takes the first epoch's length for all
            raise UnsupportedError('train elastically: epochs of several lengths; make the sampler with another tail than "carry"')
        return loaders[0]

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Called by Lightning."""
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """Called by Lightning: where the training loader is."""
        loader = self._loader()
        return {} if loader is None else {"loader": loader.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by Lightning."""
        if self._trainer.state.fn == "fit":  # what validates may load one, too
            self._saved = state_dict.get("loader")

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        loader, saved, self._saved = self._loader(), self._saved, None
        if saved is None:
            return
        loader.load_state_dict(saved)
        loop = trainer.fit_loop
        epochs, at, batches = loop.epoch_progress.current, loader.position, loop.epoch_loop.batch_progress.current.ready
        # Behind a checkpoint of an epoch's last batch Lightning 2.6 goes on in that epoch, which it counts once only.
        if loop.restarted_mid_epoch and epochs.processed == epochs.ready:
            loop.reset_restart_stage()
        # One of an epoch's start has the batches of the epoch before.
        if loop.restarted_on_epoch_start:
            loop.epoch_loop.restarting = False
        # An epoch that was left early, by `should_stop` or `max_steps`, counts as complete; and its rest would be lost.
        if at.consumed and at.epoch < trainer.current_epoch and batches < loop.max_batches:
            epochs.ready = epochs.started = at.epoch + 1
            epochs.processed = epochs.completed = at.epoch
            loop._restart_stage = "restarted_mid_epoch"
            loop.epoch_loop.restarting = True

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        self._loader().set_epoch(trainer.current_epoch)
