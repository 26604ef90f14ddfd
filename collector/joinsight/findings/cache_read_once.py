"""A cached table that was filled by this execution and read by it once.

Later executions may read it: `while_only_reader` has the store remove the finding then.
"""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import duration_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import rows

ID = "cache-read-once"


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """One for each cached table that it filled."""
    for cache in context.rows.cache:
        took = cache.fill_task_ms
        if cache.scans > 1 or took is None:
            continue
        what = f"The cached table {cache.table_name}" if cache.table_name else "A cached table"
        yield Finding(
            ID,
            "info",
            f"{what} was filled here in {duration_text(took)} of task time, and read here once"
            + (f" ({rows(cache.rows_read)})." if cache.rows_read is not None else "."),
            {"filled_ms": took, **({} if cache.rows_read is None else {"rows_read": cache.rows_read})},
            "Unless a later query of this application reads it, caching only adds cost: remove cache(), persist() or"
            " CACHE TABLE. This finding goes away when another query reads it.",
            cache.node_id,
            impact_ms=took,
            waited=context.waited_for_stages(cache.fill_stages or ()),
        )


HEURISTIC = Heuristic(
    ID,
    evaluate,
    "the stages that filled the cache, while their tasks ran",
    while_only_reader=True,
    unless=("cache-filled-again",),
)
