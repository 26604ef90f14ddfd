"""Pruning deletes whole old months and what is left of their applications, without blocking others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, func, select, text
from tests.documents import application, execution, planned
from tests.waiting import until

from joinsight.base.errors import DatabaseError
from joinsight.cli import cli
from joinsight.contract.document import Execution
from joinsight.store import prune
from joinsight.store.database import exclusively
from joinsight.store.partitions import create_ahead
from joinsight.store.prune import preview
from joinsight.store.writer import Writer
from joinsight.tables import PARTITIONED, execution_plans, metadata, shuffle
from joinsight.tables import execution as execution_table

PLAN = """
    BroadcastHashJoin | [k#1], [k#2], Inner, BuildRight, false | number of output rows=3
      Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900, records read=1+2+9
      BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=9, time to collect=1, time to build=1
"""
PROGRAMS = Path(__file__).parent / "programs"
KEEP = timedelta(days=100)


@pytest.fixture
def engine(empty: Engine) -> Engine:
    """A store of its own for each test."""
    return empty


def ago(days: float) -> int:
    """Milliseconds of the epoch, so many days ago."""
    return int((datetime.now(timezone.utc) - timedelta(days=days)).timestamp() * 1000)


def ran(app: str, days: float, number: int = 0) -> Execution:
    """An execution with a plan, so many days ago."""
    return planned(PLAN, application_id=app, execution_id=number, started_at_ms=ago(days), ended_at_ms=ago(days))


def last_heard(engine: Engine, app: str, days: float) -> None:
    """Simulate that an application's documents arrived this many days ago."""
    with engine.begin() as connection:
        for name, column in (("application", "updated_at"), ("delivery", "last_heard_at"), ("execution", "updated_at")):
            statement = f"UPDATE {name} SET {column} = now() - :ago WHERE application_id = :app"
            connection.execute(text(statement), {"ago": timedelta(days=days), "app": app})


def applications(engine: Engine) -> dict[str, list[str]]:
    """The application ids of each table that has any."""
    with engine.connect() as connection:
        found = {
            table.name: connection.scalars(select(table.c.application_id).distinct().order_by("application_id")).all()
            for table in metadata.sorted_tables
            if "application_id" in table.c
        }
    return {name: list(ids) for name, ids in found.items() if ids}


def months(engine: Engine, table: str = "execution") -> list[str]:
    """The months of a table, oldest first."""
    with engine.connect() as connection:
        statement = "SELECT CAST(inhrelid AS regclass)::text FROM pg_inherits WHERE inhparent = CAST(:t AS regclass)"
        names = connection.scalars(text(statement), {"t": table}).all()
    return sorted(name.removeprefix(f"{table}_") for name in names if not name.endswith("_default"))


def command(engine: Engine, *arguments: str) -> Result:
    """Run `joinsight db prune`."""
    database = engine.url.render_as_string(hide_password=False)
    return CliRunner().invoke(cli, ["db", "prune", *arguments], env={"JOINSIGHT_DATABASE_URL": database})


def fill(engine: Engine) -> None:
    """Applications of 400 and 200 days ago and of now; two that end and begin where a month is cut."""
    writer = Writer(engine)
    old = (datetime.now(timezone.utc) - KEEP).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    cut = int(old.timestamp() * 1000)
    for app, time_ms in (("a400", ago(400)), ("a200", ago(200)), ("before", cut - 1), ("after", cut), ("now", ago(0))):
        document = planned(PLAN, application_id=app, started_at_ms=time_ms, ended_at_ms=time_ms)
        writer.write([application(application_id=app, started_at_ms=time_ms), document])
        last_heard(engine, app, (ago(0) - time_ms) / 86_400_000)


def test_a_month_goes_as_a_whole(engine: Engine) -> None:
    """A month that ended longer ago goes with its executions, and they with their applications; no other does."""
    fill(engine)
    found = preview(engine, KEEP)
    assert applications(engine)["execution"] == ["a200", "a400", "after", "before", "now"]
    pruned = prune.prune(engine, KEEP)
    assert pruned == found
    assert (pruned.applications, pruned.deliveries, pruned.misdated) == (3, 3, 0)
    tables = {part.table for part in pruned.partitions}
    assert tables == {table.name for table in PARTITIONED}
    kept = ["after", "now"]
    assert applications(engine) == dict.fromkeys(applications(engine), kept)
    assert {"joins", "shuffle", "broadcast", "execution_plans", "application", "delivery"} <= set(applications(engine))
    again = prune.prune(engine, KEEP)
    assert (again.partitions, again.applications, again.deliveries) == ([], 0, 0)


def test_applications_that_stay(engine: Engine) -> None:
    """Applications with recent contact or executions stay; rows with refused documents only are pruned by age."""
    writer = Writer(engine)
    for app in ("quiet", "heard", "old"):
        writer.write([application(application_id=app), ran(app, 200)])
    writer.write([ran("old", 50, 1)])
    writer.write([], [(execution(application_id="refused"), "bad")])
    writer.write([application(application_id="idle", sequence=2, state="ended", ended_at_ms=ago(120))])
    for app in ("quiet", "old", "refused"):
        last_heard(engine, app, 101)
    last_heard(engine, "idle", 100.5)
    found = preview(engine, KEEP)
    assert prune.prune(engine, KEEP) == found
    assert (found.applications, found.deliveries) == (2, 3)
    assert applications(engine)["application"] == ["heard", "old"]
    assert applications(engine)["delivery"] == ["heard", "old"]


def test_rows_of_the_default_partition_are_pruned_by_their_storage(engine: Engine) -> None:
    """Its times are wrong, so the time of storage counts; --misdated deletes all of it."""
    writer = Writer(engine)
    for app in ("long", "new"):
        document = planned(PLAN, application_id=app, started_at_ms=0, ended_at_ms=1)
        writer.write([application(application_id=app), document])
    last_heard(engine, "long", 101)
    found = preview(engine, KEEP)
    assert prune.prune(engine, KEEP) == found
    assert (found.misdated, found.applications) == (1, 1)
    assert applications(engine) == {name: ["new"] for name in applications(engine)}
    assert "shuffle" in applications(engine)
    result = command(engine, "--keep", "100d", "--misdated")
    assert result.output == "Deleted 0 months, 0 B on disk, 1 executions of the default partition\n"
    assert set(applications(engine)) == {"application", "delivery"}


def test_what_comes_late_is_stored_again(engine: Engine) -> None:
    """A writer that knew the month stores it again; the next prune deletes it."""
    writer = Writer(engine)
    writer.write([ran("a", 300)])
    before = months(engine)
    prune.prune(engine, KEEP)
    assert months(engine) == []
    writer.write([ran("a", 300, 1)])
    assert months(engine) == months(engine, "shuffle") == before
    assert create_ahead(engine) == 0
    assert len(prune.prune(engine, KEEP).partitions) == len(PARTITIONED)


@pytest.mark.matrix
def test_writers_go_on(engine: Engine) -> None:
    """Months are dropped while old and new executions are written: none of the new ones is lost or refused."""
    writer = Writer(engine)
    for number in range(12):
        writer.write([ran("old", 200 + 30 * number, number)])
    done = threading.Event()
    written: list[int] = []
    failed: list[BaseException] = []

    def write(app: str, days: float) -> None:
        own, number = Writer(engine), 0
        try:
            while not done.is_set():
                number += 1
                assert own.write([ran(app, days, number)]).stored == 1
                written.append(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=of) for of in (("new", 1), ("late", 230), ("other", 40))]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(written) >= 10 or failed, "executions are written")
        first, *_ = [prune.prune(engine, KEEP) for _ in range(3)]
        assert first.partitions  # what is written late may be in the default partition since then
        before = len(written)
        until(lambda: len(written) >= before + 10 or failed, "executions are written after the prunes")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed
    with engine.connect() as connection:
        for app in ("new", "other"):
            for table in (execution_table, shuffle, execution_plans):
                where = select(func.count(), func.max(table.c.execution_id)).where(table.c.application_id == app)
                number, last = connection.execute(where).one()
                assert number == last > 1


