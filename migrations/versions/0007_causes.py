"""Table `cause`: why slow runs took longer."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from joinsight.store.definitions import run

revision = "7"
down_revision = "6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run(op.get_bind(), Path(__file__).with_suffix(".sql").read_text())
