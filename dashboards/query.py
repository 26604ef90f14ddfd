"""Query: one execution, its plan, the cost of operators and stages, AQE's decisions, findings."""

from __future__ import annotations

from dashboards.annotations import TO_COLLECTOR, deployments, failures, plan_changes
from dashboards.columns import HIDDEN, KEY, Column, Units
from dashboards.limits import LIMITS
from dashboards.limits import in_words as limit
from dashboards.links import Link, of_row, to, to_history, to_query
from dashboards.page import job, page, postgresql, tags, text_variable
from dashboards.parts import Drawn, Panel, Sql, dashboard, graph, number, rows, series
from dashboards.plan import CHOSEN, DETAILS, EDGES, KINDS, NODES, of_chosen
from dashboards.sql import EXECUTION_KEY, PERIOD, TIME, TITLE, in_words
from dashboards.style import WARNING

SAME = "${application_id:queryparam}&${attempt_id:queryparam}&${execution_id:queryparam}&${job:queryparam}"
TO_NODE: Link = to("Its metrics below", "query", f"{SAME}&{of_row(node='node_id')}")
TO_PAGE: Link = {
    "title": "The collector's own page",
    "url": "${collector}/executions/${__data.fields.page}",
    "targetBlank": True,
}
NODE = Column("Node", "short", links=[TO_NODE], width=65)


def query() -> dashboard.Dashboard:
    """The target of all links to one execution."""
    return page(
        "query",
        "Joinsight: Query",
        "One execution: its plan, the cost of its operators and stages, AQE's decisions, its findings. Links lead"
        " here. Without one it shows the newest execution of the time range.",
        [
            postgresql(),
            job(),
            *tags(),
            text_variable("application_id", "Application", "Spark's application id. Empty: any."),
            text_variable("attempt_id", "Attempt", "Spark's application attempt id. Empty: any, or none."),
            text_variable("execution_id", "Execution", "Spark's SQL execution id. Empty: the newest."),
            text_variable("node", "Node", "A node of the plan, whose metrics are shown. Empty: all nodes."),
            text_variable("collector", "Collector", "Where a browser reaches the collector", "http://127.0.0.1:9595"),
        ],
        [
            ("The execution", [WHAT, *NUMBERS]),
            ("Its plan", [PLAN]),
            ("What its operators cost", [FINDINGS, OPERATORS, _metrics()]),
            ("Its stages and tasks", [STAGES]),
            ("Adaptive execution", [VERSIONS, DECISIONS]),
            ("The same query at other times", [PAST, RUNS]),
        ],
        annotations=[
            failures(_SAME_QUERY, f"WITH {CHOSEN}", link=TO_COLLECTOR),
            plan_changes(_SAME_QUERY, f"WITH {CHOSEN}", link=TO_COLLECTOR),
            deployments(f"job_name IN (SELECT job_name {of_chosen('execution')})", f"WITH {CHOSEN}"),
        ],
    )


def _asked(sql: str) -> Sql:
    return Sql(f"WITH {CHOSEN}\n{sql}")


def _number(title: str, description: str, column: str, unit: Units, warn_from: float | None = None) -> Panel:
    sql = f"SELECT {column} {of_chosen('execution')}"
    levels = None if warn_from is None else {warn_from: WARNING}
    return number(title, description, _asked(sql), unit, levels=levels)


def _metrics() -> Panel:
    value = {each: f"{_in_unit(each)} AS {each}" for each in ("total", "median", "p95", "max")}
    return rows(
        "Metrics of its nodes",
        "Spark's SQL metrics over tasks, of the node that is chosen above or of all. A largest value far over the"
        " median is a skew; the stage and the task say where to look in Spark's UI.",
        _asked(
            f"""
            , named AS (SELECT node_id, name AS node {of_chosen("plan_node")})
            SELECT node_id, node, name AS metric, {value["total"]}, count AS values, {value["median"]}, {value["p95"]},
                {value["max"]}, max_stage_id, max_task_id
            FROM (SELECT * {of_chosen("node_metric")}) AS metrics JOIN named USING (node_id)
            WHERE total IS NOT NULL AND ('${{node}}' = '' OR node_id::text = '${{node}}')
            ORDER BY node_id, name
            """
        ),
        {
            "node_id": NODE,
            "node": Column("Operator"),
            "metric": Column("Metric"),
            "total": Column("Total"),
            "values": Column("Values", "short", width=80),
            "median": Column("Median"),
            "p95": Column("95th percentile"),
            "max": Column("Largest"),
            "max_stage_id": Column("Its stage", "none", width=90),
            "max_task_id": Column("Its task", "none", width=90),
        },
    )


