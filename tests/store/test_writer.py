"""Documents in a real PostgreSQL are replaced as a whole, in any order of delivery, by concurrent writers."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.exc import DataError, DBAPIError, OperationalError, ProgrammingError
from tests.documents import (
    FULL,
    LISTENER,
    OTHER_LISTENER,
    STARTED_AT_MS,
    Plan,
    PlanNode,
    application,
    execution,
    planned,
    replanned,
    stored_rows,
)
from tests.waiting import SECONDS, until

from joinsight import tables
from joinsight.analysis.rows import Plans, Rows, application_row, execution_rows
from joinsight.contract.document import MAX_LONG, Accumulator, Document, Execution, Listener, Metric, Spread, Stage
from joinsight.store import partitions
from joinsight.store.database import connect
from joinsight.store.writer import Writer
from joinsight.tables import Row, as_columns
from joinsight.tables.views import RELATIONS

_numbers = itertools.count(1)
TASKS = Spread(1, 2, 3, 4, 5)
RAN = Stage(
    7, 0, "count at Query.scala:1", 2, "succeeded", 2, submitted_at_ms=STARTED_AT_MS, run_time=TASKS, run_time_ms=9
)


@pytest.fixture
def app() -> str:
    """The id of an application that no other test uses."""
    return f"application-{next(_numbers)}"


def read(engine: Engine, table: str, app: str) -> list[Row]:
    """An application's rows of a table, by its key."""
    of = RELATIONS[table]
    statement = select(of).where(of.c.application_id == app).order_by(*of.primary_key)
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def expected(document: Execution) -> dict[str, list[Row]]:
    """Rows as they are read back: lists instead of tuples."""
    plain = {
        table: [{name: _plain(value) for name, value in row.items()} for row in rows]
        for table, rows in stored_rows(document).items()
    }
    for table, rows in plain.items():
        rows.sort(key=lambda row, table=table: [row[key.name] for key in RELATIONS[table].primary_key])  # type: ignore[misc]
    return plain


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def check_stored(engine: Engine, document: Execution) -> None:
    """Exactly the rows of this document are stored."""
    for table, rows in expected(document).items():
        found = read(engine, table, document.application_id)
        for row in (*rows, *found):
            row.pop("updated_at", None)
        assert found == rows, table


def test_rows_are_read_back_equal(engine: Engine, app: str) -> None:
    """All tables hold what the document's rows say, number by number."""
    told = {"application_id": app, "stages": [RAN], "tags": {"team": "retail"}, "incomplete": ["a", "b"]}
    document = replanned("Exchange | SinglePartition", FULL, **told)
    written = Writer(engine).write([document])
    assert (written.stored, written.stale, written.refused) == (1, 0, [])
    check_stored(engine, document)
    assert all(
        read(engine, table, app)
        for table in {"application", "delivery", *(t.name for t in tables.PARTITIONED)} - {"finding"}
    )
    with engine.connect() as connection:  # an SQL NULL, not JSON's null
        count = text("SELECT count(*) FROM plan_node WHERE application_id = :app AND metadata IS NULL")
        assert connection.scalar(count, {"app": app}) == 7
    age = datetime.now(timezone.utc) - only(read(engine, "execution", app))["updated_at"]
    assert timedelta(0) <= age < timedelta(minutes=1)


def test_versions_share_nodes(engine: Engine, app: str) -> None:
    """A node of several versions is stored once, and each version is read back with its own ids, clusters and order."""
    metrics = [Metric("data size", 7, "size")]
    scan = PlanNode("Scan parquet", 1, "Scan parquet [k#1]", {"Format": "Parquet"}, metrics)
    exchange = PlanNode("Exchange", 0, "Exchange SinglePartition", {}, metrics)
    root, codegen = PlanNode("AdaptiveSparkPlan", -1), PlanNode("WholeStageCodegen (1)", 0)
    drafts = [
        [root, exchange, scan],
        [],
        [root, codegen, scan, scan._replace(parent=2, metrics=())],
        [root, exchange, scan, scan],
    ]
    document = execution(application_id=app, plans=[Plan(STARTED_AT_MS + at, each) for at, each in enumerate(drafts)])
    assert (Writer(engine).write([document]).stored, len(document.plans)) == (1, 4)
    check_stored(engine, document)
    assert [len(row["nodes"]) for row in read(engine, "plan_version", app)] == [3, 0, 4, 4]
    (packed,) = read(engine, "execution_plans", app)
    names = [name for name, *_ in packed["nodes"]]
    assert Counter(names) == {
        "AdaptiveSparkPlan": 1, "Exchange": 1, "WholeStageCodegen (1)": 1, "Scan parquet": 3,
    }  # fmt: skip
    document = execution(application_id=app, execution_id=1, plans=[Plan(STARTED_AT_MS, [])])
    assert Writer(engine).write([document]).stored == 1
    assert [row["nodes"] for row in read(engine, "plan_version", app)][-1] == []


