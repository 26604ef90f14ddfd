"""Turns a document into rows. Pure: no I/O, the same document gives the same rows.

::

    Execution ──► execution, stage
        jobs, stages ──► critical path ──► segment
        samples, metrics ──► task_time;  both ──► cost, and costs of shuffle, broadcast, joins
        plans ──► plan_version;  each with the one before ──► aqe_decision
                                 the last one, as Spark's graph ──► plan_node, plan_edge
        accumulators ──► node_metric;  with the graph ──► shuffle, broadcast, joins, cache
        the first and the last graph ──► query_shape, plan_fingerprint, operator_key

Plans, metrics, times and costs are stored packed, a row for an execution (`tables.packed`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from msgspec import structs

from joinsight.analysis.called_from import called_from
from joinsight.analysis.dbt import dbt_tags
from joinsight.analysis.search import words
from joinsight.analysis.table_formats import is_own_part
from joinsight.analysis.title import is_sparks_own, title
from joinsight.contract.document import (
    DOCTORS_QUERY,
    MAX_LONG,
    NOT_RUN,
    Accumulator,
    Application,
    Execution,
    JoinHint,
    Metric,
    Stage,
)
from joinsight.contract.micro_batch import MicroBatch, micro_batch
from joinsight.plan import operators, texts
from joinsight.plan.broadcastable import DEFAULT_MAX_BYTES, Side, could_be_broadcast
from joinsight.plan.caches import Cache, caches, not_run
from joinsight.plan.decisions import Changes
from joinsight.plan.graph import COMMAND, COMMAND_TABLE, Graph, Node, build
from joinsight.plan.identity import disambiguate, shape_of_command
from joinsight.plan.keys import KEY_CACHE
from joinsight.plan.metrics import Input, PlanMetrics
from joinsight.plan.operators import AQE_READ, DATA_SIZE, OUTPUT_ROWS, ROWS_READ
from joinsight.tables import (
    ApplicationRow,
    AqeDecisionRow,
    BroadcastRow,
    CacheRow,
    CostRow,
    ExecutionMetricsRow,
    ExecutionPlansRow,
    ExecutionRow,
    ExecutionTimesRow,
    FindingRow,
    JoinRow,
    NodeMetricRow,
    PlanEdgeRow,
    PlanNodeRow,
    PlanVersionRow,
    SegmentRow,
    ShuffleRow,
    StageRow,
    TaskTimeRow,
    from_metrics,
    pack_costs,
    pack_metrics,
    pack_plans,
    pack_times,
    total,
)
from joinsight.timing import dependencies
from joinsight.timing.cost import CostBreakdown, JoinCost, cost_breakdown
from joinsight.timing.cost_kinds import by_kind
from joinsight.timing.critical_path import STAGE_CAUSES, CriticalPath, critical_path
from joinsight.timing.stages import READS, WRITES, Stages
from joinsight.timing.task_time import Spent, sum_of_errors, task_times

NO_NODE = -1
"""`node_metric.node_id` of a metric whose node is not part of the final plan."""

DEFAULT_BROADCAST_THRESHOLD = 10 * 1024 * 1024
DEFAULT_SHUFFLE_PARTITIONS = 200

_NOT_MEASURED = Accumulator(0, "", 0)
_TABLES = re.compile(r"`[^`]+`|(?<=/)[^/\],\s]+(?=[\],])")
"""Names in quotes, and the last parts of paths."""
_BROADCAST = re.compile("broadcast", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an execution, by the names of their tables, and of the views of packed tables."""

    execution: ExecutionRow
    plan_version: Sequence[PlanVersionRow]
    aqe_decision: Sequence[AqeDecisionRow]
    plan_node: Sequence[PlanNodeRow]
    plan_edge: Sequence[PlanEdgeRow]
    node_metric: Sequence[NodeMetricRow]
    shuffle: Sequence[ShuffleRow]
    broadcast: Sequence[BroadcastRow]
    joins: Sequence[JoinRow]
    stage: Sequence[StageRow]
    segment: Sequence[SegmentRow]
    task_time: Sequence[TaskTimeRow]
    cost: Sequence[CostRow]
    cache: Sequence[CacheRow]
    finding: Sequence[FindingRow] = ()
    """Set by the `FindingsEngine`."""

    @property
    def execution_metrics(self) -> Sequence[ExecutionMetricsRow]:
        """`node_metric` as it is stored."""
        return pack_metrics(self.node_metric)

    @property
    def execution_plans(self) -> Sequence[ExecutionPlansRow]:
        """`plan_version`, `plan_node` and `plan_edge` as they are stored."""
        return pack_plans(self.plan_version, self.plan_node)

    @property
    def execution_times(self) -> Sequence[ExecutionTimesRow]:
        """`segment` and `task_time` as they are stored."""
        return pack_times(self.segment, self.task_time)

    @property
    def execution_costs(self) -> Sequence[Any]:
        """`cost` as it is stored: an `ExecutionCostsRow`."""
        return pack_costs(self.execution.job_name, self.cost)

    def by_table(self) -> dict[str, Sequence[Any]]:
        """All rows, by table or view."""
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "execution": [self.execution]}


