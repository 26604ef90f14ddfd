"""A broadcast that grows and is near the size from which on Spark joins otherwise, or one near Spark's limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from joinsight.analysis.rows import max_broadcast_bytes
from joinsight.base.units import bytes_text, first_up, percent_text, times
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import join, rows
from joinsight.plan import operators
from joinsight.plan.broadcastable import max_rows
from joinsight.plan.operators import FILES_SIZE
from joinsight.tables import BroadcastRow, JoinRow


@dataclass(frozen=True, slots=True)
class _Growth:
    runs: int
    median: float
    ratio: float


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Compares what Spark compares: what a shuffle counted, or, as the most that the estimate can be, its files."""
    for broadcast in context.rows.broadcast:
        used_by = [found for node in broadcast.join_nodes or () if (found := context.joins.get(node))]
        if broadcast.outcome == "succeeded" and used_by:
            yield from _near_the_end(context, broadcast, used_by[0])
            yield from _near_threshold(context, broadcast, used_by[0])


def _near_the_end(context: PlanContext, broadcast: BroadcastRow, used_by: JoinRow) -> Iterator[Finding]:
    known = [
        (amount / most, text(amount), name, amount)
        for name, amount, most, text in (
            (
                "size_bytes",
                broadcast.size_bytes,
                max_broadcast_bytes(context.execution.configuration or {}),
                bytes_text,
            ),
            ("rows", broadcast.rows, max_rows(broadcast.mode), rows),
        )
        if amount is not None and most
    ]
    share, text, name, amount = max(known, default=(0, "", "", 0))
    if not known or share < context.limits.broadcast_near_share:
        return
    yield Finding(
        HEURISTIC.id,
        "critical",
        f"The broadcast for {join(used_by)} has {text}, {percent_text(share)} of the most that Spark can broadcast:"
        " beyond it, the query fails.",
        {name: amount, "share": share},
        "Remove the broadcast hint, or lower spark.sql.autoBroadcastJoinThreshold, so that this join is"
        " shuffled; or filter the broadcast side and select fewer columns before the join.",
        broadcast.node_id,
        broadcast.operator_key,
        impact_bytes=broadcast.size_bytes,
        waited=context.waited_for_exchanges([broadcast]),
    )


def _near_threshold(context: PlanContext, broadcast: BroadcastRow, used_by: JoinRow) -> Iterator[Finding]:
    counted, files = broadcast.shuffled_bytes, _files_bytes(context, broadcast.node_id)
    size = files if counted is None else counted
    threshold = context.execution.broadcast_threshold_bytes if counted is None else broadcast.threshold_bytes
    if size is None or threshold is None or threshold <= 0 or size < context.limits.broadcast_near_share * threshold:
        return
    growth = _growth(context, broadcast)
    if growth is None:
        return
    evidence: dict[str, float] = {"threshold_bytes": threshold, "share": size / threshold}
    if broadcast.rows is not None:
        evidence["rows"] = broadcast.rows
    evidence["shuffled_bytes" if files is None or counted is not None else "files_bytes"] = size
    what = f"The broadcast for {join(used_by)} has {bytes_text(size)}"
    if counted is None:
        what = f"The files that are broadcast for {join(used_by)} have {bytes_text(size)}"
    what += f", {percent_text(size / threshold)} of the threshold of {bytes_text(threshold)}"
    evidence |= {"earlier_runs": growth.runs, "earlier_rows": growth.median, "growth_ratio": growth.ratio}
    what += f", and its rows are {times(growth.ratio)} the median of {growth.runs} earlier runs"
    if "broadcast" in (used_by.hint or ""):
        advice = (
            "A hint makes Spark broadcast it at any size, until the driver or an executor runs out of memory."
            " Remove the hint, so that the threshold decides, or make sure that this side does not grow further."
        )
    else:
        advice = (
            "Above the threshold Spark shuffles both sides. If the executors have enough memory, raise"
            " spark.sql.autoBroadcastJoinThreshold now, or give this side the hint BROADCAST; otherwise filter it"
            " before the join."
        )
    yield Finding(
        HEURISTIC.id,
        "warning",
        f"{first_up(what)}.",
        evidence,
        advice,
        broadcast.node_id,
        broadcast.operator_key,
        waited=context.waited_for_exchanges([broadcast]),
    )


def _files_bytes(context: PlanContext, node_id: int) -> int | None:
    """Size of the files whose rows are broadcast, only filtered and cut; None if they are not all from one scan."""
    while True:
        below = context.plan.children.get(node_id, ())
        if len(below) != 1:
            return None
        node_id = below[0]
        node = context.plan.nodes[node_id]
        size = context.plan.total(node, FILES_SIZE)
        if size is not None or not _keeps_to_files(node.name):
            return size


def _keeps_to_files(name: str) -> bool:
    operator = operators.of(name)
    return operator.is_wrapper or operator.kind in ("filter", "project")


def _growth(context: PlanContext, broadcast: BroadcastRow) -> _Growth | None:
    """How its rows have grown; None if they have not, or if too few runs are known."""
    if broadcast.rows is None or broadcast.operator_key is None:
        return None
    earlier = context.history.broadcast_rows(broadcast.operator_key, context.execution)
    usual = median(earlier) if earlier else 0
    if len(earlier) < context.limits.broadcast_growth_runs or usual <= 0:
        return None
    ratio = broadcast.rows / usual
    return _Growth(len(earlier), usual, ratio) if ratio >= context.limits.broadcast_growth_ratio else None


HEURISTIC = Heuristic("broadcast-near-threshold", evaluate, "the broadcast", is_about_time=False)
