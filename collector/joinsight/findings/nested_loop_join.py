"""A cartesian product or nested-loop join of sides so large that it compares very many pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from joinsight.findings.finding import Finding, Heuristic, PlanContext, Waited
from joinsight.findings.phrases import join, rows
from joinsight.plan.operators import CARTESIAN_PRODUCT, NESTED_LOOP_JOIN, OUTPUT_ROWS
from joinsight.tables import JoinRow


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """By the product of the rows of both sides."""
    for found in context.rows.joins:
        left, right = found.left_rows, found.right_rows
        on = join(found).removeprefix("the join")
        if found.strategy == CARTESIAN_PRODUCT:
            pairs = _cartesian_pairs(context, found)
            title = f"A cartesian product{on} compared at least {pairs:,} pairs of rows."
        elif found.strategy == NESTED_LOOP_JOIN and left is not None and right is not None:
            pairs = left * right  # a semi, anti or existence join may stop before
            title = f"A nested-loop join{on} compared up to {pairs:,} pairs, of {rows(left)} and {rows(right)}."
        else:
            continue
        if pairs < context.limits.nested_loop_pairs:
            continue
        yield Finding(
            HEURISTIC.id,
            "warning",
            title,
            {name: n for name, n in (("left_rows", left), ("right_rows", right), ("pairs", pairs)) if n is not None},
            "Spark can hash or sort only by equalities. Add one to the condition: for ranges, join on a bucket (a day,"
            " value DIV 100) and keep the range as an additional condition; turn an OR into a UNION of joins. To have"
            " Spark reject joins that lack a condition by mistake, set spark.sql.crossJoin.enabled=false.",
            found.node_id,
            found.operator_key,
            waited=_waited(context, found),
        )


def _waited(context: PlanContext, found: JoinRow) -> Waited:
    """The join, with what only it needed; with its likely part of what it shares, since pairs take long."""
    known, is_partial = context.waited_for_join(found)
    likely = context.view.likely_wall_of(found.node_id)
    return Waited(likely, True) if is_partial and likely > (known or 0) else Waited(known, is_partial)


def _cartesian_pairs(context: PlanContext, found: JoinRow) -> int:
    """A lower bound; a task recomputes its partitions of both sides and counts their rows, unless a shuffle did."""
    if found.left_rows is not None and found.right_rows is not None:
        return found.left_rows * found.right_rows
    left, right = (*(_counted(context, side) for side in context.plan.children.get(found.node_id, ())), 0, 0)[:2]
    out = context.plan.metrics(context.plan.nodes[found.node_id]).get(OUTPUT_ROWS)
    stages = [] if out is None or out.max_stage is None else context.stages([out.max_stage])
    tasks = sum(stage.tasks for stage in stages)
    return max(left * right // tasks if tasks else 0, found.output_rows or 0)


def _counted(context: PlanContext, node_id: int) -> int:
    """The rows that the nearest operator counted, from a side of a join down; 0: none did."""
    below: Sequence[int] = [node_id]
    while len(below) == 1:
        shuffle = context.shuffles.get(below[0])
        counted = (
            context.plan.total(context.plan.nodes[below[0]], OUTPUT_ROWS) if shuffle is None else shuffle.rows_written
        )
        if counted is not None:
            return counted
        below = context.plan.children.get(below[0], ())
    return 0


HEURISTIC = Heuristic(
    "nested-loop-join", evaluate, "the join, with [what only it needed](cost.md#what-a-join-needed)", needs_whole=False
)
