"""Turns a document into the rows that stand for it in the store. Pure: no I/O, the same document gives the same rows.

::

    Execution ──► execution, stage
        plans ──► plan_version;  each with the one before ──► aqe_decision
                                 the last one, as Spark's graph ──► plan_node, plan_edge
        accumulators ──► node_metric;  with the graph ──► shuffle, broadcast, joins
        the first and the last graph ──► query_shape, plan_fingerprint, operator_key
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any

from joinsight.document import MAX_LONG, STAGE_TOTALS, Accumulator, Application, Execution, JoinHint, Metric, Stage
from joinsight.plan import operators
from joinsight.plan.broadcastable import DEFAULT_MAX_BYTES, Side, could_be_broadcast
from joinsight.plan.decisions import Changes
from joinsight.plan.graph import Graph, Node, build
from joinsight.plan.identity import Identity
from joinsight.plan.measured import DATA_SIZE, OUTPUT_ROWS, Measured

Row = dict[str, Any]
Rows = dict[str, list[Row]]

NO_NODE = -1
"""`node_metric.node_id` of a metric whose node is not in the final plan."""

DEFAULT_BROADCAST_THRESHOLD = 10 * 1024 * 1024
DEFAULT_SHUFFLE_PARTITIONS = 200

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# Spark's metric name -> column, value taken from the total
_SHUFFLE_TOTALS = {
    "number of partitions": "partitions",
    "data size": "data_bytes",
    "shuffle bytes written": "bytes_written",
    "shuffle records written": "rows_written",
    "shuffle write time": "write_time_ns",
    "local bytes read": "local_bytes_read",
    "remote bytes read": "remote_bytes_read",
    "remote bytes read to disk": "remote_bytes_read_to_disk",
    "local blocks read": "local_blocks_read",
    "remote blocks read": "remote_blocks_read",
    "records read": "rows_read",
    "fetch wait time": "fetch_wait_ms",
    "remote reqs duration": "remote_requests_ms",
    "corrupt merged block chunks": "corrupt_merged_block_chunks",
    "merged fetch fallback count": "merged_fetch_fallbacks",
    "remote merged blocks fetched": "remote_merged_blocks_read",
    "local merged blocks fetched": "local_merged_blocks_read",
    "remote merged chunks fetched": "remote_merged_chunks_read",
    "local merged chunks fetched": "local_merged_chunks_read",
    "remote merged bytes read": "remote_merged_bytes_read",
    "local merged bytes read": "local_merged_bytes_read",
    "remote merged reqs duration": "remote_merged_requests_ms",
}
_AQE_READ_TOTALS = {
    "number of partitions": "aqe_partitions",
    "number of coalesced partitions": "aqe_coalesced_partitions",
    "number of skewed partitions": "aqe_skewed_partitions",
    "number of skewed partition splits": "aqe_skewed_splits",
    "number of empty partitions": "aqe_empty_partitions",
}
_BROADCAST_TOTALS = {
    "data size": "size_bytes",
    "number of output rows": "rows",
    "time to collect": "collect_ms",
    "time to build": "build_ms",
    "time to broadcast": "broadcast_ms",
}
_STAGE_SPREADS = {
    "run_time": "run_time_ms",
    "shuffle_read": "shuffle_read_bytes",
    "shuffle_read_records": "shuffle_read_rows",
}


DRIVER_PHASES = ("collect_ms", "build_ms", "broadcast_ms")
DRIVER_MS = " + ".join(DRIVER_PHASES)
"""`driver_ms` in SQL: NULL if a phase was not measured."""


def application_row(a: Application) -> Row:
    """The row of table `application`."""
    return {
        **_application_key(a),
        "state": a.state,
        "started_at": _time(a.started_at_ms),
        "ended_at": _time(a.ended_at_ms),
        "spark_user": a.user,
        "master": a.master,
        "tags": a.tags,
        "configuration": a.configuration,
        "sequence": a.sequence,
    }


def application_row_of(e: Execution) -> Row:
    """What an execution tells of its application, for when the application's own document has not come."""
    return {**_application_key(e), "state": "unknown", "tags": e.tags, "sequence": 0}


