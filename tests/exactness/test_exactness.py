"""Stored applications equal Spark's own stores, live and from event logs.

A real Spark runs a workload with the listener attached to a real collector. Then its live stores are compared, value by
value, with what PostgreSQL has; and a replay of its event log by Spark's History Server with what we read in that log;
and what both gave with each other. What may differ is in ``docs/exactness.md``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from sqlalchemy import Engine, select
from tests.eventlog import replay
from tests.eventlog.recorded import as_stored, log_at, read
from tests.exactness import results, tasklog, tpch
from tests.exactness.compare import UNEQUAL, Comparer, Comparison, in_ms
from tests.exactness.expected import OF_STAGES
from tests.exactness.recorder import Recorder, recording
from tests.java import LIGHT
from tests.spark.sink import sending_to
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SCALA_2_12, SUPPORTED, TODAY

from joinsight.contract.document import Document, Execution
from joinsight.demo.runner import collector
from joinsight.tables import Row, application, delivery, execution, stage
from joinsight.tables.views import node_metric, plan_edge, plan_node, plan_version, segment

RUN = Path(__file__).with_name("run.py")
REPLAY = Path(replay.__file__)
AQE = {"few": ("on",), "semantics": ("on", "off"), "tpch": ("on", "off")}
"""With which settings of adaptive execution a workload runs, one after the other in one application."""
REST = [
    pytest.param(*run, marks=pytest.mark.matrix if run[0] in TODAY else pytest.mark.nightly)
    for run in product(SUPPORTED, ("semantics", "tpch"))
]
# Live a metric that no task touched is 0, in a log it is not there: metrics are compared with their own oracle only
BY_EXECUTION = ("nodes", "edges", "stages", "segments", "versions")
# When a plan came is in no event: the listener looks at its clock, a log has the time of the event before
# The SQL text, which the title and the words are made of, is in no event either
NOT_IN_LOG = {"origin", "listener_id", "listener_version", "sequence", "updated_at", "planned_at", "title", "words"}
# Nor are zeros: a time that a second stage measured as 0 is that of one stage in a log, and of two for the listener
UNSURE_IN_LOG = {"nodes": ("task_time_ms", "task_time_error_ms", "task_time_method")}
# Nor are values that come with heartbeats only, by which the listener knows which exchange a failed stage was writing
UNSURE_IF_FAILED = {"segments": ("node_id",)}


@pytest.fixture(scope="module")
def tpch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H data and queries."""
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder)
    return folder


@pytest.fixture
def recorder(engine: Engine) -> Iterator[Recorder]:
    """A collector on this module's database, behind a recorder that keeps the documents."""
    with collector(engine, 0, []) as (url, _), recording(url) as recorder:
        yield recorder


