"""Indexes that serve every sort and filter of the commands over years; those that served none are gone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

LARGEST = (
    ("execution", "duration_ms", "duration_ms"),
    ("execution", "shuffle_write_bytes", "shuffle_write_bytes"),
    ("execution", "disk_spilled_bytes", "disk_spilled_bytes"),
    ("shuffle", "bytes_written", "bytes_written"),
    ("shuffle", "time", "(write_time_ns / 1000000 + fetch_wait_ms)"),
    ("shuffle", "skew_ratio", "skew_ratio"),
    ("broadcast", "size_bytes", "size_bytes"),
    ("broadcast", "time", "(collect_ms + build_ms + broadcast_ms)"),
    ("joins", "output_rows", "output_rows"),
    ("joins", "spill_bytes", "spill_bytes"),
)
USELESS = (("shuffle", "bytes_written"), ("broadcast", "size_bytes"), ("joins", "strategy"))


def upgrade() -> None:
    for table, column in USELESS:
        op.drop_index(op.f(f"ix_{table}_{column}"), table_name=table)
    op.drop_index(op.f("ix_execution_application_id_attempt_id"), table_name="execution")
    op.create_index(
        op.f("ix_execution_state_started_at"),
        "execution",
        ["state", "started_at"],
        unique=False,
        postgresql_where=sa.text("state <> 'succeeded'"),
    )
    op.create_index(op.f("ix_execution_execution_id_started_at"), "execution", ["execution_id", "started_at"])
    op.create_index(op.f("ix_application_name"), "application", ["name"])
    op.create_index(op.f("ix_delivery_last_heard_at"), "delivery", ["last_heard_at"])
    for table, name, what in LARGEST:
        op.create_index(
            f"ix_{table}_{name}_largest", table, [sa.text(f"{what} DESC NULLS LAST"), sa.text("started_at DESC")]
        )


def downgrade() -> None:
    for table, name, _ in LARGEST:
        op.drop_index(f"ix_{table}_{name}_largest", table_name=table)
    op.drop_index(op.f("ix_delivery_last_heard_at"), table_name="delivery")
    op.drop_index(op.f("ix_application_name"), table_name="application")
    op.drop_index(op.f("ix_execution_execution_id_started_at"), table_name="execution")
    op.drop_index(op.f("ix_execution_state_started_at"), table_name="execution")
    op.create_index(
        op.f("ix_execution_application_id_attempt_id"),
        "execution",
        ["application_id", "attempt_id"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    for table, column in USELESS:
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column], unique=False)
