"""`joinsight rollup` computes the same totals as PostgreSQL, and baselines give the same regressions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, select, text
from tests.history import END, Planted
from tests.spark_sql.by_sql import OPERATORS, QUERIES
from tests.spark_sql.conftest import LONG, TABLES

from joinsight import tables
from joinsight.cli import spark as commands
from joinsight.queries.regressions import read_regressions
from joinsight.store import baselines
from joinsight.store.database import connect, upgrade
from joinsight.tables import Row

pytestmark = [pytest.mark.spark, *LONG, pytest.mark.filterwarnings("ignore")]
FIRST = date(2026, 10, 21)
DAYS = [FIRST + timedelta(days=number) for number in range(31)]
CONNECTIONS = 2


@pytest.fixture(scope="module")
def store(generated_engine: Engine, generated: tuple[str, Planted]) -> tuple[Engine, Planted]:
    """A month of twenty jobs."""
    return generated_engine, generated[1]


@pytest.fixture(scope="module")
def rolled_up(spark: Any, store: tuple[Engine, Planted]) -> Any:
    """What is written about all of it."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return roll_up(spark, store[0])


def roll_up(
    spark: Any, engine: Engine, days: list[date] | None = None, now: datetime = END, path: Path | None = None
) -> Any:
    """As the command does."""
    from joinsight.spark import rollup

    read = rollup.parquet_reader(spark, str(path)) if path else rollup.postgres_reader(spark, engine, CONNECTIONS)
    days = rollup.stale_days(engine, FIRST, now) if days is None else days
    return rollup.roll_up(engine, read, rollup.ranges_of(days), baselines.moment(now), CONNECTIONS)


def rows_of(engine: Engine, what: Any) -> list[Row]:
    """In an order of their own; numbers that PostgreSQL adds up as numeric are integers."""
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(what).mappings()]
    for row in rows:
        for name, value in row.items():
            if type(value).__name__ == "Decimal":
                row[name] = int(value)
    return sorted(rows, key=lambda row: [str(row[name]) for name in list(row)[:6]])


def approximately(rows: list[Row]) -> list[Row]:
    """Doubles may differ in their last digits."""
    return [{n: pytest.approx(v, rel=1e-12) if isinstance(v, float) else v for n, v in row.items()} for row in rows]


@pytest.mark.parametrize(("table", "query"), [(tables.rollup_day, QUERIES), (tables.rollup_operator_day, OPERATORS)])
def test_totals_are_those_of_postgresql(store: tuple[Engine, Planted], rolled_up: Any, table: Any, query: str) -> None:
    """Each day of each query and operator; the generated history has nothing outside of it."""
    expected = rows_of(store[0], text(query))
    assert len(expected) > 500
    assert rows_of(store[0], select(table)) == approximately(expected)
    assert len(expected) == (rolled_up.queries if table is tables.rollup_day else rolled_up.operators)


def found(engine: Engine, since: datetime) -> list[Row]:
    """In a window."""
    with engine.connect() as connection:
        query = text("SELECT * FROM joinsight_regressions(:since) ORDER BY query_shape, operator_key, measure")
        return [dict(row) for row in connection.execute(query, {"since": since}).mappings()]


TYPICAL = ("baseline_started_at", "baseline_application_id", "baseline_attempt_id", "baseline_execution_id")


def test_regressions_are_the_same_with_baselines(store: tuple[Engine, Planted], rolled_up: Any) -> None:
    """Row for row, and what was planted; of runs that are equally typical either may be named."""
    engine, planted = store
    with_them = found(engine, rolled_up.as_of)
    assert rolled_up.as_of == END.replace(day=13, hour=0)
    with engine.connect() as connection:
        connection.execute(delete(tables.baseline))
        query = text("SELECT * FROM joinsight_regressions(:since) ORDER BY query_shape, operator_key, measure")
        without = [dict(row) for row in connection.execute(query, {"since": rolled_up.as_of}).mappings()]
        connection.rollback()
    assert len(without) >= 5
    for one, other in zip(with_them, without, strict=True):
        typical = [one.pop(name) for name in TYPICAL]
        assert typical[0] < rolled_up.as_of and typical[1]
        for name in TYPICAL:
            other.pop(name)
    assert with_them == approximately(without)
    worse = ("join_flip", "plan_changed", "slower", "data_grew", "skew", "spill")
    assert {row["query_shape"] for row in with_them} == {planted.of(name).query_shape for name in worse}


def test_regressions_use_baselines(store: tuple[Engine, Planted], rolled_up: Any) -> None:
    """With another baseline there is another result: it is really read. Nothing is with other thresholds for it."""
    engine, planted = store
    shape = planted.of("slower").query_shape
    with engine.connect() as connection:
        connection.execute(text("UPDATE baseline SET median = 1e12 WHERE query_shape = :shape"), {"shape": shape})
        for arguments, slower in (("", False), (", baseline_runs => 19", True), (", minimum_runs => 4", True)):
            query = f"SELECT query_shape FROM joinsight_regressions(:since{arguments})"
            shapes = set(connection.scalars(text(query), {"since": rolled_up.as_of}))
            assert (shape in shapes) == slower, arguments
        connection.rollback()


