"""Partitions exist before their month, and rows in the default partition are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from tests.documents import execution, planned

from joinsight import tables
from joinsight.store import partitions
from joinsight.store.database import connect
from joinsight.store.partitions import create_ahead, month_of
from joinsight.store.writer import Writer

PLAN = "SortMergeJoin | [k#1], [k#2], Inner\n  Exchange | hashpartitioning(k#1, 8), [plan_id=1]"


@pytest.fixture
def engine(make_store: Callable[[], str]) -> Iterator[Engine]:
    """A store of its own for each test."""
    with connect(make_store()) as engine:
        yield engine


def months(engine: Engine, table: str) -> list[str]:
    """The partitions of a table, as suffixes."""
    with engine.connect() as connection:
        found = connection.scalars(
            text("SELECT CAST(inhrelid AS regclass)::text FROM pg_inherits WHERE inhparent = CAST(:t AS regclass)"),
            {"t": table},
        )
        return sorted(name.removeprefix(f"{table}_") for name in found)


def ahead() -> list[str]:
    """This month and those that begin within 62 days."""
    now = datetime.now(timezone.utc)
    return sorted({month_of(now + timedelta(days=days)) for days in range(63)})


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_ahead(engine: Engine) -> None:
    """Every table has this month and the next ones; a second time changes nothing."""
    for _ in range(2):
        assert create_ahead(engine) == 0
        for table in tables.PARTITIONED:
            assert months(engine, table.name) == [*ahead(), "default"]


def test_no_month_is_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the last of January, February is the next month."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 1, 31, 23, 59, tzinfo=timezone.utc)

    monkeypatch.setattr(partitions, "datetime", Clock)
    create_ahead(engine)
    assert months(engine, "joins") == ["2026_01", "2026_02", "2026_03", "2026_04", "default"]


def test_rows_of_a_month_that_came_leave_the_default_partition(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was too early when it came moves when its month can be right; what never can stays, and is counted."""
    now = datetime.now(timezone.utc)
    early = int((now + timedelta(days=100)).timestamp() * 1000)
    Writer(engine).write(
        [planned(PLAN, started_at_ms=early), planned(PLAN, execution_id=1, started_at_ms=0, ended_at_ms=5)]
    )
    assert create_ahead(engine) == 2
    monkeypatch.setattr(partitions, "AHEAD", timedelta(days=162))
    assert create_ahead(engine) == 1
    with engine.connect() as connection:
        for table in ("execution", "joins", "execution_plans"):
            homes = connection.scalars(text(f"SELECT tableoid::regclass::text FROM {table} GROUP BY 1 ORDER BY 1"))
            month = month_of(datetime.fromtimestamp(early / 1000, timezone.utc))
            assert homes.all() == [f"{table}_{month}", f"{table}_default"]


def test_ahead_of_time_is_not_worth_a_wait(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes its time makes the maker give up, so that writers do not queue behind it."""
    monkeypatch.setattr(partitions, "AHEAD_LOCK_MS", 100)
    with engine.begin() as reader:
        reader.execute(text("SELECT count(*) FROM broadcast"))
        with pytest.raises(OperationalError, match="lock timeout"):
            create_ahead(engine)
    assert create_ahead(engine) == 0
    assert months(engine, "stage") == [*ahead(), "default"]


def test_a_month_that_was_dropped_is_made_again(engine: Engine) -> None:
    """The same writer, which knew the partition, stores late rows in the right month."""
    writer = Writer(engine)
    writer.write([execution(started_at_ms=ms(2024, 5, 1))])
    with engine.begin() as connection:
        for table in tables.PARTITIONED:
            connection.execute(text(f"DROP TABLE {table.name}_2024_05"))
    writer.write([planned(PLAN, execution_id=1, started_at_ms=ms(2024, 5, 31))])
    for table in tables.PARTITIONED:
        assert months(engine, table.name) == ["2024_05", "default"]
    assert create_ahead(engine) == 0
