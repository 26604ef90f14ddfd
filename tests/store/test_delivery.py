"""The account of deliveries is exact for documents that arrive twice, late, rebatched or through two collectors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.documents import LISTENER, OTHER_LISTENER, application, as_line, execution, request
from tests.waiting import SECONDS

from joinsight import tables
from joinsight.contract.decode import decode_request
from joinsight.contract.document import MAX_LONG, Document
from joinsight.store.writer import Writer
from joinsight.tables import Row

_names = itertools.count(1)


@pytest.fixture
def app() -> str:
    """The id of an application that no other test uses."""
    return f"delivered-{next(_names)}"


def accounts(engine: Engine, app: str) -> dict[str, Row]:
    """The rows of an application by the listener's id; ranges as pairs of the first and the last number."""
    table = tables.delivery
    with engine.connect() as connection:
        found = connection.execute(select(table).where(table.c.application_id == app)).mappings().all()
    rows = {row["listener_id"]: dict(row) for row in found}
    for row in rows.values():
        for name in ("sequences_arrived", "sequences_superseded", "sequences_refused", "sequences_dropped"):
            row[name] = [(each.lower, each.upper - 1) for each in row[name]]
    return rows


def account(engine: Engine, app: str) -> Row:
    """The row of the default listener."""
    return accounts(engine, app)[LISTENER.id]


def said(app: str, sequence: int, **changes: Any) -> Document:
    """An application's document, when all documents up to it were made."""
    return application(application_id=app, sequence=sequence, **{"documents_made": sequence, **changes})


def documents(app: str, numbers: Sequence[int]) -> list[Document]:
    """Executions' documents with these numbers."""
    return [execution(application_id=app, execution_id=number, sequence=number) for number in numbers]


def test_nothing_is_missing(engine: Engine, app: str) -> None:
    """Numbers without a gap are one range; who was heard, and when, is known."""
    writer = Writer(engine)
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    writer.write([said(app, 1), *documents(app, range(2, 9))])
    first = account(engine, app)["last_heard_at"]
    writer.write([*documents(app, [9]), said(app, 10, listener_failures=3, events_dropped=4)])
    row = account(engine, app)
    assert (row["sequences_arrived"], row["documents_arrived"], row["documents_missing"]) == ([(1, 10)], 10, 0)
    assert (row["sequence"], row["documents_made"], row["listener_failures"], row["events_dropped"]) == (10, 10, 3, 4)
    assert (row["sequences_refused"], row["documents_dropped_by_cause"]) == ([], {})
    assert before < row["first_heard_at"] == first < row["last_heard_at"] < before + timedelta(minutes=1)


def test_unknown_until_the_application_has_spoken(engine: Engine, app: str) -> None:
    """Executions alone do not tell what is missing: NULL, not 0."""
    Writer(engine).write(documents(app, [2, 5]))
    row = account(engine, app)
    assert (row["sequences_arrived"], row["documents_arrived"], row["sequence"]) == ([(2, 2), (5, 5)], 2, 0)
    said_later = ("documents_made", "documents_dropped_by_cause", "documents_missing")
    assert [row[name] for name in said_later] == [None] * 3


@pytest.mark.parametrize("seed", range(12))
def test_the_account_depends_on_the_set_of_documents_alone(engine: Engine, app: str, seed: int) -> None:
    dice = random.Random(seed)
    kept = sorted(dice.sample(range(1, 58), 43))
    given_up = sorted({*range(1, 58)} - {*kept})
    dropped = {"memory": [(given_up[0], given_up[0])], "spool": [(n, n) for n in given_up[1:3]]}
    batch = [*documents(app, kept), said(app, 58, dropped={"memory": dropped["memory"]})]
    batch += [said(app, 59, dropped=dropped, supersedes=[(given_up[3], given_up[3])])]
    deliveries = dice.sample(batch * 2, len(batch) * 2)
    writer = Writer(engine)
    while deliveries:
        size = dice.randint(1, 20)
        writer.write(deliveries[:size])
        del deliveries[:size]
    row = account(engine, app)
    found = {n for first, last in row["sequences_arrived"] for n in range(first, last + 1)}
    assert found == {*kept, 58, 59}
    assert row["documents_arrived"] == 45
    assert (row["documents_made"], row["documents_dropped"]) == (59, 3)
    assert row["documents_dropped_by_cause"] == {"memory": 1, "spool": 2}
    assert row["documents_missing"] == len(given_up) - 4


