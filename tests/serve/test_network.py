"""Slow, greedy and silent clients on a real port take few resources and do not lock others out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from starlette.requests import Request
from starlette.responses import Response
from tests.documents import execution, request
from tests.serve.real import (
    DOCUMENTS,
    SECONDS,
    Service,
    answer,
    dial,
    get,
    head,
    in_threads,
    locked,
    post,
    post_from,
    service,
    status,
    until,
    writers_that_wait,
)
from tests.store.test_embedded import with_proc

from joinsight.contract.decode import HEADERS
from joinsight.demo.runner import collector
from joinsight.serve import admission, app, cached, ingest, protocol
from joinsight.serve.access import guarded
from joinsight.serve.metrics import Metrics
from joinsight.serve.tokens import TOKEN_VARIABLE, Tokens


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    """A collector that anyone may send to."""
    with collector(engine, 0, []) as (url, _):
        yield url


def metric(url: str, name: str) -> float:
    """A metric's value; 0 if it has none yet."""
    page = get(url + "/metrics").text
    return float(next((line.split()[1] for line in page.splitlines() if line.startswith(name + " ")), 0))


def is_cut_off(connection: socket.socket) -> bool:
    """Whether the server has closed the connection; sends one more byte."""
    try:
        connection.sendall(b"x")
    except ConnectionError:
        return True
    return False


def good(name: str) -> bytes:
    return request(execution(application_id=name))


# Slow ones


@pytest.mark.parametrize("sent", [b"", b"POST /v1/doc", head(10)[:-2]], ids=["nothing", "a line", "all but its end"])
def test_a_head_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """A client that does not finish a request's head is disconnected, even if it keeps sending."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.4)
    started = time.monotonic()
    with dial(url) as slow:
        slow.sendall(sent)
        if sent:
            until(lambda: is_cut_off(slow), "the sender is cut off")
        else:
            assert answer(slow) == b""
    assert time.monotonic() - started > 0.3


def test_a_further_head_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds after an answer, on the connection that was kept."""
    with dial(url) as slow:
        body = good("further")
        slow.sendall(head(len(body)) + body)
        assert status(slow) == 200
        monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
        slow.sendall(b"POST ")
        answer(slow)


def test_a_body_that_does_not_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 at the deadline, the connection is closed, and what was held is given back."""
    monkeypatch.setattr(app, "BODY_SECONDS", 0.3)
    with dial(url) as slow:
        slow.sendall(head(1_000) + b"x" * 999)
        said = answer(slow)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.3 s" in said
    until(lambda: metric(url, "joinsight_requests_held_bytes") == 0, "all is given back")


def test_a_body_that_nobody_reads(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that keeps sending a rejected body is disconnected."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    with dial(url) as slow:
        slow.sendall(head(40 << 20))
        assert status(slow) == 413
        until(lambda: is_cut_off(slow), "the sender is cut off")


def test_an_answer_that_nobody_reads(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read a response is disconnected, and its memory is released."""
    monkeypatch.setattr(protocol, "READ_SECONDS", 0.3)
    with collector(engine, 0, []) as (url, server), socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.settimeout(SECONDS)
        deaf.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
        until(lambda: server.connections.open, "it is connected")
        until(lambda: not server.connections.open, "it is cut off")
        assert 10 < answer(deaf).count(b"HTTP/1.1 200 OK") < 1_000


def test_slow_senders_do_not_block_a_good_one(url: str) -> None:
    """64 senders that stop in the middle of their bodies take no place of the 65th."""
    with ExitStack() as stack:
        for number in range(64):
            slow = stack.enter_context(dial(url, f"127.0.1.{number % 4 + 1}"))
            slow.sendall(head(10_000) + b"x" * 5_000)
        until(lambda: metric(url, "joinsight_requests_held_bytes") == 64 * 5_000, "all have sent half")
        assert post(url, good("the 65th")).status_code == 200
    until(lambda: metric(url, "joinsight_requests_held_bytes") == 0, "all is given back")


# Greedy ones


