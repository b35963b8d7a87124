"""Which batches of a rota.torch.DataLoader are in use, and by whom they are drawn."""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from rota._errors import InvalidArgumentError
from rota._indices import BatchInfo

_FOR = dis.opmap["FOR_ITER"]


def tensors_in(batch: Any) -> list[Any]:
    """What a batch consists of, and can be watched: up to 16 tensors, arrays, objects."""
    found, todo = list[Any](), [batch]
    while todo and len(found) < 16:
        one = todo.pop()
        if isinstance(one, (list, tuple, Mapping)):
            todo += reversed(list(one.values() if isinstance(one, Mapping) else one)[:16])
        elif not isinstance(one, (str, bytes, int, float, complex, type(None))):
            found.append(one)
    return found


class InUse:
    """The batches of a loader that are in use, and who draws them."""

    def __init__(self) -> None:
        self._infos: dict[int, tuple[Any, Any, int]] = {}  # with the number of its `for`
        self._fors = 0
        self._drawer = self._frame = 0
        self._code: Any = None  # of the frame whose `for` draws; nothing else tells that a batch is in hand
        self._count = 0  # of this `for`
        self._is_in_hand = False  # what was drawn last: nothing draws ahead
        self.last: Any = None

    def begin(self) -> None:
        self._count, self._is_in_hand, self._fors = 0, False, self._fors + 1

    def note(self, batch: Any, info: BatchInfo, frame: Any) -> None:
        """`frame` draws it."""
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "rota":
            frame = frame.f_back
        self._drawer, self._frame, self._code = threading.get_ident(), id(frame), None
        if frame is not None and frame.f_code.co_code[frame.f_lasti] == _FOR:
            self._code = frame.f_code
        self._count += 1
        self.last = info
        for one in tensors_in(batch):
            with contextlib.suppress(TypeError):
                its: Any = None if self._infos.get(id(one)) else info  # None of what several batches share
                gone: Any = functools.partial(self._infos.pop, id(one))  # with the dead reference as what there was
                self._infos[id(one)] = weakref.ref(one, gone), its, self._fors

    def find(self, batch: Any) -> Any:
        noted = [self._infos.get(id(one), (None, ..., 0))[1] for one in tensors_in(batch)]
        found = [info for info in noted if info is not None]
        if not found or found[0] is ... or any(info is not found[0] for info in found):
            raise InvalidArgumentError(
                "find the info of a batch: this loader has delivered none of these very tensors together; a copy is "
                "another one, also on another device: ask before it is copied, or put into the batch what you need (a "
                "collate that takes indices)"
            )
        return found[0]

    def is_ahead(self) -> bool:
        """Whether the batch in hand may be another than the last one."""
        if self._count == 0 or self._is_in_hand:
            return False
        frame: Any = sys._getframe(1)
        while frame is not None and (id(frame) != self._frame or frame.f_code is not self._code):
            frame = frame.f_back
        there = {id(info) for _, info, number in [*self._infos.values()] if number == self._fors and info is not None}
        if frame is None and self._count > 1 and there - {id(self.last)}:
            return True  # something in between has drawn several, which are there
        self._is_in_hand = self._count == 1 or frame is not None
        return False

    def is_elsewhere(self) -> bool:
        """Whether another thread draws, whose batches may be used here."""
        return self._count > 0 and self._drawer not in (threading.get_ident(), 0)

    def is_fed(self) -> bool:
        """Whether a thread beside the main one draws for others."""
        return self.is_elsewhere() and self._drawer != threading.main_thread().ident


def require_rows(batch: Any, size: int) -> None:
    rows = [len(one) for one in tensors_in(batch) if getattr(one, "ndim", 0) > 0]
    if rows and size not in rows:
        raise InvalidArgumentError(
            f"collate a batch of {size} samples: its tensors have {', '.join(map(str, rows))} rows, so that the mask "
            "would hit others; give collate_fn a parameter `indices`: it then gets those of the samples, which have "
            "is_pad, and can keep them together"
        )
