"""What AQE changed in a plan becomes rows; what is said of the size of a broadcast side holds for Spark 3.5 too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

SIDE_BYTES = "was_broadcast: size of the relation in memory, {}. Else what AQE would compare with the threshold: data size of the shuffle that feeds the side, whose rows are only sorted, filtered or aggregated in between. Without AQE Spark compares an estimate"
OLD, NEW = "32 MiB and more if it is hashed by a number", "many times that of its rows if these are few"


def upgrade() -> None:
    op.create_table(
        "aqe_decision",
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the execution started; the partition's key",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column(
            "execution_id",
            sa.BigInteger(),
            nullable=False,
            comment="Spark's SQL execution id, unique within the application attempt",
        ),
        sa.Column("version", sa.Integer(), nullable=False, comment="the plan version that it made"),
        sa.Column("position", sa.Integer(), nullable=False, comment="from 0, within the version"),
        sa.Column(
            "decided_at", sa.DateTime(timezone=True), nullable=False, comment="when the driver learned of this version"
        ),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="join_strategy, coalesced, skew_split, local_read, empty_relation (a part of the plan turned out to be empty), dropped_stage (an exchange is used no longer)",
        ),
        sa.Column(
            "node_id",
            sa.Integer(),
            nullable=True,
            comment="the node in this version, not in the final plan; NULL: it is gone",
        ),
        sa.Column(
            "operator_key",
            sa.Text(),
            nullable=True,
            comment="key of the join or exchange that it is about; NULL: it is about neither",
        ),
        sa.Column(
            "operator", sa.Text(), nullable=False, comment="name of the node; if it is gone, of what it was before"
        ),
        sa.Column(
            "before",
            sa.Text(),
            nullable=True,
            comment="join_strategy: the strategy. coalesced, local_read: partitions that the shuffle made. skew_split: partitions that are skewed. empty_relation: the operator that was there. dropped_stage: the partitioning or broadcast mode",
        ),
        sa.Column(
            "after",
            sa.Text(),
            nullable=True,
            comment="join_strategy: the strategy. coalesced, local_read: partitions that are read. skew_split: what the skewed ones were split into. empty_relation: the operator in its place; NULL: none. dropped_stage: NULL",
        ),
        sa.Column(
            "bytes_before",
            sa.BigInteger(),
            nullable=True,
            comment="join_strategy: data size of the shuffle that fed the side it now builds: what AQE decided by. coalesced, skew_split, local_read: bytes that the shuffle wrote. empty_relation: data size of the exchanges right below. dropped_stage: its data size; NULL: it did not run, or nothing came",
        ),
        sa.Column(
            "bytes_after",
            sa.BigInteger(),
            nullable=True,
            comment="join_strategy: size of the relation that was built of it. coalesced, skew_split: sizes of the partitions read, summed, as AQE knew them",
        ),
        sa.Column("rows_before", sa.BigInteger(), nullable=True, comment="rows of what bytes_before measures"),
        sa.Column(
            "rows_after",
            sa.BigInteger(),
            nullable=True,
            comment="join_strategy: rows that were broadcast. coalesced, skew_split, local_read: rows that were read",
        ),
        sa.CheckConstraint(
            "kind IN ('join_strategy', 'coalesced', 'skew_split', 'local_read', 'empty_relation', 'dropped_stage')",
            name=op.f("ck_aqe_decision_kind"),
        ),
        sa.PrimaryKeyConstraint(
            "started_at",
            "application_id",
            "attempt_id",
            "execution_id",
            "version",
            "position",
            name=op.f("pk_aqe_decision"),
        ),
        comment="What AQE changed in a plan while it ran, named once, at the plan version that shows it first.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(
        op.f("ix_aqe_decision_operator_key_started_at"), "aqe_decision", ["operator_key", "started_at"], unique=False
    )
    op.execute('CREATE TABLE "aqe_decision_default" PARTITION OF "aqe_decision" DEFAULT')
    _say(NEW)


def downgrade() -> None:
    _say(OLD)
    op.drop_table("aqe_decision")


def _say(how_large: str) -> None:
    for column in ("joins.broadcast_side_bytes", "v_joins.broadcast_side_bytes"):
        op.execute(f"COMMENT ON COLUMN {column} IS '{SIDE_BYTES.format(how_large)}'")
