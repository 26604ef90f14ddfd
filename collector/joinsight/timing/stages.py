"""Which operators of the final plan ran in which stages.

A stage runs what is between exchanges: the operators above the shuffles that it reads, up to the shuffle or broadcast
that it makes. Spark does not report this; metrics of these operators name stages, and so do those of the shuffles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.metrics import PlanMetrics

WRITES = ("shuffle bytes written", "shuffle records written", "shuffle write time")
BYTES_READ = ("local bytes read", "remote bytes read")
READS = (operators.ROWS_READ, *BYTES_READ)

_MOST_STAGES = 20
"""Stages in which a group of operators may have run: a document may hold anything."""


class Stages:
    """Operators by stage, and stages by operator.

    Operators are in groups, which exchanges, subqueries and the scans of cached tables divide. A group ran in a stage
    if one of its operators measured something there. A log has no zeros, so what adds up to 0 tells nothing.
    """

    def __init__(
        self, plan: PlanMetrics, shuffles: Mapping[int, tuple[Collection[int], Collection[int]]] | None = None
    ) -> None:
        """`shuffles`: by node id, all stages that wrote and that read a shuffle, where metrics name only some."""
        self._facts = plan
        self.nodes = plan.nodes
        """By id."""
        self._shuffles = shuffles or {}

    @cached_property
    def ran(self) -> Mapping[int, Sequence[int]]:
        """The operators that ran in each stage, and the shuffle that it wrote; without frames and subqueries."""
        found = {stage: self.operators_of(stage) for stage in self._by_stage}
        for stage, node_id in self.writes.items():
            found.setdefault(stage, []).append(node_id)
        return found

    def operators_of(self, stage: int) -> list[int]:
        """The operators that ran in a stage, without exchanges, frames and subqueries."""
        return [i for i in self._by_stage.get(stage, ()) if not self._is_frame(i)]

    @cached_property
    def of_nodes(self) -> Mapping[int, Sequence[int]]:
        """The stages that ran each operator, in order; of a shuffle, those that wrote and those that read it."""
        found: dict[int, set[int]] = defaultdict(set)
        for stage, nodes in self.ran.items():
            for node_id in nodes:
                found[node_id].add(stage)
        for node in self._facts.graph.nodes:
            if self._is_exchange(node.id):
                found[node.id] |= self.making(node.id) | self._measured(node, READS)
        return {node_id: sorted(stages) for node_id, stages in found.items() if stages}

    @cached_property
    def writes(self) -> Mapping[int, int]:
        """The node id of the shuffle that a stage writes, by stage."""
        shuffles = [node for node in self._facts.graph.nodes if operators.is_shuffle(node.name)]
        return {stage: node.id for node in shuffles for stage in self._measured(node, WRITES)}

    def makes(self, stage: int) -> int | None:
        """The node id of the shuffle that a stage writes, or for whose ranges it takes a sample of the rows."""
        if stage in self.writes:
            return self.writes[stage]
        above = {i for below in self._by_stage.get(stage, ()) for i in self._consumers(below)}
        found = [i for i in above if operators.is_shuffle(self.nodes[i].name)]
        return found[0] if len(found) == 1 else None

    @cached_property
    def broadcasts(self) -> Mapping[int, Node]:
        """The broadcast whose rows a stage makes, by stage."""
        found: dict[int, Node] = {}
        for stage, nodes in self._by_stage.items():
            above = (i for below in nodes for i in self._consumers(below))
            found.update((stage, node) for i in above if operators.is_broadcast((node := self.nodes[i]).name))
        return found

    def making(self, exchange: int) -> frozenset[int]:
        """The stages whose tasks made the rows of an exchange.

        Where no operator between it and the exchanges below measured anything, all stages that read these.
        """
        node = self.nodes[exchange]
        below = self._facts.inputs(node)
        found = {stage for i in below if i in self._group for stage in self._stages_of_groups.get(self._group[i], ())}
        if operators.is_shuffle(node.name):
            found |= self._measured(node, WRITES)
        if not found:
            members = [i for each in below if each in self._group for i in self._by_group[self._group[each]]]
            sources = {i for each in (exchange, *members) for i in self._facts.inputs(self.nodes[each])}
            for i in sources:
                if operators.is_shuffle(self.nodes[i].name):
                    found |= self._measured(self.nodes[i], READS)
        return frozenset(found)

    def within(self, cluster: int) -> Sequence[int]:
        """The operators of a codegen stage, without frames and subqueries."""
        return [i for i in self._members.get(cluster, ()) if not self._is_frame(i)]

    @cached_property
    def _group(self) -> Mapping[int, int]:
        """By operator, the first one of its group."""
        group: dict[int, int] = {}
        for node in self._facts.graph.nodes:  # those that use a subquery's result come before it
            if not node.is_cluster and not self._is_exchange(node.id):
                self._spread(node.id, group)
        return group

    def _spread(self, first: int, group: dict[int, int]) -> None:
        todo = [first]
        while todo:
            node_id = todo.pop()
            if node_id in group:
                continue
            group[node_id] = first
            node = self.nodes[node_id]
            if not self._is_source(node_id):
                todo += [below for below in self._facts.inputs(node) if not self._is_exchange(below)]
            todo += [i for i in self._consumers(node_id) if not self._is_exchange(i) and not self._is_source(i)]

    @cached_property
    def _by_group(self) -> Mapping[int, list[int]]:
        found: dict[int, list[int]] = defaultdict(list)
        for node_id in sorted(self._group):
            found[self._group[node_id]].append(node_id)
        return found

    @cached_property
    def _stages_of_groups(self) -> Mapping[int, Sequence[int]]:
        """By group."""
        found: dict[int, dict[int, None]] = defaultdict(dict)
        for node in self._facts.graph.nodes:
            for name, measured in self._facts.metrics(node).items():
                if measured.max_stage is not None and (measured.sum or 0) > 0:
                    for group in {self._group[i] for i in self._at(node, name)}:
                        if len(found[group]) < _MOST_STAGES:
                            found[group][measured.max_stage] = None
        return {group: list(stages) for group, stages in found.items()}

    @cached_property
    def _by_stage(self) -> Mapping[int, Sequence[int]]:
        """The operators of the groups of each stage."""
        groups: dict[int, list[int]] = defaultdict(list)
        for group, stages in self._stages_of_groups.items():
            for stage in stages:
                groups[stage].append(group)
        return {stage: [i for group in found for i in self._by_group[group]] for stage, found in groups.items()}

    def _at(self, node: Node, metric: str) -> Iterator[int]:
        """An operator of the group in which the metric of a node was measured."""
        if node.id in self._group:
            yield node.id
        elif node.is_cluster:
            yield from (i for i in self._members.get(node.id, ())[:1] if i in self._group)
        elif metric in WRITES:
            yield from (i for i in self._facts.inputs(node) if i in self._group)
        elif metric in READS:
            consumers = self._facts.consumers(node)
            yield from (i for i in consumers if len(consumers) == 1 and i in self._group)

    @cached_property
    def _members(self) -> Mapping[int, list[int]]:
        """The operators of codegen stages."""
        found: dict[int, list[int]] = defaultdict(list)
        for node in self._facts.graph.nodes:
            if node.cluster is not None:
                found[node.cluster].append(node.id)
        return found

    def _measured(self, node: Node, names: Sequence[str]) -> set[int]:
        """All stages that wrote a shuffle (`WRITES`), or that read it (`READS`)."""
        if node.id in self._shuffles:
            return set(self._shuffles[node.id][names is READS])
        metrics = self._facts.metrics(node)
        known = (metrics[name] for name in names if name in metrics)
        return {stage for measured in known if (measured.sum or 0) > 0 for stage in measured.stages}

    def _consumers(self, node_id: int) -> Sequence[int]:
        return self._facts.consumers(self.nodes[node_id])

    def _is_source(self, node_id: int) -> bool:
        return operators.of(self.nodes[node_id].name).kind in operators.SOURCES

    def _is_exchange(self, node_id: int) -> bool:
        return operators.of(self.nodes[node_id].name).is_exchange

    def _is_frame(self, node_id: int) -> bool:
        """Whether it takes no time of tasks by itself."""
        name = self.nodes[node_id].name
        is_frame = name == operators.ADAPTIVE_PLAN or operators.of(name).kind == "shuffle_read"
        return is_frame or operators.is_subquery(name)
