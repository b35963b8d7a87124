"""Options of torch's that rota has under other names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

WORDS = {
    "batch_size": "global_batch_size, over all ranks",
    "num_workers": "workers, which are threads; of processes, num_workers of rota.torch.DataLoader",
    "drop_last": 'tail="drop"',
    "num_replicas": "world=(rank, size)",
    "rank": "world=(rank, size)",
    "replacement": "none: every sample comes once an epoch",
    "num_samples": "none: an epoch has all samples",
    "generator": "seed",
    "sampler": "shuffle, and seed",
    "batch_sampler": "shuffle, and seed; of an order for torch's DataLoader, rota.ElasticBatchSampler",
    "collate_fn": "collate, which gets a dict of arrays; of torch's, collate_fn of rota.torch.DataLoader",
    "pin_memory": "allocator=rota.torch.pinned()",
    "prefetch_factor": "read_ahead_batches",
    "persistent_workers": "none: workers live as long as the loader",
    "worker_init_fn": "transform, which workers call",
    "timeout": "slow_after, or deadline",
    "in_order": "none: batches always come in order",
}

_Init = TypeVar("_Init", bound=Callable[..., None])


def in_rotas_words(init: _Init) -> _Init:
    """Refuses an option of torch's by saying which one is rota's."""
    known = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        for name in options:
            if name in WORDS and name not in known:
                raise TypeError(
                    f"make a {type(self).__name__}: there is no option {name}; rota's option is {WORDS[name]}"
                )
        init(self, *args, **options)

    return checked  # type: ignore
