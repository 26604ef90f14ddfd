"""`joinsight serve` starts with valid settings and reports all invalid ones; its log has one line per event."""

from __future__ import annotations

import json
import logging
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import Engine, text
from tests.documents import as_line, execution, request
from tests.findings.recorded import recordings
from tests.serve.real import Service, post, service

from joinsight import __version__
from joinsight.base.errors import ConfigurationErrors
from joinsight.findings import Thresholds
from joinsight.serve.logs import JsonFormatter, TextFormatter, fields
from joinsight.serve.server import open_listener


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Each invalid setting has a line with its valid form; exit code 2, nothing is started, no secret is shown."""
    (tmp_path / "tokens").write_text("my secret\n")
    (tmp_path / "key.pem").write_text("no key")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = {
            "--token-file": tmp_path / "tokens",
            "--tls-certificate": tmp_path / "none.pem",
            "--tls-key": tmp_path / "key.pem",
            "--port": taken.getsockname()[1],
            "--finding-threshold": "skew_ratio=much",
        }
        refused = Service("mysql://user:s3cr3t@host/db", *(str(each) for pair in options.items() for each in pair))
        assert refused.end() == 2
    said = [line for line in refused.lines if "=" in line and not line.startswith("{")]
    assert [line.removeprefix("joinsight: ").split("=")[0] for line in said] == [
        "--token-file",
        "--tls-certificate",
        "--host/--port",
        "--finding-threshold",
        "JOINSIGHT_DATABASE_URL",
    ]
    assert all(". " in line for line in said)  # what is wrong, and what would be right
    assert not any(secret in "".join(refused.lines) for secret in ("my secret", "s3cr3t"))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no token on the network": ({"host": "0.0.0.0"}, "--host='0.0.0.0': without a token"),
    "half of TLS": ({"tls_key": Path("key.pem")}, "--tls-key='key.pem': --tls-certificate is missing. Specify both"),
    "a port that is none": ({"port": 70_000}, "--host/--port='127.0.0.1:70000'"),
    "a folder below a file": ({"data": Path(__file__) / "data"}, "is not a folder. Name a folder of your own"),
    "a threshold that is none": (
        {"finding_thresholds": ["skew=3"]},
        "--finding-threshold='skew=3': there is no threshold 'skew'. Write NAME=VALUE, one of wall_share,",
    ),
    "a user header without the name of a token": (
        {"user_header": "X-Forwarded-User"},
        "--user-header='X-Forwarded-User': not the name of a token and a header. Write NAME:HEADER",
    ),
    "a user header that has a secret": (
        {"user_header": "proxy:Authorization"},
        "--user-header='proxy:Authorization': this header has a secret",
    ),
    "a user header of an unknown token": (
        {"user_header": "proxy:X-Forwarded-User"},
        "no reader's token is named 'proxy'. Add the line read:proxy:TOKEN",
    ),
    "no URL": ({"database_url": "nonsense"}, "not a valid database URL. Write it like postgresql"),
    "a URL with a bad port": ({"database_url": "postgresql://user:password@host:port/db"}, "not a valid database URL"),
    "another database": ({"database_url": "mysql://user:password@host/db"}, "only PostgreSQL is supported"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_that_is_wrong(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """An invalid setting is named with its valid form, and no password is shown."""
    monkeypatch.delenv("JOINSIGHT_TOKEN", raising=False)
    settings, said = WRONG[what]
    with pytest.raises(ConfigurationErrors) as error, open_listener(**{"host": "127.0.0.1", "port": 0, **settings}):
        pass
    assert said in str(error.value)
    assert "password" not in str(error.value).replace("user:password@host:5432", "")


def test_thresholds_are_of_options_then_variable_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds come from options, then the variable, then the defaults; an error in the variable names it."""
    monkeypatch.setenv("JOINSIGHT_FINDING_THRESHOLDS", "skew_ratio=8, broadcast_bytes=10g")
    with open_listener("127.0.0.1", 0, finding_thresholds=["skew_ratio=9"]) as listener:
        assert listener.thresholds == Thresholds(skew_ratio=9, broadcast_bytes=10 << 30)
    monkeypatch.setenv("JOINSIGHT_FINDING_THRESHOLDS", "skew_ratio")
    with pytest.raises(ConfigurationErrors, match=r"JOINSIGHT_FINDING_THRESHOLDS='skew_ratio'"):
        open_listener("127.0.0.1", 0).__enter__()


def test_a_user_header_is_of_a_readers_token(engine: Engine, tmp_path: Path) -> None:
    """The option names a reader's token, and reaches the pages; a sender's token of this name does not count."""
    (tmp_path / "tokens").write_text("proxy:a-senders-token\nread:proxy:a-readers-token\n")
    url, option = engine.url.render_as_string(hide_password=False), "proxy: X-Forwarded-User"
    headers = {"Authorization": "Bearer a-readers-token", "X-Forwarded-User": "ann"}
    with service(url, "--token-file", str(tmp_path / "tokens"), "--user-header", option) as running:
        assert "/queries?user=ann" in httpx.get(f"{running.url}/docs", headers=headers).text
    (tmp_path / "tokens").write_text("proxy:a-senders-token\n")
    with pytest.raises(ConfigurationErrors, match="no reader's token is named 'proxy'"):
        open_listener("127.0.0.1", 0, tmp_path / "tokens", user_header=option).__enter__()


