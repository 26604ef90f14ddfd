"""Alembic's environment: `joinsight.store.database.upgrade` runs it, hands over a connection and holds the lock."""

from __future__ import annotations

from alembic import context

from joinsight.tables import metadata


def include_name(name: str | None, kind: str, parents: object) -> bool:
    """Compare declared tables only, because partitions are created at run time."""
    return kind != "table" or name in metadata.tables


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_name=include_name,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
