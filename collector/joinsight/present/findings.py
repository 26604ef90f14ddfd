"""Findings as text: what is at stake; groups of them also by how often and since when.

in 41 of 90 runs, first 2026-10-13 06:03, last 2026-11-22 06:01
"""

from __future__ import annotations

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import bytes_text, duration_text, percent_text
from joinsight.findings import HEURISTICS
from joinsight.present.values import when
from joinsight.tables import Row
from joinsight.verdict.mechanisms import causes
from joinsight.verdict.view import View


def at_stake(finding: Row, duration_ms: int | None) -> str:
    """``at least 3.2 s at stake, 40 % of the time``: how long the query, or runs of this duration, waited for what the
    finding is about; empty if that is unknown.
    """
    wall_ms = finding["wall_ms"]
    if wall_ms is None:
        return ""
    if not wall_ms:
        return "" if finding["wall_is_partial"] else "nothing at stake: the query did not wait for it"
    least = "at least " if finding["wall_is_partial"] else ""
    share = f", {percent_text(wall_ms / duration_ms)} of the time" if duration_ms else ""
    return f"{least}{duration_text(wall_ms)} at stake{share}"


def at_stake_over_runs(group: Row) -> str:
    """`at_stake` of a group."""
    return at_stake(group, group["duration_ms"])


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
    """``2 min, 1.5 GiB``; empty if unknown."""
    time, size = finding["impact_ms"], finding["impact_bytes"]
    return ", ".join([*([duration_text(time)] if time else []), *([bytes_text(size)] if size else [])])


def none_found(stored: StoredPlan) -> str:
    """How many checks ran, and which mechanism came nearest to a finding."""
    if stored.execution["state"] == "running":
        early = sum(each.while_running for each in HEURISTICS)
        return f"No findings so far: {early} checks. {len(HEURISTICS) - early} more follow when the query has ended."
    nearest = _nearest(stored)
    return f"No findings in {len(HEURISTICS)} checks.{f' The nearest is {nearest}.' if nearest else ''}"


def checked(executions: int, most: int, longest: StoredPlan | None) -> str:
    """How many checks of how many executions ran, and what came nearest in the one that took longest; empty for none.

    `executions` are not counted beyond `most`.
    """
    if not executions:
        return ""
    number = f"{executions:,}{' or more' if executions == most else ''} execution{'s' * (executions != 1)}"
    text = f"{len(HEURISTICS)} checks of {number}."
    nearest = _nearest(longest) if longest is not None and not longest.findings else ""
    return f"{text} In the longest one, the nearest is {nearest}." if nearest else text


def _nearest(stored: StoredPlan) -> str:
    """``few tasks, 12 % of 4.1 s``; empty if nothing is."""
    view = View(stored)
    of_all = [view, *map(View, stored.nested)]
    why = [each for its in of_all for each in causes(its) if not each.only_says_where and each.code != "nested"]
    nearest = max(why, key=lambda each: each.wall_ms, default=None)
    if nearest is None or not view.wall_ms or nearest.wall_ms <= 0:
        return ""
    share = percent_text(min(1.0, nearest.wall_ms / view.wall_ms))
    return f"{nearest.code.replace('_', ' ')}, {share} of {duration_text(view.wall_ms)}"
