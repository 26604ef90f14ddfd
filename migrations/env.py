"""Alembic's environment. Run through ``joinsight db upgrade``, which hands over a connection."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from joinsight.store.models import metadata

MIGRATION_LOCK = 0x6A6F696F  # pg_advisory_xact_lock: two programs that start at once upgrade one after the other


def include_name(name: str | None, kind: str, parents: object) -> bool:
    """Partitions are made at run time: only the tables of the models are compared."""
    return kind != "table" or name in metadata.tables


connection = context.config.attributes["connection"]
connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
context.configure(
    connection=connection,
    target_metadata=metadata,
    include_name=include_name,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
