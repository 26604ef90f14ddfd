"""Problems of a streaming query: what each micro-batch repeats, what only grows, what is too slow.

They show over its micro-batches: each tenth is compared with those before it in the same run of the query, which a
`History` knows. What the function of a micro-batch computes again shows in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from joinsight.analysis.micro_batches import computed_again
from joinsight.base.units import bytes_text, duration_text, first_up, times
from joinsight.findings.batch import STATE_BYTES, STATE_ROWS, CompletedBatch
from joinsight.findings.finding import Finding, Heuristic, PlanContext, Waited
from joinsight.findings.phrases import join as named
from joinsight.findings.phrases import rows as rows_text
from joinsight.plan import operators
from joinsight.plan.metrics import PlanMetrics
from joinsight.tables import JoinRow
from joinsight.verdict.driver import COMPUTED_AGAIN

EVERY = 10
"""Each tenth micro-batch is compared with others."""
_LEAST_BATCHES = EVERY - 1
"""That must be known before it: the tenth of a run is the first one that is compared."""
_WATERMARK = "EventTimeWatermark"
_FILES = re.compile(r"Location: \w+\(\d+ paths\)\[[^\]]*/(part-|[^/\]]+\.\w+[,\]])")
"""The location of a scan that names files, of which Spark prints the start."""
_MOST_READ = 10_000
"""Characters of a scan: searching takes quadratic time, and a document may hold anything."""
_IDLE_SHARE = 0.2
"""A micro-batch was in time if this share of the time until the start of the next one was left."""
_LEAST_IN_TIME = 3
_OFF = 0.15
"""How far the time between two starts may be from a multiple of the trigger's interval, as a share of it."""
_MUCH_LONGER = 1.5
"""The median of the later micro-batches to that of the earlier ones."""


def _batches(context: PlanContext) -> Sequence[CompletedBatch]:
    """Those before it, the latest first; empty if it is not compared, or too few are known."""
    e = context.execution
    if e.streaming_batch_id is None or e.streaming_batch_id % EVERY != EVERY - 1 or e.is_outer or not e.query_shape:
        return ()
    found = context.batches
    return found if len(found) >= _LEAST_BATCHES else ()


# A static side


def static_side(context: PlanContext) -> Iterator[Finding]:
    """A side of a join that is not of the stream, which each micro-batch shuffles or broadcasts again."""
    batches = _batches(context) if context.rows.joins else ()
    if not batches:
        return
    whole = (context.execution.duration_ms or 0) + sum(batch.duration_ms for batch in batches)
    for join in context.rows.joins:
        for side, exchange in (("left", join.left_exchange), ("right", join.right_exchange)):
            if exchange is None or not _is_static(context, join, side, batches):
                continue
            node = context.plan.nodes[exchange]
            key = context.view.keys[exchange]
            now = sum(s.end_ms - s.start_ms for s in context.rows.segment if s.node_id == exchange)
            all_ms = now + sum(batch.made_ms.get(key, 0) for batch in batches)
            if all_ms < max(context.limits.wall_ms, context.limits.wall_share * whole):
                continue
            is_broadcast = operators.is_broadcast(node.name)
            rows, size = (join.left_rows, join.left_bytes) if side == "left" else (join.right_rows, join.right_bytes)
            amounts = [*([] if rows is None else [rows_text(rows)]), *([] if size is None else [bytes_text(size)])]
            share = f"{100 * all_ms / max(1, whole):.0f} %"
            number = 1 + len(batches)
            verb = "broadcasts" if is_broadcast else "shuffles"
            yield Finding(
                STATIC_SIDE.id,
                "warning",
                f"{first_up(named(join))} {verb} its {side} side, which is not of the stream, in each micro-batch:"
                f" {duration_text(all_ms)} in the last {number}, {share} of their time"
                + (f" ({', '.join(amounts)})." if amounts else "."),
                {"batches": number, "batches_made_ms": all_ms, "batches_ms": whole, "is_broadcast": int(is_broadcast)}
                | ({} if rows is None else {"rows": rows})
                | ({} if size is None else {"bytes": size}),
                (
                    "Read and compute it once: persist() it before the query starts, with the columns and rows that the"
                    " join needs, and refresh it from foreachBatch if it changes."
                )
                + ("" if is_broadcast else " If it fits, give it the hint BROADCAST: the stream is not shuffled then."),
                exchange,
                key,
                waited=Waited(now),
            )


