"""Imports Spark event logs into the store.

`listing` finds logs, `planner` distributes them to tasks, `tasks` is the work of each task, `run` combines these. Java
reads the logs: in Spark's executors or, if all are on this machine, without Spark (`jvm`).
"""
