"""Reads Spark's status stores, the source of its web pages, as the expected values for an application.

The stores are read through py4j, alike on Scala 2.12 and 2.13, live or after a replay. One call an object is slow, so
Spark's objects become JSON inside the JVM, by the library with which Spark itself writes them to disk and serves them.
"""

from __future__ import annotations

import fileinput
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS = 1800
_PLANS = tuple(
    f'{{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQL{name}"'.encode()
    for name in ("ExecutionStart", "AdaptiveExecutionUpdate")
)


def dump(spark: SparkSession) -> dict[str, Any]:
    """The contents of the live stores, once these are complete.

    ::

        {"application": ApplicationInfo, "settings": {key: value},
         "executions": what `executions` says,
         "executors": [ExecutorSummary], "jobs": {"3": JobData}, "stages": {"5.0": StageData and "tasks": [TaskData]}}

    The data are Spark's, as its REST interface has them, with times in milliseconds.
    """
    settle(spark)
    jvm = spark._jvm
    return read(jvm, spark._jsc.sc().statusStore(), spark._jsparkSession.sharedState().statusStore())


def read(jvm: Any, store: Any, sql_store: Any) -> dict[str, Any]:
    """The contents of an `AppStatusStore` and a `SQLAppStatusStore`, in the form of `dump`."""
    to_json = _writer(jvm)
    settings = to_json(store.environmentInfo().sparkProperties())
    stages = {}
    for stage in _stages(store, to_json):
        ran = stage["status"] not in ("SKIPPED", "PENDING")
        tasks = to_json(store.taskList(stage["stageId"], stage["attemptId"], 2**31 - 1)) if ran else []
        del stage["details"], stage["peakExecutorMetrics"]
        stages[f"{stage['stageId']}.{stage['attemptId']}"] = {**stage, "tasks": tasks}
    return {
        "application": to_json(store.applicationInfo()),
        "settings": dict(settings),
        "executions": executions(jvm, sql_store),
        "executors": executors(jvm, store),
        "jobs": {str(job["jobId"]): job for job in to_json(store.jobsList(None))},
        "stages": stages,
    }


def executors(jvm: Any, store: Any) -> list[dict[str, Any]]:
    """Every executor that the application had."""
    to_json = _writer(jvm)
    names = ("id", "isActive", "totalCores", "maxTasks", "addTime", "removeTime", "resourceProfileId")
    return [{name: each[name] for name in names} for each in to_json(store.executorList(False))]


def executions(jvm: Any, store: Any) -> dict[str, Any]:
    """Every execution in the store, by execution id: SQLExecutionUIData, with `metricValues` as the page shows them.

    `graph` is what `_graph` makes of its plan; None: it ended without having started.
    """
    to_json = _writer(jvm)
    found = {}
    for execution in _each(store.executionsList()):
        data = to_json(execution)
        del data["physicalPlanDescription"]  # of the whole it is the most, and we have none
        data["metricValues"] = to_json(store.executionMetrics(execution.executionId()))
        data["graph"] = _plan_graph(store, execution.executionId(), to_json)
        found[str(data["executionId"])] = data
    return found


def plan_versions(jvm: Any, files: list[Path]) -> dict[str, list[Any]]:
    """By execution id: the graph that Spark makes of each plan in a plain event log, in their order.

    A plan equal to the one before it is left out.
    """
    to_json = _writer(jvm)
    spark = jvm.org.apache.spark
    found: dict[str, list[Any]] = {}
    last: dict[str, Any] = {}
    with fileinput.input(files, mode="rb") as lines:
        for line in lines:
            if not line.startswith(_PLANS):
                continue
            raw = json.loads(line)
            execution, plan = str(raw["executionId"]), raw["sparkPlanInfo"]
            if last.get(execution) != plan:
                last[execution] = plan
                event = spark.util.JsonProtocol.sparkEventFromJson(line.decode())
                graph = spark.sql.execution.ui.SparkPlanGraph.apply(event.sparkPlanInfo())
                found.setdefault(execution, []).append(_graph(to_json(graph)))
    return found


def settle(spark: SparkSession) -> None:
    """Wait until no job runs, the listeners have handled all events and the store has aggregated all executions.

    By default Spark adds up the metrics of an ended execution in a thread of its own.
    """
    context = spark._jsc.sc()
    _wait(lambda: not list(context.statusTracker().getActiveJobIds()), "jobs still run")
    context.listenerBus().waitUntilEmpty(SETTLE_SECONDS * 1000)
    store = spark._jsparkSession.sharedState().statusStore()
    _wait(
        lambda: all(
            execution.completionTime().isEmpty() or execution.metricValues() is not None
            for execution in _each(store.executionsList())
        ),
        "executions are not added up",
    )


def _wait(is_so: Callable[[], bool], trouble: str) -> None:
    until = time.monotonic() + SETTLE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"{trouble} {SETTLE_SECONDS} s after the workload's end")
        time.sleep(0.1)


def _writer(jvm: Any) -> Callable[[Any], Any]:
    """Converts a Spark object to Python."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    mapper.registerModule(jvm.com.fasterxml.jackson.module.scala.DefaultScalaModule())
    return lambda what: json.loads(mapper.writeValueAsString(what))


def _stages(store: Any, to_json: Callable[[Any], Any]) -> list[dict[str, Any]]:
    defaults = [getattr(store, f"stageList$default${n}")() for n in range(2, 6)]
    stages: list[dict[str, Any]] = to_json(store.stageList(None, *defaults))
    return stages


def _plan_graph(store: Any, execution_id: int, to_json: Callable[[Any], Any]) -> dict[str, Any] | None:
    from py4j.protocol import Py4JJavaError

    try:
        return _graph(to_json(store.planGraph(execution_id)))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == "java.util.NoSuchElementException":
            return None
        raise


def _graph(graph: dict[str, Any]) -> dict[str, Any]:
    """Nodes by id, each with its cluster, and edges in Spark's order, in the form of our table `plan_version`."""
    nodes = []
    for node in graph["nodes"]:
        members = node.get("nodes")
        nodes.append(_node(node, None, members is not None))
        nodes += [_node(member, node["id"], False) for member in members or ()]
    edges = [[edge["fromId"], edge["toId"]] for edge in graph["edges"]]
    return {"nodes": sorted(nodes, key=lambda node: int(node["id"])), "edges": edges}


def _node(node: dict[str, Any], cluster: int | None, is_cluster: bool) -> dict[str, Any]:
    metrics = [[metric["accumulatorId"], metric["name"], metric["metricType"]] for metric in node["metrics"]]
    head = {"id": node["id"], "name": node["name"], "simple": node["desc"]}
    return {**head, "cluster": cluster, "is_cluster": is_cluster, "metrics": metrics}


def _each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
