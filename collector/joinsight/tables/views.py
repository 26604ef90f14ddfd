"""The views: what people and dashboards query without knowing our keys. Names and columns are a public API.

Most join an operator's row with its execution and application, and add computed columns. `v_regressions` lists
regressions. ``python -m joinsight.tables.views migrations/views`` writes their SQL.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeEngine

from joinsight import tables
from joinsight.tables import (
    DRIVER_PHASES,
    EXECUTION_KEY,
    UNPACKED,
    application,
    broadcast,
    execution,
    finding,
    joins,
    shuffle,
)
from joinsight.tables.declare import columns_of

metadata = MetaData()

_ALIASES = {execution.name: "e", application.name: "a"}
# Outer joins, so that PostgreSQL can skip unused tables. Every operator has an execution. The query_shape (q) by a
# look-up of its own: an index has it and the key, so PostgreSQL reads a query's runs from it, the newest first, and
# ends with the LIMIT, where it would else fetch and sort the rows of all runs.
_QUERY = """\
SELECT
    {columns}
FROM {table} o
LEFT JOIN execution q USING ({execution_key})
LEFT JOIN execution e USING ({execution_key})
LEFT JOIN application a USING (application_id, attempt_id)"""


def _column(
    name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], comment: str | None, sql: str | None = None
) -> Column[Any]:
    return Column(name, kind, comment=comment, info={"sql": sql})


def _key(comment: str, prefix: str = "") -> list[Column[Any]]:
    """The columns that name an execution; `comment` says which."""
    comments = [comment, *["the same"] * (len(EXECUTION_KEY) - 1)]
    return [
        _column(prefix + name, execution.c[name].type, said) for name, said in zip(EXECUTION_KEY, comments, strict=True)
    ]


def _taken(table: Table, *names: str, renamed: Mapping[str, str] | None = None) -> list[Column[Any]]:
    alias = _ALIASES.get(table.name, "o")
    taken = ((table.c[name], (renamed or {}).get(name, name)) for name in names)
    return [_column(name, column.type, column.comment, f"{alias}.{column.name}") for column, name in taken]


def _operators(
    name: str,
    comment: str,
    table: Table,
    *computed: Column[Any],
    renamed: Mapping[str, str] | None = None,
    title: str = "title",
) -> Table:
    own = [column.name for column in table.columns if column.name not in EXECUTION_KEY]
    columns = [
        *_taken(table, *EXECUTION_KEY),
        *_taken(execution, "ended_at", "duration_ms", "state", "error"),
        *_taken(application, "name", renamed={"name": "application_name"}),
        *_taken(execution, "job_name", "tags"),
        *_taken(application, "spark_user"),
        *_taken(execution, "user_name", "session_id", "operation_id", "user_tags"),
        *_taken(execution, "title", renamed={"title": title}),
        *_taken(execution, "called_from", "description"),
        _column("query_shape", Text, execution.c.query_shape.comment, "q.query_shape"),
        *_taken(execution, "plan_fingerprint", "incomplete", "origin"),
        *_taken(application, "spark_version"),
        *_taken(table, *own, renamed=renamed),
        *computed,
    ]
    execution_key = ", ".join(EXECUTION_KEY)
    query = _QUERY.format(
        columns=",\n    ".join(_named(column.info["sql"], column.name) for column in columns),
        table=table.name,
        execution_key=execution_key,
    )
    stored = table.info.get("of", table)
    return Table(name, metadata, *columns, comment=comment, info={"of": stored, "query": query})


def _named(expression: str, name: str) -> str:
    return expression if expression in {f"{alias}.{name}" for alias in "oqeac"} else f"{expression} AS {name}"


def _unpacked(name: str) -> Table:
    """Rows that are stored packed."""
    view = UNPACKED[name]
    columns = list(columns_of(view.row))
    for column in columns:
        column.info["sql"] = view.values.get(column.name, f"o.{column.name}")
    shown = ",\n    ".join(_named(column.info["sql"], column.name) for column in columns)
    return Table(
        name,
        metadata,
        *columns,
        PrimaryKeyConstraint(*EXECUTION_KEY, *view.key),
        comment=view.row.__doc__,
        info={
            "row": view.row,
            "of": view.table,
            "query": f"SELECT\n    {shown}\nFROM {view.table.name} o{view.source}",
        },
    )


plan_version, plan_node, plan_edge, node_metric, segment, task_time, cost = map(_unpacked, UNPACKED)

v_broadcasts = _operators(
    "v_broadcasts",
    "A broadcast exchange of a final plan, with its execution and application.",
    broadcast,
    _column(
        "driver_ms",
        BigInteger,
        "collect_ms + build_ms + broadcast_ms, including the tasks that produce its rows",
        " + ".join(f"o.{name}" for name in DRIVER_PHASES),
    ),
    _column(
        "threshold_share",
        Double,
        "shuffled_bytes / threshold_bytes; NULL: Spark used an estimate, which it shows nowhere",
        "CASE WHEN o.threshold_bytes > 0 THEN o.shuffled_bytes::double precision / o.threshold_bytes END",
    ),
)

_READ_PARTITIONS = "coalesce(o.aqe_partitions, o.partitions)"

v_shuffles = _operators(
    "v_shuffles",
    "A shuffle exchange of a final plan, with its execution and application.",
    shuffle,
    _column(
        "bytes_read",
        BigInteger,
        "bytes read, local and remote, over all consumers",
        "coalesce(o.local_bytes_read + o.remote_bytes_read, o.local_bytes_read, o.remote_bytes_read)",
    ),
    _column(
        "read_partitions",
        BigInteger,
        "partitions that its first consumer reads: those of AQE, or the original ones",
        _READ_PARTITIONS,
    ),
    _column(
        "bytes_per_partition",
        BigInteger,
        "bytes_written / read_partitions",
        f"o.bytes_written / nullif({_READ_PARTITIONS}, 0)",
    ),
    _column(
        "rows_per_partition",
        BigInteger,
        "rows_written / read_partitions",
        f"o.rows_written / nullif({_READ_PARTITIONS}, 0)",
    ),
    _column(
        "aqe_outcome",
        Text,
        "aqe_read as text: as planned, coalesced, skewed, local, or several of these",
        "coalesce(nullif(array_to_string(o.aqe_read, ', '), ''), 'as planned')",
    ),
    renamed={"origin": "shuffle_origin"},
)

v_joins = _operators("v_joins", "A join of a final plan, with its execution and application.", joins)

v_segments = _operators(
    "v_segments",
    "A part of an execution's time on its critical path, with its execution and application. To add them up over"
    " executions, leave out cause nested.",
    segment,
    _column("segment_ms", BigInteger, "its length: end_ms - start_ms", "o.end_ms - o.start_ms"),
    _column(
        "time_share",
        Double,
        "segment_ms / duration_ms",
        "(o.end_ms - o.start_ms)::double precision / nullif(e.duration_ms, 0)",
    ),
)

v_costs = _operators("v_costs", "What a kind of work cost an execution, with the execution and its application.", cost)

v_findings = _operators(
    "v_findings",
    "A finding, with its execution and application; the execution's title is query_title.",
    finding,
    _column(
        "wall_share",
        Double,
        "wall_ms / duration_ms: its share of the time of the execution",
        "o.wall_ms::double precision / nullif(e.duration_ms, 0)",
    ),
    title="query_title",
)

v_regressions = Table(
    "v_regressions",
    metadata,
    _column("job_name", Text, "the job; job, shape and origin identify what is compared with its own past"),
    _column("query_shape", Text, "the query"),
    _column("origin", Text, "live (listener) or event_log (backfill); each is compared only with its own kind"),
    _column("title", Text, "the title of a recent run"),
    _column("description", Text, "its description"),
    _column("subject", Text, "query, join, shuffle or broadcast"),
    _column("operator_key", Text, "the operator; NULL for the query as a whole"),
    _column(
        "measure",
        Text,
        "what got worse: duration_ms, spill_bytes, skew_ratio, ... (docs/regressions.md#how-it-decides)",
    ),
    _column(
        "kind",
        Text,
        "plan_changed: most recent runs have a plan that was rare before; data_grew: the input grew about as"
        " much; same_plan: neither explains it",
    ),
    _column("baseline", Double, "median of the measure over the runs before the window"),
    _column("baseline_spread", Double, "their median absolute deviation, times 1.4826 to match a standard deviation"),
    _column("baseline_runs_found", BigInteger, "number of these runs"),
    _column("alarm_above", Double, "the limit that the current value exceeds: the baseline plus the largest threshold"),
    _column("current", Double, "median of the measure over the last runs"),
    _column("factor", Double, "current / baseline; NULL if the baseline is 0"),
    _column(
        "data_factor",
        Double,
        "the same for the input: input bytes of the query (shuffled bytes if it reads none), rows of the operator",
    ),
    _column("baseline_plan_fingerprint", Text, "the plan that most runs of the baseline had"),
    _column("plan_fingerprint", Text, "the plan that most of the last runs had"),
    _column("first_bad_at", DateTime(timezone=True), "start of the run in the window since which it is worse"),
    _column("bad_runs", BigInteger, "runs since then, including that one"),
    _column(
        "cost_ms",
        BigInteger,
        "time by which the query exceeded its baseline median in these runs, summed, milliseconds",
    ),
    *_key("key of a typical run of the baseline, to compare with", "baseline_"),
    *_key("key of a typical recent run"),
    comment="Regressions of the last 7 days: joinsight_regressions(now() - interval '7 days'), or up to a day"
    " longer if baselines are stored.",
    info={"query": "SELECT * FROM joinsight_regressions(joinsight_window(now() - interval '7 days'))"},
)

v_finding_groups = Table(
    "v_finding_groups",
    metadata,
    _column("job_name", Text, "the job"),
    _column("query_shape", Text, "the query; NULL: it has no plan"),
    _column("query_title", Text, "the title of the newest execution with the finding"),
    _column("description", Text, "its description"),
    _column("finding", Text, "the kind, e.g. skewed-shuffle; job, query, kind and operator identify a row"),
    _column("operator_key", Text, "the operator, equal in all runs; NULL: not an exchange, broadcast or join"),
    _column("severity", Text, "the worst of its findings: info, warning or critical"),
    _column("title", Text, "the problem in one sentence, with the numbers of the newest execution"),
    _column("advice", Text, "what to do, as of the newest execution"),
    _column("evidence", JSONB, "the numbers of the newest execution by name, in the units of their names"),
    _column("executions", BigInteger, "executions with the finding"),
    _column("runs", BigInteger, "executions of the query in this job that succeeded or failed"),
    _column("first_seen_at", DateTime(timezone=True), "start of the first execution with the finding"),
    _column("first_run_at", DateTime(timezone=True), "start of the first of the runs; if equal, it may be older"),
    _column("last_run_at", DateTime(timezone=True), "start of the last of the runs; later than started_at: it is gone"),
    _column(
        "wall_ms", BigInteger, "sum of the findings' wall_ms (docs/findings.md#wall-time), milliseconds; NULL: unknown"
    ),
    _column("wall_is_partial", Boolean, "whether wall_ms is only what is known of it; it may be more"),
    _column("duration_ms", BigInteger, "sum of the durations of the executions whose wall_ms is known, milliseconds"),
    _column("impact_ms", BigInteger, "sum of the findings' impact_ms (docs/findings.md#impact); NULL: unknown"),
    _column("impact_bytes", BigInteger, "sum of the findings' impact_bytes; NULL: unknown"),
    *_key("when it was last seen; key of the newest execution with it"),
    _column("node_id", Integer, "node of its final plan; -1: the whole execution"),
    comment="Findings of the last 30 days, one row for each kind, query of a job, and operator:"
    " joinsight_finding_groups(now() - interval '30 days').",
    info={"query": "SELECT * FROM joinsight_finding_groups(now() - interval '30 days')"},
)

v_cached_tables = Table(
    "v_cached_tables",
    metadata,
    _column("application_id", application.c.application_id.type, application.c.application_id.comment),
    _column("attempt_id", application.c.attempt_id.type, application.c.attempt_id.comment),
    _column("cache_id", BigInteger, "the cached table, within its application"),
    _column("application_name", Text, "Spark's application name"),
    _column("job_name", Text, "the job"),
    _column("table_name", Text, "its name; NULL: it is a DataFrame"),
    _column("first_used_at", DateTime(timezone=True), "start of the first execution that filled or read it"),
    _column("last_used_at", DateTime(timezone=True), "start of the last one"),
    _column("filled_by", ARRAY(BigInteger), "executions that filled a part of it, the first one first; NULL: unknown"),
    _column("fill_wall_ms", BigInteger, "sum of their fill_wall_ms, milliseconds"),
    _column("fill_task_ms", BigInteger, "sum of their fill_task_ms, milliseconds"),
    _column("executions", BigInteger, "executions that read it, with those that filled it"),
    _column("reads", BigInteger, "executions that read it and filled no part of it"),
    _column("rows_read", BigInteger, "rows that all of them read; NULL: not measured"),
    comment="A cached table of an application, with the executions that filled it and how many read it.",
    info={
        "query": """\
