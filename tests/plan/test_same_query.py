"""Queries that ran with Comet 1.2 and without it on Spark 4.1, recorded: the same queries with the same operators.

``recorded/comet.ndjson.gz`` and ``recorded/spark.ndjson.gz`` have the documents of queries over the tables of TPC-H, at
scale 0.2; the description is the name.
"""

from __future__ import annotations

import dataclasses
import gzip
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.documents import planned, read_back

from joinsight.analysis.rows import Rows, execution_rows
from joinsight.analysis.stored import stored_plan
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.gate.golden import plan_of
from joinsight.gate.simplified import to_lines
from joinsight.plan.engines import FALLBACK
from joinsight.present.engines import engine_text
from joinsight.verdict.driver import contention, may_be_contended
from joinsight.verdict.view import View

RECORDED = Path(__file__).parent / "recorded"
TITLES = {
    "title": "orders.parquet → window over o_custkey → where rn",
    "explodefn": "orders.parquet → explode → by w → count → top by …",
    "union": "orders.parquet ∪ lineitem.parquet where o_orderkey, l_orderkey, l_tax → count",
}
"""Titles that the plan gives, by query."""


@cache
def documents(engine: str) -> dict[str, Execution]:
    """The document of each query."""
    lines = gzip.decompress((RECORDED / f"{engine}.ndjson.gz").read_bytes()).splitlines()
    return {e.description: e for line in lines if isinstance(e := decode_document(line), Execution)}


@cache
def recorded(engine: str) -> dict[str, Rows]:
    """The rows of each query, with the title that its plan gives."""
    return {name: execution_rows(replace(e, description="", statement=None)) for name, e in documents(engine).items()}


HALVES = {"duration_ms": "duration_ms", "run_time_ms": "task_time_ms"}


def keys(rows: Rows) -> set[str | None]:
    """The keys of exchanges and joins."""
    of_exchanges = {row.operator_key for row in rows.shuffle} | {row.operator_key for row in rows.broadcast}
    return of_exchanges | {row.operator_key for row in rows.joins}


@pytest.mark.parametrize("name", recorded("comet"))
def test_it_is_the_same_query_with_and_without_comet(name: str) -> None:
    """The query, its title, and the keys of its joins, shuffles and broadcasts."""
    comet, spark = recorded("comet")[name], recorded("spark")[name]
    assert comet.execution.query_shape == spark.execution.query_shape
    assert comet.execution.title == spark.execution.title
    assert TITLES.get(name) in (None, comet.execution.title)
    assert keys(comet) == keys(spark)
    assert comet.execution.plan_fingerprint != spark.execution.plan_fingerprint


@pytest.mark.parametrize("name", recorded("comet"))
def test_its_golden_plan_is_the_same(name: str) -> None:
    """So `gate` and golden plans compare both, and name only what else changed."""
    comet, spark = (
        to_lines(plan_of(rows.plan_node, rows.plan_edge, rows.joins, rows.aqe_decision))
        for rows in (recorded("comet")[name], recorded("spark")[name])
    )
    assert comet == spark


def test_time_in_native_calls_is_that_of_operators() -> None:
    """The parts of each stage add up to its run time, and no part is of a native call as a whole."""
    for name, rows in recorded("comet").items():
        parts = [row for row in rows.task_time if row.method == "metrics"]
        assert sum(row.task_time_ms for row in rows.task_time) == rows.execution.task_time_ms, name
        assert all(row.node_id is not None for row in parts)
        assert not any(row.part == "native" for row in rows.task_time)


def test_what_the_engine_ran() -> None:
    """How many operators, which ones Spark ran instead, and what the conversions between them cost."""
    of_all = {name: engine_text(stored_plan(rows)) for name, rows in recorded("comet").items()}
    assert of_all["smj"] == "Comet ran 16 of 16 operators; 1 conversion between rows and columns"
    assert of_all["title"].endswith("1 conversion between rows and columns, 134 ms of task time")
    assert engine_text(stored_plan(recorded("spark")["smj"])) == ""
    fallen_back = """
    HashAggregate | (keys=[k#1])
      Exchange | hashpartitioning(k#1, 4)
        Filter | (f(k#1) > 5)
          CometColumnarToRow
            CometNativeScan parquet t | [k#1]
    """
    text = (
        "Comet ran 1 of 4 operators, Spark ran HashAggregate, Exchange, Filter; 1 conversion between rows and columns"
    )
    assert engine_text(read_back(planned(fallen_back))) == text


def test_why_spark_ran_an_operator() -> None:
    """Comet's reasons, each once, follow; also where it ran nothing."""
    drawing = """
    Window | [row_number()]
      Window | [rank()]
        CometNativeScan parquet t | [k#1]
    """
    reason = {FALLBACK: "frame is not supported"}
    e = planned(drawing)
    nodes = [replace(node, metadata=reason if node.name == "Window" else {}) for node in e.nodes]
    text = engine_text(read_back(replace(e, nodes=nodes)))
    assert text == "Comet ran 1 of 3 operators, Spark ran 2 Window; Window is Spark's: frame is not supported"
    nodes = [replace(node, metadata={FALLBACK: "?"} if node.name == "Window" else {}) for node in e.nodes]
    redacted = engine_text(read_back(replace(e, nodes=nodes)))
    assert redacted == "Comet ran 1 of 3 operators, Spark ran 2 Window"
    e = planned("Range | (0, 5)")
    text = engine_text(read_back(replace(e, nodes=[replace(e.nodes[0], metadata=reason)])))
    assert text == "Comet ran no operator, Spark ran Range; Range is Spark's: frame is not supported"


def test_tasks_do_not_wait_for_cpus_while_comets_threads_work() -> None:
    """Spark counts the CPU time of a task's own thread only: how busy its host was is not known."""
    for name, rows in recorded("comet").items():
        stored = stored_plan(rows)
        half = {name: stored.execution[column] // 2 for name, column in HALVES.items()}
        cpu = sum(stage.cpu_time_ns for stage in documents("comet")[name].stages) // 1_000_000
        view = View(dataclasses.replace(stored, earlier=[{**half, "cpu_time_ms": cpu}]))
        assert view.ran
        assert not list(contention(view))
        assert {view.stretch(ran) for ran in view.ran if ran.nodes} == {1.0}, name
        assert not may_be_contended(view)
    of_spark = View(stored_plan(recorded("spark")["smj"]))
    assert max(map(of_spark.stretch, of_spark.ran)) > 1
