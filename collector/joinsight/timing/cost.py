"""What each operator cost in wall time and in task time, and each join with what it made necessary: docs/cost.md.

The critical path says how long the execution waited for a stage, the task time what the stage's tasks were at. Here
each operator gets its share of the wait, by its share of the stage's task time. Both add up: the wall time to that of
the critical path, the task time to that of the stages. What belongs to no single operator keeps a line of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from joinsight.plan import operators, texts
from joinsight.plan.caches import not_run
from joinsight.plan.graph import Node
from joinsight.plan.metrics import NOTHING, PlanMetrics
from joinsight.timing.critical_path import STAGE_CAUSES, Segment
from joinsight.timing.stages import Stages
from joinsight.timing.task_time import REST, Spent, divide, is_of_part, sum_of_errors

ItemKind = Literal["operator", "shared", "activity", "rest"]
_ACTIVITIES = ("file_write", "cache_build", "collect", "other")
"""Parts of the task time that are no operator's."""
_OF_ONE_KIND = ("python", "scan", "cached_scan")
"""Parts that can only be of operators of a kind."""
_REQUIRED = "ENSURE_REQUIREMENTS"
"""The origin of shuffles that Spark adds because the operator above needs them."""
_BETWEEN = ("filter", "project", "shuffle_read", "reused_exchange")
"""Between a join and what it made necessary there are at most these, and sorts."""

Attempt = tuple[int, int | None]
"""A stage attempt."""


class CostSubject(NamedTuple):
    """What an item of the breakdown is of."""

    kind: ItemKind
    name: str = ""
    node_id: int | None = None
    stage_id: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the breakdown, in milliseconds.

    ``operator``: the node `node_id`. ``shared``: one or more of `operators`, which cannot be told apart, in the code of
    the codegen stage `node_id` or elsewhere in the stage `stage_id`; `name` is the part of the task time that only one
    kind of operators has. ``activity``: tasks, but no operator; `name` is the part of the task time. ``rest``: no tasks
    ran; `name` is the cause.
    """

    kind: ItemKind
    name: str
    node_id: int | None
    stage_id: int | None
    operators: tuple[int, ...]
    wall_ms: int
    task_time_ms: int
    task_time_error_ms: int | None
    """Standard error; None: nothing of it is sampled."""


@dataclass(frozen=True, slots=True)
class JoinCost:
    """A join, with what it made necessary."""

    node_id: int
    needed: tuple[int, ...]
    """Its sorts, the shuffles that Spark added for it, and its broadcast."""
    not_its_own: tuple[int, ...]
    """Shuffles and broadcasts that it reads, but that others read too, or that the query asked for."""
    wall_ms: int | None
    """That of the join and of what it made necessary, as far as it is known by operator; None: nothing is known."""
    task_time_ms: int | None
    """None also if only its broadcast is known, which takes no task's time."""
    task_time_error_ms: int | None
    shared: tuple[Item, ...]
    """Items of the breakdown that may hold more of it."""
    is_seen: bool
    """Whether an item is, or may hold, the join itself; else no sample saw it, or it did not run."""

    @property
    def is_partial(self) -> bool:
        """Whether it may have cost more than is known."""
        return bool(self.shared) or not self.is_seen

    @property
    def most_wall_ms(self) -> int | None:
        """What it can have cost at most: what is known, and all that it shares with other operators."""
        if self.wall_ms is None and not self.shared:
            return None
        return (self.wall_ms or 0) + sum(item.wall_ms for item in self.shared)

    @property
    def most_task_time_ms(self) -> int | None:
        """The same in time of tasks."""
        if self.task_time_ms is None and not self.shared:
            return None
        return (self.task_time_ms or 0) + sum(item.task_time_ms for item in self.shared)


