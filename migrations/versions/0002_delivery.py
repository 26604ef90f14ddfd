"""What was delivered gets a table of its own; running executions are found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOVED = {
    "documents_made": "documents that the listener made, said when the application started or ended",
    "documents_dropped": "documents dropped in the driver at a limit",
    "documents_refused": "documents that the collector refused",
    "listener_failures": "exceptions that the listener caught in itself",
    "events_dropped": "events that Spark dropped before its listeners saw them",
}


def upgrade() -> None:
    op.create_table(
        "delivery",
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column("listener_id", sa.Text(), nullable=False, comment="the listener instance, one per SparkContext"),
        sa.Column(
            "sequences_arrived",
            postgresql.INT8MULTIRANGE(),
            nullable=False,
            comment="numbers (sequence) of the documents that arrived",
        ),
        sa.Column("documents_arrived", sa.BigInteger(), nullable=False, comment="how many these are"),
        sa.Column(
            "sequences_refused",
            postgresql.INT8MULTIRANGE(),
            nullable=False,
            comment="numbers of those that were refused here, if readable",
        ),
        sa.Column("refused_reason", sa.Text(), nullable=True, comment="why the last one was refused"),
        sa.Column("first_heard_at", sa.DateTime(timezone=True), nullable=False, comment="when the first document came"),
        sa.Column(
            "last_heard_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the last one came: the listener's last sign of life",
        ),
        sa.Column(
            "sequence",
            sa.BigInteger(),
            nullable=False,
            comment="number of the application document that the columns below are from; 0: none came",
        ),
        sa.Column(
            "documents_made", sa.BigInteger(), nullable=True, comment="documents that the listener had numbered by then"
        ),
        sa.Column("documents_dropped", sa.BigInteger(), nullable=True, comment="documents that it had dropped by then"),
        sa.Column(
            "documents_dropped_by_cause",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="the same by cause: memory, spool, failure; superseded: harmless",
        ),
        sa.Column(
            "documents_refused",
            sa.BigInteger(),
            nullable=True,
            comment="documents that the collector had refused by then, as the listener counted",
        ),
        sa.Column(
            "documents_missing",
            sa.BigInteger(),
            nullable=True,
            comment="documents made by then that neither arrived nor were dropped or refused",
        ),
        sa.Column(
            "events_dropped",
            sa.BigInteger(),
            nullable=True,
            comment="events that Spark had dropped by then before its listeners saw them; NULL: unknown",
        ),
        sa.Column(
            "listener_failures",
            sa.BigInteger(),
            nullable=True,
            comment="exceptions that the listener had caught in itself by then",
        ),
        sa.PrimaryKeyConstraint("application_id", "attempt_id", "listener_id", name=op.f("pk_delivery")),
        comment="What a listener's documents have come to: arrived, refused, dropped, missing.",
    )
    for name in MOVED:
        op.drop_column("application", name)
    op.create_index(
        op.f("ix_execution_application_id_attempt_id"),
        "execution",
        ["application_id", "attempt_id"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_execution_application_id_attempt_id"), table_name="execution")
    for name, comment in MOVED.items():
        op.add_column("application", sa.Column(name, sa.BigInteger(), nullable=True, comment=comment))
    op.drop_table("delivery")
