"""A broadcast of the larger side of a join: more rows went through the driver than the other side has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from joinsight.base.units import bytes_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import join, rows
from joinsight.plan.operators import BROADCAST_HASH_JOIN, JOIN_TYPES
from joinsight.tables import JoinRow

_NULL_AWARE = "LeftAnti, BuildRight, true"
_EITHER_SIDE = {str(kind) for kind, sides in JOIN_TYPES.items() if len(sides) > 1}


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Sizes decide. Much time proves nothing: a driver may wait for its turn."""
    for broadcast in context.rows.broadcast:
        used_by = [found for node in broadcast.join_nodes or () if (found := context.joins.get(node))]
        others = [_other_rows(found) for found in used_by]
        size, sent, took = broadcast.size_bytes, broadcast.rows, broadcast.driver_ms
        if size is None or sent is None or took is None or not used_by or None in others:
            continue
        if broadcast.consumers != len(used_by):
            continue  # it prunes partitions too, and may have saved their reading
        other = sum(each or 0 for each in others)
        if size < context.limits.broadcast_bytes or sent < context.limits.broadcast_not_worth_ratio * max(other, 1):
            continue
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"The broadcast for {join(used_by[0])} has {rows(sent)}, {bytes_text(size)} in memory; the other side has"
            f" {rows(other)}.",
            {"size_bytes": size, "rows": sent, "other_rows": other, "ratio": sent / max(other, 1), "driver_ms": took},
            f"All of it goes through the driver and into the memory of each executor. {_instead(context, used_by)}",
            broadcast.node_id,
            broadcast.operator_key,
            impact_bytes=size,
            waited=context.waited_for_exchanges([broadcast]),
        )


def _instead(context: PlanContext, used_by: Sequence[JoinRow]) -> str:
    """What else to do: Spark preserves the rows of one side of an outer or anti join, and compares NOT IN with NULL."""
    if any(_NULL_AWARE in context.plan.nodes[each.node_id].simple for each in used_by):
        return (
            "NOT IN has to compare with NULL, which Spark can only do with a broadcast: use NOT EXISTS, or filter both"
            " sides by IS NOT NULL, and Spark can shuffle the join."
        )
    kind = next((each.join_type for each in used_by if each.join_type and each.join_type not in _EITHER_SIDE), None)
    other = (
        "Broadcast the other side"
        if kind is None
        else f"A {kind} join cannot broadcast the other side: keep only the rows of this one whose key that side has (a"
        " left semi join before it)"
    )
    return (
        f"{other}, or have this join shuffled, which may be faster: add the hint MERGE or SHUFFLE_HASH, remove the hint"
        " BROADCAST, or lower spark.sql.autoBroadcastJoinThreshold."
    )


def _other_rows(join: JoinRow) -> int | None:
    """Rows of the side that is not broadcast; None if they were not measured, or it cannot be joined by shuffles."""
    if join.strategy != BROADCAST_HASH_JOIN or join.build_side is None:
        return None
    return join.right_rows if join.build_side == "left" else join.left_rows


HEURISTIC = Heuristic("broadcast-not-worth-it", evaluate, "the broadcast")