def test_thresholds_of_findings_are_what_a_service_goes_by(engine: Engine) -> None:
    """The thresholds of a service decide whether the same document has a finding."""
    url = engine.url.render_as_string(hide_password=False)
    low = [part for name in ("wall_share=0.01", "wall_ms=1") for part in ("--finding-threshold", name)]
    for number, settings in enumerate(((), low)):
        document = msgspec.structs.replace(recordings()["cache-filled-read-twice"], application_id=f"app-{number}")
        with service(url, *settings) as running:
            assert post(running.url, request(document)).status_code == 200
    with engine.connect() as connection:
        found = connection.execute(text("SELECT application_id, finding FROM finding ORDER BY node_id")).all()
    assert {tuple(row) for row in found} == {("app-1", "tiny-tasks")}


def test_a_log_has_start_refusals_and_end(engine: Engine) -> None:
    """The log has the start, refusals with their senders, and the end; stored batches are not logged."""
    with service(engine.url.render_as_string(hide_password=False)) as running:
        url = running.url
        newer = as_line(execution(application_id="app")).replace(b'"schema_version":1', b'"schema_version":9')
        assert post(url, request(newer, *[b"x"] * 6)).status_code == 400
        assert post(url, request(execution(application_id="app"))).status_code == 200
        assert post(url, b"no gzip").status_code == 400
        running.signal(signal.SIGTERM)
        assert running.end() == 0
    log = running.log
    assert [event["message"] for event in log] == [
        "no token is set: any user of this machine can send, no other machine can",
        "collecting",
        *["document refused"] * 5,
        "more documents of the same request refused",
        "request refused",
        "shutting down; a second SIGTERM stops at once",
        "stopped",
    ]
    assert log[1] == {
        "time": log[1]["time"],
        "level": "info",
        "message": "collecting",
        "url": url,
        "metrics": url + "/metrics",
        "tokens": 0,
        "readers": 0,
        "database": engine.url.render_as_string(hide_password=True),
        "schema": log[1]["schema"],
        "connections": 4_096,
        "version": __version__,
    }
    first = log[2]
    assert (first["line"], first["application"], first["client"]) == (1, "app", "127.0.0.1")
    assert first["listener"] == execution().listener.id
    assert first["reason"].startswith("schema_version 9 is not supported")
    assert log[7]["documents"] == 2
    assert (log[8]["status"], log[8]["reason"][:23]) == (400, "the request is not gzip")
    password = engine.url.password
    assert password and password not in "".join(running.lines)


def test_the_limit_of_open_files_is_raised(engine: Engine) -> None:
    """The limit of open files is raised as far as possible; one too low for all connections is logged, and one too low
    to work is an invalid setting."""
    url = engine.url.render_as_string(hide_password=False)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}))".format
    with service(url, patch=limit(300, 1_000)) as running:
        assert running.logged("collecting")[0]["connections"] == 500
        assert running.logged("the limit of open files (1000) allows 500 connections; with 8192, it would be 4096")
    refused = Service(url, patch=limit(100, 200))
    assert refused.end() == 2
    assert "the limit of open files='200': the collector needs at least 256. Raise it to 8192: ulimit -n 8192" in (
        "".join(refused.lines)
    )


def record(message: str, *, error: Exception | None = None, **about: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"msg": message, "levelname": "WARNING", "created": 1_767_225_600.25, **fields(**about)}
    )
    if error is not None:
        try:
            raise error
        except Exception as raised:
            made.exc_info = type(raised), raised, raised.__traceback__
    return made


def test_an_event_is_one_line_of_text() -> None:
    """An event is one line in text format; values that are not one word are quoted."""
    line = TextFormatter().format(record("refused\nit", line=3, reason='not "JSON": a\nb', empty="", left_out=None))
    assert line == '2026-01-01T00:00:00.250Z WARNING refused\\nit line=3 reason="not \\"JSON\\": a\\nb" empty=""'
    traceback = TextFormatter().format(record("a fault", error=ValueError("x\n2026-01-01 \x9b"))).splitlines()
    assert traceback[1] == "  Traceback (most recent call last):"
    assert traceback[-2:] == ["  ValueError: x", r"  2026-01-01 \x9b"]


def test_an_event_is_one_json_object() -> None:
    """An event is one JSON object per line, with its fields and traceback."""
    line = JsonFormatter().format(record("a fault", file=Path("/x"), line=3, error=ValueError("a\nb")))
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("exception").endswith("ValueError: a\nb")
    assert found == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "message": "a fault",
        "file": "/x",
        "line": 3,
    }