def application_row(a: Application) -> ApplicationRow:
    """The row of table `application`."""
    return ApplicationRow(
        **_application(a),
        state=a.state,
        started_at=_time(a.started_at_ms),
        ended_at=_time(a.ended_at_ms),
        spark_user=a.user,
        master=a.master,
        tags=a.tags,
        configuration=a.configuration,
        sequence=a.sequence,
    )


def application_row_of(e: Execution) -> ApplicationRow:
    """The row of an application whose own document has not arrived, from an execution's document."""
    return ApplicationRow(**_application(e), state="unknown", tags=e.tags, sequence=0)


def _application(document: Application | Execution) -> dict[str, Any]:
    return {
        "application_id": document.application_id,
        "attempt_id": document.attempt_id,
        "name": document.application_name,
        "job_name": document.job_name,
        "spark_version": document.listener.spark_version,
        "origin": document.origin,
        "listener_id": document.listener.id,
        "listener_version": document.listener.version,
    }


def execution_rows(e: Execution, plans: Plans | None = None) -> Rows:
    """All rows of an execution, without findings.

    `plans` may come from another run with equal nodes and plans, which saves computing them again.
    """
    source = _Source(e, plans or Plans(e))
    stages = Stages(source)
    path = critical_path(
        e,
        dependencies.broadcasts(source, stages),
        is_adaptive=source.plans.is_adaptive,
        commit_ms=dependencies.commit_ms(source),
        nodes=stages.writes,
    )
    spent = list(task_times(source, e.stages, source.plans.removed))
    breakdown = cost_breakdown(source, path.segments, spent, stages)
    costs = _costs(breakdown, has_ended=bool(path.segments))
    absent = not_run(source)
    measured = () if source.is_outer else [node for node in source.graph.nodes if node.id not in absent]
    joins = [row for node in measured if (row := _join(source, node, costs))]
    broadcasts = [_broadcast(source, node, costs) for node in measured if operators.is_broadcast(node.name)]
    joins_of: dict[int | None, list[int]] = defaultdict(list)  # an exchange
    for join in joins:
        for exchange in {join.left_exchange, join.right_exchange}:
            joins_of[exchange].append(join.node_id)
    jobs_of: dict[int, list[int]] = defaultdict(list)  # a stage
    for job in e.jobs:
        for stage_id in set(job.stages):
            jobs_of[stage_id].append(job.id)
    return Rows(
        execution=_execution(source, broadcasts, spent),
        plan_version=list(_plan_versions(source)),
        aqe_decision=[] if source.is_outer else list(_decisions(source)),
        plan_node=_plan_nodes(source, spent),
        plan_edge=[
            PlanEdgeRow(**source.key, position=position, child_id=child, parent_id=parent)
            for position, (child, parent) in enumerate(source.graph.edges)
        ],
        node_metric=_node_metrics(source),
        shuffle=[_shuffle(source, node, joins_of, costs) for node in measured if operators.is_shuffle(node.name)],
        broadcast=broadcasts,
        joins=joins,
        stage=[_stage(source, stage, jobs_of, path) for stage in e.stages],
        segment=[SegmentRow(**source.key, position=i, **structs.asdict(each)) for i, each in enumerate(path.segments)],
        task_time=[TaskTimeRow(**source.key, position=i, **structs.asdict(each)) for i, each in enumerate(spent)],
        cost=[] if source.is_outer else list(_kinds(source, breakdown, has_ended=bool(path.segments))),
        cache=[] if source.is_outer else [_cache(source, each, path) for each in caches(source)],
    )


