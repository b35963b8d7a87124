"""Ranks of torch.distributed, as what carries rota's calls: a group by gloo of their own."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from rota._errors import InvalidArgumentError, TimeoutError

_FOR_EVER = timedelta(days=3650)  # rota has deadlines of its own
_TO_CONNECT = timedelta(seconds=30)  # for ranks that are all there
_REST = timedelta(milliseconds=10)
_LOOK = 0.05  # seconds between two looks at who has come

_made: Counter[str] = Counter()  # groups of the same ranks that this process has made
_alive: set[Group] = set()


@atexit.register
def _end() -> None:
    """Lets no group die with Python: it would wait for what is under way on it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_alive))
    time.sleep(0.05)  # for threads of gloo that have a call of long ago, and want Python's lock to drop it


def _is_of_torch(error: RuntimeError) -> bool:
    """Whether what is called here raised it, and not a signal handler meanwhile."""
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename == __file__


def _to_reduce(how: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = how
    return options


_REDUCE = [_to_reduce(how) for how in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX)]


class _Call:
    """Under way; then calls `end`."""

    def __init__(self, group: Group, tensors: tuple, work: Any, end: Callable[[], None] = lambda: None) -> None:
        self._work, self._end = work, end
        group._recent.append((work, tensors))

    def advance(self, may_rest: bool) -> bool | None:
        """Whether it is complete; None where a rank has gone. It waits without Python's lock."""
        try:
            if may_rest:
                self._work.wait(_REST)
            elif not self._work.is_completed():
                return False
            else:
                self._work.wait()
        except RuntimeError as error:
            if not _is_of_torch(error):
                raise
            return _Call.advance(self, False) if may_rest else None  # it takes longer; or fails, and does so again
        self._end()
        return True


class _Duplication(_Call):
    def __init__(self, group: Group) -> None:
        all_are_here = torch.zeros(1)
        super().__init__(group, (all_are_here,), group._gloo.allreduce([all_are_here]))
        self._group = group
        self.made: Group | None = None

    def advance(self, may_rest: bool) -> bool | None:
        is_done = super().advance(may_rest)
        if is_done:
            try:
                self.made = self._group.split(list(range(self._group.size)))
            except RuntimeError as error:  # once: others may have connected
                if not _is_of_torch(error) or not self._group.lost():
                    raise
                return None
        return is_done