def test_what_was_made_later_hides_no_gap(engine: Engine, app: str) -> None:
    """Documents that were made after the newest application document do not count for those that are missing."""
    Writer(engine).write([said(app, 4), *documents(app, [2, 5, 6, 7])])
    row = account(engine, app)
    assert (row["documents_arrived"], row["documents_missing"]) == (5, 2)


def test_a_gap_before_what_arrived_is_missing(engine: Engine, app: str) -> None:
    """Numbers are consecutive: a missing one was assigned if a higher one arrived, regardless of the last report."""
    Writer(engine).write([said(app, 1), *documents(app, [2, 6])])
    assert account(engine, app)["documents_missing"] == 3


def test_a_newer_document_makes_earlier_ones_superfluous(engine: Engine, app: str) -> None:
    """Superseded documents are not missing once the newer one has arrived, whether they were dropped, lost or sent."""
    numbers = [(2, 4), (6, 6)]
    newest = execution(application_id=app, execution_id=1, sequence=7, supersedes=numbers)
    Writer(engine).write([said(app, 8, dropped={"spool": [(3, 3)]}), *documents(app, [2])])
    row = account(engine, app)
    assert (row["documents_missing"], row["documents_dropped"]) == (5, 1)
    Writer(engine).write([newest])
    row = account(engine, app)
    assert row["sequences_superseded"] == numbers
    assert (row["documents_missing"], row["documents_dropped"]) == (2, 0), "1 and 5 are"


def test_having_arrived_counts_before_all_else(engine: Engine, app: str) -> None:
    """A dropped or refused document that came nevertheless (its response was lost) has arrived and hides no loss."""
    Writer(engine).write([said(app, 6, dropped={"memory": [(1, 3)]}, refused=[(4, 4)]), *documents(app, [2, 4])])
    row = account(engine, app)
    assert (row["documents_arrived"], row["documents_dropped"], row["documents_refused"]) == (3, 2, 0)
    assert row["documents_missing"] == 1


def test_two_collectors_at_once(engine: Engine, app: str) -> None:
    """Two collectors that share the documents of a listener, some of them twice, lose and double none."""
    numbers = list(range(2, 302))

    def deliver(seed: int) -> None:
        writer, mine = Writer(engine), random.Random(seed).sample(numbers, 200)
        mine += numbers[seed::2]
        for start in range(0, len(mine), 20):
            writer.write(documents(app, mine[start : start + 20]))

    Writer(engine).write([said(app, 1)])
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(deliver, seed) for seed in (0, 1)]:
            each.result(timeout=SECONDS)
    Writer(engine).write([said(app, 302, state="ended")])
    row = account(engine, app)
    assert (row["sequences_arrived"], row["documents_arrived"], row["documents_missing"]) == ([(1, 302)], 302, 0)


def test_listeners_and_attempts_have_their_own_account(engine: Engine, app: str) -> None:
    """Two listeners of an application, or two attempts, are counted apart."""
    one = application(application_id=app, documents_made=1)
    other = application(application_id=app, documents_made=9, sequence=5, listener=OTHER_LISTENER)
    again = application(application_id=app, attempt_id="2", documents_made=2)
    Writer(engine).write([one, other])
    found = accounts(engine, app)
    assert [found[each.id]["documents_missing"] for each in (LISTENER, OTHER_LISTENER)] == [0, 8]
    Writer(engine).write([again])
    with engine.connect() as connection:
        c = tables.delivery.c
        made = select(c.attempt_id, c.documents_made).where(c.application_id == app, c.listener_id == LISTENER.id)
        assert dict(map(tuple, connection.execute(made))) == {"": 1, "2": 2}


