"""Forecasts of operators on a real PostgreSQL: planted growth towards each limit, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text
from tests.store.test_regressions import plant

from joinsight import tables
from joinsight.alarms import forecasts
from joinsight.queries.regressions import read_forecasts
from joinsight.store.database import connect

END = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
NOW = END + timedelta(hours=6)
MIB, GIB = 1 << 20, 1 << 30
RUNS = 30
GROWING = [1.02 ** (night - RUNS + 1) for night in range(RUNS)]
"""2 % a day, 1 in the last night: after 20 days it is 1.49 times as much."""
BROADCAST = {"outcome": "succeeded", "threshold_bytes": 10 * MIB, "shuffled_bytes": MIB, "size_bytes": MIB}


def broadcasts(column: str, last: float, **others: Any) -> list[dict[str, Any]]:
    return [BROADCAST | {"join_nodes": [5]} | others | {column: round(last * each)} for each in GROWING]


@pytest.fixture(scope="module")
def store(make_store: Callable[[], str]) -> Iterator[Engine]:
    nights = [60_000.0] * RUNS
    step = 1.02**20
    with connect(make_store()) as engine:
        near = broadcasts("shuffled_bytes", 10 * MIB / step)
        plant(engine, "threshold", nights, end=END, operator="broadcast", operators=near)
        plant(engine, "hinted", nights, end=END, operator="broadcast", operators=near)
        limit = broadcasts("size_bytes", 8 * GIB / step)
        plant(engine, "limit", nights, end=END, operator="broadcast", operators=limit)
        plant(engine, "small", nights, end=END, operator="broadcast", operators=broadcasts("size_bytes", GIB))
        plant(engine, "new", nights[:9], end=END, operator="broadcast", operators=limit[-9:])
        flat = [BROADCAST | {"shuffled_bytes": 9 * MIB}] * RUNS
        plant(engine, "flat", nights, end=END, operator="broadcast", operators=flat)
        wide = [{"partitions": round(2001 / step * each)} for each in GROWING]
        plant(engine, "wide", nights, end=END, operators=wide)
        join = {"strategy": "SortMergeJoin", "is_skew": False, "left_exchange": 4, "broadcast_verdict": None}
        plant(engine, "spills", nights, end=END, operator="join", operators=[join] * RUNS)
        with engine.begin() as connection:
            keys = "started_at, application_id, attempt_id, execution_id"
            rows = connection.execute(text(f"SELECT {keys} FROM execution WHERE job_name = 'spills' ORDER BY 1"))
            keys_of = [dict(row) for row in rows.mappings()]
            memory = (GIB - 300 * MIB) * 0.6 / 4 / step
            connection.execute(insert(tables.shuffle), [key | {"node_id": 4, "reduce_stages": [9]} for key in keys_of])
            none = dict.fromkeys(("stage_attempt", "tasks", "succeeded_tasks", "failed_tasks", "killed_tasks"), 0)
            stages = [
                key
                | none
                | {"stage_id": 9, "name": "", "state": "succeeded", "slots": 4}
                | {"peak_memory_bytes": round(memory * each)}
                for key, each in zip(keys_of, GROWING, strict=True)
            ]
            connection.execute(insert(tables.metadata.tables["stage"]), stages)
            of_app = 'UPDATE application SET configuration = \'{"spark.executor.memory": "1g"}\''
            connection.execute(text(f"{of_app} WHERE application_id LIKE 'spills-%'"))
            hinted = connection.execute(text(f"SELECT {keys} FROM execution WHERE job_name = 'hinted'")).mappings()
            hint = {"node_id": 5, "strategy": "BroadcastHashJoin", "is_skew": False, "hint": "broadcast right"}
            connection.execute(insert(tables.joins), [dict(row) | hint for row in hinted])
        forecasts.update(engine, NOW)
        yield engine


def found(engine: Engine) -> dict[str, tables.Row]:
    with engine.connect() as connection:
        return {row["job_name"]: row for row in read_forecasts(connection)}


def test_each_limit_is_forecast(store: Engine) -> None:
    """The day on which it is reached, and nothing for what is hinted, small, new or does not grow."""
    rows = found(store)
    assert {job: row["kind"] for job, row in rows.items()} == {
        "threshold": "broadcast_threshold",
        "limit": "broadcast_limit",
        "wide": "shuffle_partitions",
        "spills": "join_spill",
    }
    for job, row in rows.items():
        days = (row["reaches_at"] - row["started_at"]).total_seconds() / 86_400
        assert days == pytest.approx(20, abs=1), job
        assert row["earliest_at"] <= row["reaches_at"] <= row["latest_at"]
        assert row["growth_a_day"] == pytest.approx(0.02, abs=0.002) and row["days"] == RUNS


def test_they_are_computed_once_a_day_and_keep_when_they_were_first(store: Engine) -> None:
    """A second collector does nothing; the next day confirms them; what is not confirmed is shown no more."""
    first = found(store)["limit"]["first_forecast_at"]
    assert forecasts.update(store, NOW + timedelta(hours=1)) == 0
    with store.begin() as connection:
        connection.execute(text("UPDATE broadcast SET size_bytes = 1 WHERE application_id LIKE 'limit-%'"))
    assert forecasts.update(store, NOW + timedelta(days=1)) == 3
    rows = found(store)
    assert "limit" not in rows and rows["wide"]["first_forecast_at"] == first
