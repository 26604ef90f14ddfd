"""A MERGE, UPDATE or DELETE that wrote mostly rows which it did not change."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text, percent_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext, Waited
from joinsight.plan.rewritten import Rewritten, rewritten


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """By what the table format counted."""
    found = rewritten(context.plan)
    limits = context.limits
    if found is None or found.copied_rows < limits.rewritten_rows or found.share < limits.rewritten_share:
        return
    size = f", in files of {bytes_text(found.added_bytes)}" if found.added_bytes else ""
    evidence = {
        "copied_rows": found.copied_rows,
        "written_rows": found.written_rows,
        "deleted_rows": found.deleted_rows,
        "share": found.share,
    }
    yield Finding(
        HEURISTIC.id,
        "warning",
        f"{percent_text(found.share)} of the rows that it wrote were copied without change: {found.copied_rows:,} of"
        f" {found.written_rows:,}{size}.",
        evidence if found.added_bytes is None else evidence | {"added_bytes": found.added_bytes},
        "The table replaces whole files for single rows. Have it mark rows as deleted instead, which reads then merge:"
        " delta.enableDeletionVectors = true for Delta Lake, write.merge.mode, write.update.mode and write.delete.mode"
        " = merge-on-read for Iceberg. Or let fewer files have matches: cluster or partition the table by what the"
        " condition compares, and write smaller files.",
        found.node_id,
        impact_bytes=None if found.added_bytes is None else round(found.added_bytes * found.share),
        waited=_waited(context, found),
    )


def _waited(context: PlanContext, found: Rewritten) -> Waited:
    """Writing: as Delta Lake measured it, else the stage that wrote."""
    if found.rewrite_ms is not None:
        return Waited(found.rewrite_ms)
    below = [found.counted_at]
    for node_id in below:  # the nearest operator that tasks measured
        measured = context.plan.metrics(context.plan.nodes[node_id]).values()
        stages = {each.max_stage for each in measured if each.max_stage is not None}
        if stages:
            return context.waited_for_stages(stages)
        below += context.plan.children.get(node_id, ())
    return Waited()


HEURISTIC = Heuristic(
    "rewritten-rows", evaluate, "rewriting the files, as the table format measured it, else the stage that wrote them"
)
