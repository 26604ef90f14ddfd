"""What a database holds, to compare."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text

from joinsight.tables import PARTITIONED


def content(engine: Engine, application: str = "%") -> dict[str, list[Any]]:
    """All rows of applications that are like this, by table, without the time of writing."""
    found = {}
    with engine.connect() as connection:
        for table in ("application", *(table.name for table in PARTITIONED)):
            statement = text(f"SELECT to_jsonb(t) - 'updated_at' FROM {table} t WHERE application_id LIKE :a")
            found[table] = sorted(connection.scalars(statement, {"a": application}), key=str)
    return found


def ledger(engine: Engine) -> dict[str, Any]:
    """The stored rows, by the name of the log."""
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM event_log")).mappings()
        return {row["path"].rpartition("/")[2]: row for row in rows}