def _application_key(document: Application | Execution) -> Row:
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
    """All rows of an execution by table name; each carries the execution's key.

    `plans` saves reading those of `e` once more: of an execution with equal nodes and plans, whenever it ran.
    """
    key = {
        "started_at": _time(e.started_at_ms),
        "application_id": e.application_id,
        "attempt_id": e.attempt_id,
        "execution_id": e.execution_id,
    }
    facts = _Facts(e, plans or Plans(e))
    joins = [row for node in facts.graph.nodes if (row := _join(facts, node))]
    joins_of: dict[int | None, list[int]] = defaultdict(list)  # an exchange
    for join in joins:
        for exchange in {join.get("left_exchange"), join.get("right_exchange")}:
            joins_of[exchange].append(join["node_id"])
    jobs_of: dict[int, list[int]] = defaultdict(list)  # a stage
    for job in e.jobs:
        for stage_id in set(job.stages):
            jobs_of[stage_id].append(job.id)
    rows: Rows = {
        "execution": [_execution(facts)],
        "plan_version": _plan_versions(facts),
        "aqe_decision": _decisions(facts),
        "plan_node": [_plan_node(facts, node) for node in facts.graph.nodes],
        "plan_edge": [
            {"position": position, "child_id": child, "parent_id": parent}
            for position, (child, parent) in enumerate(facts.graph.edges)
        ],
        "node_metric": _node_metrics(facts),
        "shuffle": [_shuffle(facts, node, joins_of) for node in facts.graph.nodes if operators.is_shuffle(node.name)],
        "broadcast": [_broadcast(facts, node) for node in facts.graph.nodes if operators.is_broadcast(node.name)],
        "joins": joins,
        "stage": [_stage(stage, jobs_of) for stage in e.stages],
    }
    rows["execution"][0]["broadcast_bytes"] = _sum(row["size_bytes"] for row in rows["broadcast"])
    return {table: [{**key, **row} for row in found] for table, found in rows.items()}


class Plans:
    """What the plans of an execution are, without what was measured and when: their graphs, the keys, the hints."""

    def __init__(self, e: Execution, go_on: Callable[[], None] = lambda: None) -> None:
        """`go_on` is called for each plan; what it raises ends the work."""
        old = version_tuple(e.listener.spark_version) < (4, 1)
        self.graphs = []
        for plan in e.plans:
            go_on()
            nodes = [e.nodes[i] for i in plan.nodes]
            self.graphs.append(build(nodes, plan.parents, keep_duplicate_subquery_edges=old))
        self.graph = self.graphs[-1] if self.graphs else Graph((), ())
        identity = Identity()
        self.query_shape = identity.query_shape(self.graphs[0]) if self.graphs else None
        self.fingerprints = []
        for graph in self.graphs:
            go_on()
            self.fingerprints.append(identity.plan_fingerprint(graph))
        self.operator_keys = identity.operator_keys(self.graph)
        go_on()
        self.changes = Changes(self.graphs, identity)
        go_on()
        self.hints = self._hints(e, identity) if e.join_hints else {}
        self.is_adaptive = any(e.nodes[i].name == "AdaptiveSparkPlan" for plan in e.plans[:1] for i in plan.nodes)

    def _hints(self, e: Execution, identity: Identity) -> dict[str, str]:
        """``broadcast left`` by the operator key of the join; AQE gives a join new metrics in each plan."""
        hints = {hint.metric: _hint_text(hint) for hint in e.join_hints}
        found = {}
        for graph in self.graphs:
            keys = identity.operator_keys(graph)
            for node in graph.nodes:
                for metric in node.metrics:
                    if node.id in keys and metric.id in hints:
                        found[keys[node.id]] = hints[metric.id]
        return found


