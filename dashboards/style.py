"""Colours: the same colour for the same meaning on every dashboard."""

from __future__ import annotations

from joinsight.plan.decisions import KINDS
from joinsight.plan.operators import JOIN_STRATEGIES

GOOD, WARNING, BAD = "green", "orange", "red"

GROUPS = {
    "states": {
        "succeeded": "green",
        "failed": "red",
        "cancelled": "light-orange",
        "lost": "dark-red",
        "running": "blue",
        "unknown": "gray",
        "pending": "gray",
        "skipped": "gray",
    },
    "severities": {"info": "blue", "warning": "orange", "critical": "red"},
    "costs": {"shuffle written": "orange", "broadcast": "purple", "spilled to disk": "red", "read by tasks": "green"},
    "phases": {"collect": "light-purple", "build": "purple", "send": "dark-purple"},
    "tasks": {"write": "orange", "wait": "dark-red"},
    "strategies": dict(
        zip(JOIN_STRATEGIES, ("purple", "orange", "light-orange", "yellow", "red", "dark-red"), strict=True)
    ),
    "decisions": {kind.name: kind.colour for kind in KINDS.values()},
    "reasons": {"plan_changed": "purple", "data_grew": "blue", "same_plan": "orange"},
    "operators": {"join": "blue", "shuffle": "orange", "broadcast": "purple", "scan": "green", "other": "gray"},
    "kinds": {
        "sort": "yellow",
        "aggregate": "light-blue",
        "python": "dark-yellow",
        "shared": "light-green",
        "waiting": "red",
        "driver": "dark-purple",
    },
    "shares": {"median": "green", "p95": "orange", "largest": "red"},
    "documents": {"stored": "green", "stale": "gray", "refused": "red"},
    "statuses": {"200": "green", "400": "red", "401": "dark-red", "429": "orange", "503": "dark-orange"},
}
"""Groups of series names or cell values, with colours from Grafana's palette."""

ANNOTATIONS = {"Failures": "red", "Plan changes": "purple", "Deployments": "blue"}

COLOURS = {name: colour for group in GROUPS.values() for name, colour in group.items()}
