"""The texts of a breakdown's lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property

from joinsight.analysis.rows import NO_NODE
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
_CODE = re.compile(
    r"[\w$]{1,80} at (?!NativeMethodAccessorImpl|CompletableFuture|ForkJoin)\w{1,80}\.(?:java|scala):[0-9]{1,6}"
)
"""The name of a stage that says what it does: the method of an RDD, and the line that calls it."""
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
        self._stored = stored
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
        """The same, with the operators; where the final plan has none of them, with those that AQE removed."""
        counted = Counter(self.name(i) for i in item.operators)
        gone = "" if counted else ", which AQE removed"
        if item.stage_id is not None:
            counted = counted or self._removed.get(item.stage_id, Counter())
        texts = [name if times == 1 else f"{times} {name}" for name, times in counted.items()]
        more = [f"{len(texts) - _MOST_NAMES} more"] if len(texts) > _MOST_NAMES else []
        known = ", ".join([*texts[:_MOST_NAMES], *more])
        return f"{self.place(item)}: {known + gone if known else self._code(item.stage_id)}"

    def _code(self, stage_id: int | None) -> str:
        """The line of a format's or a job's code that ran a stage of which no operator is known."""
        names = (row["name"] for row in self._stored.stages if row["stage_id"] == stage_id)
        line = next((name for name in names if _CODE.fullmatch(name)), None)
        return f"no operator, {line}" if line else "operators unknown"

    @cached_property
    def _removed(self) -> Mapping[int, Counter[str]]:
        """Operators of earlier plans that measured something, by stage, where the final plan does not have them."""
        measured = {
            row["accumulator_id"]: row["max_stage_id"]
            for row in self._stored.metrics
            if row["node_id"] == NO_NODE and row["max_stage_id"] is not None
        }
        names: dict[int, dict[int, str]] = defaultdict(dict)
        for version in self._stored.versions[:-1] if measured else ():
            for node in version["nodes"]:
                for metric, *_ in () if node["is_cluster"] else node["metrics"]:
                    if metric in measured:
                        names[measured[metric]][node["metrics"][0][0]] = operator_name(node["name"], node["simple"])
        return {stage: Counter(its.values()) for stage, its in names.items()}