def _hint_text(given: JoinHint) -> str:
    sides = ((given.left, "left"), (given.right, "right"))
    return ", ".join(f"{hint} {side}" for hint, side in sides if hint)


class _Facts(Measured):
    """An execution with its final graph and its measurements, looked up by several of the makers of rows."""

    def __init__(self, e: Execution, plans: Plans) -> None:
        self.execution = e
        self.plans = plans
        super().__init__(plans.graph, {a.id: a for a in e.accumulators})
        self._tried_again = {stage.id for stage in e.stages if stage.attempt > 0}
        self.threshold = byte_size(
            e.configuration.get("spark.sql.autoBroadcastJoinThreshold"), DEFAULT_BROADCAST_THRESHOLD
        )
        self.measured_threshold = self.threshold
        if plans.is_adaptive:
            adaptive = e.configuration.get("spark.sql.adaptive.autoBroadcastJoinThreshold")
            self.measured_threshold = byte_size(adaptive, self.threshold)

    def totals(self, node: Node, columns: dict[str, str]) -> Row:
        """The totals of a node's metrics as columns; NULL where nothing was measured."""
        metrics = self.metrics(node)
        return {column: _total(metrics.get(name)) for name, column in columns.items()}

    def is_exact(self, node: Node, metric: str) -> bool:
        """A metric's total is all there was: of a stage that was tried again, Spark counts the last attempt only."""
        e, measured = self.execution, self.metrics(node).get(metric)
        again = measured is not None and not self._tried_again.isdisjoint(measured.stages)
        return e.state == "succeeded" and not e.incomplete and not again


def _execution(facts: _Facts) -> Row:
    e = facts.execution
    ran = [stage for stage in e.stages if stage.state not in ("skipped", "pending")]
    return {
        "root_execution_id": e.root_execution_id,
        "job_name": e.job_name,
        "query_shape": facts.plans.query_shape,
        "plan_fingerprint": facts.plans.fingerprints[-1] if facts.plans.fingerprints else None,
        "state": e.state,
        "ended_at": _time(e.ended_at_ms),
        "duration_ms": None if e.ended_at_ms is None else max(0, e.ended_at_ms - e.started_at_ms),
        "description": e.description,
        "call_site": e.call_site,
        "error": e.error,
        "job_group": e.job_group,
        "job_tags": e.job_tags,
        "streaming_query_id": e.streaming_query_id,
        "streaming_batch_id": e.streaming_batch_id,
        "tags": e.tags,
        "configuration": e.configuration,
        "jobs": len(e.jobs),
        "stages": len(ran),
        "tasks": _sum(stage.succeeded_tasks for stage in ran),
        "task_time_ms": _sum(stage.run_time_ms for stage in ran),
        "input_bytes": _sum(stage.input_bytes for stage in ran),
        "output_bytes": _sum(stage.output_bytes for stage in ran),
        "shuffle_write_bytes": _sum(stage.shuffle_write_bytes for stage in ran),
        "shuffle_read_bytes": _sum(s.shuffle_read_local_bytes + s.shuffle_read_remote_bytes for s in ran),
        "memory_spilled_bytes": _sum(stage.memory_spilled_bytes for stage in ran),
        "disk_spilled_bytes": _sum(stage.disk_spilled_bytes for stage in ran),
        "shuffle_partitions": byte_size(
            e.configuration.get("spark.sql.shuffle.partitions"), DEFAULT_SHUFFLE_PARTITIONS
        ),
        "broadcast_threshold_bytes": facts.threshold,
        "is_adaptive": facts.plans.is_adaptive,
        "plan_versions": len(e.plans) + e.plans_dropped,
        "incomplete": e.incomplete or None,
        "incomplete_codes": e.incomplete_codes or None,
        "origin": e.origin,
        "listener_id": e.listener.id,
        "sequence": e.sequence,
    }


