"""The account of a listener's documents is one of which numbers, no longer of how many."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SETS = {
    "sequences_superseded": "numbers that need not arrive: a newer document of the same execution, or of the"
    " application, has",
    "sequences_dropped": "numbers of those that it gave up, at a limit",
}
_COMMENTS = {
    "sequences_refused": (
        "numbers of those that were refused, here or as it said",
        "numbers of those that were refused here, if readable",
    ),
    "documents_dropped": (
        "how many of sequences_dropped neither arrived nor were superseded",
        "documents that it had dropped by then",
    ),
    "documents_dropped_by_cause": (
        "documents that it had dropped by then, by cause: memory, spool, failure; also those superseded since",
        "the same by cause: memory, spool, failure; superseded: harmless",
    ),
    "documents_refused": (
        "how many of sequences_refused did not arrive after all",
        "documents that the collector had refused by then, as the listener counted",
    ),
    "documents_missing": (
        "how many numbers up to the highest one known are in none of the sets; NULL until the application has spoken",
        "documents made by then that neither arrived nor were dropped or refused",
    ),
}
_COUNTED = ("documents_dropped", "documents_refused")


def upgrade() -> None:
    for name, comment in _SETS.items():
        column = sa.Column(name, postgresql.INT8MULTIRANGE(), nullable=False, server_default="{}", comment=comment)
        op.add_column("delivery", column)
        op.alter_column("delivery", name, server_default=None)
    for name in _COUNTED:
        op.execute(f"UPDATE delivery SET {name} = 0 WHERE {name} IS NULL")
        op.alter_column("delivery", name, nullable=False)
    for name, (comment, _) in _COMMENTS.items():
        _comment(name, comment)


def downgrade() -> None:
    for name in _COUNTED:
        op.alter_column("delivery", name, nullable=True)
    for name, (_, comment) in _COMMENTS.items():
        _comment(name, comment)
    for name in _SETS:
        op.drop_column("delivery", name)


def _comment(column: str, text: str) -> None:
    op.execute(f"COMMENT ON COLUMN delivery.{column} IS '{text}'")
