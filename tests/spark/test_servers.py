"""Executions of Spark Connect and Thrift servers say who asked for them, live and from event logs."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.eventlog.recorded import log_at, read
from tests.installed import packages
from tests.java import LIGHT, spark_home
from tests.spark.sink import Sink
from tests.versions import NEWEST, SUPPORTED
from tests.waiting import until

from joinsight.analysis.rows import execution_rows
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Document, Execution
from joinsight.demo.runner import collector
from joinsight.driver.attach import LISTENER, listener_jar
from joinsight.store.embedded import free_port
from joinsight.store.mark_lost import declare_lost
from joinsight.tables import application, execution
from joinsight.tables.execution import ExecutionRow

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

HERE = Path(__file__).parent
WITH_CONNECT = [version for version in SUPPORTED if version[0] >= "4"]
"""PySpark packs the server from 4.0 on."""


@pytest.fixture(scope="module")
def connect_packages() -> str:
    """A folder with what a client of Spark Connect needs beyond PySpark; installed at first use."""
    return str(packages("connect", "grpcio>=1.76", "grpcio-status>=1.76", "zstandard>=0.25"))


def rows(sink: Sink) -> list[ExecutionRow]:
    """The rows of all executions."""
    return rows_of(decode_document(json.dumps(each).encode()) for each in sink.taken())


def rows_in_log(folder: Path) -> list[ExecutionRow]:
    """The rows of all executions of a server's event log."""
    documents, outcome = read(log_at(folder))
    assert not outcome.problems
    return rows_of(documents)


def rows_of(documents: Iterable[Document]) -> list[ExecutionRow]:
    """Those of the last document of each execution."""
    last = {each.execution_id: each for each in documents if isinstance(each, Execution)}
    return [execution_rows(each).execution for _, each in sorted(last.items())]


def asked_by(row: Any) -> tuple[object, ...]:
    """Who asked for what."""
    who = row.user_name, row.session_id, row.operation_id, row.user_tags, row.job_group
    return row.execution_id, row.root_execution_id, *who


def attributed(row: Any) -> tuple[object, ...]:
    """Who asked for what, and how it ended."""
    return *asked_by(row), row.state, row.is_outer


def of_server(url: str, logs: Path) -> dict[str, Any]:
    """Settings of the listener, which sends to this URL, and of an event log in this folder."""
    logs.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.driver.extraClassPath": listener_jar(),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": url,
        "spark.ui.enabled": "false",
    }


