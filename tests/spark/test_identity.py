"""Real Spark: a query's keys do not depend on how, where and on how much data it runs; other queries have others.

Variations of the same queries (`identity_workload.py`) go through the listener and a collector into PostgreSQL; what is
compared is what is stored there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.exactness import tpch
from tests.spark import identity_workload
from tests.spark.sink import sending_to
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SCALA_2_12

from joinsight.demo.runner import collector
from joinsight.plan.graph import Graph, Node
from joinsight.plan.identity import Identity
from joinsight.tables import Row, application, execution, joins
from joinsight.tables.views import plan_version

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

WORKLOAD = Path(identity_workload.__file__)
EXACTNESS_RUN = Path(tpch.__file__).with_name("run.py")

Run = dict[str, "Execution"]


class Execution:
    """What is stored of an execution."""

    def __init__(self, row: Row, versions: list[Row], joins: list[Row]) -> None:
        self.shape: str = row["query_shape"]
        self.fingerprint: str = row["plan_fingerprint"]
        self.joins = sorted(join["operator_key"] for join in joins)
        self.strategies = sorted(join["strategy"] for join in joins)
        self.plans = [_graph(version) for version in versions]

    @property
    def text(self) -> str:
        """What the shape stands for, nearly: a stored version has no metadata of scans."""
        return Identity().shape_text(self.plans[0])

    def exchanges(self, version: int) -> set[str]:
        """Keys of the shuffles of one plan."""
        names = {node.id: node.name for node in self.plans[version].nodes}
        keys = Identity().operator_keys(self.plans[version])
        return {key for node_id, key in keys.items() if names[node_id] == "Exchange"}


def _graph(version: Row) -> Graph:
    nodes = (
        Node(n["id"], n["name"], n["simple"], cluster=n["cluster"], is_cluster=n["is_cluster"])
        for n in version["nodes"]
    )
    return Graph(tuple(nodes), tuple((child, parent) for child, parent in version["edges"]))


@pytest.fixture(scope="module")
def run(engine: Engine, spark_run: SparkRun) -> Iterator[Callable[..., Run]]:
    """Runs a script with the listener attached, in an application of its own; gives its executions by description."""
    with collector(engine, 0, []) as (url, _):

        def ran(version: str, script: Path, *arguments: str, conf_option: tuple[str, ...] = ()) -> Run:
            conf = {
                **sending_to(url),
                "spark.joinsight.spool": "none",
            }
            options = [part for key, value in conf.items() for part in (*conf_option, f"{key}={value}")]
            before = _applications(engine)
            spark_run(version, script, *arguments, *options)
            (new,) = _applications(engine) - before
            return read(engine, new)

        yield ran


def _applications(engine: Engine) -> set[str]:
    with engine.connect() as connection:
        return set(connection.scalars(select(application.c.application_id)))


def read(engine: Engine, application_id: str) -> Run:
    """The executions of an application by their descriptions."""
    with engine.connect() as connection:

        def rows(table: Any) -> Iterator[Row]:
            of_application = select(table).where(table.c.application_id == application_id)
            yield from map(dict, connection.execute(of_application.order_by(*table.primary_key)).mappings())

        versions, joined = defaultdict(list), defaultdict(list)
        for row in rows(plan_version):
            versions[row["execution_id"]].append(row)
        for row in rows(joins):
            joined[row["execution_id"]].append(row)
        return {
            row["description"]: Execution(row, versions[row["execution_id"]], joined[row["execution_id"]])
            for row in rows(execution)
            if versions[row["execution_id"]]
        }


def variations(run: Run, query: str) -> dict[str, Execution]:
    """Variation to execution."""
    return {name.partition(": ")[2]: e for name, e in run.items() if name.startswith(query + ": ")}


@pytest.fixture(scope="module")
def workload(run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The workload on the Spark that is installed."""
    return run(NEWEST, WORKLOAD, str(tmp_path_factory.mktemp("tables")), "20000")


