"""Finds what AQE decided, by comparing each plan of an execution with the one before it::

    plan 1                              plan 2                                       decisions
    SortMergeJoin                       BroadcastHashJoin BuildRight                 join_strategy
    ├ Sort                              ├ AQEShuffleRead local                       local_read
    │ └ Exchange (200)                  │ └ Exchange (200)
    └ Sort                              └ BroadcastExchange
      └ Exchange (200)                    └ AQEShuffleRead coalesced (7)             coalesced
                                            └ Exchange (200)

Each decision is attributed to the plan that shows it first; `KINDS` declares the kinds and the wording of each.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from joinsight.base.generated import rewrite
from joinsight.base.units import bytes_text
from joinsight.contract.document import Accumulator
from joinsight.plan import operators, texts
from joinsight.plan.changes import Change, PlanVersion
from joinsight.plan.graph import Graph, Node
from joinsight.plan.operators import DATA_SIZE, ROWS_WRITTEN

_NAME_CHARACTERS = 1_000
"""Limit on an operator's name, which is repeated for each empty relation that replaces it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of AQE; the fields are columns of table `aqe_decision`."""

    version: int
    kind: str
    operator: str
    node_id: int | None = None
    operator_key: str | None = None
    before: str | None = None
    after: str | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows_before: int | None = None
    rows_after: int | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What the text of a decision needs beyond its row, from its node and the texts of the plan."""

    on: str = ""
    """The join's keys."""
    side: str | None = None
    """The side that the join builds."""
    by: str = ""
    """The keys that the shuffle is partitioned by."""
    sizes: Mapping[str, Any] | None = None
    """The row of `node_metric` with the sizes of the partitions that AQE reads."""


@dataclass(frozen=True, slots=True)
class DecisionKind:
    """A kind of decision. `meaning`, `values` and `measures` are its row in docs/aqe.md, in Markdown."""

    name: str
    meaning: str
    values: str
    """The meaning of `before` and `after`."""
    measures: str
    """The meaning of the bytes and rows before and after."""
    colour: str
    """On dashboards; red is wasted work."""
    line: Callable[[Mapping[str, Any], About], str]
    """The text of a row of table `aqe_decision`."""


def _join_strategy_line(d: Mapping[str, Any], about: About) -> str:
    measured = _amount(d["bytes_before"], d["rows_before"])
    if not measured and (built := _amount(d["bytes_after"], d["rows_after"])):
        measured = f"{built}, as built"
    what = f"{d['before']} became {d['after']}" + (f" on {about.on}" if about.on else "")
    return f"{what}: {about.side} side {measured}" if about.side and measured else what


def _coalesced_line(d: Mapping[str, Any], about: About) -> str:
    return f"coalesced {_partitions(d, about)}{_size(about, 'median', 'median {}')}"


def _skew_split_line(d: Mapping[str, Any], about: About) -> str:
    return f"split {_partitions(d, about, ' skewed')}{_size(about, 'max', 'largest {} now')}"


def _local_read_line(d: Mapping[str, Any], about: About) -> str:
    return f"local read of {d['before'] or '?'} partitions{_by(about)}{_came(d, ': {}')}"


def _empty_relation_line(d: Mapping[str, Any], about: About) -> str:
    what = "returns no rows" if d["after"] else "was removed: one of its sides is empty"
    return f"{d['before'] or 'a part of the plan'} {what}{_came(d, ' (input: {})')}"


def _dropped_stage_line(d: Mapping[str, Any], about: About) -> str:
    what = " ".join(filter(None, (d["operator"], (d["before"] or "").partition("(")[0])))
    return f"{what} is no longer needed{_came(d, ' (received {})')}"


def _partitions(d: Mapping[str, Any], about: About, which: str = "") -> str:
    before = d["before"] or "?"
    return f"{before}{which} partition{'s' * (before != '1')} into {d['after'] or '?'}{_by(about)}"


def _by(about: About) -> str:
    return f" by {about.by}" if about.by else ""


def _size(about: About, measure: str, words: str) -> str:
    size = None if about.sizes is None else about.sizes[measure]
    return "" if size is None else f", {words.format(bytes_text(size))}"


def _came(d: Mapping[str, Any], words: str) -> str:
    amount = _amount(d["bytes_before"], d["rows_before"])
    return words.format(amount) if amount else ""


