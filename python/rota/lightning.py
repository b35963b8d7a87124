"""rota in Lightning's Trainer: a callback that keeps the place of the training loader in checkpoints.

>>> import lightning, rota, rota.lightning, rota.torch                                        # doctest: +SKIP
>>> trainer = lightning.Trainer(max_epochs=3, callbacks=[rota.lightning.Elastic()])           # doctest: +SKIP
>>> trainer.fit(module, rota.torch.DataLoader(dataset, sampler), ckpt_path="last")            # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from rota._errors import InvalidArgumentError
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
        self._saved: list[Any] = []

    def _loaders(self) -> list[DataLoader]:
        loaders = [one for one in self._trainer.fit_loop._combined_loader.flattened if isinstance(one, DataLoader)]
        if not loaders:
            raise InvalidArgumentError("train elastically: no training loader is a rota.torch.DataLoader")
        return loaders

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Called by Lightning."""
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """Called by Lightning: where the training loaders are."""
        return {"loaders": [loader.state_dict() for loader in self._loaders()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by Lightning."""
        self._saved = state_dict["loaders"]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        for loader, state in zip(self._loaders(), self._saved):
            loader.load_state_dict(state)
        loop = trainer.fit_loop
        progress = loop.epoch_progress.current
        # Behind a checkpoint of an epoch's last batch Lightning 2.6 goes on in that epoch, which it counts once only.
        if self._saved and loop.restarted_mid_epoch and progress.processed == progress.ready:
            loop.reset_restart_stage()
        self._saved = []

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        for loader in self._loaders():
            loader.set_epoch(trainer.current_epoch)