def test_an_empty_batch_writes_nothing(engine: Engine) -> None:
    written = Writer(engine).write([])
    assert (written.stored, written.stale, written.finished, written.refused) == (0, 0, [], [])


def test_a_batch_over_one_statement_is_stored_whole(engine: Engine, app: str) -> None:
    documents = [execution(application_id=app, execution_id=number, stages=[RAN]) for number in range(1_201)]
    written = Writer(engine).write(documents)
    assert (written.stored, len(written.finished)) == (1_201, 1_201)
    assert len(read(engine, "execution", app)) == len(read(engine, "stage", app)) == 1_201
    assert (Writer(engine).write(documents).stale) == 1_201


# Deliveries


WITHOUT_START: dict[str, Any] = {
    "started_at_ms": STARTED_AT_MS + 20,
    "incomplete": ["its start was not seen"],
    "incomplete_codes": ["start_not_seen"],
}
LOG: dict[str, Any] = {"origin": "event_log", "listener": OTHER_LISTENER, "sequence": 50}


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        (WITHOUT_START, LOG, "event_log"),
        (LOG, WITHOUT_START, "event_log"),
        ({**WITHOUT_START, "state": "lost"}, LOG, "event_log"),
        (WITHOUT_START, {**LOG, "state": "running"}, "live"),
        ({**LOG, "state": "running"}, WITHOUT_START, "live"),
        ({"stages": [RAN]}, {**LOG, **WITHOUT_START}, "live"),
        ({"state": "lost"}, {**LOG, **WITHOUT_START}, "event_log"),
    ],
)
def test_an_execution_whose_start_was_not_seen_is_one_row_with_that_of_its_log(
    engine: Engine, app: str, first: dict[str, Any], second: dict[str, Any], stays: str
) -> None:
    """Its start is in the key, and the first event's time stands for it where the start was missed."""
    documents = [planned(FULL, application_id=app, **each) for each in (first, second)]
    writer = Writer(engine)
    assert writer.write(documents[:1]).stored == 1
    written = writer.write(documents[1:])
    is_replaced = documents[1].origin == stays
    assert (written.stored, written.stale) == (is_replaced, not is_replaced)
    assert written.repaired == (is_replaced and stays == "event_log")
    check_stored(engine, documents[is_replaced])


def test_two_rows_of_an_execution_become_one_when_its_log_is_read_again(engine: Engine, app: str) -> None:
    """Those that earlier versions wrote."""
    live, log = (execution(application_id=app, **each) for each in (WITHOUT_START, LOG))
    writer = Writer(engine)
    writer.write([log])
    with engine.begin() as connection:  # hidden from the writer
        connection.execute(
            text("UPDATE execution SET application_id = 'x' || :app WHERE application_id = :app"), {"app": app}
        )
    writer.write([live])
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE execution SET application_id = :app WHERE application_id = 'x' || :app"), {"app": app}
        )
    assert len(read(engine, "execution", app)) == 2
    writer.write([log])
    assert [row["origin"] for row in read(engine, "execution", app)] == ["event_log"]


def test_a_newer_document_replaces_the_execution(engine: Engine, app: str) -> None:
    """A newer document replaces the execution as a whole: nothing of the older one is left."""
    first = planned(FULL, application_id=app, stages=[RAN], state="running", tags={"a": "b"})
    second = execution(application_id=app, sequence=2, description="over")
    writer = Writer(engine)
    assert writer.write([first]).stored == 1
    assert writer.write([second]).stored == 1
    check_stored(engine, second)
    assert read(engine, "shuffle", app) == []