def _plan_versions(facts: _Facts) -> list[Row]:
    plans = facts.execution.plans
    metrics: dict[int, list[list[object]]] = {}  # of a node's metrics, which versions share: made once

    def listed(node: Node) -> list[list[object]]:
        known = metrics.get(id(node.metrics))
        if known is None:
            known = metrics[id(node.metrics)] = [[metric.id, metric.name, metric.type] for metric in node.metrics]
        return known

    return [
        {
            "version": version,
            "planned_at": _time(plan.at_ms),
            "is_final": version == len(plans) - 1,
            "plan_fingerprint": fingerprint,
            "nodes": [
                {
                    "id": node.id,
                    "name": node.name,
                    "simple": node.simple,
                    "cluster": node.cluster,
                    "is_cluster": node.is_cluster,
                    "metrics": listed(node),
                }
                for node in graph.nodes
            ],
            "edges": graph.edges,
        }
        for version, (plan, graph, fingerprint) in enumerate(
            zip(plans, facts.plans.graphs, facts.plans.fingerprints, strict=True)
        )
    ]


def _decisions(facts: _Facts) -> list[Row]:
    positions: Counter[int] = Counter()
    rows = []
    for decision in facts.plans.changes.decisions(facts.accumulators):
        at = facts.execution.plans[decision.version].at_ms
        rows.append({**asdict(decision), "position": positions[decision.version], "decided_at": _time(at)})
        positions[decision.version] += 1
    return rows


def _plan_node(facts: _Facts, node: Node) -> Row:
    return {
        "node_id": node.id,
        "operator_key": facts.plans.operator_keys.get(node.id),
        "name": node.name,
        "simple": node.simple,
        "cluster_id": node.cluster,
        "is_cluster": node.is_cluster,
        "metadata": dict(node.metadata) or None,
    }


def _node_metrics(facts: _Facts) -> list[Row]:
    rows = {
        (node.id, metric.id): _node_metric(node.id, metric, facts.accumulators.get(metric.id))
        for node in facts.graph.nodes
        for metric in node.metrics
    }
    placed = {accumulator for _, accumulator in rows}
    earlier = [metric for graph in facts.plans.graphs for node in graph.nodes for metric in node.metrics]
    for metric in (*earlier, *facts.execution.announced):
        if metric.id not in placed and metric.id in facts.accumulators:
            rows[NO_NODE, metric.id] = _node_metric(NO_NODE, metric, facts.accumulators[metric.id])
    return list(rows.values())


def _node_metric(node_id: int, metric: Metric, measured: Accumulator | None) -> Row:
    row: Row = {"node_id": node_id, "accumulator_id": metric.id, "name": metric.name, "type": metric.type}
    if measured is None:
        return row
    return row | {
        "count": measured.count,
        "total": measured.sum,
        "min": measured.min,
        "median": measured.median,
        "p95": measured.p95,
        "max": measured.max,
        "max_stage_id": measured.max_stage,
        "max_stage_attempt": measured.max_stage_attempt,
        "max_task_id": measured.max_task,
        "text": measured.text,
    }


def _shuffle(facts: _Facts, node: Node, joins_of: Mapping[int | None, list[int]]) -> Row:
    text = operators.shuffle_text(node.simple)
    metrics = facts.metrics(node)
    read = metrics.get("records read")
    row = {
        "node_id": node.id,
        "operator_key": facts.plans.operator_keys[node.id],
        "partitioning": text.partitioning,
        "keys": list(text.keys),
        "origin": text.origin,
        "consumers": len(facts.consumers(node)),
        "join_nodes": joins_of.get(node.id, []),
        "map_stages": _stages(metrics, "shuffle bytes written", "shuffle records written", "shuffle write time"),
        "reduce_stages": _stages(metrics, "records read", "local bytes read", "remote bytes read"),
        **facts.totals(node, _SHUFFLE_TOTALS),
    }
    if row["partitions"] is None:
        row["partitions"] = text.partitions
    if read is not None and read.count > 1 and read.max:
        row["rows_read_median"] = read.median
        row["rows_read_max"] = read.max
        row["rows_read_max_task_id"] = read.max_task
        row["skew_ratio"] = read.max / read.median if read.median else None
    reads = [facts.nodes[i] for i in facts.consumers(node) if facts.nodes[i].name == "AQEShuffleRead"]
    for aqe_read in reads[:1]:
        row["aqe_read"] = re.findall(r"coalesced|skewed|local", aqe_read.simple)
        row.update(facts.totals(aqe_read, _AQE_READ_TOTALS))
        sizes = facts.metrics(aqe_read).get("partition data size")
        if sizes is not None:
            row["aqe_partition_bytes_median"] = sizes.median
            row["aqe_partition_bytes_max"] = sizes.max
    return row


