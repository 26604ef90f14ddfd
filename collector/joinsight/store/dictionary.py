"""Prints the data dictionary: every table, view and column with its comment, from their descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql

from joinsight.store import views
from joinsight.store.models import CHILDREN, EXECUTION_KEY, metadata

_INTRODUCTION = """# Data dictionary

Generated from the schema's comments by `make docs`; in the database they are comments too (`\\d+ shuffle` in psql).

Every table but `application`, `delivery`, `event_log` and the [roll-ups](lake.md#roll-ups) is partitioned by month of
`started_at` and begins with the key of its execution: `started_at`, `application_id`, `attempt_id`, `execution_id`.
Join tables on all four. A value that was not measured is NULL, never 0. Bytes, rows, milliseconds (`_ms`) and
nanoseconds (`_ns`) are plain numbers.

The tables hold an execution from its first document on: also one that runs or was lost, with what was measured so far.
`/metrics` counts those that succeeded or failed ([metrics](metrics.md)).

Long texts are cut where they are measured: `description`, `error`, `job_group` and `failure` at 16,384 characters,
`call_site` at 1,024. One that was cut ends with how long it was: `… [cut: 20,000 characters in all]`. Texts of plans
are whole, so no key depends on it.

The views `v_broadcasts`, `v_shuffles` and `v_joins` have done the joining, and have what is most asked for:
[SQL](sql.md) shows how to use them. Their columns stay, with their names and meanings, from version to version; new
ones may come. What the tables look like may change.
`v_regressions` says [what became worse](regressions.md).
"""
_ORDER = (
    "application",
    "delivery",
    "execution",
    "shuffle",
    "broadcast",
    "joins",
    "finding",
    "stage",
    "plan_version",
    "aqe_decision",
    "plan_node",
    "plan_edge",
    "node_metric",
    "rollup_day",
    "rollup_operator_day",
    "baseline",
    "event_log",
)


def dictionary() -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION]
    for name in _ORDER:
        parts.append("\n".join(_table(metadata.tables[name])))
    for view in views.metadata.tables.values():
        parts.append("\n".join(_table(view)))
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
