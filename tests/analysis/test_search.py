"""The words of an execution, and of a search."""

from __future__ import annotations

from sqlalchemy import Engine, text
from tests.documents import planned

from joinsight.analysis.search import MAX_LENGTH, MAX_WORDS, words
from joinsight.queries.filters import Filters, filters_of
from joinsight.queries.lists import read_queries
from joinsight.store.writer import Writer

PLAN = """
    Execute InsertIntoHadoopFsRelationCommand | file:/out/daily_totals, `spark_catalog`.`shop`.`totals`
      SortMergeJoin | [region_id#1], [region_id#2], Inner
        Scan parquet shop.sales | [region_id#1] Location: InMemoryFileIndex(1 paths)[file:/lake/sales_2026]
        Scan parquet shop.stores | [region_id#2]
"""


def test_words_are_in_lower_case_and_of_bounded_number() -> None:
    """Letters and digits of any language; parts of names in camel case, too; no more and no longer than the limits."""
    assert words(["SortMergeJoin db.sales_v2", "Größe", "a-b"]) == sorted(
        ["sortmergejoin", "sort", "merge", "join", "db", "sales", "v2", "größe", "a", "b"]
    )
    assert words(["", "-- !"]) == []
    many = words([" ".join(f"w{'x' * i}" for i in range(2 * MAX_WORDS))])
    assert len(many) == len(set(many)) <= MAX_WORDS
    assert max(map(len, many)) == MAX_LENGTH


def test_an_execution_is_found_by_what_it_is_about(engine: Engine) -> None:
    """Words of the description, job, tables, paths, operators and SQL text, in any case and order, if all are there."""
    sql = f"SELECT churn, {', '.join(f'c{i}' for i in range(MAX_WORDS))}"
    one = {"description": "Revenue by région", "job_name": "finance/nightly", "application_id": "one"}
    Writer(engine).write(
        [planned(PLAN, statement=sql, **one), planned("Scan", description="other", application_id="two")]
    )

    def found(asked: str) -> list[str]:
        filters = Filters(search=filters_of("queries")["search"].value("search", asked))
        with engine.connect() as connection:
            return [row["application_id"] for row in read_queries(connection, filters, "recent")]

    for asked in (
        "revenue",
        "REV",
        "région Revenue",
        "finance/nightly",
        "shop.sales",
        "stores",
        "daily_totals",
        "churn",
    ):
        assert found(asked) == ["one"], asked
    for asked in ("SortMergeJoin", "merge", "sales_2026", "rev join shop"):
        assert found(asked) == ["one"], asked
    for asked in ("venue", "revenue other", "region_id", "BroadcastHashJoin", "'; DROP", "a:* | b"):
        assert found(asked) == [], asked
    assert found("other") == ["two"]
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM execution WHERE words IS NULL")) == 0
