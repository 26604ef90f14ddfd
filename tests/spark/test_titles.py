"""Titles of a real Spark's queries, from the listener to the column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.documents import stored_rows
from tests.spark.sink import Sink
from tests.spark.test_listener import run
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SCALA_2_12

pytestmark = [pytest.mark.spark]


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
@pytest.mark.parametrize("redacted", ["false", "true"])
def test_queries_have_titles(sink: Sink, spark_run: SparkRun, tmp_path: Path, version: str, redacted: str) -> None:
    """The SQL text of a whole query, the description, else what the plan does; nothing that redaction removed."""
    more = {"spark.joinsight.redactLiterals": redacted, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    done = run(sink, spark_run, version, "titles.py", **more)
    assert "WARN io.joinsight" not in done.stderr
    titles = [stored_rows(each)["execution"][0]["title"] for _, each in sorted(sink.newest().items())]
    joined = "orders ⋈ customers where amount → by segment → count"
    # Without literals, a comment is a "?", and a write has no path
    orders, daily, comment = ("", "", " ?") if redacted == "true" else (" orders", " reports/daily", "")
    for expected in (
        f"range → save to parquet{orders}",
        joined,
        f"{joined} → save to parquet{daily}",
        "orders → distinct order_id",
        "cached (orders → by customer_id → sum(amount)) → count",
        f"SELECT segment, max(amount){comment} FROM o JOIN c USING (customer_id) GROUP BY segment",
        "SELECT order_id, amount FROM o WHERE amount > (SELECT avg(amount) FROM o)",
        "orders where amount → max(amount)",
        "SELECT amount FROM o WHERE customer_id = :id",
        "SELECT segment, customer_id FROM c",
        "orders → customer_id, pad",
        "SELECT raise_error(segment) AS broken FROM c",
        "Named by hand",
    ):
        assert expected in titles
    assert any(title.startswith("CREATE TABLE kept") for title in titles)
    sent = json.dumps(sink.taken())
    assert "topsecret" not in sent
    assert "hunter2" not in sent
