"""Only executions whose driver is gone become lost, and their next document changes this."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, text
from tests.documents import OTHER_LISTENER, STARTED_AT_MS, application, execution, planned
from tests.waiting import SECONDS, until

from joinsight import tables
from joinsight.base.timeparse import format_duration
from joinsight.contract.document import Document, Execution
from joinsight.store import mark_lost
from joinsight.store.database import connect, upgrade
from joinsight.store.mark_lost import Reaper, declare_lost
from joinsight.store.writer import Writer
from joinsight.tables import Row

AFTER = timedelta(minutes=5)
SILENCE = "the driver was lost: no contact for 5m"
ENDED = "the driver was lost: the application ended before this execution"
RESTARTED = "the driver was lost: the next attempt of its application started"
BROADCAST = "BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=?"
_names = itertools.count(1)


@pytest.fixture
def app() -> str:
    """The id of an application that no other test uses."""
    return f"lost-{next(_names)}"


def silent_for(engine: Engine, app: str, seconds: int) -> None:
    """Simulate that an application's listeners were silent for this long."""
    with engine.begin() as connection:
        for table, column in (("delivery", "last_heard_at"), ("execution", "updated_at")):
            statement = f"UPDATE {table} SET {column} = now() - make_interval(secs => :s) WHERE application_id = :app"
            connection.execute(text(statement), {"s": seconds, "app": app})


def reap(engine: Engine) -> int:
    """Mark what is lost."""
    with engine.begin() as connection:
        return declare_lost(connection, AFTER)


def read(engine: Engine, app: str) -> dict[int, Row]:
    """An application's executions by id."""
    c = tables.execution.c
    with engine.connect() as connection:
        rows = connection.execute(select(tables.execution).where(c.application_id == app)).mappings()
        return {row["execution_id"]: dict(row) for row in rows}


def states(engine: Engine, app: str) -> dict[int, str]:
    """States of an application's executions."""
    return {number: row["state"] for number, row in read(engine, app).items()}


def running(app: str, **changes: Any) -> Execution:
    """An execution that runs."""
    return execution(application_id=app, state="running", **changes)


def test_a_silent_listeners_executions_become_lost(engine: Engine, app: str) -> None:
    """Running executions become lost when their listener was silent for long enough; finished ones stay unchanged."""
    documents: list[Document] = [
        application(application_id=app),
        planned(
            BROADCAST,
            application_id=app,
            state="running",
            incomplete=["its start was not seen"],
            incomplete_codes=["start_not_seen"],
        ),
        running(app, execution_id=1),
        execution(application_id=app, execution_id=2, state="failed"),
    ]
    Writer(engine).write(documents)
    silent_for(engine, app, 290)
    assert reap(engine) == 0
    silent_for(engine, app, 310)
    before = read(engine, app)
    assert reap(engine) == 2
    after = read(engine, app)
    changed = {"state": "lost", "ended_at": None, "updated_at": after[0]["updated_at"]}
    both = {"incomplete": ["its start was not seen", SILENCE], "incomplete_codes": ["start_not_seen", "driver_lost"]}
    assert after[0] == before[0] | changed | both
    assert after[1] == before[1] | changed | {"incomplete": [SILENCE], "incomplete_codes": ["driver_lost"]}
    assert after[2] == before[2]
    assert after[0]["updated_at"] > before[0]["updated_at"]
    with engine.connect() as connection:
        outcomes = select(tables.broadcast.c.outcome).where(tables.broadcast.c.application_id == app)
        assert connection.scalars(outcomes).all() == ["unknown"]
    assert reap(engine) == 0
    assert read(engine, app) == after


def test_a_sign_of_life_is_enough(engine: Engine, app: str) -> None:
    """Any document of the listener, be it refused, shows that the driver lives; one of another listener does not."""
    Writer(engine).write([running(app)])
    silent_for(engine, app, 310)
    Writer(engine).write([], [(application(application_id=app, sequence=2), "refused")])
    assert reap(engine) == 0
    silent_for(engine, app, 310)
    assert reap(engine) == 1


