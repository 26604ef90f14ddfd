"""Findings by simple rules, for tests of what shows, stores and counts findings.

What generated and recorded executions have is too short, or has no critical path, for those that go by the wall time.
"""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.findings import HEURISTICS, causes
from joinsight.findings.causes import SKEWED_SHUFFLE
from joinsight.findings.finding import Finding, Heuristic, PlanContext

_LEAST_RATIO = 5


def _skewed(context: PlanContext) -> Iterator[Finding]:
    for row in context.rows.shuffle:
        if (row.skew_ratio or 0) > _LEAST_RATIO:
            evidence = {"ratio": row.skew_ratio or 0}
            title = "One task read most of the shuffle."
            yield Finding(
                SKEWED_SHUFFLE, "warning", title, evidence, "Find the key.", row.node_id, row.operator_key, impact_ms=1
            )


def _spilled(context: PlanContext) -> Iterator[Finding]:
    size = context.execution.disk_spilled_bytes or 0
    if size:
        join = next(iter(context.rows.joins), None)
        node, key = (-1, None) if join is None else (join.node_id, join.operator_key)
        yield Finding("spill", "warning", "Tasks spilled.", {"bytes": size}, "Use more memory.", node, key, None, size)


PLANTED = (
    *(heuristic for heuristic in HEURISTICS if heuristic not in causes.HEURISTICS),
    Heuristic(SKEWED_SHUFFLE, _skewed, is_about_time=False),
    Heuristic("spill", _spilled, needs_whole=False, is_about_time=False),
)
"""Those that do not go by the verdict, and skew and spilling by what tasks read and spilled."""
