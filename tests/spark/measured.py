"""Queries that are measured in all ways, for `test_measure`: writes what was measured as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from pyspark.sql import SparkSession

import joinsight
from joinsight.base.errors import JoinsightError

warnings.simplefilter("error", joinsight.JoinsightWarning)
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.joinsight.shutdownTimeout", "1s")
spark = builder.getOrCreate()
spark.range(1000).selectExpr("id", "id % 7 AS key").createOrReplaceTempView("facts")
QUERY = "SELECT /*+ {hint} */ count(*) FROM facts a JOIN facts b ON a.id = b.id"


def listeners() -> list[str]:
    return [each.getClass().getName() for each in spark.sparkContext._jsc.sc().listenerBus().listeners()]


def run(hint: str) -> Any:
    return spark.sql(QUERY.format(hint=hint)).collect()[0][0]


out: dict[str, Any] = {}
before = sorted(set(listeners()))
with joinsight.measure(spark) as outer:
    run("BROADCAST(b)")
    with joinsight.measure(spark) as inner:
        run("MERGE(b)")
    try:
        with joinsight.measure(spark) as failed:
            spark.sql("SELECT raise_error('on purpose') FROM facts").collect()
    except Exception as error:
        out["error"] = "on purpose" in str(error)
    other = Thread(target=run, args=("SHUFFLE_HASH(b)",))
    other.start()
    other.join()
    out["while open"] = repr(outer)
    try:
        print(outer.executions)
    except JoinsightError as error:
        out["too early"] = str(error)
called = joinsight.measure(lambda: run("MERGE(b)"))
with joinsight.measure(spark.newSession()) as nothing:
    pass
(merged,) = called.executions
out["slots"] = [stage.slots for stage in merged.stages if stage.state == "succeeded"]
out["strategies"] = [
    [join.strategy for each in one.executions for join in each.joins] for one in (outer, inner, called)
]
out["states"] = [[each.row.state for each in one.executions] for one in (outer, failed, nothing)]
out["value"] = called.value
out["rows"] = [shuffle.rows_written for shuffle in merged.shuffles]
out["joined"] = merged.joins[0].output_rows
out["segments"] = [sum(s.end_ms - s.start_ms for s in merged.segments), merged.duration_ms]
out["versions"] = merged.row.plan_versions
out["text"], out["html"] = str(called), called._repr_html_()
out["repr"] = repr(called), repr(merged), str(nothing)
out["listeners"] = [before, sorted(set(listeners()))]
facts = spark.table("facts")
other_order = facts.selectExpr("id", "key").orderBy("key").selectExpr("id", "key * 1.0D / 3 AS third")
thirds = facts.selectExpr("id", "key / 3.0D AS third")
compared = joinsight.compare({"as it is": lambda: thirds, "by key": lambda: other_order}, runs=2)
out["compared"] = str(compared), compared._repr_html_(), [len(compared.ratios(one)) for one in compared.variants]
out["durations"] = [list(one.durations_ms) for one in compared.variants]
out["shuffled"] = [one.median("shuffle_write_bytes") for one in compared.variants]
numbers = joinsight.compare({"merge": lambda: run("MERGE(b)"), "broadcast": lambda: run("BROADCAST(b)")}, runs=1)
out["joins"] = [one.joins for one in numbers.variants]
short = joinsight.compare({"a": lambda: facts, "b": lambda: facts}, check=False, budget_s=0.001)
out["rounds"] = [len(one.runs) for one in short.variants]
out["refused"] = []
for wrong in (
    {"a": lambda: facts, "b": lambda: facts.limit(7)},
    {"a": lambda: 1, "b": lambda: 1},
    {"a": lambda: facts},
):
    try:
        joinsight.compare(wrong)
    except JoinsightError as error:
        out["refused"].append(str(error))
shell = InteractiveShell.instance()
shell.user_ns.update(spark=spark)
with capture_output() as shown:
    shell.run_line_magic("load_ext", "joinsight")
    shell.run_cell_magic("joinsight", "", "spark.table('facts').count()")
    shell.run_cell_magic("joinsight", "", "1 / 0")
out["cells"] = [{**{"text/html": ""}, **each.data} for each in shown.outputs], shown.stdout
with joinsight.measure(spark):
    joinsight.attach(SparkSession.builder, url="http://127.0.0.1:9")
out["attached"] = sum("Joinsight" in name for name in listeners())
spark.stop()
try:
    joinsight.measure(spark)
except JoinsightError as error:
    out["stopped"] = str(error)
Path(sys.argv[1]).write_text(json.dumps(out))
