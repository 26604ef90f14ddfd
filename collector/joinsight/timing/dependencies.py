"""What the metrics of a plan tell about who waits for whom: jobs of broadcasts, commits."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.plan import operators
from joinsight.plan.metrics import PlanMetrics
from joinsight.timing.critical_path import Broadcast
from joinsight.timing.stages import Stages


def broadcasts(plan: PlanMetrics, stages: Stages) -> Iterator[Broadcast]:
    """The broadcasts that were made here."""
    for node in plan.graph.nodes:
        if not operators.is_broadcast(node.name):
            continue
        measured = {name: plan.total(node, f"time to {name}") for name in ("collect", "build", "broadcast")}
        if any(value is not None for value in measured.values()):
            known = {name: max(0, value or 0) for name, value in measured.items()}
            readers = frozenset(stage for i in plan.consumers(node) for stage in stages.of_nodes.get(i, ()))
            driver_ms = known["build"] + known["broadcast"]
            yield Broadcast(node.id, stages.making(node.id), known["collect"], driver_ms, readers)


def commit_ms(plan: PlanMetrics) -> int:
    """How long the commit of a write took; 0: nothing was written, or it is not measured."""
    return max(0, *(plan.total(node, "job commit time") or 0 for node in plan.graph.nodes), 0)