@pytest.mark.spark
@pytest.mark.parametrize(("version", "workload"), [pytest.param(NEWEST, "few", marks=pytest.mark.part), *REST])
def test_what_is_stored_is_what_spark_says(
    version: str,
    workload: str,
    engine: Engine,
    recorder: Recorder,
    spark_run: SparkRun,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Executions, jobs, stages, plan versions, nodes, edges and metrics are the same in both stores."""
    folder = request.getfixturevalue("tpch_folder") if workload == "tpch" else tmp_path
    truth = run_workload(spark_run, version, workload, folder, tmp_path / "live.json", recorder.url)
    assert truth["spark_version"] == version
    (replayed,) = run(spark_run, version, REPLAY, truth["log"], "--out", str(tmp_path / "replayed.json"))
    live = read_store(engine, truth["live"]["application"]["id"], recorder.documents)
    account = live["delivery"]
    assert account["documents_arrived"] == account["documents_made"] > len(live["executions"])
    troubles = ("documents_missing", "documents_dropped", "documents_refused", "listener_failures")
    assert [account[name] for name in troubles] == [0, 0, 0, 0]
    compared = compare_all(truth, replayed, live, is_async=is_async(workload))
    for name, result in compared.items():
        record_property("summary", f"Spark {version}, {workload}, {name}: {result.summary()}")
    for name, result in compared.items():
        assert not result.differences, f"{name}: {result.words()}"
        assert result.counts["stages"] > 30
        assert result.compared - result.equal == sum(result.allowed[rule] for rule in UNEQUAL)
    assert compared["live"].counts["values"] > 300
    if workload == "tpch":
        check_shapes(live)
    results.record(truth, workload, compared)
    if is_cluster(version, workload):
        assert any(stage["shuffleRemoteBytesRead"] for stage in truth["live"]["stages"].values())


def compare_all(truth: Row, replayed: Row, live: Row, *, is_async: bool) -> dict[str, Comparison]:
    """Compares what is stored live, and what the log has, with what Spark says, and with each other."""
    log = Path(truth["log"])
    with log.open("rb") as lines:
        logged = tasklog.read(lines)
    found, outcome = read(log_at(log))
    assert outcome.problems == []
    of_log = as_stored(found)
    plans = replayed["plan_versions"]
    ended_at = replayed["said"]["application"]["attempts"][0]["endTime"]
    on_live = Comparer(truth["live"], plans, logged, ended_at, is_live=True, is_async=is_async)
    return {
        "live": on_live.compare(live),
        "log": Comparer(replayed["said"], plans, logged, ended_at, is_live=False).compare(of_log),
        "live and log": compare_both(live, of_log, on_live.partial),
    }


def check_shapes(live: dict[str, Any]) -> None:
    """The 22 queries have 22 shapes, with and without AQE."""
    shapes = defaultdict(set)
    for row in (found["row"] for found in live["executions"].values()):
        if row["description"].startswith("TPC-H"):
            shapes[row["description"]].add(row["query_shape"])
    assert {len(its) for its in shapes.values()} == {1}, shapes
    assert len(shapes) == len(set().union(*shapes.values())) == 22


def is_async(workload: str) -> bool:
    """Whether Spark aggregates executions in a separate thread, which is the default.

    That thread drops what it takes for stale, at times a stage that another query is about to run: queries at the same
    time, failures and cancellation are compared without it.
    """
    return workload == "tpch"


def is_cluster(version: str, workload: str) -> bool:
    """Whether executors run in separate processes, which read each other's shuffles: this takes twice the CPU."""
    return workload == "tpch" and version in (NEWEST, SCALA_2_12)


def run_workload(spark_run: SparkRun, version: str, workload: str, folder: Path, out: Path, url: str) -> dict[str, Any]:
    """Run the workload with the listener attached; returns what the oracle wrote to `out`."""
    conf = {
        **sending_to(url),
        "spark.joinsight.progressInterval": "500ms",
        "spark.joinsight.sampleInterval": "0",  # a log has no samples
    }
    if not is_async(workload):
        conf["spark.appStateStore.asyncTracking.enable"] = "false"
    if is_cluster(version, workload):
        conf["spark.master"] = "local-cluster[2,1,1024]"
        conf["spark.executor.extraJavaOptions"] = " ".join(LIGHT)
    arguments = ["--workload", workload, "--aqe", *AQE[workload], "--folder", str(folder)]
    for key, value in conf.items():
        arguments += ["--conf", f"{key}={value}"]
    truth: dict[str, Any] = run(spark_run, version, RUN, *arguments, "--out", str(out))
    return truth


def run(spark_run: SparkRun, version: str, script: Path, *arguments: str) -> Any:
    """Run a script; returns what it wrote to the file that is its last argument."""
    spark_run(version, script, *arguments)
    return json.loads(Path(arguments[-1]).read_text())


def read_store(engine: Engine, application_id: str, documents: list[Document]) -> dict[str, Any]:
    """All rows of an application: executions by id, each with its rows in other tables; jobs as last reported."""
    newest: dict[int, Execution] = {}
    for document in sorted(documents, key=lambda document: document.sequence):
        if isinstance(document, Execution) and document.application_id == application_id:
            newest[document.execution_id] = document
    with engine.connect() as connection:

        def rows(table: Any, *order: str) -> list[Row]:
            columns = [table.c[name] for name in order]
            statement = select(table).where(table.c.application_id == application_id).order_by(*columns)
            return [in_ms(dict(row)) for row in connection.execute(statement).mappings()]

        tables = {
            "metrics": rows(node_metric),
            "nodes": rows(plan_node, "node_id"),
            "edges": rows(plan_edge, "position"),
            "versions": rows(plan_version, "version"),
            "stages": rows(stage),
            "segments": rows(segment, "position"),
        }
        found: dict[int, dict[str, Any]] = {
            row["execution_id"]: {
                **{name: [] for name in tables},
                "row": row,
                "jobs": to_builtins(newest[row["execution_id"]].jobs),
            }
            for row in rows(execution)
        }
        for name, its_rows in tables.items():
            for row in its_rows:
                found[row["execution_id"]][name].append(row)
        return {"application": rows(application)[0], "delivery": rows(delivery)[0], "executions": found}


def compare_both(live: dict[str, Any], log: dict[str, Any], partial: set[int]) -> Comparison:
    """What the listener and the log gave, field by field; `partial`: executions of whose stages one may have less."""
    result = Comparison()
    result.row("applications", "application", _common(live["application"]), _common(log["application"]))
    for number in result.keys("execution", live["executions"], log["executions"]):
        a, b = live["executions"][number], log["executions"][number]
        where = f"execution {number}"
        left_out = OF_STAGES if number in partial else ()
        result.row("executions", where, _common(a["row"], left_out), _common(b["row"], left_out))
        succeeded = {_attempt(row) for row in a["stages"] if row["state"] == "succeeded"}
        for name in BY_EXECUTION:
            if name in ("stages", "segments") and number in partial:
                continue
            result.same("tables", f"{where}: number of {name}", len(a[name]), len(b[name]))
            for position, (mine, other) in enumerate(zip(_sorted(a[name]), _sorted(b[name]), strict=False)):
                has_failed = mine.get("stage_id") is not None and _attempt(mine) not in succeeded
                unsure = (UNSURE_IF_FAILED if has_failed else UNSURE_IN_LOG).get(name, ())
                result.row(name, f"{where}: {name} {position}", _common(mine, unsure), _common(other, unsure))
        for one, other in zip(a["jobs"], b["jobs"], strict=False):
            result.row("jobs", f"{where}: job {one['id']}", one, other)
    return result


def _attempt(row: Row) -> tuple[int, int]:
    return row["stage_id"], row["stage_attempt"]


def _common(row: Row, left_out: Collection[str] = ()) -> Row:
    return {name: value for name, value in row.items() if name not in NOT_IN_LOG and name not in left_out}


def _sorted(rows: list[Row]) -> list[Row]:
    names = ("position", "node_id", "version", "stage_id", "stage_attempt")
    return sorted(rows, key=lambda row: [row[name] for name in names if name in row])
