"""Connections around uvicorn's HTTP protocol, with deadlines for slow clients and a limit on their number.

A `Connection` is between the network and an HTTP protocol, to which it passes all of asyncio's calls. `observed` wraps
the application and notifies the connection when a request begins and when its response ends: that time belongs to the
application. All other time belongs to the client: sending a request's head, sending the rest of a body after the
response, reading a response.

When there are too many connections, unentitled ones are closed first. A client becomes entitled by a token or, without
tokens, by a stored batch; the application records it in the request's state (`ENTITLED`). Among unentitled connections,
the oldest one of the address with the most connections is closed, so that a client with a token has time to send it,
however many others connect. Idle entitled connections are next. Rejected clients get 503, as do new clients when all
connections are entitled and busy.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from joinsight.serve.logs import fields

HEAD_SECONDS = 15
"""From the connection, or the first byte of a further request, to the end of the request's head, including TLS."""
READ_SECONDS = 15
"""Time for a client to read enough for the next part of its response."""
IDLE_SECONDS = 60
"""Between a response and the next request on the same connection; then uvicorn closes it."""
GOODBYE_SECONDS = 3
"""From closing a connection to its end, because TLS waits for the client's close_notify."""
MAX_CONNECTIONS = 800
"""With `MAX_LEAVING` and the collector's own files, below the usual limit of 1,024 open files."""
MAX_CLIENT_CONNECTIONS = 200
"""`MAX_CONNECTIONS` for one address."""
FEW_CONNECTIONS = 10
"""Up to this number, an address, such as a machine that runs a few jobs, does not count as holding many."""
MAX_LEAVING = 100
"""Connections that are being answered with 503; further ones are aborted."""
ENTITLED = "entitled"
"""The key in a request's state by which the application marks its client as entitled."""

_CONNECTION = "connection"
_LOG_SECONDS = 60
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 33\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n\r\n"
    b'{"error":"too many connections"}\n'
)
_numbers = itertools.count()

log = logging.getLogger("joinsight")


def observed(app: ASGIApp) -> ASGIApp:
    """Wrap the application so that each connection is notified of its requests."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"][_CONNECTION]

        async def observe(message: Message) -> None:
            await send(message)
            connection.answering = True

        connection.request_begins(scope["state"])
        try:
            await app(scope, receive, observe)
        finally:
            connection.request_ends()

    return call


class Connections:
    """All connections of a server; uvicorn calls `make` for a new one."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`tls` returns the context for a new connection; None: plain HTTP."""
        self.tls = tls
        self.open: set[Connection] = set()
        self._log_again_at = 0.0

    def make(self, *, app_state: dict[str, Any], **options: Any) -> Connection:
        """A new connection; the arguments are uvicorn's."""
        connection = Connection(self)
        connection.http = H11Protocol(app_state={**app_state, _CONNECTION: connection}, **options)
        return connection

    def close(self) -> None:
        """Close idle connections; uvicorn closes the others at the end of their responses."""
        for connection in list(self.open):
            if connection.idle:
                connection.close()

    @property
    def leaving(self) -> int:
        """Number of connections that were turned away and are still open."""
        return sum(each.leaving for each in self.open)

    def add(self, new: Connection) -> None:
        """Add a connection; above a limit, turn one away, possibly this one."""
        self.open.add(new)
        staying = [each for each in self.open if not each.leaving]
        same = [each for each in staying if each.address == new.address]
        crowd = same if len(same) > MAX_CLIENT_CONNECTIONS else staying if len(staying) > MAX_CONNECTIONS else None
        if crowd is None:
            return
        first = _first_to_go([each for each in crowd if each is not new]) or new
        now = asyncio.get_running_loop().time()
        if now >= self._log_again_at:
            self._log_again_at = now + _LOG_SECONDS
            log.warning(
                "too many connections: closing those without a token first",
                extra=fields(connections=len(staying), client=first.address, of_client=len(same)),
            )
        first.leaving = True
        if first is not new or self.leaving > MAX_LEAVING:
            first.turn_away()  # a new one is turned away when it can be answered


def _first_to_go(connections: Sequence[Connection]) -> Connection | None:
    """The connection to turn away; None if all are entitled and busy."""
    going = [each for each in connections if not each.entitled] or [each for each in connections if each.idle]
    held = Counter(each.address for each in going)
    return max(going, key=lambda each: (max(held[each.address], FEW_CONNECTIONS), -each.number), default=None)


