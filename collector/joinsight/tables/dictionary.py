"""Prints the data dictionary: every table, view and column with its comment."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql

from joinsight.tables import CHILDREN, EXECUTION_KEY, TABLES, views

_INTRODUCTION = """# Data dictionary

Generated from the schema's comments by `make docs`; in the database they are comments too (`\\d+ shuffle` in psql).

Every table except `application`, `delivery`, `event_log` and the [roll-ups](lake.md#roll-ups) is partitioned by month
of `started_at` and begins with the key of its execution: `started_at`, `application_id`, `attempt_id`, `execution_id`.
Join tables on all four. Unmeasured values are NULL, never 0. Bytes, rows, milliseconds (`_ms`) and nanoseconds (`_ns`)
are plain numbers.

The tables contain an execution from its first document on, including running and lost ones with their values so far.
`/metrics` counts those that succeeded or failed ([metrics](metrics.md)).

Long texts are truncated at the source: `description`, `error`, `job_group` and `failure` to 16,384 characters,
`call_site` to 1,024. A truncated text ends with its full length: `… [cut: 20,000 characters in all]`. Texts of plans
are stored whole, so truncation affects no key.

The views `v_broadcasts`, `v_shuffles` and `v_joins` are already joined and cover the most common questions:
[SQL](sql.md) shows how to use them. Their columns keep their names and meanings from version to version; columns may
be added. Tables may change.
`v_regressions` lists [regressions](regressions.md), `v_finding_groups` what was [found](findings.md#groups),
`v_streams` runs of [streaming queries](streaming.md).
"""


def dictionary() -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION]
    for table in (*TABLES, *views.metadata.tables.values()):
        parts.append("\n".join(_table(table)))
    return "\n".join(parts)


def _table(table: Table) -> Iterator[str]:
    yield f"## {table.name}\n"
    yield f"{table.comment}\n"
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    key = [column.name for column in table.primary_key]
    for column in table.columns:
        if table in CHILDREN and column.name in EXECUTION_KEY:
            continue
        kind = column.type.compile(dialect=postgresql.dialect()).lower()  # type: ignore[no-untyped-call]
        mark = " (key)" if column.name in key else ""
        yield f"| `{column.name}` | {kind} | {column.comment}{mark} |"
    yield ""


if __name__ == "__main__":
    print(dictionary(), end="")
