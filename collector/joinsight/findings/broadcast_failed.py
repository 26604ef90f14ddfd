"""A query that failed because of a broadcast: too slow, too large for Spark, or too large for the driver's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from joinsight.analysis.rows import byte_size
from joinsight.findings.finding import WHOLE_EXECUTION, Finding, Heuristic, PlanContext, Waited
from joinsight.verdict.failure import BROADCASTS, readable


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Goes by the text of the error. The operator is named if a single broadcast was not ready."""
    error = readable(context.execution.error or "")
    for cause in BROADCASTS:
        said = cause.said.search(error)
        if context.execution.state != "failed" or not said:
            continue
        evidence = {name: _number(text) for name, text in said.groupdict().items()}
        failed = [row for row in context.rows.broadcast if row.outcome == "failed"]
        only = failed[0] if len(failed) == 1 else None
        yield Finding(
            HEURISTIC.id,
            "critical",
            cause.title.format_map(said.groupdict()),
            evidence,
            cause.advice,
            only.node_id if only else WHOLE_EXECUTION,
            only.operator_key if only else None,
            impact_ms=context.execution.duration_ms,
            waited=Waited(context.execution.duration_ms),
        )
        return


def _number(text: str) -> float:
    """Of ``30`` or ``9.2 GiB``."""
    number, unit = re.fullmatch(r"([\d.]+) *(\w*)", text).groups()  # type: ignore[union-attr]
    return float(number) * (byte_size(f"1{unit}", 1) or 1)


HEURISTIC = Heuristic(
    "broadcast-failed", evaluate, "the whole query, which failed", needs_whole=False, is_about_time=False
)