def test_the_application_ended_first(engine: Engine, app: str) -> None:
    """What an application leaves behind is lost a minute after its last document: until then more may come."""
    Writer(engine).write([running(app), application(application_id=app, sequence=2, state="ended")])
    silent_for(engine, app, 50)
    assert reap(engine) == 0
    silent_for(engine, app, 70)
    assert reap(engine) == 1
    row = read(engine, app)[0]
    assert (row["incomplete"], row["incomplete_codes"]) == ([ENDED], ["application_ended"])


def test_the_next_attempt_was_heard(engine: Engine, app: str) -> None:
    """An attempt is lost, with its executions, soon after a later one started, which is left alone."""
    first = {"application_id": app, "attempt_id": "9"}
    first_runs, second_runs = {"app": app, "attempt_id": "9"}, {"app": app, "attempt_id": "10"}
    Writer(engine).write([application(**first), running(**first_runs), execution(**first, execution_id=1, sequence=3)])
    silent_for(engine, app, 20)
    with engine.begin() as connection:
        assert declare_lost(connection, None) == 0
    Writer(engine).write([running(**second_runs, execution_id=2)])
    with engine.begin() as connection:
        assert declare_lost(connection, None) == 1
    rows = read(engine, app)
    assert {number: row["state"] for number, row in rows.items()} == {0: "lost", 1: "succeeded", 2: "running"}
    assert (rows[0]["incomplete"], rows[0]["incomplete_codes"]) == ([RESTARTED], ["attempt_restarted"])
    assert application_states(engine, app) == {"9": "lost", "10": "unknown"}
    Writer(engine).write([running(**first_runs, sequence=4)])
    assert reap(engine) == 0, "just heard from"
    silent_for(engine, app, 20)
    assert reap(engine) == 1
    assert states(engine, app) == {0: "lost", 1: "succeeded", 2: "running"}


def test_a_later_document_revives_it(engine: Engine, app: str) -> None:
    """A higher number replaces a lost execution like any other, an old one does not; it finishes once."""
    writer = Writer(engine)
    writer.write([running(app, sequence=3)])
    silent_for(engine, app, 310)
    assert reap(engine) == 1
    assert writer.write([running(app, sequence=3)]).stale == 1
    assert states(engine, app) == {0: "lost"}
    writer.write([running(app, sequence=4)])
    assert states(engine, app) == {0: "running"}
    assert reap(engine) == 0
    silent_for(engine, app, 310)
    assert reap(engine) == 1
    assert len(writer.write([execution(application_id=app, sequence=5)]).finished) == 1
    row = read(engine, app)[0]
    assert (row["state"], row["incomplete"]) == ("succeeded", None)


def test_what_was_backfilled_is_left_alone(engine: Engine, app: str) -> None:
    """An event log may end in the middle: no driver is expected behind it."""
    Writer(engine).write([running(app, origin="event_log")])
    silent_for(engine, app, 100_000)
    assert reap(engine) == 0


def test_without_an_account(engine: Engine, app: str) -> None:
    """Executions that were stored before deliveries were accounted for are judged by when they were written."""
    Writer(engine).write([running(app)])
    with engine.begin() as connection:
        connection.execute(tables.delivery.delete().where(tables.delivery.c.application_id == app))
    assert reap(engine) == 0
    silent_for(engine, app, 310)
    assert reap(engine) == 1


def application_state(engine: Engine, app: str) -> str | None:
    """State of an application."""
    c = tables.application.c
    with engine.connect() as connection:
        return connection.scalar(select(c.state).where(c.application_id == app))


def application_states(engine: Engine, app: str) -> dict[str, str]:
    """States of an application's attempts."""
    c = tables.application.c
    with engine.connect() as connection:
        attempts = connection.execute(select(c.attempt_id, c.state).where(c.application_id == app))
        return {row.attempt_id: row.state for row in attempts}