def _in_unit(column: str) -> str:
    return f"""CASE WHEN type = 'size' THEN pg_size_pretty({column}) WHEN type = 'timing' THEN {column} || ' ms'
                WHEN type = 'nsTiming' THEN round({column} / 1e6, 1) || ' ms' WHEN type = 'average'
                THEN round({column} / 10.0, 1)::text ELSE {column}::text END"""


_SAME_QUERY = f"""
    FROM execution WHERE {TIME} AND (job_name, query_shape) IN (
        SELECT job_name, query_shape {of_chosen("execution")}
    )"""


WHAT = rows(
    "Which execution is this?",
    "The execution that the variables above name; of several matches, the newest. Partial says why its numbers are"
    " lower bounds; empty means that they are complete. The execution leads to the collector's page, where the plan"
    " has no limit of size, and to the query's past.",
    _asked(
        f"""
        SELECT {TITLE} AS title, called_from, job_name, state, execution.started_at, duration_ms,
            application.name AS application, application_id, attempt_id, execution_id,
            spark_version, is_adaptive::text AS adaptive,
            coalesce(split_part(error, E'\\n', 1), '') AS error,
            coalesce(array_to_string(incomplete, '; '), '') AS partial, query_shape,
            concat_ws('/', application_id, nullif(attempt_id, ''), execution_id) AS page
        FROM execution JOIN chosen USING ({EXECUTION_KEY})
            LEFT JOIN LATERAL (
                SELECT name, spark_version FROM application AS its
                WHERE (its.application_id, its.attempt_id) = (execution.application_id, execution.attempt_id)
            ) AS application ON true
        WHERE $__timeFilter(execution.started_at)
        """
    ),
    {
        "title": Column("Execution", links=[TO_PAGE, to_history()]),
        "called_from": Column("Called from", width=150),
        "job_name": Column("Job", links=[to("Only this job", "overview", of_row(job="job_name"))]),
        "state": Column("State", coloured="states", width=90),
        "started_at": Column("Started", "dateTimeAsIso", width=165),
        "duration_ms": Column("Duration", "ms", width=90),
        "application": Column("Application"),
        "application_id": Column("Application id"),
        "attempt_id": HIDDEN,
        "execution_id": Column("Id", "none", width=60),
        "spark_version": Column("Spark", width=70),
        "adaptive": Column("AQE", width=60),
        "error": Column("Error"),
        "partial": Column("Partial"),
        "query_shape": HIDDEN,
        "page": HIDDEN,
    },
    height=4,
)

NUMBERS = [
    _number("Duration", "From the start of the execution to its end.", "duration_ms", "ms"),
    _number(
        "Task time",
        "Run time of all its tasks, summed: what the cluster spent. Much less than duration times cores means that"
        " few tasks ran at a time: a skew, the driver, or a busy cluster.",
        "task_time_ms",
        "ms",
    ),
    _number("Tasks", "Tasks that succeeded, of all its stages.", "tasks", "short"),
    _number(
        "Shuffled",
        "Shuffle bytes written by its tasks. The table of operators shows which shuffles.",
        "shuffle_write_bytes",
        "bytes",
    ),
    _number(
        "Broadcast",
        "Bytes of its broadcasts in memory. The driver held each of them, and every executor does.",
        "broadcast_bytes",
        "bytes",
    ),
    _number(
        "Spilled",
        "Bytes spilled to disk for lack of memory. The table of stages shows where; more partitions or more"
        f" memory per task prevent it. Orange from {limit('spill_bytes')} on.",
        "disk_spilled_bytes",
        "bytes",
        LIMITS.spill_bytes,
    ),
]

