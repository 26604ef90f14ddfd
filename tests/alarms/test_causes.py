"""Causes of real runs in the database: of slow runs, to add up, and of regressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, insert, select, text
from tests.documents import application
from tests.why.test_why import document

from joinsight import tables
from joinsight.alarms.causes import first_causes, store_causes
from joinsight.alarms.run_causes import store_run_causes
from joinsight.store import baselines
from joinsight.store.database import connect
from joinsight.store.writer import Writer

START = document("base2").started_at_ms


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


@pytest.fixture(scope="module")
def store(make_store: Callable[[], str]) -> Iterator[Engine]:
    """Six runs of a query, then one of twice the data and one as ever."""
    with connect(make_store()) as engine:
        runs = [("base2", number, START - 100 + number) for number in range(6)]
        for name, number, started in (*runs, ("twice0", 10, None), ("base4", 11, None)):
            e = document(name)
            changes: dict[str, Any] = {} if started is None else {"started_at_ms": started}
            its = msgspec.structs.replace(e, application_id="app", execution_id=number, job_name="nightly", **changes)
            Writer(engine).write([application(application_id="app"), its])
        baselines.replace(engine, at(START))
        yield engine


def test_slow_runs_are_divided_once(store: Engine) -> None:
    """Their causes add up to the difference; runs that were not slow have none."""
    now = at(START) + timedelta(days=1)
    assert store_run_causes(store, now) == 1
    assert store_run_causes(store, now) == 0
    with store.connect() as connection:
        rows = connection.execute(select(tables.cause).order_by(tables.cause.c.wall_ms.desc())).mappings().all()
        durations = connection.execute(text("SELECT execution_id, duration_ms FROM execution"))
        took = {row.execution_id: row.duration_ms for row in durations}
    assert {row["execution_id"] for row in rows} == {10}
    assert rows[0]["code"] == "data" and rows[0]["evidence"]
    compared = int(rows[0]["compared_with"].rpartition("/")[2])
    assert sum(row["wall_ms"] for row in rows) == took[10] - took[compared]


def test_an_alarm_gets_its_first_causes(store: Engine) -> None:
    """They are those of a typical run before and one since; an empty list, if one is no longer stored."""
    with store.begin() as connection:
        columns = ("started_at", "application_id", "attempt_id", "execution_id")
        keys = {}
        for number in (3, 10):
            where = tables.execution.c.execution_id == number
            keys[number] = connection.execute(select(*(tables.execution.c[c] for c in columns)).where(where)).one()
        row: dict[str, Any] = {
            "query_shape": "s",
            "origin": "live",
            "measure": "duration_ms",
            "runs": 5,
            "kind": "same_plan",
        }
        row |= {"raised_at": at(START), "since": at(START), "before": 1.0, "after": 2.0, "evidence_weeks": 5e3}
        row |= {f"baseline_{name}": value for name, value in zip(columns, keys[3], strict=True)}
        row |= dict(zip(columns, keys[10], strict=True))
        gone = row | {"execution_id": 99, "job_name": "gone"}
        connection.execute(insert(tables.alarm), [row | {"job_name": "slower"}, gone])
        assert first_causes(connection, row)[0].code == "data"
    assert store_causes(store) == 2 and store_causes(store) == 0
    with store.connect() as connection:
        found = connection.execute(select(tables.alarm.c.job_name, tables.alarm.c.causes))
        stored = {each.job_name: each.causes for each in found}
    assert stored["gone"] == [] and stored["slower"][0]["code"] == "data" and len(stored["slower"]) <= 3
