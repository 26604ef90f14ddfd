"""An execution as it is stored, read from the database or just measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

from joinsight.analysis.followed import not_followed
from joinsight.analysis.replay import Recording
from joinsight.analysis.rows import NO_NODE, Rows
from joinsight.analysis.table_formats import reads_of
from joinsight.base.errors import NotFound
from joinsight.base.severity import worst_first
from joinsight.contract.accepted_advice import AcceptedAdvice
from joinsight.contract.document import Accumulator, Metric
from joinsight.plan import operators
from joinsight.plan.caches import not_run
from joinsight.plan.engines import FALLBACK
from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Identity
from joinsight.plan.metrics import PlanMetrics
from joinsight.tables import Row, as_columns
from joinsight.timing import cost
from joinsight.timing.cost import CostBreakdown, Item
from joinsight.timing.critical_path import Segment
from joinsight.timing.savings import Savings
from joinsight.timing.stages import Stages
from joinsight.timing.task_time import Spent, divide

_LEAST_SHOWN = 0.05
"""Share of a command's wall time from which on the plan of an execution without joins is shown."""


@dataclass(frozen=True)
class StoredPlan:
    """An execution with its plan versions, AQE's decisions, all metrics by node and accumulator, and findings."""

    execution: Row
    versions: list[Row]
    decisions: list[Row]
    metrics: list[Row]
    findings: list[Row]
    """The worst first."""
    segments: list[Row]
    """The critical path, in the order of time."""
    task_times: list[Row]
    """What the run time of its stages went into."""
    stages: list[Row]
    shuffles: list[Row]
    caches: list[Row]
    """The cached tables that it filled or read, and how all executions of the application use each."""
    slots: int | None = None
    """How many tasks the application could run at once, by its settings; None: unknown."""
    earlier: Sequence[Row] = ()
    """Earlier runs of the query, the latest first: `application_id`, `duration_ms`, `plan_fingerprint`, `run_time_ms`,
    `cpu_time_ms`, `waited_ms` (run time without the CPU), `input_rows` of each."""
    spark_version: str | None = None
    """None: just measured, or of an application that is unknown."""
    advice: Sequence[AcceptedAdvice] = ()
    """What was accepted earlier for queries of the job."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the application reported of its settings."""
    fallbacks: Mapping[int, str] = field(default_factory=dict)
    """Why Spark ran an operator, and not a native engine: by node, where the engine says it."""
    nested: Sequence[StoredPlan] = ()
    """The executions that it started, in the order of their start, if it is the outermost."""
    before: Sequence[Row] = ()
    """Executions that planned it, or read a table's log for it, and ended before it began; the latest first."""

    @cached_property
    def waited_itself(self) -> Mapping[int, int]:
        """How long it waited for each execution that it started, by id: milliseconds of its critical path."""
        found: Counter[int] = Counter()
        for row in self.segments:
            if row["nested_execution_id"] is not None:
                found[row["nested_execution_id"]] += row["end_ms"] - row["start_ms"]
        return found

    @property
    def waited(self) -> Mapping[int, int]:
        """How long it waited for each execution that it, or one of these, started; by id, in milliseconds."""
        return self._waits[0]

    @cached_property
    def _waits(self) -> tuple[Counter[int], Counter[int]]:
        """`waited`, and the same without the time for which that execution waited for another of them."""
        whole, alone = Counter(self.waited_itself), Counter(self.waited_itself)
        known = self._known
        for number, stored in known.items():  # in the order of their start: the outer one first
            for inner, ms in stored.waited_itself.items():
                if inner in known:
                    part = min(alone[number], round(whole[number] * ms / stored.breakdown.wall_ms))
                    alone[number] -= part
                    whole[inner] += part
                    alone[inner] += part
        return whole, alone

    @cached_property
    def _known(self) -> Mapping[int, StoredPlan]:
        return {each.execution["execution_id"]: each for each in self.nested if each.breakdown.wall_ms}

    @property
    def drawn(self) -> Sequence[StoredPlan]:
        """The executions that it started whose plans are shown with its own: with joins, or much of its time.

        A plan of one operator, such as that of another command, says nothing.
        """
        least, waited = _LEAST_SHOWN * self.breakdown.wall_ms, self.waited
        plans = [each for each in self.nested if len(each.plan.nodes) > 1]
        return [e for e in plans if e.breakdown.joins or waited.get(e.execution["execution_id"], 0) >= least]

    def whole_ms(self, nested: StoredPlan) -> float:
        """What the wall times of this execution's operators are divided by to be shares of its own wall time."""
        waited = self._waits[1][nested.execution["execution_id"]]
        return self.breakdown.wall_ms * nested.breakdown.wall_ms / waited if waited else inf

    def own_reads_ms(self, what: str) -> tuple[int, int]:
        """How long a table format read something of its own (see `reads_of`) before it began, and while it waited."""
        within = (each.execution for each in self.nested if reads_of(each.execution) == what)
        before = (row["duration_ms"] or 0 for row in self.before if reads_of(row) == what)
        return sum(before), sum(self._waits[1][row["execution_id"]] for row in within)

    @cached_property
    def command_items(self) -> Sequence[tuple[StoredPlan, Item]]:
        """What it and the executions that it started cost, the largest first; each with the execution that it is of.

        The wall time is that of this execution's critical path: of what it started, in proportion to what that cost.
        """
        known = self._known
        found = [(self, item) for item in self._items_besides(known)]
        for stored in self.nested:
            number, items = stored.execution["execution_id"], stored._items_besides(known)
            waited = self._waits[1][number] if number in known else 0
            walls = {index: item.wall_ms for index, item in enumerate(items)}
            parts = divide(waited, walls) if waited else {}
            its = [replace(item, wall_ms=parts.get(index, 0)) for index, item in enumerate(items)]
            found += [(stored, item) for item in its if item.wall_ms or item.task_time_ms]
        return sorted(found, key=lambda each: (-each[1].wall_ms, -each[1].task_time_ms))

    @cached_property
    def all_findings(self) -> list[Row]:
        """Its findings and those of the executions that it waited for, which name these; the worst first."""
        found = list(self.findings)
        for stored in self.nested:
            number = stored.execution["execution_id"]
            if self.waited.get(number):
                found += [
                    {**row, "title": f"In execution {number}: {row['title']}", "node_id": NO_NODE}
                    for row in stored.findings
                ]
        return worst_first(found)

    def _items_besides(self, known: Collection[int]) -> Sequence[Item]:
        """Its items; that of executions that it started has only the others than these."""
        left = sum(ms for number, ms in self.waited_itself.items() if number not in known)
        items = (replace(each, wall_ms=left) if is_nested(each) else each for each in self.breakdown.items)
        return [each for each in items if left or not is_nested(each)]

    @cached_property
    def plan(self) -> PlanMetrics:
        """The final plan with what was measured at its nodes."""
        return self.plan_of(self.version(None))

    def plan_of(self, version: Row | None) -> PlanMetrics:
        """A plan version with what was measured at its nodes."""
        return PlanMetrics(graph_of(version), _measured(self.metrics))

    @cached_property
    def as_it_ran(self) -> StoredPlan:
        """Itself; with an earlier plan as its final one where AQE left nothing of what ran, because no row passed."""
        if len(self.versions) < 2 or _has_run(self.plan):
            return self
        ran = {row["stage_id"] for row in self.stages if row["run_time_ms"]}
        for number in range(len(self.versions) - 1, 0, -1) if ran else ():
            earlier = replace(self, versions=self.versions[:number], shuffles=[], caches=[])
            if _has_run(earlier.plan):
                return earlier if ran & earlier.breakdown.stages.ran.keys() else self
        return self

    @cached_property
    def breakdown(self) -> CostBreakdown:
        """What the execution cost."""
        return _breakdown(self.plan, self.segments, self.task_times, self.shuffles)

    def not_run(self, version: Row) -> frozenset[int]:
        """The nodes of a plan version that fill cached tables which were there: their metrics are Spark's zeros."""
        return not_run(self.plan_of(version))

    @cached_property
    def savings(self) -> Savings:
        """How much less time it would have taken without an operator."""
        attempts = [(each.row["stage_id"], each.row["stage_attempt"]) for each in self.recording.stages]
        return Savings(self.breakdown, self.recording.replay, attempts)

    @cached_property
    def recording(self) -> Recording:
        """What ran when, to schedule it again."""
        return Recording(self.execution, self.stages, self.slots)

    @cached_property
    def operator_keys(self) -> Mapping[int, str]:
        """Keys of the operators of its final plan, by node."""
        return Identity().operator_keys(self.plan.graph)

    @cached_property
    def not_followed(self) -> Sequence[AcceptedAdvice]:
        """The accepted advice that its final plan does not follow."""
        if not self.advice:
            return ()
        nodes = self.plan.nodes
        strategies = {key: operators.join_strategy(nodes[i].name) or "" for i, key in self.operator_keys.items()}
        return tuple(not_followed(self.advice, strategies, self.session_settings))

    @property
    def session_settings(self) -> Mapping[str, str]:
        """What is known of the settings that it ran with: the session's go before the application's."""
        return {**self.settings, **(self.execution["configuration"] or {})}

    def version(self, number: int | None) -> Row | None:
        """A plan version, the final one for None; None if the execution has no plan. Raises `NotFound`."""
        if not self.versions:
            return None
        if number is None:
            return self.versions[-1]
        if not 0 <= number < len(self.versions):
            raise NotFound(f"No plan version {number}; the versions are 0 to {len(self.versions) - 1}.")
        return self.versions[number]


