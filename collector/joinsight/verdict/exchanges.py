"""Shuffles and broadcasts, and joins that need none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.texts import join_text
from joinsight.verdict import names
from joinsight.verdict.cause import MB, Cause, rows_text, stage_of
from joinsight.verdict.view import View, needs_keys

_MOST_ROWS = 0.5
"""Share of the rows that are read which a broadcast has, where it is little but read."""
_LEAST_ROWS = 0.1
"""Share of the rows of the largest source, below which what a broadcast reads is not too much to send."""
_SMALL_SIDE = 10 * MB
"""Spark's default of spark.sql.autoBroadcastJoinThreshold."""
_MUCH_LARGER = 4


def exchanges(view: View) -> Iterator[Cause]:
    """Shuffles and broadcasts: their bytes, writing, sending, waiting."""
    for node in view.of_kind("shuffle"):
        written = view.plan.total(node, "shuffle bytes written") or 0
        is_needless = _is_needless(view, node)
        yield Cause(
            "shuffle",
            view.wall_of((node.id,)),
            (node.id,),
            f"{names.operator(view, node.id)} wrote and read {bytes_text(written)}"
            + (", which nothing after it needs" if is_needless else ""),
            "Remove this repartition, unless it evens out partitions of very different sizes."
            if is_needless
            else "Shuffle less: filter, project and aggregate before it, broadcast the smaller side of the join, or"
            " store the data bucketed by the key.",
            {"bytes_written": written, "rows": view.rows(node.id) or 0, "is_needless": int(is_needless)},
            stage_of(view, node.id),
            is_place=not is_needless,
            beside=_stages(view, node, "reduce_stages") if is_needless else (),
        )
    for node in view.of_kind("broadcast"):
        size = view.plan.total(node, "data size") or 0
        rows = view.rows(node.id) or 0
        times = {name: view.plan.total(node, f"time to {name}") or 0 for name in ("collect", "build", "broadcast")}
        taken = ", ".join(f"{duration_text(ms)} to {name}" for name, ms in times.items() if ms)
        yield Cause(
            "broadcast",
            view.wall_of((node.id,)),
            (node.id,),
            f"{names.operator(view, node.id)} has {bytes_text(size)} ({rows_text(rows)})"
            + (f", {taken}" if taken else ""),
            "Broadcast fewer rows and columns; or let Spark shuffle this join, which may be faster: remove the"
            " broadcast hint, or lower spark.sql.autoBroadcastJoinThreshold.",
            {"bytes": size, "rows": rows, **{f"{name}_ms": ms for name, ms in times.items()}},
            seen_ms=_made_for(view, node.id) if _only_sends(view, node) else 0,
        )


def _is_needless(view: View, shuffle: Node) -> bool:
    """Whether a query asks for a repartition that spreads no work, and whose rows are then shuffled once more."""
    if "REPARTITION_BY" not in shuffle.simple:
        return False
    before = min((ran.tasks for ran in view.ran if ran.stage_id in _stages(view, shuffle, "map_stages")), default=0)
    after = [view.plan.nodes[i] for i in view.above(shuffle.id)]
    is_shuffled = any(operators.of(node.name).kind == "shuffle" for node in after)
    return before >= (view.slots or 2) and is_shuffled and not any(_makes_use(node, shuffle) for node in after)


def _stages(view: View, shuffle: Node, which: str) -> Sequence[int]:
    return next((row[which] or () for row in view.stored.shuffles if row["node_id"] == shuffle.id), ())


def _makes_use(node: Node, shuffle: Node) -> bool:
    """Whether an operator depends on how the rows of a repartition before it are distributed."""
    kind = operators.of(node.name).kind
    if kind in ("write", "cached_scan"):
        return True
    return "hashpartitioning" in shuffle.simple and needs_keys(node)


def small_sides(view: View) -> Iterator[Cause]:
    """A join has both sides shuffled, though one is small: its shuffles and sorts, of which a broadcast needs none."""
    for join in view.breakdown.joins:
        node = view.plan.nodes[join.node_id]
        text = join_text(node.name, node.simple)
        if text is None or text.join_type is None or operators.of(text.strategy).is_broadcast_join:
            continue
        sides = dict(zip(("left", "right"), map(view.plan.fed_by, view.plan.inputs(node)), strict=False))
        allowed = [name for name in operators.JOIN_TYPES[text.join_type] if name in sides]
        small = min(allowed, key=lambda name: sides[name].bytes or math.inf, default=None)
        if small is None or len(sides) < 2:
            continue
        other = sides["left" if small == "right" else "right"]
        size = sides[small].bytes
        if (
            not size
            or size > _SMALL_SIDE
            or sides[small].exchange is None
            or other.exchange is None
            or (other.bytes or 0) < _MUCH_LARGER * size
        ):
            continue
        stage = stage_of(view, node.id)
        yield Cause(
            "shuffle",
            sum(map(view.likely_wall_of, join.needed)),
            (other.exchange, node.id),
            f"{names.operator(view, node.id)} shuffled {bytes_text(other.bytes or 0)}, though its {small} side"
            f" has only {bytes_text(size)}",
            _advice_of_finding(view, node.id)
            or f"Broadcasting its {small} side may be faster: remove hints that force another join (MERGE,"
            " SHUFFLE_HASH), give it the hint BROADCAST, or raise spark.sql.autoBroadcastJoinThreshold if it is lower.",
            {"small_bytes": size, "other_bytes": other.bytes or 0},
            stage,
            is_place=not _is_forced(view, size),
            beside=(stage,) if _is_switched_off(view) else (),
        )


def _advice_of_finding(view: View, node_id: int) -> str | None:
    """What the finding on this join says, which knows its hint and what AQE did."""
    its = (row for row in view.stored.findings if (row["finding"], row["node_id"]) == ("missed-broadcast", node_id))
    return next((row["advice"] for row in its), None)


def _is_switched_off(view: View) -> bool:
    """Whether the session broadcasts nothing by itself."""
    threshold = view.execution["broadcast_threshold_bytes"]
    return threshold is not None and threshold < 0


def _is_forced(view: View, size: int) -> bool:
    """Whether Spark would have broadcast a side of this size, once AQE knew it: a hint forces another join."""
    threshold = view.execution["broadcast_threshold_bytes"]
    return bool(view.execution["is_adaptive"]) and threshold is not None and size <= threshold


def _made_for(view: View, broadcast: int) -> int:
    """The time on the path of the stages that make its rows, and of the driver for it."""
    return sum(s["end_ms"] - s["start_ms"] for s in view.stored.segments if s["node_id"] == broadcast)


def _only_sends(view: View, broadcast: Node) -> bool:
    """Whether what is below a broadcast does little but read its rows, which are many."""
    read = 0
    for node in view.below(broadcast.id):
        if operators.of(node.name).kind in ("join", "aggregate", "shuffle"):
            return False
        read = max(read, view.rows(node.id) or 0)
    rows, most = (
        view.rows(broadcast.id) or 0,
        max((view.rows(node.id) or 0 for node in view.of_kind("scan")), default=0),
    )
    return rows >= _MOST_ROWS * read and rows >= _LEAST_ROWS * most