class Plans:
    """The plans of an execution without measurements and times: graphs, keys, changes, hints."""

    def __init__(self, e: Execution, check_cancelled: Callable[[], None] = lambda: None) -> None:
        """`check_cancelled` is called for each plan; it raises to end the work."""
        old = version_tuple(e.listener.spark_version) < (4, 1)
        self.graphs = []
        for plan in e.plans:
            check_cancelled()
            nodes = [e.nodes[i] for i in plan.nodes]
            self.graphs.append(build(nodes, plan.parents, keep_duplicate_subquery_edges=old))
        self.graph = self.graphs[-1] if self.graphs else Graph((), ())
        self.keys = KEY_CACHE.keys(e, self.graphs, check_cancelled)
        check_cancelled()
        self.changes = Changes(self.graphs, self.keys.bases)
        check_cancelled()
        self.operator_keys = disambiguate(self.keys.bases[-1]) if self.graphs else {}
        self.hints = self._hints(e) if e.join_hints else {}
        self.is_adaptive = any(e.nodes[i].name == operators.ADAPTIVE_PLAN for plan in e.plans[:1] for i in plan.nodes)

    @cached_property
    def removed(self) -> Sequence[Node]:
        """The nodes of earlier plans whose metrics the final plan does not have."""
        kept = {metric.id for node in self.graph.nodes for metric in node.metrics}
        found: dict[int, Node] = {}
        for graph in self.graphs[:-1]:
            for node in graph.nodes:
                if node.metrics and not any(metric.id in kept for metric in node.metrics):
                    found.setdefault(node.metrics[0].id, node)
        return list(found.values())

    def _hints(self, e: Execution) -> dict[str, str]:
        """``broadcast left`` by the operator key of the join; AQE gives a join new metrics in each plan."""
        hints = {hint.metric: _hint_text(hint) for hint in e.join_hints}
        by_operator = {}
        for graph, bases in zip(self.graphs, self.keys.bases, strict=True):
            keys = disambiguate(bases)
            for node in graph.nodes:
                for metric in node.metrics:
                    if node.id in keys and metric.id in hints:
                        by_operator[keys[node.id]] = hints[metric.id]
        return by_operator


def _hint_text(hints: JoinHint) -> str:
    sides = ((hints.left, "left"), (hints.right, "right"))
    return ", ".join(f"{hint} {side}" for hint, side in sides if hint)


class _Source(PlanMetrics):
    """An execution with its final graph and its measurements, shared by the functions that make rows."""

    def __init__(self, e: Execution, plans: Plans) -> None:
        self.execution = e
        self.plans = plans
        self.key: dict[str, Any] = {
            "started_at": _time(e.started_at_ms),
            "application_id": e.application_id,
            "attempt_id": e.attempt_id,
            "execution_id": e.execution_id,
        }
        super().__init__(plans.graph, {a.id: a for a in e.accumulators})
        self.batch = micro_batch(e.description)
        if self.batch is None and e.streaming_query_id is not None:  # its function has set another description
            self.batch = MicroBatch(None, e.streaming_query_id, e.job_group, e.streaming_batch_id)
        is_root = e.root_execution_id == e.execution_id
        wraps = (self.batch is not None and is_root) or [node.name for node in plans.graph.nodes] == [
            operators.COMMAND_RESULT
        ]
        is_outer = wraps and not e.jobs and e.state not in ("failed", "lost")
        self.is_outer = is_outer or e.description == DOCTORS_QUERY
        self._retried = {stage.id for stage in e.stages if stage.attempt > 0}
        self.threshold = byte_size(
            e.configuration.get("spark.sql.autoBroadcastJoinThreshold"), DEFAULT_BROADCAST_THRESHOLD
        )
        self.measured_threshold = self.threshold
        if plans.is_adaptive:
            adaptive = e.configuration.get("spark.sql.adaptive.autoBroadcastJoinThreshold")
            self.measured_threshold = byte_size(adaptive, self.threshold)

    def is_exact(self, node: Node, metric: str) -> bool:
        """Whether a metric's total is complete; of a retried stage, Spark counts the last attempt only."""
        e, measured = self.execution, self.metrics(node).get(metric)
        is_retried = measured is not None and not self._retried.isdisjoint(measured.stages)
        return e.state == "succeeded" and not e.incomplete and not is_retried


