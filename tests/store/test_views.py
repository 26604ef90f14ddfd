"""The views join operators with their executions, match their description and do not read old months."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, Table, inspect, select, text
from sqlalchemy.dialects import postgresql
from tests.documents import STARTED_AT_MS, application, planned

from joinsight.store.writer import Writer
from joinsight.tables import Row, broadcast, joins, shuffle
from joinsight.tables.views import metadata, v_broadcasts, v_joins, v_shuffles

DAY = 86_400_000
MB = 1 << 20
FED = "shuffle bytes written=800, shuffle records written=100, local bytes read=300, remote bytes read=500"
BROADCAST = "data size=33554528, number of output rows=9, time to collect=5, time to build=6, time to broadcast=7"
TURNED = f"""
BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=500
  AQEShuffleRead | local | number of partitions=4
    Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=1] | {FED}
  BroadcastExchange | HashedRelationBroadcastMode(List(k#2),false), [plan_id=3] | {BROADCAST}
    AQEShuffleRead | local
      Exchange | hashpartitioning(k#2, 8), ENSURE_REQUIREMENTS, [plan_id=2] | data size=8388608, local bytes read=300
"""
"""A sort-merge join that AQE turned into a broadcast: what it broadcasts was shuffled first."""


@pytest.fixture(scope="module", autouse=True)
def stored(engine: Engine) -> Iterator[None]:
    """The same query once a month."""
    tags = {"team": "sales"}
    Writer(engine).write(
        [
            application(application_id="a", application_name="nightly run", job_name="nightly", user="ann"),
            *(
                planned(
                    TURNED,
                    application_id="a",
                    execution_id=month,
                    started_at_ms=STARTED_AT_MS + 31 * DAY * month,
                    ended_at_ms=STARTED_AT_MS + 31 * DAY * month + 4_000,
                    application_name="nightly run",
                    job_name="nightly",
                    description="Sales",
                    tags=tags,
                    configuration={"spark.sql.autoBroadcastJoinThreshold": "10m"} if month else {},
                )
                for month in range(4)
            ),
        ]
    )
    yield


def rows_of(engine: Engine, view: Table) -> list[Row]:
    """A view's rows of the first month."""
    with engine.connect() as connection:
        statement = select(view).where(view.c.execution_id == 0).order_by(view.c.node_id)
        return [dict(row) for row in connection.execute(statement).mappings()]


@pytest.mark.parametrize("view", metadata.tables.values(), ids=str)
def test_views_are_described_as_they_are(engine: Engine, view: Table) -> None:
    """Names, order, types and comments of the columns in the database are those of the data dictionary."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    inspector = inspect(engine)
    assert inspector.get_table_comment(view.name)["text"] == view.comment
    found = [(c["name"], c["type"].compile(dialect), c["comment"]) for c in inspector.get_columns(view.name)]
    assert found == [(c.name, c.type.compile(dialect), c.comment) for c in view.columns]
    assert all(comment for _, _, comment in found)


def test_there_are_no_other_views(engine: Engine) -> None:
    """Each view of the database is described."""
    assert set(inspect(engine).get_view_names()) == set(metadata.tables)


@pytest.mark.parametrize("view", [v_broadcasts, v_shuffles, v_joins], ids=str)
def test_what_an_operator_belongs_to(engine: Engine, view: Table) -> None:
    """Each row has its execution and its application, whatever the operator."""
    for row in rows_of(engine, view):
        wanted = {
            "application_id": "a",
            "application_name": "nightly run",
            "job_name": "nightly",
            "spark_user": "ann",
            "spark_version": "4.3.0",
            "description": "Sales",
            "state": "succeeded",
            "duration_ms": 4_000,
            "origin": "live",
            "incomplete": None,
            "tags": {"team": "sales"},
        }
        assert {name: row[name] for name in wanted} == wanted
        assert row["query_shape"] and row["plan_fingerprint"] and row["operator_key"]


def test_a_broadcasts_driver_time_is_one_number(engine: Engine) -> None:
    """The driver's time is one number; a threshold is compared with what the shuffle counted, not with memory."""
    (row,) = rows_of(engine, v_broadcasts)
    assert (row["size_bytes"], row["shuffled_bytes"], row["threshold_bytes"]) == (33554528, 8 * MB, 10 * MB)
    assert (row["driver_ms"], row["threshold_share"], row["join_nodes"]) == (18, 0.8, [0])


def test_bytes_read_are_local_and_remote(engine: Engine) -> None:
    """Bytes read are local and remote; averages are of the partitions that were read; joins that it feeds are named."""
    fed, broadcast = rows_of(engine, v_shuffles)
    assert (fed["bytes_read"], broadcast["bytes_read"]) == (800, 300)
    assert (fed["partitions"], fed["aqe_partitions"], fed["read_partitions"]) == (8, 4, 4)
    assert (fed["bytes_per_partition"], fed["rows_per_partition"], fed["aqe_outcome"]) == (200, 25, "local")
    assert (broadcast["read_partitions"], broadcast["bytes_per_partition"]) == (8, None)
    assert (fed["join_nodes"], broadcast["join_nodes"]) == ([0], [])
    assert (fed["origin"], fed["shuffle_origin"]) == ("live", "ENSURE_REQUIREMENTS")


def test_output_ratio_is_rows_for_one_of_the_larger_side(engine: Engine) -> None:
    (row,) = rows_of(engine, v_joins)
    assert (row["left_rows"], row["right_rows"], row["output_rows"], row["output_ratio"]) == (100, 9, 500, 5.0)


@pytest.mark.parametrize(("view", "own"), [(v_broadcasts, broadcast), (v_shuffles, shuffle), (v_joins, joins)], ids=str)
def test_a_time_leaves_other_months_alone(engine: Engine, view: Table, own: Table) -> None:
    """A filter on started_at prunes the partitions of all tables of a view; what is not asked for is not joined."""
    month = "started_at >= '2026-02-01' AND started_at < '2026-03-01'"
    plan = explain(engine, f"SELECT * FROM {view.name} WHERE {month}")
    assert scanned(plan) >= {own.name, "execution", "application"}
    assert set(re.findall(r"_(\d{4}_\d\d|default)\b", plan)) == {"2026_02"}
    assert scanned(explain(engine, f"SELECT count(*) FROM {view.name} WHERE {month}")) == {own.name}


def explain(engine: Engine, statement: str) -> str:
    """PostgreSQL's plan."""
    with engine.connect() as connection:
        return "\n".join(connection.scalars(text(f"EXPLAIN {statement}")))


def scanned(plan: str) -> set[str]:
    """The tables that a plan reads."""
    found = re.findall(r"(?:Scan(?: using \w+)?|Bitmap Heap Scan) on (\w+)", plan)
    return {re.sub(r"_(\d{4}_\d\d|default)$", "", name) for name in found}