def test_older_and_repeated_are_ignored(engine: Engine, app: str) -> None:
    """What was seen already, or was overtaken, changes nothing."""
    newest = planned(FULL, application_id=app, sequence=5)
    writer = Writer(engine)
    writer.write([newest])
    for sequence in (5, 4, 1):
        written = writer.write([execution(application_id=app, sequence=sequence, state="failed")])
        assert (written.stored, written.stale, written.finished) == (0, 1, [])
    check_stored(engine, newest)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("cut", range(3))
def test_the_newest_document_stays_in_any_order(engine: Engine, app: str, order: tuple[int, ...], cut: int) -> None:
    """However documents are ordered and cut into batches, the newest is what is stored; it finishes once."""
    documents = [
        execution(application_id=app, sequence=1, state="running"),
        planned(FULL, application_id=app, sequence=2, state="running"),
        planned(FULL, application_id=app, sequence=3, stages=[RAN]),
    ]
    writer = Writer(engine)
    batches = [writer.write([documents[i] for i in some]) for some in (order[:cut], order[cut:])]
    check_stored(engine, documents[2])
    assert sum(len(written.finished) for written in batches) == 1
    assert sum(written.stored + written.stale for written in batches) == 3


def test_what_has_finished(engine: Engine, app: str) -> None:
    """An execution finishes when it is first stored as succeeded or failed; it may have been lost before."""
    writer = Writer(engine)

    def finished(*documents: Document) -> list[tuple[int, str]]:
        rows = [found.execution for found in writer.write(documents).finished]
        return [(row.execution_id, row.state) for row in rows]

    def doc(number: int, sequence: int, state: str) -> Execution:
        return execution(application_id=app, execution_id=number, sequence=sequence, state=state)

    assert finished(doc(1, 1, "running"), doc(2, 2, "running")) == []
    assert finished(doc(1, 3, "failed"), doc(2, 4, "running"), doc(3, 5, "succeeded")) == [
        (1, "failed"),
        (3, "succeeded"),
    ]
    assert finished(doc(1, 3, "failed"), doc(2, 6, "lost"), doc(3, 7, "succeeded")) == []
    assert finished(doc(1, 8, "succeeded"), doc(2, 8, "succeeded")) == [(2, "succeeded")]
    assert finished(doc(1, 9, "lost"), doc(2, 9, "failed")) == []


def test_executions_are_told_apart(engine: Engine, app: str) -> None:
    """The same number in another attempt, or from another start, is another execution."""
    documents = [
        execution(application_id=app),
        execution(application_id=app, attempt_id="2"),
        execution(application_id=app, execution_id=1),
    ]
    assert Writer(engine).write(documents).stored == 3
    assert len(read(engine, "execution", app)) == 3
    assert len(read(engine, "application", app)) == 2


# Applications


def test_an_execution_alone_makes_its_application_known(engine: Engine, app: str) -> None:
    Writer(engine).write([execution(application_id=app, application_name="etl", tags={"a": "b"})])
    row = only(read(engine, "application", app))
    assert (row["state"], row["name"], row["tags"], row["started_at"], row["sequence"]) == (
        "unknown", "etl", {"a": "b"}, None, 0,
    )  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_newest_application_stays_in_any_order(engine: Engine, app: str, order: tuple[int, ...], size: int) -> None:
    last = application(application_id=app, sequence=4, state="ended", ended_at_ms=STARTED_AT_MS, user="ada")
    documents: list[Document] = [
        application(application_id=app, sequence=1),
        execution(application_id=app, sequence=2),
        execution(application_id=app, sequence=3, execution_id=1),
        last,
    ]
    writer = Writer(engine)
    stored = stale = 0
    for start in range(0, 4, size):
        written = writer.write([documents[i] for i in order[start : start + size]])
        stored, stale = stored + written.stored, stale + written.stale
    row = only(read(engine, "application", app))
    assert row | {"updated_at": None} == as_columns(application_row(last))
    first_comes_last = order.index(0) > order.index(3) or order.index(0) // size == order.index(3) // size
    assert (stored, stale) == ((3, 1) if first_comes_last else (4, 0))


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
def test_the_later_of_two_listeners_counts(engine: Engine, app: str, together: bool) -> None:
    """With two listeners the later document counts, unless it reports a finished execution as running."""
    later: dict[str, Any] = {"application_id": app, "sequence": 1, "listener": OTHER_LISTENER}
    documents: list[Document] = [
        application(application_id=app, sequence=9, state="ended", user="one"),
        execution(application_id=app, sequence=9, state="running", description="one"),
        application(**later, state="running", user="other"),
        execution(**later, description="other"),
    ]
    writer = Writer(engine)
    for batch in [documents] if together else [documents[:2], documents[2:]]:
        writer.write(batch)
    assert only(read(engine, "application", app))["spark_user"] == "one"
    assert only(read(engine, "execution", app))["description"] == "other"


