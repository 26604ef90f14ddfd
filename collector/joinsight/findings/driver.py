"""What a broadcast cost the driver alone."""

from __future__ import annotations

from joinsight.findings.finding import PlanContext
from joinsight.tables import BroadcastRow


def alone_ms(context: PlanContext, broadcast: BroadcastRow) -> int:
    """Time that collecting, building and sending took the driver, without what the tasks beneath took; at least.

    0 where that is not known, or where little was collected: then the driver did something else, or waited.
    """
    collect, build, send = broadcast.collect_ms, broadcast.build_ms, broadcast.broadcast_ms
    stages = context.stages(context.view.breakdown.stages.making(broadcast.node_id))
    ran = [
        (stage.completed_at - stage.submitted_at).total_seconds()
        for stage in stages
        if stage.submitted_at is not None and stage.completed_at is not None
    ]
    if collect is None or build is None or send is None or not stages or len(ran) < len(stages):
        return 0
    if sum(stage.totals.result_bytes for stage in stages if stage.totals) < context.limits.driver_result_bytes:
        return 0
    return build + send + max(0, collect - round(sum(ran) * 1000))
