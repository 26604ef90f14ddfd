"""What is worth a person's attention in an execution that has ended. Pure: from its rows and the thresholds alone.

``HEURISTICS`` lists all that is looked for, a module each; docs/findings.md has a section on each. What earlier
runs say comes through a `History`, which the store implements.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping

from joinsight.findings import (
    broadcast_failed,
    broadcast_near_threshold,
    broadcast_not_worth_it,
    cache_read_once,
    driver_collect,
    exploding_join,
    fetch_wait,
    huge_partitions,
    late_replan,
    missed_broadcast,
    nested_loop_join,
    repeated_shuffle,
    skewed_shuffle,
    spill,
    tiny_partitions,
)
from joinsight.findings.finding import SEVERITIES, Case, Finding, Heuristic, History, NoHistory
from joinsight.findings.thresholds import Thresholds
from joinsight.rows import Row, Rows

HEURISTICS: tuple[Heuristic, ...] = (
    broadcast_failed.HEURISTIC,
    broadcast_near_threshold.HEURISTIC,
    broadcast_not_worth_it.HEURISTIC,
    missed_broadcast.HEURISTIC,
    skewed_shuffle.HEURISTIC,
    tiny_partitions.HEURISTIC,
    huge_partitions.HEURISTIC,
    repeated_shuffle.HEURISTIC,
    fetch_wait.HEURISTIC,
    spill.HEURISTIC,
    exploding_join.HEURISTIC,
    nested_loop_join.HEURISTIC,
    cache_read_once.HEURISTIC,
    driver_collect.HEURISTIC,
    late_replan.HEURISTIC,
)

ENDED = ("succeeded", "failed")
"""States of executions that are looked at: of one that was lost, nobody knows how it went on."""

PAGE = "docs/findings.md"

log = logging.getLogger("joinsight")


class Finder:
    """Looks with the same thresholds at one execution after the other; safe to use from several threads."""

    def __init__(self, thresholds: Thresholds | None = None, heuristics: tuple[Heuristic, ...] = HEURISTICS) -> None:
        self._thresholds = thresholds or Thresholds()
        self._heuristics = heuristics
        self._failed: set[str] = set()

    def rows(self, rows: Rows, history: History | None = None) -> list[Row]:
        """Rows of table `finding` for the rows of one execution, as `execution_rows` makes them.

        A heuristic that raises finds nothing; the log says so once. What `history` raises is let out.
        """
        execution = rows["execution"][0]
        if execution["state"] not in ENDED:
            return []
        case = Case(rows, self._thresholds, history or NoHistory())
        key = {name: execution[name] for name in ("started_at", "application_id", "attempt_id", "execution_id")}
        found = [finding for heuristic in self._heuristics for finding in self._look(heuristic, case)]
        return [{**key, **dataclasses.asdict(finding)} for finding in _one_a_node(found).values()]

    def _look(self, heuristic: Heuristic, case: Case) -> list[Finding]:
        if heuristic.needs_whole and not case.is_whole:
            return []
        try:
            return list(heuristic.look(case))
        except case.history.errors:
            raise
        except Exception:
            if heuristic.id not in self._failed:
                self._failed.add(heuristic.id)
                which = "{application_id}/{execution_id}".format_map(case.execution)
                log.exception("heuristic %s failed at %s; this is said once", heuristic.id, which)
            return []


def _one_a_node(found: list[Finding]) -> Mapping[tuple[str, int], Finding]:
    """Of several findings of a kind about the same node, that of the greatest impact."""
    best: dict[tuple[str, int], Finding] = {}
    for finding in sorted(found, key=lambda each: (each.impact_bytes or 0, each.impact_ms or 0)):
        best[finding.finding, finding.node_id] = finding
    return best


def link(finding: str) -> str:
    """Where a kind of finding is explained."""
    return f"{PAGE}#{finding}"


__all__ = [
    "ENDED",
    "HEURISTICS",
    "SEVERITIES",
    "Case",
    "Finder",
    "Finding",
    "Heuristic",
    "History",
    "Thresholds",
    "link",
]
