"""Real services for tests: the command in a separate process, raw sockets, and locks that make writers wait."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
from sqlalchemy import Connection, Engine, text
from tests.documents import execution, request
from tests.waiting import DEADLINES, LATE_SECONDS
from tests.waiting import SECONDS as SECONDS
from tests.waiting import until as until

from joinsight.contract.decode import HEADERS
from joinsight.store import partitions

DOCUMENTS = "/v1/documents"
PATIENT = "\n".join(f"import {name.rpartition('.')[0]}; {name} = {LATE_SECONDS}" for name in DEADLINES)
"""Code that gives a service in another process the time that the services in this process have."""


class Service:
    """`joinsight serve` as users run it, with its log as JSON."""

    def __init__(self, url: str, *options: str, environment: Mapping[str, str] = {}, patch: str = "") -> None:
        """`patch`: Python code to run first, such as to shorten an interval."""
        program = f"from joinsight.cli import main\n{PATIENT}\n{patch}\nmain()"
        command = [sys.executable, "-c", program, "serve", "--port", "0", "--log-format", "json", *options]
        quiet = {name: value for name, value in os.environ.items() if not name.startswith("JOINSIGHT_")}
        database = {"JOINSIGHT_DATABASE_URL": url} if url else {}
        self.process = subprocess.Popen(
            command, env={**quiet, **database, **environment}, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            self.lines.extend(iter(stderr.readline, ""))

    @property
    def log(self) -> list[dict[str, Any]]:
        """The events logged so far."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def logged(self, message: str) -> list[dict[str, Any]]:
        """The logged events with this prefix."""
        return [event for event in self.log if event["message"].startswith(message)]

    @property
    def url(self) -> str:
        """Where it listens, once it does."""
        until(lambda: self.logged("collecting") or self.process.poll() is not None, "the service listens")
        assert self.logged("collecting"), "".join(self.lines)
        return str(self.logged("collecting")[0]["url"])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = SECONDS) -> int:
        """Its exit code; -n if signal n killed it."""
        code = self.process.wait(seconds)
        self._reader.join()
        return code


@contextmanager
def service(url: str, *options: str, environment: Mapping[str, str] = {}, patch: str = "") -> Iterator[Service]:
    """A listening service, killed at the end unless it has ended."""
    started = Service(url, *options, environment=environment, patch=patch)
    try:
        assert started.url
        yield started
    finally:
        if started.process.poll() is None:
            started.signal(signal.SIGKILL)
        started.end()


@contextmanager
def locked(engine: Engine, table: str = "execution") -> Iterator[Connection]:
    """Lock the table against writers; yields the connection that holds the lock."""
    # So that no collector has one to make: it would wait for the table, and all readers would wait behind it
    partitions.create_ahead(engine)
    partitions.create(engine, ["2025_12", "2026_01"])  # of documents
    with engine.connect() as connection:
        connection.execute(text(f"LOCK TABLE {table} IN EXCLUSIVE MODE"))
        yield connection


def writers_that_wait(engine: Engine) -> int:
    """The number of backends that wait for a lock, but for the one that looks for lost applications in between."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query NOT LIKE '%SKIP LOCKED%'"
    )
    with engine.connect() as connection:
        return int(connection.scalar(text(waiting)) or 0)


def head(length: int, *headers: str) -> bytes:
    """The head of a batch's request."""
    kind = (f"{name}: {value}" for name, value in HEADERS.items())
    lines = (f"POST {DOCUMENTS} HTTP/1.1", "Host: localhost", *kind, f"Content-Length: {length}", *headers, "", "")
    return "\r\n".join(lines).encode()


def get(url: str, **options: Any) -> httpx.Response:
    """The answer to a request for a page."""
    return httpx.get(url, timeout=SECONDS, **options)


def post(url: str, body: bytes, *, headers: Mapping[str, str] = {}, **options: Any) -> httpx.Response:
    """The answer to a batch."""
    return httpx.post(url + DOCUMENTS, content=body, headers={**HEADERS, **headers}, timeout=SECONDS, **options)


@contextmanager
def sending(*urls: str) -> Iterator[list[tuple[str, int]]]:
    """Two senders of a document after the other, to these collectors in turn, again until one accepts it. Yields what
    was accepted so far: applications and executions."""
    accepted: list[tuple[str, int]] = []
    over = threading.Event()

    def send(name: str) -> None:
        collectors = itertools.cycle(urls)
        for number in itertools.count():
            body = request(execution(application_id=name, execution_id=number))
            while not _takes(next(collectors), body):
                if over.is_set():
                    return
            accepted.append((name, number))
            if over.is_set():
                return

    join = in_threads(*(partial(send, f"sender {number}") for number in (1, 2)))
    try:
        yield accepted
    finally:
        over.set()
        join()


def _takes(url: str, body: bytes) -> bool:
    try:
        answer = post(url, body)
    except httpx.TransportError:
        return False
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


def lost(engine: Engine, accepted: list[tuple[str, int]]) -> set[tuple[str, int]]:
    """What is not stored of what was accepted."""
    with engine.connect() as connection:
        stored = connection.execute(text("SELECT application_id, execution_id FROM execution"))
        return set(accepted) - {(row[0], row[1]) for row in stored}


def dial(url: str, address: str = "127.0.0.1") -> socket.socket:
    """A connection from one of this machine's many loopback addresses."""
    port = int(url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS, source_address=(address, 0))


def post_from(address: str, url: str, body: bytes, headers: Mapping[str, str] = {}) -> httpx.Response:
    """The answer to a batch from one of this machine's many loopback addresses."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=SECONDS) as client:
        return client.post(url + DOCUMENTS, content=body, headers={**HEADERS, **headers})


def answer(connection: socket.socket) -> bytes:
    """The bytes received until the other side closes."""
    found = bytearray()
    while chunk := connection.recv(65_536):
        found += chunk
    return bytes(found)


def status(connection: socket.socket) -> int:
    """The status of the next response."""
    line = connection.recv(12)
    return int(line.split()[1]) if line else 0


def in_threads(*work: Callable[[], object], seconds: float = SECONDS) -> Callable[[], None]:
    """Start all in threads; the returned function waits for them and raises an exception of theirs."""
    errors: list[BaseException] = []

    def run(each: Callable[[], object]) -> None:
        try:
            each()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()

    def join() -> None:
        for thread in threads:
            thread.join(seconds)
            assert not thread.is_alive()
        if errors:
            raise errors[0]

    return join
