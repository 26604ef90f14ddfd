"""The JVMs that read logs on this machine: what they hold, and what happens when they or their processes are killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.backfill.stored import ledger
from tests.eventlog.record import FORMS
from tests.eventlog.recorded import log_at, recorded
from tests.waiting import until

from joinsight.backfill.jvm import OUTCOME, Reader
from joinsight.backfill.run import backfill
from joinsight.base.errors import JoinsightError

START = b'{"Event":"SparkListenerApplicationStart","App Name":"a","App ID":"%s","Timestamp":1,"User":"u"}\n'


def small_log(path: Path) -> Path:
    path.write_bytes(START % path.name.encode())
    return path


def log_of_documents(path: Path) -> Path:
    """Write a log of 2,000 executions, whose documents take megabytes."""
    start = '{"Event":"%s","executionId":%d,"description":"%s","details":"","time":1}\n'
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    executions = "".join(start % (sql, number, "x" * 1000) for number in range(2000))
    path.write_bytes(START % path.name.encode() + executions.encode())
    return path


def requests_of(*paths: Path) -> list[dict[str, Any]]:
    return [log_at(path).request() for path in paths]


def test_a_rolling_log_of_thousands_of_files_is_read(tmp_path: Path) -> None:
    """While the JVM writes documents that nobody has read yet, the next request does not fit into its pipe."""
    folder = tmp_path / "eventlog_v2_app-1-1"
    folder.mkdir()
    for number in range(1, 3001):
        (folder / f"events_{number}_app-1-1").touch()
    long = log_of_documents(tmp_path / "app-1-0")
    lines: list[bytes] = []

    def read() -> None:
        with Reader() as reader:
            lines.extend(reader.read(requests_of(long, folder, long)))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    until(lambda: not thread.is_alive(), "all logs are read")
    assert [line.startswith(OUTCOME) for line in lines].count(True) == 3
    assert len(lines) == 2 * 2002 + 1


@pytest.mark.matrix
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks into /proc")
def test_reading_many_compressed_logs_takes_no_more_memory(tmp_path: Path) -> None:
    """Spark's codec for zstd holds memory outside of the heap until it is closed."""
    version = next(version for version, (codec, _) in FORMS.items() if codec == "zstd")
    whole = Path(recorded(version, tmp_path)[0].files[0].path.removeprefix("file:")).read_bytes()
    (tmp_path / "local-1.zstd").write_bytes(whole[:20_000])
    request = log_at(tmp_path / "local-1.zstd").request()
    with Reader() as reader:

        def resident_kib() -> int:
            lines = Path(f"/proc/{reader._java.pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))

        def read(times: int) -> int:
            assert sum(line.startswith(OUTCOME) for line in reader.read([request] * times)) == times
            return resident_kib()

        before = read(400)
        assert read(1000) - before < 100 << 10


def test_a_jvm_that_is_killed_fails_one_log(tmp_path: Path) -> None:
    """What it had written is kept, another JVM reads the logs after it; the reason is in the outcome."""
    first, last = (small_log(tmp_path / name) for name in ("local-1", "local-3"))
    with Reader() as reader:
        lines = reader.read(requests_of(first, log_of_documents(tmp_path / "local-2"), last))
        assert [next(lines).startswith(OUTCOME) for _ in range(3)] == [False, True, False]
        os.kill(reader._java.pid, signal.SIGKILL)
        rest = list(lines)
    (second, third) = (json.loads(line) for line in rest if line.startswith(OUTCOME))
    assert second["failed"] and second["problems"] == [
        "The JVM that reads event logs was killed by SIGKILL while it read this log"
    ]
    assert (third["failed"], third["problems"]) == (False, [])


def test_a_jvm_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail for each log in the same way."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:NoSuchOption")
    with Reader() as reader, pytest.raises(JoinsightError, match=r"ended with exit code 1: .*NoSuchOption"):
        list(reader.read(requests_of(small_log(tmp_path / "local-1"))))


@pytest.mark.matrix
def test_a_process_that_is_killed_ends_the_backfill(
    empty: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and the next run reads the rest."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for name in ("local-1", "local-2"):
        small_log(tmp_path / name)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            backfill(None, empty, [str(tmp_path)])
        except JoinsightError as error:
            errors.append(error)

    with empty.connect() as connection:
        connection.execute(text("LOCK TABLE event_log IN SHARE MODE"))  # nobody can record a log
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'event_log'::regclass")
        until(lambda: connection.scalar(waiting) == 2, "both processes wait")
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
        until(lambda: not thread.is_alive(), "the backfill ends")
    assert "stopped; run it again to continue. A process that reads event logs ended with exit code -9" in str(errors)
    assert multiprocessing.active_children() == []
    assert len(backfill(None, empty, [str(tmp_path)]).of("whole")) == 2


def test_what_is_no_file_is_not_waited_for(empty: Engine, tmp_path: Path) -> None:
    """A named pipe with the name of a log fails, as a file that cannot be opened; the others are read.

    One of another name is left out, unless its path was given.
    """
    os.mkfifo(tmp_path / "local-1")
    os.mkfifo(tmp_path / "pipe")
    small_log(tmp_path / "local-2")
    report = backfill(None, empty, [str(tmp_path)])
    assert [path.rpartition("/")[2] for path in report.left_out] == ["pipe"]
    assert {each.entry.path.rpartition("/")[2]: each.entry.outcome for each in report.done} == {
        "local-1": "failed",
        "local-2": "whole",
    }
    assert ledger(empty)["local-1"]["problems"] == ["local-1: not a regular file"]
    (failed,) = backfill(None, empty, [str(tmp_path / "pipe")]).done
    assert failed.entry.problems == ["pipe: not a regular file"]
