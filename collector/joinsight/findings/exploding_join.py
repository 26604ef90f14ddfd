"""A join with many times more rows out than either side has rows."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.phrases import first_up, join, rows, times


def look(case: Case) -> Iterator[Finding]:
    """Joins on keys; one without is a nested loop, and has a heuristic of its own."""
    for found in case.rows.joins:
        out, ratio = found.output_rows, found.output_ratio
        left, right = found.left_rows, found.right_rows
        if not found.left_keys or out is None or ratio is None or left is None or right is None:
            continue
        if out < case.limits.exploding_rows or ratio < case.limits.exploding_ratio:
            continue
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(join(found))} made {rows(out)} from {rows(left)} and {rows(right)}:"
            f" {times(ratio)} the larger side.",
            {
                "output_rows": out,
                "left_rows": left,
                "right_rows": right,
                "ratio": ratio,
            },
            "The key is not unique on either side. Check for a missing condition, or for a value such as a default in"
            " place of NULL that matches itself; remove duplicates on one side, or aggregate it before the join. If"
            " only existence matters, LEFT SEMI JOIN or EXISTS returns each row once.",
            found.node_id,
            found.operator_key,
            waited=case.waited_for_join(found),
        )


HEURISTIC = Heuristic("exploding-join", look, "the join, with [what only it needed](cost.md#what-a-join-needed)")
