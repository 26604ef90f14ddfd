"""The filters and orders of lists are declared once and offered wherever a list is shown."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from html import escape
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tests.commands import leaves

from joinsight.base.errors import ConfigurationError
from joinsight.pages.listing import COLUMNS, Asked, Listed, list_page
from joinsight.queries.filters import LISTS, SORTS, Filters, filters_of
from joinsight.tables import execution

GIVEN = {
    "search": "revenue SortMerge",
    "application": "nightly etl",
    "job": "nightly",
    "user": "ana",
    "session": "7c0eb70f-91f9-4c02-8628-2cfd7f5b7d96",
    "tag": "team=etl",
    "state": "failed",
    "since": "2026-01-01T00:30",
    "until": "2026-01-02",
    "shape": "323ca4dd",
    "root": "a\nb/12",
    "show": "all",
    "execution": "last",
    "operator": "9cbf27f7",
    "finding": "skewed-shuffle",
    "severity": "critical",
}
"""A value of each; a filter without one here fails the tests."""


@pytest.mark.parametrize("name", LISTS)
def test_a_command_offers_all_of_its_list(name: str) -> None:
    """Each filter as an option with a help text, which takes a value; each order, with what it means."""
    options: dict[str | None, Any] = {option.name: option for option in leaves()[name,].params}
    for each, declared in filters_of(name).items():
        assert options[each].opts == [f"--{each}"] and options[each].help == f"{declared.help}."
        assert declared.value(each, GIVEN[each])
    assert list(options["sort"].type.choices) == list(SORTS[name])
    for each, sort in SORTS[name].items():
        assert f"{each}: {sort.meaning}" in options["sort"].help
    assert set(options) - set(filters_of(name)) - {"each"} == {"database_url", "data", "sort", "limit", "as_json"}


def test_the_page_offers_all_of_the_queries() -> None:
    """Each filter as a field that shows what was given; each order as a heading, which keeps the filters."""
    given = {name: GIVEN[name] for name in filters_of("queries")}
    asked = Asked.of({**given, "sort": "time"})
    assert {name: getattr(asked.filters, name) for name in given} == {
        name: declared.value(name, given[name]) for name, declared in filters_of("queries").items()
    }
    row = {**dict.fromkeys(execution.columns.keys()), "started_at": datetime.now(timezone.utc), "execution_id": 1}
    row["batches"] = None
    row |= dict.fromkeys(("application_id", "attempt_id", "job_name", "description", "state"), "")
    page = list_page(asked, Listed([row], None, None))
    fields = set(re.findall(r'<(?:input|select) name="(\w+)"', page))
    assert fields == {*given, "sort"}
    for name, declared in filters_of("queries").items():
        assert (f"<option selected>{given[name]}</option>" if declared.choices else f'value="{given[name]}"') in page
    for name, sort in SORTS["queries"].items():
        [heading] = [column for column in COLUMNS if column.sort == name]
        link = f'href="{escape(asked.sorted_by(heading))}" title="{sort.meaning.capitalize()}">{heading.title}'
        assert link in page
        assert Asked.of(dict(parse_qsl(asked.sorted_by(heading)[2:]))).given == asked.given
    assert page.count('aria-sort="descending"><a href="/?search') == 1


@pytest.mark.parametrize(
    ("name", "given"), {"state": "gone", "since": "lately", "shape": "xyz", "operator": "SortMergeJoin"}.items()
)
def test_a_value_that_is_not_valid_is_refused(name: str, given: str) -> None:
    """The message names the filter, shows the value, and says what would be right."""
    with pytest.raises(ConfigurationError, match=rf"^{name}='{given}': not a valid \w+\. Write "):
        filters_of("joins")[name].value(name, given)


def test_without_filters_all_is_asked_for() -> None:
    assert Asked.of({}).filters == Filters(limit=51)
    assert Asked.of({"job": " ", "sort": ""}) == Asked.of({})