def _has_run(plan: PlanMetrics) -> bool:
    """Whether tasks measured something at one of its nodes."""
    measured = (each for node in plan.graph.nodes for each in plan.metrics(node).values())
    return any(each.max_stage is not None and (each.sum or 0) > 0 for each in measured)


def is_nested(item: Item) -> bool:
    """Whether it is the time of executions that this one started."""
    return item.kind == "rest" and item.name == "nested"


def stored_plan(rows: Rows) -> StoredPlan:
    """What `read_plan` reads, once these rows are stored."""

    def columns(table: Iterable[Any]) -> list[Row]:
        return [as_columns(row) for row in table]

    return StoredPlan(
        as_columns(rows.execution),
        columns(rows.plan_version),
        columns(rows.aqe_decision),
        columns(rows.node_metric),
        columns(rows.finding),  # the FindingsEngine has ranked them
        columns(rows.segment),
        columns(rows.task_time),
        columns(rows.stage),
        columns(rows.shuffle),
        [{**row, **uses_of([row])} for row in columns(rows.cache)],
        fallbacks={n.node_id: n.metadata[FALLBACK] for n in rows.plan_node if n.metadata and FALLBACK in n.metadata},
    )


def uses_of(rows: Sequence[Row]) -> Row:
    """How all executions of an application use a cached table, from its rows."""
    fills = [row for row in rows if row["fill_stages"] is not None]
    return {
        "filled_by": [row["execution_id"] for row in fills],
        "filled_ms": [row["fill_task_ms"] or 0 for row in fills],
        "all_fill_wall_ms": sum(row["fill_wall_ms"] or 0 for row in fills),
        "all_fill_task_ms": sum(row["fill_task_ms"] or 0 for row in fills),
        "reads": len(rows) - len(fills),
    }


