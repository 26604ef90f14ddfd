"""What requests may hold of the collector, in all and by client: one sender never takes the places of the others."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from types import TracebackType

MAX_WAITING = 64
"""Requests that may wait for their turn to be written; those being written count."""
MAX_CLIENT_WAITING = 16
"""Of one client."""
MAX_HELD_BYTES = 256 << 20
"""Bytes of bodies in memory, half of one or whole."""
MAX_CLIENT_BYTES = 64 << 20
"""Of one client; two of the largest requests."""

MAX_WRITING = 4
"""Batches decoded and written at once: more would not be faster and would take memory."""
MAX_SENDER_WRITING = 2
"""Batches of one sender: it leaves turns for the others however long its own take."""

Sender = tuple[str, str | None]
"""Address and the name of the token, if it shows one."""


class Busy(Exception):
    """No place is free now."""


class Places:
    """The places of a collector. Not safe to use from several threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self.waiting = 0
        self._client_bytes: Counter[str] = Counter()
        self._client_waiting: Counter[str] = Counter()

    def of(self, client: str) -> Place:
        """A place for one request, to be used in a ``with``; what it has taken is given back at its end."""
        return Place(self, client)


class Place:
    """What one request holds."""

    def __init__(self, places: Places, client: str) -> None:
        self._places = places
        self._client = client
        self._bytes = 0
        self._waiting = 0

    def take(self, size: int) -> None:
        """So many more bytes have come; raises `Busy` if there is no room."""
        places, client = self._places, self._client
        if places.bytes + size > MAX_HELD_BYTES:
            raise Busy("the requests of all senders are too many bytes at once")
        if places._client_bytes[client] + size > MAX_CLIENT_BYTES:
            raise Busy("the requests from this address are too many bytes at once")
        places.bytes += size
        places._client_bytes[client] += size
        self._bytes += size

    def wait(self) -> None:
        """The body is whole; raises `Busy` if too many wait."""
        places, client = self._places, self._client
        if places.waiting >= MAX_WAITING:
            raise Busy("too many requests at once")
        if places._client_waiting[client] >= MAX_CLIENT_WAITING:
            raise Busy("too many requests at once from this address")
        places.waiting += 1
        places._client_waiting[client] += 1
        self._waiting = 1

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        places, client = self._places, self._client
        places.bytes -= self._bytes
        places.waiting -= self._waiting
        for counter, taken in (places._client_bytes, self._bytes), (places._client_waiting, self._waiting):
            counter[client] -= taken
            if not counter[client]:
                del counter[client]  # addresses come and go


class Turns:
    """Turns to be decoded and written, in rotation among the senders that wait. For one thread only."""

    def __init__(self) -> None:
        self._writing: Counter[Sender] = Counter()
        self._waiting: dict[Sender, deque[asyncio.Future[None]]] = {}  # who had a turn last comes last

    async def take(self, sender: Sender) -> None:
        """Wait for a turn; it is to be given back."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sender, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self.give_back(sender)
            raise

    def give_back(self, sender: Sender) -> None:
        """The turn is over."""
        self._writing[sender] -= 1
        if not self._writing[sender]:
            del self._writing[sender]  # addresses come and go
        self._give()

    def _give(self) -> None:
        while self._writing.total() < MAX_WRITING:
            may = (sender for sender in self._waiting if self._writing[sender] < MAX_SENDER_WRITING)
            sender = next(may, None)
            if sender is None:
                return
            turns = self._waiting.pop(sender)
            turn = turns.popleft()
            if turns:
                self._waiting[sender] = turns
            if not turn.cancelled():
                self._writing[sender] += 1
                turn.set_result(None)
