"""The causes of a verdict as findings, so that both have the same text, advice and numbers.

Of those that only say where the time went, nothing may be wrong with any: at most the largest is one, where there is no
other finding about time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from joinsight.analysis.table_formats import is_compaction
from joinsight.base.units import first_up
from joinsight.findings.finding import WHOLE_EXECUTION, Finding, Heuristic, PlanContext, Waited
from joinsight.plan import operators
from joinsight.verdict import names
from joinsight.verdict.cause import MUCH_OF_STAGE, Cause, Code
from joinsight.verdict.driver import LARGE_PLAN_OPERATORS, LONG_LIST_VALUES, LONG_TEXT
from joinsight.verdict.view import View, is_heavy

SKEWED_SHUFFLE = "skewed-shuffle"
_LISTING_SHARE = 0.3
EXPLAINED = "what the [verdict](verdict.md#how-it-is-found) says that it explains"


@dataclass(frozen=True, slots=True)
class _Kind:
    id: str
    code: Code
    is_one: Callable[[PlanContext, Cause], bool] = lambda context, cause: not cause.only_says_where
    unless: tuple[str, ...] = ()
    """Findings of these kinds say more."""
    needs_whole: bool = True
    severity: str = "warning"
    while_running: bool = False


def _has_keys(context: PlanContext, cause: Cause) -> bool:
    """Others compare all pairs of rows: nested-loop-join."""
    return not operators.of(context.view.plan.nodes[cause.nodes[0]].name).compares_pairs


def _is_large(context: PlanContext, cause: Cause) -> bool:
    """Much time proves nothing about a small one: a driver may wait for its turn."""
    return float(cause.evidence["bytes"]) >= context.limits.broadcast_bytes


def _waits_for_others(context: PlanContext, cause: Cause) -> bool:
    """Not for other parts of the same compaction, which is what such a command does."""
    return not is_compaction(context.rows.execution.description)


def _is_expensive(context: PlanContext, cause: Cause) -> bool:
    """An operator whose time is known that took long for each row, or has a function that does."""
    return (
        cause.only_says_where
        and bool(cause.nodes)
        and not cause.evidence.get("is_estimate")
        and bool(cause.evidence.get("is_slow") or is_heavy(context.view.plan.nodes[cause.nodes[0]]))
    )


def _is_text(context: PlanContext, cause: Cause) -> bool:
    """A scan that parses its rows."""
    return cause.only_says_where and bool(cause.evidence.get("is_text"))


def _has_reason(context: PlanContext, cause: Cause) -> bool:
    """A busy driver takes long for any query; what receives a large result does not say only where."""
    if not cause.only_says_where:
        return True
    known = {name: float(each) for name, each in cause.evidence.items()}
    return (
        known["listing_ms"] >= _LISTING_SHARE * cause.wall_ms
        or known["operators"] >= LARGE_PLAN_OPERATORS
        or known["values"] >= LONG_LIST_VALUES
        or known["longest_text"] >= LONG_TEXT
    )


def _is_needless(context: PlanContext, cause: Cause) -> bool:
    """Others are joins that a broadcast would do without: missed-broadcast."""
    return bool(cause.evidence.get("is_needless"))


def _is_long(context: PlanContext, cause: Cause) -> bool:
    """Many short queries take longer than usual."""
    return cause.wall_ms >= context.limits.largest_part_ms


def _always(context: PlanContext, cause: Cause) -> bool:
    return True


_PARTS: tuple[Code, ...] = ("compute", "scan", "shuffle", "cache")
_KINDS = (
    _Kind("exploding-join", "join_output", _has_keys, needs_whole=False, while_running=True),
    _Kind("exploding-rows", "compute"),
    _Kind("expensive-expression", "compute", _is_expensive),
    _Kind("python", "python", _always),
    _Kind(SKEWED_SHUFFLE, "data_skew", unless=("hidden-skew",), while_running=True),
    _Kind("output-skew", "output_skew", while_running=True),
    _Kind("slow-host", "slow_host", while_running=True),
    _Kind("few-tasks", "few_tasks"),
    _Kind("unsplittable-files", "scan"),
    _Kind("small-files", "small_files"),
    _Kind("text-format", "scan", _is_text, unless=("unsplittable-files", "small-files"), severity="info"),
    _Kind("tiny-tasks", "tiny_tasks"),
    _Kind("needless-repartition", "shuffle", _is_needless),
    _Kind("spill", "spill", needs_whole=False),
    _Kind("gc", "gc"),
    _Kind("broadcast-slow", "broadcast", _is_large, unless=("broadcast-not-worth-it", "driver-collect")),
    _Kind("waiting", "waiting", _waits_for_others),
    _Kind("driver", "driver", _has_reason, unless=("driver-collect",)),
    _Kind("commit", "commit"),
    _Kind("contention", "contention", _is_long),
)


def _evaluate(kind: _Kind, context: PlanContext) -> Iterator[Finding]:
    for cause in context.causes:
        if cause.code == kind.code and cause.wall_ms > 0 and kind.is_one(context, cause):
            yield _finding(kind, context, cause)


def _finding(kind: _Kind, context: PlanContext, cause: Cause) -> Finding:
    node_id = next(iter(cause.nodes), WHOLE_EXECUTION)
    if kind.id == SKEWED_SHUFFLE:  # of which one task read most, if one is known
        node_id = next((each for each in cause.nodes if each in context.shuffles), node_id)
    if context.view.is_final:
        key = next((row.operator_key for row in context.rows.plan_node if row.node_id == node_id), None)
    else:
        key, node_id = context.view.keys.get(node_id), WHOLE_EXECUTION
    return Finding(
        kind.id,
        kind.severity,
        f"{first_up(sentence(context.view, cause))}.",
        {name: each for name, each in cause.evidence.items() if not isinstance(each, str)},
        cause.next,
        node_id,
        key,
        waited=Waited(cause.wall_ms),
    )


def sentence(view: View, cause: Cause) -> str:
    """Where it happened and what: ``stage 3 (the sort by day): its tasks spilled 2.0 GiB of data``."""
    place = names.place(view, cause.nodes, cause.stage_id, cause.what)
    return f"{place}: {cause.what}" if place else cause.what


def _largest_part(context: PlanContext) -> Iterator[Finding]:
    """The part that is larger than all others, if it is known; a driver may only wait for its turn.

    Where another cause says more about much of the same time, the part is not what to look at.
    """
    parts = [each for each in context.causes if each.only_says_where or each.code in _PARTS]
    largest = max(parts, key=lambda each: each.wall_ms, default=None)
    limits = context.limits
    least = max(limits.largest_part_ms, limits.largest_part_share * (context.execution.duration_ms or 0))
    if largest is None or largest.wall_ms < max(1, least) or largest.certainty <= 1 - MUCH_OF_STAGE:
        return
    if largest.code in _PARTS and not largest.evidence.get("is_estimate"):
        yield _finding(_Kind("largest-part", largest.code, severity="info"), context, largest)


HEURISTICS = tuple(
    Heuristic(
        kind.id,
        partial(_evaluate, kind),
        EXPLAINED,
        needs_whole=kind.needs_whole,
        is_place=kind.is_one in (_is_expensive, _is_text, _always),
        while_running=kind.while_running,
        unless=kind.unless,
    )
    for kind in _KINDS
)


def largest_part(others: Iterable[Heuristic]) -> Heuristic:
    """Where the time went, if none of the others made a finding about it."""
    named = tuple(each.id for each in others if each.is_about_time)
    return Heuristic("largest-part", _largest_part, EXPLAINED, is_place=True, unless=named)
