"""What a broadcast cost the driver alone."""

from __future__ import annotations

from joinsight.findings.finding import Case
from joinsight.plan import operators
from joinsight.tables import BroadcastRow


def alone_ms(case: Case, broadcast: BroadcastRow) -> int:
    """Time that collecting, building and sending took the driver, without what the tasks beneath took; at least.

    0 where that is not known, or where little was collected: then the driver did something else, or waited.
    """
    collect, build, send = broadcast.collect_ms, broadcast.build_ms, broadcast.broadcast_ms
    stages = case.stages(_stages(case, broadcast.node_id))
    ran = [
        (stage.completed_at - stage.submitted_at).total_seconds()
        for stage in stages
        if stage.submitted_at is not None and stage.completed_at is not None
    ]
    if collect is None or build is None or send is None or not stages or len(ran) < len(stages):
        return 0
    if sum(stage.totals.result_bytes for stage in stages if stage.totals) < case.limits.driver_result_bytes:
        return 0
    return build + send + max(0, collect - round(sum(ran) * 1000))


def _stages(case: Case, node_id: int) -> set[int]:
    """The stages whose tasks made the rows: from the broadcast down to the next exchanges, which are read by them."""
    found: set[int] = set()
    todo = list(case.children.get(node_id, ()))
    while todo:
        node_id = todo.pop()
        name = case.nodes[node_id].name
        shuffle = case.shuffles.get(node_id)
        if shuffle is not None:
            found.update((shuffle.reduce_stages or ()) if shuffle.consumers == 1 else ())
        elif not operators.is_broadcast(name):
            found.update(row.max_stage_id for row in case.metrics(node_id).values() if row.max_stage_id is not None)
            todo.extend(case.children.get(node_id, ()))
    return found
