"""The collector over HTTP: all its responses, and no loss of accepted documents."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, func, select, text
from starlette.applications import Starlette
from tests.documents import STARTED_AT_MS, Plan, PlanNode, application, as_line, execution, planned, request
from tests.serve import real
from tests.serve.real import dial, get, head
from tests.waiting import until

from joinsight import tables
from joinsight.base.errors import ConfigurationError
from joinsight.contract.decode import HEADERS
from joinsight.contract.document import Stage
from joinsight.demo.runner import collector
from joinsight.serve import admission, cached
from joinsight.serve.app import make_app
from joinsight.serve.server import bind
from joinsight.serve.tokens import Tokens
from joinsight.store.database import connect, upgrade
from joinsight.tables import views

DOCUMENTS = "/v1/documents"
NOTHING = {"accepted": 0, "refused": []}


def talk(app: Starlette, conversation: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
    """Run a conversation with the application, without a network."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await conversation(client)

    return asyncio.run(run())


def post(app: Starlette, body: bytes, **headers: str) -> httpx.Response:
    """The answer to one batch."""
    sent = {**HEADERS, **headers}
    answer: httpx.Response = talk(app, lambda client: client.post(DOCUMENTS, content=body, headers=sent))
    return answer


def metrics(app: Starlette) -> dict[str, float]:
    """The samples of the metrics page, by name and labels."""
    page = talk(app, lambda client: client.get("/metrics")).text
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def stored(engine: Engine, application_id: str) -> list[int]:
    """Ids of the executions stored of an application."""
    c = tables.execution.c
    with engine.connect() as connection:
        return list(connection.scalars(select(c.execution_id).where(c.application_id == application_id).order_by(c[3])))


def test_good_documents_are_committed_when_the_answer_comes(engine: Engine) -> None:
    """200 says how many were accepted, and they are in the database."""
    answer = post(make_app(engine), request(application(application_id="a"), execution(application_id="a")))
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "refused": []})
    assert stored(engine, "a") == [0]


def test_deliveries_are_accounted_for(engine: Engine) -> None:
    """What arrived and what was refused, by number, and why."""
    future = as_line(execution(application_id="account", sequence=2)).replace(b'_version":1', b'_version":2')
    batch = request(application(application_id="account", sequence=3, documents_made=3), future)
    assert post(make_app(engine), batch).status_code == 400
    c = tables.delivery.c
    columns = (c.documents_arrived, c.documents_missing, c.sequences_refused, c.refused_reason)
    with engine.connect() as connection:
        row = connection.execute(select(*columns).where(c.application_id == "account")).one()
    assert (row[0], row[1], [(each.lower, each.upper) for each in row[2]]) == (1, 1, [(2, 3)])
    assert "schema_version 2 is not supported" in row[3]


def deep_plan(levels: int) -> Plan:
    """A chain of so many nodes."""
    return Plan(STARTED_AT_MS, [PlanNode("Project", level - 1, f"Project {level}") for level in range(levels)])


BAD_LINES = {
    "not JSON": (b"{nonsense", "not JSON"),
    "another schema version": (
        as_line(execution()).replace(b'"schema_version":1', b'"schema_version":2'),
        "schema_version 2 is not supported, only 1",
    ),
    "a negative counter": (
        as_line(application()).replace(b'"documents_made":0', b'"documents_made":-1'),
        "Expected `int` >= 0 - at `$.documents_made`",
    ),
    "64 MB": (as_line(execution(description="x" * 64_000_000)), "the document is larger than 16777216 bytes"),
    "text that is no UTF-8": (b'{"kind": "\xff"}', "'utf-8' codec can't decode byte 0xff"),
}


