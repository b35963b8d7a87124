"""Ranks of torch.distributed, as what carries rota's calls: a group by gloo of their own."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from rota._errors import ALONE, InvalidArgumentError, TimeoutError, tell
from rota._values import check_torch

_FOR_EVER = timedelta(days=3650)  # rota has deadlines of its own
_TO_CONNECT = 30.0  # seconds, for ranks that are all there
_REST = timedelta(milliseconds=10)
_PATIENCE = 5.0  # seconds until a wait for ranks is told
_LOOK = 0.05  # seconds between two looks at who has come
_TO_ANSWER = 5.0  # seconds for a store; the process that has it may hang
# Of calls, other than to connect: not in torch 2.0.
_HAS_TIMEOUTS = hasattr(dist.ProcessGroupGloo, "_set_default_timeout")

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


class _Split(_Call):
    """Connects `members`, each of them those that are there; complete when all ranks have."""

    def __init__(self, group: Group, members: list[int], store: Any) -> None:
        self.made: Group | None = None
        self._failed: TimeoutError | None = None
        try:
            if len(members) > 1:
                self.made = Group(
                    store, group._asker, members.index(group.rank), len(members), group._job, group._to_connect
                )
        except TimeoutError as error:
            self._failed, self._until = error, time.monotonic() + 5
            return
        all_have = torch.zeros(1)
        super().__init__(group, (all_have,), group._gloo.allreduce([all_have]))

    def advance(self, may_rest: bool) -> bool | None:
        if self._failed is None:
            return super().advance(may_rest)
        if self._until < time.monotonic():
            raise self._failed
        return None  # who has gone is found first, or who is late


def _tensor(memory: memoryview, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.frombuffer(memory, dtype=dtype) if len(memory) else torch.empty(0, dtype=dtype)


class _Asker:
    """Asks a store of torch.distributed by a thread of its own: it goes, or hangs, with the process that has it."""

    _last: tuple[Any, Any] = None, None

    def __init__(self) -> None:
        self._has_store, self._since = True, math.inf  # when it was asked what it has not answered yet
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._answer, name="rota asks a store", daemon=True).start()

    @classmethod
    def of(cls, store: Any) -> _Asker:
        """One for all groups that have the same."""
        if cls._last[0] is not store:
            cls._last = store, cls()
        return cls._last[1]

    def _answer(self) -> None:
        while True:
            what, answers = self._asked.get()
            self._since = time.monotonic()
            try:
                answer: tuple[Any, Any] = what(), None
            except Exception as error:
                answer = None, error
            self._since = math.inf
            answers.put(answer)

    def begin(self, what: Callable[[], Any]) -> Any:
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked.put((what, answers)) if self._has_store else answers.put((None, None))
        return answers

    def end(self, answers: Any, patience: float) -> Any:
        """The answer; None where there is no store any more, which calls then find; ... where it did not come."""
        try:
            answer, error = answers.get(timeout=max(0.0, min(patience, self._since + _TO_ANSWER - time.monotonic())))
        except queue.Empty:
            return ...
        self._has_store = not isinstance(error, RuntimeError)
        if error is not None and self._has_store:
            raise error
        return answer

    def ask(self, what: Callable[[], Any]) -> Any:
        """What `what` returns; None where there is no store any more, or none that answers."""
        answer = self.end(self.begin(what), _TO_ANSWER)
        return None if answer is ... else answer


class _Store(dist.PrefixStore):
    if not hasattr(dist.PrefixStore, "check"):  # in torch 2.0

        def check(self, keys: list[str]) -> bool:
            """Whether all are there; none has "-"."""
            return all(self.compare_set(key, "-", "-") != b"-" for key in keys)


class Group:
    """`rank` of `size`: calls of all ranks by gloo, messages beside them by a store of torch.distributed.

    See src/ranks/transport.hpp, which it fulfils by way of python/src/group_transport.cpp.
    """

    def __init__(self, store: Any, asker: _Asker, rank: int, size: int, job: Any, to_connect: float) -> None:
        self.rank, self.size, self._asker, self._job, self._to_connect = rank, size, asker, job, to_connect
        self._store, self._children, self._taken, self._mail = store, 0, 0, None
        # A thread of gloo may be the last that has a call. It wants Python's lock then, and aborts where Python ends.
        self._recent: deque[Any] = deque(maxlen=64)
        try:
            limit = timedelta(seconds=to_connect) if _HAS_TIMEOUTS else _FOR_EVER
            self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, limit)
        except RuntimeError as error:
            raise TimeoutError(
                f"connect ranks: one has ended meanwhile, or the network failed ({error}); end the job"
            ) from error
        if _HAS_TIMEOUTS:
            self._gloo._set_default_timeout(_FOR_EVER)
        self._is_closed, self._next_probe = False, 0.0
        _alive.add(self)

    @classmethod
    def of(cls, group: Any, task: str, deadline: float) -> Group | None:
        """**Collective** over `group` of torch.distributed; None of one rank. Waits for them by `deadline`."""
        check_torch(torch)
        members = dist.get_process_group_ranks(group)
        if len(members) == 1:
            return None
        name = hashlib.blake2b(str(members).encode(), digest_size=16).hexdigest()
        _made[name] += 1
        theirs = dist.distributed_c10d._get_default_store()
        job, asker = _Store(f"rota/{name}", theirs), _Asker.of(theirs)
        store = _Store(str(_made[name]), job)
        rank = members.index(dist.get_rank())
        _meet(store, asker, rank, len(members), task, deadline)
        return cls(store, asker, rank, len(members), job, min(_TO_CONNECT, deadline or _TO_CONNECT))

    def close(self) -> None:
        """To be used no more. It dies with a later one, when all ranks have closed it: some may still be connecting."""
        self._is_closed = True
        self._closed(1)
        for group in [*_alive]:
            if group._is_closed and all(work.is_completed() for work, _ in group._recent):
                if group._closed(0) == group.size:
                    _alive.discard(group)

    def _closed(self, more: int) -> Any:
        """How many ranks have closed it."""
        return self._asker.ask(lambda: self._store.add("closed", more))

    # ---- calls ----

    def reduce(self, memory: memoryview, dtype: str, how: int) -> _Call:
        values = _tensor(memory, getattr(torch, dtype))
        return _Call(self, (values,), self._gloo.allreduce([values], _REDUCE[how]))

    def broadcast(self, memory: memoryview, source: int) -> _Call:
        options = dist.BroadcastOptions()
        options.rootRank = source
        bytes = _tensor(memory)
        return _Call(self, (bytes,), self._gloo.broadcast([bytes], options))

    def exchange(self, outgoing: list[memoryview], incoming: list[memoryview]) -> _Call:
        outgoing[self.rank] = incoming[self.rank] = memoryview(b"")
        sizes = [len(part) for part in incoming]
        sent, room = torch.cat([*map(_tensor, outgoing)]), torch.empty(sum(sizes), dtype=torch.uint8)

        def unpack() -> None:
            for part, came in zip(incoming, room.split(sizes)):
                _tensor(part).copy_(came)
            room.untyped_storage().resize_(0)
            sent.untyped_storage().resize_(0)

        work = self._gloo.alltoall_base(room, sent, sizes, [len(part) for part in outgoing])
        return _Call(self, (sent, room), work, unpack)

    def split(self, members: list[int]) -> _Split:
        """Another one, of these ranks; all ranks count them."""
        self._children += 1
        return _Split(self, members, _Store(f"{self._children}.{members[0]}", self._store))

    # ---- beside them ----

    def post(self, to: int, text: bytes) -> None:
        def add() -> None:
            number = self._store.add(f"posted to {to}", 1)
            self._store.set(f"to {to}: {number}", f"{self.rank} {text.decode()}")

        self._asker.ask(add)

    def take(self) -> tuple[int, bytes] | None:
        self._mail = self._mail or self._asker.begin(self._next_mail)
        mail = self._asker.end(self._mail, _LOOK)
        if mail is ...:
            return None  # it is still being asked for
        self._mail = None
        return mail

    def _next_mail(self) -> tuple[int, bytes] | None:
        key = f"to {self.rank}: {self._taken + 1}"
        if not self._store.check([key]):
            return None
        self._taken += 1
        sender, _, text = self._store.get(key).decode().partition(" ")
        self._store.delete_key(key)
        return int(sender), text.encode()

    def first_said(self, mine: str) -> str:
        said = self._asker.ask(lambda: self._job.compare_set("said", "", mine))
        return mine if said is None else said.decode()

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


def _meet(store: Any, asker: _Asker, rank: int, size: int, task: str, deadline: float) -> None:
    """Waits until all have come; names those who do not."""
    keys = [f"here {other}" for other in range(size)]

    def late_ones() -> Any:
        late = [str(other) for other in range(size) if not store.check([keys[other]])]
        more = f" and {len(late) - 16} more" * (len(late) > 16)
        return late and f"rank{'s' * (len(late) > 1)} {', '.join(late[:16])}{more}"

    def whom_all_wait_for() -> Any:  # one rank says so
        return None if any(store.check([key]) for key in keys[:rank]) else late_ones()

    asker.ask(lambda: store.set(keys[rank], ""))
    begun = time.monotonic()
    until, slow = begun + deadline, begun + _PATIENCE
    late: Any = ""
    while asker.ask(lambda: store.check(keys) or store.check(["late"])) is False:
        if 0 < deadline and until < time.monotonic():
            late = asker.ask(late_ones)
            break
        if slow < time.monotonic():
            slow = math.inf
            if missing := asker.ask(whom_all_wait_for):
                tell(f"{task}: waits for {missing}, for {_PATIENCE:.0f} s now; all ranks of rota come here. {ALONE}")
        time.sleep(_LOOK)
    said = asker.ask(lambda: store.compare_set("late", "", late or "none"))  # what is said first holds for all
    if said is None:
        raise TimeoutError(f"{task}: the process that has torch's store has ended, or hangs; end the job")
    late = said.decode()
    if late != "none":
        raise TimeoutError(f"{task}: {late} did not arrive before the deadline; all ranks must come here")


def group_of(what: Any) -> Any:
    """The process group that `what` is, or that a dimension of a DeviceMesh has; None where it is neither."""
    if isinstance(what, dist.ProcessGroup):
        return what
    if hasattr(what, "get_group") and hasattr(what, "ndim"):
        if what.ndim != 1:
            raise InvalidArgumentError(
                f'take the ranks of a DeviceMesh: it has {what.ndim} dimensions; name the one of data-parallel ranks: '
                'mesh["dp"]'
            )
        return what.get_group()
    return None