def _broadcast(facts: _Facts, node: Node) -> Row:
    totals = facts.totals(node, _BROADCAST_TOTALS)
    consumers = facts.consumers(node)
    if totals["size_bytes"] is not None:
        outcome = "succeeded"
    else:
        outcome = {"failed": "failed", "running": "running"}.get(facts.execution.state, "unknown")
    return {
        "node_id": node.id,
        "operator_key": facts.plans.operator_keys[node.id],
        "mode": operators.broadcast_mode(node.simple),
        "outcome": outcome,
        "consumers": len(consumers),
        "join_nodes": [i for i in consumers if operators.join_strategy(facts.nodes[i].name)],
        "threshold_bytes": facts.measured_threshold,
        "shuffled_bytes": _shuffled_bytes(facts, node),
        **totals,
    }


def _shuffled_bytes(facts: _Facts, broadcast: Node) -> int | None:
    """What the shuffle counted whose rows are broadcast; None unless the rows come right out of a shuffle."""
    below = facts.inputs(broadcast)
    if len(below) == 1 and facts.nodes[below[0]].name == "AQEShuffleRead":
        below = facts.inputs(facts.nodes[below[0]])
    shuffles = [facts.nodes[i] for i in below if operators.is_shuffle(facts.nodes[i].name)]
    return _total(facts.metrics(shuffles[0]).get("data size")) if shuffles else None


def _join(facts: _Facts, node: Node) -> Row | None:
    text = operators.join_text(node.name, node.simple)
    if text is None:
        return None
    metrics = facts.metrics(node)
    sides = facts.inputs(node)[:2]
    sorts = [facts.metrics(facts.nodes[side]) for side in sides if facts.nodes[side].name == "Sort"]
    row: Row = {
        "node_id": node.id,
        "operator_key": facts.plans.operator_keys[node.id],
        "strategy": text.strategy,
        "join_type": text.join_type,
        "build_side": text.build_side,
        "left_keys": list(text.left_keys),
        "right_keys": list(text.right_keys),
        "condition": text.condition,
        "is_skew": text.is_skew,
        "hint": facts.plans.hints.get(facts.plans.operator_keys[node.id]) or None,
        "output_rows": _total(metrics.get(OUTPUT_ROWS)),
        "build_bytes": _total(metrics.get("data size of build side")),
        "build_ms": _total(metrics.get("time to build hash map")),
        "sort_ms": _sum(_total(found.get("sort time")) for found in sorts),
        "spill_bytes": _sum(_total(found.get("spill size")) for found in (metrics, *sorts)),
        "threshold_bytes": facts.measured_threshold,
    }
    known = {"left": Side(), "right": Side()}
    for side, child in zip(known, sides, strict=False):
        fed = facts.fed_by(child)
        row.update({f"{side}_rows": fed.rows, f"{side}_bytes": fed.bytes, f"{side}_exchange": fed.exchange})
        if fed.exchange is None:
            continue
        exchange = facts.nodes[fed.exchange]
        if operators.is_broadcast(exchange.name) or fed.is_whole:
            known[side] = Side(fed.bytes, fed.rows, facts.is_exact(exchange, DATA_SIZE))
        if text.build_side == side and operators.is_broadcast(exchange.name):
            broadcast = facts.totals(exchange, _BROADCAST_TOTALS)
            row["build_bytes"], row["build_ms"] = broadcast["size_bytes"], broadcast["build_ms"]
    row["output_ratio"] = _ratio(row["output_rows"], row.get("left_rows"), row.get("right_rows"))
    found = could_be_broadcast(
        text,
        known,
        facts.measured_threshold,
        hint=row["hint"],
        max_bytes=max_broadcast_bytes(facts.execution.configuration),
    )
    row["broadcast_verdict"], row["broadcast_side"], row["broadcast_side_bytes"] = (
        found.verdict,
        found.side,
        found.bytes,
    )
    return row


