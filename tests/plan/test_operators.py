"""The table of operators, for names of Spark and other engines; no other module contains such names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import joinsight
from joinsight.plan import operators
from joinsight.plan.engines import ENGINES, NOT_SPARKS, Engine
from joinsight.plan.operators import OPERATORS, Operator, is_broadcast, is_scan, is_shuffle, join_strategy, of

PACKAGE = Path(joinsight.__file__).parent
NAMES = {operator.name for operator in OPERATORS} | {"Scan"}


@pytest.mark.parametrize(
    ("name", "shuffle", "broadcast", "strategy"),
    [
        ("Exchange", True, False, None),
        ("BroadcastExchange", False, True, None),
        ("ReusedExchange", False, False, None),
        ("CometExchange", True, False, None),
        ("ColumnarExchange", True, False, None),
        ("CometBroadcastExchange", False, True, None),
        ("AQEShuffleRead", False, False, None),
        ("SubqueryBroadcast", False, False, None),
        ("SortMergeJoin(skew=true)", False, False, "SortMergeJoin"),
        ("CometSortMergeJoin", False, False, "SortMergeJoin"),
        ("GpuShuffledHashJoin", False, False, "ShuffledHashJoin"),
        ("CometHashJoin", False, False, "ShuffledHashJoin"),
        ("BroadcastHashJoinExecTransformer", False, False, "BroadcastHashJoin"),
        ("Scan parquet default.OldExchange", False, False, None),
        ("Join", False, False, None),  # a logical one, below an EmptyRelation
        ("", False, False, None),
    ],
)
def test_exchanges_and_joins_are_known_by_their_names(
    name: str, shuffle: bool, broadcast: bool, strategy: str | None
) -> None:
    assert (is_shuffle(name), is_broadcast(name), join_strategy(name)) == (shuffle, broadcast, strategy)


@pytest.mark.parametrize(
    ("name", "scan"),
    [
        ("Scan parquet spark_catalog.default.t", True),
        ("Scan parquet ", True),
        ("Scan In-memory table t", True),
        ("InMemoryTableScan", True),
        ("Scan ExistingRDD", True),
        ("BatchScan catalog.t", True),
        ("LocalTableScan", True),
        ("Range", False),
        ("Exchange", False),
    ],
)
def test_scans_are_known_by_their_names(name: str, scan: bool) -> None:
    assert is_scan(name) is scan


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_other_engines_names_stand_for_sparks(engine: Engine) -> None:
    """Each has the traits of the operator that it replaces, and its engine; no name is declared twice."""
    names = [name for names in engine.operators.values() for name in names]
    assert len(set(names)) == len(names)
    for spark, native in engine.operators.items():
        for name in native:
            is_scan = of(spark).kind == "scan" and spark != "LocalTableScan"
            expected = Operator("", "scan", shape_name=spark) if is_scan else of(spark)
            bare = replace(of(name), engine=None, metric_names={}, native_times={}, times_with_consumers=())
            assert bare == expected
            assert of(name).engine == engine.name


def test_metrics_of_engines_are_sparks() -> None:
    """Each metric of an engine stands for a metric that some code reads, of a kind of operator that the engine has."""
    read = {name for operator in OPERATORS for name in (*operator.rows, *operator.bytes, *operator.time)}
    read |= {"number of partitions", NOT_SPARKS}
    for engine in ENGINES:
        kinds = {of(name).kind for names in engine.operators.values() for name in names}
        assert set(engine.metrics) - {""} <= kinds
        assert {spark for names in engine.metrics.values() for spark in names.values()} <= read


def test_few_and_short_names_are_kept() -> None:
    """A sender may make up names; the table does not grow with them."""
    for number in range(10_000):
        assert of(f"Name {number}").kind == "other"
    assert of("Exchange" * 100_000).kind == "shuffle"
    known = operators._NAMES
    assert len(known) <= 4_096
    assert max(map(len, known)) <= 200


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module that are not docstrings, with their lines."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_other_module_names_an_operator() -> None:
    """The table defines every trait of an operator: a new operator, or one of another engine, needs only a row."""
    named = {
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in PACKAGE.rglob("*.py")
        if path not in (PACKAGE / "plan/operators.py", PACKAGE / "plan/engines.py")
        for line, text in literals(ast.parse(path.read_text()))
        if text.strip() in NAMES
    }
    assert named == set()
