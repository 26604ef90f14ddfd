"""Rules for all dashboards: those of Grafana's dashboard linter, and ours."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from dashboards import GRAFANA
from dashboards.limits import LIMITS, NEAR_MAX_BYTES
from dashboards.style import ANNOTATIONS
from tests.dashboards.grafana import (
    FOLDER,
    PROMETHEUS,
    SQL,
    Json,
    annotations_of,
    dashboards,
    panels,
    targets,
    variables,
)

from joinsight import pages

PAGES = dashboards()
SOURCES = {SQL: "${postgresql}", PROMETHEUS: "${prometheus}"}
EVERY_QUERY = [*targets(SQL), *targets(PROMETHEUS)]


def links(dashboard: Json) -> Iterator[Json]:
    """All data links, of panels and of columns."""
    for panel in panels(dashboard):
        yield from panel["fieldConfig"]["defaults"].get("links", [])
        for override in panel["fieldConfig"]["overrides"]:
            for each in override["properties"]:
                yield from each["value"] if each["id"] == "links" else []


def test_there_are_eight() -> None:
    """Under uids that stay, in files of that name."""
    names = ("overview", "broadcasts", "shuffles", "joins", "query", "history", "cost", "collector")
    assert set(PAGES) == {f"joinsight-{name}" for name in names}
    assert {file.stem for file in FOLDER.glob("*.json")} == set(PAGES)
    assert len({page["title"] for page in PAGES.values()}) == len(names)


@pytest.mark.parametrize("uid", PAGES)
def test_a_dashboard_has_a_description_and_links(uid: str) -> None:
    """It has a description, is not to be edited in place, follows the reader's clock, and leads to the others."""
    page = PAGES[uid]
    assert page["description"] and page["editable"] is False and page["timezone"] == "browser"
    assert page["schemaVersion"] == 42, "of another version of Grafana than docs/dashboards.md names"
    (others,) = page["links"]
    assert others["type"] == "dashboards" and others["keepTime"] and others["includeVars"]
    assert all(set(others["tags"]) <= set(each["tags"]) for each in PAGES.values())
    assert "id" not in page and "version" not in page, "these are Grafana's to give"


