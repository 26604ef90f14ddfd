"""Every SQL query of the dashboards runs as a reader on a generated history and returns what its panel needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Engine
from tests.cookbook.planted import LONG_AGO
from tests.dashboards.grafana import (
    ALL,
    SQL,
    Json,
    Value,
    annotations_of,
    dashboards,
    last,
    sql,
    targets,
    values_of,
    variables,
)
from tests.documents import application, planned
from tests.findings.planted import PLANTED
from tests.findings.recorded import SMALL, recordings
from tests.history import END, Planted

from joinsight.contract.document import Document, Listener
from joinsight.findings import FindingsEngine
from joinsight.store.grants import grant_reader
from joinsight.store.writer import Writer
from joinsight.timing.cost_kinds import KINDS

SHOWN = last(14, END + timedelta(days=1))
"""What is worse is so against the time before. The last day is that of what `tests/findings` has recorded."""
MOST_NODES = 1500
READER = "dashboards_reader"
Rows = list[tuple[Any, ...]]
QUERIES = {f"{d['uid']}/{p['title']}/{t['refId']}": (d, p, t) for d, p, t in targets(SQL)}
ANNOTATIONS = {
    f"{uid}/{each['name']}": (page, each) for uid, page in dashboards().items() for each in annotations_of(page)
}
DEPLOYED = [
    application(
        application_id=f"deployed-{number}",
        job_name="flip",
        application_name=name,
        listener=Listener(f"deployed-{number}", "1.0.0", version),
        started_at_ms=round((END - timedelta(days=9 - number)).timestamp() * 1000),
    )
    for number, (name, version) in enumerate(
        [
            ("nightly 2026-11-01", "3.5.1"),
            ("nightly 2026-11-02", "3.5.1"),
            ("nightly 2026-11-03", "4.0.0"),
            ("<b>hourly & new</b>", "4.0.0"),
        ]
    )
]
"""Applications of one job: only the date in the name differs, then the version of Spark, then the name."""
CAUSES = """
    INSERT INTO cause (started_at, application_id, attempt_id, execution_id, code, wall_ms, task_ms, compared_with)
    SELECT started_at, application_id, attempt_id, execution_id, code, 1000, 2000, ''
    FROM (SELECT * FROM execution WHERE started_at < %s AND job_name = 'flip' ORDER BY started_at DESC LIMIT 3) AS slow
    CROSS JOIN (VALUES ('data'), ('not_explained'), ('normal')) AS causes(code)
"""
"""Why some runs took longer, as collectors store it."""
ALARMS = """
    INSERT INTO alarm (job_name, query_shape, origin, measure, raised_at, title, since, before, after, runs,
        evidence_weeks, kind, application_id, attempt_id, execution_id, causes)
    SELECT job_name, query_shape, origin, measure, started_at, title, started_at, 0.5, 1, 5, 5000, 'same_plan',
        application_id, attempt_id, execution_id, '[{"code": "data"}]'
    FROM (SELECT * FROM execution WHERE started_at < %s AND job_name = 'flip' ORDER BY started_at DESC LIMIT 1) AS slow
    CROSS JOIN (VALUES ('duration_ms'), ('failed')) AS measures(measure)
"""
FORECASTS = """
    INSERT INTO forecast (job_name, origin, kind, operator_key, query_shape, title, current, limit_value, days,
        growth_a_day, reaches_at, earliest_at, started_at, application_id, attempt_id, execution_id, node_id,
        first_forecast_at, computed_at)
    SELECT job_name, origin, kind, 'key', query_shape, title, 1500, 2001, 10, 0.01, started_at, started_at, started_at,
        application_id, attempt_id, execution_id, 1, started_at, started_at
    FROM (SELECT * FROM execution WHERE started_at < %s AND job_name = 'flip' ORDER BY started_at DESC LIMIT 1) AS last
    CROSS JOIN (VALUES ('broadcast_threshold'), ('shuffle_partitions')) AS kinds(kind)
