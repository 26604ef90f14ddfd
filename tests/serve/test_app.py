"""The collector over HTTP: every answer that it can give, and that nothing accepted is lost."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, func, select, text
from starlette.applications import Starlette
from tests.documents import STARTED_AT_MS, application, as_line, execution, planned, request

from joinsight.demo.runner import collector
from joinsight.document import Plan, PlanNode
from joinsight.errors import ConfigurationError
from joinsight.serve import app as service
from joinsight.serve.app import make_app
from joinsight.serve.server import make_server, read_tokens
from joinsight.store import models
from joinsight.store.database import connect, upgrade

DOCUMENTS = "/v1/documents"


def talk(app: Starlette, conversation: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
    """Run a conversation with the application, without a network."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            return await conversation(client)

    return asyncio.run(run())


def post(app: Starlette, body: bytes, **headers: str) -> httpx.Response:
    """The answer to one batch."""
    answer: httpx.Response = talk(app, lambda client: client.post(DOCUMENTS, content=body, headers=headers))
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
    c = models.execution.c
    with engine.connect() as connection:
        return list(connection.scalars(select(c.execution_id).where(c.application_id == application_id).order_by(c[3])))


def test_good_documents_are_committed_when_the_answer_comes(engine: Engine) -> None:
    """200 says how many were accepted, and they are in the database."""
    answer = post(make_app(engine), request(application(application_id="a"), execution(application_id="a")))
    assert (answer.status_code, answer.json()) == (200, {"accepted": 2, "refused": []})
    assert stored(engine, "a") == [0]


def deep_plan(levels: int) -> Plan:
    """A chain of so many nodes."""
    return Plan(STARTED_AT_MS, [PlanNode("Project", level - 1, f"Project {level}") for level in range(levels)])


BAD_LINES = {
    "not JSON": (b"{nonsense", "not JSON"),
    "another schema version": (
        as_line(execution()).replace(b'"schema_version":1', b'"schema_version":2'),
        "schema_version 2 is not known here, 1 is",
    ),
    "a negative counter": (
        as_line(application()).replace(b'"documents_made":0', b'"documents_made":-1'),
        "Expected `int` >= 0 - at `$.documents_made`",
    ),
    "64 MB": (
        as_line(execution(description="x" * 64_000_000)),
        "the document is larger than 16777216 bytes",
    ),
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
        nodes = select(func.count()).select_from(models.plan_node).where(models.plan_node.c.application_id == "odd")
        assert connection.scalar(nodes) == 5_001
        row = connection.execute(select(models.node_metric)).mappings().all()
        assert ("hops", 7) in [(one["type"], one["total"]) for one in row]
        state = select(models.application.c.state).where(models.application.c.application_id == "odd")
        assert connection.scalar(state) == "unknown"


BAD_REQUESTS = {
    "not gzip": (b"plain text", 400, "not gzip"),
    "cut off": (request(execution())[:-9], 400, "cut off"),
    "a gzip bomb": (gzip.compress(b"\n" * 1_000 + b" " * (300 << 20), 1), 413, "larger than 268435456 bytes unpacked"),
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
    app = make_app(engine, ["first", "second"])
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    body = request(execution(application_id=f"token {header}"))
    answer = talk(app, lambda client: client.post(DOCUMENTS, content=body, headers=headers))
    assert answer.status_code == status
    assert len(stored(engine, f"token {header}")) == (status == 200)
    if status == 401:
        assert answer.json() == {"error": "the bearer token is missing or wrong"}


def test_a_missing_database_is_answered_with_503(make_database: Callable[[], str]) -> None:
    """The sender is told to come back; the same batch is stored once the database is there again."""
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
    monkeypatch.setattr(service, "MAX_WAITING", 3)
    app = make_app(engine)
    batches = [request(execution(application_id="many", execution_id=i)) for i in range(8)]

    async def all_at_once(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post(DOCUMENTS, content=batch) for batch in batches))

    answers = talk(app, all_at_once)
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(200) == 3
    assert statuses.count(429) == 5
    assert all(answer.headers["retry-after"] == "5" for answer in answers if answer.status_code == 429)
    assert stored(engine, "many") == [i for i, status in enumerate(statuses) if status == 200]


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
    assert found["joinsight_joins_total,strategy=BroadcastHashJoin"] == 1
    assert found["joinsight_broadcast_seconds_sum,phase=collect"] == 1.5
    assert found["joinsight_documents_total,outcome=stored"] == 4
    assert found["joinsight_documents_total,outcome=stale"] == 1
    assert found["joinsight_documents_total,outcome=refused"] == 1
    assert found["joinsight_requests_total,status=400"] == 1


def test_over_a_real_network(engine: Engine) -> None:
    """The real server takes batches from several senders at once and stops in order."""
    with collector(engine, 0, ["a token"]) as (url, _):

        def send(i: int) -> None:
            batch = request(*(execution(application_id=f"net-{i}", execution_id=n) for n in range(20)))
            answer = httpx.post(url + DOCUMENTS, content=batch, headers={"Authorization": "Bearer a token"})
            assert answer.status_code == 200

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert httpx.get(url + "/healthz").text == "ok\n"
        with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as broken:
            broken.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
    for i in range(4):
        assert stored(engine, f"net-{i}") == list(range(20))


def test_an_open_door_is_only_for_this_machine(engine: Engine) -> None:
    """Without a token no address but a loopback one is listened on; with one, any."""
    for host in ("0.0.0.0", "::", "collector.example"):
        with pytest.raises(ConfigurationError, match="without a token anyone"):
            make_server(engine, host, 0, [])
    _, bound = make_server(engine, "0.0.0.0", 0, ["a token"])
    bound.close()


def test_a_taken_port_is_said(engine: Engine) -> None:
    """The message names the address and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*in use.*Name a free port"):
            make_server(engine, "127.0.0.1", port, [])


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One a line, blank lines left out; an empty or missing file is an error, not an open door."""
    file = tmp_path / "tokens"
    file.write_text("first\n\n  second \n")
    assert read_tokens(file) == ["first", "second"]
    monkeypatch.setenv("JOINSIGHT_TOKEN", " third ")
    assert read_tokens(None) == ["third"]
    monkeypatch.delenv("JOINSIGHT_TOKEN")
    assert read_tokens(None) == []
    file.write_text("\n")
    for bad in (file, tmp_path / "missing"):
        with pytest.raises(ConfigurationError, match="--token-file"):
            read_tokens(bad)