def _query_shape(source: _Source, line: str | None) -> str | None:
    """The key of the query; of a command whose plan does not tell its table, the line of code is part of it."""
    e, shape = source.execution, source.plans.keys.query_shape
    if source.is_outer:
        return None
    if shape is None or not _is_bare_command(e, source.plans.graphs[0]):
        return shape
    known = shape if COMMAND in source.plans.graphs[0].nodes[0].metadata else None
    if e.root_execution_id != e.execution_id:
        return known  # a part of another command
    own = "" if is_sparks_own(e.description) else re.sub(r"\d+", "?", e.description)
    return shape_of_command(shape, line or own or dbt_tags(e.statement or "").get("dbt_node", "")) or known


def _is_bare_command(e: Execution, graph: Graph) -> bool:
    """Whether it only started others, and its plan does not tell what it changes."""
    only_started = bool(e.nested) and not e.jobs
    if not only_started or len(graph.nodes) != 1:
        return False
    (node,) = graph.nodes
    return COMMAND_TABLE not in node.metadata and node.simple.strip() == node.name


def _execution(source: _Source, broadcasts: Iterable[BroadcastRow], spent: Iterable[Spent]) -> ExecutionRow:
    e, batch = source.execution, source.batch
    ran = [stage for stage in e.stages if stage.state not in NOT_RUN]
    is_part = e.root_execution_id != e.execution_id and is_own_part(e.description, e.call_site)
    statement = "" if is_part else e.statement or ""
    named = title(e.description, statement, source.plans.keys.outline)
    line = called_from(e.description, e.call_site)
    return ExecutionRow(
        **source.key,
        root_execution_id=e.root_execution_id,
        job_name=e.job_name,
        query_shape=_query_shape(source, line),
        plan_fingerprint=source.plans.keys.fingerprints[-1] if source.plans.keys.fingerprints else None,
        state=e.state,
        ended_at=_time(e.ended_at_ms),
        duration_ms=None if e.ended_at_ms is None else max(0, e.ended_at_ms - e.started_at_ms),
        title=named,
        called_from=line,
        description=e.description,
        call_site=e.call_site,
        error=e.error,
        job_group=e.job_group,
        job_tags=e.job_tags,
        user_name=e.user or None,  # spark-pipelines sends an empty one
        session_id=e.session_id,
        operation_id=e.operation_id,
        user_tags=e.user_tags,
        streaming_query_name=batch and batch.query_name,
        streaming_query_id=batch and batch.query_id,
        streaming_run_id=batch and batch.run_id,
        streaming_batch_id=batch and batch.batch_id,
        is_outer=source.is_outer,
        nested=len(e.nested) if e.root_execution_id == e.execution_id else 0,
        tags={**dbt_tags(e.description, e.statement or ""), **e.tags},
        configuration=e.configuration,
        jobs=len(e.jobs),
        stages=len(ran),
        tasks=total(stage.succeeded_tasks for stage in ran),
        task_time_ms=total(stage.run_time_ms for stage in ran),
        is_sampled=any(each.method == "sampled" for each in spent),
        input_bytes=total(stage.input_bytes for stage in ran),
        output_bytes=total(stage.output_bytes for stage in ran),
        shuffle_write_bytes=total(stage.shuffle_write_bytes for stage in ran),
        shuffle_read_bytes=total(s.shuffle_read_local_bytes + s.shuffle_read_remote_bytes for s in ran),
        broadcast_bytes=total(row.size_bytes for row in broadcasts),
        memory_spilled_bytes=total(stage.memory_spilled_bytes for stage in ran),
        disk_spilled_bytes=total(stage.disk_spilled_bytes for stage in ran),
        shuffle_partitions=byte_size(e.configuration.get("spark.sql.shuffle.partitions"), DEFAULT_SHUFFLE_PARTITIONS),
        broadcast_threshold_bytes=source.threshold,
        is_adaptive=source.plans.is_adaptive,
        plan_versions=len(e.plans) + e.plans_dropped,
        incomplete=e.incomplete or None,
        incomplete_codes=e.incomplete_codes or None,
        origin=e.origin,
        listener_id=e.listener.id,
        sequence=e.sequence,
        words=words([named or "", line or "", *_searchable(source)]),
    )