def test_one_client_does_not_take_all_places(url: str, engine: Engine) -> None:
    """Beyond its share of waiting requests a client gets 429; another one still has its place."""
    answers: list[int] = []

    def send(name: str, address: str) -> None:
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=SECONDS) as client:
            answers.append(client.post(url + DOCUMENTS, content=good(name), headers=HEADERS).status_code)

    with locked(engine):
        join = in_threads(*(lambda n=n: send(f"greedy-{n}", "127.0.0.2") for n in range(admission.MAX_CLIENT_WAITING)))
        until(lambda: metric(url, "joinsight_requests_waiting") == admission.MAX_CLIENT_WAITING, "its places are taken")
        with dial(url, "127.0.0.2") as one_more:
            body = good("one more")
            one_more.sendall(head(len(body), "Connection: close") + body)
            said = answer(one_more)
        assert said.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5" in said
        assert b"from this address" in said
        join_other = in_threads(lambda: send("modest", "127.0.0.3"))
        until(lambda: metric(url, "joinsight_requests_waiting") == admission.MAX_CLIENT_WAITING + 1, "the other waits")
    join()
    join_other()
    assert answers == [200] * (admission.MAX_CLIENT_WAITING + 1)
    for name in ("joinsight_requests_waiting", "joinsight_requests_held_bytes"):
        until(lambda name=name: metric(url, name) == 0, "all is given back")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("limit", "held", "second", "reason"),
    [
        ("MAX_CLIENT_BYTES", 99_990, "127.0.0.2", b"from this address"),
        ("MAX_HELD_BYTES", 56_000, "127.0.0.3", b"from all senders"),
    ],
)
def test_bytes_in_memory_are_bounded(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: str, held: int, second: str, reason: bytes
) -> None:
    """The request that would be too much is answered 429; when the others are over it is taken."""
    monkeypatch.setattr(admission, limit, 100_000)
    if reason == b"from all senders":
        monkeypatch.setattr(admission, "MAX_CLIENT_BYTES", 100_000)
    body = os.urandom(30_000)
    with collector(engine, 0, []) as (url, _):
        with dial(url, "127.0.0.2") as first:
            first.sendall(head(100_000) + b"x" * held)
            until(lambda: metric(url, "joinsight_requests_held_bytes") == held, "the first one holds much")
            with dial(url, second) as other:
                other.sendall(head(len(body), "Connection: close") + body)
                said = answer(other)
            assert said.startswith(b"HTTP/1.1 429 ")
            assert reason in said
        until(lambda: metric(url, "joinsight_requests_held_bytes") == 0, "the first one's is given back")
        with dial(url, second) as other:
            other.sendall(head(len(good(limit))) + good(limit))
            assert status(other) == 200


KINDS_OF_END = ("429", "413", "gone")


@with_proc
def test_requests_that_end_early_leave_no_body_in_memory(engine: Engine) -> None:
    """Neither those answered 429 or 413 nor those whose client hangs up, though no garbage is collected."""
    piece = os.urandom(1 << 20)
    patch = "import gc; gc.disable(); from joinsight.serve import admission; admission.MAX_CLIENT_BYTES = 24 << 20"
    with service(engine.url.render_as_string(hide_password=False), patch=patch) as running:
        before = resident_mib(running)
        for end in KINDS_OF_END * 4:
            with dial(running.url) as sender:
                if end == "gone":
                    sender.sendall(head(30 << 20) + piece * 20)
                    until(lambda: metric(running.url, "joinsight_requests_held_bytes") == 20 << 20, "it is there")
                    continue
                if end == "413":
                    sender.sendall(head(40 << 20))
                else:
                    with suppress(ConnectionError):
                        sender.sendall(head(30 << 20) + piece * 30)
                assert status(sender) == int(end)
        until(lambda: metric(running.url, "joinsight_requests_held_bytes") == 0, "all have ended")
        assert resident_mib(running) - before < 60


def resident_mib(running: Service) -> int:
    """The memory of a service's process, in MiB."""
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


