"""Delta Lake reads its log, Hudi its index in executions of their own: the query that needs them has their time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS
from tests.store.test_hidden import MINUTE, ids, jobs, page, ran, run

from joinsight.contract.document import Nested
from joinsight.store.writer import Writer

QUERY_AT = STARTED_AT_MS + 5 * MINUTE
INDEX = (
    "org.apache.spark.sql.Dataset.collect(Dataset.scala:3575)\n"
    "org.apache.hudi.PartitionStatsIndexSupport.$anonfun$prunePartitions$1(PartitionStatsIndexSupport.scala:101)"
)
RUNS = [
    ran(1, 1_000, description="a query", jobs=jobs()),
    ran(2, 300, description="Delta: nightly: Filtering files for query", jobs=jobs()),
    ran(3, 1_000, description="Delta: Compute snapshot for version: 5", jobs=jobs()),
    # Spark numbers a query before it plans it
    ran(4, 70, description="Delta: Filtering files for query", root_execution_id=5, jobs=jobs()),
    ran(5, 2_000, description="nightly", jobs=jobs(QUERY_AT), nested=[Nested(6, QUERY_AT + 10, QUERY_AT + 822)]),
    ran(6, 812, description="Delta: nightly: Filtering files for query", root_execution_id=5, jobs=jobs()),
    ran(7, 900, description="Filtering files for query of mine", jobs=jobs()),
    ran(8, 10, description="Compute snapshot for version: 6", jobs=jobs(), state="failed", error="no"),
    ran(9, 250, description=":", call_site=INDEX, jobs=jobs()),
    ran(10, 3_511, description=":", call_site=INDEX, root_execution_id=11, jobs=jobs()),
    ran(11, 7_148, description="an update", call_site="org.apache.spark.sql.SparkSession.sql(x:1)", jobs=jobs()),
    ran(12, 900, description="mine", call_site="com.acme.Index.x(x:1)\norg.apache.hudi.Other.y(y:1)", jobs=jobs()),
]


@pytest.fixture(scope="module", autouse=True)
def filled(engine: Engine) -> Iterator[None]:
    """These executions are stored."""
    Writer(engine).write(RUNS)
    yield


def test_the_query_says_how_long_it_took(engine: Engine) -> None:
    """On its page and in its plan: before the query, and of its own time; of others, nothing."""
    text = "Delta's log: 1.4 s before the query, 812 ms in it"
    assert text in run(engine, "plan", "5").stdout
    assert text.replace("'", "&#39;") in page(engine, "/executions/5")[1]
    assert "Hudi's index: 3.8 s before the query" in run(engine, "plan", "11").stdout
    for number in ("1", "7", "12"):
        text = run(engine, "plan", number).stdout
        assert "log:" not in text and "index:" not in text


def test_lists_leave_it_out(engine: Engine) -> None:
    """They do not hide what a user calls nearly the same, or what failed; an option shows all."""
    assert ids(run(engine, "queries", "--json")) == [12, 11, 8, 7, 5, 1]
    assert page(engine, "/")[0] == [12, 11, 8, 7, 5, 1]
    assert ids(run(engine, "queries", "--json", "--show", "nested")) == [*range(12, 0, -1)]
