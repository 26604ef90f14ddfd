"""Overview: current problems, and what costs most."""

from __future__ import annotations

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import HIDDEN, KEY, RUNS, Column
from dashboards.links import to, to_history, to_job, to_query
from dashboards.page import job, page, postgresql, tags
from dashboards.parts import Drawn, Sql, dashboard, number, rows, series
from dashboards.sql import FOUND, HERE, JOB, PERIOD, TAG, TAGGED_APPLICATION, TITLE, ten_jobs
from dashboards.style import BAD, WARNING


def overview() -> dashboard.Dashboard:
    """The dashboard to start with."""
    return page(
        "overview",
        "Joinsight: Overview",
        "Is anything wrong, and what costs most? Every table links to a job, an execution, or its plan.",
        [postgresql(), job(), *tags()],
        [
            ("Is anything wrong?", [*WRONG, STATES, FINDINGS]),
            ("What costs most?", [AMOUNTS, TASK_TIME, JOBS, EXECUTIONS]),
        ],
        annotations=[failures(), plan_changes(is_on=False), deployments()],
        refresh="5m",
    )


def _count(what: str) -> Sql:
    return Sql(f"SELECT count(*) AS executions FROM execution {HERE} AND NOT is_outer AND {what}")


WRONG = [
    number(
        "Failed",
        "Executions that failed. The findings below and the table of executions lead to each; the Query dashboard"
        " shows the error.",
        _count("state = 'failed'"),
        levels={1: BAD},
    ),
    number(
        "Lost",
        "Executions whose driver lost contact: killed, out of memory, or cut off from the collector. Their costs"
        " up to then are kept. Check the driver's log.",
        _count("state = 'lost'"),
        levels={1: BAD},
    ),
    number(
        "Critical findings",
        "Findings that cost or will cost much. The table of findings shows what and where.",
        f"""
        SELECT count(*) AS findings
        FROM finding JOIN execution USING (started_at, application_id, attempt_id, execution_id)
        {HERE} AND severity = 'critical'
        """,
        levels={1: WARNING},
    ),
    number(
        "Regressed queries",
        "Queries that take longer than before this time range, by the rules of regressions.md. Open"
        " History and regressions to see which, since when and why.",
        f"""
        SELECT count(*) AS queries FROM joinsight_regressions(joinsight_window($__timeFrom()))
        WHERE subject = 'query' AND {JOB} AND {TAGGED_APPLICATION}
        """,
        levels={1: WARNING},
        links=[to("History and regressions", "history")],
    ),
    number(
        "Partial",
        "Executions that were not measured in full, so that their costs are lower bounds. The column"
        " execution.incomplete has the reasons; `joinsight doctor` says what to do.",
        _count("incomplete IS NOT NULL"),
        levels={1: WARNING},
    ),
    number(
        "Documents missing",
        "Documents that a listener created and that neither arrived nor were dropped: still in transit, or lost"
        " with a driver's disk. If it stays above 0 for an hour, run `joinsight doctor`.",
        f"""
        SELECT coalesce(sum(documents_missing), 0)::bigint AS documents
        FROM delivery JOIN application USING (application_id, attempt_id)
        WHERE $__timeFilter(last_heard_at) AND {JOB} AND {TAG}
        """,
        levels={1: WARNING},
    ),
]

STATES = series(
    "Executions by state",
    "SQL executions started in each interval, by final state. Red is failed, dark red is lost. In a gap nothing"
    " ran, or nothing was delivered: compare with the Collector dashboard.",
    f"""
    SELECT {PERIOD}, state AS metric, count(*) AS executions
    FROM execution {HERE} AND NOT is_outer
    GROUP BY time, metric ORDER BY time, metric
    """,
    "short",
    Drawn(named=("succeeded", "failed", "cancelled", "lost", "running")),
    span=8,
    height=9,
)

FINDINGS = rows(
    "Findings",
    "Findings over all runs of a query, most severe first, one row for each kind, query and operator; the link"
    " opens the latest execution with it. Found is the number of its runs with the finding. At stake is how long"
    " they waited for what it is about; time and bytes are its impact; all are sums over the time range."
    " findings.md explains each kind and what to do.",
    f"""
    SELECT severity, finding, job_name, executions, runs, first_seen_at, wall_ms, impact_ms,
        impact_bytes, title AS latest, application_id, attempt_id, execution_id
    FROM {FOUND}
    ORDER BY array_position(ARRAY['critical', 'warning', 'info'], severity),
        wall_ms DESC NULLS LAST, greatest(impact_ms, impact_bytes / 100000) DESC NULLS LAST, started_at DESC,
        finding
    LIMIT 50
    """,
    {
        "severity": Column("Severity", coloured="severities", width=80),
        "finding": Column("Finding", width=170),
        "job_name": Column("Job", links=[to_job("overview", "Only this job")], width=190),
        "executions": Column("Found", "short", width=60),
        "runs": RUNS,
        "first_seen_at": Column("Since", "dateTimeAsIso", width=165),
        "wall_ms": Column("At stake", "ms", width=90),
        "impact_ms": Column("Time", "ms", width=90),
        "impact_bytes": Column("Bytes", "bytes", width=90),
        "latest": Column("Latest", links=[to_query()]),
        **KEY,
    },
    span=16,
)