@dataclass(frozen=True, slots=True)
class CostBreakdown:
    """What an execution cost. The items add up to the time of the critical path, and to the stages' task time."""

    items: Sequence[Item]
    """The largest first, by wall time."""
    joins: Sequence[JoinCost]
    """Those that can have cost most first; without those that only fill cached tables which were there."""
    waits: Mapping[Attempt, Mapping[int, int]]
    """How long the execution waited for each operator of the stage attempts on its path that samples, or what a native
    engine measured, divide."""
    weights: Mapping[Attempt, Mapping[CostSubject, int]] = field(default_factory=dict)
    """The run time of each stage attempt, by what its tasks were at."""
    stages: Stages = field(default_factory=lambda: Stages(NOTHING), repr=False, compare=False)

    def holds(self, subject: CostSubject) -> Sequence[int]:
        """The operators that a shared account may be of."""
        return _holds(self.stages, subject)

    def ran(self, stage_id: int) -> Sequence[int]:
        """The operators that ran in a stage."""
        return self.stages.ran.get(stage_id, ())

    @property
    def wall_ms(self) -> int:
        """The time of the critical path; 0 before the end."""
        return sum(item.wall_ms for item in self.items)

    @property
    def task_time_ms(self) -> int:
        """The time of all tasks."""
        return sum(item.task_time_ms for item in self.items)

    def operators(self) -> Mapping[int, Item]:
        """The items that are of one operator, by node."""
        return {item.node_id: item for item in self.items if item.kind == "operator" and item.node_id is not None}

    def charged(self) -> Mapping[int, Item | JoinCost]:
        """What each node cost, a join with what only it needed."""
        return {**self.operators(), **{join.node_id: join for join in self.joins}}


def cost_breakdown(
    plan: PlanMetrics, segments: Iterable[Segment], spent: Iterable[Spent], stages: Stages | None = None
) -> CostBreakdown:
    """What the operators of the final plan cost. `segments`, `spent` and `stages` are those of the execution."""
    stages = stages or Stages(plan)
    wall: Counter[CostSubject] = Counter()
    tasks: Counter[CostSubject] = Counter()
    errors: dict[CostSubject, list[int]] = defaultdict(list)
    weights: dict[Attempt, Counter[CostSubject]] = defaultdict(Counter)
    counts: dict[Attempt, Counter[CostSubject]] = defaultdict(Counter)
    undivided: set[Attempt] = set()
    for each in spent:
        subject = _subject(plan, stages, each)
        tasks[subject] += each.task_time_ms
        if each.part == REST:
            undivided.add((each.stage_id, each.stage_attempt))
        weights[each.stage_id, each.stage_attempt][subject] += each.task_time_ms
        counts[each.stage_id, each.stage_attempt][subject] += each.samples or 0
        if each.task_time_error_ms is not None:
            errors[subject].append(each.task_time_error_ms)
    for attempt, its in weights.items():
        if not any(its.values()):  # none of its tasks has ended
            its.update(counts[attempt])
    waited: Counter[Attempt] = Counter()
    for segment in segments:
        ms = segment.end_ms - segment.start_ms
        if segment.cause in STAGE_CAUSES and segment.stage_id is not None:
            waited[segment.stage_id, segment.stage_attempt] += ms
        elif segment.cause == "broadcast" and segment.node_id in plan.nodes:
            wall[CostSubject("operator", node_id=segment.node_id)] += ms
        else:
            wall[CostSubject("rest", segment.cause)] += ms
    waits: dict[Attempt, Mapping[int, int]] = {}
    for attempt, ms in waited.items():
        its = weights[attempt]
        parts = divide(ms, its) if any(its.values()) else {CostSubject("shared", stage_id=attempt[0]): ms}
        wall.update(parts)
        waits[attempt] = {
            subject.node_id: part
            for subject, part in parts.items()
            if attempt not in undivided and subject.kind == "operator" and subject.node_id is not None
        }
    items = [
        Item(*subject, _holds(stages, subject), wall[subject], tasks[subject], sum_of_errors(errors[subject]))
        for subject in {**wall, **tasks}
    ]
    items.sort(key=lambda item: (-item.wall_ms, -item.task_time_ms))
    return CostBreakdown(items, _joins(plan, items), waits, weights, stages)


def _subject(plan: PlanMetrics, stages: Stages, spent: Spent) -> CostSubject:
    node = None if spent.node_id is None else plan.nodes.get(spent.node_id)
    if node is None and spent.part == "collect":
        node = stages.broadcasts.get(spent.stage_id)
    if node is not None:
        return CostSubject("shared" if node.is_cluster else "operator", node_id=node.id)
    is_of_rdd = spent.part == "other" and spent.stage_id not in stages.ran and stages.makes(spent.stage_id) is None
    if spent.part in _ACTIVITIES and not is_of_rdd:
        return CostSubject("activity", spent.part)
    if spent.part in _OF_ONE_KIND and spent.method != "metrics":  # else AQE removed the operator that measured it
        subject = CostSubject("shared", spent.part, stage_id=spent.stage_id)
        its = _holds(stages, subject)
        if its:
            return subject if len(its) > 1 else CostSubject("operator", node_id=its[0])
        if spent.part == "python":
            return CostSubject("activity", spent.part)  # functions of an RDD
    return CostSubject("shared", stage_id=spent.stage_id)


