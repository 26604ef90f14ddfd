"""Broadcasts: what they cost the driver, which grow, which are near a limit, which fail."""

from __future__ import annotations

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import HIDDEN, KEY, LAST, RUNS, Column, of_job, of_operator
from dashboards.limits import NEAR, NEAR_MAX_BYTES, in_words
from dashboards.links import to_query
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Sql, dashboard, number, rows, series
from dashboards.sql import FIRST_THIRD, LAST_THIRD, LATEST, OF_OPERATORS, PERIOD, TITLE, first_fifty, ten_jobs
from dashboards.style import BAD, WARNING

OPERATOR = of_operator("broadcast", "broadcasts")
JOB = of_job("broadcasts")


def broadcasts() -> dashboard.Dashboard:
    """A row of numbers, two charts, and the queries of docs/sql.md on broadcasts."""
    return page(
        "broadcasts",
        "Joinsight: Broadcasts",
        "What broadcasts cost the driver, and which grow, are near a limit, or fail.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("operator", "Operator", "An operator_key; links fill it. Empty: all."),
        ],
        [("All broadcasts", [*NUMBERS, PHASES, SIZES]), ("Which broadcasts?", [BUSY, NEAR_PANEL, GROWN, FAILED])],
        annotations=[failures(), plan_changes(is_on=False), deployments()],
    )


def _of(what: str, condition: str = "") -> Sql:
    return Sql(f"SELECT {what} FROM v_broadcasts {OF_OPERATORS} {condition}")


NUMBERS = [
    number(
        "Failed",
        "Broadcasts that were not ready before their execution failed: too large, too slow"
        " (spark.sql.broadcastTimeout) or out of memory. The table below has the errors.",
        _of("count(*) AS broadcasts", "AND outcome = 'failed'"),
        levels={1: BAD},
        span=6,
    ),
    number(
        "Driver time",
        "Time from when drivers requested the rows of broadcasts until they had sent them, summed: collect, build"
        " and send. While the driver collects, the tasks that produce the rows run or wait. If this is a large"
        " part of the executions' time, see the first table.",
        _of("sum(driver_ms)::bigint AS driver_ms"),
        "ms",
        span=6,
    ),
    number(
        "Largest",
        "The largest relation in a driver's memory. Spark refuses 8 GiB (spark.sql.maxBroadcastTableSize); the"
        " driver needs its size more than once, and each executor has it too."
        f" Red is {in_words('broadcast_near_share')} of 8 GiB.",
        _of("max(size_bytes) AS size_bytes"),
        "bytes",
        levels={NEAR_MAX_BYTES: BAD},
        span=6,
    ),
    number(
        "Near the threshold",
        f"Broadcasts that AQE chose with a shuffled size from {in_words('broadcast_near_share')} of the threshold"
        " on. When the data grows, they become sort-merge joins from one run to the next.",
        _of("count(DISTINCT operator_key) AS operators", f"AND {NEAR}"),
        levels={1: WARNING},
        span=6,
    ),
]

PHASES = series(
    "Driver time by phase",
    "The driver's time, by when the executions started. Collect includes the tasks that produce the rows: if it"
    " dominates, the operators below the broadcast are slow. Build and send are the driver alone: make the"
    " relation smaller or narrower.",
    f"""
    SELECT {PERIOD}, sum(collect_ms)::bigint AS collect, sum(build_ms)::bigint AS build,
        sum(broadcast_ms)::bigint AS send
    FROM v_broadcasts {OF_OPERATORS}
    GROUP BY time ORDER BY time
    """,
    "ms",
    Drawn(named=("collect", "build", "send")),
)

SIZES = series(
    "Largest broadcast of each job",
    "Size in the driver's memory, of the ten jobs with the largest. A rising line will reach a limit; a line"
    " that ends became another join, see Joins and AQE. Sizes jump by powers of two, as hash tables do. The"
    f" dashed line is {in_words('broadcast_near_share')} of 8 GiB, which Spark refuses.",
    ten_jobs("v_broadcasts", "max(size_bytes)", OF_OPERATORS, ranked_by="max"),
    "bytes",
    Drawn(bars=False, stacked=False, limit=NEAR_MAX_BYTES),
)