# Several writers


def at_once(*tasks: Callable[[], None]) -> None:
    """Run tasks in threads that start together; the first error of any is raised."""
    barrier = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        barrier.wait()
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(run, task) for task in tasks]:
            future.result(timeout=SECONDS)


def test_writers_of_the_same_execution(engine: Engine, app: str) -> None:
    """Several writers with documents of one execution in any order: the newest stays, whole, and finishes once."""
    documents = [planned(FULL, application_id=app, sequence=i + 1, state="running", stages=[RAN]) for i in range(60)]
    documents.append(planned(FULL, application_id=app, sequence=61, stages=[RAN]))
    finished: list[int] = []

    def write(seed: int) -> Callable[[], None]:
        shuffled = random.Random(seed).sample(documents, len(documents))

        def run() -> None:
            writer = Writer(engine)
            for start in range(0, len(shuffled), 3):
                finished.append(len(writer.write(shuffled[start : start + 3]).finished))

        return run

    at_once(write(1), write(2), write(3))
    check_stored(engine, documents[-1])
    assert sum(finished) == 1


def test_writers_of_overlapping_executions_do_not_deadlock(engine: Engine, app: str) -> None:
    """Writers whose batches share executions, in another order each, neither deadlock nor leave duplicates."""

    def write(seed: int) -> Callable[[], None]:
        dice = random.Random(seed)

        def run() -> None:
            writer = Writer(engine)
            for sequence in range(1, 16):
                batch = [
                    planned(FULL, application_id=app, execution_id=number, sequence=sequence) for number in range(12)
                ]
                assert writer.write(dice.sample(batch, 8)).refused == []

        return run

    at_once(write(1), write(2), write(3))
    assert [row["execution_id"] for row in read(engine, "execution", app)] == list(range(12))
    assert Counter(row["execution_id"] for row in read(engine, "shuffle", app)) == Counter(range(12))


def test_writers_of_new_applications_do_not_deadlock(engine: Engine, app: str) -> None:
    """Writers that each bring the document of one application and an execution of the other do not deadlock."""

    rounds = threading.Barrier(2)

    def write(mine: str, other: str) -> Callable[[], None]:
        def run() -> None:
            writer = Writer(engine)
            for number in range(40):
                rounds.wait(timeout=SECONDS)
                writer.write(
                    [
                        application(application_id=f"{app}-{number}-{mine}"),
                        execution(application_id=f"{app}-{number}-{other}", execution_id=ord(mine)),
                    ]
                )

        return run

    at_once(write("a", "b"), write("b", "a"))
    for number in range(40):
        assert only(read(engine, "application", f"{app}-{number}-a"))["state"] == "running"
        assert only(read(engine, "application", f"{app}-{number}-b"))["state"] == "running"