def _is_static(context: PlanContext, join: JoinRow, side: str, batches: Sequence[CompletedBatch]) -> bool:
    """By the scans beneath. Files of a stream look like others, but the rows of a static side stay the same, and a
    micro-batch reads files, not folders."""
    plan = context.plan
    left, right = (*plan.inputs(plan.nodes[join.node_id])[:2], -1, -1)[:2]
    own, other = (left, right) if side == "left" else (right, left)
    if own < 0 or other < 0:
        return False
    if any(_is_stream(node.name) for node in plan.graph.nodes):
        return not _has_stream(context, own) and _has_stream(context, other)
    sides = [rows for batch in batches if (rows := batch.sides.get(join.operator_key or "")) is not None]
    sides.append((join.left_rows, join.right_rows))
    its, others = (({rows[i] for rows in sides}) for i in ((0, 1) if side == "left" else (1, 0)))
    if len(sides) <= _LEAST_BATCHES or None in its or len(its) > 1:
        return False
    return len(others) > 1 or (_reads_files(context, other) and not _reads_files(context, own))


def _reads_files(context: PlanContext, node_id: int) -> bool:
    nodes = (context.plan.nodes[node_id], *context.view.below(node_id))
    return any(_FILES.search(node.simple[:_MOST_READ]) for node in nodes if operators.of(node.name).kind == "scan")


def _is_stream(name: str) -> bool:
    return operators.of(name).source_name == "stream"


def _has_stream(context: PlanContext, node_id: int) -> bool:
    nodes = (context.plan.nodes[node_id], *context.view.below(node_id))
    return any(_is_stream(node.name) for node in nodes)


# State


def state(context: PlanContext) -> Iterator[Finding]:
    """State without a watermark, which has more rows after each micro-batch."""
    plan = context.plan
    total = state_rows(plan)
    if total is None or total < context.limits.stream_state_rows:
        return
    if any(node.name.startswith(_WATERMARK) for node in plan.graph.nodes):
        return
    batches = _batches(context)
    known = [total, *(batch.state_rows for batch in batches)]
    if not batches or any(older is None or newer is None or older >= newer for newer, older in pairwise(known)):
        return
    first = known[-1] or 0
    size = _sum(plan, STATE_BYTES)
    each = (total - first) / len(batches)
    node = max(
        (node for node in plan.graph.nodes if STATE_ROWS in plan.metrics(node)),
        key=lambda node: plan.total(node, STATE_ROWS) or 0,
    )
    yield Finding(
        STATE.id,
        "warning",
        f"The state of {node.name} grew in each of the last {len(batches)} micro-batches, from {rows_text(first)} to"
        f" {rows_text(total)}" + (f" ({bytes_text(size)} in memory)." if size else "."),
        {"state_rows": total, "earlier_rows": first, "batches": len(batches), "rows_a_batch": round(each, 1)}
        | ({"state_bytes": size} if size else {}),
        "Without a watermark, no row is ever removed: add withWatermark on the event time and use it in the grouping"
        " or join, or a timeout (TTL) of the state. If the number of keys is limited, it ends by itself.",
        node.id,
        context.view.keys.get(node.id),
        impact_bytes=size,
    )


def state_rows(plan: PlanMetrics) -> int | None:
    """Rows of all state of a plan; None: it has none."""
    return _sum(plan, STATE_ROWS)


def _sum(plan: PlanMetrics, name: str) -> int | None:
    known = [value for node in plan.graph.nodes if (value := plan.total(node, name)) is not None]
    return sum(known) if known else None


# Time


