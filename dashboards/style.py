"""What things look like: the same colour for the same meaning on every dashboard."""

from __future__ import annotations

GOOD, WARNING, BAD = "green", "orange", "red"

GROUPS = {
    "states": {
        "succeeded": "green",
        "failed": "red",
        "lost": "dark-red",
        "running": "blue",
        "unknown": "gray",
        "pending": "gray",
        "skipped": "gray",
    },
    "severities": {"info": "blue", "warning": "orange", "critical": "red"},
    "costs": {
        "shuffle written": "orange",
        "broadcast": "purple",
        "spilled to disk": "red",
        "read by tasks": "green",
    },
    "phases": {"collect": "light-purple", "build": "purple", "send": "dark-purple"},
    "tasks": {"write": "orange", "wait": "dark-red"},
    "strategies": {
        "BroadcastHashJoin": "purple",
        "SortMergeJoin": "orange",
        "SortMergeAsOfJoin": "light-orange",
        "ShuffledHashJoin": "yellow",
        "BroadcastNestedLoopJoin": "red",
        "CartesianProduct": "dark-red",
    },
    "decisions": {
        "join_strategy": "purple",
        "coalesced": "green",
        "skew_split": "orange",
        "local_read": "blue",
        "empty_relation": "gray",
        "dropped_stage": "red",
    },
    "reasons": {"plan_changed": "purple", "data_grew": "blue", "same_plan": "orange"},
    "operators": {"join": "blue", "shuffle": "orange", "broadcast": "purple", "scan": "green", "other": "gray"},
    "shares": {"median": "green", "p95": "orange", "largest": "red"},
    "documents": {"stored": "green", "stale": "gray", "refused": "red"},
    "statuses": {"200": "green", "400": "red", "401": "dark-red", "429": "orange", "503": "dark-orange"},
}
"""What belongs together: names of series or values of cells, and their colours as Grafana's palette calls them."""

COLOURS = {name: colour for group in GROUPS.values() for name, colour in group.items()}