PLAN = graph(
    "Plan",
    "The final plan: the result on top, rows flow upwards, the thicker the more. Large circles are joins (blue),"
    " shuffles (orange) and broadcasts (purple), with bytes and rows in them; ⚠ names its findings. Click a"
    " node for its details and its metrics. Grafana shows 200 nodes at a time, and markers for the rest.",
    (Sql(NODES, "nodes"), Sql(EDGES, "edges")),
    KINDS,
    DETAILS,
    [to("Its metrics below", "query", f"{SAME}&{of_row(node='id')}")],
)

FINDINGS = rows(
    "What was found?",
    "Findings in this execution, most severe first, then by the wall time at stake, with advice; findings.md"
    " explains each kind. Empty is good. A node of -1 is the execution as a whole.",
    _asked(
        f"""
        SELECT severity, node_id, finding, title, advice, wall_ms, impact_ms, impact_bytes
        {of_chosen("finding")}
        ORDER BY array_position(ARRAY['critical', 'warning', 'info'], severity), wall_ms DESC NULLS LAST,
            impact_ms DESC NULLS LAST
        """
    ),
    {
        "severity": Column("Severity", coloured="severities", width=85),
        "node_id": NODE,
        "finding": Column("Finding", width=180),
        "title": Column("What", wraps=True),
        "advice": Column("What to do", wraps=True),
        "wall_ms": Column("At stake", "ms", width=90),
        "impact_ms": Column("Time", "ms", width=90),
        "impact_bytes": Column("Bytes", "bytes", width=90),
    },
    height=7,
)

OPERATORS = rows(
    "What did its exchanges and joins cost?",
    "Each shuffle, broadcast and join of the final plan. Bytes are written, in memory, or spilled (by size in"
    " memory); rows are written, broadcast, or output; time is task waiting time, driver time until the broadcast"
    " was sent, or sort time. Skew is the ratio of the largest to the median task. What leads to the operator"
    " in all its runs.",
    _asked(
        f"""
        SELECT * FROM (
            SELECT 'shuffle' AS kind, node_id, coalesce('by ' || {in_words("keys")}, partitioning) AS what,
                bytes_written AS bytes, rows_written AS rows, fetch_wait_ms AS time_ms, skew_ratio,
                partitions, aqe_partitions, operator_key, 'shuffles' AS dashboard
            {of_chosen("shuffle")}
            UNION ALL
            SELECT 'broadcast', node_id, coalesce(left(mode, 60), outcome), size_bytes, rows,
                driver_ms, NULL, NULL, NULL, operator_key, 'broadcasts'
            {of_chosen("v_broadcasts")}
            UNION ALL
            SELECT 'join', node_id, concat_ws(' ', strategy, join_type, 'on ' || {in_words("left_keys")}),
                spill_bytes, output_rows, sort_ms, NULL, NULL, NULL, operator_key, 'joins'
            {of_chosen("joins")}
        ) AS operators
        ORDER BY node_id
        """
    ),
    {
        "kind": Column("Kind", coloured="operators", width=90),
        "node_id": NODE,
        "what": Column(
            "What", links=[to("In all its runs", "${__data.fields.dashboard}", of_row(operator="operator_key"))]
        ),
        "bytes": Column("Bytes", "bytes", bar=True, width=180),
        "rows": Column("Rows", "short", width=90),
        "time_ms": Column("Time", "ms", width=90),
        "skew_ratio": Column("Skew", "x", width=80),
        "partitions": Column("Partitions", "short", width=90),
        "aqe_partitions": Column("After AQE", "short", width=90),
        "operator_key": HIDDEN,
        "dashboard": HIDDEN,
    },
)

