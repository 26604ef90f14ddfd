"""Event logs of the past into the store.

`listing` finds logs, `planner` shares them out, `tasks` is what each task does with them, `run` puts it together. Java
reads the logs: in Spark's executors, or, if all are on this machine, without Spark (`jvm`).
"""
