"""The views: what people and dashboards query without knowing our keys. Names and columns are a public API.

Most lay an operator's row beside its execution and application; `v_regressions` says what became worse. The
migrations hold their SQL; here they are described, for the data dictionary and for programs that read them. The tests
compare the two.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Double, MetaData, Table, Text

from joinsight.store.models import EXECUTION_KEY, application, broadcast, execution, joins, shuffle

metadata = MetaData()


def _as(column: Column[Any], name: str | None = None) -> Column[Any]:
    return Column(name or column.name, column.type, comment=column.comment)


def _taken(table: Table, *names: str) -> list[Column[Any]]:
    return [_as(table.c[name]) for name in names]


def _view(name: str, comment: str, *columns: Column[Any]) -> Table:
    of_execution = [
        *_taken(execution, *EXECUTION_KEY, "ended_at", "duration_ms", "state", "error"),
        _as(application.c.name, "application_name"),
        *_taken(execution, "job_name", "tags"),
        *_taken(application, "spark_user"),
        *_taken(execution, "description", "query_shape", "plan_fingerprint", "incomplete", "origin"),
        *_taken(application, "spark_version"),
    ]
    return Table(name, metadata, *of_execution, *columns, comment=comment)


def _column(name: str, kind: Any, comment: str) -> Column[Any]:
    return Column(name, kind, comment=comment)


v_broadcasts = _view(
    "v_broadcasts",
    "A broadcast exchange of a final plan, with its execution and application.",
    *_taken(broadcast, "node_id", "operator_key", "mode", "outcome", "size_bytes", "rows"),
    *_taken(broadcast, "collect_ms", "build_ms", "broadcast_ms"),
    _column("driver_ms", BigInteger, "collect_ms + build_ms + broadcast_ms: the tasks that make its rows included"),
    *_taken(broadcast, "consumers", "join_nodes", "threshold_bytes", "shuffled_bytes"),
    _column(
        "threshold_share",
        Double,
        "shuffled_bytes / threshold_bytes; NULL: Spark decided by an estimate that it shows nowhere",
    ),
)

v_shuffles = _view(
    "v_shuffles",
    "A shuffle exchange of a final plan, with its execution and application.",
    *_taken(shuffle, "node_id", "operator_key", "partitioning", "keys"),
    _as(shuffle.c.origin, "shuffle_origin"),
    *_taken(
        shuffle,
        "consumers",
        "join_nodes",
        "map_stages",
        "reduce_stages",
        "data_bytes",
        "bytes_written",
        "rows_written",
        "write_time_ns",
    ),
    _column("bytes_read", BigInteger, "bytes read, local and remote, over all consumers"),
    *_taken(shuffle, "local_bytes_read", "remote_bytes_read", "remote_bytes_read_to_disk"),
    *_taken(shuffle, "local_blocks_read", "remote_blocks_read", "rows_read", "fetch_wait_ms", "remote_requests_ms"),
    *_taken(shuffle, "corrupt_merged_block_chunks", "merged_fetch_fallbacks"),
    *_taken(shuffle, "remote_merged_blocks_read", "local_merged_blocks_read"),
    *_taken(shuffle, "remote_merged_chunks_read", "local_merged_chunks_read"),
    *_taken(shuffle, "remote_merged_bytes_read", "local_merged_bytes_read", "remote_merged_requests_ms"),
    *_taken(shuffle, "rows_read_median", "rows_read_max", "rows_read_max_task_id", "skew_ratio"),
    *_taken(shuffle, "partitions", "aqe_partitions"),
    _column(
        "read_partitions",
        BigInteger,
        "partitions that its first consumer reads: those of AQE, else those that it made",
    ),
    _column("bytes_per_partition", BigInteger, "bytes_written / read_partitions"),
    _column("rows_per_partition", BigInteger, "rows_written / read_partitions"),
    *_taken(shuffle, "aqe_read"),
    _column("aqe_outcome", Text, "aqe_read in words: as planned, coalesced, skewed, local, or several of these"),
    *_taken(shuffle, "aqe_coalesced_partitions", "aqe_skewed_partitions", "aqe_skewed_splits", "aqe_empty_partitions"),
    *_taken(shuffle, "aqe_partition_bytes_median", "aqe_partition_bytes_max"),
)

v_joins = _view(
    "v_joins",
    "A join of a final plan, with its execution and application.",
    *_taken(joins, "node_id", "operator_key", "strategy", "join_type", "build_side", "left_keys", "right_keys"),
    *_taken(joins, "condition", "is_skew", "hint", "left_rows", "right_rows", "output_rows", "output_ratio"),
    *_taken(joins, "left_bytes", "right_bytes", "build_bytes", "build_ms", "sort_ms", "spill_bytes"),
    *_taken(joins, "left_exchange", "right_exchange", "threshold_bytes"),
    *_taken(joins, "broadcast_verdict", "broadcast_side", "broadcast_side_bytes"),
)

v_regressions = Table(
    "v_regressions",
    metadata,
    _column("job_name", Text, "the job; with shape and origin, what is compared with its own past"),
    _column("query_shape", Text, "the query"),
    _column("origin", Text, "live (listener) or event_log (backfill): one is compared with its like only"),
    _column("description", Text, "the description of a run as they are now"),
    _column("subject", Text, "query, join, shuffle or broadcast"),
    _column("operator_key", Text, "the operator; NULL for the query as a whole"),
    _column(
        "measure",
        Text,
        "what got worse. query: duration_ms; join: spill_bytes, output_ratio (rows out per row of"
        " the larger side); shuffle: bytes_written, skew_ratio, fetch_wait_ms; broadcast:"
        " size_bytes, driver_ms",
    ),
    _column(
        "kind",
        Text,
        "plan_changed: most runs now have a plan that was rare; data_grew: the input grew about as"
        " much; same_plan: neither explains it",
    ),
    _column("baseline", Double, "median of the measure over the runs before the window"),
    _column("baseline_spread", Double, "their median distance from it, times 1.4826: as much as a standard deviation"),
    _column("baseline_runs_found", BigInteger, "how many runs that is"),
    _column("alarm_above", Double, "what the current value had to exceed: the baseline by each of the thresholds"),
    _column("current", Double, "median of the measure over the last runs"),
    _column("factor", Double, "current / baseline; NULL if the baseline is 0"),
    _column(
        "data_factor",
        Double,
        "the same of what goes in: input bytes of the query (shuffled bytes where it reads none), rows of the operator",
    ),
    _column("baseline_plan_fingerprint", Text, "the plan that most runs of the baseline had"),
    _column("plan_fingerprint", Text, "the plan that most of the last runs had"),
    _column("first_bad_at", DateTime(timezone=True), "start of the first run of the window from which on it is worse"),
    _column("bad_runs", BigInteger, "runs since then, that one included"),
    _column(
        "cost_ms", BigInteger, "time that the query took in these runs beyond its median of the baseline, milliseconds"
    ),
    _column("baseline_started_at", DateTime(timezone=True), "key of a typical run of the baseline, to compare with"),
    _column("baseline_application_id", Text, "the same"),
    _column("baseline_attempt_id", Text, "the same"),
    _column("baseline_execution_id", BigInteger, "the same"),
    _column("started_at", DateTime(timezone=True), "key of a typical run as they are now"),
    _column("application_id", Text, "the same"),
    _column("attempt_id", Text, "the same"),
    _column("execution_id", BigInteger, "the same"),
    comment="What is worse in the last 7 days than before: joinsight_regressions(now() - interval '7 days'), and up to"
    " a day longer where there are baselines.",
)
