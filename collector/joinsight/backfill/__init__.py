"""Event logs of the past into the store, by Spark: the driver lists and shares out, executors read and write.

`find` lists logs through Spark's file systems, `share` cuts and shares them out, `work` is what executors do, `run`
puts it together. Only `find` and `run` know Spark.
"""
