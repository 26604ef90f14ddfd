"""Executions in the cell of a notebook: HTML without scripts, whose styles do not reach the notebook's."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import bytes_text, duration_text
from joinsight.pages.drawing import draw
from joinsight.pages.environment import render
from joinsight.pages.execution import MAX_DRAWN, operators_of
from joinsight.pages.svg_file import svg_file
from joinsight.pages.view import DEFAULT
from joinsight.present.findings import at_stake
from joinsight.present.time_spent import by_cause
from joinsight.present.values import execution_name, one_line, query_title
from joinsight.verdict import judge


def notebook(executions: Sequence[StoredPlan]) -> str:
    """Title, costs, plan and findings of each, and of what it started that is shown with it."""
    return render("notebook.html", executions=[_shown(each) for its in executions for each in (its, *its.drawn)])


def _shown(stored: StoredPlan) -> dict[str, object]:
    e = stored.execution
    figures = (
        ("", duration_text(e["duration_ms"]) if e["duration_ms"] is not None else e["state"]),
        ("task time", duration_text(e["task_time_ms"]) if e["task_time_ms"] else ""),
        ("shuffled", bytes_text(e["shuffle_write_bytes"]) if e["shuffle_write_bytes"] else ""),
        ("broadcast", bytes_text(e["broadcast_bytes"]) if e["broadcast_bytes"] else ""),
        ("spilled", bytes_text(e["disk_spilled_bytes"]) if e["disk_spilled_bytes"] else ""),
    )
    return {
        "title": query_title(e),
        "name": execution_name(e),
        "state": e["state"],
        "error": one_line(e["error"] or ""),
        "verdict": judge(stored),
        "figures": [f"{label} {value}".strip() for label, value in figures if value],
        "spent": by_cause(stored.segments),
        "plan": _picture(stored),
        "findings": [{**row, "at_stake": at_stake(row, e["duration_ms"])} for row in stored.findings],
        "incomplete": e["incomplete"] or (),
    }


def _picture(stored: StoredPlan) -> str | None:
    """The final plan as the address of a picture: in one, styles and texts are apart from the notebook's."""
    version = stored.version(None)
    if version is None or operators_of(version) > MAX_DRAWN:
        return None
    file = svg_file(draw(stored, version, DEFAULT, ()), query_title(stored.execution), follows_scheme=True)
    return "data:image/svg+xml;base64," + base64.b64encode(file.encode()).decode()