"""
"""Certain regressions and forecasts, likewise."""
EVERYTHING: dict[str, Value] = {"job": ALL}
KEY = "USING (started_at, application_id, attempt_id, execution_id)"
RECORDED = ("skewed-split", "broadcast-too-large", "replanned-late", "spill", "replanned-empty")
"""Executions of `tests/findings` that the dashboard of one execution is asked about, beside the newest of all."""


@pytest.fixture(scope="module")
def engine(planted_engine: Engine) -> Engine:
    """A database with a history that has everything the dashboards show."""
    recorded = (msgspec.structs.replace(each, call_site="collect at /jobs/shop.py:7") for each in recordings().values())
    documents: list[Document] = [*recorded, *DEPLOYED]
    assert Writer(planted_engine, findings=FindingsEngine(SMALL, PLANTED)).write(documents).refused == []
    with planted_engine.begin() as connection:
        for each in (CAUSES, ALARMS, FORECASTS):
            connection.exec_driver_sql(each, (SHOWN.end,))
    return planted_engine


@pytest.fixture(scope="module")
def connection(engine: Engine) -> Iterator[Connection]:
    """The connection of a read-only role to that history."""
    grant_reader(engine, READER)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE")
            connection.commit()
            connection.exec_driver_sql(f"SET ROLE {READER}")
            connection.exec_driver_sql("SET enable_partitionwise_join = on")  # as this role has it when it logs in
            connection.exec_driver_sql("SET default_transaction_read_only = on")
            connection.commit()
            yield connection
            connection.rollback()
            connection.exec_driver_sql("RESET ROLE")
            connection.exec_driver_sql("RESET ALL")
            connection.commit()
    finally:
        with engine.begin() as owner:
            owner.exec_driver_sql(f"DROP OWNED BY {READER}")
            owner.exec_driver_sql(f"DROP ROLE {READER}")


def ask(connection: Connection, query: str) -> tuple[list[str], Rows]:
    """Names of the columns, and rows."""
    result = connection.exec_driver_sql(query.replace("%", "%%"))
    return list(result.keys()), [tuple(row) for row in result]


def is_number(value: Any) -> bool:
    """One that needs no conversion: `numeric` goes through text in Grafana's data source."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_stat(panel: Json, names: list[str], rows: Rows) -> None:
    """One number. Or none where nothing was measured: the panel then shows its dash."""
    assert len(rows) == 1 and len(names) == 1
    assert rows[0][0] is None or is_number(rows[0][0])


def check_series(panel: Json, names: list[str], rows: Rows) -> None:
    """A rising time, the name of the series perhaps, and numbers."""
    assert names[0] == "time"
    times = [row[0] for row in rows]
    assert all(isinstance(each, Decimal) for each in times), "$__timeGroup makes seconds"
    assert all(a <= b for a, b in pairwise(times))
    if "metric" in names:  # only then does Grafana name the series by it alone
        assert names[1] == "metric" and len(names) == 3
        assert all(isinstance(row[1], str) for row in rows)
        assert len({row[:2] for row in rows}) == len(rows)
    else:
        assert len(set(times)) == len(times)
    numbers = [value for row in rows for value in row[2 if "metric" in names else 1 :]]
    assert all(value is None or is_number(value) for value in numbers)
    assert any(value is not None for value in numbers)


def overrides_of(panel: Json) -> dict[str, Json]:
    """Properties by column."""
    found = panel["fieldConfig"]["overrides"]
    return {each["matcher"]["options"]: {p["id"]: p["value"] for p in each["properties"]} for each in found}


def check_table(panel: Json, names: list[str], rows: Rows) -> None:
    """Each column that has a name for people and, if it is a number or a time, a unit; none is spoken of in vain."""
    overrides = overrides_of(panel)
    assert set(overrides) == set(names) and len(set(names)) == len(names)
    for position, name in enumerate(names):
        found = [row[position] for row in rows if row[position] is not None]
        if name == "dashboard":  # a link leads there
            assert {f"joinsight-{each}" for each in found} <= set(dashboards())
        if overrides[name].get("custom.hideFrom.viz"):
            continue
        assert overrides[name]["displayName"]
        assert all(isinstance(each, str | int | float | datetime) for each in found), name
        assert any(each != "" for each in found), f"{name} is empty in every row"
        if is_number(found[0]) or isinstance(found[0], datetime):
            assert overrides[name].get("unit"), name


def check_nodes(panel: Json, names: list[str], rows: Rows) -> None:
    """What Grafana reads of nodes, with coordinates for all or none, and arcs that make a whole circle."""
    assert {"id", "title", "subtitle", "mainstat", "secondarystat", "noderadius", "fixedx", "fixedy"} <= set(names)
    assert 0 < len(rows) <= MOST_NODES
    nodes = [dict(zip(names, row, strict=True)) for row in rows]
    assert all(None not in row for row in rows)
    assert len({node["id"] for node in nodes}) == len(nodes)
    assert len({(node["fixedx"], node["fixedy"]) for node in nodes}) == len(nodes), "one hides another"
    assert all(sum(value for name, value in node.items() if name.startswith("arc__")) == 1 for node in nodes)
    arcs = {each["field"] for each in panel["options"]["nodes"]["arcs"]}
    assert arcs == {name for name in names if name.startswith("arc__")}
    overrides = overrides_of(panel)
    assert set(overrides) <= set(names)
    assert all("displayName" in overrides[name] for name in names if "__" in name)


