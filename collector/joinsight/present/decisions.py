"""AQE's decisions as text, one line each::

plan 2, 442 ms: SortMergeJoin became BroadcastHashJoin on customer_id: right side 3.1 KiB, 200 rows
plan 4, 726 ms: coalesced 200 partitions into 7 by day, median 60.0 MiB
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from joinsight.analysis.stored import StoredPlan, graph_of
from joinsight.base.units import duration_text
from joinsight.plan import texts
from joinsight.plan.decisions import KINDS, About
from joinsight.tables import Row


def lines(stored: StoredPlan, version: int | None = None) -> Iterator[tuple[int, str]]:
    """Version and text of each decision, of one plan version or of all."""
    for decision in stored.decisions:
        if version in (None, decision["version"]):
            words = KINDS[decision["kind"]].line(decision, _about(stored, decision))
            yield decision["version"], f"{moment(stored, decision['decided_at'])}: {words}"


def moment(stored: StoredPlan, at: datetime) -> str:
    """The time since the start of the execution, as text."""
    return duration_text(max(0, round((at - stored.execution["started_at"]).total_seconds() * 1000)))


def _about(stored: StoredPlan, decision: Row) -> About:
    graph = graph_of(stored.versions[decision["version"]])
    node = graph.by_id.get(decision["node_id"])
    if node is None:
        return About()
    join = texts.join_text(node.name, node.simple)
    below = graph.children.get(node.id)
    shuffle = texts.shuffle_text(graph.by_id[below[0]].simple) if below else texts.ShuffleText()
    sizes = {metric.id for metric in node.metrics if metric.name == "partition data size"}
    return About(
        texts.without_ids(", ".join(join.left_keys)) if join else "",
        join.build_side if join else None,
        texts.without_ids(", ".join(shuffle.keys)),
        next((row for row in stored.metrics if row["accumulator_id"] in sizes), None),
    )
