"""The collector's background tasks continue after failures, publish their results and end in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import OperationalError
from tests.documents import execution
from tests.serve.real import until
from tests.store.test_regressions import BEFORE, plant

from joinsight import tables
from joinsight.base.errors import DatabaseError
from joinsight.serve import background
from joinsight.serve.background import Task, background_tasks, running
from joinsight.serve.metrics import Metrics
from joinsight.store import baselines
from joinsight.store.database import connect, exclusively, upgrade
from joinsight.store.writer import Writer

INTERVALS = (
    "REAP_SECONDS",
    "ACTIVITY_SECONDS",
    "PARTITIONS_SECONDS",
    "REGRESSIONS_SECONDS",
    "ALARMS_SECONDS",
    "PRUNE_SECONDS",
)
NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
DEFAULT_PARTITION = "joinsight_default_partition_executions"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals for tests."""
    for name in INTERVALS:
        monkeypatch.setattr(background, name, 0.02)


def shows(metrics: Metrics, line: str) -> bool:
    return f"\n{line}" in metrics.page().decode()


def rename(engine: Engine, kind: str, old: str, new: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"ALTER {kind} {old} RENAME TO {new}"))


def test_a_task_outlives_its_failures(caplog: pytest.LogCaptureFixture) -> None:
    """A database that is gone, another program in the way, a fault of ours: it is logged and the task runs again, until
    its context ends."""
    errors = [DatabaseError("busy"), OperationalError("SELECT 'a secret'", {}, Exception("gone")), KeyError("a fault")]
    runs: list[int] = []

    def run() -> None:
        runs.append(len(runs))
        if errors:
            raise errors.pop(0)

    with running([Task("test", 0.01, run, "nothing was done")]):
        until(lambda: len(runs) > 4, "it runs again")
    for said in ("nothing was done: busy", "nothing was done: gone", "internal error: nothing was done", "KeyError"):
        assert said in caplog.text
    assert "a secret" not in caplog.text
    assert "joinsight-test" not in [thread.name for thread in threading.enumerate()]


def test_tasks_that_hang_do_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """All together are waited for no longer than one would be."""
    monkeypatch.setattr(background, "STOP_SECONDS", 0.3)
    over = threading.Event()
    try:
        with running([Task(f"hangs-{number}", 1, over.wait, "") for number in range(200)]):  # type: ignore[arg-type]
            started = time.monotonic()
        assert time.monotonic() - started < 30  # one after the other they would take a minute
    finally:
        over.set()


def test_what_the_database_does_not_answer_is_hidden(empty: Engine) -> None:
    """Numbers that the database does not provide are hidden, not outdated; they are back with its next response."""
    metrics = Metrics()
    hidden = (
        ("VIEW", "v_regressions", "joinsight_regressions{"),
        ("TABLE", "alarm", "joinsight_certain_regressions{"),
        ("TABLE", "delivery", "joinsight_dropped_events "),
    )
    with background_tasks(empty, metrics):
        for kind, name, line in hidden:
            until(lambda line=line: shows(metrics, line), "it is counted")  # type: ignore[misc]
            rename(empty, kind, name, "elsewhere")
            until(lambda line=line: not shows(metrics, line), "it is hidden")  # type: ignore[misc]
            rename(empty, kind, "elsewhere", name)
            until(lambda line=line: shows(metrics, line), "it is back")  # type: ignore[misc]


def test_lost_executions_are_marked(make_database: Callable[[], str], caplog: pytest.LogCaptureFixture) -> None:
    """It runs once there is a schema; until then the log gives the reason."""
    metrics = Metrics()
    with connect(make_database()) as engine, background_tasks(engine, metrics, timedelta(0)):
        until(lambda: "lost executions were not marked" in caplog.text, "it is logged")
        upgrade(engine)
        Writer(engine).write([execution(state="running"), execution(execution_id=1)])
        until(lambda: shows(metrics, 'joinsight_executions_total{state="lost"} 1.0'), "it is counted")
        c = tables.execution.c
        with engine.connect() as connection:
            assert connection.scalars(select(c.state).order_by(c.execution_id)).all() == ["lost", "succeeded"]