@pytest.mark.parametrize("uid", PAGES)
def test_each_panel_has_a_title_description_and_unit(uid: str) -> None:
    """Each has its own id and title, a description that says more than the title, a unit, and a place of its own."""
    everything = [*PAGES[uid]["panels"], *panels(PAGES[uid])]
    assert len({each["id"] for each in everything}) == len(PAGES[uid]["panels"])
    found = panels(PAGES[uid])
    assert len({each["title"] for each in found}) == len(found)
    for panel in found:
        assert len(panel["description"]) > len(panel["title"]) + 20, panel["title"]
        assert panel["description"].rstrip().endswith("."), panel["title"]
        if panel["type"] in ("stat", "timeseries"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"]
    taken: set[tuple[int, int]] = set()
    for panel in PAGES[uid]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        squares = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not squares & taken, panel["title"]
        taken |= squares


@pytest.mark.parametrize("uid", PAGES)
def test_each_variable_has_a_label_and_is_used(uid: str) -> None:
    """Each has a label and a description and is used; data sources are chosen by a variable."""
    page = PAGES[uid]
    texts = repr([page["panels"], [each.get("datasource") for each in variables(page).values()]])
    for name, each in variables(page).items():
        assert each["label"] and each["description"]
        assert re.search(rf"\$\{{?{name}\b", texts), f"{name} is not used"
    sources = {name: each["query"] for name, each in variables(page).items() if each["type"] == "datasource"}
    assert {f"${{{name}}}": kind for name, kind in sources.items()}.items() <= {
        v: k for k, v in SOURCES.items()
    }.items()
    for name in re.findall(r"\$\{(\w+)", texts):
        assert name in variables(page) or name.startswith("__"), f"{name} is no variable"


@pytest.mark.parametrize("uid", PAGES)
def test_dashboards_on_sql_have_the_same_annotations(uid: str) -> None:
    """All dashboards on SQL have the same three, which can be switched off, and are limited in time and number."""
    known = variables(PAGES[uid])
    found = annotations_of(PAGES[uid])
    wanted = {} if uid == "joinsight-collector" else ANNOTATIONS
    assert {each["name"]: each["iconColor"] for each in found} == wanted
    for each in found:
        assert each["hide"] is False and "placement" not in each, "the toggle is not in a menu"
        assert each["datasource"] == each["target"]["datasource"] == {"type": SQL, "uid": SOURCES[SQL]}
        query = each["target"]["rawSql"]
        assert "$__timeFilter(started_at)" in query and query.endswith("ORDER BY started_at DESC LIMIT 100")
        assert set(re.findall(r"\$\{(\w+)", query)) <= set(known)
        for name in re.findall(r"var-(\w+)=", query):
            assert name in variables(PAGES["joinsight-query"])
    off = {each["name"] for each in found if not each["enable"]}
    assert off == (set() if not found or uid in ("joinsight-query", "joinsight-history") else {"Plan changes"})


def test_queries_ask_the_data_source_that_was_chosen() -> None:
    """Panels do, too; references are unique within a panel."""
    for page, panel, target in EVERY_QUERY:
        kind = target["datasource"]["type"]
        assert target["datasource"] == panel["datasource"] == {"type": kind, "uid": SOURCES[kind]}
        assert SOURCES[kind].strip("${}") in variables(page)
        assert len({each["refId"] for each in panel["targets"]}) == len(panel["targets"])
    assert len(EVERY_QUERY) == sum(len(panel["targets"]) for page in PAGES.values() for panel in panels(page))


def test_sql_is_limited_by_the_time_that_is_shown() -> None:
    """Each table that is partitioned is asked for the time range, and the jobs that are chosen."""
    for page, panel, target in targets(SQL):
        sql = target["rawSql"]
        where = f"{page['title']}/{panel['title']}"
        limited = (
            "$__timeFilter(",
            "joinsight_regressions(joinsight_window($__timeFrom()))",
            "_finding_groups($__timeFrom(), $__timeTo())",
            "FROM forecast",  # of the last days, and not partitioned
        )
        assert any(each in sql for each in limited), where
        assert "${job:sqlstring}" in sql, where


def test_no_panel_has_a_limit_of_its_own() -> None:
    """What a query compares with, and where a colour begins, is one of `dashboards.limits`, or 0 or 1."""
    limits = {float(value) for value in asdict(LIMITS).values()} | {0, 1, NEAR_MAX_BYTES}
    for page in (PAGES[uid] for uid in PAGES if uid != "joinsight-collector"):
        for panel in panels(page):
            where = f"{page['title']}/{panel['title']}"
            for target in panel["targets"]:
                sql = re.sub(r"WHEN [^<>=]* >= 1e\d THEN", "", target["rawSql"])  # how large numbers are written
                compared = re.findall(r"[<>]=? *\(?(\d[\d.e]*)(?! *[*/])", sql)
                assert {float(each) for each in compared} <= limits, where
                assert not re.search(r"[<>]=? *\(?\d+ *[*^]", sql), where
            steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
            assert {step["value"] or 0 for step in steps} <= limits, where


def test_operators_are_shown_with_their_query() -> None:
    """A table that lists operators by their keys also has the title of the query: a key says nothing to a person."""
    without = set()
    for page in PAGES.values():
        for panel in panels(page):
            shown = {
                override["matcher"]["options"]
                for override in panel["fieldConfig"]["overrides"]
                if any(each["id"] == "displayName" for each in override["properties"])
            }
            if "operator_key" in shown and not shown & {"query", "title"}:
                without.add(panel["title"])
    assert without == set()


def test_limits_of_findings_are_drawn() -> None:
    """A time series of what a finding judges shows from where on; no other has a line."""
    drawn = {
        f"{page['uid'].removeprefix('joinsight-')}/{panel['title']}": panel["fieldConfig"]["defaults"]["thresholds"]
        for page in PAGES.values()
        for panel in panels(page)
        if panel["fieldConfig"]["defaults"].get("custom", {}).get("thresholdsStyle", {}).get("mode") == "dashed"
    }
    assert {name: each["steps"][-1]["value"] for name, each in drawn.items()} == {
        "shuffles/Skew by job": LIMITS.skew_ratio,
        "broadcasts/Largest broadcast of each job": NEAR_MAX_BYTES,
        "collector/Skew of shuffles": LIMITS.skew_ratio,
    }


def test_what_is_live_refreshes() -> None:
    """The collector's dashboard each minute, the overview of a week less often; the others stay as they are read."""
    refreshed = {uid: page["refresh"] for uid, page in PAGES.items() if page.get("refresh")}
    assert refreshed == {"joinsight-collector": "1m", "joinsight-overview": "5m"}


def test_no_page_has_a_limit_of_its_own() -> None:
    """Templates compare only with the amounts that layout and plurals need; colours follow findings."""
    for template in Path(pages.__file__).parent.glob("templates/*.html"):
        for statement in re.findall(r"{[%{].*?[%}]}", template.read_text()):
            compared = {float(each) for each in re.findall(r"[<>]=? *(\d[\d.]*)", statement)}
            assert compared <= {0, 1} or "drawing.width" in statement or "length" in statement, statement


def test_promql_selects_the_collectors_that_are_chosen() -> None:
    """PromQL selects by job and instance, with rates over an interval that fits the scrapes."""
    for _, panel, target in targets(PROMETHEUS):
        selectors = re.findall(r"(?:joinsight_\w+|up|ALERTS)\{[^}]*\}", target["expr"])
        assert selectors and len(re.findall(r"joinsight_\w+|\bup\b|ALERTS", target["expr"])) == len(selectors), panel[
            "title"
        ]
        assert all('job=~"$scrape"' in each for each in selectors)
        assert all('instance=~"$instance"' in each for each in selectors if not each.startswith("ALERTS"))
        assert set(re.findall(r"\[(.*?)\]", target["expr"])) <= {"$__rate_interval", "$__range"}
        for counter in re.findall(r"(\w+)\((joinsight_\w+_(?:total|bucket|sum|count))\b", target["expr"]):
            assert counter[0] in ("rate", "increase")


@pytest.mark.parametrize("uid", PAGES)
def test_each_link_leads_to_a_dashboard_that_is_there(uid: str) -> None:
    """Each leads to a dashboard that is there, sets only variables that it has, and keeps time and data source."""
    for link in links(PAGES[uid]):
        assert set(link) <= {"title", "url", "targetBlank"} and link["title"]
        if link["url"].startswith("${collector}/executions/"):
            continue
        path, _, query = link["url"].partition("?")
        assert path.startswith("/d/joinsight-")
        names = [path.removeprefix("/d/joinsight-")]
        if names == ["${__data.fields.dashboard}"]:
            names = ["shuffles", "broadcasts", "joins"]  # test_sql.py sees to it that it says no others
        for name in names:
            known = variables(PAGES[f"joinsight-{name}"])
            parts = query.split("&")
            assert "${__url_time_range}" in parts or any(part.startswith("from=") for part in parts)
            assert "${postgresql:queryparam}" in parts
            for passed in re.findall(r"\$\{(\w+):queryparam\}", query):
                assert passed in known and passed in variables(PAGES[uid])
            for passed in re.findall(r"var-(\w+)=", query):
                assert passed in known
            assert all(re.fullmatch(r"var-\w+=\$\{__data\.fields\.\w+:percentencode\}", part)
                       for part in parts if part.startswith("var-"))  # fmt: skip


@pytest.mark.parametrize("uid", PAGES)
def test_links_read_columns_that_are_there(uid: str) -> None:
    for panel in panels(PAGES[uid]):
        columns = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert set(re.findall(r"__data\.fields\.(\w+)", repr(panel["fieldConfig"]))) <= columns


def test_the_same_colour_for_the_same_thing() -> None:
    """Colours are the same on all dashboards, and everything with a fixed colour has it."""
    colours: defaultdict[str, set[str]] = defaultdict(set)
    for page in PAGES.values():
        for panel in panels(page):
            for override in panel["fieldConfig"]["overrides"]:
                name = override["matcher"]["options"].removeprefix("arc__")
                for each in override["properties"]:
                    if each["id"] == "color" and panel["type"] != "table":
                        colours[name].add(each["value"]["fixedColor"])
                    if each["id"] == "mappings":
                        for value, shown in each["value"][0]["options"].items():
                            colours[value].add(shown["color"])
    assert len(colours) > 30
    assert {name: found for name, found in colours.items() if len(found) > 1} == {}


def test_the_documentation_names_them_all() -> None:
    """The documentation names all dashboards, and the version of Grafana that they are made for."""
    page = (FOLDER.parents[1] / "docs" / "dashboards.md").read_text()
    assert f"Grafana {GRAFANA}" in page
    for each in PAGES.values():
        assert f"| *{each['title'].removeprefix('Joinsight: ')}* |" in page
