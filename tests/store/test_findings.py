"""Findings in a real PostgreSQL are stored and replaced with their execution, and use its earlier runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import DBAPIError
from tests.documents import STARTED_AT_MS, execution, stored_rows
from tests.findings.recorded import SMALL, UNLIMITED, recordings
from tests.growth import steps

from joinsight import tables
from joinsight.analysis.rows import Rows, execution_rows
from joinsight.contract.document import Execution
from joinsight.findings import Finding, FindingsEngine, Heuristic, PlanContext
from joinsight.store.history import EarlierRuns
from joinsight.store.writer import Writer
from joinsight.tables import ExecutionRow, Row, as_columns

DAY = 86_400_000
_numbers = itertools.count(1)


@pytest.fixture
def app() -> str:
    """The id of an application that no other test uses."""
    return f"application-{next(_numbers)}"


def document(name: str, app: str, **changes: Any) -> Execution:
    return msgspec.structs.replace(recordings()[name], application_id=app, **changes)


def stored(engine: Engine, app: str) -> list[Row]:
    """The findings of an application."""
    statement = select(tables.finding).where(tables.finding.c.application_id == app).order_by(tables.finding.c.finding)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def test_findings_are_stored_with_their_execution(engine: Engine, app: str) -> None:
    """Column by column what the engine finds; the numbers of the evidence too."""
    documents = [document(name, app) for name in recordings() if name != "cache-read"]
    findings = FindingsEngine(SMALL, UNLIMITED)
    Writer(engine, findings).write(documents)
    expected = [as_columns(row) for each in documents for row in findings.rows(execution_rows(each))]
    assert len(expected) > 15
    order = ("started_at", "finding", "node_id")
    found = stored(engine, app)
    for rows in (expected, found):
        rows.sort(key=lambda row: [row[name] for name in order])
    assert found == expected


def test_a_running_execution_has_none_until_it_ends(engine: Engine, app: str) -> None:
    """They come with the last document; repeated, it changes nothing."""
    ended = document("collected", app)
    running = msgspec.structs.replace(ended, state="running", ended_at_ms=None, sequence=ended.sequence - 1)
    writer = Writer(engine, FindingsEngine(SMALL, UNLIMITED))
    writer.write([running])
    assert stored(engine, app) == []
    for _ in range(2):
        writer.write([ended])
        assert [row["finding"] for row in stored(engine, app)] == ["driver-collect"]


@pytest.mark.parametrize("order", [("filled", "read"), ("read", "filled"), ("filled", "read", "filled")], ids=str)
def test_a_cached_table_that_another_execution_reads_is_no_finding(
    engine: Engine, app: str, order: tuple[str, ...]
) -> None:
    """Whichever arrives first, in one batch or several; in another application it stays one."""
    documents = [document(f"cache-{name}", app, sequence=number) for number, name in enumerate(order, 1)]
    writer = Writer(engine, FindingsEngine(SMALL, UNLIMITED))
    for each in documents:
        writer.write([each])
    assert stored(engine, app) == []
    writer.write([document(f"cache-{name}", f"{app}-at-once") for name in order[:2]])
    assert stored(engine, f"{app}-at-once") == []
    writer.write([document("cache-filled", f"{app}-other")])
    assert [row["finding"] for row in stored(engine, f"{app}-other")] == ["cache-read-once"]


def test_findings_are_replaced_with_their_execution(engine: Engine, app: str) -> None:
    """Those of an older document are gone."""
    before = document("collected", app)
    same = {"execution_id": before.execution_id, "started_at_ms": before.started_at_ms}
    after = document("broadcast-slow", app, sequence=before.sequence + 1, **same)
    writer = Writer(engine, FindingsEngine(SMALL, UNLIMITED))
    writer.write([before])
    writer.write([after])
    assert [row["finding"] for row in stored(engine, app)] == ["broadcast-not-worth-it"]


def test_thresholds_decide_what_is_stored(engine: Engine, app: str) -> None:
    """With the default thresholds, this small query has no finding."""
    Writer(engine).write([document("collected", app)])
    assert stored(engine, app) == []


def grown(rows: int, day: int, app: str) -> Execution:
    """A run of a query whose broadcast has so many rows."""
    started = STARTED_AT_MS + day * DAY
    run = document("broadcast-switched-near", app, execution_id=day, sequence=day + 1, started_at_ms=started)
    (counted,) = (
        metric.id
        for node in run.nodes
        if node.name == "BroadcastExchange"
        for metric in node.metrics
        if metric.name == "number of output rows"
    )
    measured = [msgspec.structs.replace(each, sum=rows) if each.id == counted else each for each in run.accumulators]
    return msgspec.structs.replace(run, accumulators=measured)


def on(day: int, app: str, **changes: Any) -> ExecutionRow:
    """A run of that day."""
    return execution_rows(msgspec.structs.replace(grown(1, day, app), **changes)).execution


def test_a_broadcast_grows_from_run_to_run(engine: Engine, app: str) -> None:
    """What it was in earlier runs is read from the store, also if they came in the same batch or later."""
    sizes = [300, 305, 310, 315, 320, 350]
    runs = [grown(rows, day, app) for day, rows in enumerate(sizes)]
    writer = Writer(engine)
    for run in runs:
        writer.write([run])
    found = stored(engine, app)
    assert [row["severity"] for row in found] == ["warning"]
    assert found[-1]["evidence"] | {"earlier_runs": 5, "earlier_rows": 310, "rows": 350} == found[-1]["evidence"]


def test_earlier_runs_are_those_before_the_latest_first(engine: Engine, app: str) -> None:
    """At most 20, of the same operator, and only broadcasts that succeeded and were measured."""
    key = next(row["operator_key"] for row in stored_rows(grown(1, 0, app))["broadcast"])
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM broadcast"))
    Writer(engine).write([grown(1_000 + day, day, app) for day in range(25)])
    Writer(engine).write([msgspec.structs.replace(grown(7, 26, app), accumulators=[])])
    with engine.connect() as connection:
        runs = EarlierRuns(connection)
        assert runs.broadcast_rows(key, on(3, app)) == [1_002, 1_001, 1_000]
        assert runs.broadcast_rows(key, on(99, app)) == list(range(1_024, 1_004, -1))
        assert runs.broadcast_rows("another", on(99, app)) == []
        connection.execute(text("SET enable_seqscan = off"))
        plan = connection.execute(
            text("EXPLAIN SELECT rows FROM broadcast WHERE operator_key = 'a' ORDER BY started_at DESC LIMIT 20")
        ).scalars()
        assert any("operator_key_started_at" in line for line in plan)


def test_earlier_runs_of_another_job_or_origin_do_not_count(engine: Engine, app: str) -> None:
    """A run in development is not compared with those in production, nor one from an event log with live ones."""
    key = next(row["operator_key"] for row in stored_rows(grown(1, 0, app))["broadcast"])
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM broadcast"))
    there = [{}, {"job_name": "another"}, {"origin": "event_log"}]
    runs = [msgspec.structs.replace(grown(1_000 + i, i, f"{app}-{i}"), **changes) for i, changes in enumerate(there)]
    Writer(engine).write(runs)
    with engine.connect() as connection:
        history = EarlierRuns(connection)
        for i, changes in enumerate(there):
            assert history.broadcast_rows(key, on(99, app, **changes)) == [1_000 + i]


def test_few_questions_about_earlier_runs(engine: Engine, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups are limited per batch, however many broadcasts it has: beyond the limit the history is empty."""
    monkeypatch.setattr("joinsight.store.history.MAX_LOOKUPS", 2)
    key = next(row["operator_key"] for row in stored_rows(grown(1, 0, app))["broadcast"])
    Writer(engine).write([grown(1_000, 0, app)])
    with engine.connect() as connection:
        history = EarlierRuns(connection)
        assert [bool(history.broadcast_rows(key, on(99, app))) for _ in range(3)] == [True, True, False]


