"""The texts of a breakdown's lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.plan import operators
from joinsight.plan.outline import shortened
from joinsight.present.task_time import works
from joinsight.present.tree import clean, operator_name
from joinsight.timing.cost import Item
from joinsight.timing.critical_path import shown

_LONGEST = 90
"""Characters of an operator with its arguments."""
_MOST_NAMES = 8
"""Names of operators that share a line."""
UNATTRIBUTED: Mapping[str, str] = {
    "prepare": "the driver, before anything ran",
    "replan": "the driver, between query stages",
    "driver": "the driver, between stages",
    "broadcast": "the driver, for a broadcast",
    "commit": "the commit of the write",
    "finish": "the driver, after the last job",
    "nested": "executions that this one started",
    "waiting": "no free cores for its tasks",
}
"""What the driver and the scheduler did, by cause."""
ACTIVITIES: Mapping[str, str] = {
    "file_write": "writing files",
    "cache_build": "filling a cache",
    "collect": "encoding rows for the driver",
    "other": "no operator: starting up, compiling code",
    "python": "waiting for Python functions of an RDD",
}


def between(known: int | None, most: int | None, *, is_partial: bool) -> str:
    """``2.3 s``; of what is known in part ``206 ms to 43.2 s`` or ``at most 43.0 s``; empty if nothing is known."""
    if known is None and not most:
        return ""
    if most is not None and most > (known or 0):
        least, largest = duration_text(known) if known else "", duration_text(most)
        if least == largest:
            return largest
        return f"{least} to {largest}" if least else f"at most {largest}"
    if known is None or (is_partial and not known):
        return ""
    return f"at least {duration_text(known)}" if is_partial else duration_text(known)


class Labels:
    """Names the lines of a breakdown."""

    def __init__(self, stored: StoredPlan) -> None:
        self._nodes = stored.plan.nodes
        self._works = works(stored)

    def item(self, item: Item) -> str:
        """``SortMergeJoin [k], [k], Inner``, ``stage 7: SortMergeJoin, 2 Sort``, ``waiting for free cores``."""
        if item.kind == "rest":
            name = shown(item.name)
            return name if item.name == "waiting" else f"{name}: {UNATTRIBUTED.get(item.name, 'no stage is known')}"
        if item.kind == "activity":
            return ACTIVITIES[item.name]
        if item.kind == "operator" and item.node_id is not None:
            return self.operator(item.node_id)
        return self.shared(item)

    def work(self, item: Item) -> str:
        """What it was at for the most part: ``regular expressions 81 %``; empty if nothing is known."""
        if item.node_id is None or item.kind not in ("operator", "shared"):
            return ""
        return self._works.get(item.node_id, "")

    def operator(self, node_id: int) -> str:
        """The operator with its arguments; scans and broadcasts without, as theirs say little."""
        node = self._nodes[node_id]
        is_named = operators.is_scan(node.name) or operators.is_broadcast(node.name)
        text = operator_name(node.name, node.simple) if is_named else clean(node.simple)
        return shortened(text or node.name, _LONGEST)

    def name(self, node_id: int) -> str:
        """Its name."""
        node = self._nodes[node_id]
        return operator_name(node.name, node.simple)

    def is_shuffle(self, node_id: int) -> bool:
        """Whether it is one."""
        return operators.is_shuffle(self._nodes[node_id].name)

    def place(self, item: Item) -> str:
        """Where operators ran that cannot be told apart: ``stage 7``, ``WholeStageCodegen (5)``."""
        return f"stage {item.stage_id}" if item.node_id is None else self.name(item.node_id)

    def shared(self, item: Item) -> str:
        """The same, with the operators."""
        counted = Counter(self.name(i) for i in item.operators)
        texts = [name if times == 1 else f"{times} {name}" for name, times in counted.items()]
        more = [f"{len(texts) - _MOST_NAMES} more"] if len(texts) > _MOST_NAMES else []
        return f"{self.place(item)}: {', '.join([*texts[:_MOST_NAMES], *more]) or 'operators unknown'}"
