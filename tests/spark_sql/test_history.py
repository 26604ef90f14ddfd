"""`joinsight.history`: what Spark reads is what PostgreSQL has."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, make_url, text
from tests.history import Planted
from tests.spark_sql.conftest import END, LONG

import joinsight
from joinsight.base.errors import ConfigurationError, DatabaseError, SchemaError
from joinsight.spark import read
from joinsight.tables import views

pytestmark = [
    pytest.mark.spark,
    *LONG,
    pytest.mark.filterwarnings("ignore"),
]  # PySpark's own warnings are not ours to heed
SOME = ["execution", "delivery", "v_shuffles", "rollup_operator_day"]
REST = sorted(views.RELATIONS.keys() - SOME)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def url_of(engine: Engine) -> str:
    """The URL of the database, with its password."""
    return engine.url.render_as_string(hide_password=False)


def of_postgres(engine: Engine, table: str, condition: str = "true") -> Counter[str]:
    """Rows as PostgreSQL gives them to psycopg."""
    columns = ", ".join(
        f'CAST("{column.name}" AS text)' if read._field(column).arrow == "string" else f'"{column.name}"'
        for column in read.TABLES[table].columns
    )
    with engine.connect() as connection:
        rows = connection.execute(text(f"SELECT {columns} FROM {table} WHERE {condition}"))
        return Counter(repr(tuple(row)) for row in rows)


def of_spark(frame: Any) -> Counter[str]:
    """Rows as Spark has them. Its moments come as microseconds, in which no time zone has a part."""
    from pyspark.sql import functions as f

    moments = {name for name, kind in frame.dtypes if kind == "timestamp"}
    names = frame.columns
    rows = frame.select([f.unix_micros(name).alias(name) if name in moments else name for name in names]).collect()

    def value(name: str, found: Any) -> Any:
        return EPOCH + timedelta(microseconds=found) if name in moments and found is not None else found

    return Counter(repr(tuple(value(*each) for each in zip(names, row, strict=True))) for row in rows)


@pytest.mark.parametrize("table", SOME + [pytest.param(name, marks=pytest.mark.matrix) for name in REST])
def test_every_row_of_every_table(spark: Any, engine: Engine, planted: Planted, table: str) -> None:
    """Values, types and NULLs are those that PostgreSQL gives, also of the default partition and of long rows."""
    frame = joinsight.history(spark, table, url=url_of(engine))
    expected = of_postgres(engine, table)
    assert of_spark(frame) == expected
    assert expected or table in (
        "alarm",
        "aqe_decision",
        "cache",
        "cause",
        "forecast",
        "notification",
        "segment",
        "v_segments",
        "v_regressions",
        "v_cached_tables",
        "v_finding_groups",
        "v_streams",
        "watched_query",
    )


@pytest.mark.parametrize(
    ("table", "since", "until"),
    [
        ("execution", END - timedelta(days=2, hours=3), None),
        ("v_shuffles", END - timedelta(days=6), END - timedelta(days=2)),
        ("v_joins", END.replace(year=2020, tzinfo=None), END.replace(year=2021, tzinfo=None)),
        pytest.param("v_shuffles", None, END - timedelta(days=6), marks=pytest.mark.matrix),
        pytest.param("execution", END, END - timedelta(days=1), marks=pytest.mark.matrix),
    ],
)
def test_a_range_of_time_excludes_its_end(
    spark: Any, engine: Engine, planted: Planted, table: str, since: datetime | None, until: datetime | None
) -> None:
    """The range includes its start and excludes its end."""
    frame = joinsight.history(spark, table, since=since, until=until, url=url_of(engine))
    condition = " AND ".join(
        f"started_at {sign} '{moment.replace(tzinfo=timezone.utc)}'"
        for sign, moment in ((">=", since), ("<", until))
        if moment is not None
    )
    assert of_spark(frame) == of_postgres(engine, table, condition)


def test_only_the_given_columns_are_read(spark: Any, engine: Engine, planted: Planted) -> None:
    frame = joinsight.history(spark, "execution", columns=["error"], url=url_of(engine))
    assert frame.dtypes == [("error", "string")]
    with engine.connect() as connection:
        expected = connection.execute(text("SELECT error, count(*) FROM execution GROUP BY error")).all()
    assert {tuple(row) for row in frame.groupBy("error").count().collect()} == {tuple(row) for row in expected}
    assert len(expected) > 1


def test_each_column_has_a_type_that_holds_its_values(spark: Any, engine: Engine, planted: Planted) -> None:
    kinds = dict(joinsight.history(spark, "execution", url=url_of(engine)).dtypes)
    kinds |= dict(joinsight.history(spark, "shuffle", url=url_of(engine)).dtypes)
    kinds |= dict(joinsight.history(spark, "delivery", url=url_of(engine)).dtypes)
    expected = {
        "started_at": "timestamp",
        "duration_ms": "bigint",
        "jobs": "int",
        "is_adaptive": "boolean",
        "skew_ratio": "double",
        "job_tags": "array<string>",
        "map_stages": "array<int>",
        "configuration": "string",
        "sequences_arrived": "string",
    }
    assert {name: kinds[name] for name in expected} == expected


def test_connections_are_bounded(spark: Any, engine: Engine, planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pieces a table has, they are shared out to so many partitions, each with a stretch of time."""
    monkeypatch.setattr(read, "CHUNK_BYTES", 10_000)
    pieces = list(read._chunks(engine, "execution", read.ALWAYS))
    assert len(pieces) > 100
    assert all(piece.until <= after.since for piece, after in pairwise(pieces))
    frame = joinsight.history(spark, "execution", url=url_of(engine), connections=3)
    assert frame.rdd.getNumPartitions() == 3
    assert of_spark(frame) == of_postgres(engine, "execution")


