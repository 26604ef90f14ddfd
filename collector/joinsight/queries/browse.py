"""The queries of the pages that lead through a history: its queries, its jobs with what they cost, its streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import compress, pairwise
from statistics import median
from typing import Any

from sqlalchemy import Connection, select, text, true, tuple_

from joinsight.queries.filters import Filters
from joinsight.queries.reading import complete_titles, read_rows
from joinsight.queries.trends import WINDOW
from joinsight.queries.users import looked_up
from joinsight.tables import EXECUTION_KEY, Row, execution, is_part

_STREAM = ("streaming_query_id", "streaming_run_id")
_BATCHES = 40
"""Executions of a stream's last micro-batches that are read: an outer and an inner one each."""
_GROUP = text(
    "job_name, query_shape, count(*) AS executions, sum(duration_ms) AS duration_ms,"
    " nullif(sum(task_time_ms), 0) AS task_time_ms, count(*) FILTER (WHERE state IN ('failed', 'lost')) AS failed,"
    " count(DISTINCT plan_fingerprint) AS plans, max(started_at) AS last_at"
)
_BY_TIME = text("sum(duration_ms) DESC NULLS LAST, job_name, query_shape")
_USERS = text(
    "SELECT listed.job AS job_name, its.tags, coalesce(nullif(its.user_name, ''), a.spark_user) AS user_name"
    " FROM unnest(CAST(:jobs AS text[])) AS listed(job)"
    " CROSS JOIN LATERAL (SELECT e.tags, e.user_name, e.application_id, e.attempt_id FROM execution AS e"
    " WHERE e.job_name = listed.job AND e.started_at >= :since ORDER BY e.started_at DESC LIMIT 1) AS its"
    " LEFT JOIN application AS a ON a.application_id = its.application_id AND a.attempt_id = its.attempt_id"
)
_NEWEST = text("SELECT max(started_at) FROM execution WHERE NOT is_outer")
_LAST_BATCHES = text(
    "SELECT e.started_at, e.duration_ms, e.streaming_batch_id, e.is_outer, e.plan_fingerprint, e.state,"
    " e.root_execution_id = e.execution_id AS is_batch, (SELECT sum(s.input_rows)::bigint FROM stage AS s"
    " WHERE s.started_at = e.started_at AND s.application_id = e.application_id AND s.attempt_id = e.attempt_id"
    " AND s.execution_id = e.execution_id) AS input_rows"
    " FROM execution AS e WHERE e.application_id = :application_id AND e.attempt_id = :attempt_id"
    " AND e.streaming_query_id = :streaming_query_id"
    " AND e.streaming_run_id IS NOT DISTINCT FROM CAST(:streaming_run_id AS text) AND e.started_at >= :since"
    f" ORDER BY e.execution_id DESC LIMIT {_BATCHES}"
)


def read_window(connection: Connection, now: datetime) -> tuple[datetime, datetime | None]:
    """What the pages look back on: the last days, or, where nothing ran in them, those up to the newest execution.

    The end is None where it is now.
    """
    newest = connection.scalar(_NEWEST)
    if newest is None or newest >= now - WINDOW:
        return now - WINDOW, None
    return newest - WINDOW, newest


def read_query_groups(connection: Connection, since: datetime, filters: Filters) -> list[Row]:
    """The queries that ran since then by these filters, those that took most time first."""
    c = execution.c
    ran = select(_GROUP).where(c.started_at >= since, ~c.is_outer, c.query_shape.is_not(None), ~is_part(execution))
    ran = ran.where(*looked_up(connection, filters).of_execution(execution)).group_by(c.job_name, c.query_shape)
    groups = ran.order_by(_BY_TIME).limit(filters.limit).subquery("ran")
    e = execution.alias("e")
    key = [e.c[name] for name in EXECUTION_KEY]
    last = select(*key, e.c.title, e.c.called_from, e.c.duration_ms.label("last_ms"), e.c.state).where(
        text("e.query_shape = ran.query_shape AND e.started_at = ran.last_at AND e.job_name = ran.job_name")
    )
    its = last.limit(1).correlate(groups).lateral("its")
    statement = select(text("ran.*, its.*")).select_from(groups.join(its, true()))
    statement = statement.order_by(text("ran.duration_ms DESC NULLS LAST, ran.job_name, ran.query_shape"))
    rows = read_rows(connection, statement)
    complete_titles(connection, rows)
    return rows


