"""Answers the user who runs this process only: a loopback address can be reached by every user of the machine.

Linux shows the user of each TCP socket in ``/proc/net/tcp``, also that of the other end of a connection from this
machine. Where the system does not (macOS), every user is answered.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from joinsight.serve.access import SAFE_HEADERS

_SOCKETS = Path("/proc/net/tcp")
_ROOT = 0
"""Reads all files anyway; forwarded ports of containers come from it."""


class SameUser:
    """The application `app`, with a 403 for other users' connections; for a server on an IPv4 loopback address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, as uvicorn gives it: `scope` has the addresses of both ends."""
        app = self._app
        if _SOCKETS.exists():
            user = await run_in_threadpool(_user, scope["client"], scope["server"])
            if user not in (os.getuid(), _ROOT):
                reason = "Only the user who runs this server can open its pages: run it yourself.\n"
                app = PlainTextResponse(reason, 403, SAFE_HEADERS)
        await app(scope, receive, send)


def _user(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user id of the socket at `client` that is connected with `server`; None if there is none any more."""
    ends = [_hexadecimal(*client), _hexadecimal(*server)]
    with _SOCKETS.open() as lines:
        return next((int(fields[7]) for fields in map(str.split, lines) if fields[1:3] == ends), None)


def _hexadecimal(address: str, port: int) -> str:
    """As in ``/proc/net/tcp``: the address in this machine's order of bytes."""
    number = int.from_bytes(socket.inet_aton(address), sys.byteorder)
    return f"{number:08X}:{port:04X}"
