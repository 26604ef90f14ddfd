"""Every SQL query of the dashboards is executed on a generated history, as a reader, and gives what its panel needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from tests.cookbook.history import LONG_AGO, NOW, plant
from tests.dashboards.grafana import ALL, SQL, Json, Value, last, sql, targets, variables
from tests.findings.recorded import SMALL, recordings

from joinsight.findings import Finder
from joinsight.store.grants import grant_reader
from joinsight.store.writer import Writer

SHOWN = last(30, NOW + timedelta(days=1))
"""The last day is that of what `tests/findings` has recorded."""
READER = "dashboards_reader"
QUERIES = {f"{d['uid']}/{p['title']}/{t['refId']}": (d, p, t) for d, p, t in targets(SQL)}
EVERYTHING = {"job": ALL}


@pytest.fixture(scope="module")
def connection(engine: Engine) -> Iterator[Connection]:
    """Of a role that may read and no more, to a history with all that the dashboards look for."""
    plant(engine)
    assert Writer(engine, finder=Finder(SMALL)).write(list(recordings().values())).refused == []
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


def values_of(dashboard: Json, chosen: Mapping[str, Value]) -> dict[str, Value]:
    """What each variable has: its choice, else what it begins with."""
    found: dict[str, Value] = {}
    for name, each in variables(dashboard).items():
        found[name] = chosen.get(name, each.get("current", {}).get("value", each.get("query", "")))
    return found


def ask(connection: Connection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of the columns, and rows."""
    result = connection.exec_driver_sql(query.replace("%", "%%"))
    return list(result.keys()), [tuple(row) for row in result]


def is_number(value: Any) -> bool:
    """As Grafana's data source sees it."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def check_stat(panel: Json, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """One number. Or none where there is nothing to tell: the panel then shows its dash."""
    assert len(rows) == 1 and len(names) == 1
    assert rows[0][0] is None or is_number(rows[0][0])


def check_series(panel: Json, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """A rising time, the name of the series perhaps, and numbers."""
    assert names[0] == "time"
    times = [row[0] for row in rows]
    assert all(is_number(each) or isinstance(each, datetime) for each in times)
    assert all(a <= b for a, b in pairwise(times))
    if "metric" in names:  # only then does Grafana name the series by it alone
        assert names[1] == "metric" and len(names) == 3
        assert all(isinstance(row[1], str) for row in rows)
        assert len({row[:2] for row in rows}) == len(rows)
    else:
        assert len(set(times)) == len(times)
    numbers = [value for row in rows for value in row[names.index("metric") + 1 if "metric" in names else 1 :]]
    assert all(value is None or is_number(value) for value in numbers)
    assert any(value is not None for value in numbers)


def check_table(panel: Json, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Each column that has a name for people and, if it is a number or a time, a unit; none is spoken of in vain."""
    overrides = {o["matcher"]["options"]: {p["id"]: p["value"] for p in o["properties"]}
                 for o in panel["fieldConfig"]["overrides"]}  # fmt: skip
    assert set(overrides) == set(names) and len(set(names)) == len(names)
    for position, name in enumerate(names):
        if overrides[name].get("custom.hideFrom.viz"):
            continue
        assert overrides[name]["displayName"]
        found = [row[position] for row in rows if row[position] is not None]
        assert all(isinstance(each, str | int | float | Decimal | datetime | bool) for each in found), name
        assert found, f"{name} is empty in every row"
        if found and (is_number(found[0]) or isinstance(found[0], datetime)):
            assert overrides[name].get("unit"), name


CHECKS: Mapping[str, Callable[[Json, list[str], list[tuple[Any, ...]]], None]] = {
    "stat": check_stat,
    "timeseries": check_series,
    "table": check_table,
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows(name: str, connection: Connection) -> None:
    """There are rows, of the shape that the panel needs, and no other month is read for them."""
    dashboard, panel, target = QUERIES[name]
    query = sql(target["rawSql"], dashboard, panel, values_of(dashboard, EVERYTHING), SHOWN)
    names, rows = ask(connection, re.sub(r"\bLIMIT \d+$", "", query))  # else rare things are not among the first
    assert rows
    assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
    CHECKS[panel["type"]](panel, names, rows)
    plan = "\n".join(row[0] for row in connection.execute(text("EXPLAIN " + query.replace(":", r"\:"))))
    assert LONG_AGO not in plan
