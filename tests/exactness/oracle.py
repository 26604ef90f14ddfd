"""Spark's own answer: what its live SQL status store (the source of its web page) says about every execution.

The store is read through py4j, alike on Scala 2.12 and 2.13. One call per object is slow, so collections are
turned into one string inside the JVM and taken apart here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Occurs in no name and no value.
SEPARATOR = "\u0001"
SETTLE_SECONDS = 180


def dump(spark: SparkSession) -> dict[str, Any]:
    """Every execution in the store, by execution id::

    {"0": {"description": str, "submission_time_ms": int, "completion_time_ms": int | None,
           "error_message": str | None,             # "" is success
           "root_execution_id": int,
           "jobs": {"3": "SUCCEEDED"}, "stages": [5, 6],
           "metrics": {"41": "20,000"},             # by accumulator id
           "graph": {"nodes": [{"id", "name", "desc", "cluster": int | None,
                                "metrics": [{"name", "accumulator", "type"}]}],
                     "clusters": [{"id", "name", "desc", "metrics", "members": [node id]}],
                     "edges": [[from, to]]} | None}}
    """
    settle(spark)
    return executions(spark._jsparkSession.sharedState().statusStore())


def executions(store: Any) -> dict[str, Any]:
    """The same of a `SQLAppStatusStore`."""
    return {str(execution.executionId()): _execution(store, execution) for execution in _each(store.executionsList())}


def settle(spark: SparkSession) -> None:
    """Wait until no job runs any more and the listeners have seen every event."""
    context = spark._jsc.sc()
    until = time.monotonic() + SETTLE_SECONDS
    while list(context.statusTracker().getActiveJobIds()):
        if time.monotonic() > until:
            raise TimeoutError(f"jobs still run {SETTLE_SECONDS} s after the workload's end")
        time.sleep(0.1)
    context.listenerBus().waitUntilEmpty(SETTLE_SECONDS * 1000)


def _execution(store: Any, execution: Any) -> dict[str, Any]:
    execution_id = execution.executionId()
    completed = _option(execution.completionTime())
    return {
        "description": execution.description(),
        "submission_time_ms": execution.submissionTime(),
        "completion_time_ms": None if completed is None else completed.getTime(),
        "error_message": _option(execution.errorMessage()),
        "root_execution_id": execution.rootExecutionId(),
        "jobs": _map(execution.jobs()),
        "stages": sorted(int(stage) for stage in _strings(execution.stages())),
        "metrics": _map(store.executionMetrics(execution_id)),
        "graph": _graph(store, execution_id),
    }


def _graph(store: Any, execution_id: int) -> dict[str, Any] | None:
    from py4j.protocol import Py4JJavaError

    try:
        graph = store.planGraph(execution_id)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == "java.util.NoSuchElementException":
            return None  # an execution that ended without having started has no plan
        raise
    nodes = []
    clusters = []
    for node in _each(graph.nodes()):
        if node.getClass().getSimpleName() == "SparkPlanGraphCluster":
            members = [_node(member) for member in _each(node.nodes())]
            cluster = _node(node)
            nodes += [{**member, "cluster": cluster["id"]} for member in members]
            clusters.append({**cluster, "members": [member["id"] for member in members]})
        else:
            nodes.append({**_node(node), "cluster": None})
    edges = [[edge.fromId(), edge.toId()] for edge in _each(graph.edges())]
    return {"nodes": nodes, "clusters": clusters, "edges": edges}


def _node(node: Any) -> dict[str, Any]:
    return {
        "id": node.id(),
        "name": node.name(),
        "desc": node.desc(),
        "metrics": [_metric(text) for text in _strings(node.metrics())],
    }


def _metric(text: str) -> dict[str, Any]:
    """Take `SQLPlanMetric(<name>,<accumulator id>,<type>)` apart; only the name can hold a comma."""
    name, accumulator, metric_type = text.removeprefix("SQLPlanMetric(").removesuffix(")").rsplit(",", 2)
    return {"name": name, "accumulator": int(accumulator), "type": metric_type}


def _option(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _strings(collection: Any) -> list[str]:
    text: str = collection.mkString(SEPARATOR)
    return text.split(SEPARATOR) if text else []


def _map(mapping: Any) -> dict[str, str]:
    """A Scala map as Python's; only values can hold an arrow."""
    return dict(entry.split(" -> ", 1) for entry in _strings(mapping))