def _searchable(source: _Source) -> Iterator[str]:
    """What an execution is found by: its job, description, operators, the tables that it reads and writes, SQL text."""
    e = source.execution
    yield e.job_name
    yield e.description
    for node in source.graph.nodes:
        if not node.is_cluster:
            yield node.name
            yield from _TABLES.findall(node.simple)
            yield node.metadata.get(COMMAND_TABLE, "")
    yield e.statement or ""  # last, because a long one fills what is left


def _plan_versions(source: _Source) -> Iterator[PlanVersionRow]:
    plans = source.execution.plans
    # By identity, as plan versions share nodes; the document keeps them alive, so an id is not reused
    metrics: dict[int, list[list[object]]] = {}

    def listed(node: Node) -> list[list[object]]:
        known = metrics.get(id(node.metrics))
        if known is None:
            known = metrics[id(node.metrics)] = [[metric.id, metric.name, metric.type] for metric in node.metrics]
        return known

    for version, (plan, graph, fingerprint) in enumerate(
        zip(plans, source.plans.graphs, source.plans.keys.fingerprints, strict=True)
    ):
        nodes = [
            {
                "id": node.id,
                "name": node.name,
                "simple": node.simple,
                "cluster": node.cluster,
                "is_cluster": node.is_cluster,
                "metrics": listed(node),
            }
            for node in graph.nodes
        ]
        yield PlanVersionRow(
            **source.key,
            version=version,
            planned_at=_at(plan.at_ms),
            is_final=version == len(plans) - 1,
            plan_fingerprint=fingerprint,
            nodes=nodes,
            edges=graph.edges,
        )


def _decisions(source: _Source) -> Iterator[AqeDecisionRow]:
    positions: Counter[int] = Counter()
    for decision in source.plans.changes.decisions(source.accumulators):
        at = _at(source.execution.plans[decision.version].at_ms)
        yield AqeDecisionRow(**source.key, **asdict(decision), position=positions[decision.version], decided_at=at)
        positions[decision.version] += 1


def _plan_nodes(source: _Source, spent: Iterable[Spent]) -> list[PlanNodeRow]:
    parts: dict[int | None, list[Spent]] = defaultdict(list)
    for each in spent:
        parts[each.node_id].append(each)
    return [_plan_node(source, node, parts[node.id]) for node in source.graph.nodes]


def _plan_node(source: _Source, node: Node, spent: Sequence[Spent]) -> PlanNodeRow:
    errors = [each.task_time_error_ms for each in spent if each.task_time_error_ms is not None]
    return PlanNodeRow(
        **source.key,
        node_id=node.id,
        operator_key=source.plans.operator_keys.get(node.id),
        name=node.name,
        simple=node.simple,
        cluster_id=node.cluster,
        is_cluster=node.is_cluster,
        task_time_ms=total(each.task_time_ms for each in spent),
        task_time_error_ms=sum_of_errors(errors),
        task_time_method=("sampled" if errors else "metrics") if spent else None,
        metadata=dict(node.metadata) or None,
    )


def _node_metrics(source: _Source) -> list[NodeMetricRow]:
    rows = {
        (node.id, metric.id): _node_metric(source, node.id, metric)
        for node in source.graph.nodes
        for metric in node.metrics
    }
    placed = {accumulator for _, accumulator in rows}
    earlier = [metric for graph in source.plans.graphs for node in graph.nodes for metric in node.metrics]
    for metric in (*earlier, *source.execution.announced):
        if metric.id not in placed and metric.id in source.accumulators:
            rows[NO_NODE, metric.id] = _node_metric(source, NO_NODE, metric)
    return list(rows.values())


def _node_metric(source: _Source, node_id: int, metric: Metric) -> NodeMetricRow:
    measured = source.accumulators.get(metric.id) or _NOT_MEASURED
    return NodeMetricRow(
        **source.key,
        node_id=node_id,
        accumulator_id=metric.id,
        name=metric.name,
        type=metric.type,
        count=None if measured is _NOT_MEASURED else measured.count,
        total=measured.sum,
        min=measured.min,
        median=measured.median,
        p95=measured.p95,
        max=measured.max,
        max_stage_id=measured.max_stage,
        max_stage_attempt=measured.max_stage_attempt,
        max_task_id=measured.max_task,
        text=measured.text,
    )


