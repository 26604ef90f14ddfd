"""Applications whose driver is gone are lost, as their executions are; reasons of incompleteness have codes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

OPEN = "state IN ('unknown', 'running') AND origin = 'live'"
STATE = "running, ended, or lost (its driver is gone); unknown while only executions of it have arrived"
OLD_STATE = "running or ended; unknown while only executions of it have arrived"

CODES = "the same for programs, each once: docs/guarantees.md#completeness; NULL: whole, or of an older listener"


def upgrade() -> None:
    op.add_column("execution", sa.Column("incomplete_codes", postgresql.ARRAY(sa.Text()), nullable=True, comment=CODES))
    op.drop_constraint(op.f("ck_application_state"), "application", type_="check")
    op.create_check_constraint(
        op.f("ck_application_state"), "application", "state IN ('unknown', 'running', 'ended', 'lost')"
    )
    op.alter_column("application", "state", comment=STATE, existing_comment=OLD_STATE)
    op.create_index(
        "ix_application_open", "application", ["application_id", "attempt_id"], postgresql_where=sa.text(OPEN)
    )


def downgrade() -> None:
    op.drop_column("execution", "incomplete_codes")
    op.drop_index("ix_application_open", "application")
    op.execute(
        "UPDATE application SET state = CASE WHEN started_at IS NULL THEN 'unknown' ELSE 'running' END"
        " WHERE state = 'lost'"
    )
    op.drop_constraint(op.f("ck_application_state"), "application", type_="check")
    op.create_check_constraint(op.f("ck_application_state"), "application", "state IN ('unknown', 'running', 'ended')")
    op.alter_column("application", "state", comment=OLD_STATE, existing_comment=STATE)
