"""Logs on disk into a real PostgreSQL by a real Spark: the same rows as live, once, whatever happened to the logs."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.backfill.conftest import Live
from tests.backfill.stored import content, ledger
from tests.eventlog import recorded as of_versions
from tests.eventlog.record import FORMS
from tests.eventlog.recorded import VERSIONS, log_at, recorded
from tests.eventlog.recorded import read as read_log
from tests.versions import NEWEST

from joinsight.backfill import planner, run
from joinsight.backfill.run import Progress, Report, backfill
from joinsight.base.errors import JoinsightError
from joinsight.driver.attach import listener_jar
from joinsight.store.writer import Writer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded logs of all versions, a folder each, and other files."""
    folder = tmp_path_factory.mktemp("all logs")
    for version in VERSIONS:
        (folder / version).mkdir()
        recorded(version, folder / version)
        (folder / version / "README.txt").write_text("nothing\n")
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recorded log, unpacked."""
    return of_versions.plain(recorded(NEWEST, tmp_path_factory.mktemp("log"))[0])


@pytest.fixture(params=["here", pytest.param("by Spark", marks=pytest.mark.matrix)])
def by(request: pytest.FixtureRequest) -> Any:
    """None, or the Spark that reads the logs."""
    return None if request.param == "here" else request.getfixturevalue("spark")


def told(report: Report) -> dict[str, str]:
    """The outcome of each log, by its name."""
    return {each.entry.path.rpartition("/")[2]: each.entry.outcome for each in report.done}


def test_every_log_is_stored_and_only_once(by: Any, empty: Engine, logs: Path, engine: Engine) -> None:
    """Logs of all versions and codecs below a folder give the rows of their documents; then they are left alone."""
    writer = Writer(engine)
    for version in VERSIONS:
        (log,) = (log_at(path) for path in (logs / version).iterdir() if path.name != "README.txt")
        writer.write(read_log(log)[0])
    progress: list[Progress] = []
    report = backfill(by, empty, [str(logs)], follow=progress.append)
    assert set(told(report).values()) == {"whole"}
    assert len(report.done) == report.found == len(VERSIONS)
    assert report.is_complete
    assert content(empty) == content(engine)
    with empty.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM delivery")) == 0
        assert set(connection.scalars(text("SELECT origin FROM execution UNION SELECT origin FROM application"))) == {
            "event_log"
        }
        executions = connection.scalar(text("SELECT count(*) FROM execution"))
    entries = ledger(empty)
    assert sum(row["executions"] for row in entries.values()) == executions > 100
    assert all(row["problems"] is None and row["event_bytes"] > 1_000_000 for row in entries.values())

    again = backfill(by, empty, [f"{logs}/*", str(logs)])
    assert (again.found, again.unchanged, again.done) == (len(VERSIONS), len(VERSIONS), [])
    forced = backfill(by, empty, [str(logs / VERSIONS[0])], again=True)
    assert (len(forced.done), sum(each.stored for each in forced.done)) == (1, 0)


def test_an_unchanged_log_is_not_opened(empty: Engine, plain: bytes, tmp_path: Path) -> None:
    """What has the size and time that it had is not read, even if it could not be."""
    path = tmp_path / "local-1"
    path.write_bytes(plain)
    assert told(backfill(None, empty, [str(tmp_path)])) == {"local-1": "whole"}
    before = path.stat()
    path.write_bytes(b"x" * len(plain))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    report = backfill(None, empty, [str(tmp_path)])
    assert (report.unchanged, report.done) == (1, [])


def test_a_log_that_grows_is_read_again(by: Any, empty: Engine, engine: Engine, plain: bytes, tmp_path: Path) -> None:
    """While it is written executions run; when it has its name, all is as if it had been read once."""
    start = plain.rindex(b"SparkListenerSQLExecutionStart")
    cut = plain.index(b"\n", plain.index(b"SparkListenerJobStart", start)) - 20
    path = tmp_path / "local-1.inprogress"
    path.write_bytes(plain[:cut])
    report = backfill(by, empty, [str(path)])
    assert told(report) == {"local-1": "whole"}
    assert ledger(empty)["local-1"]["is_open"]
    assert states(empty)["running"] == 1
    path.write_bytes(plain)
    assert len(backfill(by, empty, [str(path)]).done) == 1
    path.rename(tmp_path / "local-1")
    assert len(backfill(by, empty, [str(tmp_path)]).done) == 1
    assert backfill(by, empty, [str(tmp_path)]).unchanged == 1
    assert not ledger(empty)["local-1"]["is_open"]
    Writer(engine).write(read_log(log_at(tmp_path / "local-1"))[0])
    application = content(empty)["application"][0]["application_id"]
    assert content(empty) == content(engine, application)


def states(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT state, count(*) FROM execution GROUP BY state"))
        return {row[0]: row[1] for row in rows}


def test_what_is_broken_is_said_and_stops_nothing(by: Any, empty: Engine, plain: bytes, tmp_path: Path) -> None:
    """Garbage, cut off and incomplete logs are read as far as possible and reported once."""
    split = plain.splitlines(keepends=True)

    def of_application(name: str, content: bytes = plain) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(re.sub(rb"local-\d{13}", name.rpartition("/")[2].encode(), content))

    of_application("local-1")
    of_application("local-2", b"\x00garbage\n" * 1000)
    of_application("local-3", plain[: len(plain) // 2])
    of_application("local-4", b"".join([*split[:200], b"{not json\n", *split[200:]]))
    for number in (1, 3):
        of_application(
            f"eventlog_v2_local-6/events_{number}_local-6", b"".join(split[number * 100 - 100 : number * 100])
        )
    of_application("local-7.zstd", b"\x28\xb5\x2f\xfd broken")
    (tmp_path / "eventlog_v2_local-8").mkdir()  # has no file yet
    report = backfill(by, empty, [str(tmp_path)])
    assert told(report) == {
        "local-1": "whole",
        "local-2": "partial",
        "local-3": "partial",
        "local-4": "partial",
        "eventlog_v2_local-6": "partial",
        "local-7.zstd": "partial",
    }
    problems = {name: row["problems"] for name, row in ledger(empty).items()}
    assert problems["local-1"] is None
    assert problems["local-2"][0].startswith("local-2: 1000 lines are unreadable, the first: line 1: ")
    assert "it is not an event log" in problems["local-2"][1]
    assert problems["local-3"] == ["local-3: the last line is cut off"]
    assert problems["local-4"][0].startswith("local-4: 1 line is unreadable: line 201: ")
    assert problems["eventlog_v2_local-6"] == ["file 2 of the rolling log is missing"]
    assert [path.rpartition("/")[2] for path in report.empty] == ["eventlog_v2_local-8"]
    assert ledger(empty)["eventlog_v2_local-6"]["missing_files"] == 1
    assert "zstd" in problems["local-7.zstd"][0]
    assert any(row["incomplete"] for row in content(empty)["execution"])
    assert report.is_complete
    second = backfill(by, empty, [str(tmp_path)])
    assert (second.unchanged, second.unchanged_partial, second.done) == (6, 5, [])


def test_a_log_that_cannot_be_opened_fails_alone(
    by: Any, empty: Engine, plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are read; it is tried again the next time, also if it has not changed."""
    for name in ("local-1", "local-2"):
        (tmp_path / name).write_bytes(plain)

    def assign_logs(*arguments: Any) -> Any:
        (tmp_path / "local-2").rename(tmp_path / "away")  # after it was listed
        return planner.assign_logs(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("joinsight.backfill.run.assign_logs", assign_logs)
        report = backfill(by, empty, [str(tmp_path)])
    assert told(report) == {"local-1": "whole", "local-2": "failed"}
    assert not report.is_complete
    assert "No such file" in ledger(empty)["local-2"]["problems"][0]
    (tmp_path / "away").rename(tmp_path / "local-2")
    report = backfill(by, empty, [str(tmp_path)])
    assert (told(report), report.is_complete) == ({"local-2": "whole"}, True)


@pytest.mark.matrix
def test_logs_may_be_in_any_file_system(
    spark: Any, empty: Engine, engine: Engine, plain: bytes, tmp_path: Path
) -> None:
    """Any file system of Hadoop works: it is listed, and executors read it through Java."""
    (tmp_path / "logs").mkdir()
    older = next(version for version, (_, is_rolling) in FORMS.items() if is_rolling)
    rolling = Path(recorded(older, tmp_path / "logs")[0].path).name
    (tmp_path / "logs" / "local-1").write_bytes(plain)
    (tmp_path / "logs" / "local-2").touch()
    mounts = spark.sparkContext._jsc.hadoopConfiguration()
    mounts.set("fs.viewfs.mounttable.far.link./away", (tmp_path / "logs").as_uri())
    report = backfill(spark, empty, ["viewfs://far/away"])
    assert {each.entry.path: each.entry.outcome for each in report.done} == {
        f"viewfs://far/away/{name}": "whole" for name in (rolling, "local-1", "local-2")
    }
    for path in (tmp_path / "logs" / "local-1", tmp_path / "logs" / rolling):
        Writer(engine).write(read_log(log_at(path))[0])
    applications = {row["application_id"] for row in content(empty)["application"]}
    assert len(applications) == 2  # an empty log has none
    for application in applications:
        assert content(empty, application) == content(engine, application)


@pytest.mark.matrix
def test_the_jar_may_lie_anywhere(
    spark: Any, empty: Engine, plain: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors get the listener's jar from a folder whose name has quotes, blanks and what URLs escape."""
    folder = tmp_path / 'it\'s "50%25" # of'
    folder.mkdir()
    jar = folder / "quoted-listener.jar"
    shutil.copy(listener_jar(), jar)
    monkeypatch.setattr(run, "listener_jar", lambda: jar)
    (tmp_path / "local-1").write_bytes(plain)
    assert [each.entry.outcome for each in backfill(spark, empty, [str(tmp_path / "local-1")]).done] == ["whole"]
    assert jar.name in spark.sparkContext._jsc.sc().listJars().toString()


def test_paths_that_are_not_there(spark: Any, empty: Engine, tmp_path: Path) -> None:
    """Nothing is read; the path is named. An empty folder is no mistake."""
    with pytest.raises(JoinsightError, match="nowhere does not exist"):
        backfill(spark, empty, [str(tmp_path), str(tmp_path / "nowhere")])
    with pytest.raises(JoinsightError, match="none"):
        backfill(spark, empty, ["none://such/logs"])
    report = backfill(spark, empty, [str(tmp_path)])
    assert (report.found, report.is_complete) == (0, True)


@pytest.mark.matrix  # the exactness test compares live rows and those of the log too
def test_live_rows_and_those_of_the_log_agree(live: Live, empty: Engine) -> None:
    """Live and backfilled totals of the same run are equal; in one database the live ones stay."""
    report = backfill(live.spark, empty, [str(live.log)])
    assert told(report) == {live.application_id: "whole"}
    ours, theirs = (totals(engine, live.application_id) for engine in (empty, live.engine))
    assert len(ours) > 3
    assert ours == theirs
    before = content(live.engine, live.application_id)
    report = backfill(None, live.engine, [str(live.log)])  # by Spark would be another execution of its application
    assert (told(report), sum(each.repaired for each in report.done)) == ({live.application_id: "whole"}, 0)
    after = content(live.engine, live.application_id)
    (ours,), (theirs,) = before.pop("application"), after.pop("application")
    assert ours["listener_id"] == theirs["listener_id"] != ""  # the listener may have written the row once more
    assert after == before


TOTALS = """
    SELECT execution_id, state, description, query_shape, plan_fingerprint, plan_versions, tasks, shuffle_write_bytes,
        shuffle_read_bytes, broadcast_bytes, input_bytes, output_bytes,
        (SELECT array_agg(s.rows_written ORDER BY s.node_id) FROM shuffle s WHERE s.execution_id = e.execution_id
            AND s.application_id = e.application_id),
        (SELECT array_agg((j.strategy, j.output_rows)::text ORDER BY j.node_id) FROM joins j
            WHERE j.execution_id = e.execution_id AND j.application_id = e.application_id)
    FROM execution e WHERE application_id = :application
"""


def totals(engine: Engine, application: str) -> dict[int, tuple[Any, ...]]:
    with engine.connect() as connection:
        rows = connection.execute(text(TOTALS), {"application": application})
        return {row[0]: tuple(row) for row in rows}


@pytest.mark.matrix
def test_an_execution_that_the_listener_knew_in_part_is_repaired(live: Live) -> None:
    """What the collector had to call lost or partial is replaced by what the log says, and the report says so."""
    with live.engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE execution SET state = 'lost', incomplete = '{the driver was lost}' WHERE application_id = :a"
                " AND execution_id = (SELECT min(execution_id) FROM execution WHERE application_id = :a)"
            ),
            {"a": live.application_id},
        )
    report = backfill(live.spark, live.engine, [str(live.log)], again=True)
    assert sum(each.repaired for each in report.done) == 1
    repaired = [row for row in content(live.engine, live.application_id)["execution"] if row["origin"] == "event_log"]
    assert [(row["state"], row["incomplete"]) for row in repaired] == [("succeeded", None)]
