"""Spark's own text of each metric: VERSION, with values as JSON on standard input."""

import json
import sys

from pyspark.java_gateway import launch_gateway

gateway = launch_gateway()
jvm = gateway.jvm
spark = jvm.org.apache.spark
shown = spark.util.MetricUtils if sys.argv[1] >= "4" else spark.sql.execution.metric.SQLMetrics


def longs(values):
    array = gateway.new_array(jvm.long, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


print(json.dumps([shown.stringValue(kind, longs(values), longs(most)) for kind, values, most in json.load(sys.stdin)]))
gateway.shutdown()
