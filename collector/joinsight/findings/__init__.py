"""Heuristics that find problems in an execution. Pure: they use only its rows and the thresholds.

``HEURISTICS`` lists them, a module each; docs/findings.md has a section on each. Facts about earlier runs come
through a `History`, which the store implements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from joinsight.analysis.rows import Rows
from joinsight.base.severity import rank
from joinsight.contract.document import ENDED
from joinsight.findings import (
    broadcast_failed,
    broadcast_near_threshold,
    broadcast_not_worth_it,
    cache_filled_again,
    cache_read_once,
    causes,
    driver_collect,
    fetch_wait,
    hidden_skew,
    late_replan,
    missed_broadcast,
    nested_loop_join,
    repeated_shuffle,
    rewritten_rows,
    streams,
    unpruned_files,
)
from joinsight.findings.finding import Finding, Heuristic, History, NoHistory, PlanContext, Waited
from joinsight.findings.thresholds import Thresholds
from joinsight.tables import EXECUTION_KEY, SEVERITIES, FindingRow

_HEURISTICS: tuple[Heuristic, ...] = (
    broadcast_failed.HEURISTIC,
    broadcast_near_threshold.HEURISTIC,
    broadcast_not_worth_it.HEURISTIC,
    missed_broadcast.HEURISTIC,
    hidden_skew.HEURISTIC,
    repeated_shuffle.HEURISTIC,
    fetch_wait.HEURISTIC,
    nested_loop_join.HEURISTIC,
    cache_filled_again.HEURISTIC,
    cache_read_once.HEURISTIC,
    driver_collect.HEURISTIC,
    late_replan.HEURISTIC,
    rewritten_rows.HEURISTIC,
    unpruned_files.HEURISTIC,
    *causes.HEURISTICS,
    *streams.HEURISTICS,
)
HEURISTICS = (*_HEURISTICS, causes.largest_part(_HEURISTICS))

log = logging.getLogger("joinsight")


class FindingsEngine:
    """Looks with the same thresholds at one execution after the other; safe to use from several threads."""

    def __init__(self, thresholds: Thresholds | None = None, heuristics: tuple[Heuristic, ...] = HEURISTICS) -> None:
        self._thresholds = thresholds or Thresholds()
        self._heuristics = heuristics
        self._failed: set[str] = set()

    def rows(self, rows: Rows, history: History | None = None) -> list[FindingRow]:
        """Rows of table `finding` for the rows of one execution, as `execution_rows` makes them; the worst first.

        While it runs, only some heuristics look at it. A heuristic that raises finds nothing, and is logged once.
        Errors of `history` propagate.
        """
        execution = rows.execution
        if execution.state not in (*ENDED, "running"):
            return []
        context = PlanContext(rows, self._thresholds, history or NoHistory())
        key = {name: getattr(execution, name) for name in EXECUTION_KEY}
        found: list[Finding] = []
        for heuristic in self._heuristics:
            if not {each.finding for each in found} & set(heuristic.unless):
                found += self._evaluate(heuristic, context)
        its = self._shared_out(_one_a_node(found).values(), context)
        made = [FindingRow(**key, **finding.columns()) for finding in its]
        return sorted(made, key=lambda row: rank(row.severity, row.wall_ms, row.impact_ms, row.impact_bytes))

    def _evaluate(self, heuristic: Heuristic, context: PlanContext) -> list[Finding]:
        if context.is_running and not heuristic.while_running:
            return []
        if (heuristic.needs_whole and not context.is_whole) or (heuristic.is_about_time and not context.takes_long):
            return []
        try:
            found = heuristic.evaluate(context)
            return [each for each in found if not heuristic.is_about_time or context.is_worth_it(each)]
        except context.history.errors:
            raise
        except Exception:
            if heuristic.id not in self._failed:
                self._failed.add(heuristic.id)
                which = f"{context.execution.application_id}/{context.execution.execution_id}"
                log.exception("heuristic %s failed at %s; further failures are not logged", heuristic.id, which)
            return []

    def _shared_out(self, found: Iterable[Finding], context: PlanContext) -> Iterator[Finding]:
        """With no more wall time at stake together than the execution took.

        Those that say why go first, then the largest; others have what these leave, if that is worth it.
        """
        kinds = {heuristic.id: heuristic for heuristic in self._heuristics}
        left = context.duration_ms
        for finding in sorted(found, key=lambda its: (kinds[its.finding].is_place, -(its.waited.wall_ms or 0))):
            wall, is_partial = finding.waited
            if left is None or wall is None:
                yield finding
                continue
            shared = replace(finding, waited=Waited(min(wall, left), is_partial))
            if not kinds[finding.finding].is_about_time or context.is_worth_it(shared):
                left -= min(wall, left)
                yield shared


def _one_a_node(found: list[Finding]) -> Mapping[tuple[str, int], Finding]:
    """The finding of greatest impact for each kind and node."""
    best: dict[tuple[str, int], Finding] = {}
    for finding in sorted(found, key=lambda each: (each.impact_bytes or 0, each.impact_ms or 0)):
        best[finding.finding, finding.node_id] = finding
    return best


def link(finding: str) -> str:
    """The command that explains a kind of finding."""
    return f"joinsight docs findings#{finding}"


__all__ = [
    "HEURISTICS",
    "SEVERITIES",
    "Finding",
    "FindingsEngine",
    "Heuristic",
    "History",
    "PlanContext",
    "Thresholds",
    "link",
]
