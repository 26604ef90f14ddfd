"""Connections around uvicorn's HTTP protocol, with deadlines for slow clients and a limit on their number.

A `Connection` is between the network and an HTTP protocol, to which it passes all of asyncio's calls. `observed` wraps
the application and notifies the connection when a request begins and when its response ends: that time belongs to the
application. All other time belongs to the client: sending a request's head, sending the rest of a body after the
response, reading a response.

When there are too many connections, unauthorised ones are closed first. A client becomes authorised by a token or,
without tokens, by a stored batch; the application says so (`authorise`). Among unauthorised connections, the oldest
one of the address with the most connections is closed, so that a client with a token has time to send it, however many
others connect. Idle authorised connections are next. Rejected clients get 503, as do new clients when all connections
are authorised and busy. How many connections are too many depends on the limit of open files (`Limits`).

Why: docs/decisions/028-deadlines-around-uvicorns-protocol.md.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from joinsight.serve.logs import fields

HEAD_SECONDS = 15
"""From the connection, or the first byte of a further request, to the end of the request's head, including TLS."""
HEAD_BYTES = 16 << 10
"""Request line and headers. h11 has the same limit, but only for a head that arrives in parts."""
READ_SECONDS = 15
"""Time for a client to read enough for the next part of its response."""
IDLE_SECONDS = 60
"""Between a response and the next request on the same connection; then uvicorn closes it."""
GOODBYE_SECONDS = 3
"""From closing a connection to its end, because TLS waits for the client's close_notify."""
MAX_CONNECTIONS = 4_096
MAX_CLIENT_CONNECTIONS = 1_024
"""`MAX_CONNECTIONS` for one address."""
MAX_UNAUTHORISED = 1_024
"""`MAX_CONNECTIONS` for unauthorised clients, because a connection with TLS takes 256 KiB of memory."""
FEW_CONNECTIONS = 10
"""Up to this number, an address, such as a machine that runs a few jobs, does not count as holding many."""
MAX_LEAVING = 512
"""Connections that have been turned away and are still open; beyond it, the first of them is aborted."""
MAX_ACCEPTED = 128
"""Connections that are accepted at once, before any of them is counted."""
BACKLOG = 2_048
"""Connections that wait in the kernel to be accepted; those take no files."""
OPEN_FILES = 2 * MAX_CONNECTIONS
"""The limit of open files that allows all of these."""
MIN_OPEN_FILES = 256
"""The lowest limit of open files with which the collector starts."""

_CONNECTION = "connection"
_HEADER_BYTES = len(": \r\n")
_NO_PROTOCOL = asyncio.Protocol()
_LOG_SECONDS = 60
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 33\r\n"
    b"Retry-After: 5\r\nConnection: close\r\n\r\n"
    b'{"error":"too many connections"}\n'
)

log = logging.getLogger("joinsight")