@pytest.mark.parametrize("known", [True, False], ids=["its start arrived", "only executions arrived"])
def test_an_application_is_lost_with_its_executions(engine: Engine, app: str, known: bool) -> None:
    """A lost application, like its executions, waits for a later document; the time of the last contact is kept."""
    Writer(engine).write([application(application_id=app)] * known + [running(app, sequence=2)])
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE application SET updated_at = '2026-01-01' WHERE application_id = :a"), {"a": app}
        )
    silent_for(engine, app, 290)
    reap(engine)
    assert application_state(engine, app) == ("running" if known else "unknown")
    silent_for(engine, app, 310)
    assert reap(engine) == 1
    assert (application_state(engine, app), states(engine, app)) == ("lost", {0: "lost"})
    with engine.connect() as connection:
        c = tables.application.c
        assert connection.scalar(select(c.updated_at < text("'2026-01-02'")).where(c.application_id == app))
    Writer(engine).write([running(app, sequence=3)])
    assert (application_state(engine, app), states(engine, app)) == ("lost", {0: "running"})
    Writer(engine).write([application(application_id=app, sequence=4)])
    assert application_state(engine, app) == "running"
    assert reap(engine) == 0
    Writer(engine).write([application(application_id=app, sequence=5, state="ended")])
    silent_for(engine, app, 310)
    reap(engine)
    assert application_state(engine, app) == "ended"


def test_an_application_without_executions_is_lost(engine: Engine, app: str) -> None:
    """When all of its listeners are silent: of two, one that is heard is enough. What is of a log is left alone."""
    log = f"{app}-log"
    documents = [application(application_id=app), application(application_id=app, listener=OTHER_LISTENER)]
    Writer(engine).write([*documents, application(application_id=log, origin="event_log")])
    with engine.begin() as connection:
        silent = "UPDATE delivery SET last_heard_at = '2026-01-01' WHERE application_id = :a AND listener_id = :id"
        connection.execute(text(silent), {"a": app, "id": OTHER_LISTENER.id})
    reap(engine)
    assert application_state(engine, app) == "running"
    silent_for(engine, app, 310)
    reap(engine)
    assert (application_state(engine, app), application_state(engine, log)) == ("lost", "running")


def test_an_application_that_is_lost_yields_to_another_listener(engine: Engine, app: str) -> None:
    """A listener that is attached again makes it running."""
    Writer(engine).write([application(application_id=app, sequence=9)])
    silent_for(engine, app, 310)
    reap(engine)
    assert application_state(engine, app) == "lost"
    Writer(engine).write([application(application_id=app, listener=OTHER_LISTENER)])
    assert application_state(engine, app) == "running"


def test_what_is_being_written_is_not_lost(engine: Engine, app: str) -> None:
    """It neither waits for a writer nor takes its application for dead; the document is stored as it came."""
    Writer(engine).write([application(application_id=app), running(app)])
    silent_for(engine, app, 310)
    with ThreadPoolExecutor(1) as pool, engine.connect() as holding, engine.connect() as watching:
        c = tables.execution.c
        holding.execute(select(c.state).where(c.application_id == app).with_for_update())
        write = pool.submit(Writer(engine).write, [running(app, sequence=2)])
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )

        def waits() -> bool:
            watching.rollback()
            return bool(watching.scalar(text(waiting)) == 1)

        until(waits, "the writer waits")
        assert reap(engine) == 0
        holding.rollback()
        assert write.result(timeout=SECONDS).stored == 1
    assert reap(engine) == 0
    assert states(engine, app) == {0: "running"}


def test_one_collector_reaps(engine: Engine, app: str) -> None:
    """While another one marks there is nothing to do, and no waiting."""
    Writer(engine).write([running(app)])
    silent_for(engine, app, 310)
    with engine.begin() as other:
        assert declare_lost(other, AFTER) == 1
        assert reap(engine) == 0
        other.rollback()
    assert reap(engine) == 1