def test_finished_once_for_two_collectors(engine: Engine, app: str) -> None:
    """Two collectors store the end of an execution at the same moment: whoever is second knows that it had ended.

    Both are held up at the execution's row until both are under way; the documents are of two listeners, so that each
    replaces the other.
    """
    Writer(engine).write([execution(application_id=app, state="running")])
    finished: list[int] = []

    def write(listener: Listener) -> None:
        end = execution(application_id=app, sequence=2, listener=listener)
        finished.append(len(Writer(engine).write([end]).finished))

    with ThreadPoolExecutor(2) as pool, engine.connect() as holding, engine.connect() as watching:
        c = tables.execution.c
        holding.execute(select(c.state).where(c.application_id == app).with_for_update())
        writes = [pool.submit(write, listener) for listener in (LISTENER, OTHER_LISTENER)]
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )

        def both_wait() -> bool:
            watching.rollback()
            return bool(watching.scalar(text(waiting)) == 2)

        until(both_wait, "both wait")
        holding.rollback()
        for each in writes:
            each.result(timeout=SECONDS)
    assert sorted(finished) == [0, 1]


# Partitions


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[misc, arg-type]


def homes(engine: Engine, app: str, table: str = "execution") -> list[str]:
    """The partitions that an application's rows are in."""
    statement = text(f"SELECT tableoid::regclass::text FROM {table} WHERE application_id = :app ORDER BY started_at")
    with engine.connect() as connection:
        return list(connection.scalars(statement, {"app": app}))


def test_rows_go_to_the_month_of_their_execution(engine: Engine, app: str) -> None:
    """Rows go to the partition of their execution's month in UTC, which is made when its first row comes."""
    times = [
        ms(2024, 1, 31, 23, 59, 59),
        ms(2024, 2, 1),
        ms(2024, 2, 29, 23, 59, 59) + 999,
        ms(2024, 3, 1),
        ms(2024, 12, 31, 23, 59, 59),
        ms(2025, 1, 1),
    ]
    documents = [
        planned(FULL, application_id=app, execution_id=number, started_at_ms=time, stages=[RAN])
        for number, time in enumerate(times)
    ]
    Writer(engine).write(documents)
    months = ["2024_01", "2024_02", "2024_02", "2024_03", "2024_12", "2025_01"]
    assert homes(engine, app) == [f"execution_{month}" for month in months]
    assert homes(engine, app, "stage") == [f"stage_{month}" for month in months]


@pytest.mark.parametrize(
    "time", [0, ms(1970, 1, 2), ms(2013, 12, 31), ms(2200, 1, 1), 253_402_300_799_999], ids=lambda time: str(time)
)
def test_an_impossible_time_goes_to_the_default_partition(engine: Engine, app: str, time: int) -> None:
    document = planned(FULL, application_id=app, started_at_ms=time, ended_at_ms=time)
    assert Writer(engine).write([document]).stored == 1
    assert homes(engine, app) == ["execution_default"]
    check_stored(engine, document)


