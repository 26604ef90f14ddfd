"""Actions of a user's code. A comment "#:" is what a query of its line is expected to be."""

import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync

import joinsight

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
    # fmt: off
    (rows.write.mode("overwrite")
        .parquet(f"{folder}/kinds"))  #: parquet
    # fmt: on
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
thread.start()
thread.join()
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