def _ratio(output: int | None, left: int | None, right: int | None) -> float | None:
    """Rows out to the larger number of rows in."""
    if output is None or left is None or right is None or max(left, right) <= 0:
        return None
    return output / max(left, right)


def _stage(stage: Stage, jobs_of: Mapping[int, list[int]]) -> Row:
    row: Row = {
        "stage_id": stage.id,
        "stage_attempt": stage.attempt,
        "name": stage.name,
        "state": stage.state,
        "job_ids": jobs_of.get(stage.id, []),
        "submitted_at": _time(stage.submitted_at_ms),
        "completed_at": _time(stage.completed_at_ms),
        "failure": stage.failure,
        "tasks": stage.tasks,
        "succeeded_tasks": stage.succeeded_tasks,
        "failed_tasks": stage.failed_tasks,
        "killed_tasks": stage.killed_tasks,
    }
    if stage.state not in ("skipped", "pending"):
        row.update({name: getattr(stage, name) for name in STAGE_TOTALS})
    for name, column in _STAGE_SPREADS.items():
        spread = getattr(stage, name)
        if spread is not None:
            row.update({f"{column}_{field}": getattr(spread, field) for field in ("min", "median", "p95", "max")})
    return row


def _stages(metrics: Mapping[str, Accumulator], *names: str) -> list[int]:
    return sorted({stage for name in names if name in metrics for stage in metrics[name].stages})


def _total(measured: Accumulator | None) -> int | None:
    return None if measured is None else measured.sum


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what was measured, None if nothing was; held within a bigint."""
    known: Sequence[int] = [value for value in values if value is not None]
    return max(-MAX_LONG, min(sum(known), MAX_LONG)) if known else None


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


_UNITS: dict[str, int] = defaultdict(lambda: 1, {unit: 1024**power for power, unit in enumerate("bkmgtp")})
_SIZE = re.compile(r"(-?\d{1,19})\s*(?:([kmgtp]?)i?b?)", re.IGNORECASE)


def byte_size(text: str | None, default: int | None) -> int | None:
    """Bytes of a Spark byte string (``10MB``, ``64m``, ``-1``); `default` where nothing is set, None if unreadable."""
    if text is None:
        return default
    found = _SIZE.fullmatch(text.strip())
    if not found:
        return None
    return max(-MAX_LONG, min(int(found[1]) * _UNITS[found[2].lower()], MAX_LONG))


def driver_ms(broadcast: Row) -> int | None:
    """From when the driver asked for the rows of a broadcast until it had handed it out; None: not all was measured.

    That is not the driver's own work alone: while it collects, the tasks that make the rows run, or wait.
    """
    phases = [broadcast[name] for name in DRIVER_PHASES]
    return None if None in phases else sum(phases)


def max_broadcast_bytes(configuration: Mapping[str, str]) -> int | None:
    """What Spark refuses to broadcast, whatever the threshold."""
    return byte_size(configuration.get("spark.sql.maxBroadcastTableSize"), DEFAULT_MAX_BYTES)


def version_tuple(version: str) -> tuple[int, int]:
    """``"4.3.0"`` as ``(4, 3)``; an unreadable one counts as the newest."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (999, 0)
