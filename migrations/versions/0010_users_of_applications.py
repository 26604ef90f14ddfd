"""Index on `application.spark_user`, by which lists find what a user ran."""

from __future__ import annotations

from alembic import op

revision = "10"
down_revision = "9"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE INDEX ix_application_spark_user_application_id ON application (spark_user, application_id)")