def test_many_executions_of_one_command_take_work_in_proportion(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of twice as many, each of which asks for the others, takes twice the work; 20 of them are read."""
    monkeypatch.setattr("joinsight.store.history.MAX_LOOKUPS", 0)

    def ask(rows: list[Rows], connection: Connection) -> None:
        history = EarlierRuns(connection, rows)
        assert {len(history.started(each.execution)) for each in rows} <= {20, 21}

    with engine.connect() as connection:
        batches = [
            [
                execution_rows(execution(application_id="one", execution_id=i, root_execution_id=0))
                for i in range(number)
            ]
            for number in (100, 200)
        ]
        few, many = (steps(partial(ask, rows, connection)) for rows in batches)
    assert many < 2.05 * few


def test_a_heuristic_that_fails_loses_no_execution(engine: Engine, app: str) -> None:
    """Its rows and the findings of the others are stored."""

    def broken(context: PlanContext) -> Iterator[Finding]:
        raise ZeroDivisionError

    def fine(context: PlanContext) -> Iterator[Finding]:
        yield Finding("fine", "info", "All is well.", {"answer": 42.5}, "Go on.")

    findings = FindingsEngine(
        SMALL, (Heuristic("broken", broken, is_about_time=False), Heuristic("fine", fine, is_about_time=False))
    )
    assert Writer(engine, findings).write([document("collected", app)]).stored == 1
    assert [(row["finding"], row["evidence"]) for row in stored(engine, app)] == [("fine", {"answer": 42.5})]


def test_a_database_that_fails_while_findings_are_looked_for_fails_the_batch(engine: Engine, app: str) -> None:
    """It is not the heuristic's fault, so nothing is stored and the batch is sent again."""

    def ask(context: PlanContext) -> Iterator[Finding]:
        context.history.broadcast_rows({}, context.execution)  # type: ignore[arg-type]  # PostgreSQL has no form for it
        yield from ()

    with pytest.raises(DBAPIError):
        Writer(engine, FindingsEngine(SMALL, (Heuristic("ask", ask, is_about_time=False),))).write(
            [document("collected", app)]
        )
    with engine.connect() as connection:
        count = text("SELECT count(*) FROM execution WHERE application_id = :app")
        assert connection.scalar(count, {"app": app}) == 0
