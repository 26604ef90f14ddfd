"""The queries of the pages about what happened over time: to jobs, and to one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select, text

from joinsight.queries.filters import Filters
from joinsight.queries.reading import complete_titles
from joinsight.queries.users import looked_up
from joinsight.tables import EXECUTION_KEY, IS_PART, Row, execution

MAX_JOBS = 1_000
"""The most costly ones; the page offers them to choose from."""
_ALL = Filters(limit=MAX_JOBS)
_RECENT_FAILURES = 500
_EXECUTIONS_OF_A_JOB = 200

_QUERY_MS = f"sum(duration_ms) FILTER (WHERE NOT ({IS_PART}))"
_JOB = text(
    f"job_name, count(*) FILTER (WHERE NOT ({IS_PART})) AS executions, {_QUERY_MS} AS duration_ms,"
    " sum(task_time_ms) AS task_time_ms,"
    " sum(shuffle_write_bytes) AS shuffle_write_bytes,"
    f" count(*) FILTER (WHERE state IN ('failed', 'lost') AND NOT ({IS_PART})) AS failed,"
    " max(started_at) AS last_at"
)
_LAST_OF_JOBS = text(
    "SELECT job_name, application_id, attempt_id, started_at, shuffle_write_bytes,"
    f" CASE WHEN NOT ({IS_PART}) THEN duration_ms END AS duration_ms"
    " FROM unnest(CAST(:jobs AS text[])) AS listed(job) CROSS JOIN LATERAL ("
    "SELECT * FROM execution AS e WHERE e.job_name = listed.job AND e.started_at >= :since AND NOT e.is_outer"
    f" ORDER BY e.started_at DESC LIMIT {_EXECUTIONS_OF_A_JOB}) AS its"
)
_FAILED = text(
    "SELECT job_name, query_shape, count(*) AS executions, max(started_at) AS last_at,"
    " (array_agg(title ORDER BY started_at DESC))[1] AS title,"
    " (array_agg(called_from ORDER BY started_at DESC))[1] AS called_from,"
    " (array_agg(state ORDER BY started_at DESC))[1] AS state,"
    " (array_agg(error ORDER BY started_at DESC))[1] AS error,"
    " (array_agg(started_at ORDER BY started_at DESC))[1] AS started_at,"
    " (array_agg(application_id ORDER BY started_at DESC))[1] AS application_id,"
    " (array_agg(attempt_id ORDER BY started_at DESC))[1] AS attempt_id,"
    " (array_agg(execution_id ORDER BY started_at DESC))[1] AS execution_id"
    " FROM (SELECT * FROM execution WHERE state <> 'succeeded' AND state IN ('failed', 'lost') AND NOT is_outer"
    f" AND NOT ({IS_PART})"
    " AND started_at >= :since AND (CAST(:job AS text) IS NULL OR job_name = :job)"
    f" ORDER BY started_at DESC LIMIT {_RECENT_FAILURES}) AS failed"
    " GROUP BY job_name, query_shape, CASE WHEN query_shape IS NULL THEN title END"
    " ORDER BY max(started_at) DESC LIMIT :limit"
)


@dataclass(frozen=True, slots=True)
class Trend:
    """A job and its last runs: an application is a run; of a job that is a single one, a day is."""

    job: Row
    duration_ms: Sequence[int]
    """By run, the oldest first: the time of its queries, added up."""
    shuffle_write_bytes: Sequence[int]


def read_jobs(connection: Connection, since: datetime, filters: Filters = _ALL) -> list[Row]:
    """The jobs that ran since then by these filters, those with the longest queries first."""
    c = execution.c
    jobs = (
        select(_JOB)
        .where(c.started_at >= since, ~c.is_outer, *looked_up(connection, filters).of_execution(execution))
        .group_by(c.job_name)
    )
    jobs = jobs.order_by(text(f"{_QUERY_MS} DESC NULLS LAST, job_name")).limit(filters.limit)
    return [dict(row) for row in connection.execute(jobs).mappings()]


def read_trends(connection: Connection, jobs: Sequence[Row], since: datetime) -> list[Trend]:
    """The last runs of these jobs, none before `since`."""
    rows: dict[str, list[Row]] = {job["job_name"]: [] for job in jobs}
    for row in connection.execute(_LAST_OF_JOBS, {"jobs": list(rows), "since": since}).mappings():
        rows[row["job_name"]].append(dict(row))
    return [_trend(job, rows[job["job_name"]]) for job in jobs]


def _trend(job: Row, newest_first: Sequence[Row]) -> Trend:
    runs: dict[Any, list[int]] = {}
    applications = {(row["application_id"], row["attempt_id"]) for row in newest_first}
    if len(newest_first) == _EXECUTIONS_OF_A_JOB and len(applications) > 1:  # the oldest run is not all there
        last = newest_first[-1]
        newest_first = [row for row in newest_first if row["application_id"] != last["application_id"]]
    for row in reversed(newest_first):
        run = (row["application_id"], row["attempt_id"]) if len(applications) > 1 else row["started_at"].date()
        total = runs.setdefault(run, [0, 0])
        total[0] += row["duration_ms"] or 0
        total[1] += row["shuffle_write_bytes"] or 0
    return Trend(job, [run[0] for run in runs.values()], [run[1] for run in runs.values()])


def read_failures(connection: Connection, since: datetime, limit: int, job: str | None = None) -> list[Row]:
    """Queries that failed or were lost since then: how often, and the last one of each; the latest first."""
    values = {"since": since, "limit": limit, "job": job}
    rows = [dict(row) for row in connection.execute(_FAILED, values).mappings()]
    complete_titles(connection, rows)
    return rows


_JOBS_OF_A_QUERY = text(
    "SELECT job_name, count(*) AS executions, max(started_at) AS last_at FROM ("
    "SELECT job_name, started_at FROM execution WHERE query_shape = :shape ORDER BY started_at DESC LIMIT 10000"
    ") AS run GROUP BY job_name ORDER BY max(started_at) DESC, job_name"
)
_RUNS = text(
    "SELECT run.*, its.spark_version, its.configuration AS application_configuration FROM ("
    "SELECT * FROM execution WHERE query_shape = :shape AND job_name = :job AND started_at <= :until"
    " ORDER BY started_at DESC, application_id DESC, execution_id DESC LIMIT :limit"
    ") AS run LEFT JOIN LATERAL ("
    "SELECT * FROM application AS a WHERE a.application_id = run.application_id AND a.attempt_id = run.attempt_id"
    ") AS its ON true ORDER BY run.started_at DESC, run.application_id DESC, run.execution_id DESC"
)
_USUAL = text("SELECT * FROM joinsight_usual(:job, :shape, :origin, joinsight_window(:since))")


def read_jobs_of_query(connection: Connection, shape: str) -> list[Row]:
    """The jobs that ran a query, by its key: the last one first."""
    return [dict(row) for row in connection.execute(_JOBS_OF_A_QUERY, {"shape": shape}).mappings()]


def read_runs(connection: Connection, shape: str, job: str, until: datetime, limit: int) -> list[Row]:
    """The last runs of a query in a job until then, the newest first; each with its Spark version and settings."""
    values = {"shape": shape, "job": job, "until": until, "limit": limit}
    rows = [dict(row) for row in connection.execute(_RUNS, values).mappings()]
    complete_titles(connection, rows)
    return rows


def read_usual(connection: Connection, run: Row, since: datetime) -> Row | None:
    """The usual duration of a run's query before `since`, as regressions take it; None without earlier runs."""
    values = {"job": run["job_name"], "shape": run["query_shape"], "origin": run["origin"], "since": since}
    usual = connection.execute(_USUAL, values).mappings().first()
    return None if usual is None or not usual["runs"] else dict(usual)


