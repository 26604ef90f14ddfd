"""Shuffles: bytes written, fetch waits, skew, badly sized partitions."""

from __future__ import annotations

from dashboards.annotations import deployments, failures, plan_changes
from dashboards.columns import LAST, RUNS, Column, of_job, of_operator
from dashboards.limits import HUGE, LARGE, LIMITS, SKEWED, TINY
from dashboards.limits import in_words as limit
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Sql, dashboard, number, rows, series
from dashboards.sql import LATEST, OF_OPERATORS, PERIOD, first_fifty, in_words, ten_jobs
from dashboards.style import WARNING

OPERATOR = of_operator("shuffle", "shuffles")
JOB = of_job("shuffles")


def shuffles() -> dashboard.Dashboard:
    """A row of numbers, charts, and the queries of docs/sql.md on shuffles."""
    return page(
        "shuffles",
        "Joinsight: Shuffles",
        "How much is shuffled, who waits for it, which shuffles are skewed or have badly sized partitions.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("operator", "Operator", "An operator_key; links fill it. Empty: all."),
        ],
        [
            ("All shuffles", [*NUMBERS, WRITTEN, TIMES, SKEW_OVER_TIME]),
            ("Which shuffles?", [HEAVIEST, SKEWED_PANEL, CUT]),
        ],
        annotations=[failures(), plan_changes(is_on=False), deployments()],
    )


def _of(what: str, condition: str = "") -> Sql:
    return Sql(f"SELECT {what} FROM v_shuffles {OF_OPERATORS} {condition}")


NUMBERS = [
    number(
        "Written",
        "Bytes that shuffles wrote, compressed. Each is read again, mostly over the network.",
        _of("sum(bytes_written)::bigint AS bytes_written"),
        "bytes",
        span=6,
    ),
    number(
        "Waited",
        "Total time that tasks waited for shuffled data. A slow network, slow disks under the"
        " shuffle files, or executors in a long garbage collection.",
        _of("sum(fetch_wait_ms)::bigint AS fetch_wait_ms"),
        "ms",
        span=6,
    ),
    number(
        "Worst skew",
        "Rows that the largest task read over those of the median task, the largest such ratio among shuffles of"
        f" which a task read {limit('skew_rows')} rows. From {limit('skew_ratio')} on one task keeps the stage"
        " waiting; the table says where.",
        _of("max(skew_ratio) AS skew_ratio", f"AND {LARGE}"),
        "x",
        levels={LIMITS.skew_ratio: WARNING},
        span=6,
    ),
    number(
        "Saved by reuse",
        "Bytes that were not written again because an exchange was read by several operators. Nothing to do; it"
        " falls when queries are changed so that their exchanges differ.",
        _of("coalesce(sum(bytes_written * (consumers - 1)), 0)::bigint AS bytes", "AND consumers > 1"),
        "bytes",
        span=6,
    ),
]

WRITTEN = series(
    "Written by job",
    "Bytes that shuffles wrote, of the ten jobs with most of them, by when the executions started. A step up"
    " without more data is a plan that changed: see History and regressions.",
    ten_jobs("v_shuffles", "sum(bytes_written)::bigint", OF_OPERATORS),
    "bytes",
    span=8,
)

TIMES = series(
    "Writing and waiting",
    "Time that tasks took to write shuffles and time that they waited for blocks, summed over tasks. More waiting"
    " with the same bytes is the cluster's doing: network, disks, garbage collection.",
    f"""
    SELECT {PERIOD}, (sum(write_time_ns) / 1000000)::bigint AS write, sum(fetch_wait_ms)::bigint AS wait
    FROM v_shuffles {OF_OPERATORS}
    GROUP BY time ORDER BY time
    """,
    "ms",
    Drawn(named=("write", "wait")),
    span=8,
)

SKEW_OVER_TIME = series(
    "Skew by job",
    "The largest ratio of the largest task to the median task among a job's shuffles of which a task read"
    f" {limit('skew_rows')} rows, of the ten jobs with the most. A step is a key that has come to dominate: often"
    f" NULL or a default. The dashed line, at {limit('skew_ratio')}, is where this page calls it skewed.",
    [
        Sql(
            ten_jobs("v_shuffles", "max(skew_ratio)", f"{OF_OPERATORS} AND {LARGE}", ranked_by="max"),
            form="time_series",
        )
    ],
    "x",
    Drawn(bars=False, stacked=False, limit=LIMITS.skew_ratio),
    span=8,
)

