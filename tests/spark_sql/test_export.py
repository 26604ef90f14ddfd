"""`joinsight export` writes Parquet with the same rows as PostgreSQL, by day, however often it runs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.history import Planted
from tests.spark_sql.conftest import LONG
from tests.spark_sql.test_history import of_postgres, of_spark

from joinsight.base.errors import ConfigurationError
from joinsight.cli import cli
from joinsight.spark import read
from joinsight.tables import PACKED, joins, metadata

pytestmark = [pytest.mark.spark, *LONG, pytest.mark.filterwarnings("ignore")]
DAY = timedelta(days=1)


def written(spark: Any, engine: Engine, to: Path, *tables: str, since: Any = None, until: Any = None) -> dict[str, int]:
    """Rows by table and month."""
    from joinsight.spark.export import export

    done = export(spark, engine, str(to), tables or tuple(metadata.tables), since, until, 4)
    return {f"{each.table} {each.month}": each.rows for each in done}


def files(folder: Path) -> dict[str, set[str]]:
    """The names of each day's files, which change whenever the day is written."""
    return {day.name: {path.name for path in day.glob("*.parquet")} for day in folder.glob("day=*")}


def test_packed_tables_are_exported_as_their_views() -> None:
    """A lake has rows for plans and metrics, as SQL shows them, and not how they are stored."""
    from joinsight.spark.export import DEFAULT_TABLES

    assert {"execution", "plan_version", "plan_node", "plan_edge", "node_metric"} <= set(DEFAULT_TABLES)
    assert {table.name for table in metadata.sorted_tables} - set(DEFAULT_TABLES) == set(map(str, PACKED))


@pytest.mark.parametrize(
    "tables",
    [("application", "execution"), pytest.param(tuple(metadata.tables), marks=pytest.mark.matrix)],
    ids=["some", "all"],
)
def test_what_is_read_back_is_what_was_there(
    ours: Any, engine: Engine, planted: Planted, tmp_path: Path, tables: tuple[str, ...]
) -> None:
    """Row for row; by day of UTC, and a file for a day of so few rows."""
    counted = written(ours, engine, tmp_path, *tables)
    for table in tables:
        columns = list(read.TABLES[table].columns.keys())
        expected = of_postgres(engine, table)
        if not expected:  # no day, no file
            watched = ("alarm", "cause", "forecast", "notification", "watched_query")
            assert table in ("aqe_decision", "cache", "segment", *watched)
            continue
        frame = ours.read.parquet(str(tmp_path / table))
        assert of_spark(frame.select(columns)) == expected
        assert sum(rows for name, rows in counted.items() if name.startswith(f"{table} ")) == expected.total()
    frame = ours.read.parquet(str(tmp_path / "execution"))
    assert frame.where("day <> to_date(started_at)").count() == 0
    found = files(tmp_path / "execution")
    assert {"day=1970-01-01", "day=9999-12-31", "day=2026-11-05", "day=2026-10-31"} <= set(found)
    assert all(len(names) == 1 for names in found.values())


def test_twice_is_once_and_other_days_are_left_alone(
    ours: Any, engine: Engine, planted: Planted, tmp_path: Path
) -> None:
    """Only the days that are asked for are written again, with the same rows."""
    written(ours, engine, tmp_path, "joins")
    before, columns = files(tmp_path / "joins"), list(joins.columns.keys())
    since = datetime(2026, 10, 31, tzinfo=timezone.utc)
    again = written(ours, engine, tmp_path, "joins", since=since, until=since + 2 * DAY)
    assert list(again) == ["joins 2026_10", "joins 2026_11"]
    after = files(tmp_path / "joins")
    assert {day for day in after if after[day] != before.get(day)} == {"day=2026-10-31", "day=2026-11-01"}
    assert of_spark(ours.read.parquet(str(tmp_path / "joins")).select(columns)) == of_postgres(engine, "joins")


@pytest.mark.matrix
def test_a_run_that_dies_leaves_nothing_wrong(
    ours: Any, engine: Engine, planted: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day is there as it was or as it is to be; the next run makes it whole."""
    from joinsight.spark import copying

    written(ours, engine, tmp_path, "joins")
    before = files(tmp_path / "joins")
    real = copying.reader

    def dying(conninfo: str, statements: list[list[str]], fields: list[copying.Field]) -> Any:
        return real(
            conninfo, [[*share[:-1], share[-1] + " AND 1 / (node_id - node_id) > 0"] for share in statements], fields
        )

    monkeypatch.setattr(read, "reader", dying)
    with pytest.raises(Exception, match="division by zero"):
        written(ours, engine, tmp_path, "joins")
    assert files(tmp_path / "joins") == before
    monkeypatch.undo()
    written(ours, engine, tmp_path, "joins")
    columns = list(joins.columns.keys())
    assert of_spark(ours.read.parquet(str(tmp_path / "joins")).select(columns)) == of_postgres(engine, "joins")


def test_a_range_is_made_of_whole_days() -> None:
    """A range consists of whole days: else a part of a day would replace the day."""
    from joinsight.spark.export import whole_days

    midnight = datetime(2026, 11, 3, tzinfo=timezone.utc)
    assert whole_days(midnight + timedelta(hours=1), midnight + timedelta(hours=1)) == (midnight, midnight + DAY)
    assert whole_days(midnight, midnight) == (midnight, midnight)
    assert whole_days(None, None) == (None, None)


def test_a_table_that_is_not_there(ours: Any, engine: Engine, tmp_path: Path) -> None:
    """A missing table is an error before anything is written."""
    with pytest.raises(ConfigurationError, match="--table='nodes': unknown table or view"):
        written(ours, engine, tmp_path, "joins", "nodes")
    assert list(tmp_path.iterdir()) == []


def test_help_works_without_spark() -> None:
    result = CliRunner().invoke(cli, ["export", "--help"])
    assert result.exit_code == 0 and "--to PATH" in result.output
