"""The command as users run it, on a standalone cluster of two workers: real processes, of which one run is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from sqlalchemy import Engine, text
from tests.backfill.stored import content
from tests.eventlog.recorded import plain, read, recorded
from tests.processes import ran
from tests.standalone import standalone
from tests.versions import NEWEST, SCALA_2_12
from tests.waiting import until

from joinsight.backfill.listing import Local, find
from joinsight.store.writer import Writer
from joinsight.tables import Row

pytestmark = [pytest.mark.spark, pytest.mark.matrix]
ROOT = Path(__file__).parents[2]
LOGS = 24
MANY = 500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A master and two workers with a core each; their URL, and the folder of what their executors log."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'collector'}:{ROOT}"}
    with standalone(Path(pyspark.__file__).parent, folder, environment) as cluster:
        yield cluster.url, folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of each of many applications; one is rolling."""
    folder = tmp_path_factory.mktemp("logs")
    log, _ = recorded(NEWEST, tmp_path_factory.mktemp("recorded"))
    content, name = plain(log), log.application_id.encode()
    for number in range(LOGS):
        (folder / f"local-{number}").write_bytes(content.replace(name, b"local-%d" % number))
    rolling = folder / "eventlog_v2_local-99"
    rolling.mkdir()
    (rolling / "appstatus_local-99").touch()
    split = content.replace(name, b"local-99").splitlines(keepends=True)
    for number in range(5):
        part = split[number * len(split) // 5 : (number + 1) * len(split) // 5]
        (rolling / f"events_{number + 1}_local-99").write_bytes(b"".join(part))
    return folder


@pytest.fixture(scope="module")
def expected(engine: Engine, logs: Path) -> dict[str, list[Any]]:
    """What the documents of the logs are in the store."""
    writer = Writer(engine)
    for log in find(Local(), [str(logs)]).logs.values():
        writer.write(read(log)[0])
    return content(engine)


def start(engine: Engine, master: str, *arguments: Any) -> subprocess.Popen[str]:
    """Start it in its own process group, which includes the driver's Java."""
    url = engine.url.render_as_string(hide_password=False)
    environment = {**os.environ, "JOINSIGHT_DATABASE_URL": url, "PYSPARK_PYTHON": sys.executable}
    environment |= {"PYTHONPATH": f"{ROOT / 'collector'}:{ROOT}", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "joinsight.cli", "backfill", "--master", master, *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def run(engine: Engine, master: str, *arguments: Any, code: int = 0) -> tuple[str, str]:
    process = start(engine, master, *arguments)
    out, err = process.communicate()
    assert process.returncode == code, err[-5000:]
    assert str(engine.url.password) not in out + err
    return out, err


def in_ledger(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM event_log")) or 0)


def test_a_killed_run_is_run_again(
    cluster: tuple[str, Path], logs: Path, empty: Engine, expected: dict[str, list[Any]]
) -> None:
    """The run after a killed one continues it; the result is the same as that of a single run."""
    master, _ = cluster
    process = start(empty, master, logs, "--connections", 2)
    try:
        until(lambda: in_ledger(empty) > 2 or process.poll() is not None, "no log was read")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    finished = in_ledger(empty)
    assert 2 < finished < LOGS, "it was killed too late to show anything"
    said = json.loads(run(empty, master, logs, "--json")[0])
    assert said["complete"]
    assert said["found"] == LOGS + 1
    assert said["unchanged"] >= finished
    assert said["read"] == said["whole"] == LOGS + 1 - said["unchanged"]
    assert content(empty) == expected


def test_both_workers_read(
    cluster: tuple[str, Path], logs: Path, empty: Engine, expected: dict[str, list[Any]]
) -> None:
    """Logs are shared out to executors of both; a rolling one is read by one."""
    master, folder = cluster
    before = set(folder.glob("*/app-*/*/stderr"))
    out, _ = run(empty, master, logs / "eventlog_v2_*", logs / "local-1*")
    assert out.splitlines()[0].startswith("12 of 12 event logs read: ")
    assert "  12 whole" in out
    stderr = set(folder.glob("*/app-*/*/stderr")) - before
    assert {path.relative_to(folder).parts[0] for path in stderr if "Finished task" in path.read_text()} == {"0", "1"}
    applications = {
        "local-99",
        *(row["application_id"] for row in expected["application"] if row["application_id"][:7] == "local-1"),
    }
    for table, rows in content(empty).items():
        assert rows == [row for row in expected[table] if row["application_id"] in applications], table


def test_hundreds_of_small_logs_are_stored_once(cluster: tuple[str, Path], empty: Engine, tmp_path: Path) -> None:
    """Hundreds in a folder: each is stored like any other; read again, there is nothing new."""
    master, _ = cluster
    small, name = small_log(tmp_path)
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(MANY):
        (folder / f"local-{number}").write_bytes(small.replace(name, b"local-%d" % number))
    said = json.loads(run(empty, master, folder, "--json")[0])
    assert said["complete"]
    assert said["found"] == said["read"] == said["whole"] == MANY
    stored = content(empty)
    applications = {f"local-{number}" for number in range(MANY)}
    assert {row["application_id"] for row in stored["application"]} == applications
    for table, rows in stored.items():
        of_each: dict[str, list[Row]] = {application: [] for application in applications}
        for row in rows:
            of_each[row.pop("application_id")].append({name: row[name] for name in row if name != "listener_id"})
        first = of_each["local-0"]
        assert all(its_rows == first for its_rows in of_each.values()), table
    assert len(stored["execution"]) == 3 * MANY

    said = json.loads(run(empty, "local[2]", folder, "--json")[0])
    assert (said["found"], said["unchanged"], said["read"]) == (MANY, MANY, 0)


def small_log(folder: Path) -> tuple[bytes, bytes]:
    """The log of an application of three executions, and its id."""
    log, _ = recorded(NEWEST, folder)
    lines = plain(log).splitlines(keepends=True)
    [*_, third] = (at for at, _ in zip(ends(lines), range(3), strict=False))
    [end] = (line for line in lines if line.startswith(b'{"Event":"SparkListenerApplicationEnd"'))
    return b"".join([*lines[: third + 1], end]), log.application_id.encode()


def ends(lines: list[bytes]) -> Iterator[int]:
    """The lines in which an execution ends."""
    return (at for at, line in enumerate(lines) if b"SparkListenerSQLExecutionEnd" in line[:120])


def test_what_is_wrong_is_said_in_a_line(logs: Path, empty: Engine, tmp_path: Path) -> None:
    """A path that is not there; a database that goes away; a log that is broken does not count as wrong."""
    _, err = run(empty, "local[1]", tmp_path / "nowhere", code=1)
    assert "nowhere does not exist; it must be an event log, or a folder of event logs" in err.splitlines()[-1]
    (tmp_path / "local-1").write_bytes((logs / "local-1").read_bytes()[:-9])
    out, _ = run(empty, "local[1]", tmp_path)
    assert out.splitlines()[0].endswith("/local-1 (partial): local-1: the last line is cut off")
    with empty.begin() as connection:
        connection.execute(text("ALTER TABLE joins RENAME TO no_joins"))
    _, err = run(empty, "local[1]", logs / "local-2", code=1)
    last = err.splitlines()[-1]
    assert last.startswith(
        'joinsight: Spark stopped; run the command again to continue. relation "joins" does not exist'
    )
    assert in_ledger(empty) == 1


@pytest.mark.nightly
def test_on_another_spark(spark_environment: Callable[[str], dict[str, str]]) -> None:
    """The tests of this folder once more, on Spark 3.5: its `collect` leaves it to Python to close sockets."""
    environment = spark_environment(SCALA_2_12)
    paths = [environment["PYTHONPATH"], str(ROOT / "collector"), str(ROOT)]
    environment |= {"PYTHONPATH": ":".join(paths), "JOINSIGHT_TEST_SPARK_MASTER": "local-cluster[2,1,1024]"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "spark and not matrix", str(Path(__file__).parent)]
    for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
        command += ["-W", f"ignore::{warning}"]
    ran(*command, env=environment, cwd=ROOT)
