"""A cached table that this execution filled, though an earlier one had filled as much of it."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import duration_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.verdict.driver import FILLED_AGAIN, is_filled_again


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """One for each cached table; an execution that reads a part of it fills only that part."""
    for cache in context.rows.cache:
        took = cache.fill_task_ms
        if not took:
            continue
        earlier = context.history.fills(context.execution, cache.cache_id)
        if not is_filled_again(earlier, took):
            continue
        what = f"The cached table {cache.table_name}" if cache.table_name else "A cached table"
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{what} was filled again, in {duration_text(took)} of task time; before that, in"
            f" {duration_text(max(earlier))}.",
            {"filled_ms": took, "filled_before_ms": max(earlier), "fills": 1 + len(earlier)},
            FILLED_AGAIN,
            cache.node_id,
            impact_ms=took,
            waited=context.waited_for_stages(cache.fill_stages or ()),
        )


HEURISTIC = Heuristic("cache-filled-again", evaluate, "the stages that filled the cache, while their tasks ran")
