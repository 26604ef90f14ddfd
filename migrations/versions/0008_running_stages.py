"""Columns `stage.oldest_launch_at` and `stage.oldest_task_id`: the task that has run longest of a stage that still runs."""

from __future__ import annotations

from alembic import op

revision = "8"
down_revision = "7"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE stage ADD COLUMN oldest_launch_at timestamptz, ADD COLUMN oldest_task_id bigint")
    op.execute(
        "COMMENT ON COLUMN stage.oldest_launch_at IS 'while it runs, the launch of the task that has run longest of"
        " those that still run; NULL: unknown'"
    )
    op.execute("COMMENT ON COLUMN stage.oldest_task_id IS 'the id of this task'")
