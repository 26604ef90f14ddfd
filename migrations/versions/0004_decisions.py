"""Joins get their hint, the ratio of rows out to rows in, and whether they could have been broadcast."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CHECKS = {
    "broadcast_side": "broadcast_side IN ('left', 'right')",
    "broadcast_verdict": (
        "broadcast_verdict IN ('was_broadcast', 'possible', 'over_threshold', 'switched_off', 'forbidden_by_type',"
        " 'unknown')"
    ),
}


def upgrade() -> None:
    op.add_column(
        "joins",
        sa.Column(
            "hint",
            sa.Text(),
            nullable=True,
            comment="the strategy hint of each side that has one, as Spark prints it: broadcast left; NULL: none, or not known",
        ),
    )
    op.add_column(
        "joins",
        sa.Column(
            "output_ratio",
            sa.Double(),
            nullable=True,
            comment="output_rows / the larger of left_rows and right_rows; NULL where not measured",
        ),
    )
    op.add_column(
        "joins",
        sa.Column(
            "broadcast_verdict",
            sa.Text(),
            nullable=True,
            comment="was_broadcast: it is a broadcast join. Of the others: possible (a side that may be broadcast was measured at or under the threshold), over_threshold (each such side was measured over it), switched_off (the threshold is negative), forbidden_by_type (a full outer join), unknown (no size was measured, or not whole)",
        ),
    )
    op.add_column(
        "joins",
        sa.Column(
            "broadcast_side",
            sa.Text(),
            nullable=True,
            comment="left or right: the side that was broadcast; else the smaller measured one that may be",
        ),
    )
    op.add_column(
        "joins",
        sa.Column(
            "broadcast_side_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="was_broadcast: size of the relation in memory, 32 MiB and more if it is hashed by a number. Else what AQE would compare with the threshold: data size of the shuffle that feeds the side, whose rows are only sorted, filtered or aggregated in between. Without AQE Spark compares an estimate",
        ),
    )
    op.alter_column(
        "joins",
        "threshold_bytes",
        existing_type=sa.BIGINT(),
        comment="broadcast threshold in force for sizes that were measured: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if it is set, else spark.sql.autoBroadcastJoinThreshold; -1: switched off; NULL: unreadable",
        existing_comment="spark.sql.autoBroadcastJoinThreshold in force; -1: switched off",
        existing_nullable=True,
    )
    for name, condition in CHECKS.items():
        op.create_check_constraint(op.f(f"ck_joins_{name}"), "joins", condition)


def downgrade() -> None:
    for name in CHECKS:
        op.drop_constraint(op.f(f"ck_joins_{name}"), "joins")
    op.alter_column(
        "joins",
        "threshold_bytes",
        existing_type=sa.BIGINT(),
        comment="spark.sql.autoBroadcastJoinThreshold in force; -1: switched off",
        existing_comment="broadcast threshold in force for sizes that were measured: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if it is set, else spark.sql.autoBroadcastJoinThreshold; -1: switched off; NULL: unreadable",
        existing_nullable=True,
    )
    op.drop_column("joins", "broadcast_side_bytes")
    op.drop_column("joins", "broadcast_side")
    op.drop_column("joins", "broadcast_verdict")
    op.drop_column("joins", "output_ratio")
    op.drop_column("joins", "hint")
