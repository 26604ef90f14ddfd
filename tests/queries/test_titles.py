"""A command of which Spark prints only the name has in its title what it ran, wherever it is listed."""

from __future__ import annotations

from datetime import datetime, timezone

from msgspec.structs import replace
from sqlalchemy import Engine, insert
from tests.documents import STARTED_AT_MS, planned
from tests.store.test_hidden import jobs, ran

from joinsight.contract.document import Nested
from joinsight.queries import browse, trends
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_queries
from joinsight.queries.regressions import read_forecasts
from joinsight.queries.report import read_costly
from joinsight.store.writer import Writer
from joinsight.tables import EXECUTION_KEY, forecast

NOW = datetime.fromtimestamp(STARTED_AT_MS / 1000 + 60, timezone.utc)
TITLE = "save as table: sales by item"


def test_titles_of_commands_are_completed(engine: Engine) -> None:
    """By the longest execution that it started, on all lists; a description that the job set stays."""
    nested = [Nested(n, STARTED_AT_MS) for n in (2, 3)]
    command = planned(
        "Execute SaveAsV1TableCommand", execution_id=1, nested=nested, description="saveAsTable at sales.scala:5"
    )
    short = ran(2, 300, description="list files", root_execution_id=1, jobs=jobs())
    long = ran(3, 400, description="sales by item", root_execution_id=1, jobs=jobs())
    log = ran(5, 500, description="Delta: Compute snapshot for version: 5", root_execution_id=1, jobs=jobs())
    described = planned("Execute SaveAsV1TableCommand", execution_id=4, description="save as table", nested=nested)
    Writer(engine).write([command, short, long, log, described])
    with engine.connect() as connection:
        rows = read_queries(connection, Filters(), "recent")
        assert {row["execution_id"]: row["title"] for row in rows} == {1: TITLE, 4: "save as table"}
        groups = browse.read_query_groups(connection, datetime(2020, 1, 1, tzinfo=timezone.utc), Filters())
        assert {(row["title"], row["task_time_ms"]) for row in groups} == {(TITLE, None), ("save as table", None)}
        shape = next(row["query_shape"] for row in rows if row["execution_id"] == 1)
        [run] = trends.read_runs(connection, shape, rows[0]["job_name"], NOW, 10)
        assert run["title"] == TITLE
        assert TITLE in {row["title"] for row in read_costly(connection, rows[0]["started_at"], None, 10)}
        key = {name: run[name] for name in EXECUTION_KEY}
        times = dict.fromkeys(("reaches_at", "earliest_at", "first_forecast_at", "computed_at"), NOW)
        numbers = dict.fromkeys(("current", "limit_value", "days", "growth_a_day", "node_id"), 1)
        texts = {"job_name": "j", "origin": "live", "kind": "join_spill", "operator_key": "o", "title": "save as table"}
        connection.execute(insert(forecast).values({**key, **times, **numbers, **texts}))
        assert [row["title"] for row in read_forecasts(connection)] == [TITLE]


def test_titles_of_commands_with_their_table_are_completed(empty: Engine) -> None:
    """The table does not say what was written to it."""
    command = planned("Execute MergeIntoCommand", execution_id=1, nested=[Nested(2, STARTED_AT_MS)])
    told = {"Command": "(id#1 = id#2)", "Table": "`spark_catalog`.`shop`.`orders`"}
    command = replace(command, nodes=[replace(node, metadata=told) for node in command.nodes])
    Writer(empty).write([command, ran(2, 300, description="sales by item", root_execution_id=1, jobs=jobs())])
    with empty.connect() as connection:
        [row] = read_queries(connection, Filters(), "recent")
    assert row["title"] == "merge into shop.orders: sales by item"
