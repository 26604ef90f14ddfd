"""HTTP as uvicorn reads it (h11), with what uvicorn leaves open: deadlines for slow clients, a limit on connections.

While a request is answered, its time is the application's matter. All other time is the client's: to send a request's
head, to send the rest of a body that has been answered, to read an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15
"""From the connection, or the first byte of a further request, to the end of the request's head."""
READ_SECONDS = 15
"""For a client to make room for more of its answer."""
IDLE_SECONDS = 60
"""Between an answer and the next request on the same connection."""
GOODBYE_SECONDS = 3
"""From the last byte of the last answer to the end of the connection: TLS waits for the client's goodbye."""
MAX_CONNECTIONS = 800
"""Below the 1,024 open files that a process has as a rule."""
MAX_CLIENT_CONNECTIONS = 200
"""Of one address."""


class Protocol(H11Protocol):
    """A connection. One over the limit is closed at once: there is no memory to be polite with."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        super().connection_made(transport)
        address = _address(self)
        same = sum(1 for other in self.connections if _address(other) == address)
        if len(self.connections) > MAX_CONNECTIONS or same > MAX_CLIENT_CONNECTIONS:
            transport.abort()
        else:
            self._within("head", HEAD_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._deadlines):
            self._met(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._met("head")
        elif "head" not in self._deadlines:  # further bytes do not put it off
            self._within("head", HEAD_SECONDS, self._close)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._say_goodbye()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._within("read", READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._met("read")

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._say_goodbye()

    def shutdown(self) -> None:
        super().shutdown()
        self._say_goodbye()

    def _close(self) -> None:
        self.transport.close()
        self._say_goodbye()

    def _say_goodbye(self) -> None:
        if self.transport.is_closing():
            self._within("goodbye", GOODBYE_SECONDS, self.transport.abort)

    def _within(self, name: str, seconds: float, otherwise: Callable[[], None]) -> None:
        self._met(name)
        self._deadlines[name] = self.loop.call_later(seconds, otherwise)

    def _met(self, name: str) -> None:
        if name in self._deadlines:
            self._deadlines.pop(name).cancel()


def _address(connection: object) -> str | None:
    client: tuple[str, int] | None = getattr(connection, "client", None)
    return client and client[0]
