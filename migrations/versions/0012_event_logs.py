"""The ledger of event logs that were read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event_log",
        sa.Column(
            "path",
            sa.Text(),
            nullable=False,
            comment="where it is, as Spark's file system names it; without .inprogress",
        ),
        sa.Column("application_id", sa.Text(), nullable=False, comment="Spark's application id, by the log's name"),
        sa.Column(
            "attempt_id", sa.Text(), nullable=False, comment="Spark's application attempt id; empty where there is none"
        ),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False, comment="size of its files when they were read"),
        sa.Column(
            "modified_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the newest of them was last changed",
        ),
        sa.Column("is_open", sa.Boolean(), nullable=False, comment="its application had not ended it: it may grow"),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=False,
            comment="whole, partial (not all of it can be read) or failed (it is tried again each time)",
        ),
        sa.Column(
            "problems",
            postgresql.ARRAY(sa.Text()),
            nullable=True,
            comment="why not all of it was read; NULL: it was",
        ),
        sa.Column(
            "is_compacted",
            sa.Boolean(),
            nullable=False,
            comment="the History Server has removed from it what had ended",
        ),
        sa.Column("missing_files", sa.Integer(), nullable=False, comment="files of a rolling log that are not there"),
        sa.Column("lines", sa.BigInteger(), nullable=False, comment="lines that were read"),
        sa.Column("event_bytes", sa.BigInteger(), nullable=False, comment="bytes of these, uncompressed"),
        sa.Column("executions", sa.BigInteger(), nullable=False, comment="executions that it told of"),
        sa.Column("reader_version", sa.Text(), nullable=False, comment="version of Joinsight that read it"),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False, comment="when it was read"),
        sa.CheckConstraint("outcome IN ('whole', 'partial', 'failed')", name=op.f("ck_event_log_outcome")),
        sa.PrimaryKeyConstraint("path", name=op.f("pk_event_log")),
        comment="An event log that `joinsight backfill` has read: one that has not changed since is not read again.",
    )


def downgrade() -> None:
    op.drop_table("event_log")