def test_the_password_is_shown_nowhere(spark: Any, engine: Engine, planted: Planted, event_log: Path) -> None:
    """The password is not in plans, which the UI shows, the event log or Spark's configuration."""
    password = str(engine.url.password)
    assert len(password) > 8
    frame = joinsight.history(spark, "joins", url=url_of(engine))
    frame.groupBy("strategy").count().collect()
    execution = frame._jdf.queryExecution()
    logged = "".join(path.read_text() for path in event_log.iterdir() if not path.name.startswith("."))
    assert "MapInArrow" in logged
    for shown in (
        execution.toString(),
        execution.optimizedPlan().toJSON(),
        execution.executedPlan().toJSON(),
        logged,
        repr(spark.sparkContext.getConf().getAll()),
    ):
        assert password not in shown
    wrong = make_url(url_of(engine)).set(password="another-secret").render_as_string(hide_password=False)
    with pytest.raises(DatabaseError) as error:
        joinsight.history(spark, "joins", url=wrong)
    assert "another-secret" not in str(error.value)


def test_what_is_wrong_is_said(spark: Any, engine: Engine, make_database: Callable[[], str]) -> None:
    """A name that is not there, a time where there is none, a database without our schema."""
    with pytest.raises(ConfigurationError, match=r"table='join': unknown table or view\. Name one .*\bapplication,"):
        joinsight.history(spark, "join", url=url_of(engine))
    with pytest.raises(ConfigurationError, match="columns='rows': joins has no such column"):
        joinsight.history(spark, "joins", columns=["rows"], url=url_of(engine))
    with pytest.raises(ConfigurationError, match=r"application.*its rows do not belong to executions"):
        joinsight.history(spark, "application", since=END, url=url_of(engine))
    with pytest.raises(SchemaError):
        joinsight.history(spark, "joins", url=make_database())


def test_nothing_of_spark_is_imported_before_it_is_asked_for() -> None:
    """A driver that only attaches the listener imports neither PySpark nor PyArrow, nor the store; nor does the CLI."""
    heavy = "{'pyspark', 'pyarrow', 'pandas', 'sqlalchemy'}"
    for module, of in (("joinsight", heavy), ("joinsight.cli", "{'pyspark', 'pyarrow', 'pandas'}")):
        subprocess.run([sys.executable, "-c", f"import sys, {module}; assert not {of} & set(sys.modules)"], check=True)
