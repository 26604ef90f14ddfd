"""Limits the memory and slots that requests hold, in total and per client, so that no sender starves the others."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from types import TracebackType

MAX_WAITING = 64
"""Maximum requests waiting to be written, including those being written."""
MAX_CLIENT_WAITING = 16
"""`MAX_WAITING` for one client."""
MAX_HELD_BYTES = 256 << 20
"""Maximum bytes of request bodies in memory, partly or fully received."""
MAX_CLIENT_BYTES = 64 << 20
"""`MAX_HELD_BYTES` for one client; two of the largest requests."""

MAX_WRITING = 4
"""Maximum batches decoded and written concurrently; more would not be faster and would take memory."""
MAX_SENDER_WRITING = 2
"""`MAX_WRITING` for one sender, so that slow batches of one sender leave slots for the others."""

Sender = tuple[str, str | None]
"""The client's address, and the name of its token or None."""


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
    """Slots to decode and write, assigned to waiting senders in rotation. For one thread only."""

    def __init__(self) -> None:
        self._writing: Counter[Sender] = Counter()
        self._waiting: dict[Sender, deque[asyncio.Future[None]]] = {}  # in the order of rotation

    async def acquire(self, sender: Sender) -> None:
        """Wait for a slot; `release` returns it."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sender, deque()).append(slot)
        self._assign()
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():  # it was assigned at the same moment
                self.release(sender)
            raise

    def release(self, sender: Sender) -> None:
        """Return a slot."""
        self._writing[sender] -= 1
        if not self._writing[sender]:
            del self._writing[sender]  # addresses come and go
        self._assign()

    def _assign(self) -> None:
        while self._writing.total() < MAX_WRITING:
            eligible = (sender for sender in self._waiting if self._writing[sender] < MAX_SENDER_WRITING)
            sender = next(eligible, None)
            if sender is None:
                return
            slots = self._waiting.pop(sender)
            slot = slots.popleft()
            if slots:
                self._waiting[sender] = slots
            if not slot.cancelled():
                self._writing[sender] += 1
                slot.set_result(None)
