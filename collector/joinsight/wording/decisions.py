"""Says what AQE decided, a line a decision::

plan 2, 442 ms: SortMergeJoin became BroadcastHashJoin on customer_id: right side 3.1 KiB, 200 rows
plan 4, 726 ms: coalesced 200 → 7 partitions by day, median 60.0 MiB
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from joinsight.display import bytes_text, duration_text
from joinsight.findings.wording import plain
from joinsight.plan import operators
from joinsight.reading import StoredPlan
from joinsight.rows import Row


def lines(stored: StoredPlan, version: int | None = None) -> Iterator[tuple[int, str]]:
    """Of one plan version, or of all: the version, and when and what was decided."""
    for decision in stored.decisions:
        if version in (None, decision["version"]):
            said = _SAID[decision["kind"]](decision, _Plan(stored, decision))
            yield decision["version"], f"{moment(stored, decision['decided_at'])}: {said}"


def moment(stored: StoredPlan, at: datetime) -> str:
    """How long after the start of the execution."""
    return duration_text(max(0, round((at - stored.execution["started_at"]).total_seconds() * 1000)))


class _Plan:
    """The plan that a decision made, as far as its line needs it."""

    def __init__(self, stored: StoredPlan, decision: Row) -> None:
        version = stored.versions[decision["version"]]
        self._nodes: Mapping[int, Row] = {node["id"]: node for node in version["nodes"]}
        self._edges = version["edges"]
        self._measured = {row["accumulator_id"]: row for row in stored.metrics}
        self.node = self._nodes.get(decision["node_id"])

    def sizes(self) -> Row | None:
        """Of the partitions that are read."""
        for accumulator, name, _ in self.node["metrics"] if self.node else ():
            if name == "partition data size":
                return self._measured.get(accumulator)
        return None

    def by(self) -> str:
        """What the shuffle that is read is partitioned by."""
        for child, parent in self._edges:
            if self.node is not None and parent == self.node["id"] and child in self._nodes:
                text = operators.shuffle_text(self._nodes[child]["simple"])
                return f" by {plain(', '.join(text.keys))}" if text.keys else ""
        return ""

    def join(self) -> tuple[str, str]:
        """What a join is on, and the side that it builds."""
        text = operators.join_text(self.node["name"], self.node["simple"]) if self.node else None
        if text is None:
            return "", ""
        on = plain(", ".join(text.left_keys))
        return f" on {on}" if on else "", text.build_side or ""


def _join_strategy(d: Row, plan: _Plan) -> str:
    on, side = plan.join()
    measured = _amount(d["bytes_before"], d["rows_before"])
    if not measured:
        measured = _amount(d["bytes_after"], d["rows_after"])
        measured = measured and f"{measured}, as built"
    return f"{d['before']} became {d['after']}{on}" + (f": {side} side {measured}" if side and measured else "")


def _coalesced(d: Row, plan: _Plan) -> str:
    sizes = plan.sizes()
    median = "" if sizes is None or sizes["median"] is None else f", median {bytes_text(sizes['median'])}"
    return f"coalesced {d['before'] or '?'} → {d['after'] or '?'} partitions{plan.by()}{median}"


def _skew_split(d: Row, plan: _Plan) -> str:
    sizes = plan.sizes()
    largest = "" if sizes is None or sizes["max"] is None else f", largest {bytes_text(sizes['max'])} now"
    return f"split {d['before'] or '?'} skewed → {d['after'] or '?'} partitions{plan.by()}{largest}"


def _local_read(d: Row, plan: _Plan) -> str:
    amount = _amount(d["bytes_before"], d["rows_before"])
    return f"local read of {d['before'] or '?'} partitions{plan.by()}" + (f": {amount}" if amount else "")


def _empty_relation(d: Row, plan: _Plan) -> str:
    amount = _amount(d["bytes_before"], d["rows_before"])
    what = "gives no rows" if d["after"] else "fell away: one of its sides has no rows"
    return f"{d['before'] or 'a part of the plan'} {what}" + (f"; {amount} had come to it" if amount else "")


def _dropped_stage(d: Row, plan: _Plan) -> str:
    amount = _amount(d["bytes_before"], d["rows_before"])
    mode = (d["before"] or "").partition("(")[0]
    return f"{d['operator']} {mode}".rstrip() + " is not needed" + (f", it had got {amount}" if amount else "")


_SAID = {
    "join_strategy": _join_strategy,
    "coalesced": _coalesced,
    "skew_split": _skew_split,
    "local_read": _local_read,
    "empty_relation": _empty_relation,
    "dropped_stage": _dropped_stage,
}


def _amount(size: int | None, rows: int | None) -> str:
    return ", ".join(
        [*([] if size is None else [bytes_text(size)]), *([] if rows is None else [f"{rows:,} row{'s' * (rows != 1)}"])]
    )
