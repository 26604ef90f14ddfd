"""Titles of a real Spark's queries, from the listener to the column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.documents import stored_rows
from tests.spark.sink import Sink
from tests.spark.test_listener import run
from tests.versions import NEWEST, SCALA_2_12

from joinsight.decode import decode_document
from joinsight.document import Execution

pytestmark = [pytest.mark.spark]

SCRIPT = """
import sys, tempfile
from pyspark.sql import SparkSession, functions as f
builder = SparkSession.builder.master("local[2]").appName("titles").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
folder = tempfile.mkdtemp()
(spark.range(40).selectExpr("id AS order_id", "id % 7 AS customer_id", "id * 2.0D AS amount", "id AS secret")
    .write.parquet(f"{folder}/orders"))
(spark.range(7).selectExpr("id AS customer_id", "IF(id < 3, 'gold', 'other') AS segment")
    .write.parquet(f"{folder}/customers"))
orders, customers = spark.read.parquet(f"{folder}/orders"), spark.read.parquet(f"{folder}/customers")
orders.createOrReplaceTempView("o")
customers.createOrReplaceTempView("c")
big = orders.where("amount > 10")
big.join(customers, "customer_id").groupBy("segment").count().show()
big.join(customers, "customer_id").groupBy("segment").count().write.parquet(f"{folder}/reports/daily")
orders.select("order_id").union(orders.select("customer_id")).distinct().collect()
cached = orders.groupBy("customer_id").agg(f.sum("amount")).cache()
cached.count()
cached.unpersist(True)
spark.sql("SELECT segment, max(amount) /* the most */ FROM o\\nJOIN c USING (customer_id) GROUP BY segment").show()
part = spark.sql("SELECT order_id, amount FROM o WHERE amount > (SELECT avg(amount) FROM o)")
part.collect()
part.groupBy().max("amount").collect()
spark.sql("SELECT * FROM o WHERE 'password=topsecret' <> string(amount)").collect()
spark.sql("SELECT amount FROM o WHERE customer_id = :id", args={"id": 3}).collect()
spark.sql("SELECT segment, customer_id FROM c").write.saveAsTable("by_segment")
spark.sql("CREATE TABLE kept USING parquet OPTIONS (password 'hunter2') AS SELECT segment FROM c")
spark.sql(f"SELECT customer_id, '{'x' * 70_000}' AS pad FROM o").collect()
try:
    spark.sql("SELECT raise_error(segment) AS broken FROM c").collect()
except Exception:
    pass
spark.sparkContext.setJobDescription("Named by hand")
spark.sql("SELECT count(*) FROM o").collect()
spark.stop()
"""


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
@pytest.mark.parametrize("redacted", ["false", "true"])
def test_queries_have_titles(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str, redacted: str
) -> None:
    """The SQL text of a whole query, the description, else what the plan does; nothing that redaction removed."""
    more = {"spark.joinsight.redactLiterals": redacted, "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    done = run(sink, spark_environment(version), tmp_path, SCRIPT, **more)
    assert done.returncode == 0, done.stderr
    assert "WARN io.joinsight" not in done.stderr
    documents = [decode_document(json.dumps(document).encode()) for document in sink.taken()]
    newest = {d.execution_id: d for d in documents if isinstance(d, Execution)}
    titles = [stored_rows(d)["execution"][0]["title"] for _, d in sorted(newest.items())]
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