STAGES = rows(
    "How did its tasks spread?",
    "Attempts of its stages. Spread compares the longest task with the median one; if it also read much more,"
    " the data is skewed, otherwise a host is slow. Much GC in the run time is too little memory for so many"
    " tasks at once.",
    _asked(
        f"""
        SELECT stage_id, stage_attempt, name, state, tasks, failed_tasks, run_time_ms, run_time_ms_median,
            run_time_ms_p95, run_time_ms_max, run_time_ms_max::float8 / nullif(run_time_ms_median, 0) AS spread,
            shuffle_read_bytes_median, shuffle_read_bytes_max,
            gc_time_ms::float8 / nullif(run_time_ms, 0) AS gc_share, disk_spilled_bytes
        {of_chosen("stage")}
        ORDER BY stage_id, stage_attempt
        """
    ),
    {
        "stage_id": Column("Stage", "none", width=65),
        "stage_attempt": Column("Attempt", "none", width=75),
        "name": Column("Name"),
        "state": Column("State", coloured="states", width=90),
        "tasks": Column("Tasks", "short", width=70),
        "failed_tasks": Column("Failed", "short", width=70),
        "run_time_ms": Column("Task time", "ms", bar=True, width=150),
        "run_time_ms_median": Column("Median", "ms", width=85),
        "run_time_ms_p95": Column("95th percentile", "ms", width=120),
        "run_time_ms_max": Column("Longest", "ms", width=85),
        "spread": Column("Spread", "x", width=80),
        "shuffle_read_bytes_median": Column("Read, median", "bytes", width=110),
        "shuffle_read_bytes_max": Column("Read, most", "bytes", width=95),
        "gc_share": Column("GC", "percentunit", width=70),
        "disk_spilled_bytes": Column("Spilled", "bytes", width=85),
    },
)

VERSIONS = rows(
    "Which plans did it have?",
    "Version 0 is the initial plan; AQE made the others after stages had finished. The collector's page draws each"
    " of them. An operator that is late in coming cost what was shuffled before it.",
    _asked(
        f"""
        SELECT version, (extract(epoch FROM planned_at - started_at) * 1000)::bigint AS after_ms,
            plan_fingerprint, jsonb_array_length(nodes) AS nodes, is_final::text AS final
        {of_chosen("plan_version")}
        ORDER BY version
        """
    ),
    {
        "version": Column("Version", "none", width=75),
        "after_ms": Column("After", "ms", width=90),
        "plan_fingerprint": Column("Fingerprint"),
        "nodes": Column("Nodes", "short", width=75),
        "final": Column("Final", width=75),
    },
    span=8,
)

DECISIONS = rows(
    "What did AQE decide?",
    "Changes from each plan to the next, and the bytes involved; aqe.md explains each kind. A join that became a"
    " broadcast join only now was shuffled needlessly: a hint avoids that.",
    _asked(
        f"""
        SELECT version, kind, operator, before, after, bytes_before, bytes_after, rows_after
        {of_chosen("aqe_decision")}
        ORDER BY version, position
        """
    ),
    {
        "version": Column("Version", "none", width=75),
        "kind": Column("Decision", coloured="decisions", width=120),
        "operator": Column("Operator"),
        "before": Column("Before"),
        "after": Column("After"),
        "bytes_before": Column("Bytes before", "bytes", width=105),
        "bytes_after": Column("Bytes after", "bytes", width=100),
        "rows_after": Column("Rows after", "short", width=95),
    },
    span=16,
)

PAST = series(
    "Duration of its runs by plan",
    "Runs of the same query in the same job that succeeded, a colour for each plan (its fingerprint). Slower with"
    " another colour: the plan changed. Slower with the same: the data, or the cluster.",
    f"""
    WITH {CHOSEN}
    SELECT {PERIOD}, coalesce(left(plan_fingerprint, 8), 'no plan') AS metric,
        max(duration_ms) AS duration_ms
    {_SAME_QUERY} AND state = 'succeeded'
    GROUP BY time, metric ORDER BY time, metric
    """,
    "ms",
    Drawn(bars=False, stacked=False),
)

RUNS = rows(
    "Its runs",
    "The same query in the same job, newest first; Started opens the run. `joinsight diff A B` compares two of"
    " them side by side, operator by operator.",
    f"""
    WITH {CHOSEN}
    SELECT started_at, state, duration_ms, input_bytes, shuffle_write_bytes,
        left(plan_fingerprint, 8) AS plan, application_id, attempt_id, execution_id
    {_SAME_QUERY}
    ORDER BY started_at DESC LIMIT 50
    """,
    {
        "started_at": Column("Started", "dateTimeAsIso", links=[to_query()], width=165),
        "state": Column("State", coloured="states", width=90),
        "duration_ms": Column("Duration", "ms", bar=True),
        "input_bytes": Column("Read by tasks", "bytes", width=110),
        "shuffle_write_bytes": Column("Shuffled", "bytes", width=90),
        "plan": Column("Plan", width=90),
        **KEY,
    },
    span=12,
    height=8,
)
