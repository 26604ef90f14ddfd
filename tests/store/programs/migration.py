"""A migration of the next release; it waits where PAUSED names a file."""

import os
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision, down_revision = "9999", "HEAD"


def upgrade() -> None:
    op.add_column("joins", sa.Column("more", sa.BigInteger(), comment="added"))
    op.execute("UPDATE joins SET more = output_rows")
    op.alter_column("joins", "spill_bytes", type_=sa.Numeric())
    if paused := os.environ.get("PAUSED"):
        Path(paused).touch()
        time.sleep(600)
