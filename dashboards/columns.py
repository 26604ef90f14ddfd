"""Columns of tables: titles, units and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grafana_foundation_sdk.models import dashboard as board

from dashboards.links import Link, of_row, to, to_job, to_query
from dashboards.style import GROUPS

Units = Literal[
    "bytes", "Bps", "ms", "s", "short", "none", "percentunit", "dateTimeAsIso", "x", "docs/s", "reqps", "ops"
]  # fmt: skip
UNITS: Mapping[str, str] = {"x": "suffix:×", "docs/s": "suffix:docs/s"}
"""Units that have another name in Grafana."""


@dataclass(frozen=True, slots=True)
class Column:
    """The display of a column. `coloured`: by its value, with this group of `style`."""

    title: str = ""
    unit: Units | None = None
    links: Sequence[Link] = ()
    width: int | None = None
    coloured: str = ""
    bar: bool = False
    is_hidden: bool = False
    wraps: bool = False

    def properties(self) -> list[board.DynamicConfigValue]:
        """The column's field overrides."""
        found: dict[str, Any] = {}
        if self.is_hidden:
            return [board.DynamicConfigValue("custom.hideFrom.viz", True)]
        if self.title:
            found["displayName"] = self.title
        if self.unit:
            found["unit"] = UNITS.get(self.unit, self.unit)
        if self.width:
            found["custom.width"] = self.width
        if self.links:
            found["links"] = list(self.links)
        if self.coloured:
            colours = GROUPS[self.coloured].items()
            named = {name: {"color": colour, "index": i} for i, (name, colour) in enumerate(colours)}
            found["mappings"] = [{"type": "value", "options": named}]
            found["custom.cellOptions"] = {"type": "color-text"}
        if self.bar:
            found["custom.cellOptions"] = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
            found["color"] = {"mode": "fixed", "fixedColor": "blue"}
            found["min"] = 0
            found["fieldMinMax"] = True  # else bars are relative to the largest number of all columns
        if self.wraps:
            found["custom.wrapText"] = True
        return [board.DynamicConfigValue(name, value) for name, value in found.items()]


HIDDEN = Column(is_hidden=True)
KEY = {"application_id": HIDDEN, "attempt_id": HIDDEN, "execution_id": HIDDEN}
"""Hidden columns, which links need."""
RUNS = Column("Runs", "short", width=70)
QUERY = Column("Query", links=[to_query()], width=220)
LAST_RUN = Column("Last run", "dateTimeAsIso", links=[to_query()], width=165)
LAST = {"query": QUERY, "last_run": LAST_RUN, **KEY}
"""The last execution of a group, as `sql.LATEST` names it."""


def of_job(dashboard: str) -> Column:
    """The job, with a link to a dashboard filtered by it."""
    return Column("Job", links=[to_job(dashboard, "Only this job")], width=220)


def of_operator(kind: str, dashboard: str) -> Column:
    """The operator's key, with a link to a dashboard filtered by it."""
    link = to(f"Only this {kind}", dashboard, of_row(job="job_name", operator="operator_key"))
    return Column(kind.capitalize(), links=[link], width=150)