class Connection(asyncio.Protocol):
    """A connection, from the TCP handshake on."""

    http: asyncio.Protocol
    """The protocol that reads requests and writes responses."""

    def __init__(self, connections: Connections) -> None:
        self.number = next(_numbers)
        self.address: str | None = None
        """The client's address, without port."""
        self.leaving = False
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._link: asyncio.Transport | None = None  # TCP's
        self._transport: asyncio.Transport | None = None  # TCP's or TLS's, once HTTP can begin
        self._handshake: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._http_connected = False
        self.answering = False
        """Whether a part of a response has been sent."""
        self._state: MutableMapping[str, Any] | None = None  # of the current request
        self._entitled = False

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._link = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else None
        self._set_deadline("head", HEAD_SECONDS, self.close)
        self._connections.add(self)
        if self._link.is_closing():
            return
        if self._connections.tls is None:
            self._begin(self._link)
        else:
            self._handshake = self._loop.create_task(self._shake_hands(self._connections.tls()))

    async def _shake_hands(self, context: ssl.SSLContext) -> None:
        assert self._link is not None
        transport = None
        try:
            transport = await self._loop.start_tls(
                self._link, self, context, server_side=True, ssl_handshake_timeout=HEAD_SECONDS
            )
        except OSError as error:
            log.debug("TLS handshake failed: %s", error)
        if transport is None or transport.is_closing():
            self._abort()
            self.connection_lost(None)
        else:
            self._begin(transport)

    def _begin(self, transport: asyncio.Transport) -> None:
        """Begin HTTP, or turn the client away, which can now be answered."""
        self._transport = transport
        if self.leaving:
            self.turn_away()
            return
        self._http_connected = True
        self.http.connection_made(transport)
        if self._early:
            self.data_received(bytes(self._early))
            self._early.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._deadlines):
            self._cancel_deadline(name)
        self._connections.open.discard(self)
        self._disconnect_http(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data  # TLS delivers data that came with the end of the handshake before `start_tls` returns
            return
        if self.leaving:
            return
        self.http.data_received(data)
        self._close_in_time()
        if self.idle and "head" not in self._deadlines:  # further bytes do not extend the deadline
            self._set_deadline("head", HEAD_SECONDS, self.close)

    def eof_received(self) -> bool | None:
        return self.http.eof_received() if self._http_connected else None

    def pause_writing(self) -> None:
        if self._http_connected:
            self.http.pause_writing()
        self._set_deadline("read", READ_SECONDS, self._abort)

    def resume_writing(self) -> None:
        if self._http_connected:
            self.http.resume_writing()
        self._cancel_deadline("read")

    # Called by the application

    def request_begins(self, state: MutableMapping[str, Any]) -> None:
        """Note that the head of a request has been read."""
        self._state, self.answering = state, False
        self._cancel_deadline("head")
        self._cancel_deadline("idle")

    def request_ends(self) -> None:
        """Note that all of the response has been sent."""
        self._entitled = self.entitled
        self._state, self.answering = None, False
        self._set_deadline("idle", IDLE_SECONDS + GOODBYE_SECONDS, self._abort)
        self._close_in_time()

    @property
    def entitled(self) -> bool:
        """Whether this request or an earlier one has entitled the client."""
        return self._entitled or (self._state is not None and bool(self._state.get(ENTITLED)))

    @property
    def idle(self) -> bool:
        """Whether no request is being processed."""
        return self._state is None

    @property
    def is_between_requests(self) -> bool:
        """Whether a response has been sent, and nothing of a further request has arrived."""
        return self.idle and "idle" in self._deadlines and "head" not in self._deadlines

    # Its end

    def close(self) -> None:
        """Close the connection when all that was written is delivered."""
        if self._transport is None:
            self._abort()
        else:
            self._transport.close()
            self._close_in_time()

    def turn_away(self) -> None:
        """Answer 503 and process nothing more. Further data is read and discarded: a reset would make the client lose
        the response. Between two requests there is nothing to read, and the connection does not linger."""
        lingers = not self.is_between_requests
        if self._transport is None or self.answering or self._connections.leaving > MAX_LEAVING:
            self._abort()
            return
        self._disconnect_http(ConnectionAbortedError())
        self._cancel_deadline("head")
        self._transport.write(_TOO_MANY)
        if lingers and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self._transport.resume_reading()
        self._set_deadline("goodbye", GOODBYE_SECONDS, self._abort)

    def _disconnect_http(self, error: Exception | None) -> None:
        """Tell HTTP that the client has disconnected; with an error, HTTP does not touch the transport."""
        if self._http_connected:
            self._http_connected = False
            self.http.connection_lost(error)

    def _close_in_time(self) -> None:
        if self._transport is not None and self._transport.is_closing() and not self.leaving:
            self._set_deadline("goodbye", GOODBYE_SECONDS, self._abort)

    def _abort(self) -> None:
        if self._link is not None:
            self._link.abort()

    def _set_deadline(self, name: str, seconds: float, otherwise: Callable[[], None]) -> None:
        self._cancel_deadline(name)
        self._deadlines[name] = self._loop.call_later(seconds, otherwise)

    def _cancel_deadline(self, name: str) -> None:
        if name in self._deadlines:
            self._deadlines.pop(name).cancel()
