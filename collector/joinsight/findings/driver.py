"""What a broadcast cost the driver alone."""

from __future__ import annotations

from joinsight.findings.finding import Case
from joinsight.plan import operators
from joinsight.rows import DRIVER_PHASES, Row


def alone_ms(case: Case, broadcast: Row) -> int:
    """Time that collecting, building and sending took the driver, without what the tasks beneath took; at least.

    0 where that is not known, or where little was collected: then the driver did something else, or waited.
    """
    parts = [broadcast[name] for name in DRIVER_PHASES]
    stages = case.stages(_stages(case, broadcast["node_id"]))
    spans = [(stage["submitted_at"], stage["completed_at"]) for stage in stages]
    if None in parts or not spans or any(None in span for span in spans):
        return 0
    if sum(stage.get("result_bytes") or 0 for stage in stages) < case.limits.driver_result_bytes:
        return 0
    collect, build, send = parts
    ran_ms = round(sum((end - start).total_seconds() for start, end in spans) * 1000)
    return int(build + send + max(0, collect - ran_ms))


def _stages(case: Case, node_id: int) -> set[int]:
    """The stages whose tasks made the rows: from the broadcast down to the next exchanges, which are read by them."""
    found: set[int] = set()
    todo = list(case.children.get(node_id, ()))
    while todo:
        node_id = todo.pop()
        name = case.nodes[node_id]["name"]
        shuffle = case.shuffles.get(node_id)
        if shuffle is not None:
            found.update(shuffle["reduce_stages"] if shuffle["consumers"] == 1 else ())
        elif not operators.is_broadcast(name):
            found.update(
                row["max_stage_id"] for row in case.metrics(node_id).values() if row.get("max_stage_id") is not None
            )
            todo.extend(case.children.get(node_id, ()))
    return found
