"""HTTP as uvicorn reads it (h11), with what uvicorn leaves open: deadlines for slow clients, a limit on connections.

While a request is answered, its time is the application's matter. All other time is the client's: to send a request's
head, to send the rest of a body that has been answered, to read an answer.

When there are too many connections, those go first that have shown no right to be here: a token, or without tokens a
batch that was stored. The application says so in the request's state (`ENTITLED`). Of these the oldest goes of the
address that holds most, so that one who comes with a token has the time to show it, however many others come. Then
those go that have a right and do nothing. Who goes is told so (503), as is one who comes when all are at work.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from joinsight.serve.logs import fields

HEAD_SECONDS = 15
"""From the connection, or the first byte of a further request, to the end of the request's head; TLS is part of it."""
READ_SECONDS = 15
"""For a client to make room for more of its answer."""
IDLE_SECONDS = 60
"""Between an answer and the next request on the same connection."""
GOODBYE_SECONDS = 3
"""From the last byte of the last answer to the end of the connection: TLS waits for the client's goodbye."""
MAX_CONNECTIONS = 800
"""Below the 1,024 open files that a process has as a rule, with `MAX_LEAVING` and what the collector itself opens."""
MAX_CLIENT_CONNECTIONS = 200
"""Of one address."""
FEW_CONNECTIONS = 10
"""An address with no more, as a machine has that runs a few jobs, is not taken for one that holds many."""
MAX_LEAVING = 100
"""Connections more that are told that there is no room; beyond it they are cut off."""
ENTITLED = "entitled"
"""The name in a request's state under which the application says that its client has a right to be here."""

_TOO_MANY_SECONDS = 60
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 33\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n\r\n"
    b'{"error":"too many connections"}\n'
)
_numbers = itertools.count()

log = logging.getLogger("joinsight")


class Protocol(H11Protocol):
    """A connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._number = next(_numbers)
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._link: asyncio.Transport | None = None  # the TCP connection, which TLS may be above
        self._entitled = False
        self._leaving = False

    def arrived(self, link: asyncio.Transport) -> None:
        """The TCP connection is made: it counts from now on, be there TLS to come or not."""
        self._link = link
        self.client = get_remote_addr(link)
        self.connections.add(self)
        self._within("head", HEAD_SECONDS, self._close)
        self._make_room()

    def gone(self) -> None:
        """The TCP connection has ended, perhaps before TLS was there."""
        for name in list(self._deadlines):
            self._met(name)
        self.connections.discard(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._link is None:
            self.arrived(transport)
        super().connection_made(transport)
        if self._leaving:
            self._turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._leaving:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._met("head")
        elif "head" not in self._deadlines:  # further bytes do not put it off
            self._within("head", HEAD_SECONDS, self._close)

    def on_response_complete(self) -> None:
        self._entitled = self.entitled
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
        if self.transport is None:
            self._abort()
        else:
            super().shutdown()
            self._say_goodbye()

    def _close(self) -> None:
        if self.transport is None:
            self._abort()
        else:
            self.transport.close()
            self._say_goodbye()

    def _abort(self) -> None:
        if self._link is not None:
            self._link.abort()

    # Room

    @property
    def address(self) -> str | None:
        """The client's, without its port."""
        return self.client and self.client[0]

    @property
    def entitled(self) -> bool:
        """Whether its client has shown a right to be here, by this request or an earlier one."""
        return self._entitled or (self.scope is not None and bool(self.scope["state"].get(ENTITLED)))

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Send one away, perhaps this one, if there is one too many."""
        connections = cast("set[Protocol]", self.connections)
        staying = [each for each in connections if not each._leaving]
        same = [each for each in staying if each.address == self.address]
        crowd = same if len(same) > MAX_CLIENT_CONNECTIONS else staying if len(staying) > MAX_CONNECTIONS else None
        if crowd is None:
            return
        first = _first_to_go([each for each in crowd if each is not self]) or self
        if self.loop.time() >= self.app_state.get("crowded", 0.0):
            self.app_state["crowded"] = self.loop.time() + _TOO_MANY_SECONDS
            log.warning(
                "too many connections: those without a token go first",
                extra=fields(connections=len(staying), client=first.address, of_client=len(same)),
            )
        first._leaving = True
        if first is not self or len(connections) - len(staying) >= MAX_LEAVING:
            first._turn_away()  # else when TLS is there

    def _turn_away(self) -> None:
        """Say why, and listen to no more. What the client still sends is taken off the network: a reset would make it
        lose the answer."""
        leaving = sum(cast(Protocol, each)._leaving for each in self.connections)
        if self.transport is None or leaving > MAX_LEAVING or not (self.idle or not self.cycle.response_started):
            self._abort()
            return
        if not self.idle:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._met("head")
        self.transport.write(_TOO_MANY)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
        self.flow.resume_reading()
        self._within("goodbye", GOODBYE_SECONDS, self._abort)

    # Deadlines

    def _say_goodbye(self) -> None:
        if self.transport.is_closing():
            self._within("goodbye", GOODBYE_SECONDS, self.transport.abort)

    def _within(self, name: str, seconds: float, otherwise: Callable[[], None]) -> None:
        self._met(name)
        self._deadlines[name] = self.loop.call_later(seconds, otherwise)

    def _met(self, name: str) -> None:
        if name in self._deadlines:
            self._deadlines.pop(name).cancel()


def _first_to_go(connections: Sequence[Protocol]) -> Protocol | None:
    """None if all are entitled and at work."""
    going = [each for each in connections if not each.entitled] or [each for each in connections if each.idle]
    held = Counter(each.address for each in going)
    return max(going, key=lambda each: (max(held[each.address], FEW_CONNECTIONS), -each._number), default=None)


class Tls(SSLProtocol):
    """TLS below a connection. asyncio's own would make the connection known only after the handshake, which may never
    end."""

    def __init__(self, http: Protocol, context: ssl.SSLContext) -> None:
        nobody_waits = cast(Any, None)
        super().__init__(http.loop, http, context, nobody_waits, server_side=True, ssl_handshake_timeout=HEAD_SECONDS)
        self._http = http

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._http.arrived(cast(asyncio.Transport, transport))
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._http.gone()


def over_tls(context: ssl.SSLContext, **options: Any) -> Tls:
    """A connection that speaks TLS; `options` as uvicorn gives them."""
    return Tls(Protocol(**options), context)
