"""Column `execution.nested`: how many executions it started, by which lists show a command with what it ran."""

from __future__ import annotations

from alembic import op

revision = "9"
down_revision = "8"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE execution ADD COLUMN nested integer")
    op.execute(
        "COMMENT ON COLUMN execution.nested IS 'executions that it started and that Spark nests in it, 1000 at most;"
        " NULL: stored before schema 9'"
    )
