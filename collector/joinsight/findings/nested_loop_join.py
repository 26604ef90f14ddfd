"""A cartesian product or nested-loop join of sides so large that it compares very many pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.wording import join, rows
from joinsight.plan.measured import OUTPUT_ROWS
from joinsight.rows import Row


def look(case: Case) -> Iterator[Finding]:
    """By the product of the rows of both sides."""
    for found in case.rows["joins"]:
        left, right = found.get("left_rows"), found.get("right_rows")
        if left is None or right is None:
            continue
        on = join(found).removeprefix("the join")
        if found["strategy"] == "BroadcastNestedLoopJoin":
            pairs = left * right  # a semi, anti or existence join may stop before
            title = f"A nested-loop join{on} compared up to {pairs:,} pairs, of {rows(left)} and {rows(right)}."
        elif found["strategy"] == "CartesianProduct":
            pairs = _cartesian_pairs(case, found)
            title = f"A cartesian product{on} compared at least {pairs:,} pairs of rows."
        else:
            continue
        if pairs < case.limits.nested_loop_pairs:
            continue
        yield Finding(
            HEURISTIC.id,
            "critical" if pairs >= case.limits.nested_loop_critical_pairs else "warning",
            title,
            {"left_rows": left, "right_rows": right, "pairs": pairs},
            "Spark can hash or sort by equalities only. Add one to the condition: for ranges, join on a bucket (a day,"
            " value DIV 100) and keep the range as a further condition; turn an OR into a UNION of joins. If the join"
            " has no condition by mistake, set spark.sql.crossJoin.enabled=false to have it refused.",
            found["node_id"],
            found["operator_key"],
        )


def _cartesian_pairs(case: Case, found: Row) -> int:
    """At least so many: a task makes its partitions of both sides anew and, unless it reads shuffles, counts them."""
    stage = case.metrics(found["node_id"]).get(OUTPUT_ROWS, {}).get("max_stage_id")
    tasks = sum(stage["tasks"] for stage in case.stages([stage] if stage is not None else []))
    counted = found["left_rows"] * found["right_rows"] // tasks if tasks else 0
    return int(max(counted, found["output_rows"] or 0))


HEURISTIC = Heuristic("nested-loop-join", look, needs_whole=False)
