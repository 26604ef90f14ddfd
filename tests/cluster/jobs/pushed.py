"""A job whose shuffle is pushed: pushed.py FOLDER. Reads it, removes the merged files below the folder, reads it again.

Prints the metrics of the exchange as Spark shows them, for each of both executions, as JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def exchange(execution_id: int) -> dict[str, str]:
    """Its metrics by name."""
    nodes, values = store.planGraph(execution_id).allNodes(), store.executionMetrics(execution_id)
    (node,) = (nodes.apply(n) for n in range(nodes.size()) if nodes.apply(n).name() == "Exchange")
    metrics = [node.metrics().apply(n) for n in range(node.metrics().size())]
    return {
        each.name(): values.apply(each.accumulatorId()) for each in metrics if values.contains(each.accumulatorId())
    }


spark = SparkSession.builder.getOrCreate()
customers = spark.range(0, 100_000, 1, 4).selectExpr("id % 1000 AS customer").groupBy("customer").count()
customers.collect()
for merged in Path(sys.argv[1]).rglob("shuffleMerged_*.data"):
    merged.unlink()
customers.collect()
spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
store = spark._jsparkSession.sharedState().statusStore()
print(json.dumps([exchange(execution_id) for execution_id in (0, 1)]))
spark.stop()
