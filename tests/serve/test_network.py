"""Slow, greedy and silent clients on a real port: each costs little, and none keeps the others out."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from sqlalchemy import Engine
from tests.documents import execution, request
from tests.serve.real import (
    DOCUMENTS,
    SECONDS,
    answer,
    dial,
    head,
    in_threads,
    locked,
    post,
    post_from,
    status,
    until,
    writers_that_wait,
)

from joinsight.decode import HEADERS
from joinsight.demo.runner import collector
from joinsight.serve import app, places, protocol


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    """A collector that anyone may send to."""
    with collector(engine, 0, []) as (url, _):
        yield url


def metric(url: str, name: str) -> float:
    """A metric's value; 0 if it has none yet."""
    page = httpx.get(url + "/metrics").text
    return float(next((line.split()[1] for line in page.splitlines() if line.startswith(name + " ")), 0))


def good(name: str) -> bytes:
    return request(execution(application_id=name))


# Slow ones


@pytest.mark.parametrize("sent", [b"", b"POST /v1/doc", head(10)[:-2]], ids=["nothing", "a line", "all but its end"])
def test_a_head_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Who does not come to the end of a request's head is cut off, however steadily more of it comes."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.4)
    started = time.monotonic()
    with dial(url) as slow, pytest.raises(OSError):  # ends in a reset or a broken pipe
        slow.sendall(sent)
        while time.monotonic() < started + 10:
            time.sleep(0.05)
            if sent:
                slow.sendall(b"x")
            elif not slow.recv(1):
                raise ConnectionResetError
    assert 0.3 < time.monotonic() - started < 10


def test_a_further_head_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds after an answer, on the connection that was kept."""
    with dial(url) as slow:
        body = good("further")
        slow.sendall(head(len(body)) + body)
        assert status(slow) == 200
        monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
        slow.sendall(b"POST ")
        started = time.monotonic()
        answer(slow)
    assert time.monotonic() - started < 10


def test_a_body_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 at the deadline, the connection is closed, and what was held is given back."""
    monkeypatch.setattr(app, "BODY_SECONDS", 0.3)
    with dial(url) as slow:
        slow.sendall(head(1_000) + b"x" * 999)
        said = answer(slow)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come within 0.3 s" in said
    assert metric(url, "joinsight_requests_held_bytes") == 0


