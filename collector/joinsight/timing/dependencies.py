"""What the metrics of a plan tell about who waits for whom: jobs of broadcasts, writers of exchanges, commits."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.metrics import PlanMetrics
from joinsight.timing.critical_path import Broadcast

WRITES = ("shuffle bytes written", "shuffle records written", "shuffle write time")
READS = (operators.ROWS_READ, "local bytes read", "remote bytes read")


def broadcasts(facts: PlanMetrics) -> Iterator[Broadcast]:
    """The broadcasts that were made here."""
    for node in facts.graph.nodes:
        if not operators.is_broadcast(node.name):
            continue
        measured = {name: facts.total(node, f"time to {name}") for name in ("collect", "build", "broadcast")}
        if any(value is not None for value in measured.values()):
            known = {name: max(0, value or 0) for name, value in measured.items()}
            yield Broadcast(node.id, _below(facts, node), known["collect"], known["build"] + known["broadcast"])


def exchanges(facts: PlanMetrics) -> dict[int, int]:
    """The node id of the shuffle that a stage writes, by stage."""
    shuffles = [node for node in facts.graph.nodes if operators.is_shuffle(node.name)]
    return {stage: node.id for node in shuffles for stage in _stages(facts, node, WRITES)}


def commit_ms(facts: PlanMetrics) -> int:
    """How long the commit of a write took; 0: nothing was written, or it is not measured."""
    return max(0, *(facts.total(node, "job commit time") or 0 for node in facts.graph.nodes), 0)


def _below(facts: PlanMetrics, broadcast: Node) -> frozenset[int]:
    """The stages in which operators ran between a broadcast and the exchanges below it."""
    stages: set[int] = set()
    seen: set[int] = set()
    todo = list(facts.inputs(broadcast))
    while todo:
        node = facts.nodes[todo.pop()]
        if node.id in seen:
            continue
        seen.add(node.id)
        if operators.is_shuffle(node.name):
            stages |= _stages(facts, node, READS)
        elif not operators.is_broadcast(node.name):
            stages |= _stages(facts, node)
            if node.cluster is not None:
                stages |= _stages(facts, facts.nodes[node.cluster])
            todo += facts.inputs(node)
    return frozenset(stages)


def _stages(facts: PlanMetrics, node: Node, names: tuple[str, ...] | None = None) -> set[int]:
    """The stages that measured something at a node. A log has no zeros, so what adds up to 0 tells nothing."""
    metrics = facts.metrics(node)
    return {
        stage
        for name, measured in metrics.items()
        if (names is None or name in names) and (measured.sum or 0) > 0
        for stage in measured.stages
    }
