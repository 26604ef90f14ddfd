"""AQE that changed a plan when much of what it no longer needed had been written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from joinsight.base.units import bytes_text, duration_text
from joinsight.findings.finding import WHOLE_EXECUTION, Finding, Heuristic, PlanContext
from joinsight.findings.phrases import join
from joinsight.plan.decisions import JOIN_STRATEGY
from joinsight.plan.operators import BROADCAST_HASH_JOIN
from joinsight.tables import AqeDecisionRow, JoinRow, ShuffleRow


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Shuffles of what a broadcast join reads as it is, of what turned out not to matter, and of dropped stages."""
    by_key = {row.operator_key: row for row in reversed(context.rows.joins)}
    for decision in context.rows.aqe_decision:
        found = by_key.get(decision.operator_key)  # the join of the final plan that it is about
        wasted = _wasted(context, decision, found)
        if not wasted:
            continue
        after_ms = round((decision.decided_at - context.execution.started_at).total_seconds() * 1000)
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"AQE found after {duration_text(max(0, after_ms))} that {_saw(decision, found)}; by then"
            f" {bytes_text(wasted)} had been shuffled needlessly.",
            {
                "shuffled_bytes": wasted,
                "decided_after_ms": after_ms,
                **({} if decision.bytes_before is None else {"bytes_before": decision.bytes_before}),
                **({} if decision.rows_before is None else {"rows_before": decision.rows_before}),
            },
            "AQE decides only after a shuffle has been written. To tell Spark earlier, run ANALYZE TABLE ... COMPUTE"
            " STATISTICS on the tables, or give a side that is always small the hint BROADCAST.",
            WHOLE_EXECUTION if found is None else found.node_id,
            decision.operator_key,
            impact_bytes=wasted,
            waited=context.waited_for_exchanges(_not_needed(context, decision, found)),
        )


def _wasted(context: PlanContext, decision: AqeDecisionRow, found: JoinRow | None) -> int | None:
    if decision.kind in ("dropped_stage", "empty_relation"):
        return decision.bytes_before
    return next((shuffle.bytes_written for shuffle in _not_needed(context, decision, found)), None)


def _not_needed(context: PlanContext, decision: AqeDecisionRow, found: JoinRow | None) -> Sequence[ShuffleRow]:
    """The shuffle of the final plan that was written needlessly, if there is one."""
    if decision.kind != JOIN_STRATEGY or found is None or found.strategy != BROADCAST_HASH_JOIN:
        return []
    # What is not built; a join's text may name no side
    others = {"left": found.right_exchange, "right": found.left_exchange}
    shuffle = context.shuffles.get(others.get(found.build_side or ""))
    return [shuffle] if shuffle else []


def _saw(decision: AqeDecisionRow, found: JoinRow | None) -> str:
    if decision.kind == "dropped_stage":
        return f"{decision.operator} {decision.before or ''}".rstrip() + " was not needed"
    if decision.kind == "empty_relation":
        return f"{decision.before} gives no rows"
    assert found is not None
    size = "" if decision.bytes_before is None else f" of {bytes_text(decision.bytes_before)}"
    return f"{join(found)} can broadcast its {found.build_side} side{size}"


HEURISTIC = Heuristic(
    "late-replan", evaluate, "the shuffle that was not needed; unknown where it is not in the final plan"
)