def test_the_page_of_metrics_is_made_once_for_many_requests(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not in the event loop, in which all else waits for it."""
    monkeypatch.setattr(cached, "FRESH_SECONDS", 1_200)
    made: list[str] = []

    def page(self: Metrics) -> bytes:
        made.append(threading.current_thread().name)
        return b"metrics"

    monkeypatch.setattr(Metrics, "page", page)
    with collector(engine, 0, []) as (url, _), dial(url) as greedy:
        greedy.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        found = b""
        while found.count(b"metrics") < 50:
            found += greedy.recv(65_536)
    assert len(made) == 1 and made != ["collector"]


def test_probes_take_turns() -> None:
    """A flood of requests that anyone may make is answered two in a round of the event loop."""
    answered: list[int] = []

    async def scenario() -> None:
        async def endpoint(request: Request) -> Response:
            answered.append(0)
            return Response()

        guard = guarded(endpoint, Tokens("good"), asyncio.Semaphore(app.MAX_PROBES))
        request = Request({"type": "http", "headers": []})
        flood = [asyncio.ensure_future(guard(request)) for _ in range(100)]
        rounds = 0
        while not all(each.done() for each in flood):
            await asyncio.sleep(0)
            rounds += 1
            assert len(answered) <= app.MAX_PROBES * rounds

    asyncio.run(scenario())
    assert len(answered) == 100


# Too many connections

FLOOD = {
    "nothing": b"",
    "half of a head": b"POST /v1/documents HTTP/1.1\r\nHost: loc",
    "half of a body": head(10_000) + b"x" * 5_000,
    "a wrong token": head(10_000, "Authorization: Bearer wrong"),
    "a request for all to see": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an answer that is not read": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
}
# With tokens, answers that are not read take more CPU than all the others together
FLOODS = [
    pytest.param(
        what, tokens, id=f"{what}-{how}", marks=[pytest.mark.matrix] if how == "tokens" and "answer" in what else []
    )
    for what in FLOOD
    for how, tokens in (("open", []), ("tokens", ["good"]))
]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 20 connections, 5 of an address."""
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr(protocol, "MAX_CLIENT_CONNECTIONS", 5)


def of_address(url: str, address: str) -> httpx.Client:
    return httpx.Client(
        transport=httpx.HTTPTransport(local_address=address), base_url=url, headers=HEADERS, timeout=SECONDS
    )


@contextmanager
def one_connection(url: str, address: str) -> Iterator[HTTPConnection]:
    """A connection that is kept between requests, and never replaced."""
    kept = HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), SECONDS, source_address=(address, 0))
    kept.connect()
    kept.auto_open = 0
    with closing(kept):
        yield kept


@pytest.mark.parametrize(("what", "tokens"), FLOODS)
def test_who_shows_no_right_keeps_nobody_out(engine: Engine, few: None, what: str, tokens: list[str]) -> None:
    """However many addresses hold as many connections as they may, a sender is served on each new connection, and on
    one that it has kept."""
    shown = {"Authorization": "Bearer good"} if tokens else {}
    with collector(engine, 0, tokens) as (url, _), ExitStack() as stack:
        kept = stack.enter_context(one_connection(url, "127.0.0.9"))
        for number in range(3):
            kept.request("POST", DOCUMENTS, good(f"kept {number}"), {**HEADERS, **shown})
            assert json.loads(kept.getresponse().read()) == {"accepted": 1, "refused": []}
            for _ in range(5):
                for address in range(2, 8):
                    sent = stack.enter_context(dial(url, f"127.0.0.{address}"))
                    with suppress(OSError):  # it may have been sent away by then
                        sent.sendall(FLOOD[what])
            with of_address(url, "127.0.0.10") as new:
                stored = new.post(DOCUMENTS, content=good(f"new {number}"), headers=shown)
                assert stored.json() == {"accepted": 1, "refused": []}


def test_one_address_keeps_nobody_else_out(engine: Engine, few: None) -> None:
    """It loses its own oldest connections; those of another that have shown nothing yet either stay."""
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        modest = stack.enter_context(dial(url, "127.0.0.3"))
        greedy = [stack.enter_context(dial(url, "127.0.0.2")) for _ in range(8)]
        assert [answer(each)[:12] for each in greedy[:3]] == [b"HTTP/1.1 503"] * 3
        for each in (modest, *greedy[3:]):
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(each) == 200