def _amount(size: int | None, rows: int | None) -> str:
    parts = [] if size is None else [bytes_text(size)]
    return ", ".join(parts if rows is None else [*parts, f"{rows:,} row{'s' * (rows != 1)}"])


JOIN_STRATEGY = "join_strategy"
KINDS = {
    kind.name: kind
    for kind in (
        DecisionKind(
            JOIN_STRATEGY,
            "the strategy of a join changed",
            "the strategies",
            "the new build side: as shuffled, which AQE based its decision on; as built",
            "purple",
            _join_strategy_line,
        ),
        DecisionKind(
            "coalesced",
            "small partitions are read together",
            "partitions",
            "what the shuffle wrote; what is read, according to AQE",
            "green",
            _coalesced_line,
        ),
        DecisionKind(
            "skew_split",
            "skewed partitions are split into parts that are read separately",
            "skewed partitions → parts",
            "what the shuffle wrote; what is read, according to AQE",
            "orange",
            _skew_split_line,
        ),
        DecisionKind(
            "local_read",
            "each task reads the data on its own host: partitioning was not necessary",
            "partitions",
            "what the shuffle wrote; what is read, according to AQE",
            "blue",
            _local_read_line,
        ),
        DecisionKind(
            "empty_relation",
            "a part of the plan has no rows",
            "the operator → its replacement, NULL if that is its other input",
            "its input by then: data size of the exchanges directly below",
            "gray",
            _empty_relation_line,
        ),
        DecisionKind(
            "dropped_stage",
            "a shuffle or broadcast is no longer used",
            "its partitioning or mode",
            "its data size by then; both NULL: it never ran",
            "red",
            _dropped_stage_line,
        ),
    )
}
"""The kinds of decisions, by name."""


def table() -> Iterator[str]:
    """`KINDS` as a Markdown table, for docs/aqe.md."""
    yield "| `kind` | what happened | `before` → `after` | bytes and rows, before and after |"
    yield "|---|---|---|---|"
    for kind in KINDS.values():
        yield f"| `{kind.name}` | {kind.meaning} | {kind.values} | {kind.measures} |"


class Changes:
    """The differences between the plans of an execution, without measurements.

    `bases` are the operator bases of each plan. Plans without nodes are skipped.
    """

    def __init__(self, graphs: Sequence[Graph], bases: Sequence[Mapping[int, str]]) -> None:
        known = [(version, graph) for version, graph in enumerate(graphs) if graph.nodes]
        self._plans = (
            [PlanVersion(version, graph, bases[version]) for version, graph in known] if len(known) > 1 else []
        )
        self._changes = [Change(before, after) for before, after in pairwise(self._plans)]

    def decisions(self, accumulators: Mapping[int, Accumulator]) -> list[Decision]:
        """AQE's decisions with their measurements, by rising version."""
        plans = [plan.measured(accumulators) for plan in self._plans]
        measured = (change.between(*pair) for change, pair in zip(self._changes, pairwise(plans), strict=True))
        return [decision for change in measured for decision in _decisions(change)]


def _decisions(change: Change) -> Iterator[Decision]:
    yield from _strategies(change)
    replaced: set[int] = set()
    yield from _empty_relations(change, replaced)
    yield from _removed_joins(change, replaced)
    yield from _reads(change)
    yield from _dropped(change)


def _strategies(change: Change) -> Iterator[Decision]:
    for node in change.after.joins:
        if node.id not in change.same:
            continue
        former = change.before.nodes[change.same[node.id]]
        strategy, previous = operators.join_strategy(node.name), operators.join_strategy(former.name)
        if previous is None or strategy == previous:
            continue
        shuffle, relation = change.side(change.before, former, node), change.side(change.after, node, node)
        size, rows = _written_to(change.after, relation)
        if relation is None or not operators.is_broadcast(relation.name):
            size, rows = change.after.total(node, "data size of build side"), None
        if shuffle is not None and operators.is_broadcast(shuffle.name):
            shuffle = None
        compared, compared_rows = _written_to(change.before, shuffle)
        yield Decision(
            change.after.version,
            JOIN_STRATEGY,
            node.name,
            node.id,
            change.after.keys[node.id],
            previous,
            strategy,
            compared,
            size,
            compared_rows,
            rows,
        )