def observed(app: ASGIApp) -> ASGIApp:
    """Wrap the application so that each connection is notified of its requests; refuse those that it must not get."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"][_CONNECTION]

        async def observe(message: Message) -> None:
            await send(message)
            connection.answering = True

        connection.request_begins()
        try:
            await (_refusal(scope) or app)(scope, receive, observe)
        finally:
            connection.request_ends()

    return call


def _refusal(scope: Scope) -> Response | None:
    """The response to a request that h11 lets pass, though a proxy may understand it in another way; None for others.

    The connection is closed: where the next request begins, is not certain either (RFC 9112, section 6.3).
    """
    headers = scope["headers"]
    names = {name for name, _ in headers}
    if b"transfer-encoding" in names and b"content-length" in names:
        return _closing(400, "a request has either Content-Length or Transfer-Encoding")
    head = len(scope["raw_path"]) + len(scope["query_string"])
    if head + sum(len(name) + len(value) + _HEADER_BYTES for name, value in headers) > HEAD_BYTES:
        return _closing(431, f"the head of the request is larger than {HEAD_BYTES} bytes")
    return None


def _closing(status: int, error: str) -> Response:
    return JSONResponse({"error": error}, status, {"Connection": "close"})


def authorise(scope: Scope) -> None:
    """Mark the client of this request as authorised."""
    if connection := scope.get("state", {}).get(_CONNECTION):
        connection.authorise()


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections there may be; they leave a third of the open files to the collector itself."""

    connections: int
    of_client: int
    unauthorised: int
    leaving: int
    accepted: int

    @classmethod
    def within(cls, files: int) -> Limits:
        """The limits of a process that may have so many open files."""
        return cls(
            connections=min(MAX_CONNECTIONS, files // 2),
            of_client=min(MAX_CLIENT_CONNECTIONS, files // 8),
            unauthorised=min(MAX_UNAUTHORISED, files // 4),
            leaving=min(MAX_LEAVING, files // 16),
            accepted=min(MAX_ACCEPTED, files // 64),
        )


def raise_open_files() -> int:
    """Raise this process's limit of open files to `OPEN_FILES`, as far as it may; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has another limit, which only the kernel knows
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft


class Connections:
    """All connections of a server; uvicorn calls `make` for a new one."""

    def __init__(self, limits: Limits, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`tls` returns the context for a new connection; None: plain HTTP."""
        self.limits = limits
        self.tls = tls
        self.open: set[Connection] = set()
        self._staying = _Group()
        self._unauthorised = _Group()
        self._leaving: dict[Connection, None] = {}  # in this order
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

    def add(self, new: Connection) -> None:
        """Add a connection; above a limit, turn one away, possibly this one."""
        first = self._first_to_go(new)
        self.open.add(new)
        self._staying.add(new)
        self._unauthorised.add(new)
        if first is None:
            return
        now = asyncio.get_running_loop().time()
        if now >= self._log_again_at:
            self._log_again_at = now + _LOG_SECONDS
            about = fields(
                connections=len(self._staying), client=first.address, of_client=self._staying.held[new.address]
            )
            log.warning("too many connections: closing those without a token first", extra=about)
        self._leave(first)
        if first is not new:  # a new one is turned away when it can be answered
            first.turn_away()

    def _first_to_go(self, new: Connection) -> Connection | None:
        """The connection whose place a new one takes, possibly the new one itself; None if there is room."""
        of = new.address if self._staying.held[new.address] >= self.limits.of_client else None
        if (
            of is None
            and len(self._staying) < self.limits.connections
            and len(self._unauthorised) < self.limits.unauthorised
        ):
            return None
        return self._unauthorised.first(of) or _Group(each for each in self._staying if each.idle).first(of) or new

    def _leave(self, connection: Connection) -> None:
        """Count a connection as one that is turned away."""
        self._staying.discard(connection)
        self._unauthorised.discard(connection)
        connection.leaving = True
        self._leaving[connection] = None
        if len(self._leaving) > self.limits.leaving:
            first = next(iter(self._leaving))
            del self._leaving[first]
            first.abort()

    def authorise(self, connection: Connection) -> None:
        """Count a connection no longer as unauthorised."""
        self._unauthorised.discard(connection)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.open.discard(connection)
        self._leaving.pop(connection, None)
        self._staying.discard(connection)
        self._unauthorised.discard(connection)


class _Group:
    """Connections in the order of their arrival, and how many each address has."""

    def __init__(self, connections: Iterable[Connection] = ()) -> None:
        self._connections = dict.fromkeys(connections)
        self.held = Counter([each.address for each in self._connections])

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None
        self.held[connection.address] += 1

    def discard(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self.held[connection.address] -= 1
            if not self.held[connection.address]:
                del self.held[connection.address]  # addresses come and go

    def first(self, of: str | None) -> Connection | None:
        """The oldest one of this address; of None, that of the address that has most, or of all if none has many."""
        if of is None and max(self.held.values(), default=0) > FEW_CONNECTIONS:
            of = self.held.most_common(1)[0][0]
        return next((each for each in self if of in (None, each.address)), None)


class Connection(asyncio.Protocol):
    """A connection, from the TCP handshake on."""

    http: asyncio.Protocol
    """The protocol that reads requests and writes responses; it refers to the connection, too."""

    def __init__(self, connections: Connections) -> None:
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
        self.idle = True
        """Whether no request is being processed."""

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
            self.abort()
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
        self._connections.remove(self)
        self._disconnect_http(exc)
        # Else the two, and their buffers, stay until a collection of all garbage, which is rare
        self.http = _NO_PROTOCOL

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
        self._set_deadline("read", READ_SECONDS, self.abort)

    def resume_writing(self) -> None:
        if self._http_connected:
            self.http.resume_writing()
        self._cancel_deadline("read")

    # Called by the application

    def request_begins(self) -> None:
        """Note that the head of a request has been read."""
        self.idle = self.answering = False
        self._cancel_deadline("head")
        self._cancel_deadline("idle")

    def authorise(self) -> None:
        """Note that the client has shown that it may be here."""
        self._connections.authorise(self)

    def request_ends(self) -> None:
        """Note that all of the response has been sent."""
        self.idle, self.answering = True, False
        if self not in self._connections.open:
            return
        self._set_deadline("idle", IDLE_SECONDS + GOODBYE_SECONDS, self.abort)
        self._close_in_time()

    # Its end

    def close(self) -> None:
        """Close the connection when all that was written is delivered."""
        if self._transport is None:
            self.abort()
        else:
            self._transport.close()
            self._close_in_time()

    def turn_away(self) -> None:
        """Answer 503 and process nothing more. Further data is read and discarded, also between two requests, when the
        next one may be on its way: a reset would make the client lose the response."""
        if self._transport is None or self.answering:
            self.abort()
            return
        self._disconnect_http(ConnectionAbortedError())
        self._cancel_deadline("head")
        self._transport.write(_TOO_MANY)
        if self._transport.can_write_eof():
            with suppress(OSError):  # the client is gone, which reading will tell
                self._transport.write_eof()
        else:
            self._transport.close()
        self._transport.resume_reading()
        self._set_deadline("goodbye", GOODBYE_SECONDS, self.abort)

    def _disconnect_http(self, error: Exception | None) -> None:
        """Tell HTTP that the client has disconnected; with an error, HTTP does not touch the transport."""
        if self._http_connected:
            self._http_connected = False
            self.http.connection_lost(error)

    def _close_in_time(self) -> None:
        if self._transport is not None and self._transport.is_closing() and not self.leaving:
            self._set_deadline("goodbye", GOODBYE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._link is not None:
            self._link.abort()

    def _set_deadline(self, name: str, seconds: float, otherwise: Callable[[], None]) -> None:
        self._cancel_deadline(name)
        self._deadlines[name] = self._loop.call_later(seconds, otherwise)

    def _cancel_deadline(self, name: str) -> None:
        if name in self._deadlines:
            self._deadlines.pop(name).cancel()