def test_who_holds_most_loses_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the oldest connection, where another address has many."""
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 12)
    monkeypatch.setattr(protocol, "FEW_CONNECTIONS", 2)
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        modest = stack.enter_context(dial(url, "127.0.0.3"))
        greedy = [stack.enter_context(dial(url, "127.0.0.2")) for _ in range(10)]
        for _ in range(4):
            stack.enter_context(dial(url, "127.0.0.4"))
        assert [answer(each)[:12] for each in greedy[:3]] == [b"HTTP/1.1 503"] * 3
        modest.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(modest) == 200


SHOWN = "Authorization: Bearer good"


def idle(stack: ExitStack, url: str, number: int) -> list[socket.socket]:
    """Connections from five addresses that have delivered a document, with a token, and do nothing now."""
    kept = []
    for each in range(number):
        kept.append(stack.enter_context(dial(url, f"127.0.0.{each % 5 + 2}")))
        kept[-1].sendall(head(len(request()), SHOWN) + request())
        assert status(kept[-1]) == 200
    return kept


def test_who_is_idle_makes_room(engine: Engine, few: None) -> None:
    """Among those who have a right to be here, the ones that are doing nothing go."""
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        kept = idle(stack, url, 20)
        new = stack.enter_context(dial(url, "127.0.0.9"))
        new.sendall(head(len(request()), SHOWN) + request())
        assert status(new) == 200
        assert b"503 Service Unavailable" in answer(kept[0])


def test_all_that_go_are_told(engine: Engine, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when more go than are waited for until they close: those who were told first are cut off."""
    monkeypatch.setattr(protocol, "MAX_LEAVING", 1)
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        kept = idle(stack, url, 24)
        told = [b"503 Service Unavailable" in answer(each) for each in kept[:4]]
    assert told == [True] * 4


def test_a_request_that_was_on_its_way_is_answered(engine: Engine, few: None) -> None:
    """A kept connection is turned away while its next request is being sent: the response is not lost by a reset."""
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        kept = idle(stack, url, 21)
        until(lambda: kept[0].recv(1, socket.MSG_PEEK), "it is told")
        body = os.urandom(20 << 20)
        kept[0].sendall(head(len(body), SHOWN) + body)
        assert b"HTTP/1.1 503 Service Unavailable" in answer(kept[0])


@pytest.mark.parametrize("number", [1_000, 300], ids=["room for all", "room for 20"])
def test_a_thousand_drivers_all_get_a_response(engine: Engine, request: pytest.FixtureRequest, number: int) -> None:
    """All that connect at once get an HTTP response, 200 or one with Retry-After, also far above the limits."""
    if number == 300:
        request.getfixturevalue("few")
    if protocol.raise_open_files() < 3 * number:
        pytest.skip(f"this machine allows fewer than {3 * number} open files")
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        body = good("a thousand drivers")
        drivers = [stack.enter_context(dial(url, f"127.0.0.{each % 5 + 2}")) for each in range(number)]
        for each in drivers:
            each.sendall(head(len(body), SHOWN, "Connection: close") + body)
        answers = [answer(each) for each in drivers]
    statuses = Counter(each[9:12] for each in answers)
    assert set(statuses) <= {b"200", b"429", b"503"}
    assert statuses[b"200"]
    assert all(b"\r\nretry-after: 5\r\n" in each.lower() for each in answers if each[9:12] != b"200")
    if number == 1_000:
        assert not any(b"too many connections" in each for each in answers)


def test_who_is_gone_before_it_is_told(engine: Engine, few: None) -> None:
    """Clients that have closed their connections when these are accepted and turned away do not disturb the others."""
    with collector(engine, 0, ["good"]) as (url, server), dial(url) as first, ExitStack() as stack:
        until(lambda: server.connections.open, "it is connected")
        (connection,) = server.connections.open
        held = threading.Event()
        connection._loop.call_soon_threadsafe(held.wait)
        for _ in range(5):
            dial(url, "127.0.0.2").close()
        here = [stack.enter_context(dial(url, "127.0.0.2")) for _ in range(5)]
        held.set()
        for each in (first, *here):
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(each) == 200


def test_connections_leave_enough_open_files(engine: Engine) -> None:
    """However many connections wait to be accepted, enough open files remain for those that are served."""
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    database = engine.url.render_as_string(hide_password=False)
    with service(database, patch=few, environment={TOKEN_VARIABLE: "good"}) as running, ExitStack() as stack:
        running.signal(signal.SIGSTOP)
        for number in range(400):
            stack.enter_context(dial(running.url, f"127.0.0.{number % 40 + 2}"))
        running.signal(signal.SIGCONT)
        shown = {"Authorization": "Bearer good"}
        assert post(running.url, good("few files"), headers=shown).status_code == 200
        running.signal(signal.SIGTERM)
        assert running.end() == 0
        assert len(running.logged("too many connections")) == 1
        assert [event for event in running.log if event["level"] == "error"] == []