BUSY = rows(
    "Which broadcasts keep the driver busy?",
    "The same broadcast in all its runs, the most driver time first. Can it be smaller: fewer columns, a filter"
    " before it? Is it worth it: how large is the other side of the join? The last run leads to its plan.",
    first_fifty(
        f"""
        SELECT job_name, operator_key, count(*) AS runs, sum(driver_ms)::bigint AS driver_ms,
            max(driver_ms) AS slowest_ms, avg(collect_ms)::bigint AS collect_ms,
            avg(build_ms)::bigint AS build_ms, avg(broadcast_ms)::bigint AS send_ms,
            max(size_bytes) AS size_bytes, max(rows) AS rows, max(started_at) AS last_run
        FROM v_broadcasts {OF_OPERATORS} AND driver_ms IS NOT NULL
        GROUP BY job_name, operator_key
        """,
        "driver_ms DESC",
        of="v_broadcasts",
    ),
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "runs": RUNS,
        "driver_ms": Column("Driver time", "ms", bar=True),
        "slowest_ms": Column("Slowest", "ms", width=90),
        "collect_ms": Column("Collect, mean", "ms", width=110),
        "build_ms": Column("Build, mean", "ms", width=105),
        "send_ms": Column("Send, mean", "ms", width=105),
        "size_bytes": Column("Largest", "bytes", width=95),
        "rows": Column("Most rows", "short", width=95),
        **LAST,
    },
)

NEAR_PANEL = rows(
    "Which come near the threshold?",
    f"Broadcasts that AQE chose with a shuffled size from {in_words('broadcast_near_share')} of the threshold on."
    " Past 100 % they are sort-merge joins. Raise spark.sql.adaptive.autoBroadcastJoinThreshold, or make that"
    " side smaller. Broadcasts that were"
    " planned beforehand are not among them: Spark shows its estimate nowhere.",
    f"""
    SELECT job_name, operator_key, count(*) AS runs, max(threshold_share) AS nearest,
        max(shuffled_bytes) AS shuffled_bytes, max(threshold_bytes) AS threshold_bytes, {LATEST}
    FROM v_broadcasts {OF_OPERATORS} AND {NEAR}
    GROUP BY job_name, operator_key
    ORDER BY nearest DESC LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "runs": RUNS,
        "nearest": Column("Nearest", "percentunit", width=80),
        "shuffled_bytes": Column("Largest", "bytes", width=90),
        "threshold_bytes": Column("Threshold", "bytes", width=90),
        **LAST,
    },
    height=8,
)

GROWN = rows(
    "Which have grown?",
    "Mean rows of the last third of the time range beside those of its first third. Choose a month or more. What"
    " doubles in a quarter has a date at which it fails or becomes another join.",
    first_fifty(
        f"""
        SELECT *, rows_now / rows_before AS growth
        FROM (
            SELECT job_name, operator_key, (avg(rows) FILTER (WHERE {FIRST_THIRD}))::float8 AS rows_before,
                (avg(rows) FILTER (WHERE {LAST_THIRD}))::float8 AS rows_now, max(size_bytes) AS size_bytes,
                max(started_at) AS last_run
            FROM v_broadcasts {OF_OPERATORS}
            GROUP BY job_name, operator_key
        ) AS grown
        WHERE rows_before > 0 AND rows_now > rows_before
        """,
        "growth DESC",
        of="v_broadcasts",
    ),
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "rows_before": Column("Rows before", "short", width=95),
        "rows_now": Column("Rows now", "short", width=90),
        "growth": Column("Growth", "x", width=80),
        "size_bytes": Column("Largest", "bytes", width=90),
        **LAST,
    },
    height=8,
)

FAILED = rows(
    "Which failed?",
    "Each broadcast that was not ready when its execution failed, the latest first, with the execution's error. If"
    " the error is of something else, the broadcast had only not finished yet.",
    f"""
    SELECT started_at, job_name, operator_key, {TITLE} AS title,
        split_part(error, E'\\n', 1) AS error, size_bytes, rows,
        application_id, attempt_id, execution_id
    FROM v_broadcasts {OF_OPERATORS} AND outcome = 'failed'
    ORDER BY started_at DESC LIMIT 50
    """,
    {
        "started_at": Column("Started", "dateTimeAsIso", links=[to_query()], width=165),
        "job_name": JOB,
        "operator_key": OPERATOR,
        "title": Column("Query", width=260),
        "error": Column("Error"),
        "size_bytes": HIDDEN,
        "rows": HIDDEN,
        **KEY,
    },
)
