"""The demo's workload shows every plan shape that its titles promise.

The workload runs once, in a process of its own; the tests read what Spark's status store said at its end.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes import ran

from joinsight.demo import workload

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).parent / "jobs" / "demo.py"

Execution = dict[str, Any]
Query = Callable[[Any], None]

PROMISES: dict[Query, set[str]] = {
    workload.broadcast_hash_join: {"BroadcastHashJoin", "BroadcastExchange"},
    workload.sort_merge_join: {"SortMergeJoin"},
    workload.shuffled_hash_join: {"ShuffledHashJoin"},
    workload.broadcast_nested_loop_join: {"BroadcastNestedLoopJoin"},
    workload.cartesian_product: {"CartesianProduct"},
    workload.skewed_join: {"SortMergeJoin(skew=true)", "AQEShuffleRead skewed"},
    workload.join_switched_at_run_time: {"BroadcastHashJoin", "AQEShuffleRead local"},
    workload.coalesced_partitions: {"AQEShuffleRead coalesced"},
    workload.reused_exchange: {"SortMergeJoin", "Exchange"},
    workload.dynamic_partition_pruning: {"BroadcastHashJoin", "SubqueryBroadcast"},
    workload.cached_table: {"Scan In-memory table spending"},
    workload.six_nights: {"BroadcastHashJoin", "SortMergeJoin"},
    workload.broadcast_timeout: {"BroadcastHashJoin", "BroadcastExchange"},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], list[Execution]]:
    """The steps that the workload printed, and the executions that Spark saw."""
    folder = tmp_path_factory.mktemp("demo data")
    out = folder / "executions.json"
    paths = [str(ROOT), str(ROOT / "collector"), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYSPARK_PYTHON": sys.executable}
    done = ran(sys.executable, SCRIPT, folder, out, env={**os.environ, **environment})
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    return steps, list(json.loads(out.read_text()).values())


@pytest.fixture
def steps(finished: tuple[list[dict[str, Any]], list[Execution]]) -> list[dict[str, Any]]:
    return finished[0]


@pytest.fixture
def executions(finished: tuple[list[dict[str, Any]], list[Execution]]) -> list[Execution]:
    return finished[1]


def test_prints_one_line_per_step(steps: list[dict[str, Any]]) -> None:
    """Standard output holds one line of JSON per step, numbered from 1."""
    titles = [title for title, _ in workload.TABLES] + [title for title, _ in workload.QUERIES]
    total = len(titles)
    assert steps == [{"step": number, "steps": total, "title": title} for number, title in enumerate(titles, start=1)]


def test_every_step_has_executions(executions: list[Execution]) -> None:
    """Each step's title is the description of at least one execution."""
    titles = {title for title, _ in (*workload.TABLES, *workload.QUERIES)}
    assert titles <= {execution["description"] for execution in executions}


@pytest.mark.parametrize("query", PROMISES, ids=lambda query: query.__name__)
def test_the_last_plan_has_the_promised_nodes(executions: list[Execution], query: Query) -> None:
    """The last plan of each query has the nodes that its title speaks of."""
    found = {shape for execution in of_query(executions, query) for shape in shapes_of(execution)}
    assert PROMISES[query] <= found


def test_every_query_has_its_promise() -> None:
    """No query is without a promised shape."""
    assert [query for _, query in workload.QUERIES] == list(PROMISES)


def test_skewed_partition_is_split(executions: list[Execution]) -> None:
    """The skewed join reads at least one partition in at least two pieces."""
    (execution,) = of_query(executions, workload.skewed_join)
    (splits,) = values(execution, "AQEShuffleRead", "number of skewed partition splits")
    assert int(splits) >= 2


def test_switched_join_broadcasts_a_shuffle(executions: list[Execution]) -> None:
    """The join that was planned as sort-merge broadcasts what had already been shuffled."""
    (execution,) = of_query(executions, workload.join_switched_at_run_time)
    names = {node["id"]: node["name"] for node in execution["graph"]["nodes"]}
    edges = {(names.get(source), names.get(target)) for source, target in execution["graph"]["edges"]}
    assert {("Exchange", "AQEShuffleRead"), ("AQEShuffleRead", "BroadcastExchange")} <= edges


def test_partitions_are_coalesced(executions: list[Execution]) -> None:
    """Only a few of 200 shuffle partitions are read."""
    (execution,) = of_query(executions, workload.coalesced_partitions)
    assert values(execution, "Exchange", "number of partitions") == ["200"]
    (read,) = values(execution, "AQEShuffleRead", "number of partitions")
    assert int(read) <= 10


def test_reused_exchange_has_two_readers(executions: list[Execution]) -> None:
    (execution,) = of_query(executions, workload.reused_exchange)
    parents = Counter(source for source, _ in execution["graph"]["edges"])
    readers = [parents[node["id"]] for node in execution["graph"]["nodes"] if node["name"] == "Exchange"]
    assert 2 in readers


def test_pruning_reads_matching_days_only(executions: list[Execution]) -> None:
    (execution,) = of_query(executions, workload.dynamic_partition_pruning)
    assert values(execution, "Scan parquet spark_catalog.default.sales", "number of partitions read") == ["3"]


def test_cached_table_is_read_twice(executions: list[Execution]) -> None:
    readers = [
        execution
        for execution in of_query(executions, workload.cached_table)
        if "Scan In-memory table spending" in shapes_of(execution)
    ]
    assert len(readers) == 3


def test_the_plan_changes_in_the_last_night(executions: list[Execution]) -> None:
    """Five nights broadcast the stores, the sixth shuffles both tables."""
    *before, last = of_query(executions, workload.six_nights)
    assert len(before) == 5
    assert all("BroadcastHashJoin" in shapes_of(execution) for execution in before)
    assert "SortMergeJoin" in shapes_of(last)


def test_one_query_fails(executions: list[Execution]) -> None:
    """The broadcast that times out fails, and nothing else does."""
    (failed,) = [execution for execution in executions if execution["errorMessage"] != ""]
    assert of_query(executions, workload.broadcast_timeout) == [failed]
    assert "spark.sql.broadcastTimeout" in failed["errorMessage"]


def of_query(executions: list[Execution], query: Query) -> list[Execution]:
    (title,) = (title for title, function in workload.QUERIES if function is query)
    return [execution for execution in executions if execution["description"] == title]


def shapes_of(execution: Execution) -> set[str]:
    """The names of the plan's nodes; a shuffle read's way of reading is only in its description."""
    nodes = execution["graph"]["nodes"]
    return {node["simple"] if node["name"] == "AQEShuffleRead" else node["name"] for node in nodes}


def values(execution: Execution, node_name: str, metric_name: str) -> list[str]:
    """The values of one metric on all nodes of that name that have one."""
    return [
        execution["metricValues"][str(accumulator)]
        for node in execution["graph"]["nodes"]
        if node["name"] == node_name
        for accumulator, name, _ in node["metrics"]
        if name == metric_name and str(accumulator) in execution["metricValues"]
    ]