def test_who_shows_no_right_has_less_room(engine: Engine, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a token are limited in number, however much room there is for others."""
    monkeypatch.setattr(protocol, "MAX_UNAUTHORISED", 3)
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        kept = idle(stack, url, 10)
        silent = [stack.enter_context(dial(url, f"127.0.0.{each + 10}")) for each in range(8)]
        assert [answer(each)[:12] for each in silent[:5]] == [b"HTTP/1.1 503"] * 5
        for each in kept:
            each.sendall(head(len(request()), SHOWN) + request())
            until(lambda each=each: b"accepted" in each.recv(65_536), "it is served")  # type: ignore[misc]
        for each in silent[5:]:
            each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(each) == 200


def test_when_all_are_at_work_the_next_one_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After and its reason, also to one who sends a large body before he listens; nothing is reset."""
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 3)
    shown = {"Authorization": "Bearer good"}
    statuses: list[int] = []
    with collector(engine, 0, ["good"]) as (url, server):

        def send(number: int) -> None:
            statuses.append(post(url, good(f"at work {number}"), headers=shown).status_code)

        with locked(engine):
            join = in_threads(*(lambda n=n: send(n) for n in range(3)))
            until(lambda: b"joinsight_requests_waiting 3.0" in server.collector.metrics.page(), "all are at work")
            for body in (good("told"), os.urandom(20 << 20)):
                told = post(url, body, headers=shown)
                assert (told.status_code, told.headers["retry-after"]) == (503, "5")
                assert told.json() == {"error": "too many connections"}
            with dial(url) as silent:
                assert answer(silent).endswith(b'{"error":"too many connections"}\n')
        join()
        assert statuses == [200] * 3
        assert post(url, good("told"), headers=shown).status_code == 200


def test_those_who_do_not_go_are_cut_off(engine: Engine, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected client that does not read the response holds nothing for long; only a few are answered at a time."""
    monkeypatch.setattr(protocol, "MAX_LEAVING", 4)
    with collector(engine, 0, ["good"]) as (url, server), ExitStack() as stack:
        for number in range(60):
            if number == 50:
                monkeypatch.setattr(protocol, "GOODBYE_SECONDS", 1)
            stack.enter_context(dial(url, f"127.0.0.{number % 10 + 2}"))
            # one more is being accepted; those that are cut off leave in the next round of the event loop
            until(lambda: len(server.connections.open) <= 20 + 4 + 1, "only a few are answered at a time")
        until(lambda: len(server.connections.open) == 20, "those who were told have gone")


def test_too_many_connections_are_logged(engine: Engine, few: None, caplog: pytest.LogCaptureFixture) -> None:
    with collector(engine, 0, ["good"]) as (url, _), ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(dial(url, "127.0.0.2"))
        until(lambda: "too many connections" in caplog.text, "it is logged")
        assert get(url + "/healthz").status_code == 200
    said = [record.__dict__["fields"] for record in caplog.records if "too many connections" in record.message]
    assert said == [{"connections": 6, "client": "127.0.0.2", "of_client": 6}]


def test_an_idle_connection_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinsight.serve.server.IDLE_SECONDS", 0.3)
    with collector(engine, 0, []) as (url, _), dial(url) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer(idle).startswith(b"HTTP/1.1 200 ")


def test_a_slot_that_does_not_come(url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits too long for PostgreSQL gets 503."""
    monkeypatch.setattr(app, "SLOT_SECONDS", 0.3)
    answers: list[int] = []

    def send(number: int) -> None:
        answers.append(post_from(f"127.0.0.{number + 2}", url, good(f"turn-{number}")).status_code)

    with locked(engine):
        join = in_threads(*(lambda n=n: send(n) for n in range(admission.MAX_WRITING)))
        until(lambda: writers_that_wait(engine) == admission.MAX_WRITING, "all slots are taken")
        late = post(url, good("turn-late"))
        assert (late.status_code, late.headers["retry-after"]) == (503, "5")
        assert "too slow" in late.json()["error"]
    join()
    assert answers == [200] * admission.MAX_WRITING


def test_a_lock_that_is_not_given_back(url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch blocked by a lock in PostgreSQL gets 503, and is accepted later."""
    monkeypatch.setattr(ingest, "LOCK_SECONDS", 1)
    batch = good("locked out")
    with collector(engine, 0, []) as (other, _):
        with locked(engine):
            assert post(other, batch).status_code == 503
        assert post(other, batch).json() == {"accepted": 1, "refused": []}
