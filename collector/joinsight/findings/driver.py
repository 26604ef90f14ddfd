"""What broadcasts cost the driver; used by several heuristics."""

from __future__ import annotations

from joinsight.findings.finding import Case
from joinsight.plan import operators
from joinsight.rows import Row


def driver_ms(case: Case, broadcast: Row) -> int | None:
    """Time that collecting, building and sending took the driver, without what the tasks beneath took; at least.

    Of the time to collect only that counts in which the stage that made the rows did not run, and none if it is not
    known. None where nothing was measured.
    """
    build, send, collect = broadcast["build_ms"], broadcast["broadcast_ms"], broadcast["collect_ms"]
    if build is None or send is None:
        return None
    stages = _stages(case, broadcast["node_id"])
    spans = [(stage["submitted_at"], stage["completed_at"]) for stage in case.stages(stages)]
    if collect is None or not spans or any(None in span for span in spans):
        return int(build + send)
    ran_ms = round(sum((end - start).total_seconds() for start, end in spans) * 1000)
    return int(build + send + max(0, collect - ran_ms))


def _stages(case: Case, node_id: int) -> set[int]:
    """The stages whose tasks made the rows: from the broadcast down to the next exchanges, which are read by them."""
    found: set[int] = set()
    todo = list(case.children.get(node_id, ()))
    while todo:
        node_id = todo.pop()
        name = case.nodes[node_id]["name"]
        shuffle = case.of_node("shuffle", node_id)
        if shuffle is not None:
            found.update(shuffle["reduce_stages"] if shuffle["consumers"] == 1 else ())
        elif not operators.is_broadcast(name):
            found.update(
                row["max_stage_id"] for row in case.metrics(node_id).values() if row.get("max_stage_id") is not None
            )
            todo.extend(case.children.get(node_id, ()))
    return found