def _breakdown(
    plan: PlanMetrics, path: Iterable[Row], task_times: Iterable[Row], shuffles: Iterable[Row]
) -> CostBreakdown:
    """What an execution cost, from its final plan, and rows of `segment`, `task_time` and `shuffle`."""
    exchanges = {row["node_id"]: (row["map_stages"] or (), row["reduce_stages"] or ()) for row in shuffles}
    segments = (Segment(*map(row.__getitem__, Segment.__struct_fields__)) for row in path)
    spent = (Spent(*map(row.__getitem__, Spent.__struct_fields__)) for row in task_times)
    return cost.cost_breakdown(plan, segments, spent, Stages(plan, exchanges))


def graph_of(version: Row | None) -> Graph:
    """The graph of a plan version; without nodes for None."""
    if version is None:
        return Graph((), ())
    nodes = (
        Node(
            node["id"],
            node["name"],
            node["simple"],
            [Metric(name, number, kind) for number, name, kind in node["metrics"]],
            cluster=node["cluster"],
            is_cluster=node["is_cluster"],
        )
        for node in version["nodes"]
    )
    return Graph(tuple(nodes), tuple((child, parent) for child, parent in version["edges"]))


def _measured(metrics: Iterable[Row]) -> Mapping[int, Accumulator]:
    """Measurements by accumulator; of the stages, only that of the largest value is stored."""
    return {
        row["accumulator_id"]: Accumulator(
            row["accumulator_id"],
            row["type"],
            row["count"],
            row["total"],
            min=row["min"],
            median=row["median"],
            p95=row["p95"],
            max=row["max"],
            max_stage=row["max_stage_id"],
            max_stage_attempt=row["max_stage_attempt"],
            max_task=row["max_task_id"],
            stages=[] if row["max_stage_id"] is None else [row["max_stage_id"]],
        )
        for row in metrics
        if row["count"] is not None
    }