_LATEST = 2_000
"""Executions among which a query's last two runs are looked for, so that a long history is not read."""
_SLOWER_THAN_LAST = text(
    "WITH run AS (SELECT *, row_number() OVER (PARTITION BY job_name, query_shape, origin"
    " ORDER BY started_at DESC, application_id DESC, execution_id DESC) AS place"
    " FROM (SELECT * FROM execution WHERE started_at >= :since - interval '90 days' AND state = 'succeeded'"
    " AND incomplete IS NULL AND query_shape IS NOT NULL AND streaming_batch_id IS NULL AND NOT is_outer"
    f" AND NOT ({IS_PART})"
    " AND (CAST(:job AS text) IS NULL OR job_name = :job) AND (CAST(:shape AS text) IS NULL OR query_shape = :shape)"
    f" ORDER BY started_at DESC LIMIT {_LATEST}) AS latest)"
    " SELECT now.*, now.duration_ms::float8 / before.duration_ms AS factor, before.duration_ms AS baseline,"
    " before.started_at AS baseline_started_at, before.application_id AS baseline_application_id,"
    " before.attempt_id AS baseline_attempt_id, before.execution_id AS baseline_execution_id"
    " FROM run AS now JOIN run AS before USING (job_name, query_shape, origin)"
    " WHERE now.place = 1 AND now.started_at >= :since AND before.place = 2 AND before.duration_ms > 0"
    " AND now.duration_ms >= :factor * before.duration_ms AND now.duration_ms - before.duration_ms >= :least_ms"
    " ORDER BY now.duration_ms - before.duration_ms DESC LIMIT :limit"
)
_WORK = text(
    "SELECT e.plan_fingerprint, e.input_bytes, e.shuffle_write_bytes, (SELECT"
    " sum(s.cpu_time_ms_median * s.succeeded_tasks) FROM stage AS s WHERE s.started_at = e.started_at"
    " AND s.application_id = e.application_id AND s.attempt_id = e.attempt_id AND s.execution_id = e.execution_id"
    ") AS cpu_time_ms FROM execution AS e WHERE e.started_at = :started_at AND e.application_id = :application_id"
    " AND e.attempt_id = :attempt_id AND e.execution_id = :execution_id"
)
_SLOWER_FACTOR, _SLOWER_MS = 1.3, 1_000
"""What counts as slower than the last run: as in `joinsight_regressions`."""


