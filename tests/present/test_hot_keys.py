"""The code of `joinsight keys`: SQL where Spark's texts can be trusted, else Python that measures the query."""

from __future__ import annotations

import pytest
from tests.documents import planned, read_back

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError
from joinsight.plan import operators
from joinsight.present.hot_keys import key_code

JOIN = """
SortMergeJoin | [customer_id#1L], [id#5L], Inner
  Exchange | hashpartitioning(customer_id#1L, 8), ENSURE_REQUIREMENTS, [plan_id=3]
    Project | [(cust#7L + 1) AS customer_id#1L, amount#2]
      Filter | {filter}
        Scan parquet spark_catalog.default.orders | [cust#7L,amount#2,status#3]
  Exchange | hashpartitioning(id#5L, 8), ENSURE_REQUIREMENTS, [plan_id=4]
    {right}
"""
CUSTOMERS = "Scan parquet  | [id#5L] Batched: true, Location: InMemoryFileIndex(1 paths)[file:/data/customers]"


def stored(drawing: str) -> StoredPlan:
    return read_back(planned(drawing))


def node(its: StoredPlan, kind: str) -> int:
    return next(each.id for each in its.plan.graph.nodes if operators.of(each.name).kind == kind)


def code(filter_text: str = "(amount#2 > 10.0)", right: str = CUSTOMERS) -> str:
    its = stored(JOIN.format(filter=filter_text, right=right))
    return key_code(its, node(its, "join"))


def test_both_sides_of_a_join_and_its_output_are_counted() -> None:
    """From the tables and paths of the scans, with filters, and with the expressions of projections."""
    left, right, output = code().split("\n\n")
    assert left == (
        "-- the join on customer_id = id of execution 0, node 0, left side\n"
        "SELECT `cust` + 1 AS `customer_id`, count(*) AS rows, count(*) / sum(count(*)) OVER () AS share"
        " FROM orders WHERE `amount` > 10.0 GROUP BY 1\nORDER BY rows DESC LIMIT 10;"
    )
    assert "SELECT `id`, count(*)" in right and "FROM parquet.`/data/customers` GROUP BY 1" in right
    assert "ON l.`customer_id` = r.`id`" in output and "l.rows * r.rows AS output_rows" in output


def test_a_text_that_may_lack_its_quotes_becomes_a_comment() -> None:
    """Spark writes (status = open) for status = 'open'."""
    found = code("(status#3 = open)")
    assert "-- add this filter, with quotes: (status = open)" in found and "WHERE" not in found


@pytest.mark.parametrize(
    ("right", "why"),
    [
        ("HashAggregate | keys=[id#5L], functions=[]\n      " + CUSTOMERS, "the right side is made by the aggregation"),
        ("Scan ExistingRDD | [id#5L]", "the name of a table or its files is not known"),
        ("Range | (0, 100, step=1, splits=2)", "the right side is made by Range"),
    ],
)
def test_what_comes_from_no_single_table_is_measured_instead(right: str, why: str) -> None:
    """SQL cannot be written for an aggregation or rows without a name."""
    found = code(right=right)
    assert why in found.splitlines()[0]
    assert "with joinsight.measure(spark) as measured:" in found and "measured.keys(0)" in found
    compile(found, "printed", "exec")


def test_what_a_server_ran_is_not_measured_in_its_client() -> None:
    """A client of Spark Connect has no driver, so `joinsight.measure` refuses its session; SQL runs there, too."""
    drawing = JOIN.format(filter="(amount#2 > 10.0)", right="Range | (0, 100, step=1, splits=2)")
    its = read_back(planned(drawing, operation_id="b1b2"))
    found = key_code(its, node(its, "join"))
    assert "ask in a session of your own where the server runs; only the key" in found
    assert "the session that runs the query" not in found
    compile(found, "printed", "exec")


def test_a_shuffle_has_one_side() -> None:
    """Also one that sorts."""
    its = stored(
        "Exchange | rangepartitioning(day#1 ASC NULLS FIRST, 8), ENSURE_REQUIREMENTS, [plan_id=3]\n"
        "  Scan parquet default.sales | [day#1]\n"
    )
    found = key_code(its, 0)
    assert "SELECT `day`, count(*)" in found and "FROM sales GROUP BY 1" in found and "\n\n" not in found


def test_other_nodes_have_no_keys() -> None:
    """They are refused by name and number."""
    its = stored("Exchange | SinglePartition, [plan_id=3]\n  Scan parquet default.sales | [day#1]\n")
    with pytest.raises(JoinsightError, match=r"Node 1 .* is not a join or shuffle with keys"):
        key_code(its, 1)
    with pytest.raises(JoinsightError, match="is not a join or shuffle with keys"):
        key_code(its, 0)
    with pytest.raises(JoinsightError, match="no node 9"):
        key_code(its, 9)