def check_edges(panel: Json, names: list[str], rows: Rows) -> None:
    """What Grafana reads of edges."""
    assert {"id", "source", "target", "mainstat", "thickness"} <= set(names)
    assert len({row[names.index("id")] for row in rows}) == len(rows)
    assert all(1 <= row[names.index("thickness")] <= 8 for row in rows)


CHECKS: Mapping[str, Callable[[Json, list[str], Rows], None]] = {
    "stat": check_stat,
    "timeseries": check_series,
    "table": check_table,
    "nodes": check_nodes,
    "edges": check_edges,
}


def key_of(name: str) -> dict[str, Value]:
    """The variables that name a recorded execution."""
    execution = recordings()[name]
    return {"application_id": execution.application_id, "execution_id": str(execution.execution_id)}


def choices(dashboard: Json) -> list[dict[str, Value]]:
    """What the variables are set to, one after the other."""
    if "execution_id" not in variables(dashboard):
        return [EVERYTHING]
    keys = [(each.application_id, str(each.execution_id)) for name in RECORDED for each in [recordings()[name]]]
    return [
        EVERYTHING,
        {"job": "partial/a"},
        *({**EVERYTHING, "application_id": a, "execution_id": e} for a, e in keys),
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_each_panel_has_rows_and_reads_no_other_month(name: str, connection: Connection) -> None:
    """There are rows, of the shape that the panel needs, and no other month is read for them."""
    dashboard, panel, target = QUERIES[name]
    check = CHECKS[target["refId"] if panel["type"] == "nodeGraph" else panel["type"]]
    assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
    several = []
    for chosen in choices(dashboard):
        query = sql(target["rawSql"], dashboard, panel, values_of(dashboard, chosen), SHOWN)
        # Without its limit, for rare things are not among the first
        names, rows = ask(connection, re.sub(r"\bLIMIT \d+(?=$|\) AS first)", "", query))
        several += rows
        if panel["type"] != "table":
            check(panel, names, rows)
        plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + query.replace("%", "%%")))
        assert LONG_AGO not in plan
    if panel["type"] == "table":  # what one execution lacks another has
        check(panel, names, several)


TEAM: Mapping[str, Value] = {**EVERYTHING, "tag": "team", "tag_value": ["by hand", "by nobody"]}
NOBODY: Mapping[str, Value] = {**EVERYTHING, "tag": "team", "tag_value": "by nobody"}


@pytest.mark.parametrize("name", QUERIES)
def test_a_tag_limits_every_panel(name: str, connection: Connection) -> None:
    """With a value that no application has, nothing is found or counted; no other month is read with a value."""
    dashboard, panel, target = QUERIES[name]
    query = sql(target["rawSql"], dashboard, panel, values_of(dashboard, NOBODY), SHOWN)
    _, rows = ask(connection, query)
    assert rows == [] or (panel["type"] == "stat" and rows[0][0] in (None, 0))
    plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + query.replace("%", "%%")))
    assert LONG_AGO not in plan
    everything = sql(target["rawSql"], dashboard, panel, values_of(dashboard, EVERYTHING), SHOWN)
    plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + everything.replace("%", "%%")))
    assert "tags ->>" not in plan, "all values cost nothing"


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations_have_a_time_and_a_text(name: str, connection: Connection) -> None:
    """They have a time and a text, in which only the link is HTML; tags and time limit what is read."""
    dashboard, annotation = ANNOTATIONS[name]
    several = []
    flip: dict[str, Value] = {"job": "flip"}
    for chosen in [*choices(dashboard), flip]:
        query = sql(annotation["target"]["rawSql"], dashboard, {}, values_of(dashboard, chosen), SHOWN)
        names, rows = ask(connection, query)
        assert names == ["time", "text", "tags"] and len(rows) <= 100
        plan = "\n".join(row[0] for row in connection.exec_driver_sql("EXPLAIN " + query.replace("%", "%%")))
        assert LONG_AGO not in plan
        several += rows
    assert several
    for at, text, tag in several:
        assert SHOWN.start <= at <= SHOWN.end and tag
        plain, _, link = text.partition("<br>")
        assert plain and "<" not in plain
        assert ("deployment" in tag) == (link == "")
        if link:
            where = r"http://127.0.0.1:9595/executions/[\w.-]+/(?:[\w.-]+/)?\d+"
            to_query = (
                r"/d/joinsight-query\?from=\d{13}&amp;to=\d{13}&amp;var-postgresql=[\w-]+&amp;var-application_id=\S+"
            )
            assert re.fullmatch(rf'<a href="(?:{where}|{to_query})">[^<]+</a>', link), link
    query = sql(annotation["target"]["rawSql"], dashboard, {}, values_of(dashboard, NOBODY), SHOWN)
    assert ask(connection, query)[1] == []