def _tensor(memory: memoryview, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.frombuffer(memory, dtype=dtype) if len(memory) else torch.empty(0, dtype=dtype)


def _packed(parts: list[memoryview]) -> torch.Tensor:
    """A copy, all in one."""
    return torch.cat([torch.empty(0, dtype=torch.uint8), *(_tensor(part) for part in parts if len(part))])


class Group:
    """`rank` of `size`: calls of all ranks by gloo, messages beside them by a store of torch.distributed.

    See src/ranks/transport.hpp, which it fulfils by way of python/src/group_transport.cpp.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._store, self._children, self._taken = store, 0, 0
        # A thread of gloo may be the last that has a call. It would want Python's lock then, and abort where Python ends.
        self._recent: deque[Any] = deque(maxlen=64)
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, _TO_CONNECT)
        self._gloo._set_default_timeout(_FOR_EVER)
        self._is_closed, self._has_store, self._next_probe = False, True, 0.0
        _alive.add(self)

    @classmethod
    def of(cls, group: Any, task: str, deadline: float) -> Group | None:
        """**Collective** over `group` of torch.distributed; None where it has one rank. Waits for them by `deadline`."""
        members = dist.get_process_group_ranks(group)
        if len(members) == 1:
            return None
        name = hashlib.blake2b(str(members).encode(), digest_size=16).hexdigest()
        _made[name] += 1
        store = dist.PrefixStore(f"rota/{name}/{_made[name]}", dist.distributed_c10d._get_default_store())
        rank = members.index(dist.get_rank())
        _meet(store, rank, len(members), task, deadline)
        return cls(store, rank, len(members))

    def split(self, members: list[int]) -> Group | None:
        """Another one, of these ranks; all ranks count them."""
        self._children += 1
        if len(members) == 1:
            return None
        store = dist.PrefixStore(f"{self._children}.{members[0]}", self._store)
        return Group(store, members.index(self.rank), len(members))

    def close(self) -> None:
        """To be used no more. It dies with a later one, when all ranks have closed it: some may still be connecting."""
        self._is_closed = True
        self._ask(lambda store: store.add("closed", 1))
        for group in [*_alive]:
            if group._is_closed and all(work.is_completed() for work, _ in group._recent):
                if group._ask(lambda store: store.add("closed", 0)) == group.size:
                    _alive.discard(group)

    # ---- calls ----

    def _reduce(self, values: torch.Tensor, how: int) -> _Call:
        return _Call(self, (values,), self._gloo.allreduce([values], _REDUCE[how]))

    def reduce(self, values: memoryview, how: int) -> _Call:
        return self._reduce(_tensor(values, torch.int64), how)

    def sum(self, values: memoryview) -> _Call:
        return self._reduce(_tensor(values, torch.float64), 0)

    def broadcast(self, memory: memoryview, source: int) -> _Call:
        options = dist.BroadcastOptions()
        options.rootRank = source
        bytes = _tensor(memory)
        return _Call(self, (bytes,), self._gloo.broadcast([bytes], options))

    def exchange(self, outgoing: list[memoryview], incoming: list[memoryview]) -> _Call:
        outgoing[self.rank] = incoming[self.rank] = memoryview(b"")
        sizes = [len(part) for part in incoming]
        sent, room = _packed(outgoing), torch.empty(sum(sizes), dtype=torch.uint8)

        def unpack() -> None:
            for part, came in zip(incoming, room.split(sizes)):
                if len(part):
                    _tensor(part).copy_(came)
            room.untyped_storage().resize_(0)
            sent.untyped_storage().resize_(0)

        work = self._gloo.alltoall_base(room, sent, sizes, [len(part) for part in outgoing])
        return _Call(self, (sent, room), work, unpack)

    def duplicate(self) -> _Call:
        return _Duplication(self)

    # ---- beside them ----

    def post(self, to: int, text: bytes) -> None:
        def add(store: Any) -> None:
            number = store.add(f"posted to {to}", 1)
            store.set(f"to {to}: {number}", f"{self.rank} {text.decode()}")

        self._ask(add)

    def take(self) -> tuple[int, bytes] | None:
        return self._ask(self._next_mail)

    def _next_mail(self, store: Any) -> tuple[int, bytes] | None:
        key = f"to {self.rank}: {self._taken + 1}"
        if not store.check([key]):
            return None
        self._taken += 1
        sender, _, text = store.get(key).decode().partition(" ")
        store.delete_key(key)
        return int(sender), text.encode()

    def _ask(self, what: Callable[[Any], Any]) -> Any:
        """Of the store. It goes with the process that has it, which calls then find."""
        try:
            return what(self._store) if self._has_store else None
        except RuntimeError as error:
            if not _is_of_torch(error):
                raise
            self._has_store = False
            return None

    def lost(self) -> list[int]:
        """Those whose connections are closed, which a message to them shows at once; looked for now and then."""
        if time.monotonic() < self._next_probe:
            return []
        self._next_probe = time.monotonic() + _LOOK
        return [rank for rank in range(self.size) if rank != self.rank and not self._is_there(rank)]

    def _is_there(self, rank: int) -> bool:
        try:
            self._gloo.send([torch.zeros(1, dtype=torch.uint8)], rank, 0)
        except RuntimeError as error:
            if not _is_of_torch(error):
                raise
            return False
        return True


def _meet(store: Any, rank: int, size: int, task: str, deadline: float) -> None:
    """Waits until all have come; names those who do not."""
    keys = [f"here {other}" for other in range(size)]
    store.set(keys[rank], "")
    until = time.monotonic() + deadline
    late = ""
    while not store.check(keys) and not store.check(["late"]):
        if 0 < deadline and until < time.monotonic():
            late = ", ".join(str(other) for other in range(size) if not store.check([keys[other]]))
            break
        time.sleep(_LOOK)
    late = store.compare_set("late", "", late or "none").decode()  # what is said first holds for all
    if late != "none":
        names = f"rank{'s' * (',' in late)} {late}"
        raise TimeoutError(f"{task}: {names} did not arrive before the deadline; all ranks must come here")


def group_of(what: Any) -> Any:
    """The process group that `what` is, or that a dimension of a DeviceMesh has; None where it is neither."""
    if isinstance(what, dist.ProcessGroup):
        return what
    if hasattr(what, "get_group") and hasattr(what, "ndim"):
        if what.ndim != 1:
            raise InvalidArgumentError(
                f'take the ranks of a DeviceMesh: it has {what.ndim} dimensions; name the one of data-parallel ranks: mesh["dp"]'
            )
        return what.get_group()
    return None