def test_refused_lines_are_told_apart_from_missing_ones(engine: Engine, app: str) -> None:
    """A bad document whose header can be read is noted with its number and reason, once, however often it comes."""
    future = as_line(execution(application_id=app, sequence=2)).replace(b'"schema_version":1', b'"schema_version":2')
    odd = as_line(execution(application_id=app, sequence=3, state="odd"))
    unreadable = (b"nonsense", b"[]", b'{"sequence":0}', as_line(execution(sequence=4, description="x" * 17_000_000)))
    batch = decode_request(request(future, odd, *unreadable, said(app, 5)))
    assert [number for number, _ in batch.refused] == [1, 2, 3, 4, 5, 6]
    for _ in range(2):
        Writer(engine).write([document for _, document in batch.documents], batch.headers)
    row = account(engine, app)
    assert (row["sequences_refused"], row["sequences_arrived"], row["documents_missing"]) == ([(2, 3)], [(5, 5)], 2)
    assert "Invalid enum value" in row["refused_reason"]
    # The listener knows of the one that was too large to be read here
    Writer(engine).write([said(app, 6, refused=[(2, 4)])])
    row = account(engine, app)
    assert (row["documents_missing"], row["documents_refused"]) == (1, 3)


def test_what_a_refused_document_superseded_is_lost_with_it(engine: Engine, app: str) -> None:
    """A document superseded by a refused one is refused too, because it will not be sent again."""
    odd = as_line(execution(application_id=app, sequence=5, supersedes=[(2, 3)], state="odd"))
    Writer(engine).write([said(app, 6)], decode_request(request(odd)).headers)
    row = account(engine, app)
    assert (row["sequences_refused"], row["documents_missing"]) == ([(2, 3), (5, 5)], 2)


@pytest.mark.parametrize("numbers", [[(3, 2)], [(0, 1)], [(1, MAX_LONG)], [(1, 2, 3)], [("1", "2")]], ids=str)
def test_ranges_that_are_none(engine: Engine, app: str, numbers: Any) -> None:
    """A document with invalid ranges is refused with its line; they do not reach PostgreSQL."""
    lines = [as_line(said(app, 2, **{field: numbers})) for field in ("supersedes", "refused")]
    batch = decode_request(request(*lines, as_line(said(app, 3, dropped={"memory": numbers}))))
    assert [line for line, _ in batch.refused] == [1, 2, 3]
    Writer(engine).write([], batch.headers)
    assert account(engine, app)["sequences_refused"] == [(2, 3)]


def test_nul_in_a_refused_document(engine: Engine, app: str) -> None:
    batch = decode_request(request(as_line(execution(application_id=app + "\0", sequence=3, state="odd"))))
    Writer(engine).write([], batch.headers)
    assert account(engine, app + "\ufffd")["sequences_refused"] == [(3, 3)]


def test_what_postgresql_refuses_is_noted(engine: Engine, app: str) -> None:
    """A document that only the database refuses is in the account of refused ones, and the others have arrived."""
    name = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5_000))  # does not compress
    bad = execution(application_id=app, sequence=2, job_name=name)
    written = Writer(engine).write([said(app, 3), bad, *documents(app, [1])], [(execution(application_id=app), "bad")])
    assert [document for document, _ in written.refused] == [bad]
    row = account(engine, app)
    assert (row["sequences_arrived"], row["sequences_refused"]) == ([(1, 1), (3, 3)], [(1, 2)])
    assert "exceeds btree version" in row["refused_reason"]
    assert row["documents_missing"] == 0


def test_a_header_that_postgresql_refuses_does_no_harm(engine: Engine, app: str) -> None:
    """An application's id that no index takes is refused and not counted; the rest of the batch is stored."""
    dice = random.Random(1)
    name = "".join(chr(dice.randint(0x4E00, 0x9FFF)) for _ in range(1_024))
    bad = execution(application_id=name, sequence=1)
    written = Writer(engine).write([bad, said(app, 1)], [(bad, "bad")])
    assert [document for document, _ in written.refused] == [bad]
    written = Writer(engine).write([said(app, 2)], [(bad, "bad")])
    assert (written.stored, written.refused) == (1, [])
    assert account(engine, app)["documents_arrived"] == 2
    assert accounts(engine, name) == {}


def test_the_largest_numbers_are_counted(engine: Engine, app: str) -> None:
    Writer(engine).write([said(app, MAX_LONG - 1, documents_made=MAX_LONG)])
    row = account(engine, app)
    assert row["sequences_arrived"] == [(MAX_LONG - 1, MAX_LONG - 1)]
    assert row["documents_missing"] == MAX_LONG - 2
