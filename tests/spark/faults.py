"""A TCP proxy in front of real collectors that injects faults of networks and servers."""

from __future__ import annotations

import socket
import socketserver
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from tests.waiting import SECONDS

_STATUSES = ("500", "429", "503", "400", "413")
FAULTS = (*_STATUSES, "reset", "no answer", "cut off", "answer lost", "garbage", "wrong server", "trickle", "continues")


class FaultyProxy(socketserver.ThreadingTCPServer):
    """Passes connections to the collectors at `ports` in turn, each with the fault that `fault()` returns, or None.

    One request a connection: the proxy closes it after the answer. `seen` counts what was done.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, ports: Sequence[int], fault: Callable[[], str | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.ports = list(ports)
        self.fault = fault
        self.seen: Counter[str] = Counter()
        self.turns = count()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def next_port(self) -> int:
        """The collector whose turn it is."""
        return self.ports[next(self.turns) % len(self.ports)]

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: the other side may do anything."""


class _Connection(socketserver.BaseRequestHandler):
    server: FaultyProxy
    request: socket.socket

    def handle(self) -> None:
        fault = self.server.fault()
        self.server.seen[str(fault)] += 1
        if fault == "reset":
            self._reset()
            return
        request = _message(self.request)
        if not request:
            return
        if fault in ("500", "429", "503"):
            retry = b"Retry-After: 1\r\n" if fault == "429" else b""
            self._answer(fault.encode() + b" No", b"no", retry)
        elif fault in ("400", "413"):  # of a proxy: none of the documents is refused for good
            self._answer(fault.encode() + b" No", b"<html>The proxy says no</html>")
        elif fault == "continues":
            with suppress(OSError):
                self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000)
        elif fault == "garbage":
            self.request.sendall(b"\x00\xffSSH-2.0-OpenSSH_9.2\r\n" * 3)
        elif fault == "wrong server":
            self._answer(b"200 OK", b"<html>Welcome to nginx!</html>")
        elif fault == "trickle":
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n":
                self.request.sendall(bytes([byte]))
                time.sleep(1)
        elif fault == "no answer":
            time.sleep(20)  # longer than the listener waits in these tests
        else:
            self._forward(request, fault)

    def _forward(self, request: bytes, fault: str | None) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.server.next_port()), timeout=SECONDS) as collector:
            collector.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            answer = _message(collector)
        if fault == "answer lost":
            self._reset()
        elif fault == "cut off":
            self.request.sendall(answer[:-10])
        else:
            self.request.sendall(answer)

    def _answer(self, status: bytes, body: bytes, headers: bytes = b"") -> None:
        length = b"Content-Length: %d\r\n" % len(body)
        self.request.sendall(b"HTTP/1.1 " + status + b"\r\n" + headers + length + b"Connection: close\r\n\r\n" + body)

    def _reset(self) -> None:
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # on, 0 seconds: close sends RST
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.request.close()


def _message(connection: socket.socket) -> bytes:
    """One HTTP message with its body; what was received so far if the other side breaks off."""
    data = b""
    with suppress(OSError):
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return data
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        missing = int(fields.get(b"content-length", b"0")) - len(body)
        while missing > 0:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
            missing -= len(piece)
    return data
