"""Builds a dashboard: variables, rows of panels, and links to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.models import dashboard as board

from dashboards.parts import POSTGRESQL, Built, Panel, dashboard

Variable = Any
"""A builder of a variable."""
_OTHERS = board.DashboardLink("Joinsight", board.DashboardLinkType.DASHBOARDS, tags=["joinsight"])
_OTHERS.include_vars = _OTHERS.keep_time = True
_OTHERS.placement = None  # else Grafana hides them in a menu
_JOBS = "SELECT DISTINCT job_name FROM execution WHERE $__timeFilter(started_at) ORDER BY job_name"
_RAN = "started_at <= $__timeTo() AND coalesce(ended_at, 'infinity') >= $__timeFrom()"
_TAGS = f"SELECT DISTINCT jsonb_object_keys(tags) AS tag FROM application WHERE {_RAN} ORDER BY tag LIMIT 1000"
_TAG_VALUES = (
    f"SELECT DISTINCT tags ->> ${{tag:sqlstring}} AS value FROM application WHERE {_RAN}"
    " AND tags ->> ${tag:sqlstring} IS NOT NULL ORDER BY value LIMIT 1000"
)


def postgresql() -> Variable:
    """The variable for the PostgreSQL data source."""
    return (
        dashboard.DatasourceVariable("postgresql")
        .label("PostgreSQL")
        .description("The data source with Joinsight's tables")
        .type("grafana-postgresql-datasource")
    )


def job() -> Variable:
    """The variable for the jobs to show; all by default."""
    everything = board.VariableOption(True, "All", "$__all")
    return (
        dashboard.QueryVariable("job")
        .label("Job")
        .description("spark.joinsight.jobName, else the application's name")
        .datasource(POSTGRESQL)
        .query(_JOBS)
        .refresh(board.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value("job_name")
        .current(everything)
    )


def tags() -> tuple[Variable, Variable]:
    """The variables for a tag and its values; all by default, and what has no such tag."""
    tag = (
        dashboard.QueryVariable("tag")
        .label("Tag")
        .description("A tag of applications, spark.joinsight.tag.*; Tag value selects by it")
        .datasource(POSTGRESQL)
        .query(_TAGS)
        .refresh(board.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .current(board.VariableOption(True, "team", "team"))
    )
    value = (
        dashboard.QueryVariable("tag_value")
        .label("Tag value")
        .description("Values of the tag to show. All: also what does not have the tag")
        .datasource(POSTGRESQL)
        .query(_TAG_VALUES)
        .refresh(board.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value("''")
        .current(board.VariableOption(True, "All", "$__all"))
    )
    return tag, value


def text_variable(name: str, label: str, description: str, value: str = "") -> Variable:
    """A text variable, which links set."""
    return dashboard.TextBoxVariable(name).label(label).description(description).default_value(value)


def page(
    name: str,
    title: str,
    description: str,
    variables: Sequence[Variable],
    rows: Sequence[tuple[str, Sequence[Panel]]],
    *,
    annotations: Sequence[board.AnnotationQuery] = (),
    time: str = "now-7d",
    refresh: str = "",
) -> dashboard.Dashboard:
    """A dashboard with the uid joinsight-`name`; `rows` are titles with their panels."""
    found = (
        dashboard.Dashboard(title)
        .uid(f"joinsight-{name}")
        .description(description)
        .tags(["joinsight"])
        .readonly()
        .time(time, "now")
        .timezone("browser")
        .refresh(refresh)
        .tooltip(board.DashboardCursorSync.CROSSHAIR)
        .link(Built(_OTHERS))
        .annotations([Built(each) for each in annotations])
    )
    for variable in variables:
        built = variable.build()
        built.auto = built.auto_count = built.auto_min = (
            None  # fields of interval variables only, which the SDK sets on all
        )
        found = found.with_variable(variable)
    number = 0
    for heading, panels in rows:
        number += 1
        found = found.with_row(dashboard.Row(heading).id(number))
        for panel in panels:
            number += 1
            built = panel.build()
            built.id_val = number
            found = found.with_panel(panel)
    return found
