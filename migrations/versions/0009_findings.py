"""What is worth a person's attention in an execution that has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

LARGEST = (
    ("severity", "length(severity)"),
    ("impact", "GREATEST(impact_ms, impact_bytes / 100000)"),
)


def upgrade() -> None:
    op.create_table(
        "finding",
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
        sa.Column("finding", sa.Text(), nullable=False, comment="the kind, e.g. skewed-shuffle"),
        sa.Column("node_id", sa.Integer(), nullable=False, comment="node of the final plan; -1: the whole execution"),
        sa.Column("severity", sa.Text(), nullable=False, comment="info, warning or critical"),
        sa.Column(
            "operator_key",
            sa.Text(),
            nullable=True,
            comment="the same for the same operator in another run; NULL: no exchange, broadcast or join",
        ),
        sa.Column("title", sa.Text(), nullable=False, comment="what it is, in a sentence with the numbers"),
        sa.Column(
            "evidence",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="the numbers by name, in the units of their names",
        ),
        sa.Column("advice", sa.Text(), nullable=False, comment="what can be done"),
        sa.Column(
            "impact_ms",
            sa.BigInteger(),
            nullable=True,
            comment="time that it cost tasks or the driver, milliseconds; NULL: cannot be said",
        ),
        sa.Column(
            "impact_bytes",
            sa.BigInteger(),
            nullable=True,
            comment="bytes that it is about: shuffled or spilled; NULL: cannot be said",
        ),
        sa.CheckConstraint("severity IN ('info', 'warning', 'critical')", name=op.f("ck_finding_severity")),
        sa.PrimaryKeyConstraint(
            "started_at", "application_id", "attempt_id", "execution_id", "finding", "node_id", name=op.f("pk_finding")
        ),
        comment="Something worth a person's attention in an execution that has ended; docs/findings.md says what each means.",
        postgresql_partition_by="RANGE (started_at)",
    )
    op.create_index(op.f("ix_finding_finding_started_at"), "finding", ["finding", "started_at"], unique=False)
    op.create_index(op.f("ix_finding_operator_key_started_at"), "finding", ["operator_key", "started_at"], unique=False)
    for name, what in LARGEST:
        op.create_index(
            f"ix_finding_{name}_largest", "finding", [sa.text(f"{what} DESC NULLS LAST"), sa.text("started_at DESC")]
        )
    op.execute('CREATE TABLE "finding_default" PARTITION OF "finding" DEFAULT')


def downgrade() -> None:
    op.drop_table("finding")
