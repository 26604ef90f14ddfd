"""Shuffles and broadcasts, and joins that need none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.texts import join_text
from joinsight.verdict import names
from joinsight.verdict.cause import MB, MUCH_OF_STAGE, Cause, rows_text, stage_of
from joinsight.verdict.memory import spilling_ms
from joinsight.verdict.view import View, needs_keys
from joinsight.verdict.work import is_of_all_rows, sort_advice

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
        sort = sorted_by(view, node)
        if sort is not None:
            yield _global_sort(view, sort, node, written)
            continue
        is_needless = _is_needless(view, node)
        yield Cause(
            "shuffle",
            view.wall_of((node.id,)) + (_more_blocks_ms(view, node) if is_needless else 0),
            (node.id,),
            f"{names.operator(view, node.id)} wrote and read {bytes_text(written)}"
            + (", which nothing after it needs" if is_needless else ""),
            "Remove this repartition, unless it evens out partitions of very different sizes."
            if is_needless
            else _shuffle_advice(view, node),
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


def sorted_by(view: View, shuffle: Node) -> Node | None:
    """The sort of all rows (ORDER BY) for which Spark shuffles by ranges; None: it shuffles for something else."""
    if "rangepartitioning" not in shuffle.simple or "REPARTITION" in shuffle.simple:
        return None
    above = next((view.plan.nodes[i] for i in view.above(shuffle.id) if view.is_work(i)), None)
    return above if above is not None and is_of_all_rows(above) else None


def _global_sort(view: View, sort: Node, shuffle: Node, written: int) -> Cause:
    """A sort of all rows, with its shuffle and the stage that samples its ranges, where all below runs once more."""
    known = {*_stages(view, shuffle, "map_stages"), *_stages(view, shuffle, "reduce_stages")}
    its = [(ran, sum(ms for subject, ms in ran.parts.items() if subject.node_id == shuffle.id)) for ran in view.ran]
    sampling = sum(ran.wall_ms - ms for ran, ms in its if ms and known and ran.stage_id not in known)
    wall = view.likely_wall_of(sort.id) + view.wall_of((shuffle.id,)) + sampling
    spilling = sum(spilling_ms(view, ran) for ran in view.ran if sort.id in ran.nodes)
    return Cause(
        "compute",
        wall,
        (sort.id, shuffle.id),
        f"it sorted {rows_text(view.rows(sort.id) or 0)}, and shuffled {bytes_text(written)} for it",
        sort_advice(view, sort),
        {"rows": view.rows(sort.id) or 0, "bytes_written": written, "is_estimate": 0},
        stage_of(view, sort.id),
        certainty=1 - min(1.0, spilling / max(1, wall)),
    )


_FEWER_BYTES = "Shuffle less: filter before it, and select only the columns that are needed"


def _shuffle_advice(view: View, shuffle: Node) -> str:
    """What to do depends on what needs the rows together: an operator above it, or the query."""
    if "REPARTITION" in shuffle.simple:
        return "The query asks for this repartition: remove it if nothing needs it, or filter and aggregate before it."
    for i in view.above(shuffle.id):
        name, kind = view.plan.nodes[i].name, operators.of(view.plan.nodes[i].name).kind
        if kind == "join":
            return f"{_FEWER_BYTES}; broadcast the smaller side of the join, or store both sides bucketed by its key."
        if kind == "aggregate" or "Window" in name or operators.is_python(name):
            return f"{_FEWER_BYTES}; or store the data bucketed by the key."
        if view.is_work(i) and kind not in ("filter", "project", "sort"):
            break
    return f"{_FEWER_BYTES}."


def _is_needless(view: View, shuffle: Node) -> bool:
    """Whether a query asks for a repartition that spreads no work, and whose rows are then shuffled once more."""
    if "REPARTITION_BY" not in shuffle.simple:
        return False
    before = min((ran.tasks for ran in view.ran if ran.stage_id in _stages(view, shuffle, "map_stages")), default=0)
    after = [view.plan.nodes[i] for i in view.above(shuffle.id)]
    is_shuffled = any(operators.of(node.name).kind == "shuffle" for node in after)
    return before >= (view.slots or 2) and is_shuffled and not any(_makes_use(node, shuffle) for node in after)


def _more_blocks_ms(view: View, repartition: Node) -> int:
    """What the next shuffle takes longer because more tasks write it after a needless repartition than before it.

    Each writes a block for each partition, which takes as long if it is small.
    """
    ran = next((ran for ran in view.ran if ran.stage_id in _stages(view, repartition, "reduce_stages")), None)
    before = [each.tasks for each in view.ran if each.stage_id in _stages(view, repartition, "map_stages")]
    if ran is None or ran.tasks <= min(before) or ran.number("run_time_ms_max") >= MUCH_OF_STAGE * ran.wall_ms:
        return 0
    return round(view.block_ms(ran) * (1 - min(before) / ran.tasks))


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