def test_a_reader_keeps_its_month(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long reader is named, and writers waited no longer than the lock timeout; a later prune succeeds."""
    monkeypatch.setattr(prune, "PAUSES", (0.1, 0.1))
    monkeypatch.setattr(prune, "LOCK_SECONDS", 3)
    Writer(engine).write([ran("a", 300), ran("b", 1)])
    meanwhile = 0
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM shuffle"))
        errors: list[DatabaseError] = []

        def run() -> None:
            with pytest.raises(DatabaseError) as caught:
                prune.prune(engine, KEEP)
            errors.append(caught.value)

        thread = threading.Thread(target=run)
        thread.start()
        number = 0
        while thread.is_alive():
            number += 1
            Writer(engine).write([ran("b", 1, number)])
            meanwhile += thread.is_alive()
        thread.join()
    message = str(errors[0])
    assert "shuffle_" in message and "its table is in use by process" in message and "(joinsight) for 0:" in message
    assert meanwhile, "writers wait for as long as the reader does"
    assert len(months(engine, "joins")) == 1 and len(months(engine, "shuffle")) == len(months(engine)) == 2
    assert applications(engine)["joins"] == ["b"]
    pruned = prune.prune(engine, KEEP)
    assert {part.table for part in pruned.partitions} == {"shuffle", "stage", "execution"}
    assert len(months(engine, "shuffle")) == 1


def test_a_limit_of_idle_transactions_does_not_end_it(engine: Engine) -> None:
    """The connection that excludes other prunes is idle while months are dropped."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        name = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET idle_in_transaction_session_timeout = '1h'"))
    engine.dispose()
    shown = text("SHOW idle_in_transaction_session_timeout")
    with exclusively(engine) as holding, engine.connect() as other:
        assert (other.scalar(shown), holding.scalar(shown)) == ("1h", "0")