def _holds(stages: Stages, subject: CostSubject) -> tuple[int, ...]:
    if subject.kind != "shared":
        return ()
    if subject.node_id is not None:
        return tuple(stages.within(subject.node_id))
    its = sorted(stages.operators_of(subject.stage_id or 0))
    if not subject.name:
        return tuple(its)
    # Of a stage that failed, metrics may name no operator
    return tuple(i for i in its or stages.nodes if is_of_part(stages.nodes[i], subject.name))


def _joins(plan: PlanMetrics, items: Sequence[Item]) -> list[JoinCost]:
    known = {item.node_id: item for item in items if item.kind == "operator"}
    shared: dict[int, list[Item]] = defaultdict(list)  # by operator
    for item in items:
        for node_id in item.operators:
            shared[node_id].append(item)
    readers: dict[int, int] = {}
    found = []
    absent = not_run(plan)
    for node in plan.graph.nodes:
        if operators.join_strategy(node.name) and node.id not in absent:
            needed, others = _below(plan, node, readers)
            its = [known[i] for i in (node.id, *needed) if i in known]
            is_seen = node.id in known or node.id in shared
            task_time_ms = sum(item.task_time_ms for item in its)
            found.append(
                JoinCost(
                    node.id,
                    needed,
                    others,
                    sum(item.wall_ms for item in its) if its else None,
                    task_time_ms if task_time_ms or node.id in known else None,
                    sum_of_errors([item.task_time_error_ms for item in its if item.task_time_error_ms is not None]),
                    tuple({id(item): item for i in (node.id, *needed) for item in shared.get(i, ())}.values()),
                    is_seen,
                )
            )
    return sorted(found, key=lambda join: (-(join.most_wall_ms or 0), -(join.most_task_time_ms or 0), join.node_id))


def _below(plan: PlanMetrics, join: Node, readers: dict[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a join made necessary; and the exchanges that it reads, but did not make necessary alone.

    `readers` caches the number of readers of an exchange.
    """
    sides = plan.inputs(join)[:2]
    sorts = [i for i in dict.fromkeys(sides) if _is_local_sort(plan.nodes[i])]
    needed = sorts if (operators.join_strategy(join.name) or "").startswith("SortMerge") else []
    others = []
    todo = list(sides)
    while todo:
        exchanges = Counter(_through(plan, todo))
        todo = []
        for node_id, times in exchanges.items():
            node = plan.nodes[node_id]
            is_asked = operators.is_shuffle(node.name) and texts.shuffle_text(node.simple).origin != _REQUIRED
            if node_id not in readers:
                readers[node_id] = _readers(plan, node)
            if is_asked or times < readers[node_id]:
                others.append(node_id)
                continue
            needed.append(node_id)
            if operators.is_broadcast(node.name):
                todo += plan.inputs(node)  # AQE broadcasts a shuffle that the join needed before
    return tuple(needed), tuple(others)


def _through(plan: PlanMetrics, todo: Iterable[int]) -> Iterator[int]:
    """The exchanges below, through operators that need none themselves."""
    for start in todo:
        below: Sequence[int] = [start]
        while len(below) == 1:
            node = plan.nodes[below[0]]
            operator = operators.of(node.name)
            if operator.is_exchange:
                yield node.id
            if operator.kind not in _BETWEEN and not operator.is_wrapper and not _is_local_sort(node):
                break
            below = plan.inputs(node)


def _readers(plan: PlanMetrics, exchange: Node) -> int:
    """How many operators read it, without pruning, which uses what a join broadcasts anyway."""
    return sum(not _is_pruning(plan, i) for i in plan.consumers(exchange))


def _is_pruning(plan: PlanMetrics, node_id: int) -> bool:
    above: Sequence[int] = [node_id]
    while len(above) == 1:
        operator = operators.of(plan.nodes[above[0]].name)
        if operator.kind == "pruning":
            return True
        if operator.kind != "reused_exchange" and not operator.is_wrapper:
            break
        above = plan.consumers(plan.nodes[above[0]])
    return False


def _is_local_sort(node: Node) -> bool:
    """Whether it sorts each partition alone; a global sort has a shuffle of its own."""
    return operators.of(node.name).kind == "sort" and "], true" not in node.simple