HEAVIEST = rows(
    "Which shuffles cost most?",
    "The same shuffle in all its runs, the most bytes first. By says what it partitions by: a table that is"
    " bucketed by that need not be shuffled. Remote is the share that was read over the network.",
    first_fifty(
        f"""
        SELECT job_name, operator_key, {in_words("min(keys)")} AS keys, count(*) AS runs,
            sum(bytes_written)::bigint AS bytes_written, avg(rows_written)::bigint AS rows_written,
            sum(fetch_wait_ms)::bigint AS wait_ms,
            sum(remote_bytes_read)::float8 / nullif(sum(bytes_read), 0)::float8 AS remote_share,
            avg(read_partitions)::bigint AS partitions, max(started_at) AS last_run
        FROM v_shuffles {OF_OPERATORS} AND bytes_written IS NOT NULL
        GROUP BY job_name, operator_key
        """,
        "bytes_written DESC",
        of="v_shuffles",
    ),
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "keys": Column("By"),
        "runs": RUNS,
        "bytes_written": Column("Written", "bytes", bar=True, width=190),
        "rows_written": Column("Rows, mean", "short", width=100),
        "wait_ms": Column("Waited", "ms", width=90),
        "remote_share": Column("Remote", "percentunit", width=80),
        "partitions": Column("Partitions", "short", width=90),
        **LAST,
    },
)

SKEWED_PANEL = rows(
    "Which are skewed?",
    f"Shuffles whose largest task read {limit('skew_rows')} rows, {limit('skew_ratio')} times those of the median"
    " one or more. Split by AQE is the number of partitions that it split: 0 means that it did not detect or"
    " could not split them. Find the key (NULL? a default?), filter or salt it, or lower"
    " spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes.",
    f"""
    SELECT job_name, operator_key, {in_words("min(keys)")} AS keys, count(*) AS runs,
        max(skew_ratio) AS skew_ratio, max(rows_read_max) AS rows_of_largest_task,
        coalesce(max(aqe_skewed_partitions), 0) AS split, min(started_at) AS skewed_since, {LATEST}
    FROM v_shuffles {OF_OPERATORS} AND {SKEWED}
    GROUP BY job_name, operator_key
    ORDER BY skew_ratio DESC LIMIT 50
    """,
    {
        "job_name": JOB,
        "operator_key": OPERATOR,
        "keys": Column("By"),
        "runs": RUNS,
        "skew_ratio": Column("Skew", "x", bar=True, width=150),
        "rows_of_largest_task": Column("Rows of the largest task", "short", width=170),
        "split": Column("Split by AQE", "short", width=100),
        "skewed_since": Column("Since", "dateTimeAsIso", width=165),
        **LAST,
    },
)

CUT = rows(
    "Which have badly sized partitions?",
    f"Too small: {limit('tiny_partitions')} partitions or more of {limit('tiny_partition_bytes')} or less on"
    " average; a task costs more to start than to run. AQE coalesces these unless it is off or the query sets the"
    f" number. Too large: {limit('huge_partition_bytes')} or more, compressed; they spill, or fail when memory is"
    " short. Set spark.sql.shuffle.partitions, or let AQE decide.",
    f"""
    SELECT CASE WHEN {TINY} THEN 'too small' ELSE 'too large' END AS verdict,
        job_name, operator_key, count(*) AS runs, avg(read_partitions)::bigint AS partitions,
        avg(bytes_per_partition)::bigint AS partition_bytes, {LATEST}
    FROM v_shuffles {OF_OPERATORS} AND ({HUGE} OR {TINY})
    GROUP BY verdict, job_name, operator_key
    ORDER BY verdict, greatest(avg(read_partitions), avg(bytes_per_partition) / 1e6) DESC LIMIT 50
    """,
    {
        "verdict": Column("Partitions are", width=110),
        "job_name": JOB,
        "operator_key": OPERATOR,
        "runs": RUNS,
        "partitions": Column("Partitions, mean", "short"),
        "partition_bytes": Column("Bytes of one, mean", "bytes"),
        **LAST,
    },
)
