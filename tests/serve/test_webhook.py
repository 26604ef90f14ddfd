"""The webhook gets each certain regression once, signed, tried again, and with no more than is allowed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event, insert, select
from tests.serving import Handler, serving

from joinsight import tables
from joinsight.alarms import messages
from joinsight.base.errors import ConfigurationError
from joinsight.serve import webhook
from joinsight.serve.webhook import Webhook, read_settings, signature, tell
from joinsight.store.database import connect

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
SECRET = b"0123456789abcdef"
TITLE = "SELECT name FROM patients"


class Receiver:
    """Answers with the next of `statuses`, then with 200, and keeps what it got."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver, lock = self, threading.Lock()

        class Hook(Handler):
            def do_POST(self) -> None:
                body = self.body()
                with lock:
                    receiver.got.append((dict(self.headers), body))
                    status = receiver.statuses.pop(0) if receiver.statuses else 200
                self.answer(status, headers={"Location": "/elsewhere"} if status == 307 else None)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def messages(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    with serving(found.server):
        yield found


@pytest.fixture(scope="module")
def shared(make_store: Callable[[], str]) -> Iterator[Engine]:
    with connect(make_store()) as engine:
        yield engine


@pytest.fixture
def store(shared: Engine) -> Engine:
    """A store with a regression, one that is over, one of long ago, and one whose causes are not known yet."""
    row = {"query_shape": "6c12b24e62c4f92c", "origin": "live", "measure": "duration_ms", "title": TITLE, "runs": 5}
    row |= {"since": NOW - timedelta(days=4), "before": 60_000.0, "after": 90_000.0, "evidence_weeks": 5e3}
    row |= {"kind": "data_grew", "raised_at": NOW - timedelta(hours=1), "causes": [], "closed_at": None}
    cause = {"code": "data", "wall_ms": 33_100, "evidence": ["Scan parquet patients: 2.0x"]}
    rows = [
        row | {"job_name": "slower", "causes": [cause]},
        row | {"job_name": "over", "closed_at": NOW},
        row | {"job_name": "old", "raised_at": NOW - timedelta(days=3)},
        row | {"job_name": "unknown", "causes": None},
    ]
    with shared.begin() as connection:
        for table in (tables.alarm, tables.notification):
            connection.execute(delete(table))
        connection.execute(insert(tables.alarm), rows)
    return shared


def told(engine: Engine, settings: Webhook, now: datetime = NOW) -> list[str]:
    outcomes: list[str] = []
    tell(engine, settings, outcomes.append, now)
    return outcomes


def test_each_is_told_once_whoever_tells(store: Engine, receiver: Receiver) -> None:
    """One of several collectors posts it; later ones, and the same again, do not."""
    settings = Webhook(receiver.url, SECRET, public_url="https://joinsight.example/")
    with ThreadPoolExecutor(4) as pool:
        outcomes = [each for found in pool.map(lambda _: told(store, settings), range(4)) for each in found]
    assert outcomes == ["delivered"]
    asked: list[str] = []
    listener = lambda *arguments: asked.append(arguments[2])  # noqa: E731
    event.listen(store, "before_cursor_execute", listener)
    assert told(store, settings, NOW + timedelta(hours=5)) == []
    event.remove(store, "before_cursor_execute", listener)
    assert asked and not [statement for statement in asked if "tags" in statement]  # nor looked up again
    [(headers, body)] = receiver.got
    assert headers["X-Joinsight-Signature"] == signature(SECRET, headers["X-Joinsight-Timestamp"], body)
    [message] = receiver.messages()
    assert (message["job"], message["factor"], message["measure"]) == ("slower", 1.5, "duration_ms")
    assert message["url"] == "https://joinsight.example/queries/6c12b24e62c4f92c?job=slower"
    assert (
        "since 2026-11-16 12:00: duration 1 min → 1 min 30 s (data grew). First causes: data +33.1 s."
        in message["text"]
    )


def test_no_text_of_a_query_unless_allowed(store: Engine, receiver: Receiver) -> None:
    """Neither title nor evidence are posted, and there are no links without an address; both can be allowed."""
    told(store, Webhook(receiver.url))
    ((headers, body),) = receiver.got
    assert b"patients" not in body and b"http" not in body and "X-Joinsight-Signature" not in headers
    with store.begin() as connection:
        connection.execute(delete(tables.notification))
    told(store, Webhook(receiver.url, with_titles=True))
    message = receiver.messages()[1]
    assert (message["team"], message["user"]) == (None, None)
    assert message["title"] == TITLE and "parquet patients" in message["causes"][0]["evidence"][0]


def test_what_fails_is_tried_again_with_growing_pauses(store: Engine, receiver: Receiver) -> None:
    """A redirection is not followed; after the last attempt a message is given up."""
    settings = Webhook(receiver.url)
    receiver.statuses = [307, 500]
    assert told(store, settings) == ["failed"]
    assert told(store, settings, NOW + timedelta(seconds=29)) == []
    assert told(store, settings, NOW + timedelta(seconds=31)) == ["failed"]
    assert told(store, settings, NOW + timedelta(seconds=85)) == []
    assert told(store, settings, NOW + timedelta(seconds=95)) == ["delivered"]
    assert len(receiver.got) == 3
    with store.connect() as connection:
        row = connection.execute(select(tables.notification)).mappings().one()
    assert row["attempts"] == 3 and row["next_at"] is None and row["problem"] is None


def test_forecasts_are_told_when_they_are_soon(store: Engine, receiver: Receiver, tmp_path: Path) -> None:
    """A new one that may come true within 30 days, not one of long ago or of next year; templates have its fields."""
    row: dict[str, Any] = {"origin": "live", "kind": "broadcast_threshold", "operator_key": "k", "title": TITLE}
    row |= {"query_shape": "6c12b24e62c4f92c", "current": 9e6, "limit_value": 10_485_760.0, "days": 30}
    row |= {"growth_a_day": 0.02, "reaches_at": NOW + timedelta(days=8), "earliest_at": NOW + timedelta(days=6)}
    row |= {"latest_at": None, "started_at": NOW, "application_id": "a", "attempt_id": "", "execution_id": 1}
    row |= {"node_id": 1, "first_forecast_at": NOW, "computed_at": NOW}
    far, old = {"earliest_at": NOW + timedelta(days=40)}, {"first_forecast_at": NOW - timedelta(days=3)}
    with store.begin() as connection:
        connection.execute(delete(tables.alarm))
        rows = [row | {"job_name": "soon"}, row | far | {"job_name": "far"}, row | old | {"job_name": "old"}]
        connection.execute(insert(tables.forecast), rows)
    file = tmp_path / "template.json"
    template = {"on": "{reaches_at}, {earliest_at} to {latest_at}", "what": "{operator} {growth_a_day} {factor}"}
    file.write_text(json.dumps(template))
    assert told(store, Webhook(receiver.url)) == ["delivered"]
    with store.begin() as connection:
        connection.execute(delete(tables.notification))
    assert told(store, Webhook(receiver.url, template=messages.read_template(str(file)))) == ["delivered"]
    with store.begin() as connection:
        connection.execute(delete(tables.forecast))
    message, of_template = receiver.messages()
    assert of_template == {
        "on": "2026-11-28T12:00:00+00:00, 2026-11-26T12:00:00+00:00 to",
        "what": "k 0.02",
    }
    assert (message["job"], message["measure"], message["alert"]) == (
        "soon",
        "broadcast_threshold",
        "JoinsightForecast",
    )
    assert "about 2026-11-28 (2026-11-26 to later than in half a year): a broadcast crosses" in message["text"]
    assert "8.6 MiB of 10.0 MiB, growing by 2.0% a day" in message["text"] and "patients" not in json.dumps(message)


def test_it_is_given_up(store: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody listens: after some attempts there are no more; the address, which may be a secret, is not logged."""
    now, attempts = NOW, 0
    while told(store, Webhook("http://127.0.0.1:9/secret"), now) == ["failed"]:
        attempts += 1
        now += webhook.LONGEST_PAUSE
    assert attempts == webhook.ATTEMPTS
    assert "ConnectError" in str([record.__dict__ for record in caplog.records])
    assert "secret" not in caplog.text


@pytest.mark.parametrize("name", [*messages.FORMATS, "file"])
def test_bodies_fit_their_receivers(store: Engine, receiver: Receiver, tmp_path: Path, name: str) -> None:
    """Bodies that Slack, Teams and Alertmanager take, and one of a file, in whose texts fields are replaced."""
    file = tmp_path / "template.json"
    file.write_text('{"a": ["{job}: {after}", 7], "b": "{title}"}')
    told(store, Webhook(receiver.url, template=messages.read_template(str(file) if name == "file" else name)))
    [body] = receiver.messages()
    if name == "file":
        assert body == {"a": ["slower: 90000.0", 7], "b": ""}
    elif name == "alertmanager":
        assert body[0]["labels"]["job_name"] == "slower" and "data grew" in body[0]["annotations"]["summary"]
    else:
        assert "slower: query 6c12b24e is worse" in json.dumps(body)
    assert "{" not in json.dumps(body).replace('{"', "").replace("[{", "")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"url": "ftp://host"}, "--webhook-url"),
        ({"url": "https://"}, "--webhook-url"),
        ({"url": "http://host", "template": "elsewhere"}, "--webhook-template"),
        ({"url": "http://host", "secret_file": Path("elsewhere")}, "--webhook-secret-file"),
        ({"url": "http://host", "public_url": "host"}, "--public-url"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], key: str) -> None:
    """What is invalid is named, without the address."""
    standard = {"secret_file": None, "template": None, "public_url": None, "with_titles": False}
    with pytest.raises(ConfigurationError) as found:
        read_settings(**standard | settings)
    assert found.value.key == key and "ftp" not in str(found.value)


def test_a_short_secret_and_unknown_fields_are_refused(tmp_path: Path) -> None:
    """A secret that can be guessed, and a template with a field that nothing has."""
    secret, template = tmp_path / "secret", tmp_path / "template.json"
    secret.write_text("short\n")
    template.write_text('{"text": "{nothing}"}')
    for changed in ({"secret_file": secret}, {"template": str(template)}):
        given: dict[str, Any] = {"secret_file": None, "template": None, "public_url": None, "with_titles": False}
        with pytest.raises(ConfigurationError, match=r"characters|nothing"):
            read_settings("http://host", **given | changed)
    assert read_settings(None, None, None, None, with_titles=False) is None