def matching(connection: Connection, rows: Sequence[Row], filters: Filters) -> list[Row]:
    """The rows whose execution matches the filters; each has its key, or NULL in it, and then matches none."""
    conditions = looked_up(connection, filters).of_execution(execution)
    if not conditions or not rows:
        return list(rows)
    keys = [tuple(row[name] for name in EXECUTION_KEY) for row in rows]
    columns = tuple_(*(execution.c[name] for name in EXECUTION_KEY))
    found = select(*(execution.c[name] for name in EXECUTION_KEY)).where(
        columns.in_([key for key in keys if None not in key]), *conditions
    )
    matched = {tuple(row) for row in connection.execute(found)}
    return [row for key, row in zip(keys, rows, strict=True) if key in matched]


def read_owners(connection: Connection, jobs: Sequence[str], since: datetime) -> dict[str, Row]:
    """Team and user of each job, by its last execution: ``tags`` and ``user_name``."""
    values = {"jobs": list(jobs), "since": since}
    return {row["job_name"]: dict(row) for row in connection.execute(_USERS, values).mappings()}


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream's last micro-batches ran."""

    batches: int
    interval_ms: float | None
    """Median from the start of one to that of the next: at least the trigger's interval; None for a single one."""
    duration_ms: float | None
    """Their median."""
    rows_in: float | None
    """Rows a second that arrived, from the start of the first to that of the last; None: unknown."""
    rows_processed: float | None
    """Rows for each second that they took."""
    plan_changed_at: int | None
    """The latest micro-batch whose plan was not that of the one before it."""

    @property
    def load(self) -> float | None:
        """How much of the interval they take: from 1 on, micro-batches start late."""
        return self.duration_ms / self.interval_ms if self.interval_ms and self.duration_ms is not None else None


def read_pace(connection: Connection, stream: Row, since: datetime) -> Pace:
    """The pace of a row of `reading.read_streams`."""
    key = {name: stream[name] for name in ("application_id", "attempt_id", *_STREAM)}
    found = connection.execute(_LAST_BATCHES, {**key, "since": since}).mappings()
    rows = [dict(row) for row in found][::-1]
    batches = [row for row in rows if row["is_batch"]]
    starts = [row["started_at"] for row in batches]
    gaps = [(b - a) / timedelta(milliseconds=1) for a, b in pairwise(starts)]
    is_done = [row["duration_ms"] is not None and row["state"] == "succeeded" for row in batches]
    took = [row["duration_ms"] for row in compress(batches, is_done)]
    read = _rows_of(rows, batches)  # each what arrived since the start of the one before
    done = list(compress(read, is_done))
    span_ms, busy_ms = sum(gaps), sum(took)
    return Pace(
        len(batches),
        median(gaps) if gaps else None,
        median(took) if took else None,
        1000 * sum(read[1:]) / span_ms if span_ms and any(read) else None,
        1000 * sum(done) / busy_ms if busy_ms and any(done) else None,
        _plan_changed([row for row in rows if not row["is_outer"]]),
    )


def _rows_of(rows: Sequence[Row], batches: Sequence[Row]) -> list[int]:
    """The rows that each micro-batch read."""
    read: dict[Any, int] = {row["streaming_batch_id"]: 0 for row in batches}
    for row in rows:
        if row["streaming_batch_id"] in read:
            read[row["streaming_batch_id"]] += row["input_rows"] or 0
    return list(read.values())


def _plan_changed(work: Sequence[Row]) -> int | None:
    at = None
    for before, after in pairwise(work):
        plans = before["plan_fingerprint"], after["plan_fingerprint"]
        if None not in plans and plans[0] != plans[1] and before["streaming_batch_id"] != after["streaming_batch_id"]:
            at = after["streaming_batch_id"]
    return at