def test_a_killed_prune_is_finished_by_the_next(engine: Engine) -> None:
    """A prune that is killed holds no lock any more; each table has its month or has it not, and the next finishes."""
    Writer(engine).write([ran("a", 300)])
    url = engine.url.render_as_string(hide_password=False)
    with engine.connect() as reader:
        reader.execute(text("LOCK TABLE stage IN ACCESS SHARE MODE"))
        program = subprocess.Popen([sys.executable, str(PROGRAMS / "prune.py"), url])
        until(lambda: not months(engine, "joins") or program.poll() is not None, "the joins are dropped")
        assert program.poll() is None
        with pytest.raises(DatabaseError, match="Another program is pruning"):
            prune.prune(engine, KEEP)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    assert len(months(engine, "stage")) == 1

    def pruned() -> bool:
        try:
            prune.prune(engine, KEEP)
        except DatabaseError:  # the server has not seen yet that the other is gone
            return False
        return True

    until(pruned, "the next prune finishes")
    assert all(months(engine, table.name) == [] for table in PARTITIONED)


def test_what_depends_on_a_month_keeps_it(engine: Engine) -> None:
    """A view of someone's own on a partition is not dropped with it."""
    Writer(engine).write([ran("a", 300)])
    month = months(engine)[0]
    with engine.begin() as connection:
        connection.execute(text(f"CREATE VIEW mine AS SELECT * FROM execution_{month}"))
    with pytest.raises(DatabaseError, match=f"execution_{month} cannot be dropped: cannot drop table .* depend"):
        prune.prune(engine, KEEP)
    assert months(engine) == [month]


def test_a_dry_run_deletes_nothing(engine: Engine) -> None:
    """A dry run says by month and table what would go, and deletes nothing; the real one says what went."""
    fill(engine)
    before = applications(engine), months(engine)
    dry = command(engine, "--keep", "100d", "--dry-run")
    assert (applications(engine), months(engine)) == before
    done = command(engine, "--keep", "100d")
    assert (dry.exit_code, done.exit_code) == (0, 0)
    assert done.output == dry.output.replace("Would delete", "Deleted")
    assert "Would delete 3 months, " in dry.output
    assert dry.output.rstrip().endswith("on disk, 3 applications, 3 rows of delivery")
    first = f"{datetime.now(timezone.utc) - timedelta(days=400):%Y-%m}  aqe_decision "
    assert first in dry.output and "shuffle " in dry.output
    assert command(engine, "--keep", "100d").output == "Deleted 0 months, 0 B on disk\n"


@pytest.mark.parametrize("wrong", ["23h", "0d", "-5d", "400", "soon", "99999999999999w", "9999999d"])
def test_keep_is_checked(engine: Engine, wrong: str) -> None:
    """Less than a day, longer than there are computers, or no time at all."""
    result = command(engine, f"--keep={wrong}")
    assert result.exit_code == 2
    assert f"'{wrong}' is not a valid duration; write 400d or 52w, at least 1d." in result.output
    assert command(engine).exit_code == 2
