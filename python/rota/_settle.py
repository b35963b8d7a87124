"""What became of samples that were handed out: of loaders and samplers that are settled by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rota import _rota
from rota._communicator import needed_ranks
from rota._values import SkippedSample


class OpenSamples(NamedTuple):
    """How many samples are out: handed out, and not settled, dropped or given up; and what comes again."""

    out: int
    oldest_seconds: float
    to_come: int


class Settling:
    """Of `settle="by_hand"`: what was handed out is open until one of these methods says what became of it.

    They may be called from any thread, also while another waits for a batch. Samples are named by a batch, or its
    info; by `Index`, or a list of those; or by `ids` and `epochs`, arrays or numbers. Each is for all that it names, or
    raises InvalidArgumentError for a sample that is not out, and does nothing.
    """

    _ledger: Any

    def settle(self, samples: Any, epochs: Any = None) -> None:
        """They are trained on."""
        self._ledger.settle(samples, epochs)

    def drop(self, samples: Any, epochs: Any = None, *, reason: str) -> None:
        """They are not, and do not come again in their epoch: listed by `dropped`, counted by reason."""
        self._ledger.drop(samples, epochs, reason)

    def again(self, samples: Any = None, epochs: Any = None) -> None:
        """They are given up, and come again: behind what is read ahead, in whole batches; the rest at the end.

        Of several ranks, after `merge`. Without arguments: all that are out.
        """
        if samples is None and epochs is None:
            self._ledger.again_all()
        else:
            self._ledger.again(samples, epochs)

    def try_settle(self, samples: Any, epochs: Any = None) -> list[bool]:
        """Settles those that are open, given up ones, too, unless they are out again; for each whether it was open."""
        return self._ledger.try_settle(samples, epochs)

    @property
    def open(self) -> OpenSamples:
        """What is out, and what comes again."""
        return OpenSamples(*self._ledger.counts())

    @property
    def dropped(self) -> dict[str, int]:
        """How many samples were dropped, by reason, in the whole run, as far as is known here."""
        return self._ledger.dropped()["counts"]

    @property
    def dropped_samples(self) -> list[SkippedSample]:
        """This rank's part of a restored checkpoint's list, then its own, up to 1,000; the reason is their `error`."""
        return self._ledger.dropped()["samples"]

    def merge(self: Any, comm: Any = ...) -> None:
        """What is open on some rank is known to all: `state_dict`, called next, is that of the run. **Collective.**

        What was given up comes again, in lockstep. `comm` is what `rota.Communicator` takes; left out, all ranks of
        torch.distributed. Meanwhile other threads may settle, drop or give up, but take no state.
        """
        self._merge(needed_ranks(comm, "merge what is open", self.world))


def merge_states(states: Sequence[dict[str, str]]) -> dict[str, str]:
    """Of what `state_dict` returned on each rank behind the same batch, that of the run. In any order."""
    texts = [state["rota"] for state in states]
    return {**states[0], "rota": _rota.merge_states(texts)} if states else {"rota": _rota.merge_states(texts)}
