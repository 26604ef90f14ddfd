"""The views, which join operators with their execution and application; what AQE compared; which joins a shuffle feeds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Outer joins, because PostgreSQL leaves out what a query asks nothing of. No operator is without its execution.
VIEW = """
CREATE VIEW {name} AS
SELECT o.started_at, o.application_id, o.attempt_id, o.execution_id,
    e.ended_at, e.duration_ms, e.state, e.error, a.name AS application_name, e.job_name, e.tags, a.spark_user, e.description,
    e.query_shape, e.plan_fingerprint, e.incomplete, e.origin, a.spark_version,
    {columns}
FROM {table} o
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id)
"""
BROADCASTS = """
    o.node_id, o.operator_key, o.mode, o.outcome, o.size_bytes, o.rows, o.collect_ms, o.build_ms, o.broadcast_ms,
    o.collect_ms + o.build_ms + o.broadcast_ms AS driver_ms,
    o.consumers, o.join_nodes, o.threshold_bytes, o.shuffled_bytes,
    CASE WHEN o.threshold_bytes > 0 THEN o.shuffled_bytes::double precision / o.threshold_bytes END AS threshold_share
"""
SHUFFLES = """
    o.node_id, o.operator_key, o.partitioning, o.keys, o.origin AS shuffle_origin, o.consumers, o.join_nodes,
    o.map_stages, o.reduce_stages, o.data_bytes, o.bytes_written, o.rows_written, o.write_time_ns,
    coalesce(o.local_bytes_read + o.remote_bytes_read, o.local_bytes_read, o.remote_bytes_read) AS bytes_read,
    o.local_bytes_read, o.remote_bytes_read, o.remote_bytes_read_to_disk, o.local_blocks_read, o.remote_blocks_read,
    o.rows_read, o.fetch_wait_ms, o.remote_requests_ms, o.corrupt_merged_block_chunks, o.merged_fetch_fallbacks,
    o.remote_merged_blocks_read, o.local_merged_blocks_read, o.remote_merged_chunks_read, o.local_merged_chunks_read,
    o.remote_merged_bytes_read, o.local_merged_bytes_read, o.remote_merged_requests_ms,
    o.rows_read_median, o.rows_read_max, o.rows_read_max_task_id, o.skew_ratio,
    o.partitions, o.aqe_partitions,
    coalesce(o.aqe_partitions, o.partitions) AS read_partitions,
    o.bytes_written / nullif(coalesce(o.aqe_partitions, o.partitions), 0) AS bytes_per_partition,
    o.rows_written / nullif(coalesce(o.aqe_partitions, o.partitions), 0) AS rows_per_partition,
    o.aqe_read,
    coalesce(nullif(array_to_string(o.aqe_read, ', '), ''), 'as planned') AS aqe_outcome,
    o.aqe_coalesced_partitions, o.aqe_skewed_partitions, o.aqe_skewed_splits, o.aqe_empty_partitions,
    o.aqe_partition_bytes_median, o.aqe_partition_bytes_max
"""
JOINS = """
    o.node_id, o.operator_key, o.strategy, o.join_type, o.build_side, o.left_keys, o.right_keys, o.condition, o.is_skew,
    o.hint, o.left_rows, o.right_rows, o.output_rows, o.output_ratio,
    o.left_bytes, o.right_bytes, o.build_bytes, o.build_ms, o.sort_ms, o.spill_bytes, o.left_exchange, o.right_exchange,
    o.threshold_bytes, o.broadcast_verdict, o.broadcast_side, o.broadcast_side_bytes
"""
OLD_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold in force; -1: switched off"
THRESHOLD = (
    "broadcast threshold in force for sizes that were measured: under AQE"
    " spark.sql.adaptive.autoBroadcastJoinThreshold if it is set, else spark.sql.autoBroadcastJoinThreshold;"
    " -1: switched off; NULL: unreadable"
)
VIEWS = (
    (
        "v_broadcasts",
        "broadcast",
        BROADCASTS,
        "A broadcast exchange of a final plan, with its execution and application.",
        {
            "driver_ms": "time the driver was busy with it: collect_ms + build_ms + broadcast_ms",
            "threshold_share": "shuffled_bytes / threshold_bytes; NULL: Spark decided by an estimate that it shows nowhere",
        },
    ),
    (
        "v_shuffles",
        "shuffle",
        SHUFFLES,
        "A shuffle exchange of a final plan, with its execution and application.",
        {
            "origin": "live (listener) or event_log (backfill)",
            "shuffle_origin": "why it is there: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ...",
            "bytes_read": "bytes read, local and remote, over all consumers",
            "read_partitions": "partitions that its first consumer reads: those of AQE, else those that it made",
            "bytes_per_partition": "bytes_written / read_partitions",
            "rows_per_partition": "rows_written / read_partitions",
            "aqe_outcome": "aqe_read in words: as planned, coalesced, skewed, local, or several of these",
        },
    ),
    (
        "v_joins",
        "joins",
        JOINS,
        "A join of a final plan, with its execution and application.",
        {},
    ),
)
APPLICATION_NAME = "spark.app.name"
JOIN_NODES = "node ids of the joins that it feeds"
SHUFFLED_BYTES = (
    "size of its rows as the shuffle right beneath it counted them: what AQE compares with the threshold;"
    " NULL: no shuffle there"
)
# Columns that a view takes over keep their comments
TAKEN_OVER = """
SELECT DISTINCT ON (v.attnum) v.attname, col_description(t.attrelid, t.attnum)
FROM pg_attribute v JOIN pg_attribute t ON t.attname = v.attname
WHERE v.attrelid = to_regclass(:view) AND v.attnum > 0
    AND t.attrelid IN (to_regclass(:table), to_regclass('execution'), to_regclass('application'))
ORDER BY v.attnum, array_position(ARRAY[to_regclass(:table), to_regclass('execution')], t.attrelid::regclass)
"""


def upgrade() -> None:
    op.alter_column("broadcast", "threshold_bytes", comment=THRESHOLD)
    op.add_column("broadcast", sa.Column("shuffled_bytes", sa.BigInteger(), nullable=True, comment=SHUFFLED_BYTES))
    op.add_column("shuffle", sa.Column("join_nodes", sa.ARRAY(sa.Integer()), nullable=True, comment=JOIN_NODES))
    for name, table, columns, comment, own in VIEWS:
        op.execute(VIEW.format(name=name, table=table, columns=columns.strip()))
        op.execute(f"COMMENT ON VIEW {name} IS {_quoted(comment)}")
        taken = op.get_bind().execute(sa.text(TAKEN_OVER), {"view": name, "table": table}).all()
        comments = {**{row[0]: row[1] for row in taken}, "application_name": APPLICATION_NAME, **own}
        for column, text in comments.items():
            op.execute(f"COMMENT ON COLUMN {name}.{column} IS {_quoted(text)}")


def downgrade() -> None:
    for name, *_ in VIEWS:
        op.execute(f"DROP VIEW {name}")
    op.drop_column("shuffle", "join_nodes")
    op.drop_column("broadcast", "shuffled_bytes")
    op.alter_column("broadcast", "threshold_bytes", comment=OLD_THRESHOLD)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
