"""The first schema: all tables, as the SQL file of this name has them."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from joinsight.store.definitions import run

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run(op.get_bind(), Path(__file__).with_suffix(".sql").read_text())