@pytest.mark.parametrize("what", BAD_LINES)
def test_a_bad_document_is_refused_and_the_others_are_kept(engine: Engine, what: str) -> None:
    """400 names the line and what is wrong with it; the good ones before and after it are stored."""
    line, reason = BAD_LINES[what]
    name = f"kept, {what}"
    before, after = (execution(application_id=name, execution_id=i) for i in (1, 2))
    answer = post(make_app(engine), request(before, line, after))
    assert answer.status_code == 400
    (refused,) = answer.json()["refused"]
    assert refused["line"] == 2
    assert reason in refused["reason"]
    assert len(answer.content) < 2_000
    assert answer.json()["accepted"] == 2
    assert stored(engine, name) == [1, 2]


def test_what_is_odd_but_right_is_accepted(engine: Engine) -> None:
    """An unknown application, a plan of 5,000 levels, a metric of an unknown type, NUL in a text: all are stored."""
    odd = planned("Odd | a | number of hops=3+4", application_id="odd", execution_id=1, description="a\0b")
    line = as_line(odd).replace(b'"type":"sum"', b'"type":"hops"')
    answer = post(
        make_app(engine), request(line, execution(application_id="odd", execution_id=2, plans=[deep_plan(5_000)]))
    )
    assert answer.json() == {"accepted": 2, "refused": []}
    assert stored(engine, "odd") == [1, 2]
    with engine.connect() as connection:
        nodes = select(func.count()).select_from(views.plan_node).where(views.plan_node.c.application_id == "odd")
        assert connection.scalar(nodes) == 5_001
        row = connection.execute(select(views.node_metric)).mappings().all()
        assert ("hops", 7) in [(one["type"], one["total"]) for one in row]
        state = select(tables.application.c.state).where(tables.application.c.application_id == "odd")
        assert connection.scalar(state) == "unknown"


BAD_REQUESTS = {
    "not gzip": (b"plain text", 400, "not gzip"),
    "cut off": (request(execution())[:-9], 400, "cut off"),
    "a gzip bomb": (gzip.compress(b"\n" * 1_000 + b" " * (65 << 20), 1), 413, "larger than 67108864 bytes unpacked"),
    "too large": (b"x" * ((32 << 20) + 1), 413, "larger than 33554432 bytes"),
}


@pytest.mark.parametrize("what", BAD_REQUESTS)
def test_a_bad_request_is_refused_as_a_whole(engine: Engine, what: str) -> None:
    """What cannot be read at all gets 400, what is too large 413, each with the reason."""
    body, status, reason = BAD_REQUESTS[what]
    answer = post(make_app(engine), body)
    assert answer.status_code == status
    assert reason in answer.json()["error"]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("Basic first", 401),
        ("first", 401),
        ("Bearer \xff", 401),
        ("Bearer first", 200),
        ("bearer second", 200),
    ],
)
def test_only_who_shows_a_token_may_write(engine: Engine, header: str | None, status: int) -> None:
    """Each of several tokens opens; whatever is wrong, the refusal is the same and nothing is stored."""
    app = make_app(engine, Tokens("first\nsecond"))
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    headers += [] if header is None else [(b"authorization", header.encode("latin-1"))]
    body = request(execution(application_id=f"token {header}"))
    answer = talk(app, lambda client: client.post(DOCUMENTS, content=body, headers=headers))
    assert answer.status_code == status
    assert len(stored(engine, f"token {header}")) == (status == 200)
    if status == 401:
        assert answer.json() == {"error": "the bearer token is missing or wrong"}