def test_a_body_that_nobody_reads(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who goes on sending what was refused is cut off."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    started = time.monotonic()
    with dial(url) as slow, pytest.raises(OSError):
        slow.sendall(head(40 << 20))
        assert status(slow) == 413
        while time.monotonic() < started + 10:
            slow.sendall(b"x")
            time.sleep(0.05)
    assert time.monotonic() - started < 10


def test_an_answer_that_nobody_reads(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not take an answer off the network is cut off, and the server forgets it."""
    monkeypatch.setattr(protocol, "READ_SECONDS", 0.3)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.settimeout(SECONDS)
        deaf.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
        time.sleep(3)
        assert 10 < answer(deaf).count(b"HTTP/1.1 200 OK") < 1_000


def test_slow_senders_do_not_block_a_good_one(url: str) -> None:
    """64 senders that stop in the middle of their bodies take no place of the 65th."""
    with ExitStack() as stack:
        for number in range(64):
            slow = stack.enter_context(dial(url, f"127.0.1.{number % 4 + 1}"))
            slow.sendall(head(10_000) + b"x" * 5_000)
        until(lambda: metric(url, "joinsight_requests_held_bytes") == 64 * 5_000, "all have sent half")
        started = time.monotonic()
        assert post(url, good("the 65th")).status_code == 200
        assert time.monotonic() - started < 10
    until(lambda: metric(url, "joinsight_requests_held_bytes") == 0, "all is given back")


# Greedy ones


def test_one_client_does_not_take_all_places(url: str, engine: Engine) -> None:
    """Beyond its share of waiting requests a client gets 429; another one still has its place."""
    answers: list[int] = []

    def send(name: str, address: str) -> None:
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=20) as client:
            answers.append(client.post(url + DOCUMENTS, content=good(name), headers=HEADERS).status_code)

    with locked(engine):
        join = in_threads(*(lambda n=n: send(f"greedy-{n}", "127.0.0.2") for n in range(places.MAX_CLIENT_WAITING)))
        until(lambda: metric(url, "joinsight_requests_waiting") == places.MAX_CLIENT_WAITING, "its places are taken")
        with dial(url, "127.0.0.2") as one_more:
            body = good("one more")
            one_more.sendall(head(len(body), "Connection: close") + body)
            said = answer(one_more)
        assert said.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5" in said
        assert b"from this address" in said
        join_other = in_threads(lambda: send("modest", "127.0.0.3"))
        until(lambda: metric(url, "joinsight_requests_waiting") == places.MAX_CLIENT_WAITING + 1, "the other waits")
    join()
    join_other()
    assert answers == [200] * (places.MAX_CLIENT_WAITING + 1)
    assert metric(url, "joinsight_requests_waiting") == metric(url, "joinsight_requests_held_bytes") == 0


@pytest.mark.parametrize(
    ("limit", "second", "reason"),
    [("MAX_CLIENT_BYTES", "127.0.0.2", b"from this address"), ("MAX_HELD_BYTES", "127.0.0.3", b"of all senders")],
)
def test_bytes_in_memory_are_bounded(
    url: str, monkeypatch: pytest.MonkeyPatch, limit: str, second: str, reason: bytes
) -> None:
    """The request that would be too much is answered 429; when the others are over it is taken."""
    monkeypatch.setattr(places, limit, 100_000)
    body = request(b" " * 20, execution(application_id=limit))
    with dial(url, "127.0.0.2") as first:
        first.sendall(head(100_000) + b"x" * 99_990)
        until(lambda: metric(url, "joinsight_requests_held_bytes") == 99_990, "the first one holds almost all")
        with dial(url, second) as other:
            other.sendall(head(len(body), "Connection: close") + body)
            said = answer(other)
        assert said.startswith(b"HTTP/1.1 429 ")
        assert reason in said
    until(lambda: metric(url, "joinsight_requests_held_bytes") == 0, "the first one's is given back")
    with dial(url, second) as other:
        other.sendall(head(len(body)) + body)
        assert status(other) == 200


def test_connections_are_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than a client may have, or than all may, is closed at once; the others are served."""
    with ExitStack() as stack:
        opened = []

        def open_from(address: str) -> socket.socket:
            connection = stack.enter_context(dial(url, address))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return connection

        def served(connection: socket.socket) -> bool:
            try:
                return status(connection) == 200
            except ConnectionResetError:
                return False

        monkeypatch.setattr(protocol, "MAX_CLIENT_CONNECTIONS", 3)
        monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 5)
        opened = [served(open_from("127.0.0.2")) for _ in range(5)]
        assert opened == [True, True, True, False, False]
        opened = [served(open_from(address)) for address in ("127.0.0.3", "127.0.0.4", "127.0.0.5")]
        assert opened == [True, True, False]


def test_an_idle_connection_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is kept and not used ends."""
    monkeypatch.setattr("joinsight.serve.server.IDLE_SECONDS", 0.3)
    with collector(engine, 0, []) as (url, _), dial(url) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        started = time.monotonic()
        assert answer(idle).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - started < 10


def test_a_turn_that_does_not_come(url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits too long for PostgreSQL to take what came before gets 503."""
    monkeypatch.setattr(app, "TURN_SECONDS", 0.3)
    answers: list[int] = []

    def send(number: int) -> None:
        answers.append(post_from(f"127.0.0.{number + 2}", url, good(f"turn-{number}")).status_code)

    with locked(engine):
        join = in_threads(*(lambda n=n: send(n) for n in range(places.MAX_WRITING)))
        until(lambda: writers_that_wait(engine) == places.MAX_WRITING, "all turns are taken")
        late = post(url, good("turn-late"))
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        assert "too slow" in late.json()["error"]
    join()
    assert answers == [200] * places.MAX_WRITING


def test_a_lock_that_is_not_given_back(url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who meets a lock in PostgreSQL is not held for ever: 503, and the same batch is taken afterwards."""
    monkeypatch.setattr(app, "LOCK_SECONDS", 1)
    batch = good("locked out")
    with collector(engine, 0, []) as (other, _):
        with locked(engine):
            assert post(other, batch, timeout=10).status_code == 503
        assert post(other, batch).json() == {"accepted": 1, "refused": []}