@contextmanager
def connect_server(
    environment: dict[str, str], folder: Path, settings: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A Spark Connect server in a process group of its own, and its port; ends with the block."""
    command = [sys.executable, str(HERE / "connect_server.py"), *(f"{key}={value}" for key, value in settings.items())]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, cwd=folder, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as server:
        assert server.stdin and server.stdout
        try:
            yield server, next(line.split()[1] for line in server.stdout if line.startswith("port"))
        finally:
            server.stdin.close()


@pytest.fixture
def connect_environment(
    spark_environment: Callable[[str], dict[str, str]], connect_packages: str, version: str
) -> dict[str, str]:
    """Environment variables for servers and clients of Spark Connect."""
    environment = spark_environment(version)
    path = filter(None, (environment.get("PYTHONPATH"), connect_packages))
    return {**environment, "PYTHONPATH": os.pathsep.join(path)}


@pytest.mark.parametrize("version", WITH_CONNECT)
def test_clients_of_connect_have_users(sink: Sink, connect_environment: dict[str, str], tmp_path: Path) -> None:
    """Twenty at once: each execution has its client's user, session and tags, also one interrupted by tag or failed."""
    settings = of_server(sink.url, tmp_path / "logs")
    with connect_server(connect_environment, tmp_path, settings) as (_, port):
        clients = [sys.executable, str(HERE / "connect_clients.py"), port]
        done = subprocess.run(
            clients, env=connect_environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    said = {each["client"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert len(said) == 20 and len({each["session"] for each in said.values()}) == 20

    states: defaultdict[int, Counter[str]] = defaultdict(Counter)
    operations: set[str | None] = set()
    for row in rows(sink):
        client = said[client_of(row)]
        is_asking = "getProperty" in (row.title or "")
        tags = [] if is_asking else client["tags"]
        assert (row.user_name, row.session_id, row.user_tags) == (client["user"], client["session"], tags)
        if row.execution_id == row.root_execution_id:
            assert row.operation_id not in operations
        operations.add(row.operation_id)
        states[client["client"]][row.state] += not is_asking
    assert None not in operations
    outcomes = {number for number, each in said.items() if each["outcome"] != "succeeded"}
    assert outcomes == {7, 11, 13, 15}
    expected = {number: {"succeeded": 3} for number in said if number not in outcomes}
    assert {number: dict(+each) for number, each in states.items()} == {
        **expected,
        7: {"cancelled": 1},
        11: {"failed": 1},
        15: {"failed": 1},
    }
    assert [*map(attributed, rows_in_log(tmp_path / "logs"))] == [*map(attributed, rows(sink))]


def client_of(row: Any) -> int:
    """The client that ran it, whose number its SQL text has: its title, or while it runs, a part of its request."""
    assert row.title.startswith("SELECT ") or row.ended_at is None, row.title
    [number] = set(re.findall(r"client(\d+)", row.title + row.call_site))
    return int(number)


@pytest.mark.parametrize("version", [WITH_CONNECT[0], NEWEST])
def test_a_killed_servers_executions_are_lost(
    engine: Engine, connect_environment: dict[str, str], tmp_path: Path
) -> None:
    """What its twenty clients ran is lost, and still has their users, sessions and tags; so has what ended before."""
    logs = tmp_path / "logs"

    def stored() -> Sequence[Any]:
        of_server = select(application.c.application_id).order_by(application.c.started_at.desc()).limit(1)
        statement = select(execution).where(execution.c.application_id == of_server.scalar_subquery())
        with engine.connect() as connection:
            return connection.execute(statement.order_by(execution.c.execution_id)).all()

    def is_logged() -> bool:
        starts = sum(log.read_text().count("SQLExecutionStart") for log in logs.rglob("*.inprogress"))
        return starts == 40

    with collector(engine, 0, []) as (url, _):
        settings = of_server(url, logs) | {
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.joinsight.progressInterval": "500ms",
        }
        with connect_server(connect_environment, tmp_path, settings) as (server, port):
            clients = [sys.executable, str(HERE / "connect_endless.py"), port]
            pipe = subprocess.PIPE
            with subprocess.Popen(clients, env=connect_environment, cwd=tmp_path, stdout=pipe, text=True) as running:
                try:
                    assert running.stdout
                    said = {each["client"]: each for each in (json.loads(next(running.stdout)) for _ in range(20))}
                    all_run = Counter(succeeded=20, running=20)
                    until(lambda: Counter(row.state for row in stored()) == all_run, "all clients' queries run")
                    until(is_logged, "they are in the log")
                finally:
                    os.killpg(server.pid, signal.SIGKILL)
                    running.kill()
    with engine.begin() as connection:
        assert declare_lost(connection, timedelta(0)) == 20
    found = stored()
    states: defaultdict[int, list[str]] = defaultdict(list)
    for row in found:
        client = said[client_of(row)]
        assert (row.user_name, row.session_id, row.user_tags) == (client["user"], client["session"], client["tags"])
        assert (row.incomplete_codes == ["driver_lost"]) == (row.state == "lost")
        states[client["client"]].append(row.state)
    assert len({row.operation_id for row in found}) == 40
    assert states == {number: ["succeeded", "lost"] for number in said}
    assert [*map(asked_by, rows_in_log(logs))] == [*map(asked_by, found)]


@pytest.mark.parametrize("version", SUPPORTED)
def test_clients_of_thrift_have_users(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """Two users at once through Beeline: each statement has its user and session, and is the title.

    So has the statement that a third user cancels through JDBC. Of a command's two executions, one is outer.
    """
    environment = spark_environment(version)
    home = spark_home(environment)
    environment = {**environment, "SPARK_HOME": str(home)}
    port = free_port()
    settings = {
        **of_server(sink.url, tmp_path / "logs"),
        "spark.master": "local[2]",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true",
    }
    command = [str(home / "bin" / "spark-submit"), *(f"--conf={key}={value}" for key, value in settings.items())]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
    for key, value in (("port", port), ("bind.host", "127.0.0.1")):
        command += ["--hiveconf", f"hive.server2.thrift.{key}={value}"]
    log = (tmp_path / "server.log").open("w")
    with log, subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT) as server:
        try:
            until(lambda: server.poll() is not None or accepts(port), "the server accepts connections")
            url = f"jdbc:hive2://127.0.0.1:{port}/"
            beeline = [str(home / "bin" / "beeline"), "-u", url]
            clients = [
                subprocess.Popen([*beeline, "-n", user, "-e", asked], env=environment, cwd=tmp_path)
                for user, asked in ((user, f"USE default; {statements(user)}") for user in ("ana_maria", "bob"))
            ]
            assert [client.wait() for client in clients] == [0, 0], (tmp_path / "server.log").read_text()
            java = ["java", *LIGHT, "-cp", str(home / "jars" / "*"), str(HERE / "CancelStatement.java"), url, "carol"]
            done = subprocess.run(java, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.stdout == "cancelled\n", done.stderr
            theirs = "SELECT 'carol'"
            until(
                lambda: any((row.title or "").startswith(theirs) and row.state != "running" for row in rows(sink)),
                "the server reports the end of the cancelled statement",
            )
        finally:
            server.terminate()
    assert Counter(row.is_outer for row in rows(sink) if row.title == "USE default") == {False: 2, True: 2}
    stored = [row for row in rows(sink) if row.title and row.title.startswith("SELECT '")]
    [cancelled] = [row for row in stored if row.user_name not in ("ana_maria", "bob")]
    assert (cancelled.user_name, cancelled.state) == ("carol", "cancelled"), cancelled.error
    assert cancelled.session_id
    stored.remove(cancelled)
    assert sorted(row.title or "" for row in stored) == sorted(
        each for user in ("ana_maria", "bob") for each in statements(user).split("; ")
    )
    for row in stored:
        assert f"SELECT '{row.user_name}' AS who, " in (row.title or "")
        assert row.operation_id == row.job_group
    sessions = {(row.user_name, row.session_id) for row in stored}
    assert len(sessions) == 2 and {user for user, _ in sessions} == {"ana_maria", "bob"}
    assert {row.title for row in stored} <= {row.title for row in rows_in_log(tmp_path / "logs")}
    assert [*map(attributed, rows_in_log(tmp_path / "logs"))] == [*map(attributed, rows(sink))]


def statements(user: str) -> str:
    """What a user asks for, each with a job."""
    query = "SELECT '{0}' AS who, id % {1} AS k, count(*) FROM range(100) GROUP BY id % {1}"
    return "; ".join(query.format(user, number) for number in (2, 3))


def accepts(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
