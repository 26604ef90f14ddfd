"""`joinsight_finding_groups` on a real PostgreSQL counts findings over the runs of a query."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text

from joinsight import tables
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_finding_groups
from joinsight.store import partitions
from joinsight.tables import Row

END = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
SINCE = END - timedelta(days=30)
DAY = timedelta(days=1)
SPILL: Row = {"finding": "spill", "node_id": 3, "severity": "warning", "operator_key": "a" * 16, "impact_bytes": 10}


def run(engine: Engine, job: str, days_ago: float, *findings: Row, shape: str | None = "f" * 16, **own: Any) -> None:
    """A run of a query with these findings."""
    started_at = END - days_ago * DAY
    key = {"started_at": started_at, "application_id": f"{job}-{days_ago:g}", "attempt_id": "", "execution_id": 7}
    row = {
        **{"root_execution_id": 7, "job_name": job, "query_shape": shape, "state": "succeeded", "call_site": ""},
        **{
            "title": job,
            "description": f"{job}, {days_ago:g} days ago",
            "is_sampled": False,
            "is_outer": False,
            "is_adaptive": True,
            "plan_versions": 1,
            "duration_ms": 100,
            "origin": "live",
        },
        **{"listener_id": "", "sequence": 1, "updated_at": END},
        **own,
    }
    texts = {"title": f"{days_ago:g} days ago", "evidence": {"days": days_ago}, "advice": "Mind it."}
    partial = {"wall_is_partial": False}
    partitions.create(engine, {partitions.month_of(started_at)})
    with engine.begin() as connection:
        connection.execute(insert(tables.execution).values(**key, **row))
        for finding in findings:
            connection.execute(insert(tables.finding).values(**{**key, **texts, **partial, **finding}))


def groups(engine: Engine, job: str, sort: str = "severity", **filters: Any) -> list[Row]:
    """The groups of a job in the days before the end."""
    with engine.connect() as connection:
        return read_finding_groups(connection, Filters(job=job, **{"since": SINCE, **filters}), sort)


def test_a_finding_of_many_runs_is_one_row(engine: Engine) -> None:
    """Since when, how often, at what cost; the texts are those of the newest, and runs without it count too."""
    for day in (31, 5, 4, 3):
        run(engine, "nightly", day, *[{**SPILL, "impact_ms": day, "wall_ms": 10 * day}] * (day != 5))
    run(engine, "nightly", 2, {**SPILL, "severity": "critical", "impact_ms": None, "wall_ms": None})
    run(engine, "nightly", 1)
    run(engine, "nightly", 0.5, state="lost")
    run(engine, "nightly", 0.2, state="running")
    run(engine, "nightly", 0.1, shape="0" * 16)
    [row] = groups(engine, "nightly")
    assert row == {
        "job_name": "nightly",
        "query_shape": "f" * 16,
        "query_title": "nightly",
        "description": "nightly, 2 days ago",
        "finding": "spill",
        "operator_key": "a" * 16,
        "severity": "critical",
        "title": "2 days ago",
        "advice": "Mind it.",
        "evidence": {"days": 2},
        "executions": 3,
        "runs": 5,
        "first_seen_at": END - 4 * DAY,
        "first_run_at": END - 5 * DAY,
        "last_run_at": END - 1 * DAY,
        "wall_ms": 70,
        "wall_is_partial": True,
        "duration_ms": 200,
        "impact_ms": 7,
        "impact_bytes": 30,
        "started_at": END - 2 * DAY,
        "application_id": "nightly-2",
        "attempt_id": "",
        "execution_id": 7,
        "node_id": 3,
    }
    assert groups(engine, "nightly", until=END - 2 * DAY)[0]["executions"] == 2


def test_jobs_queries_kinds_and_operators_are_kept_apart(engine: Engine) -> None:
    """Two nodes with one operator, or with none, are one group; the costlier one is shown."""
    unnamed = {**SPILL, "operator_key": None}
    other = {**SPILL, "operator_key": "b" * 16, "node_id": 5}
    cheap, costly = ({**unnamed, "node_id": node, "impact_bytes": node * 1_000_000} for node in (8, 9))
    for job in ("apart", "apart too"):
        run(engine, job, 2, SPILL, {**SPILL, "finding": "skewed-shuffle"}, other, cheap, costly)
        run(engine, job, 1, SPILL, shape="0" * 16)
        run(engine, job, 0.5, SPILL, shape=None, state="failed")
    rows = groups(engine, "apart")
    assert len(rows) == 6
    assert all((row["executions"], row["runs"]) == (1, 1) for row in rows)
    [both] = [row for row in rows if row["operator_key"] is None]
    assert (both["node_id"], both["impact_bytes"]) == (9, 17_000_000)
    assert [row["node_id"] for row in groups(engine, "apart", operator="bbbb")] == [5]
    assert len(groups(engine, "apart", finding="spill")) == 5
    assert len(groups(engine, "apart", shape="0000")) == 1
    assert groups(engine, "apart", severity="critical") == []


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("severity", ["worst", "awaited", "costly", "new", "mild"]),
        ("cost", ["mild", "awaited", "worst", "costly", "new"]),
        ("impact", ["costly", "mild", "new", "worst", "awaited"]),
        ("recent", ["new", "mild", "worst", "costly", "awaited"]),
    ],
)
def test_groups_are_sorted(engine: Engine, sort: str, expected: list[str]) -> None:
    """By severity, within one by wall time, then by impact; 100 MB count as a second; the unknown comes last."""
    job = f"sorted by {sort}"
    for days, name, severity, wall_ms, impact_ms, impact_bytes in (
        (5, "awaited", "warning", 300, None, None),
        (4, "costly", "warning", None, 2_000, 1),
        (3, "worst", "critical", None, None, None),
        (2, "mild", "info", 500, None, 100_000_000),
        (1, "new", "warning", None, 999, None),
    ):
        cost = {"severity": severity, "wall_ms": wall_ms, "impact_ms": impact_ms, "impact_bytes": impact_bytes}
        run(engine, job, days, {**SPILL, "finding": name, **cost})
    assert [row["finding"] for row in groups(engine, job, sort)] == expected
    assert [row["finding"] for row in groups(engine, job, sort, limit=2)] == expected[:2]


def test_the_view_has_the_last_days(engine: Engine) -> None:
    """30 days until now, as the commands have without --since."""
    now = datetime.now(timezone.utc)
    for days_ago in (29, 31):
        run(engine, "viewed", (END - now).total_seconds() / 86_400 + days_ago, SPILL)
    with engine.connect() as connection:
        viewed = connection.execute(text("SELECT * FROM v_finding_groups WHERE job_name = 'viewed'")).mappings().all()
        assert [dict(row) for row in viewed] == read_finding_groups(connection, Filters(job="viewed"))
    assert [row["executions"] for row in viewed] == [1]