def _shuffle(source: _Source, node: Node, joins_of: Mapping[int | None, list[int]], costs: Costs) -> ShuffleRow:
    text = texts.shuffle_text(node.simple)
    metrics = source.metrics(node)
    columns = from_metrics(ShuffleRow, metrics)
    if columns["partitions"] is None:
        columns["partitions"] = text.partitions
    read = metrics.get(ROWS_READ)
    if read is not None and read.count > 1 and read.max:
        columns["rows_read_max"] = read.max
        columns["rows_read_max_task_id"] = read.max_task
        median = read.median
        if _has_other_tasks(source, node, read, columns["partitions"]):
            median = read.positive_median if (read.positive or 0) > 1 else None
        columns["rows_read_median"] = median
        columns["skew_ratio"] = read.max / median if median else None
    reads = [source.nodes[i] for i in source.consumers(node) if _is_aqe_read(source.nodes[i])]
    for aqe_read in reads[:1]:
        columns["aqe_read"] = re.findall(r"coalesced|skewed|local", aqe_read.simple)
        columns |= from_metrics(ShuffleRow, source.metrics(aqe_read), AQE_READ)
    return ShuffleRow(
        **source.key,
        node_id=node.id,
        operator_key=source.plans.operator_keys[node.id],
        partitioning=text.partitioning,
        keys=list(text.keys),
        origin=text.origin or next(filter(None, (texts.origin(part.simple) for part in source.parts(node))), None),
        consumers=len(source.consumers(node)),
        join_nodes=joins_of.get(node.id, []),
        map_stages=_stages(metrics, WRITES),
        reduce_stages=_stages(metrics, READS),
        **columns,
        **costs.get(node.id, {}),
    )


def _has_other_tasks(source: _Source, shuffle: Node, read: Accumulator, partitions: int | None) -> bool:
    """Whether a UNION has tasks of other branches in the stages that read a shuffle; they count as if they read 0 rows.

    Without them, a stage has at most as many tasks as its consumers read partitions. From Spark 4.1 on, that is so for
    branches of equal partitioning: each task reads a partition of each.
    """
    consumers = [source.nodes[i] for i in source.consumers(shuffle)]
    after_aqe = (source.total(each, "number of partitions") if _is_aqe_read(each) else None for each in consumers)
    numbers = [number or partitions or 0 for number in after_aqe]
    in_a_stage = sum(numbers) if len(read.stages) < len(numbers) else max(numbers, default=0)
    return read.count > in_a_stage * max(1, len(read.stages)) and _is_in_union(source, shuffle)


def _is_in_union(source: _Source, exchange: Node) -> bool:
    """Whether the rows of an exchange reach a UNION before another exchange."""
    todo = list(source.consumers(exchange))
    seen = set(todo)
    while todo:
        node = source.nodes[todo.pop()]
        operator = operators.of(node.name)
        if operator.name == operators.UNION:
            return True
        if not operator.is_exchange:
            above = set(source.consumers(node)) - seen
            seen |= above
            todo += above
    return False


def _is_aqe_read(node: Node) -> bool:
    return operators.of(node.name).kind == "shuffle_read"


def _broadcast(source: _Source, node: Node, costs: Costs) -> BroadcastRow:
    measured = from_metrics(BroadcastRow, source.metrics(node))
    consumers = source.consumers(node)
    if measured["size_bytes"] is not None:
        outcome = "succeeded"
    else:
        outcome = {"failed": "failed", "running": "running"}.get(source.execution.state, "unknown")
    if outcome == "failed" and not _BROADCAST.search(source.execution.error or "") and not _has_run(source, node):
        outcome = "unknown"
    return BroadcastRow(
        **source.key,
        node_id=node.id,
        operator_key=source.plans.operator_keys[node.id],
        mode=texts.broadcast_mode(node.simple),
        outcome=outcome,
        consumers=len(consumers),
        join_nodes=[i for i in consumers if operators.join_strategy(source.nodes[i].name)],
        threshold_bytes=source.measured_threshold,
        shuffled_bytes=_shuffled_bytes(source, node),
        **measured,
        **costs.get(node.id, {}),
    )


def _has_run(source: _Source, exchange: Node) -> bool:
    """Whether an operator below measured something in this execution."""
    todo, seen = list(source.children.get(exchange.id, ())), set()
    while todo:
        node = source.nodes[todo.pop()]
        if node.id not in seen:
            seen.add(node.id)
            todo += source.children.get(node.id, ())
            if any((measured.sum or 0) > 0 for measured in source.metrics(node).values()):
                return True
    return False


