"""Let collectors of schema 1 write until they have been upgraded, too; and more numbers of a stage.

Schema 2 added a required column without a default, so PostgreSQL refused all executions of a collector that did not know
the column.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None

STAGE = {
    "slots": (sa.Integer(), "most tasks that the executors could run at once while it ran; NULL: unknown"),
}


def upgrade() -> None:
    op.execute("ALTER TABLE execution ALTER COLUMN is_sampled SET DEFAULT false")
    for name, (kind, comment) in STAGE.items():
        op.add_column("stage", sa.Column(name, kind, comment=comment))
