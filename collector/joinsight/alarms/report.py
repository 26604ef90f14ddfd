"""What `joinsight report` writes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection

from joinsight.alarms.causes import first_causes
from joinsight.base.units import duration_text, percent_text, ratio_text
from joinsight.present import forecasts, regressions
from joinsight.present.report import Report, Section
from joinsight.present.values import short_key, when
from joinsight.queries.regressions import read_forecasts, read_regressions
from joinsight.queries.report import read_costly, read_faster
from joinsight.tables import Row


def make_report(connection: Connection, since: datetime, now: datetime, *, job: str | None, limit: int) -> Report:
    """The report about what ran since then, of one job or all."""
    return Report(
        f"Spark queries of {job}" if job else "Spark queries",
        f"From {when(since)} to {when(now)} UTC, by Joinsight.",
        [
            _slower(connection, since, job, limit),
            _faster(connection, since, job, limit),
            _costly(connection, since, job, limit),
            _will_break(connection, job, limit),
        ],
    )


def _slower(connection: Connection, since: datetime, job: str | None, limit: int) -> Section:
    found = [
        row for row in read_regressions(connection, since, {}, job=job, limit=10 * limit) if row["subject"] == "query"
    ][:limit]
    rows = [
        (
            row["job_name"],
            _title(row),
            regressions.measure(row),
            f"{regressions.value(row, 'baseline')} → {regressions.value(row, 'current')}",
            ratio_text(row["factor"]),
            when(row["since"]),
            row["level"],
            _why(connection, row),
            duration_text(row["cost_ms"]) if row["cost_ms"] else "",
        )
        for row in found
    ]
    header = ("job", "query", "what", "from → to", "factor", "since", "level", "why", "cost")
    note = "" if rows else "No query became slower."
    return Section("What became slower, and why", header, rows, frozenset({4, 8}), note)


def _why(connection: Connection, row: Row) -> str:
    causes = [asdict(each) for each in first_causes(connection, row)]
    return regressions.causes_text(causes) or regressions.KINDS[row["kind"]]


def _faster(connection: Connection, since: datetime, job: str | None, limit: int) -> Section:
    rows = [
        (
            row["job_name"],
            _title(row),
            f"{duration_text(round(row['before_ms']))} → {duration_text(round(row['median_ms']))}",
            ratio_text(row["factor"]),
            f"{row['comparable']:,}",
            duration_text(round((row["before_ms"] - row["median_ms"]) * row["comparable"])),
        )
        for row in read_faster(connection, since, job, limit)
    ]
    header = ("job", "query", "from → to", "factor", "runs", "saved")
    note = "" if rows else "No query became faster."
    return Section("What became faster", header, rows, frozenset({3, 4, 5}), note)


def _costly(connection: Connection, since: datetime, job: str | None, limit: int) -> Section:
    rows = [
        (
            row["job_name"],
            _title(row),
            f"{row['runs']:,}",
            f"{row['failed']:,}" if row["failed"] else "",
            duration_text(row["duration_ms"] or 0),
            duration_text(row["task_time_ms"] or 0),
            percent_text(float(row["share"] or 0)),
        )
        for row in read_costly(connection, since, job, limit)
    ]
    header = ("job", "query", "runs", "failed", "duration", "task time", "share")
    note = "Share: of the task time of all queries." if rows else "No queries ran."
    return Section("What costs most", header, rows, frozenset(range(2, 7)), note)


def _will_break(connection: Connection, job: str | None, limit: int) -> Section:
    rows = [
        (
            row["job_name"],
            _title(row),
            forecasts.WHAT[row["kind"]],
            f"{forecasts.value(row, 'current')} of {forecasts.value(row, 'limit_value')}",
            f"{row['growth_a_day']:.1%}",
            f"{row['reaches_at']:%Y-%m-%d}",
            forecasts.interval(row),
        )
        for row in read_forecasts(connection, job=job, limit=limit)
    ]
    header = ("job", "query", "what happens", "now", "growth a day", "on", "between")
    note = "" if rows else "No operator is forecast to reach a limit."
    return Section("What will break", header, rows, frozenset({3, 4}), note)


def _title(row: Row) -> str:
    return row["title"] or short_key(row["query_shape"])
