"""A MERGE, UPDATE or DELETE that read all files of its table, to change rows of few of them."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext, Waited
from joinsight.plan.table_files import table_files

_SCAN_MS = "time taken to scan the files for matches"


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """By what the table format counted; one that says nothing of files that it left out may have left out some."""
    found = table_files(context.plan)
    limits = context.limits
    if found is None or not found.removed or found.read is None or found.skipped != 0:
        return  # rows may also be marked as deleted, in any number of files
    if found.read < limits.unpruned_files or found.removed > limits.unpruned_share * found.read:
        return
    size = "" if found.read_bytes is None else f", {bytes_text(found.read_bytes)},"
    evidence: dict[str, float] = {"read_files": found.read, "removed_files": found.removed}
    yield Finding(
        HEURISTIC.id,
        "warning",
        f"All {found.read:,} files of the table{size} were read to find rows that are in {found.removed:,} of them.",
        evidence if found.read_bytes is None else evidence | {"read_bytes": found.read_bytes},
        "Have the format leave files out: name the table's partition or clustering columns in the condition, with"
        " literals, or cluster the table by what the condition compares.",
        impact_bytes=found.read_bytes,
        waited=_waited(context),
    )


def _waited(context: PlanContext) -> Waited:
    """Looking for rows: as Delta Lake measured it, else the stages that read the files."""
    stages = set()
    for node in context.plan.graph.nodes:
        metrics = context.plan.metrics(node)
        if _SCAN_MS in metrics and metrics[_SCAN_MS].sum is not None:
            return Waited(metrics[_SCAN_MS].sum)
        if "number of result data files" in metrics:
            stages |= {each.max_stage for each in metrics.values() if each.max_stage is not None}
    return context.waited_for_stages(stages) if stages else Waited()


HEURISTIC = Heuristic(
    "unpruned-files", evaluate, "looking for the rows, as the table format measured it, else the stages that read files"
)
