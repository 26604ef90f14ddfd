"""What things look like: the same colour for the same meaning on every dashboard."""

from __future__ import annotations

GOOD, WARNING, BAD, NEUTRAL = "green", "orange", "red", "text"

COLOURS = {
    # states of executions, outcomes of broadcasts
    "succeeded": "green",
    "failed": "red",
    "lost": "dark-red",
    "running": "blue",
    "unknown": "gray",
    # outcomes of documents, status of requests
    "stored": "green",
    "stale": "gray",
    "refused": "red",
    "200": "green",
    "400": "red",
    "401": "dark-red",
    "429": "orange",
    "503": "dark-orange",
    # severities of findings
    "info": "blue",
    "warning": "orange",
    "critical": "red",
    # what costs
    "shuffle written": "orange",
    "broadcast": "purple",
    "spilled to disk": "red",
    "read from sources": "green",
    "task time": "blue",
    # phases of a broadcast
    "collect": "light-purple",
    "build": "purple",
    "send": "dark-purple",
    # what a shuffle's tasks do
    "write": "orange",
    "wait": "dark-red",
    # strategies of joins
    "BroadcastHashJoin": "purple",
    "SortMergeJoin": "orange",
    "ShuffledHashJoin": "yellow",
    "BroadcastNestedLoopJoin": "red",
    "CartesianProduct": "dark-red",
    # what AQE decided
    "join_strategy": "purple",
    "coalesced": "green",
    "skew_split": "orange",
    "local_read": "blue",
    "empty_relation": "gray",
    "dropped_stage": "red",
    # why it became worse
    "plan_changed": "purple",
    "data_grew": "blue",
    "same_plan": "orange",
    # operators of a plan
    "join": "blue",
    "shuffle": "orange",
    "scan": "green",
    "other": "gray",
    # of a distribution
    "median": "green",
    "p95": "orange",
    "largest": "red",
}
"""Names of series and values of cells to colours, as Grafana's palette calls them."""
