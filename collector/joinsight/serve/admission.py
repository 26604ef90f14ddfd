"""Limits the memory and slots that requests hold, in total and per client, so that no sender starves the others."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import cast

from joinsight.serve.ingest_request import IngestRequest, Sender

MAX_WAITING = 96
"""Maximum requests waiting to be written, including those being written."""
MAX_CLIENT_WAITING = 16
"""`MAX_WAITING` for one sender."""
MAX_HELD_BYTES = 256 << 20
"""Maximum bytes of request bodies in memory, partly or fully received."""
MAX_CLIENT_BYTES = 64 << 20
"""`MAX_HELD_BYTES` for one sender; two of the largest requests."""
SHARE = 3
"""A token holds at most this many times what it leaves free, and so does a sender of what its token may hold: however
many there are, newcomers find room."""

MAX_WRITING = 4
"""Maximum groups of requests decoded and written concurrently; more would not be faster and would take memory."""
MAX_SENDER_WRITING = 2
"""`MAX_WRITING` for one sender, so that slow batches of one sender leave slots for the others."""
MAX_TOKEN_WRITING = 3
"""`MAX_WRITING` for one token where there are several, however many addresses use it."""
MAX_GROUP_REQUESTS = 32
"""Maximum requests that are written together."""
MAX_GROUP_BYTES = 256 << 10
"""Maximum bytes of requests that are written together; a larger request is written alone."""


class Busy(Exception):
    """A limit is reached; the sender should retry later."""


class _Quota:
    """What requests hold of one resource: fairly divided among tokens first, then among the senders with a token."""

    def __init__(self, what: str, total: int, of_sender: int) -> None:
        self._what = what
        self._total = total
        self._of_sender = of_sender
        self.held = 0
        self._of_tokens: Counter[str | None] = Counter()
        self._of_senders: Counter[Sender] = Counter()

    def take(self, sender: Sender, amount: int) -> None:
        """Hold more; raises `Busy` if that exceeds a limit."""
        token = sender[1]
        of_token, of_sender = self._of_tokens[token] + amount, self._of_senders[sender] + amount
        free = self._total - self.held - amount
        if of_token > SHARE * free:
            raise Busy(f"too many {self._what} from all senders" + (" with this token" if token else ""))
        left = (SHARE * free - of_token) // (SHARE + 1)  # what the token may still take
        if of_sender > min(self._of_sender, SHARE * left):
            raise Busy(f"too many {self._what} from this address")
        self.held += amount
        self._of_tokens[token] += amount
        self._of_senders[sender] += amount

    def give_back(self, sender: Sender, amount: int) -> None:
        """Hold less."""
        self.held -= amount
        self._of_tokens[sender[1]] -= amount
        self._of_senders[sender] -= amount
        if not self._of_senders[sender]:
            del self._of_senders[sender]  # addresses come and go


class Admission:
    """The memory and the queue that requests share. For one thread only."""

    def __init__(self) -> None:
        self.bytes = _Quota("bytes of requests", MAX_HELD_BYTES, MAX_CLIENT_BYTES)
        self.waiting = _Quota("concurrent requests", MAX_WAITING, MAX_CLIENT_WAITING)

    def ticket(self, sender: Sender) -> QuotaTicket:
        """A ticket for one request: a context manager that releases everything at its end."""
        return QuotaTicket(self, sender)


class QuotaTicket:
    """The body of one request and its place in the queue."""

    def __init__(self, admission: Admission, sender: Sender) -> None:
        self.body = bytearray()
        """What has arrived of the body; empty after the end, whatever still refers to it."""
        self._admission = admission
        self._sender = sender
        self._bytes = 0
        self._waiting = 0

    def add(self, chunk: bytes) -> None:
        """Append to the body; raises `Busy` if that exceeds a limit."""
        self._admission.bytes.take(self._sender, len(chunk))
        self._bytes += len(chunk)
        self.body += chunk

    def enqueue(self) -> None:
        """Join the queue of requests to be written; raises `Busy` if it is full."""
        self._admission.waiting.take(self._sender, 1)
        self._waiting = 1

    def __enter__(self) -> QuotaTicket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._admission.bytes.give_back(self._sender, self._bytes)
        self._admission.waiting.give_back(self._sender, self._waiting)
        self.body.clear()  # an exception may refer to it until a collection of all garbage, which is rare


class WriteSlots:
    """Slots to decode and write, each for a group of requests. For one thread only.

    Tokens take turns, and of each token its senders. A request waits only while all slots that its sender may have are
    taken. Requests that have waited for the same slot are written together.
    """

    def __init__(
        self,
        write: Callable[[list[IngestRequest]], Awaitable[None]],
        several_tokens: Callable[[], bool] = lambda: False,
    ) -> None:
        """`write` writes a group; it must not raise. `several_tokens`: whether to keep a slot for other tokens."""
        self._write = write
        self._several_tokens = several_tokens
        self._writing: Counter[Sender] = Counter()  # groups with requests of a sender
        self._writing_tokens: Counter[str | None] = Counter()
        self._waiting: dict[Sender, deque[IngestRequest]] = {}  # in the order of rotation
        self._turns: dict[str | None, int] = {}  # the number of each token's last turn
        self._turn = 0
        self._starts: dict[IngestRequest, asyncio.Future[None]] = {}  # of those that wait
        self._groups: set[asyncio.Future[None]] = set()

    def add(self, request: IngestRequest) -> asyncio.Future[None]:
        """Wait for a slot: the future is done when the request has one."""
        start = self._starts[request] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(request.key, deque()).append(request)
        self._assign()
        return start

    def remove(self, request: IngestRequest) -> None:
        """Stop waiting, if it still waits."""
        if self._starts.pop(request, None) is None:
            return
        waiting = self._waiting[request.key]
        waiting.remove(request)
        if not waiting:
            del self._waiting[request.key]  # addresses come and go

    def _assign(self) -> None:
        while len(self._groups) < MAX_WRITING and (group := self._next_group()):
            task = asyncio.ensure_future(self._run(group, {request.key for request in group}))
            self._groups.add(task)

    def _next_group(self) -> list[IngestRequest]:
        """Requests that may be written together, one of each sender in turn."""
        group: list[IngestRequest] = []
        senders: set[Sender] = set()
        size = 0
        of_token = MAX_TOKEN_WRITING if self._several_tokens() else MAX_WRITING
        may_write = {
            each
            for each in self._waiting
            if self._writing[each] < MAX_SENDER_WRITING and self._writing_tokens[each[1]] < of_token
        }
        while len(group) < MAX_GROUP_REQUESTS:
            eligible = (each for each in self._waiting if each in may_write)
            sender = min(eligible, key=lambda each: self._turns.get(each[1], 0), default=None)
            if sender is None:
                break
            request = self._waiting[sender][0]
            if self._starts[request].cancelled():
                self.remove(request)
                continue
            size += len(request.body)
            if group and (request.alone or size > MAX_GROUP_BYTES):
                break
            start = self._starts[request]
            self.remove(request)
            if sender in self._waiting:
                self._waiting[sender] = self._waiting.pop(sender)  # to the end of the rotation
            self._turn += 1
            self._turns[sender[1]] = self._turn
            start.set_result(None)
            group.append(request)
            senders.add(sender)
            if request.alone:
                break
        self._writing.update(senders)
        self._writing_tokens.update({token for _, token in senders})
        return group

    async def _run(self, group: list[IngestRequest], senders: set[Sender]) -> None:
        try:
            await self._write(group)
        finally:
            self._writing -= Counter(senders)
            self._writing_tokens -= Counter({token for _, token in senders})
            self._groups.remove(cast("asyncio.Future[None]", asyncio.current_task()))
            self._assign()