def test_month_that_the_default_partition_has_rows_of(
    engine: Engine, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a month comes of which a wrong clock has sent rows before, they move to its partition."""
    early = planned(FULL, application_id=app, started_at_ms=ms(2023, 5, 17), stages=[RAN])
    other = planned(FULL, application_id=app, started_at_ms=ms(2023, 6, 1), execution_id=1, stages=[RAN])
    with monkeypatch.context() as clock:
        clock.setattr(partitions, "AHEAD", ms_ago(2023, 1))
        Writer(engine).write([early, other])
    assert homes(engine, app) == ["execution_default"] * 2
    right = planned(FULL, application_id=app, started_at_ms=ms(2023, 5, 31), execution_id=2, stages=[RAN])
    written = Writer(engine).write([right])
    assert (written.stored, written.refused) == (1, [])
    assert homes(engine, app) == ["execution_2023_05", "execution_2023_05", "execution_default"]
    assert homes(engine, app, "stage") == ["stage_2023_05", "stage_2023_05", "stage_default"]
    assert [row["execution_id"] for row in read(engine, "shuffle", app)] == [0, 2, 1]


def ms_ago(year: int, month: int) -> timedelta:
    """How far that is from now."""
    return datetime(year, month, 1, tzinfo=timezone.utc) - datetime.now(timezone.utc)


def test_partitions_are_like_their_table(engine: Engine, app: str) -> None:
    """A partition has the primary key, the indexes and the checks of its table, however it was made."""
    Writer(engine).write([execution(application_id=app, started_at_ms=ms(2022, 7, 1))])
    with engine.connect() as connection:
        for table in tables.PARTITIONED:
            default, month = (
                sorted(
                    connection.scalars(
                        text(
                            "SELECT replace(pg_get_indexdef(indexrelid), :part, 'x') FROM pg_index"
                            " WHERE indrelid = CAST(:part AS regclass)"
                        ),
                        {"part": f"{table.name}_{part}"},
                    )
                )
                for part in ("default", "2022_07")
            )
            assert [index.split(" USING ")[1] for index in default] == [index.split(" USING ")[1] for index in month]
            attached = text(
                "SELECT count(*) FILTER (WHERE parent.inhparent IS NULL) FROM pg_index i"
                " LEFT JOIN pg_inherits parent ON parent.inhrelid = i.indexrelid"
                " WHERE i.indrelid = CAST(:part AS regclass)"
            )
            assert connection.scalar(attached, {"part": f"{table.name}_2022_07"}) == 0


@pytest.mark.matrix
def test_partitions_are_made_while_others_write_and_read(engine: Engine, app: str) -> None:
    """New months of one writer disturb neither another writer nor a reader."""
    old = ms(2021, 1, 1)
    Writer(engine).write([execution(application_id=app, started_at_ms=old)])
    done = threading.Event()

    def make_months() -> None:
        try:
            for number in range(12):
                document = planned(FULL, application_id=app, execution_id=1, started_at_ms=ms(2020, number + 1, 3))
                assert Writer(engine).write([document]).stored == 1
        finally:
            done.set()

    def write() -> None:
        writer, sequence = Writer(engine), 1
        while not done.is_set():
            sequence += 1
            document = planned(FULL, application_id=app, started_at_ms=old, sequence=sequence, stages=[RAN])
            assert writer.write([document]).stored == 1

    def look() -> None:
        c, s = tables.execution.c, tables.shuffle.c
        statement = select(func.count()).select_from(
            tables.shuffle.join(tables.execution, c.execution_id == s.execution_id)
        )
        while not done.is_set():
            with engine.connect() as connection:
                connection.execute(statement.where(c.application_id == app, s.application_id == app))

    at_once(make_months, write, look)
    assert len(set(homes(engine, app))) == 13


def test_several_make_the_same_partition(engine: Engine, app: str) -> None:
    """Writers that meet a new month at the same time make one partition."""

    def write(number: int) -> Callable[[], None]:
        document = execution(application_id=app, execution_id=number, started_at_ms=ms(2019, 1, 1))

        def run() -> None:
            assert Writer(engine).write([document]).stored == 1

        return run

    at_once(*map(write, range(4)))
    assert homes(engine, app) == ["execution_2019_01"] * 4


# What PostgreSQL refuses

LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5_000))  # does not compress


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stages": [RAN, RAN]}, "duplicate key value violates unique constraint"),  # found by COPY
        ({"plans_dropped": MAX_LONG}, "out of range"),  # found by INSERT
        ({"job_name": LONG}, "exceeds btree version"),  # a limit of PostgreSQL's own
        ({"description": "a\0b"}, "unsupported Unicode escape"),  # found by PostgreSQL, in JSON
        ({"error": "\ud800"}, "surrogates not allowed"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_a_document_that_postgresql_cannot_hold_is_refused_alone(
    engine: Engine, app: str, changes: dict[str, Any], reason: str
) -> None:
    """A document that PostgreSQL cannot hold is refused, and named; the others of its batch are stored."""
    batch: list[Document] = [
        application(application_id=app),
        planned(FULL, application_id=app, stages=[RAN]),
        planned(FULL, application_id=app, execution_id=1, **changes),
        planned(FULL, application_id=app, execution_id=2, stages=[RAN]),
    ]
    written = Writer(engine).write(batch)
    ((refused, said),) = written.refused
    assert refused is batch[2]
    assert said.startswith("PostgreSQL refused it: ")
    assert reason in said
    assert (written.stored, written.stale, len(written.finished)) == (3, 0, 2)
    assert [row["execution_id"] for row in read(engine, "execution", app)] == [0, 2]
    assert {row["execution_id"] for row in read(engine, "plan_node", app)} == {0, 2}


def test_an_applications_document_can_be_refused(engine: Engine, app: str) -> None:
    batch: list[Document] = [application(application_id=app, job_name=LONG), execution(application_id=app)]
    written = Writer(engine).write(batch)
    assert [document for document, _ in written.refused] == [batch[0]]
    assert only(read(engine, "application", app))["state"] == "unknown"


def test_a_document_without_rows_is_refused_alone(engine: Engine, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that no rows can be made of is refused by itself; the next newest of its execution is stored."""

    def faulty(e: Execution, plans: Plans | None = None) -> Rows:
        if e.description == "unthought of":
            raise ZeroDivisionError("division by zero")
        return execution_rows(e, plans)

    monkeypatch.setattr("joinsight.store.writer.execution_rows", faulty)
    batch: list[Document] = [
        application(application_id=app),
        execution(application_id=app, sequence=2, description="before"),
        execution(application_id=app, sequence=3, description="unthought of"),
        execution(application_id=app, sequence=4, execution_id=1, description="unthought of"),
        execution(application_id=app, sequence=5, execution_id=2, job_name=LONG),
        execution(application_id=app, sequence=6, execution_id=3),
    ]
    written = Writer(engine).write(batch)
    assert [document for document, _ in written.refused] == [batch[2], batch[3], batch[4]]
    assert written.refused[0][1] == "could not be read: ZeroDivisionError: division by zero"
    assert (written.stored, written.stale, written.faults) == (3, 0, 2)
    assert [row["description"] for row in read(engine, "execution", app)] == ["before", ""]
    delivered = only(read(engine, "delivery", app))
    assert (delivered["documents_arrived"], delivered["documents_refused"]) == (3, 3)


def test_an_end_is_no_fault(engine: Engine, app: str) -> None:
    """What `go_on` raises ends the work and refuses nothing."""

    class Closed(Exception):
        pass

    def closed() -> None:
        raise Closed

    with pytest.raises(Closed):
        Writer(engine, check_cancelled=closed).write([planned(FULL, application_id=app)])


def test_nothing_is_refused_for_a_missing_schema(make_database: Callable[[], str]) -> None:
    """Missing tables are an error of the database, not of the documents: senders retry."""
    with connect(make_database()) as engine, pytest.raises(ProgrammingError, match="does not exist"):
        Writer(engine).write([execution(), execution(execution_id=1)])


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE execution ADD COLUMN of_the_next_release integer NOT NULL",
        "ALTER TABLE execution ADD CONSTRAINT of_the_next_release CHECK (state <> 'succeeded')",
        "ALTER TABLE execution DROP COLUMN is_sampled CASCADE",
    ],
    ids=["a required column", "a constraint", "a dropped column"],
)
def test_nothing_is_refused_for_another_schema(empty: Engine, change: str) -> None:
    """What a table requires or does not allow is the schema's fault: senders retry until the collector is upgraded."""
    with empty.begin() as connection:
        connection.execute(text(change))
    with pytest.raises(DBAPIError, match=r"of_the_next_release|is_sampled"):
        Writer(empty).write([application(), execution()])
    with empty.connect() as connection:
        assert connection.scalars(select(tables.delivery.c.documents_refused)).all() in ([], [0])


