"""Indexes that lead from an application to its exchanges and joins, for those who ask the views."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = ("shuffle", "broadcast", "joins")


def upgrade() -> None:
    for table in TABLES:
        op.create_index(op.f(f"ix_{table}_application_id"), table, ["application_id"])


def downgrade() -> None:
    for table in TABLES:
        op.drop_index(op.f(f"ix_{table}_application_id"), table_name=table)
