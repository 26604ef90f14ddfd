"""Table `forecast`: numbers that grow and will reach a limit."""

from __future__ import annotations

from pathlib import Path

from alembic import op

from joinsight.store.definitions import run

revision = "6"
down_revision = "5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run(op.get_bind(), Path(__file__).with_suffix(".sql").read_text())