def _reads(change: Change) -> Iterator[Decision]:
    """Reads of shuffles that are new."""
    known: Counter[tuple[int | None, str]] = Counter()
    for node in change.before.graph.nodes:
        if operators.of(node.name).kind == "shuffle_read" and node.id in change.unmatched:
            known[change.shuffle(change.before, node), node.simple] += 1
    for node in change.after.graph.nodes:
        if operators.of(node.name).kind != "shuffle_read" or node.id in change.same:
            continue
        shuffle = change.shuffle(change.after, node)
        before = (change.same.get(shuffle) if shuffle is not None else None, node.simple)
        if known[before] > 0:
            known[before] -= 1
        elif shuffle is not None:
            yield from _read(change, node, change.after.nodes[shuffle])


def _read(change: Change, node: Node, shuffle: Node) -> Iterator[Decision]:
    plan = change.after
    made = plan.total(shuffle, "number of partitions") or texts.shuffle_text(shuffle.simple).partitions
    partitions = (made, plan.total(node, "number of partitions"))
    splits = (plan.total(node, "number of skewed partitions"), plan.total(node, "number of skewed partition splits"))
    for word, kind, (before, after) in (
        ("coalesced", "coalesced", partitions),
        ("skewed", "skew_split", splits),
        ("local", "local_read", partitions),
    ):
        if word in node.simple:
            yield Decision(
                plan.version,
                kind,
                node.name,
                node.id,
                plan.keys[shuffle.id],
                _number(before),
                _number(after),
                plan.total(shuffle, "shuffle bytes written"),
                plan.total(node, "partition data size"),
                plan.total(shuffle, ROWS_WRITTEN),
                plan.total(shuffle, operators.ROWS_READ) if len(plan.consumers(shuffle)) == 1 else None,
            )


def _empty_relations(change: Change, replaced: set[int]) -> Iterator[Decision]:
    """New empty relations; the nodes that they replace are added to `replaced`."""
    for node in change.after.graph.nodes:
        if operators.is_empty(node.name, node.simple) and node.id in change.after.own and node.id not in change.same:
            top = change.replaced(node)
            operator = None if top is None else change.before.first_operator(top)
            if top is not None:
                change.before.below([top], replaced)
            yield _emptied(change, node, operator)


def _removed_joins(change: Change, replaced: set[int]) -> Iterator[Decision]:
    """Joins that were removed because a side is empty, and that nothing replaced."""
    if any(node.id not in change.same for node in change.after.joins):
        return
    gone = {node.id for node in change.before.joins} & change.unmatched & change.before.own - replaced - change.reused
    for node in change.before.joins:
        if node.id in gone:
            gone -= change.before.below([node.id]) - {node.id}
            yield _emptied(change, None, node)


def _emptied(change: Change, node: Node | None, operator: Node | None) -> Decision:
    before = change.before
    size, rows = (None, None) if operator is None or operators.is_scan(operator.name) else before.received(operator)
    return Decision(
        change.after.version,
        "empty_relation",
        node.name if node is not None else operator.name if operator is not None else "",
        None if node is None else node.id,
        None if operator is None else before.keys.get(operator.id),
        None if operator is None else operator.name[:_NAME_CHARACTERS],
        None if node is None else node.name,
        size,
        rows_before=rows,
    )


def _dropped(change: Change) -> Iterator[Decision]:
    """Exchanges that are no longer read."""
    unused = change.unused.copy()
    gone = change.before.own - change.still_there - change.reused
    for node in change.before.exchanges:
        base = change.before.bases[node.id]
        if node.id not in gone or not unused[base]:
            continue
        unused[base] -= 1
        partitioning = texts.shuffle_text(node.simple).partitioning
        mode = partitioning if operators.is_shuffle(node.name) else texts.broadcast_mode(node.simple)
        size, rows = _written_to(change.before, node)
        yield Decision(
            change.after.version,
            "dropped_stage",
            node.name,
            operator_key=change.before.keys[node.id],
            before=mode,
            bytes_before=size,
            rows_before=rows,
        )


def _written_to(plan: PlanVersion, exchange: Node | None) -> tuple[int | None, int | None]:
    """Bytes and rows that were written to an exchange."""
    if exchange is None:
        return None, None
    return plan.total(exchange, DATA_SIZE), plan.total(exchange, operators.of(exchange.name).rows[0])


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), "kinds", table())