def _shuffled_bytes(source: _Source, broadcast: Node) -> int | None:
    """The data size of the shuffle whose rows are broadcast; None unless they come directly from a shuffle."""
    below = source.inputs(broadcast)
    if len(below) == 1 and _is_aqe_read(source.nodes[below[0]]):
        below = source.inputs(source.nodes[below[0]])
    shuffles = [source.nodes[i] for i in below if operators.is_shuffle(source.nodes[i].name)]
    return source.total(shuffles[0], DATA_SIZE) if shuffles else None


def _join(source: _Source, node: Node, costs: Costs) -> JoinRow | None:
    text = texts.join_text(node.name, node.simple)
    if text is None:
        return None
    below = source.inputs(node)[:2]
    left, right = (*(source.fed_by(child) for child in below), Input(), Input())[:2]
    fed = {"left": left, "right": right}
    counts_again = text.strategy == operators.CARTESIAN_PRODUCT
    # A task of a cartesian product computes a partition of each side: a side's rows count once a partition of the other
    rows = {side: None if counts_again and not its.is_counted_by_exchange else its.rows for side, its in fed.items()}
    measured = from_metrics(JoinRow, source.metrics(node))
    built = fed[text.build_side].exchange if text.build_side else None
    if built is not None and operators.is_broadcast(source.nodes[built].name):
        of_broadcast = from_metrics(BroadcastRow, source.metrics(source.nodes[built]))
        measured |= {"build_bytes": of_broadcast["size_bytes"], "build_ms": of_broadcast["build_ms"]}
    sorts = [source.nodes[child] for child in below if operators.of(source.nodes[child].name).kind == "sort"]
    hint = source.plans.hints.get(source.plans.operator_keys[node.id]) or None
    verdict = could_be_broadcast(
        text,
        {side: _side(source, its) for side, its in fed.items()},
        source.measured_threshold,
        hint=hint,
        max_bytes=max_broadcast_bytes(source.execution.configuration),
    )
    return JoinRow(
        **source.key,
        node_id=node.id,
        operator_key=source.plans.operator_keys[node.id],
        strategy=text.strategy,
        join_type=text.join_type,
        build_side=text.build_side,
        left_keys=list(text.left_keys),
        right_keys=list(text.right_keys),
        condition=text.condition,
        is_skew=text.is_skew,
        hint=hint,
        output_ratio=_ratio(measured["output_rows"], rows["left"], rows["right"]),
        left_rows=rows["left"],
        right_rows=rows["right"],
        left_bytes=left.bytes,
        right_bytes=right.bytes,
        left_exchange=left.exchange,
        right_exchange=right.exchange,
        sort_ms=total(source.total(each, "sort time") for each in sorts),
        spill_bytes=total(source.total(each, "spill size") for each in (node, *sorts)),
        threshold_bytes=source.measured_threshold,
        broadcast_verdict=verdict.verdict,
        broadcast_side=verdict.side,
        broadcast_side_bytes=verdict.bytes,
        **measured,
        **costs.get(node.id, {}),
    )


def _side(source: _Source, fed: Input) -> Side:
    """The size of a side; empty if it may have grown between its exchange and the join."""
    if fed.exchange is None:
        return Side()
    exchange = source.nodes[fed.exchange]
    if not operators.is_broadcast(exchange.name) and not fed.is_whole:
        return Side()
    return Side(fed.bytes, fed.rows, source.is_exact(exchange, DATA_SIZE))


def _ratio(output: int | None, left: int | None, right: int | None) -> float | None:
    """Output rows divided by the rows of the larger input; None where not measured, or without input."""
    if output is None or left is None or right is None or max(left, right) <= 0:
        return None
    return output / max(left, right)


