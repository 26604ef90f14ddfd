"""Findings as text: those of an execution in their order, groups of them by how often, since when, and at what cost.

in 41 of 90 runs, first 2026-10-13 06:03, last 2026-11-22 06:01
"""

from __future__ import annotations

from collections.abc import Iterable

from joinsight.display import bytes_text, duration_text
from joinsight.plan.cost import Bill, JoinCost
from joinsight.present import when
from joinsight.severity import SEVERITIES
from joinsight.tables import Row


def ranked(findings: Iterable[Row], bill: Bill) -> list[tuple[Row, str]]:
    """The worst first, of equally bad ones those whose operator the execution waited for longest; with this wait as a
    sentence, empty if it is unknown.
    """
    charged = bill.charged()

    def wall_ms(row: Row) -> int:
        its = charged.get(row["node_id"])
        return its.wall_ms or 0 if its else 0

    def wait(row: Row) -> str:
        its = charged.get(row["node_id"])
        if its is None or not its.wall_ms:
            return ""
        least, what = "", "this operator"
        if isinstance(its, JoinCost):
            least, what = "at least " if its.shared else "", "this join and what only it needed"
        share = f"{100 * its.wall_ms / bill.wall_ms:.0f} %"
        return f"The query waited {least}{duration_text(its.wall_ms)} for {what}, {share} of the time."

    order = sorted(findings, key=lambda row: (SEVERITIES.index(row["severity"]), -wall_ms(row), -_impact(row)))
    return [(row, wait(row)) for row in order]


def _impact(finding: Row) -> int:
    """In milliseconds, as `joinsight findings` sorts them: 100 MB count as a second."""
    return max(finding["impact_ms"] or 0, (finding["impact_bytes"] or 0) // 100_000)


def occurrence(group: Row) -> str:
    """How many of its runs have it, and from when to when; if the last run does not have it any more, that too."""
    found, runs = group["executions"], group["runs"]
    if runs == 1:
        return f"in 1 run, {when(group['started_at'])}"
    earlier = " or earlier" if group["first_seen_at"] <= group["first_run_at"] else ""
    text = f"in {found:,} of {runs:,} runs, first {when(group['first_seen_at'])}{earlier}"
    if found > 1:
        text += f", last {when(group['started_at'])}"
    return text + (", not in the last run" if group["last_run_at"] > group["started_at"] else "")


def impact(finding: Row) -> str:
    """``2 min, 1.5 GiB``: what is at stake; empty if unknown."""
    time, size = finding["impact_ms"], finding["impact_bytes"]
    return ", ".join([*([duration_text(time)] if time else []), *([bytes_text(size)] if size else [])])
