"""Groups of findings as text: how often, since when, and at what cost.

in 41 of 90 runs, first 2026-10-13 06:03, last 2026-11-22 06:01
"""

from __future__ import annotations

from joinsight.display import bytes_text, duration_text
from joinsight.present import when
from joinsight.tables import Row


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
