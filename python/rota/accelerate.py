"""rota in Hugging Face's Accelerate: a loader on the accelerator's device that tells of an epoch's last batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import send_to_device

import rota.torch
from rota._errors import UnsupportedError

__all__ = ["DataLoader"]


class DataLoader(rota.torch.DataLoader):
    """`rota.torch.DataLoader` for `accelerator.prepare`, which leaves it as it is. `save_state` keeps its place.

    Batches are on the accelerator's device. `accumulate` takes an epoch's last batch for the end of an accumulation,
    and `gather_for_metrics` leaves out what pads the last batch. A prepared scheduler takes one step for each of the
    optimizer.
    """

    end_of_dataloader = False
    remainder = -1
    _has_trained = False  # in this process, one of them

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._skips or self._order._options["rank_split"] != "by_sample":
            raise UnsupportedError(
                "iterate in Accelerate: gather_for_metrics leaves out the last samples of a batch, and others would be "
                "to be left out "
                'with on_bad_sample="skip" or another rank_split than "by_sample"; use a rota.torch.DataLoader, and '
                "its info.mask"
            )
        order = self._order
        last = order.samples % order.global_batch_size if order._options["tail"] == "partial" else 0
        for size in (last, order.global_batch_size if order._evaluation else 0):
            if size % order.world.size:
                raise UnsupportedError(
                    f"iterate in Accelerate: a batch of {size} samples for {order.world.size} ranks; "
                    "gather_for_metrics takes as many "
                    'from each: let the batch be a multiple of the ranks, and leave tail="partial" out, as pads are '
                    'left out of metrics'
                )
        DataLoader._has_trained = DataLoader._has_trained or not order._evaluation
        state, device = GradientState(), AcceleratorState().device
        self.end_of_dataloader, self.remainder = False, 0
        state._add_dataloader(self)
        try:
            for batch in super().__iter__():
                self.end_of_dataloader = self.info.end.epoch != self.info.start.epoch and not self._order._is_mixture
                self.remainder = self.info._batch.global_real % self._order.global_batch_size
                yield send_to_device(batch, device)
        finally:
            state._remove_dataloader(self)


def _step(self: AcceleratedScheduler, *given: Any, **named: Any) -> None:
    """Once, where Accelerate would step for each process: others' global batch grows with them, and rota's does not."""
    active = self.gradient_state.active_dataloader
    if isinstance(active, DataLoader) or (active is None and DataLoader._has_trained):
        self.split_batches = True
    _step_of_accelerate(self, *given, **named)


_step_of_accelerate, AcceleratedScheduler.step = AcceleratedScheduler.step, _step