def behind(context: PlanContext) -> Iterator[Finding]:
    """Micro-batches that take longer than the interval of their trigger, or grow because more arrives meanwhile."""
    batches = _batches(context)
    if not batches:
        return
    spaces = [(newer.started_at - older.started_at).total_seconds() * 1000 for newer, older in pairwise(batches)]
    own = list(zip(spaces, batches[1:], strict=True))
    own = [(space, batch) for space, batch in own if space > 0]
    late = [batch for space, batch in own if space - batch.duration_ms < _IDLE_SHARE * space]
    in_time = [space for space, batch in own if space - batch.duration_ms >= _IDLE_SHARE * space]
    usual = round(median(batch.duration_ms for batch in batches))
    interval = _interval(in_time)
    if interval is not None:
        late = [batch for batch in late if batch.duration_ms > interval]
        if 2 * len(late) > len(own):
            yield _behind(
                f"{len(late)} of {len(own)} micro-batches took longer than the trigger's interval, about"
                f" {duration_text(interval)}: the median took {duration_text(usual)}.",
                {"batches": len(own), "late_batches": len(late), "interval_ms": interval, "duration_ms_median": usual},
                context,
            )
    elif not in_time and usual >= context.limits.wall_ms:
        half = len(batches) // 2
        later, earlier = batches[:half], batches[half:]
        longer, more = (_growth(later, earlier, of) for of in (_duration, _task_time))
        if longer >= _MUCH_LONGER and more >= _MUCH_LONGER:
            yield _behind(
                f"Micro-batches follow one another without a pause and become longer: the median of the last {half}"
                f" took {times(longer)} as long as that of the {len(earlier)} before. More seems to arrive while one"
                " runs than it processes.",
                {"batches": len(batches), "growth_ratio": round(longer, 2), "duration_ms_median": usual},
                context,
            )


def _interval(in_time: Sequence[float]) -> int | None:
    """What the times between the starts of those in time are multiples of; None: they have no trigger by time."""
    if len(in_time) < _LEAST_IN_TIME:
        return None
    least = min(in_time)
    is_regular = all(abs(space / least - round(space / least)) <= _OFF for space in in_time)
    return round(least) if is_regular else None


def _duration(batch: CompletedBatch) -> int:
    return batch.duration_ms


def _task_time(batch: CompletedBatch) -> int:
    return batch.task_time_ms


def _growth(
    later: Sequence[CompletedBatch], earlier: Sequence[CompletedBatch], of: Callable[[CompletedBatch], int]
) -> float:
    return median(map(of, later)) / max(1.0, median(map(of, earlier)))


def _behind(title: str, evidence: Mapping[str, float], context: PlanContext) -> Finding:
    return Finding(
        BEHIND.id,
        "warning",
        title,
        evidence,
        "Look at the verdict of a micro-batch: what takes longest there. Else give the query more cores, or limit what"
        " a micro-batch reads (maxFilesPerTrigger, maxOffsetsPerTrigger), so that it does not grow without an end.",
        waited=Waited(context.execution.duration_ms),
    )


# Executions of one micro-batch


def recomputed(context: PlanContext) -> Iterator[Finding]:
    """A micro-batch whose function runs several executions, each of which computes its rows."""
    stored, whole = context.view.stored, context.execution.duration_ms or 0
    if context.execution.streaming_batch_id is None or len(stored.waited_itself) < 2:
        return
    spent = computed_again(replace(stored, nested=context.history.started(context.execution)))
    if not spent:
        return
    again = sum(spent.values()) - max(spent.values())
    yield Finding(
        RECOMPUTED.id,
        "warning",
        f"{len(spent)} executions of the function of the micro-batch computed its rows: all but the longest took"
        f" {duration_text(again)}, {100 * again / max(1, whole):.0f} % of its time.",
        {"executions": len(spent), "longest_ms": max(spent.values())},
        COMPUTED_AGAIN,
        waited=Waited(again),
    )


STATIC_SIDE = Heuristic(
    "stream-static-side",
    static_side,
    "the stages that made the rows of that side, and its broadcast, in this micro-batch",
    is_about_time=False,
)
STATE = Heuristic("stream-state", state, "unknown: it is about micro-batches to come", is_about_time=False)
BEHIND = Heuristic("stream-behind", behind, "the micro-batch", is_about_time=False)
RECOMPUTED = Heuristic("stream-recomputed", recomputed, "all executions that computed its rows but the longest")
HEURISTICS = (STATIC_SIDE, STATE, BEHIND, RECOMPUTED)