def test_a_missing_database_is_answered_with_503(
    make_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender is told to come back; the same batch is stored once the database is there again."""
    monkeypatch.setattr(cached, "FRESH_SECONDS", 0)
    with connect(make_database()) as engine:
        app = make_app(engine)
        batch = request(execution(application_id="later"))
        answer = post(app, batch)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "PASSWORD" not in answer.text.upper()
        ready = talk(app, lambda client: client.get("/readyz"))
        assert ready.status_code == 503
        assert "joinsight db upgrade" in ready.text
        assert talk(app, lambda client: client.get("/healthz")).status_code == 200
        upgrade(engine)
        assert post(app, batch).status_code == 200
        assert stored(engine, "later") == [0]
        assert talk(app, lambda client: client.get("/readyz")).status_code == 200


def test_a_killed_connection_is_replaced(engine: Engine) -> None:
    """PostgreSQL ends all connections, as at a restart: the next batch is stored."""
    app = make_app(engine)
    assert post(app, request(execution(application_id="killed", execution_id=1))).status_code == 200
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connect(engine.url.render_as_string(hide_password=False)) as admin, admin.connect() as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}"))
    assert post(app, request(execution(application_id="killed", execution_id=2))).status_code == 200
    assert stored(engine, "killed") == [1, 2]


def test_too_many_requests_get_429(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of waiting requests the sender is told to come back; the others are stored."""
    monkeypatch.setattr(admission, "MAX_CLIENT_WAITING", 3)
    app = make_app(engine)
    batches = [request(execution(application_id="many", execution_id=i)) for i in range(8)]

    async def all_at_once(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post(DOCUMENTS, content=batch, headers=HEADERS) for batch in batches))

    answers = talk(app, all_at_once)
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(200) == 3
    assert statuses.count(429) == 5
    assert all(answer.headers["retry-after"] == "5" for answer in answers if answer.status_code == 429)
    assert stored(engine, "many") == [i for i, status in enumerate(statuses) if status == 200]