QUERIES = ("report", *identity_workload.OTHER_QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_keeps_its_shape_and_its_joins(workload: Run, query: str) -> None:
    """Strategy, hints, AQE, codegen, reuse, partitions, literals, conjuncts' order, API and data size change no key."""
    found = variations(workload, query)
    assert set(found) >= set(identity_workload.SETTINGS_OF_OTHERS)
    first = found["as it is"]
    for variation, e in found.items():
        assert e.text == first.text, variation
        assert e.shape == first.shape, variation
        assert e.joins == first.joins, variation


def test_how_it_ran_is_in_the_fingerprint(workload: Run) -> None:
    """Another strategy is another fingerprint; other literals, partitions and data are the same one."""
    found = variations(workload, "report")
    first = found["as it is"]
    same = {variation for variation, e in found.items() if e.fingerprint == first.fingerprint}
    assert same >= {"again", "literals", "conjuncts", "DataFrame", "no codegen"}
    flipped = {variation: e for variation, e in found.items() if e.strategies != first.strategies}
    assert set(flipped) >= {"no broadcast", "merge", "hash", "nested loop", "broadcast at run time"}
    assert not same & set(flipped)
    strategies = {strategy for e in found.values() for strategy in e.strategies}
    assert strategies == {"BroadcastHashJoin", "SortMergeJoin", "ShuffledHashJoin", "CartesianProduct"}


@pytest.mark.parametrize("query", QUERIES)
def test_an_exchange_keeps_its_key_through_re_plans(workload: Run, query: str) -> None:
    """Every shuffle of the last plan has the key that it had in the first one, though AQE flips joins above it."""
    found = variations(workload, query)
    for variation, e in found.items():
        assert e.exchanges(-1) <= e.exchanges(0), variation
    assert any(e.exchanges(-1) for e in found.values())


def test_another_query_has_another_shape(workload: Run) -> None:
    """Key, table, filter, join type, function, grouping and order: each changes the shape, and no two alike.

    The joins are others where something at or below them is; the other grouping reads a column less below them.
    """
    report = workload["report: as it is"]
    changed = variations(workload, "changed")
    assert set(changed) == set(identity_workload.CHANGED)
    assert len({report.shape, *(e.shape for e in changed.values())}) == len(changed) + 1
    same_joins = {variation for variation, e in changed.items() if e.joins == report.joins}
    assert same_joins == {"other function", "other order"}


def test_lists_paths_and_caches(workload: Run) -> None:
    """The length of an IN list, the path that is written to, and whether a cache is filled already: no other shape."""
    for query, count in {"list": 3, "write": 2, "cached": 2}.items():
        found = variations(workload, query)
        assert len(found) == count
        assert len({e.text for e in found.values()}) == 1, [e.text for e in found.values()]
        assert len({e.shape for e in found.values()}) == 1


@pytest.mark.nightly
def test_shapes_of_spark_3_5_equal_those_of_4_3(
    workload: Run, run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On Spark 3.5 all holds too; shapes equal those of 4.3 but where scalar subqueries are merged another way."""
    older = run(SCALA_2_12, WORKLOAD, str(tmp_path_factory.mktemp("tables")), "20000")
    for query in QUERIES:
        test_a_query_keeps_its_shape_and_its_joins(older, query)
        test_an_exchange_keeps_its_key_through_re_plans(older, query)
    test_how_it_ran_is_in_the_fingerprint(older)
    test_another_query_has_another_shape(older)
    test_lists_paths_and_caches(older)
    named = {name for name in workload if ": " in name}
    assert {name for name in named if older[name].shape != workload[name].shape} == {
        name for name in named if name.startswith("subqueries: ")
    }


@pytest.mark.nightly  # by day the exactness test compares their shapes with and without AQE
def test_the_22_queries_have_22_shapes(run: Callable[..., Run], tmp_path: Path) -> None:
    """The 22 queries have 22 shapes, the same in another run on three times the data without broadcasts and AQE."""
    small, large = tmp_path / "small", tmp_path / "large"
    tpch.generate(small, 0.01)
    tpch.generate(large, 0.03)

    def ran(folder: Path, aqe: str, *conf: str) -> Run:
        arguments = ["--workload", "tpch", "--aqe", aqe, "--folder", str(folder)]
        arguments += ["--out", str(tmp_path / "oracle.json"), *conf]
        found = run(NEWEST, EXACTNESS_RUN, *arguments, conf_option=("--conf",))
        return {name: e for name, e in found.items() if name.startswith("TPC-H")}

    first = ran(small, "on")
    assert len(first) == len({e.shape for e in first.values()}) == 22
    for name, e in ran(large, "off", "--conf", "spark.sql.autoBroadcastJoinThreshold=-1").items():
        assert e.text == first[name].text
        assert e.shape == first[name].shape