# When the collector may judge


@pytest.fixture
def clock(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Ticks of a reaper after so many seconds more: the database's clock is moved by a function of the same name."""
    reaper = Reaper(engine, AFTER)
    passed = 0

    def tick(seconds: int) -> int:
        nonlocal passed
        passed += seconds
        monkeypatch.setattr(mark_lost, "NOW", f"SELECT now() + interval '{passed} seconds'")
        return reaper.tick()

    return tick


def test_not_before_the_collector_has_been_up_for_as_long(
    engine: Engine, app: str, clock: Callable[[int], int]
) -> None:
    """A collector that has just started knows nothing of who was silent before."""
    Writer(engine).write([running(app)])
    silent_for(engine, app, 100_000)
    assert [clock(30) for _ in range(12)] == [0] * 10 + [1, 0]


def test_a_gap_starts_the_time_anew(engine: Engine, app: str, clock: Callable[[int], int]) -> None:
    """A process that was suspended, or whose database was away, has not been able to receive."""
    Writer(engine).write([running(app)])
    silent_for(engine, app, 100_000)
    assert [clock(30) for _ in range(10)] == [0] * 10
    assert clock(3_600) == 0
    assert [clock(30) for _ in range(10)] == [0] * 9 + [1]


def test_marking_reads_only_what_runs(make_database: Callable[[], str]) -> None:
    """Among many executions of several months the few that run are found by their index alone."""
    with connect(make_database()) as engine:
        upgrade(engine)
        month = 31 * 86_400_000
        documents = [running("a", execution_id=i, started_at_ms=STARTED_AT_MS - i * month) for i in range(3)]
        Writer(engine).write([application(application_id="a"), *documents])
        names = ", ".join(
            column.name for column in tables.execution.columns if column.name not in ("execution_id", "state")
        )
        with engine.begin() as connection:
            connection.execute(
                text(
                    f"INSERT INTO execution ({names}, execution_id, state) SELECT {names}, n + 10, 'succeeded'"
                    " FROM execution, generate_series(1, 5000) n"
                )
            )
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
        with engine.connect() as connection:
            assert connection.scalar(select(func.count()).select_from(tables.execution)) == 15_003
            no_time = timedelta(0)
            times = {"ended_for": timedelta(minutes=1), "lost_after": no_time, "restarted_for": no_time}
            explained = connection.scalars(
                text("EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) " + mark_lost.SILENT), times
            )
            plan = "\n".join(explained)
    scans = [line for line in plan.splitlines() if "on execution_2" in line]
    assert len(scans) == 3, plan
    assert all("using execution_2" in line and "state_started_at_idx" in line for line in scans), plan
    assert "rows=15" not in plan


def test_marking_reads_only_open_applications(empty: Engine) -> None:
    """Among many that have ended the few others are found by their index alone."""
    Writer(empty).write([application(application_id="a"), application(application_id="b", state="ended")])
    names = ", ".join(c.name for c in tables.application.columns if c.name != "application_id")
    many = f"INSERT INTO application ({names}, application_id) SELECT {names}, application_id || n FROM application"
    with empty.begin() as connection:
        connection.execute(text(f"{many}, generate_series(1, 5000) n WHERE state = 'ended'"))
    with empty.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
        asked = text("EXPLAIN SELECT count(*) " + mark_lost.SILENT_APPLICATIONS)
        plan = "\n".join(connection.scalars(asked, {"lost_after": timedelta(0), "restarted_for": timedelta(0)}))
    assert "ix_application_open" in plan and "Seq Scan on application" not in plan, plan


def test_durations_are_written_as_they_are_given() -> None:
    """The reason says the time as a person would write it."""
    times = [timedelta(minutes=5), timedelta(seconds=90), timedelta(hours=2), timedelta(seconds=120)]
    assert [format_duration(time) for time in times] == ["5m", "90s", "120m", "2m"]
