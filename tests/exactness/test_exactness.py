"""Every stored value equals what Spark's own UI store holds, and so does every plan graph.

A real Spark runs a workload with the listener attached to a real collector; then its live ``SQLAppStatusStore`` is
compared, value by value, with what PostgreSQL has. The display string is derived from our numbers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.exactness import tpch

from joinsight.attach import LISTENER, listener_jar
from joinsight.demo.runner import collector
from joinsight.display import row_text
from joinsight.rows import Row
from joinsight.store.models import application, delivery, execution, node_metric, plan_edge, plan_node

RUN = Path(__file__).with_name("run.py")
RUN_SECONDS = 840
# Which of several equal values is called the largest depends on the order of events: its task is not compared.
WHERE = re.compile(r"\((?:stage \d+\.\d+: task \d+|driver)\)")


@pytest.fixture(scope="module")
def tpch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H data and queries."""
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder)
    return folder


@pytest.fixture
def collector_url(engine: Engine) -> Iterator[str]:
    """A collector on this module's database."""
    with collector(engine, 0, []) as (url, _):
        yield url


@pytest.mark.spark
@pytest.mark.parametrize("aqe", ["on", pytest.param("off", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("workload", ["semantics", pytest.param("tpch", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("version", ["4.3.0", pytest.param("3.5.9", marks=pytest.mark.matrix)])
def test_stored_values_equal_those_of_sparks_ui(
    version: str,
    workload: str,
    aqe: str,
    engine: Engine,
    collector_url: str,
    spark_environment: Callable[[str], dict[str, str]],
    tpch_folder: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """For every execution, node and metric the string derived from our numbers is Spark's, and so is the graph."""
    folder = tpch_folder if workload == "tpch" else tmp_path
    truth = run_spark(spark_environment(version), workload, aqe, folder, tmp_path / "oracle.json", collector_url)
    assert truth["spark_version"] == version
    ours = read_store(engine, truth["application_id"])
    assert ours["application"]["state"] == "ended"
    account = ours["delivery"]
    assert account["documents_arrived"] == account["documents_made"] > len(ours["executions"])
    troubles = ("documents_missing", "documents_dropped", "documents_refused", "listener_failures")
    assert [account[name] for name in troubles] == [0, 0, 0, 0]
    differences, values, nodes = compare(truth["executions"], ours["executions"])
    compared = f"compared {values} values, {nodes} nodes of {len(truth['executions'])} executions"
    record_property("summary", f"Spark {version}, {workload}, AQE {aqe}: {compared}")
    assert not differences, "\n".join(differences[:40]) + f"\n({len(differences)} differences)"
    assert values > 300


def run_spark(
    environment: dict[str, str], workload: str, aqe: str, folder: Path, out: Path, url: str
) -> dict[str, Any]:
    """Run the workload with the listener attached; returns what the oracle wrote to `out`."""
    conf = {
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": url,
        "spark.joinsight.progressInterval": "500ms",
        "spark.joinsight.shutdownTimeout": "60s",
    }
    command = [sys.executable, str(RUN), "--workload", workload, "--aqe", aqe]
    command += ["--folder", str(folder), "--out", str(out)]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    truth: dict[str, Any] = json.loads(out.read_text())
    return truth


def read_store(engine: Engine, application_id: str) -> dict[str, Any]:
    """All rows of an application: executions by id, each with its metrics, nodes and edges."""
    with engine.connect() as connection:

        def rows(table: Any, *order: Any) -> list[Row]:
            statement = select(table).where(table.c.application_id == application_id).order_by(*order)
            return [dict(row) for row in connection.execute(statement).mappings()]

        found: dict[int, dict[str, Any]] = {
            row["execution_id"]: {"row": row, "metrics": [], "nodes": [], "edges": []} for row in rows(execution)
        }
        for row in rows(node_metric):
            found[row["execution_id"]]["metrics"].append(row)
        for row in rows(plan_node, plan_node.c.node_id):
            found[row["execution_id"]]["nodes"].append(row)
        for row in rows(plan_edge, plan_edge.c.position):
            found[row["execution_id"]]["edges"].append(row)
        return {"application": rows(application)[0], "delivery": rows(delivery)[0], "executions": found}


def compare(truth: dict[str, Any], ours: dict[int, Any]) -> tuple[list[str], int, int]:
    """Differences in words, the number of values and the number of nodes compared."""
    differences: list[str] = []
    values = nodes = 0
    for name, spark in truth.items():
        mine = ours.get(int(name))
        if mine is None:
            if spark["graph"] is not None:
                differences.append(f"execution {name} ({spark['description']}) is missing")
            continue
        row = mine["row"]
        where = f"execution {name} ({' '.join(row['description'].split())[:50]})"
        expected_state = "failed" if spark["error_message"] else "succeeded"
        same = {
            "description": (spark["description"], row["description"]),
            "root": (spark["root_execution_id"], row["root_execution_id"]),
            "state": (expected_state, row["state"]),
            "ended": (spark["completion_time_ms"], _ms(row["ended_at"])),
            "jobs": (len(spark["jobs"]), row["jobs"]),
        }
        differences += [f"{where}: {what}: Spark {a!r}, ours {b!r}" for what, (a, b) in same.items() if a != b]
        values += _compare_metrics(where, spark["metrics"], mine["metrics"], differences)
        nodes += _compare_graph(where, spark["graph"], mine, differences)
    return differences, values, nodes


def _compare_metrics(where: str, spark: dict[str, str], rows: list[Row], differences: list[str]) -> int:
    ours = {str(row["accumulator_id"]): (row["name"], row_text(row)) for row in rows}
    for accumulator, text in spark.items():
        name, mine = ours.get(accumulator, ("?", None))
        if mine is None or WHERE.sub("", text) != WHERE.sub("", mine):
            differences.append(f"{where}: {name} ({accumulator}): Spark {text!r}, ours {mine!r}")
    for accumulator, (name, mine) in ours.items():
        if mine is not None and accumulator not in spark:
            differences.append(f"{where}: {name} ({accumulator}): Spark has none, ours {mine!r}")
    return len(spark)


def _compare_graph(where: str, graph: dict[str, Any] | None, mine: dict[str, Any], differences: list[str]) -> int:
    if graph is None:
        return 0
    metric_ids: dict[int, list[int]] = {}
    for row in mine["metrics"]:
        metric_ids.setdefault(row["node_id"], []).append(row["accumulator_id"])
    clusters = {cluster["id"] for cluster in graph["clusters"]}
    # Clusters come twice in the oracle: as nodes of the top level they are left out there
    spark_nodes = {
        node["id"]: (
            node["name"],
            node["desc"],
            node.get("cluster"),
            node["id"] in clusters,
            sorted({metric["accumulator"] for metric in node["metrics"]}),
        )
        for node in (*graph["nodes"], *graph["clusters"])
    }
    our_nodes = {
        row["node_id"]: (
            row["name"],
            row["simple"],
            row["cluster_id"],
            row["is_cluster"],
            sorted(metric_ids.get(row["node_id"], [])),
        )
        for row in mine["nodes"]
    }
    for node_id in sorted(spark_nodes.keys() | our_nodes.keys()):
        a, b = spark_nodes.get(node_id), our_nodes.get(node_id)
        if a != b:
            differences.append(f"{where}: node {node_id}: Spark {a!r}, ours {b!r}")
    edges = [[row["child_id"], row["parent_id"]] for row in mine["edges"]]
    if sorted(edges) != sorted(graph["edges"]):
        differences.append(f"{where}: edges: Spark {sorted(graph['edges'])}, ours {sorted(edges)}")
    return len(spark_nodes)


def _ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
