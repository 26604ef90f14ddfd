"""Partitions exist before their month, and rows in the default partition are reported."""

from __future__ import annotations

import os
import re
from datetime import date, datetime, timedelta, timezone

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import ProgrammingError
from tests.documents import execution, planned

from joinsight import tables
from joinsight.base.errors import DatabaseError
from joinsight.cli import cli
from joinsight.store import partitions, writer
from joinsight.store.database import upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.partitions import create_ahead, month_of
from joinsight.store.prune import prune
from joinsight.store.writer import Writer

PLAN = "SortMergeJoin | [k#1], [k#2], Inner\n  Exchange | hashpartitioning(k#1, 8), [plan_id=1]"


@pytest.fixture
def engine(empty: Engine) -> Engine:
    """A store of its own for each test."""
    return empty


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


def shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[misc, arg-type]


def test_every_table_has_the_months_ahead(engine: Engine) -> None:
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
    with monkeypatch.context() as patch, engine.begin() as reader:
        patch.setattr(partitions, "LOCK_SECONDS", 0.1)
        reader.execute(text("SELECT count(*) FROM broadcast"))
        with pytest.raises(DatabaseError, match=r"broadcast is in use by process \d+ of .* \(joinsight\) for 0:"):
            create_ahead(engine)
        upgraded = CliRunner().invoke(cli, ["db", "upgrade", "--database-url", shown(engine)])
        assert (upgraded.exit_code, "were not created: table broadcast is in use" in upgraded.output) == (0, True)
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


def test_a_reader_that_idles_keeps_no_row_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of a month that cannot be created go to the default partitions, and move when the reader is gone."""
    create_ahead(engine)
    late = Writer(engine)
    with monkeypatch.context() as patch, engine.begin() as reader:
        patch.setattr(partitions, "LOCK_SECONDS", 0.1)
        reader.execute(text("SELECT count(*) FROM execution"))
        assert late.write([planned(PLAN, started_at_ms=ms(2024, 5, 1), ended_at_ms=ms(2024, 5, 1))]).stored == 1
        assert "rows of new months go to the default partitions for now: table" in caplog.text
        waited = caplog.text
        assert late.write([planned(PLAN, execution_id=1, started_at_ms=ms(2024, 5, 2))]).stored == 1
        assert caplog.text == waited, "it pauses before it asks for the table again"
        assert "2024_05" not in months(engine, "execution")
    assert create_ahead(engine) == 0
    with engine.connect() as connection:
        for table in ("execution", "joins", "execution_plans"):
            homes = connection.scalars(text(f"SELECT tableoid::regclass::text FROM {table}"))
            assert homes.all() == [f"{table}_2024_05"] * 2


def test_a_writer_tries_again_after_a_pause(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The month of later rows is created, and earlier ones move there."""
    monkeypatch.setattr(writer, "BUSY_SECONDS", 0)
    late = Writer(engine)
    with monkeypatch.context() as patch, engine.begin() as reader:
        patch.setattr(partitions, "LOCK_SECONDS", 0.1)
        reader.execute(text("SELECT count(*) FROM execution"))
        late.write([execution(started_at_ms=ms(2024, 5, 1))])
    late.write([execution(execution_id=1, started_at_ms=ms(2024, 5, 2))])
    with engine.connect() as connection:
        homes = connection.scalars(text("SELECT tableoid::regclass::text FROM execution"))
        assert homes.all() == ["execution_2024_05"] * 2


def test_a_batch_creates_at_most_six_months(engine: Engine) -> None:
    """The newest; other rows go to the default partitions, and a collector creates their months in the background."""
    Writer(engine).write([execution(execution_id=month, started_at_ms=ms(2024, month, 1)) for month in range(1, 13)])
    assert months(engine, "execution") == [*(f"2024_{month:02}" for month in range(7, 13)), "default"]
    assert create_ahead(engine) == 0
    made = [f"2024_{month:02}" for month in range(1, 13)]
    for table in tables.PARTITIONED:
        assert months(engine, table.name) == sorted([*made, *ahead(), "default"])


def test_a_reader_can_stop_nothing(engine: Engine) -> None:
    """A role that may only read has no right to a lock that creating, pruning, upgrading or marking wait for."""
    role = f"idle_{os.getpid()}"
    grant_reader(engine, role)
    try:
        with engine.connect() as reader:
            reader.execute(text(f"SET ROLE {role}"))
            for key in range(0x6A6F696E, 0x6A6F6972):  # those of earlier releases
                reader.execute(text(f"SELECT pg_advisory_lock({key})"))
            reader.commit()
            for mode in ("SHARE UPDATE EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"):
                with pytest.raises(ProgrammingError, match="permission denied"):
                    reader.execute(text(f"LOCK TABLE alembic_version IN {mode} MODE"))
                reader.rollback()
                reader.execute(text(f"SET ROLE {role}"))
            create_ahead(engine)
            with engine.begin() as connection:
                connection.execute(text("COMMENT ON TABLE alembic_version IS 'of before'"))
            upgrade(engine)
            Writer(engine).write([execution(started_at_ms=ms(2024, 5, 1))])
            assert len(prune(engine, timedelta(days=100)).partitions) == len(tables.PARTITIONED)
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))


def test_rows_without_their_execution_leave_the_default_partition(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a month is pruned while a late document of it is written: the next prune drops them with their month."""
    with monkeypatch.context() as patch, engine.begin() as reader:
        patch.setattr(partitions, "LOCK_SECONDS", 0.1)
        reader.execute(text("SELECT count(*) FROM joins"))
        Writer(engine).write([planned(PLAN, started_at_ms=ms(2024, 5, 1))])
    with engine.begin() as connection:
        assert connection.execute(text("DELETE FROM execution_default")).rowcount == 1
    assert create_ahead(engine) == 0
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT tableoid::regclass::text FROM joins")) == "joins_2024_05"
    assert "joins" in {partition.table for partition in prune(engine, timedelta(days=100)).partitions}


def test_a_rollup_looks_for_stale_days_in_their_months_only(engine: Engine) -> None:
    """Months before the oldest day, and the default partition with its rows, are not read."""
    from joinsight.spark.rollup import stale_days

    days = [(2024, 5, 31), (2024, 6, 1), (2024, 6, 30), (2024, 7, 1)]
    Writer(engine).write([execution(execution_id=at, started_at_ms=ms(*day)) for at, day in enumerate(days)])
    asked: list[tuple[str, object]] = []

    def remember(_c: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", remember)
    found = stale_days(engine, date(2024, 6, 1), datetime(2024, 6, 30, 23, 59, tzinfo=timezone.utc))
    event.remove(engine, "before_cursor_execute", remember)
    assert found == [date(2024, 6, 1), date(2024, 6, 30)]
    ((statement, parameters),) = asked
    with engine.connect() as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())  # type: ignore[arg-type]
    assert set(re.findall(r"execution_(\d{4}_\d\d|default)", plan)) == {"2024_06"}, plan
