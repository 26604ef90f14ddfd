"""Let collectors of schema 1 write until they have been upgraded, too.

Schema 2 added a required column without a default, so PostgreSQL refused all executions of a collector that did not know
the column.
"""

from __future__ import annotations

from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE execution ALTER COLUMN is_sampled SET DEFAULT false")