def test_what_annotations_tell(connection: Connection) -> None:
    """Changes of Spark and of an application's name but for its date; a plan that differs from the one before."""
    dashboard = dashboards()["joinsight-overview"]
    told = {}
    for each in annotations_of(dashboard):
        query = sql(each["target"]["rawSql"], dashboard, {}, values_of(dashboard, {"job": "flip"}), SHOWN)
        told[each["name"]] = [row[1].partition("<br>")[0] for row in ask(connection, query)[1]]
    assert told["Deployments"][:2] == [
        "flip: application &lt;b&gt;hourly &amp; new&lt;/b&gt;, before nightly 2026-11-03",
        "flip: Spark 4.0.0, before 3.5.1",
    ]
    assert not any("2026-11-02" in each for each in told["Deployments"])
    (change,) = told["Plan changes"]
    assert re.fullmatch(r"flip: .+: plan [0-9a-f]{8}, before [0-9a-f]{8}", change)
    assert told["Failures"] == []


def test_a_tag_selects_its_runs(connection: Connection) -> None:
    """Executions, findings and regressions of the chosen teams, and no others."""
    tagged = "tags ->> 'team' IN ('by hand', 'by nobody')"
    here = f"WHERE started_at BETWEEN '{SHOWN.start}' AND '{SHOWN.end}' AND {tagged}"
    for panel, expected in (
        ("overview/Jobs", f"SELECT DISTINCT job_name FROM execution {here}"),
        (
            "shuffles/Which shuffles cost most?",
            f"SELECT DISTINCT job_name FROM v_shuffles {here} AND bytes_written > 0",
        ),
        ("joins/Joins by strategy", f"SELECT DISTINCT strategy FROM v_joins {here}"),
        ("overview/Findings", f"SELECT DISTINCT job_name FROM finding JOIN execution {KEY} {here}"),
    ):
        dashboard, shown, target = QUERIES[f"joinsight-{panel}/A"]
        names, rows = ask(connection, sql(target["rawSql"], dashboard, shown, values_of(dashboard, TEAM), SHOWN))
        column = names.index("job_name" if "job_name" in names else "metric")
        wanted = {row[0] for row in connection.exec_driver_sql(expected)}
        assert {row[column] for row in rows} == wanted != set(), panel


def test_every_kind_of_work_has_costs(connection: Connection) -> None:
    """By week, by job and in numbers; of waiting and the driver, which run no tasks, the wall time."""

    def shown(panel: str) -> tuple[list[str], Rows]:
        dashboard, drawn, target = QUERIES[f"joinsight-cost/{panel}/A"]
        values = values_of(dashboard, {**EVERYTHING, "price": "0.05"})
        return ask(connection, sql(target["rawSql"], dashboard, drawn, values, SHOWN))

    for panel, missing in (
        ("Core-hours by week", {"nested", "waiting", "driver"}),
        ("Hours of waiting by week", {"nested"}),
    ):
        _, rows = shown(panel)
        assert {kind for _, kind, hours in rows if hours > 0} == set(KINDS) - missing
    names, rows = shown("What does each job cost by week?")
    hours = [name for name in names if name.endswith("hours")]
    assert hours == [name for name in hours if any(row[names.index(name)] for row in rows)]
    for number in ("Core-hours", "Price", "Core-hours of joins, shuffles, broadcasts", "Hours waiting for slots"):
        assert shown(number)[1][0][0] > 0

    here = f"FROM v_costs WHERE started_at BETWEEN '{SHOWN.start}' AND '{SHOWN.end}' AND kind <> 'nested'"
    for of, panel in (("task", "Core-hours by week"), ("wall", "Hours of waiting by week")):
        by_week = connection.exec_driver_sql(
            f"SELECT extract(epoch FROM date_trunc('week', started_at)), kind, sum({of}_ms) / 3600000.0 {here}"
            f" AND {of}_ms > 0 GROUP BY 1, 2 ORDER BY 1, 2"
        ).all()
        assert [(*row[:2], pytest.approx(float(row[2]))) for row in by_week] == [tuple(row) for row in shown(panel)[1]]
    by_job = connection.exec_driver_sql(
        "SELECT date_trunc('week', started_at), job_name, count(DISTINCT (application_id, attempt_id, execution_id)),"
        f" sum(task_ms) / 3600000.0 {here} GROUP BY 1, 2 ORDER BY 4 DESC NULLS LAST, 1, 2 LIMIT 200"
    ).all()
    found = [tuple(row[names.index(name)] for name in ("week", "job_name", "runs", "core_hours")) for row in rows]
    assert found == [(*row[:3], row[3] and pytest.approx(float(row[3]))) for row in by_job]


