"""Panels, queries and variables that dashboards share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any, Literal, TypeAlias

from grafana_foundation_sdk.builders import common, nodegraph, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboard
from grafana_foundation_sdk.cog import builder, runtime, variants
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models import dashboard as board
from grafana_foundation_sdk.models import nodegraph as graph_models

from dashboards.columns import UNITS, Column, Units
from dashboards.links import Link
from dashboards.style import COLOURS, GOOD, WARNING

POSTGRESQL = models.DataSourceRef(type_val="grafana-postgresql-datasource", uid="${postgresql}")
PROMETHEUS = models.DataSourceRef(type_val="prometheus", uid="${prometheus}")

Panel = Any
"""A builder of a panel."""


@dataclass(frozen=True, slots=True)
class Built(builder.Builder[Any]):
    """Wraps a finished object as a builder."""

    made: Any

    def build(self) -> Any:
        return self.made


@dataclass(slots=True)
class Sql(builder.Builder[variants.Dataquery]):
    """A query to PostgreSQL. The SDK has no model of this data source's queries."""

    sql: str
    ref: str = "A"
    form: Literal["table", "time_series"] = "table"

    def build(self) -> variants.Dataquery:
        """The query for the data source."""
        return runtime.UnknownDataquery(
            {
                "refId": self.ref,
                "datasource": POSTGRESQL.to_json(),
                "editorMode": "code",
                "rawQuery": True,
                "format": self.form,
                "rawSql": dedent(self.sql).strip(),
            }
        )


def promql(expression: str, legend: str = "__auto", ref: str = "A", *, instant: bool = False) -> prometheus.Dataquery:
    """A query to Prometheus, over the time range or `instant`."""
    query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(ref).datasource(PROMETHEUS)
    return query.instant() if instant else query.range()


Query: TypeAlias = str | Sql | prometheus.Dataquery
"""What a panel asks; a text is SQL."""


def _with(panel: Panel, *queries: Query, form: Literal["table", "time_series"] = "table") -> Panel:
    """The panel with its queries, which are all for one data source."""
    for query in queries:
        panel = panel.with_target(Sql(query, form=form) if isinstance(query, str) else query)
    return panel.datasource(PROMETHEUS if isinstance(queries[0], prometheus.Dataquery) else POSTGRESQL)


def number(
    title: str,
    description: str,
    query: Query,
    unit: Units = "short",
    *,
    levels: Mapping[float, str] | None = None,
    links: Sequence[Link] = (),
    span: int = 4,
) -> Panel:
    """A panel with one number. `levels`: colours by minimum value; without any, the number is neutral."""
    steps = [board.Threshold(None, GOOD if levels else "text")]
    steps += [board.Threshold(value, colour) for value, colour in (levels or {}).items()]
    return (
        _with(stat.Panel(), query)
        .title(title)
        .description(description)
        .unit(UNITS.get(unit, unit))
        .thresholds(dashboard.ThresholdsConfig().mode(board.ThresholdsMode.ABSOLUTE).steps(steps))
        .color_scheme(dashboard.FieldColor().mode(board.FieldColorModeId.THRESHOLDS))
        .color_mode(models.BigValueColorMode.VALUE)
        .graph_mode(models.BigValueGraphMode.NONE)
        .text_mode(models.BigValueTextMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .no_value("–")
        .data_links([Built(link) for link in links])
        .height(4)
        .span(span)
    )


def rows(
    title: str, description: str, query: Query, columns: Mapping[str, Column], *, span: int = 24, height: int = 9
) -> Panel:
    """A table; the columns have the names of the query's."""
    panel = (
        _with(table.Panel(), query)
        .title(title)
        .description(description)
        .cell_height(models.TableCellHeight.SM)
        .no_value("–")
        .height(height)
        .span(span)
    )
    for name, column in columns.items():
        panel = panel.override_by_name(name, column.properties())
    made = panel.build()
    made.options.footer = None  # the SDK's default, which Grafana no longer supports
    return Built(made)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The style of a time series. `named`: series with their own colours, see `style.COLOURS`.

    `limit`: a value from which on there is a finding, drawn as a dashed line.
    """

    bars: bool = True
    stacked: bool = True
    named: Sequence[str] = field(default_factory=tuple)
    links: Sequence[Link] = ()
    interval: str = "5m"
    limit: float | None = None


BARS = Drawn()


def series(
    title: str,
    description: str,
    queries: Query | Sequence[Query],
    unit: Units,
    drawn: Drawn = BARS,
    *,
    span: int = 12,
    height: int = 8,
) -> Panel:
    """Values over time: bars for counts per interval, or lines."""
    queries = [queries] if isinstance(queries, Query) else queries
    panel = (
        _with(timeseries.Panel(), *queries, form="time_series")
        .title(title)
        .description(description)
        .unit(UNITS.get(unit, unit))
        .min(0)
        .draw_style(models.GraphDrawStyle.BARS if drawn.bars else models.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(70 if drawn.bars else 8)
        .show_points(models.VisibilityMode.AUTO)
        .span_nulls(not drawn.bars)
        .stacking(
            common.StackingConfig().mode(models.StackingMode.NORMAL if drawn.stacked else models.StackingMode.NONE)
        )
        .legend(
            common.VizLegendOptions()
            .display_mode(models.LegendDisplayMode.LIST)
            .placement(models.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI).sort(models.SortOrder.DESCENDING))
        .data_links([Built(link) for link in drawn.links])
        .interval(drawn.interval)
        .max_data_points(120 if drawn.bars else 400)
        .height(height)
        .span(span)
    )
    if drawn.limit is not None:
        steps = [board.Threshold(None, "text"), board.Threshold(drawn.limit, WARNING)]
        dashed = common.GraphThresholdsStyleConfig().mode(models.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(dashboard.ThresholdsConfig().mode(board.ThresholdsMode.ABSOLUTE).steps(steps))
        panel = panel.thresholds_style(dashed)
    for name in drawn.named:
        fixed = {"mode": "fixed", "fixedColor": COLOURS[name]}
        panel = panel.override_by_name(name, [board.DynamicConfigValue("color", fixed)])
    return panel


def graph(
    title: str,
    description: str,
    frames: tuple[Sql, Sql],
    kinds: Sequence[str],
    details: Mapping[str, str],
    links: Sequence[Link],
) -> Panel:
    """A node graph of nodes and edges.

    Each kind is an arc, a whole circle where it is 1, so that the legend names the colours.
    """
    arcs = [graph_models.ArcOption(f"arc__{kind}", COLOURS[kind]) for kind in kinds]
    panel = (
        nodegraph.Panel()
        .title(title)
        .description(description)
        .datasource(POSTGRESQL)
        .targets(list(frames))
        .nodes(nodegraph.NodeOptions().arcs([Built(arc) for arc in arcs]))
        .zoom_mode(graph_models.ZoomMode.COOPERATIVE)
        .override_by_name("id", [board.DynamicConfigValue("links", list(links))])
        .height(20)
        .span(24)
    )
    for name, shown in details.items():
        panel = panel.override_by_name(f"detail__{name}", [board.DynamicConfigValue("displayName", shown)])
    for kind in kinds:
        properties = [
            board.DynamicConfigValue("displayName", kind),
            board.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": COLOURS[kind]}),
        ]
        panel = panel.override_by_name(f"arc__{kind}", properties)
    return panel
