"""A join whose sides were both shuffled though one was measured at or under the broadcast threshold."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text, first_up
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import join
from joinsight.tables import JoinRow


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Goes by `broadcast_verdict`, which is one of these only for sizes that were measured and are whole."""
    for found in context.rows.joins:
        if found.broadcast_verdict not in ("possible", "hinted"):
            continue
        is_left = found.broadcast_side == "left"
        size, other = found.broadcast_side_bytes, found.right_bytes if is_left else found.left_bytes
        if size is None or found.threshold_bytes is None or other is None:
            continue
        shuffle = context.shuffles.get(found.right_exchange if is_left else found.left_exchange)
        costs = found.sort_ms or 0
        if shuffle is not None:
            costs += (shuffle.write_time_ns or 0) // 1_000_000 + (shuffle.fetch_wait_ms or 0)
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(join(found))} shuffled {bytes_text(other)}, though its {found.broadcast_side} side has only"
            f" {bytes_text(size)} and up to {bytes_text(found.threshold_bytes)} may be broadcast.",
            {"side_bytes": size, "threshold_bytes": found.threshold_bytes, "other_side_bytes": other},
            _advice(context, found),
            found.node_id,
            found.operator_key,
            impact_ms=costs or None,
            impact_bytes=shuffle.bytes_written if shuffle else None,
            waited=context.waited_for_join(found),
        )


def _advice(context: PlanContext, found: JoinRow) -> str:
    hint = f"give its {found.broadcast_side} side the hint BROADCAST"
    if "no_broadcast_hash" in (found.hint or ""):
        return (
            "AQE gave it a hint (no_broadcast_hash): more of the side's partitions are empty than"
            f" spark.sql.adaptive.nonEmptyPartitionRatioForBroadcastJoin allows. To broadcast it anyway, {hint}."
        )
    if found.broadcast_verdict == "hinted":
        return _without_hint(found)
    if not context.execution.is_adaptive:
        return (
            "Spark's estimate was larger. Set spark.sql.adaptive.enabled=true, so that Spark replans with measured"
            f" sizes, or {hint}; ANALYZE TABLE improves the estimate."
        )
    return (
        f"Spark's estimate was larger, and AQE did not change the join: {hint}. ANALYZE TABLE improves the"
        " estimate. AQE keeps a sort-merge join if more of the side's partitions are empty than"
        " spark.sql.adaptive.nonEmptyPartitionRatioForBroadcastJoin allows."
    )


_FORCED = {
    "merge": ("MERGE", "a sort-merge join"),
    "shuffle_hash": ("SHUFFLE_HASH", "a shuffled hash join"),
    "shuffle_replicate_nl": ("SHUFFLE_REPLICATE_NL", "a cartesian product"),
}
"""Hints as `joins.hint` has them: as the query writes them, and the join that they force."""


def _without_hint(found: JoinRow) -> str:
    broadcast = f"Spark then broadcasts the {found.broadcast_side} side ({bytes_text(found.broadcast_side_bytes or 0)})"
    name, _, side = (found.hint or "").partition(" ")
    known = _FORCED.get(name)
    if known is None or side not in ("left", "right"):
        return f"Its hints ({found.hint}) force another join. Remove them: {broadcast}."
    return f"The hint {known[0]} on its {side} side forces {known[1]}. Remove it: {broadcast}."


HEURISTIC = Heuristic("missed-broadcast", evaluate, "the join, with [what only it needed](cost.md#what-a-join-needed)")