def read_slower_than_last(
    connection: Connection, since: datetime, job: str | None = None, shape: str | None = None, limit: int = 20
) -> list[Row]:
    """Queries whose last run, since then, was slower than the run before it, by 30 % and a second; the most first.

    Each row is the last run, with ``baseline``, the milliseconds of the run before, ``factor``, the key of that run in
    columns ``baseline_*`` as in `read_regressions`, and ``work``, that of `read_work`.
    """
    values = {"since": since, "job": job, "shape": shape, "limit": limit}
    given = {**values, "factor": _SLOWER_FACTOR, "least_ms": _SLOWER_MS}
    rows = [dict(row) for row in connection.execute(_SLOWER_THAN_LAST, given).mappings()]
    return [{**row, "work": read_work(connection, row)} for row in rows]


def read_work(connection: Connection, row: Row) -> tuple[Row, Row] | None:
    """What a run before and the run of this row did: plan, bytes read and shuffled, and the CPU time of tasks, of the
    median of each stage; None if one is no longer stored. The keys are those of `read_regressions`.
    """
    found = []
    for prefix in ("baseline_", ""):
        key = {name: row[prefix + name] for name in EXECUTION_KEY}
        did = connection.execute(_WORK, key).mappings().first()
        if did is None:
            return None
        found.append(dict(did))
    return found[0], found[1]


WINDOW = timedelta(days=7)
"""What the home page looks back on, and what regressions take for the present."""