def test_every_request_releases_its_lease(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_CLIENT_WAITING", 1)
    app = make_app(engine)
    good = request(execution(application_id="places"))
    bodies = (good, b"no gzip", good, gzip.compress(b"x\n" * 10_001), request(b"no JSON"), good)
    assert [post(app, body).status_code for body in bodies] == [200, 400, 200, 413, 400, 200]


def test_metrics_count_an_execution_once(engine: Engine) -> None:
    """When it ends: not while it runs, not when it is repeated or replaced, and never from an event log."""
    app = make_app(engine)
    drawing = """
        BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=3
          Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900, records read=1+2+9
          BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=9, time to collect=1500
    """
    one = {"application_id": "metrics", "execution_id": 1}
    for document in (
        planned(drawing, **one, state="running", sequence=1),
        planned(drawing, **one, sequence=2),
        planned(drawing, **one, sequence=2),
        planned(drawing, **one, sequence=3),
        planned(drawing, application_id="metrics", execution_id=2, origin="event_log", state="failed"),
    ):
        assert post(app, request(document)).status_code == 200
    post(app, request(b"{"))
    found = metrics(app)
    assert found["joinsight_executions_total,state=succeeded"] == 1
    assert found["joinsight_executions_total,state=failed"] == 0
    assert found["joinsight_shuffle_written_bytes_total"] == 900
    assert found["joinsight_joins_total,join_type=Inner,strategy=BroadcastHashJoin"] == 1
    assert found["joinsight_broadcast_seconds_sum,phase=collect"] == 1.5
    assert found["joinsight_documents_total,outcome=stored"] == 4
    assert found["joinsight_documents_total,outcome=stale"] == 1
    assert found["joinsight_documents_total,outcome=refused"] == 1
    assert found["joinsight_requests_total,status=400"] == 1


def test_a_real_server_takes_batches_of_several_senders(engine: Engine) -> None:
    """The real server takes batches from several senders at once and stops in order."""
    with collector(engine, 0, ["a-token"]) as (url, _):

        def send(i: int) -> None:
            batch = request(*(execution(application_id=f"net-{i}", execution_id=n) for n in range(20)))
            answer = real.post(url, batch, headers={"Authorization": "Bearer a-token"})
            assert answer.status_code == 200

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert get(url + "/healthz").text == "ok\n"
        with dial(url) as broken:
            broken.sendall(head(100) + b"half")
    for i in range(4):
        assert stored(engine, f"net-{i}") == list(range(20))


def test_a_collector_without_tokens_listens_on_loopback() -> None:
    """Without a token, only loopback addresses are allowed; with one, all are."""
    for host in ("0.0.0.0", "::", "collector.example"):
        with pytest.raises(ConfigurationError, match="without a token, anyone"):
            bind(host, 0, open_to_all=True)
    bind("0.0.0.0", 0).close()


def test_a_taken_port_is_said() -> None:
    """The message names the address and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*in use.*Name a free port"):
            bind("127.0.0.1", port)


def test_what_postgresql_refuses_is_named_by_its_line(engine: Engine) -> None:
    """Lines count from 1, empty and bad ones too, whoever refused them; the reasons stand in the order of the lines."""
    twice = [Stage(7, 0, "a stage", 1, "succeeded")] * 2
    lines = (
        b"",
        execution(application_id="lines", execution_id=1),
        execution(application_id="lines", execution_id=2, stages=twice),
        b"",
        b"nonsense",
        execution(application_id="lines", execution_id=3),
    )
    answer = post(make_app(engine), request(*lines))
    assert (answer.status_code, answer.json()["accepted"]) == (400, 2)
    assert [refused["line"] for refused in answer.json()["refused"]] == [3, 5]
    assert "PostgreSQL refused it: duplicate key" in answer.json()["refused"][0]["reason"]
    assert stored(engine, "lines") == [1, 3]


def test_too_many_lines_are_too_large(engine: Engine) -> None:
    """413 tells the sender to send fewer at once."""
    answer = post(make_app(engine), gzip.compress(b"x\n" * 10_001))
    assert (answer.status_code, answer.json()) == (413, NOTHING | {"error": "the request has more than 10000 lines"})


def test_the_token_is_asked_for_before_anything_is_read(engine: Engine) -> None:
    """A client without a token cannot make the collector read, unpack or wait."""
    app = make_app(engine, Tokens("first"))

    async def never(client: httpx.AsyncClient) -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            raise AssertionError("the body was read")
            yield b""

        return await client.post(DOCUMENTS, content=body())

    assert talk(app, never).status_code == 401

    async def look(client: httpx.AsyncClient) -> list[int]:
        return [(await client.get(page)).status_code for page in ("/metrics", "/healthz", "/readyz")]

    assert talk(app, look) == [200, 200, 200]


@contextmanager
def no_connections(engine: Engine, postgres: str) -> Iterator[None]:
    """PostgreSQL ends all connections to the database and takes no new ones."""
    name = engine.url.database
    with connect(postgres) as server, server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'))
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"), {"name": name}
        )
        try:
            yield
        finally:
            connection.execute(text(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'))


def test_nothing_is_lost_while_the_database_is_gone(engine: Engine, postgres: str) -> None:
    """503 with Retry-After as long as it lasts; then the same batch is stored, and counted once."""
    app = make_app(engine)
    batch = request(application(application_id="gone"), execution(application_id="gone", execution_id=1))
    with no_connections(engine, postgres):
        for _ in range(3):
            answer = post(app, batch)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert answer.json() == {"error": "the database is unavailable or does not accept the batch"}
        ready = talk(app, lambda client: client.get("/readyz"))
        assert (ready.status_code, ready.text[:31]) == (503, "the database does not answer: c")
        assert talk(app, lambda client: client.get("/healthz")).status_code == 200
    assert post(app, batch).json() == {"accepted": 2, "refused": []}
    assert stored(engine, "gone") == [1]
    found = metrics(app)
    assert found["joinsight_executions_total,state=succeeded"] == 1
    assert (found["joinsight_requests_total,status=503"], found["joinsight_requests_total,status=200"]) == (3, 1)


def test_a_batch_whose_database_connection_breaks_is_503_and_whole_when_repeated(engine: Engine) -> None:
    """A batch whose connection breaks while it is copied gets 503 and is whole when it is sent again."""
    app = make_app(engine)
    batch = request(planned("SortMergeJoin | [k#1], [k#2], Inner", application_id="broken"))
    die = "BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS '{die}'"))
        connection.execute(text("CREATE TRIGGER die BEFORE INSERT ON joins FOR EACH ROW EXECUTE FUNCTION die()"))
    try:
        assert post(app, batch).status_code == 503
        assert stored(engine, "broken") == []
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP FUNCTION die CASCADE"))
    assert post(app, batch).status_code == 200
    assert stored(engine, "broken") == [0]


def test_negative_numbers_do_not_harm_counters(engine: Engine) -> None:
    drawing = """
        SortMergeJoin | [k#1], [k#2], Inner | spill=-5
          Exchange | hashpartitioning(k#1, 8), [plan_id=1] | written=-900
          BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | collect=-7
    """
    names = {"spill": "spill size", "written": "shuffle bytes written", "collect": "time to collect"}
    line = as_line(planned(drawing, application_id="negative"))
    for short, name in names.items():
        line = line.replace(f'"name":"{short}"'.encode(), f'"name":"{name}"'.encode())
    app = make_app(engine)
    assert post(app, request(line)).json() == {"accepted": 1, "refused": []}
    found = metrics(app)
    assert found["joinsight_executions_total,state=succeeded"] == 1
    assert found["joinsight_shuffle_written_bytes_total"] == 0
    assert found["joinsight_join_spilled_bytes_total"] == 0


def test_a_request_is_measured(engine: Engine) -> None:
    """How large it was, how long it took to decode and to write, and the outcome of its documents."""
    app = make_app(engine)
    newer = as_line(execution(application_id="phases")).replace(b'"schema_version":1', b'"schema_version":7')
    body = request(execution(application_id="phases"), b"{", newer, b'{"kind":"execution"}')
    assert post(app, body).status_code == 400
    page = talk(app, lambda client: client.get("/metrics"))
    assert page.headers["content-type"].startswith("text/plain; version=")
    found = metrics(app)
    assert found["joinsight_received_bytes_total"] == len(body)
    assert found["joinsight_batch_documents_sum"] == 4
    assert found["joinsight_decode_seconds_count"] == found["joinsight_write_seconds_count"] == 1
    assert abs(time.time() - found["joinsight_last_write_timestamp_seconds"]) < 60
    for reason, number in {"json": 1, "version": 1, "schema": 1, "database": 0, "fault": 0}.items():
        assert found[f"joinsight_refused_documents_total,reason={reason}"] == number, reason


def test_broken_requests_are_counted(engine: Engine) -> None:
    """A sender that hangs up in its request releases its ticket; the server continues."""
    with collector(engine, 0, []) as (url, _):
        batch = request(execution(application_id="cut"))
        head_of_batch = head(0).partition(b"Content-Length")[0]
        starts = (
            b"Content-Length: %d\r\n\r\n" % len(batch) + batch[:-5],
            b"Transfer-Encoding: chunked\r\n\r\nff\r\nhalf",
        )
        for start in starts:
            with dial(url) as broken:
                broken.sendall(head_of_batch + start)
        assert real.post(url, batch).status_code == 200
        shown = 'joinsight_requests_total{status="400"} 2.0'
        until(lambda: shown in get(url + "/metrics").text, "both are counted")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    """Any loopback address works without a token."""
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    bind(host, 0, open_to_all=True).close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "ü" * 70, "192.0.2.1", "two words", ""], ids=ascii)
def test_an_address_that_cannot_be_used(host: str) -> None:
    """A host that cannot be listened on is named, with what would be right, and no traceback."""
    with pytest.raises(ConfigurationError, match=r"--host"):
        bind(host, 0, open_to_all=not host)


def test_responses_do_not_wait_for_acknowledgements() -> None:
    """A connection has TCP_NODELAY: a small response is sent at once, also after an earlier one."""

    async def option() -> int:
        connected: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(lambda _, writer: connected.set_result(writer), sock=bind("127.0.0.1", 0))
        _, client = await asyncio.open_connection(*server.sockets[0].getsockname())
        accepted = await connected
        found: int = accepted.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.close()
        accepted.close()
        server.close()
        return found

    assert asyncio.run(option())
