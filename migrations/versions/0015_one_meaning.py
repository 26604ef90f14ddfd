"""Joins that a hint made what they are have a verdict of their own; what columns mean is said as they are measured."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

VERDICTS = "'was_broadcast', 'possible', 'over_threshold', 'switched_off', 'forbidden_by_type', 'unknown'"
VERDICTS_NOW = "'was_broadcast', 'possible', 'hinted', 'over_threshold', 'switched_off', 'forbidden_by_type', 'unknown'"
# Tables and views that have a column, what its comment was, and what it is
COMMENTS = (
    (
        ("execution",),
        "input_bytes",
        "bytes read from sources",
        "bytes that its tasks read from sources, as Spark counts them: of columnar files the columns, not whole files; of Parquet and ORC far too few in Spark 4.3, whose vectored reads run in threads that it does not watch",
    ),
    (
        ("broadcast", "v_broadcasts"),
        "collect_ms",
        "time the driver took to collect the rows",
        "from when the driver asked for the rows until it had them: the tasks that make them included",
    ),
    (
        ("joins", "v_joins"),
        "strategy",
        "BroadcastHashJoin, SortMergeJoin, ShuffledHashJoin, BroadcastNestedLoopJoin, CartesianProduct",
        "BroadcastHashJoin, SortMergeJoin, SortMergeAsOfJoin, ShuffledHashJoin, BroadcastNestedLoopJoin, CartesianProduct",
    ),
    (
        ("joins", "v_joins"),
        "condition",
        "the rest of the condition",
        "the rest of the condition; of an as-of join, what it matches",
    ),
    (
        ("joins", "v_joins"),
        "spill_bytes",
        "bytes that it and its sorts spilled",
        "bytes that it and its sorts spilled, as they were in memory: on disk they are fewer",
    ),
    (
        ("joins", "v_joins"),
        "broadcast_verdict",
        "was_broadcast: it is a broadcast join. Of the others: possible (a side that may be broadcast was measured at or under the threshold), over_threshold (each such side was measured over it), switched_off (the threshold is negative), forbidden_by_type (a full outer join), unknown (no size was measured, or not whole)",
        "was_broadcast: it is a broadcast join. Of the others: possible (a side that may be broadcast was measured at or under the threshold), hinted (as possible, but a hint, the query's or one of AQE, made it the join that it is), over_threshold (each such side was measured over it, or over what Spark broadcasts at all), switched_off (the threshold is negative), forbidden_by_type (a full outer or as-of join), unknown (no size was measured, or not whole)",
    ),
    (
        ("rollup_operator_day",),
        "spill_bytes",
        "bytes that joins spilled; NULL for others",
        "bytes that joins spilled, as they were in memory; NULL for others",
    ),
    (
        ("v_broadcasts",),
        "driver_ms",
        "time the driver was busy with it: collect_ms + build_ms + broadcast_ms",
        "collect_ms + build_ms + broadcast_ms: the tasks that make its rows included",
    ),
)


def upgrade() -> None:
    _allow(VERDICTS_NOW)
    for tables, column, _, comment in COMMENTS:
        _comment(tables, column, comment)


def downgrade() -> None:
    op.execute("UPDATE joins SET broadcast_verdict = 'possible' WHERE broadcast_verdict = 'hinted'")
    _allow(VERDICTS)
    for tables, column, comment, _ in COMMENTS:
        _comment(tables, column, comment)


def _allow(verdicts: str) -> None:
    op.drop_constraint(op.f("ck_joins_broadcast_verdict"), "joins", type_="check")
    op.create_check_constraint(op.f("ck_joins_broadcast_verdict"), "joins", f"broadcast_verdict IN ({verdicts})")


def _comment(tables: tuple[str, ...], column: str, comment: str) -> None:
    quoted = comment.replace("'", "''")
    for table in tables:
        op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{quoted}'")
