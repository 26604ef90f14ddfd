"""Keys by which a query and its operators are known again in another run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = (
    (
        "execution",
        "query_shape",
        "the same for the same query in another run, however Spark runs it; NULL: it had no plan",
    ),
    ("execution", "plan_fingerprint", "the same for the same final plan in another run; NULL: it had no plan"),
    ("plan_version", "plan_fingerprint", "the same for the same plan in another run"),
    (
        "plan_node",
        "operator_key",
        "the same for the same operator in another run; NULL: no exchange, broadcast or join",
    ),
    ("shuffle", "operator_key", "the same for the same exchange in another run"),
    ("broadcast", "operator_key", "the same for the same broadcast in another run"),
    ("joins", "operator_key", "the same for the same join in another run, whatever its strategy"),
)
INDEXES = (
    ("execution", "query_shape"),
    ("shuffle", "operator_key"),
    ("broadcast", "operator_key"),
    ("joins", "operator_key"),
)


def upgrade() -> None:
    for table, column, comment in COLUMNS:
        op.add_column(table, sa.Column(column, sa.Text(), nullable=True, comment=comment))
    for table, column in INDEXES:
        op.create_index(op.f(f"ix_{table}_{column}_started_at"), table, [column, "started_at"], unique=False)


def downgrade() -> None:
    for table, column in reversed(INDEXES):
        op.drop_index(op.f(f"ix_{table}_{column}_started_at"), table_name=table)
    for table, column, _ in reversed(COLUMNS):
        op.drop_column(table, column)