def _stage(source: _Source, stage: Stage, jobs_of: Mapping[int, list[int]], path: CriticalPath) -> StageRow:
    return StageRow(
        **source.key,
        stage_id=stage.id,
        stage_attempt=stage.attempt,
        name=stage.name,
        state=stage.state,
        job_ids=jobs_of.get(stage.id, []),
        submitted_at=_time(stage.submitted_at_ms),
        completed_at=_time(stage.completed_at_ms),
        failure=stage.failure,
        parent_ids=stage.parents,
        first_launch_at=_time(stage.first_launch_at_ms),
        last_finish_at=_time(stage.last_finish_at_ms),
        oldest_launch_at=_time(stage.oldest_launch_at_ms),
        oldest_task_id=stage.oldest_task,
        slots=stage.slots,
        width=stage.width,
        tail_at=_time(stage.tail_at_ms),
        executors=stage.executors,
        hosts=stage.hosts,
        slowest=stage.slowest,
        slack_ms=path.slack_ms.get((stage.id, stage.attempt)),
        waits_for=path.waits_for.get(stage.id),
        broadcast_ms=path.broadcast_ms.get(stage.id),
        tasks=stage.tasks,
        succeeded_tasks=stage.succeeded_tasks,
        failed_tasks=stage.failed_tasks,
        killed_tasks=stage.killed_tasks,
        totals=None if stage.state in NOT_RUN else stage,
        run_time_ms=stage.run_time,
        cpu_time_ms=stage.cpu_time,
        shuffle_read_bytes=stage.shuffle_read,
        shuffle_read_rows=stage.shuffle_read_records,
    )


Costs = Mapping[int, Mapping[str, Any]]
"""By node, the columns of what it cost."""


def _costs(breakdown: CostBreakdown, *, has_ended: bool) -> Costs:
    costs: dict[int, dict[str, Any]] = {}
    for node_id, each in breakdown.charged().items():
        wall_ms = each.wall_ms if has_ended else None
        costs[node_id] = {"cost_wall_ms": wall_ms, "cost_task_ms": total([each.task_time_ms])}
        if isinstance(each, JoinCost):
            costs[node_id]["cost_is_partial"] = each.is_partial
            costs[node_id]["cost_most_wall_ms"] = each.most_wall_ms if has_ended else None
    return costs


def _kinds(source: _Source, breakdown: CostBreakdown, *, has_ended: bool) -> Iterator[CostRow]:
    for each in by_kind(source.nodes, breakdown):
        wall_ms, task_ms = each.wall_ms if has_ended else None, total([each.task_ms]) or None
        if wall_ms is not None or task_ms is not None:
            yield CostRow(**source.key, kind=each.kind, wall_ms=wall_ms, task_ms=task_ms)


def _cache(source: _Source, cache: Cache, path: CriticalPath) -> CacheRow:
    stages = cache.filled_in
    waited = (s.end_ms - s.start_ms for s in path.segments if s.stage_id in stages and s.cause in STAGE_CAUSES)
    scans = [source.nodes[i] for i in cache.scans]
    return CacheRow(
        **source.key,
        cache_id=cache.cache_id,
        node_id=cache.scans[0],
        scans=len(scans),
        table_name=operators.cached_table(scans[0].name) or None,
        rows_read=total(source.total(node, OUTPUT_ROWS) for node in scans),
        fill_stages=sorted(stages) or None,
        fill_wall_ms=sum(waited) if stages and path.segments else None,
        fill_task_ms=total(stage.run_time_ms for stage in source.execution.stages if stage.id in stages),
    )


def _stages(metrics: Mapping[str, Accumulator], names: Iterable[str]) -> list[int]:
    return sorted({stage for name in names if name in metrics for stage in metrics[name].stages})


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else _at(ms)


def _at(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


_UNITS: dict[str, int] = defaultdict(lambda: 1, {unit: 1024**power for power, unit in enumerate("bkmgtp")})
_SIZE = re.compile(r"(-?\d{1,19})\s*(?:([kmgtp]?)i?b?)", re.IGNORECASE)


def byte_size(text: str | None, default: int | None) -> int | None:
    """Bytes of a Spark byte string (``10MB``, ``64m``, ``-1``); `default` for None, None if unreadable."""
    if text is None:
        return default
    found = _SIZE.fullmatch(text.strip())
    if not found:
        return None
    return max(-MAX_LONG, min(int(found[1]) * _UNITS[found[2].lower()], MAX_LONG))


def max_broadcast_bytes(configuration: Mapping[str, str]) -> int | None:
    """Bytes from which on Spark refuses to broadcast, whatever the threshold; None if the setting is unreadable."""
    return byte_size(configuration.get("spark.sql.maxBroadcastTableSize"), DEFAULT_MAX_BYTES)


def version_tuple(version: str) -> tuple[int, int]:
    """``(4, 3)`` for ``"4.3.0"``; an unreadable version counts as the newest."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (999, 0)
