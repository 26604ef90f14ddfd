"""A table is declared once, and everything else derives from the declaration."""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import pytest
from msgspec import structs
from sqlalchemy import Table

from joinsight import tables
from joinsight.contract.document import Accumulator, Spread, Stage, StageTotals
from joinsight.plan.operators import AQE_READ
from joinsight.tables import ShuffleRow, StageRow, as_columns, from_metrics, views

ROWS = [value for value in vars(tables).values() if isinstance(value, type) and issubclass(value, tables.TableRow)]
ROOT = Path(__file__).parents[2]
VIEWS = ROOT / "migrations" / "views"
LISTENER = ROOT / "listener" / "src" / "io" / "joinsight" / "capture" / "StageTotals.java"


def test_all_tables_are_listed() -> None:
    """The data dictionary, which goes by the list, has every table."""
    assert set(tables.TABLES) == set(tables.metadata.tables.values())


def test_what_is_partitioned() -> None:
    """Tables whose rows begin with the key of an execution are partitioned by its start; no others are."""
    for table in tables.TABLES:
        begins = tuple(column.name for column in table.columns)[: len(tables.EXECUTION_KEY)]
        assert (table in tables.PARTITIONED) == (begins == tables.EXECUTION_KEY)
        assert (table in tables.PARTITIONED) == bool(table.dialect_options["postgresql"]["partition_by"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.__name__))
def test_types_say_what_may_be_null(row: type) -> None:
    """A column is NOT NULL if its type has no None; what the writer fills in may be left out."""
    hints = get_type_hints(row)
    for field in structs.fields(row):
        may_be_left_out = field.default is None
        assert may_be_left_out == (NoneType in get_args(hints[field.name])), field.name


def test_a_metric_is_the_column_that_is_declared_so() -> None:
    """A metric's total or another statistic is the column that is declared so; of another operator only if asked."""
    size = Accumulator(1, "size", 3, sum=60, median=20, max=30)
    found = from_metrics(ShuffleRow, {"data size": size, "partition data size": size})
    assert (found["data_bytes"], found["bytes_written"]) == (60, None)
    assert "aqe_partition_bytes_max" not in found
    of_read = from_metrics(ShuffleRow, {"partition data size": size}, AQE_READ)
    assert (of_read["aqe_partition_bytes_median"], of_read["aqe_partition_bytes_max"]) == (20, 30)
    assert found.keys().isdisjoint(of_read)


def test_parts_of_a_row_are_columns() -> None:
    """Parts of a row are columns of their own, which are all NULL without the part."""
    key = dict.fromkeys(tables.EXECUTION_KEY, 0)
    of_stage = {"stage_id": 1, "stage_attempt": 0, "name": "a", "state": "succeeded", "tasks": 2}
    tasks = {"succeeded_tasks": 2, "failed_tasks": 0, "killed_tasks": 0}
    ran = Stage(1, 0, "a", 2, "succeeded", gc_time_ms=7)
    row = StageRow(**key, **of_stage, **tasks, totals=ran, run_time_ms=Spread(1, 2, 3, 4, 99))  # type: ignore[arg-type]
    found = as_columns(row)
    assert list(found) == [column.name for column in tables.stage.columns]
    assert (found["gc_time_ms"], found["input_rows"]) == (7, 0)
    assert (found["run_time_ms_median"], found["run_time_ms_max"]) == (2, 4)
    assert found["shuffle_read_rows_max"] is None
    assert found["scheduler_delay_ms"] is found["run_time_ms_p25"] is None, "an earlier listener does not send it"
    assert as_columns(structs.replace(row, totals=None))["gc_time_ms"] is None


def test_totals_are_those_of_the_listener() -> None:
    """The document has a field, and table `stage` a column, for each total that the listener adds up."""
    names = re.findall(r'      (?:sum|largest|ofTimes)\("(\w+)"', LISTENER.read_text())
    assert tuple(names) == StageTotals.__struct_fields__
    assert set(names) <= set(tables.stage.columns.keys())


@pytest.mark.parametrize("view", views.metadata.tables.values(), ids=str)
def test_files_of_views_are_as_declared(view: Table) -> None:
    """`make docs` changes nothing in the SQL of the views."""
    assert (VIEWS / f"{view.name}.sql").read_text() == views.sql(view)


@pytest.mark.parametrize(("name", "table"), views.OPERATORS.items())
def test_views_have_all_columns(name: str, table: Table) -> None:
    shown = {column.info["sql"] for column in views.metadata.tables[name].columns}
    own = tables.EXECUTION_KEY if table in tables.PACKED else [column.name for column in table.columns]
    assert {f"o.{each}" for each in own} <= shown
