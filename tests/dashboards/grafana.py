"""How Grafana prepares a dashboard's queries for PostgreSQL: first variables, then macros.

Written after Grafana 12's templateSrv, `packages/grafana-sql` and `pkg/tsdb/grafana-postgresql-datasource`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "dashboards" / "grafana"
Json = dict[str, Any]
Value = str | Sequence[str]
ALL = "$__all"
SQL, PROMETHEUS = "grafana-postgresql-datasource", "prometheus"
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?:\.[^:}]+)?(?::([^}]+))?\}|\[\[(\w+?)(?::(\w+))?\]\]")
_MACRO = re.compile(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_ROUND = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800)


def dashboards() -> dict[str, Json]:
    """The committed dashboards by uid."""
    found = (json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json")))
    return {each["uid"]: each for each in found}


def panels(dashboard: Json) -> list[Json]:
    """All panels except rows, including those in collapsed rows."""
    found: list[Json] = []
    for panel in dashboard["panels"]:
        found += panel["panels"] if panel["type"] == "row" else [panel]
    return found


def variables(dashboard: Json) -> dict[str, Json]:
    """A dashboard's variables by name."""
    return {each["name"]: each for each in dashboard["templating"]["list"]}


def values_of(dashboard: Json, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """What each variable has: its choice, else what it begins with."""
    found: dict[str, Value] = {}
    for name, each in variables(dashboard).items():
        found[name] = chosen.get(name, each.get("current", {}).get("value", each.get("query", "")))
    return found


def annotations_of(dashboard: Json) -> list[Json]:
    """A dashboard's annotations."""
    return list(dashboard.get("annotations", {}).get("list", ()))


def targets(kind: str) -> Iterator[tuple[Json, Json, Json]]:
    """The dashboard, panel and query of each query to a type of data source."""
    for dashboard in dashboards().values():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                if target["datasource"]["type"] == kind:
                    yield dashboard, panel, target


@dataclass(frozen=True)
class Range:
    """The time that a dashboard shows."""

    start: datetime
    end: datetime

    def interval(self, panel: Json) -> str:
        """A panel's interval: the range divided by its points, rounded as Grafana does, at least the minimum."""
        width = (self.end - self.start).total_seconds() / panel.get("maxDataPoints", 1000)
        least = seconds(panel.get("interval", "1s"))
        chosen = max(least, next(each for each in _ROUND if each >= width))
        return next(f"{chosen // size}{unit}" for unit, size in reversed(_SECONDS.items()) if chosen % size == 0)


def seconds(interval: str) -> int:
    """The seconds in a duration such as 5m."""
    return int(interval[:-1]) * _SECONDS[interval[-1]]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _formatted(value: Value, definition: Json, form: str | None) -> str:
    several = [value] if isinstance(value, str) else list(value)
    if value == ALL and definition.get("allValue"):
        return str(definition["allValue"])  # as it is, whatever the format
    if form == "sqlstring":
        return ",".join(_quoted(each) for each in several)
    if form == "csv" or form == "raw":
        return ",".join(several)
    if form == "regex":
        escaped = [re.escape(each) for each in several]
        return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
    assert form is None, f"this test does not know the format {form}"
    if definition["type"] in ("query", "custom") and (definition.get("multi") or definition.get("includeAll")):
        return ",".join(_quoted(each) for each in several)
    return several[0].replace("'", "''")


def interpolate(text: str, dashboard: Json, values: Mapping[str, Value]) -> str:
    """Replace the dashboard's variables; other text stays."""
    known = variables(dashboard)

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[4]
        if name not in known:
            return found[0]
        return _formatted(values[name], known[name], found[3] or found[5])

    return _VARIABLE.sub(value, text)


def sql(query: str, dashboard: Json, panel: Json, values: Mapping[str, Value], shown: Range) -> str:
    """The query that PostgreSQL gets."""
    interval = shown.interval(panel)
    query = interpolate(query, dashboard, values)
    query = query.replace("$__interval_ms", str(1000 * seconds(interval))).replace("$__interval", interval)

    def macro(found: re.Match[str]) -> str:
        name, arguments = found[1], [each.strip() for each in found[2].split(",")]
        start, end = (_quoted(_rfc3339(each)) for each in (shown.start, shown.end))
        if name == "__timeFilter":
            return f"{arguments[0]} BETWEEN {start} AND {end}"
        if name == "__timeFrom":
            return start
        if name == "__timeTo":
            return end
        assert name == "__timeGroup", f"this test does not know the macro {name}"
        assert query[found.end()] != ",", "Grafana would take this for $__timeGroupAlias"
        size = seconds(arguments[1].strip("'"))
        return f"floor(extract(epoch from {arguments[0]})/{size})*{size}"

    query = _MACRO.sub(macro, query)
    assert "$" not in query, query
    return query


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def last(days: float, end: datetime) -> Range:
    """The range of this length that ends at a time."""
    return Range(end - timedelta(days=days), end)
