"""Executions of Spark Connect and Thrift servers say who asked for them, live and from event logs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.eventlog.recorded import log_at, read
from tests.installed import packages
from tests.java import spark_home
from tests.spark.sink import Sink
from tests.versions import SUPPORTED
from tests.waiting import until

from joinsight.attach import LISTENER, listener_jar
from joinsight.decode import decode_document
from joinsight.document import Document, Execution
from joinsight.rows import execution_rows
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


def attributed(row: ExecutionRow) -> tuple[object, ...]:
    """Who asked for what, and how it ended."""
    who = row.user_name, row.session_id, row.operation_id, row.user_tags, row.job_group
    return row.execution_id, row.root_execution_id, *who, row.state, row.is_outer


def of_server(sink: Sink, logs: Path) -> dict[str, Any]:
    """Those of the listener, and of an event log in this folder."""
    logs.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.driver.extraClassPath": listener_jar(),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": sink.url,
        "spark.ui.enabled": "false",
    }


@pytest.mark.parametrize("version", WITH_CONNECT)
def test_clients_of_spark_connect(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], connect_packages: str, tmp_path: Path, version: str
) -> None:
    """Twenty at once: each execution has its client's user, session and tags, also one interrupted by tag or failed."""
    environment = spark_environment(version)
    path = filter(None, (environment.get("PYTHONPATH"), connect_packages))
    environment = {**environment, "PYTHONPATH": os.pathsep.join(path)}
    given = (f"{key}={value}" for key, value in of_server(sink, tmp_path / "logs").items())
    command = [sys.executable, str(HERE / "connect_server.py"), *given]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin and server.stdout
        port = next(line.split()[1] for line in server.stdout if line.startswith("port"))
        clients = [sys.executable, str(HERE / "connect_clients.py"), port]
        done = subprocess.run(clients, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        server.stdin.close()
    assert done.returncode == 0, done.stderr
    said = {each["client"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert len(said) == 20 and len({each["session"] for each in said.values()}) == 20

    states: defaultdict[int, Counter[str]] = defaultdict(Counter)
    operations: set[str | None] = set()
    for row in rows(sink):
        assert row.title is not None and row.title.startswith("SELECT "), row.title
        [number] = set(re.findall(r"client(\d+)", row.title))
        client = said[int(number)]
        is_asking = "getProperty" in row.title
        tags = [] if is_asking else client["tags"]
        assert (row.user_name, row.session_id, row.user_tags) == (client["user"], client["session"], tags)
        if row.execution_id == row.root_execution_id:
            assert row.operation_id not in operations
        operations.add(row.operation_id)
        states[int(number)][row.state] += not is_asking
    assert None not in operations
    expected = {number: {"succeeded": 3} for number in said}
    assert {number: dict(+each) for number, each in states.items()} == {
        **expected,
        7: {"cancelled": 1},
        11: {"failed": 1},
    }
    outcomes = {number for number, each in said.items() if each["outcome"] != "succeeded"}
    assert outcomes == {7, 11}
    assert [*map(attributed, rows_in_log(tmp_path / "logs"))] == [*map(attributed, rows(sink))]


@pytest.mark.parametrize("version", SUPPORTED)
def test_clients_of_the_thrift_server(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """Two users at once through Beeline: each statement has its user and session, and is the title."""
    environment = spark_environment(version)
    home = spark_home(environment)
    environment = {**environment, "SPARK_HOME": str(home)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        **of_server(sink, tmp_path / "logs"),
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
            beeline = [str(home / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{port}/"]
            clients = [
                subprocess.Popen([*beeline, "-n", user, "-e", statements(user)], env=environment, cwd=tmp_path)
                for user in ("ana_maria", "bob")
            ]
            assert [client.wait() for client in clients] == [0, 0], (tmp_path / "server.log").read_text()
        finally:
            server.terminate()
    stored = [row for row in rows(sink) if row.title and row.title.startswith("SELECT '")]
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