def test_nothing_is_refused_while_the_schema_is_of_another_release(
    empty: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """A value that PostgreSQL refuses may fit the schema of this program: it is refused when the schemas are equal."""
    document = execution(plans_dropped=MAX_LONG)
    with empty.begin() as connection:
        revision = connection.scalar(text("SELECT version_num FROM alembic_version"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DataError, match="out of range"):
        Writer(empty).write([document])
    assert "deferred" in caplog.text and "schema 9999 is newer than this program" in caplog.text
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :own"), {"own": revision})
    ((refused, _),) = Writer(empty).write([document]).refused
    assert refused is document


# Values


def test_the_largest_and_smallest_numbers_are_read_back(engine: Engine, app: str) -> None:
    most, least = MAX_LONG, -MAX_LONG - 1
    metrics = [Metric("low", most, "sum"), Metric("high", 2, "sum"), Metric("data size", 3, "size")]
    accumulators = [
        Accumulator(most, "sum", most, least, least, least, least, least, 2**31 - 1, 2**31 - 1, most),
        Accumulator(2, "sum", most, most, most, most, most, most),
        Accumulator(3, "size", 1, most, most, most, most, most),
    ]
    spread = Spread(most, most, most, most, most)
    small = 2**31 - 1
    stage = Stage(small, small, "s", small, "failed", small, small, small, run_time_ms=most, input_bytes=most)
    document = execution(
        application_id=app,
        execution_id=most,
        sequence=most - 1,
        streaming_batch_id=most,
        plans=[Plan(STARTED_AT_MS, [PlanNode("BroadcastExchange", -1, "BroadcastExchange", metrics=metrics)])],
        accumulators=accumulators,
        stages=[msgspec.structs.replace(stage, run_time=spread, shuffle_read=spread)],
    )
    assert Writer(engine).write([document]).refused == []
    check_stored(engine, document)


WORDS = (
    "", " ", "\\N", "\\.", "\\", "a\tb\nc\rd", "'; DROP TABLE execution; --", '{"a": [1, "b"]}', "{NULL,}", "NULL",
    "é😀\u2028", "\x01\x7f\ufffd", "%s %(a)s %% :a", "x" * 1_000_000,
)  # fmt: skip


@pytest.mark.parametrize("words", WORDS, ids=lambda words: repr(words[:12]))
def test_any_text_is_read_back_as_it_was(engine: Engine, app: str, words: str) -> None:
    """Any text is read back as it was, in columns, arrays and JSON, as value and as key."""
    nodes = [PlanNode(words, -1, words, {words: words}, [Metric(words, 1, "v2Custom_x")])]
    document = execution(
        application_id=app,
        description=words,
        error=words,
        job_tags=[words, words],
        incomplete=[words],
        tags={words: words},
        plans=[Plan(STARTED_AT_MS, nodes)],
        accumulators=[Accumulator(1, "v2Custom_x", 0, text=words)],
        stages=[msgspec.structs.replace(RAN, name=words, failure=words)],
    )
    assert Writer(engine).write([document]).refused == []
    check_stored(engine, document)


def test_times_are_exact_to_the_millisecond(engine: Engine, app: str) -> None:
    times = [STARTED_AT_MS + offset for offset in (0, 1, 333, 999)]
    documents = [
        execution(application_id=app, execution_id=i, started_at_ms=time, ended_at_ms=time)
        for i, time in enumerate(times)
    ]
    Writer(engine).write(documents)
    rows = read(engine, "execution", app)
    assert [round(row["started_at"].timestamp() * 1000) for row in rows] == times
    assert [row["started_at"].microsecond for row in rows] == [0, 1_000, 333_000, 999_000]


# The database goes away


@contextmanager
def broken_copy(engine: Engine) -> Iterator[None]:
    """The server ends the connection in the middle of a COPY."""
    statements: Sequence[str] = (
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END'",
        "CREATE TRIGGER die BEFORE INSERT ON joins FOR EACH ROW EXECUTE FUNCTION die()",
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP FUNCTION die CASCADE"))


def test_connection_lost_in_the_middle(engine: Engine, app: str) -> None:
    """A batch whose connection breaks is not written at all, and is whole when it is sent again."""
    writer = Writer(engine)
    batch = [execution(application_id=app), planned(FULL, application_id=app, execution_id=1, stages=[RAN])]
    with broken_copy(engine), pytest.raises(OperationalError):
        writer.write(batch)
    assert read(engine, "execution", app) == read(engine, "application", app) == []
    written = writer.write(batch)
    assert (written.stored, len(written.finished)) == (2, 2)
    assert [row["execution_id"] for row in read(engine, "joins", app)] == [1]


def test_connections_lost_between_batches(engine: Engine, app: str) -> None:
    """When the server has restarted, the next batch is written as if nothing had been."""
    writer = Writer(engine)
    writer.write([execution(application_id=app)])
    with engine.connect() as connection:
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
        assert connection.scalar(select(1)) == 1
    assert writer.write([execution(application_id=app, sequence=2)]).stored == 1
    assert only(read(engine, "execution", app))["listener_id"] == LISTENER.id
