"""Tests of somebody's queries, as docs/pytest.md shows them; some fail on purpose."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession

from joinsight.pytest_plugin import Joinsight

HINT = os.environ.get("HINT", "")


def report(spark: SparkSession) -> DataFrame:
    """What customers of each segment spent."""
    return spark.sql(
        f"SELECT {HINT} segment, sum(amount) AS spent FROM orders JOIN customers USING (customer_id)"
        " GROUP BY segment ORDER BY spent"
    )


def test_report(spark: SparkSession, joinsight: Joinsight) -> None:
    """Keeps its plan and its budgets."""
    with joinsight.measure(spark) as queries:
        rows = report(spark).collect()
    assert len(rows) == 5
    queries.must("no cartesian product", "the join on customer_id is broadcast", "at most 2 shuffles")
    queries.must_match()


def test_merged(spark: SparkSession, joinsight: Joinsight) -> None:
    """Its golden plan has a broadcast join."""
    queries = joinsight.measure(
        lambda: spark.table("orders").hint("merge").join(spark.table("customers"), "customer_id").count()
    )
    assert queries.value == 1000
    queries.must_match("joined")


def test_budgets(spark: SparkSession, joinsight: Joinsight) -> None:
    """Breaks two of three."""
    queries = joinsight.measure(lambda: spark.sql("SELECT * FROM orders, customers").count())
    queries.must("no cartesian product", "shuffle bytes below 10 MB", "no nested loop join")


def test_new(spark: SparkSession, joinsight: Joinsight) -> None:
    """Has no golden plan."""
    joinsight.measure(lambda: report(spark).count()).must_match()