def test_a_window_begins_where_baselines_are(store: tuple[Engine, Planted], rolled_up: Any) -> None:
    """Up to a day earlier, so that `joinsight regressions --since 7d` and the view use them; else where it is asked."""
    engine, as_of = store[0], rolled_up.as_of
    window = text("SELECT joinsight_window(:since)")
    with engine.connect() as connection:
        for since, begins in (
            (as_of, as_of),
            (as_of + timedelta(hours=23, minutes=59), as_of),
            (as_of + timedelta(hours=24), as_of + timedelta(hours=24)),
            (as_of - timedelta(seconds=1), as_of - timedelta(seconds=1)),
        ):
            assert connection.scalar(window, {"since": since}) == begins
        rows = read_regressions(connection, END - timedelta(days=7), {}, limit=1_000)
    assert {(row["query_shape"], row["measure"]) for row in rows} == {
        (row["query_shape"], row["measure"]) for row in found(engine, as_of)
    }


@pytest.mark.matrix
def test_only_days_with_news_are_rolled_up_again(store: tuple[Engine, Planted], rolled_up: Any, spark: Any) -> None:
    """A row that came late, one that was replaced, today and yesterday; and then everything is right again."""
    from joinsight.spark.rollup import ranges_of, stale_days

    engine = store[0]
    assert stale_days(engine, FIRST, END) == DAYS[-2:]
    assert stale_days(engine, FIRST, END + timedelta(days=9)) == []
    assert stale_days(engine, DAYS[-1], END) == DAYS[-1:]
    with engine.begin() as connection:
        late = "started_at >= '2026-11-02' AND started_at < '2026-11-03'"
        newer = "started_at >= '2026-11-05' AND started_at < '2026-11-06'"
        columns = ", ".join(tables.execution.columns.keys())
        values = columns.replace("application_id", "'late'")
        connection.execute(
            text(f"INSERT INTO execution ({columns}) SELECT {values} FROM execution WHERE {late} LIMIT 1")
        )
        connection.execute(text(f"UPDATE execution SET tasks = 9, updated_at = now() WHERE {newer}"))
    days = stale_days(engine, FIRST, END)
    assert days == [date(2026, 11, 2), date(2026, 11, 5), *DAYS[-2:]]
    assert [(since.day, until.day) for since, until in ranges_of(days)] == [(2, 3), (5, 6), (19, 21)]
    assert roll_up(spark, engine).days == 4
    assert stale_days(engine, FIRST, END) == DAYS[-2:]
    assert rows_of(engine, select(tables.rollup_day)) == approximately(rows_of(engine, text(QUERIES)))


@pytest.mark.matrix
def test_a_run_that_dies_leaves_nothing_wrong(store: tuple[Engine, Planted], rolled_up: Any, spark: Any) -> None:
    """Days are there as they were or as they should be, and the next run finds those that want it."""
    engine = store[0]
    before = rows_of(engine, select(tables.rollup_day))
    with engine.begin() as connection:
        connection.execute(delete(tables.rollup_day).where(tables.rollup_day.c.day >= date(2026, 11, 10)))
        connection.execute(text("ALTER TABLE rollup_day ADD CONSTRAINT dies CHECK (day <> '2026-11-15')"))
    with pytest.raises(Exception, match="dies"):
        roll_up(spark, engine)
    left = rows_of(engine, select(tables.rollup_day))
    assert all(row in before for row in left) and len(left) < len(before)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE rollup_day DROP CONSTRAINT dies"))
    roll_up(spark, engine)
    assert rows_of(engine, select(tables.rollup_day)) == approximately(before)


@pytest.mark.matrix
def test_rollups_from_parquet_equal_those_from_postgresql(
    store: tuple[Engine, Planted], rolled_up: Any, spark: Any, tmp_path: Path
) -> None:
    from joinsight.spark.export import export

    engine = store[0]
    before = {table: rows_of(engine, select(table)) for table in tables.ROLLUPS}
    list(export(spark, engine, str(tmp_path), sorted(TABLES), None, None, CONNECTIONS))
    with engine.begin() as connection:
        for table in tables.ROLLUPS:
            connection.execute(delete(table))
    roll_up(spark, engine, DAYS, path=tmp_path)
    for table in tables.ROLLUPS:
        found, expected = rows_of(engine, select(table)), approximately(before[table])
        for row in (*found, *expected):
            if row.get("plan_fingerprints") is not None:
                row["plan_fingerprints"] = sorted(row["plan_fingerprints"])
        assert found == expected


def test_old_totals_are_forgotten(store: tuple[Engine, Planted], rolled_up: Any) -> None:
    """Only totals of days before the given one are deleted."""
    from joinsight.spark.rollup import delete_before

    engine = store[0]
    assert delete_before(engine, FIRST) == 0
    with engine.connect() as connection:
        first = text("SELECT count(*) FROM rollup_day WHERE day = :day")
        assert connection.scalar(first, {"day": FIRST}) > 0
    assert delete_before(engine, FIRST + timedelta(days=1)) > 0
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT min(day) FROM rollup_day")) == FIRST + timedelta(days=1)


def test_nothing_to_roll_up(spark: Any, make_database: Callable[[], str]) -> None:
    """A new database, or a history that has no run before the window, is no error."""
    with connect(make_database()) as engine:
        upgrade(engine)
        done = roll_up(spark, engine)
    assert (done.days, done.queries, done.operators, done.baselines) == (0, 0, 0, 0)


def test_parquet_wants_a_time() -> None:
    """Parquet requires a time, which tells the days to read."""
    from click.testing import CliRunner

    result = CliRunner().invoke(commands.rollup, ["--from", "/tmp/somewhere"])
    assert "--since=None: --from needs the first day to read" in str(result.exception)
