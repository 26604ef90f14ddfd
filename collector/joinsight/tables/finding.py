"""Table `finding`: what a heuristic found."""

from __future__ import annotations

from sqlalchemy import Index

from joinsight.base.severity import SEVERITIES
from joinsight.tables.declare import Bytes, ExecutionKey, Int, Json, Ms, column, largest, required, table_of

_RISING = ", ".join(f"'{severity}'::text" for severity in reversed(SEVERITIES))
SEVERITY_RANK = f"array_position(ARRAY[{_RISING}], severity)"
"""1 for the mildest; written as PostgreSQL shows the index's expression, which is compared with it."""
IMPACT = "GREATEST(impact_ms, impact_bytes / 100000)"
"""Milliseconds; bytes as if 100 MB were a second."""


class FindingRow(ExecutionKey, frozen=True, kw_only=True):
    """A problem that a heuristic found in a finished execution; docs/findings.md explains each kind."""

    finding: str = required("the kind, e.g. skewed-shuffle")
    node_id: Int = required("node of the final plan; -1: the whole execution")
    severity: str = required("info, warning or critical", one_of=SEVERITIES)
    operator_key: str | None = column(
        "key of the operator, equal in all runs; NULL: not an exchange, broadcast or join"
    )
    title: str = required("the problem in one sentence, with the numbers")
    evidence: Json = required("the numbers by name, in the units of their names")
    advice: str = required("what to do")
    wall_ms: Ms | None = column(
        "wall time at stake, milliseconds: how long the execution waited for what docs/findings.md#wall-time says;"
        " NULL: unknown"
    )
    wall_is_partial: bool = required("whether wall_ms is only what is known of it; it may be more")
    impact_ms: Ms | None = column("time, milliseconds: docs/findings.md#impact says which; NULL: unknown")
    impact_bytes: Bytes | None = column("bytes: docs/findings.md#impact says which; NULL: unknown")


finding = table_of(
    FindingRow,
    "finding",
    Index(None, "finding", "started_at"),
    Index(None, "operator_key", "started_at"),
    largest("finding", SEVERITY_RANK, "severity", "wall_ms"),
    largest("finding", "wall_ms"),
    largest("finding", IMPACT, "impact"),
    key=("finding", "node_id"),
)
