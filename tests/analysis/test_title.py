"""An execution's title is what a person calls the query: their own words, a statement, else what its plan does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.documents import execution, planned
from tests.growth import check_cpu_time

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.title import title
from joinsight.plan.outline import MAX_CHARACTERS

BATCH = "id = 1d6ef7a2-b4a0-4d3c-8d5e-9d3c7c1cf8a1{0}runId = 2d6ef7a2-b4a0-4d3c-8d5e-9d3c7c1cf8a1{0}batch = 3"


@pytest.mark.parametrize(
    "description",
    [
        "showString at NativeMethodAccessorImpl.java:0",
        "collect at /data/my jobs/workload.py:66",
        "count at <console>:25",
        "save at Job.scala:12",
        "collect at <stdin>:1",
        "-- a comment, and nothing else",
        ":",  # what Hudi leaves of its own
        "MERGE operation - scanning files for matches",
        "Delta: nightly: Finding files to rewrite for UPDATE operation",
        "Delta: Writing modified data - MERGE operation - Rewriting 4 files",
        "Delta: Rewriting 5 files for DELETE operation",
        "file:/w/shop.db/small<br/>Optimizing 8 files in partition (day=23)",
        BATCH.format("\n"),
        BATCH.format("<br/>"),
        'Spark Connect - session_id: "7c0eb70f-91f9-4c02-8628-2cfd7f5b7d96"\nuser_context {\n  user_id: "a...',
        "",
    ],
)
def test_sparks_own_description_is_not_a_title(description: str) -> None:
    """A call site and a micro-batch's ids say nothing of the query; its plan does."""
    assert title(description, "", "sales → count") == "sales → count"


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Sales by region", "Sales by region"),
        ("load at 10:30", "load at 10:30"),
        ("  Sales\tby  region\nand more of it", "Sales by region"),
        ("select a,\n  b from t;", "select a, b from t"),
        ("-- the nightly one\n/* v2 */ SELECT a -- first\nFROM t", "SELECT a FROM t"),
        ("SELECT '-- no comment' FROM t", "SELECT '-- no comment' FROM t"),
        ("SELECT /*+ MERGE(a) */ a FROM t", "SELECT /*+ MERGE(a) */ a FROM t"),
        ("Delta: Compute snapshot for version: 3", "Delta: Compute snapshot for version: 3"),
        ("hourly\n" + BATCH.format("\n"), "hourly: sales → count"),
        ("hourly<br/>" + BATCH.format("<br/>"), "hourly: sales → count"),
        ("Delta: hourly\n" + BATCH.format("\n") + ": Writing modified data", "hourly: sales → count"),
    ],
)
def test_a_description_of_the_user_is_the_title(description: str, expected: str) -> None:
    """In one line: the first one, of a statement all of it without its comments, of a stream its name."""
    assert title(description, "", "sales → count") == expected


def test_the_sql_text_names_a_query_without_a_description() -> None:
    """In place of a call site; a person's own description is better, and a comment alone says nothing."""
    assert title("sql at Job.scala:7", "SELECT a -- first\nFROM t", "t → a") == "SELECT a FROM t"
    assert title("Nightly", "SELECT a FROM t", "t → a") == "Nightly"
    assert title("", "-- nothing", "t → a") == "t → a"
    assert title("Spark Connect - session_id:...", "SELECT a FROM t", "t → a") == "SELECT a FROM t"
    assert title("Spark Connect - session_id:...", "", "") == "Spark Connect request"


def test_a_long_statement_shows_what_it_reads() -> None:
    """Most of what it selects is left out, also behind a WITH and with FROM in a literal or a subquery."""
    columns = ", ".join(f"sum(amount_{number}) AS total_{number}" for number in range(20))
    assert title(f"SELECT {columns} FROM sales WHERE day = 3", "", "") == (
        "SELECT sum(amount_0) AS total_0, … FROM sales WHERE day = 3"
    )
    inner = f"WITH a AS (SELECT x FROM t) SELECT (SELECT max(b) FROM u), ' FROM ', {columns} FROM sales"
    assert title(inner, "", "") == "WITH a AS (SELECT x FROM t) SELECT (SELECT max(b) FROM u), ' FROM ', … FROM sales"
    long = title(f"SELECT 1 FROM {'t' * 500}", "", "")
    assert long
    assert len(long) == MAX_CHARACTERS
    assert long.endswith("…")


def test_without_a_plan_the_action_is_the_title() -> None:
    """A call site in a file of the user is shown whole, one in PySpark's machinery only by its action; else NULL."""
    assert title("sql at NativeMethodAccessorImpl.java:0", "", "") == "sql"
    assert title("collect at job.py:42", "", "") == "collect at job.py:42"
    assert title("", "", "") is None
    assert title(":", "", "") is None


@pytest.mark.parametrize("piece", ["'\\", "/*", "SELECT (", "a at .", "\n", "`", "SELECT a, ", "-- ", "id = "])
def test_a_hostile_description_takes_linear_time(piece: str) -> None:
    """Quotes, brackets and comments that never end take time in proportion to their length."""

    def prepare(size: int) -> Callable[[], object]:
        text = "SELECT " + piece * (size // len(piece))
        assert len(title(text, "", "") or "") <= MAX_CHARACTERS
        return lambda: title(text, "", "")

    check_cpu_time(prepare, 60_000)


def test_an_executions_row_has_its_title() -> None:
    """The first plan gives it; it is NULL without plan and description, and for one without letters."""
    e = planned("HashAggregate | (keys=[], functions=[count(1)])\n  Scan parquet sales | [id#1]", description="")
    assert execution_rows(e).execution.title == "sales → count"
    assert execution_rows(execution(description="")).execution.title is None
    assert execution_rows(execution(description=":")).execution.title is None


@pytest.mark.parametrize(
    ("description", "call_site", "root", "expected"),
    [
        ("MERGE operation - scanning files for matches", "", 1, "t → k"),
        (
            "f at DatabricksLogging.scala:128",
            "org.apache.spark.sql.delta.metering.DeltaLogging.f(A.scala:1)\n",
            1,
            "t → k",
        ),
        ("f at Future.scala:1", "org.apache.spark.sql.execution.SQLExecution$.$anonfun$with(A.scala:1)", 1, "t → k"),
        ("collect at job.py:2", "org.apache.spark.sql.classic.Dataset.collectToPython(Dataset.scala:2)", 1, "MERGE x"),
        ("f at A.scala:1", "org.apache.spark.sql.delta.metering.DeltaLogging.f(A.scala:1)", 2, "MERGE x"),
    ],
)
def test_a_part_of_a_command_is_not_called_by_its_statement(
    description: str, call_site: str, root: int, expected: str
) -> None:
    """All parts of Delta Lake's MERGE have its statement: what each reads tells them apart."""
    its = {"description": description, "call_site": call_site, "root_execution_id": root, "statement": "MERGE x"}
    e = planned("Scan parquet t | [k#1]", execution_id=2, **its)
    assert execution_rows(e).execution.title == expected