def test_tags_can_be_chosen(connection: Connection) -> None:
    """Their keys and values are those of applications that ran in the time range."""
    dashboard = dashboards()["joinsight-overview"]
    known = variables(dashboard)
    for name, least in (("tag", "team"), ("tag_value", "by hand")):
        _, rows = ask(connection, sql(known[name]["query"], dashboard, {}, values_of(dashboard, EVERYTHING), SHOWN))
        assert (least,) in rows


def frames(connection: Connection, chosen: Mapping[str, Value]) -> tuple[list[Json], list[Json]]:
    """Nodes and edges of an execution's node graph."""
    found = []
    for ref in ("nodes", "edges"):
        dashboard, panel, target = QUERIES[f"joinsight-query/Plan/{ref}"]
        values = values_of(dashboard, {**EVERYTHING, **chosen})
        names, rows = ask(connection, sql(target["rawSql"], dashboard, panel, values, SHOWN))
        CHECKS[ref](panel, names, rows)
        found.append([dict(zip(names, row, strict=True)) for row in rows])
    return found[0], found[1]


def check_drawing(nodes: list[Json], edges: list[Json]) -> None:
    """No edge hangs in the air, each node but the result flows somewhere, and up."""
    by_id = {node["id"]: node for node in nodes}
    assert all(edge["source"] in by_id and edge["target"] in by_id for edge in edges)
    assert {edge["source"] for edge in edges} == set(by_id) - {min(by_id, key=lambda each: by_id[each]["fixedy"])}
    first = {edge["source"]: edge["target"] for edge in reversed(edges)}  # a later one is of another reader
    assert all(by_id[source]["fixedy"] > by_id[target]["fixedy"] for source, target in first.items())


@pytest.mark.parametrize("name", RECORDED)
def test_the_plan_is_a_tree_that_stands(name: str, connection: Connection) -> None:
    """Operators stand below the one that reads them; a join's left input is on its left."""
    nodes, edges = frames(connection, key_of(name))
    check_drawing(nodes, edges)
    place = {node["id"]: node["fixedx"] for node in nodes}
    for join in (node["id"] for node in nodes if node["arc__join"]):
        left, right = (edge["source"] for edge in edges if edge["target"] == join)
        assert place[left] < place[join] < place[right]


def test_a_plan_that_is_too_large_for_grafana(engine: Engine, connection: Connection) -> None:
    """With 2,000 nodes, in branches and a chain that is 900 deep, only the upper ones are shown, quickly."""
    branches = "\n".join(f"  Union | {i}\n    Exchange | hashpartitioning(k#1, 8), [plan_id={i}]" for i in range(550))
    chain = "\n".join(f"{'  ' * (i + 1)}Project | [k#{i}]" for i in range(900))
    large = planned(f"Union | all\n{branches}\n{chain}", application_id="large", job_name="large",
                    started_at_ms=round(END.timestamp() * 1000))  # fmt: skip
    assert Writer(engine).write([large]).refused == []
    nodes, edges = frames(connection, {"application_id": "large"})  # visiting each path twice would never end
    assert len(nodes) == MOST_NODES
    check_drawing(nodes, edges)


def test_the_regressions_are_those_that_were_planted(connection: Connection, planted: tuple[str, Planted]) -> None:
    """A query that became slow of its own, one whose plan changed and one whose data grew, each with the reason."""
    dashboard, panel, target = QUERIES["joinsight-history/What has regressed?/A"]
    names, rows = ask(connection, sql(target["rawSql"], dashboard, panel, values_of(dashboard, EVERYTHING), SHOWN))
    found = {(row["query_shape"], row["kind"]) for each in rows for row in [dict(zip(names, each, strict=True))]}
    for event, kind in (("slower", "same_plan"), ("plan_changed", "plan_changed"), ("data_grew", "data_grew")):
        assert (planted[1].of(event).query_shape, kind) in found
