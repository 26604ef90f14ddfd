"""Limits the memory and slots that requests hold, in total and per client, so that no sender starves the others."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import cast

from joinsight.serve.pending import Pending, Sender

MAX_WAITING = 64
"""Maximum requests waiting to be written, including those being written."""
MAX_CLIENT_WAITING = 16
"""`MAX_WAITING` for one client."""
MAX_HELD_BYTES = 256 << 20
"""Maximum bytes of request bodies in memory, partly or fully received."""
MAX_CLIENT_BYTES = 64 << 20
"""`MAX_HELD_BYTES` for one client; two of the largest requests."""

MAX_WRITING = 4
"""Maximum groups of requests decoded and written concurrently; more would not be faster and would take memory."""
MAX_SENDER_WRITING = 2
"""`MAX_WRITING` for one sender, so that slow batches of one sender leave slots for the others."""
MAX_GROUP_REQUESTS = 32
"""Maximum requests that are written together."""
MAX_GROUP_BYTES = 256 << 10
"""Maximum bytes of requests that are written together; a larger request is written alone."""


class Busy(Exception):
    """A limit is reached; the sender should retry later."""


class Admission:
    """The memory and the queue that requests share. For one thread only."""

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting = 0
        self._client_bytes: Counter[str] = Counter()
        self._client_waiting: Counter[str] = Counter()

    def lease(self, client: str) -> Lease:
        """A lease for one request: a context manager that releases everything at its end."""
        return Lease(self, client)


class Lease:
    """The bytes and the place in the queue that one request holds."""

    def __init__(self, admission: Admission, client: str) -> None:
        self._admission = admission
        self._client = client
        self._bytes = 0
        self._waiting = 0

    def add_bytes(self, size: int) -> None:
        """Hold `size` more bytes; raises `Busy` if that exceeds a limit."""
        admission, client = self._admission, self._client
        if admission.bytes + size > MAX_HELD_BYTES:
            raise Busy("too many bytes of requests from all senders")
        if admission._client_bytes[client] + size > MAX_CLIENT_BYTES:
            raise Busy("too many bytes of requests from this address")
        admission.bytes += size
        admission._client_bytes[client] += size
        self._bytes += size

    def enqueue(self) -> None:
        """Join the queue of requests to be written; raises `Busy` if it is full."""
        admission, client = self._admission, self._client
        if admission.waiting >= MAX_WAITING:
            raise Busy("too many concurrent requests")
        if admission._client_waiting[client] >= MAX_CLIENT_WAITING:
            raise Busy("too many concurrent requests from this address")
        admission.waiting += 1
        admission._client_waiting[client] += 1
        self._waiting = 1

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        admission, client = self._admission, self._client
        admission.bytes -= self._bytes
        admission.waiting -= self._waiting
        for counter, held in (admission._client_bytes, self._bytes), (admission._client_waiting, self._waiting):
            counter[client] -= held
            if not counter[client]:
                del counter[client]  # addresses come and go


class WriteSlots:
    """Slots to decode and write, each for a group of requests; senders take turns. For one thread only.

    While a slot is free, no request waits. Requests that have waited for the same slot are written together.
    """

    def __init__(self, write: Callable[[list[Pending]], Awaitable[None]]) -> None:
        """`write` writes a group; it must not raise."""
        self._write = write
        self._writing: Counter[Sender] = Counter()  # groups with requests of a sender
        self._waiting: dict[Sender, deque[Pending]] = {}  # in the order of rotation
        self._starts: dict[Pending, asyncio.Future[None]] = {}  # of those that wait
        self._groups: set[asyncio.Future[None]] = set()

    def add(self, request: Pending) -> asyncio.Future[None]:
        """Wait for a slot: the future is done when the request has one."""
        start = self._starts[request] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(request.key, deque()).append(request)
        self._assign()
        return start

    def remove(self, request: Pending) -> None:
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

    def _next_group(self) -> list[Pending]:
        """Requests that may be written together, one of each sender in turn."""
        group: list[Pending] = []
        senders: set[Sender] = set()
        size = 0
        while len(group) < MAX_GROUP_REQUESTS:
            eligible = (each for each in self._waiting if each in senders or self._writing[each] < MAX_SENDER_WRITING)
            sender = next(eligible, None)
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
            start.set_result(None)
            group.append(request)
            senders.add(sender)
            if request.alone:
                break
        self._writing.update(senders)
        return group

    async def _run(self, group: list[Pending], senders: set[Sender]) -> None:
        try:
            await self._write(group)
        finally:
            self._writing -= Counter(senders)
            self._groups.remove(cast("asyncio.Future[None]", asyncio.current_task()))
            self._assign()