@pytest.mark.matrix
def test_the_default_partition_alarms(empty: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """The number of its executions is shown, and logged when it grows."""
    metrics = Metrics()
    with background_tasks(empty, metrics):
        until(lambda: shows(metrics, f"{DEFAULT_PARTITION} 0.0"), "it is empty")
        Writer(empty).write([execution(execution_id=i, started_at_ms=0, ended_at_ms=1) for i in range(3)])
        until(lambda: shows(metrics, f"{DEFAULT_PARTITION} 3.0"), "it has three")
        rename(empty, "TABLE", "execution_default", "elsewhere")
        until(lambda: "partitions of the coming months were not created" in caplog.text, "it is logged")
        rename(empty, "TABLE", "elsewhere", "execution_default")
        with empty.begin() as connection:
            connection.execute(text("DELETE FROM execution"))
        until(lambda: shows(metrics, f"{DEFAULT_PARTITION} 0.0"), "it is empty again")
    assert caplog.text.count("3 executions with an impossible start time are in the default partition") == 1


def test_baselines_are_stored_once_a_day(empty: Engine) -> None:
    """Those as of each midnight of the last week, unless the last ones are there; expired ones are deleted."""
    midnight, week_ago = baselines.moment(NOW, 0), baselines.moment(NOW)
    expired = midnight - timedelta(days=36)
    assert baselines.store_nightly(empty, NOW) == 0, "there were no runs yet"
    plant(empty, "nightly", BEFORE, end=midnight)
    with empty.begin() as connection:
        connection.execute(text("INSERT INTO baseline SELECT * FROM joinsight_baselines(:as_of)"), {"as_of": midnight})
        connection.execute(text("UPDATE baseline SET as_of = :expired"), {"expired": expired})

    def stored() -> dict[datetime, tuple[int, float]]:
        with empty.connect() as connection:
            rows = connection.execute(text("SELECT as_of, runs, median FROM baseline")).all()
        return {row[0]: (row[1], row[2]) for row in rows}

    assert baselines.store_nightly(empty, NOW) == 8
    assert {as_of: runs for as_of, (runs, _) in stored().items()} == {
        midnight - timedelta(days=days): len(BEFORE) - days for days in range(8)
    }
    with empty.begin() as connection:
        connection.execute(text("UPDATE baseline SET median = 1"))
    assert baselines.store_nightly(empty, NOW) == 0
    assert {median for _, median in stored().values()} == {1}
    assert baselines.replace(empty, week_ago) == 1
    assert [as_of for as_of, (_, median) in stored().items() if median > 1] == [week_ago]


def test_baselines_count_what_arrived_late(empty: Engine) -> None:
    """A run of the last week that arrives after a night counts in the baselines of the next one."""
    today, tomorrow = baselines.moment(NOW, 0), NOW + timedelta(days=1)
    plant(empty, "nightly", BEFORE[:6], end=today)
    assert baselines.store_nightly(empty, NOW) == 2, "as of the last two midnights it has five runs"
    plant(empty, "late", BEFORE[:1], end=today - timedelta(hours=1))
    with empty.begin() as connection:
        connection.execute(text("UPDATE execution SET job_name = 'nightly'"))
    assert baselines.store_nightly(empty, tomorrow) == 3
    with empty.connect() as connection:
        runs = connection.scalar(text("SELECT runs FROM baseline WHERE as_of = :today"), {"today": today})
    assert runs == 7


def test_a_collector_stores_baselines(empty: Engine) -> None:
    plant(empty, "nightly", BEFORE, end=datetime.now(timezone.utc))
    with background_tasks(empty, Metrics()), empty.connect() as connection:
        until(lambda: connection.scalar(text("SELECT count(*) FROM baseline")), "they are stored")


def test_pruning_runs_at_the_start_and_periodically(empty: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    Writer(empty).write([execution(started_at_ms=1_577_836_800_000, ended_at_ms=1_577_836_800_001)])
    with background_tasks(empty, Metrics(), keep=timedelta(days=400)):
        until(lambda: "pruned 1 months" in caplog.text, "it prunes")
        with ExitStack() as stack:

            def is_locked() -> bool:
                try:
                    stack.enter_context(exclusively(empty))
                except DatabaseError:  # it prunes again at this moment
                    return False
                return True

            until(is_locked, "the database is locked")
            until(lambda: "pruning did not finish: Another program is pruning" in caplog.text, "it is logged")
    with empty.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM execution")) == 0
