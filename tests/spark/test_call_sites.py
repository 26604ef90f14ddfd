"""The lines of a real PySpark job's actions, from `attach` to the column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.documents import stored_rows
from tests.spark.sink import Sink
from tests.spark.test_listener import run
from tests.versions import SUPPORTED

from joinsight.decode import decode_document
from joinsight.document import Execution

pytestmark = [pytest.mark.spark]

# A comment "#:" is what a query of its line is expected to be
JOB = """
import sys, tempfile, threading
from concurrent.futures import ThreadPoolExecutor
import joinsight
from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync
options = dict(pair.split("=", 1) for pair in sys.argv[1:])
builder = SparkSession.builder.master("local[2]").appName("lines").config("spark.ui.enabled", "false")
for key in "spark.sql.shuffle.partitions", "spark.sql.warehouse.dir":
    builder = builder.config(key, options[key])
spark = builder.getOrCreate()
context, folder = spark.sparkContext, tempfile.mkdtemp()
for _ in range(2):
    joinsight.attach(SparkSession.builder, url=options["spark.joinsight.url"])
df = spark.range(20).selectExpr("id", "id % 3 AS kind", "IF(id < 9, 'a', 'b') AS letter")

def total(rows):
    return rows.count()  #: count

def store(rows):
    (rows.write.mode("overwrite")
        .parquet(f"{folder}/kinds"))  #: parquet
    rows.write.saveAsTable("kinds")  #: saveAsTable
    rows.write.insertInto("kinds")  #: insertInto
    rows.write.csv(f"{folder}/csv")  #: csv

print("total", total(df))
df.show(1)  #: show
store(df)
spark.sql("CREATE TABLE letters USING parquet AS SELECT letter FROM kinds")  #: sql
spark.read.csv(f"{folder}/csv", inferSchema=True)  #: csv
df.groupBy("kind").pivot("letter").count().collect()  #: pivot collect
df.first()  #: first
df.isEmpty()  #: isEmpty
list(df.toLocalIterator())  #: toLocalIterator
with ThreadPoolExecutor(4) as pool:
    for _ in range(3):
        list(pool.map(lambda _: df.collect(), range(4)))  #: collect
        list(pool.map(lambda _: df.tail(1), range(4)))  #: tail
thread = threading.Thread(target=lambda: df.count())  #: count
thread.start(), thread.join()
exec(compile("df.count()", "/tmp/ipykernel_7/42.py", "exec"))  # a cell
context.setJobDescription("Described")
total(df)
context.setJobDescription(None)

# What PySpark leaves behind if two threads collect at once
with SCCallSiteSync(context):
    SCCallSiteSync._spark_stack_depth += 1
SCCallSiteSync._spark_stack_depth -= 1
df.count()  #: count
context._jsc.setCallSite(None)

try:
    spark.sql("SELECT raise_error('no') FROM kinds").show()  #: show
except Exception as error:
    print("raised", type(error).__name__)
context._jsc.setCallSite("mine")
df.count()
print("kept", context.getLocalProperty("callSite.short"))
context._jsc.setCallSite(None)
print("left", context.getLocalProperty("callSite.short"), context.getLocalProperty("callSite.long"))
joinsight.attach(SparkSession.builder, url=options["spark.joinsight.url"], call_sites=False)
df.count()
spark.stop()
"""


@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
def test_each_query_has_its_line(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """In functions, threads and cells, described or not; a user's call site stays, and nothing is left behind."""
    more = {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    done = run(sink, spark_environment(version), tmp_path, JOB, **more)
    assert done.returncode == 0, done.stderr
    for line in ("total 20", "raised ", "kept mine", "left None None"):
        assert line in done.stdout
    expected: set[tuple[str | None, str]] = {("<cell>:1", "count"), (None, "mine"), (None, "count")}
    for number, text in enumerate(JOB.splitlines(), 1):
        marked = re.search("#: (.*)", text)
        expected |= {(f"job.py:{number}", action) for action in marked[1].split()} if marked else set()
    documents = [decode_document(json.dumps(document).encode()) for document in sink.taken()]
    rows = [stored_rows(d)["execution"][0] for d in documents if isinstance(d, Execution)]
    found = {(row["called_from"], row["description"].partition(" at ")[0]) for row in rows}
    (described,) = {(line, name) for line, name in found if name == "Described"}
    assert described[0] in {line for line, _ in expected}
    assert found - {described} == expected