AMOUNTS = series(
    "Bytes",
    "Bytes that executions shuffled, broadcast, spilled to disk and read by tasks, by when they started. To"
    " save, look for much more shuffled than read, or anything spilled: see Shuffles.",
    f"""
    SELECT {PERIOD},
        sum(shuffle_write_bytes)::bigint AS "shuffle written", sum(broadcast_bytes)::bigint AS broadcast,
        sum(disk_spilled_bytes)::bigint AS "spilled to disk",
        sum(input_bytes)::bigint AS "read by tasks"
    FROM execution {HERE} AND NOT is_outer
    GROUP BY time ORDER BY time
    """,
    "bytes",
    Drawn(named=("shuffle written", "broadcast", "spilled to disk", "read by tasks"), stacked=False),
)

TASK_TIME = series(
    "Task time of the most costly jobs",
    "Run time of all tasks, summed, of the ten jobs with the most of it; by when the executions started. This is"
    " what you pay a cluster for. If a job grows, see History and regressions.",
    ten_jobs("execution", "sum(task_time_ms)::bigint"),
    "ms",
)

JOBS = rows(
    "Jobs",
    "What each job cost in the time range, the most task time first. The links limit this or another dashboard to"
    " the job.",
    f"""
    SELECT job_name, count(*) AS executions, count(*) FILTER (WHERE state IN ('failed', 'lost')) AS failed,
        sum(task_time_ms)::bigint AS task_time_ms, sum(shuffle_write_bytes)::bigint AS shuffle_bytes,
        sum(broadcast_bytes)::bigint AS broadcast_bytes, sum(disk_spilled_bytes)::bigint AS spilled_bytes,
        sum(input_bytes)::bigint AS input_bytes, max(started_at) AS last_run
    FROM execution {HERE} AND NOT is_outer
    GROUP BY job_name ORDER BY task_time_ms DESC NULLS LAST LIMIT 100
    """,
    {
        "job_name": Column(
            "Job",
            links=[
                to_job("overview", "Only this job"),
                to_job("broadcasts", "Its broadcasts"),
                to_job("shuffles", "Its shuffles"),
                to_job("joins", "Its joins"),
                to_job("history", "Its history"),
            ],
        ),
        "executions": Column("Executions", "short", width=95),
        "failed": Column("Failed or lost", "short", width=105),
        "task_time_ms": Column("Task time", "ms", bar=True, width=190),
        "shuffle_bytes": Column("Shuffled", "bytes", width=100),
        "broadcast_bytes": Column("Broadcast", "bytes", width=100),
        "spilled_bytes": Column("Spilled", "bytes", width=100),
        "input_bytes": Column("Read by tasks", "bytes", width=110),
        "last_run": Column("Last run", "dateTimeAsIso", width=165),
    },
)

EXECUTIONS = rows(
    "Executions",
    "The executions with the most task time. The link opens the execution: its plan, the cost of its"
    " operators, its findings.",
    f"""
    SELECT started_at, job_name, {TITLE} AS title, called_from, state, duration_ms, task_time_ms,
        shuffle_write_bytes, broadcast_bytes, disk_spilled_bytes, query_shape,
        application_id, attempt_id, execution_id
    FROM execution {HERE} AND NOT is_outer
    ORDER BY task_time_ms DESC NULLS LAST LIMIT 50
    """,
    {
        "started_at": Column("Started", "dateTimeAsIso", width=165),
        "job_name": Column("Job", links=[to_job("overview", "Only this job")], width=200),
        "title": Column("Execution", links=[to_query(), to_history()]),
        "called_from": Column("Called from", width=150),
        "state": Column("State", coloured="states", width=90),
        "duration_ms": Column("Duration", "ms", width=90),
        "task_time_ms": Column("Task time", "ms", bar=True, width=170),
        "shuffle_write_bytes": Column("Shuffled", "bytes", width=95),
        "broadcast_bytes": Column("Broadcast", "bytes", width=95),
        "disk_spilled_bytes": Column("Spilled", "bytes", width=95),
        "query_shape": HIDDEN,
        **KEY,
    },
)