SELECT c.application_id, c.attempt_id, c.cache_id, a.name AS application_name, a.job_name, c.table_name,
    c.first_used_at, c.last_used_at, c.filled_by, c.fill_wall_ms, c.fill_task_ms, c.executions, c.reads, c.rows_read
FROM (
    SELECT c.application_id, c.attempt_id, c.cache_id, max(c.table_name) AS table_name,
        min(c.started_at) AS first_used_at, max(c.started_at) AS last_used_at,
        array_agg(c.execution_id ORDER BY c.started_at, c.execution_id)
            FILTER (WHERE c.fill_stages IS NOT NULL) AS filled_by,
        sum(c.fill_wall_ms)::bigint AS fill_wall_ms, sum(c.fill_task_ms)::bigint AS fill_task_ms,
        count(*) AS executions, count(*) FILTER (WHERE c.fill_stages IS NULL) AS reads,
        sum(c.rows_read)::bigint AS rows_read
    FROM cache c
    GROUP BY c.application_id, c.attempt_id, c.cache_id
) AS c
LEFT JOIN application a USING (application_id, attempt_id)"""
    },
)

v_streams = Table(
    "v_streams",
    metadata,
    _column("job_name", Text, "the job"),
    _column("streaming_query_name", Text, "the query's name; NULL: it has none"),
    _column("streaming_query_id", Text, "the query, equal in all its runs from a checkpoint"),
    _column("streaming_run_id", Text, "the run, from a start to its stop; application and run identify a row"),
    _column("title", Text, "what the last micro-batch did"),
    _column("state", Text, "the state of the last micro-batch; cancelled: the query was stopped in it"),
    _column("error", Text, "why the last micro-batch failed"),
    _column("batches", BigInteger, "micro-batches that ran; one without new data may run none"),
    _column("failed", BigInteger, "micro-batches that failed"),
    _column("first_batch_at", DateTime(timezone=True), "start of the first one"),
    _column("last_batch_at", DateTime(timezone=True), "start of the last one"),
    _column("last_batch_id", BigInteger, "number of the last one"),
    _column("batches_per_minute", Double, "between the first and the last one; NULL: there is only one"),
    _column("duration_ms_median", Double, "median duration of successful ones, milliseconds"),
    _column("duration_ms_p95", Double, "95 % of successful ones took this or less, milliseconds"),
    _column("duration_ms_max", BigInteger, "longest duration of a successful one, milliseconds"),
    *(
        _column(name, BigInteger, f"sum over the micro-batches: {execution.c[name].comment}")
        for name in (
            *("task_time_ms", "input_bytes", "output_bytes", "shuffle_write_bytes", "broadcast_bytes"),
            "disk_spilled_bytes",
        )
    ),
    _column("state_rows", BigInteger, "rows that stateful operators kept after the last one; NULL: none, or unknown"),
    _column("state_bytes", BigInteger, "memory that they took for it"),
    *_key("start of the last micro-batch; key of its execution"),
    comment="Runs of streaming queries over the micro-batches of the last 7 days:"
    " joinsight_streams(now() - interval '7 days').",
    info={"query": "SELECT * FROM joinsight_streams(now() - interval '7 days')"},
)

OPERATORS: Mapping[str, Table] = {view.name: view.info["of"] for view in metadata.tables.values() if "of" in view.info}
"""The tables that each view is based on, by the view's name."""

RELATIONS: Mapping[str, Table] = {**tables.metadata.tables, **metadata.tables}
"""All tables and views, by name."""


def sql(view: Table) -> str:
    """The statements that make a view, with its comments."""
    return "\n".join(
        [
            "-- Written by make docs from collector/joinsight/tables/views.py",
            f"CREATE VIEW {view.name} AS",
            f"{view.info['query']};",
            f"COMMENT ON VIEW {view.name} IS {_quoted(view.comment)};",
            *(f"COMMENT ON COLUMN {view.name}.{each.name} IS {_quoted(each.comment)};" for each in view.columns),
            "",
        ]
    )


def _quoted(text: str | None) -> str:
    return "'" + (text or "").replace("'", "''") + "'"


if __name__ == "__main__":
    for view in metadata.tables.values():
        (Path(sys.argv[1]) / f"{view.name}.sql").write_text(sql(view))
