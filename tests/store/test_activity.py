"""The counts of running executions and undelivered documents, in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError
from tests.documents import STARTED_AT_MS, application, execution

from joinsight.contract.decode import Header, _ListenerId
from joinsight.contract.document import Document
from joinsight.store import activity
from joinsight.store.activity import Activity, count_activity, count_regressions
from joinsight.store.writer import Writer

NOTHING = {(a, f): 0 for a in ("running", "ended", "silent") for f in ("missing", "refused", "dropped")}


@pytest.fixture
def store(engine: Engine) -> Iterator[Engine]:
    """An empty store."""
    yield engine
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE application, delivery, execution CASCADE"))


def silence(engine: Engine, app: str, minutes: int) -> None:
    """Pretend that the last contact was this long ago."""
    with engine.begin() as connection:
        update = "UPDATE delivery SET last_heard_at = now() - make_interval(mins => :m) WHERE application_id = :app"
        connection.execute(text(update), {"m": minutes, "app": app})


def test_an_empty_store_has_zeros(store: Engine) -> None:
    assert count_activity(store) == Activity(0, None, 0, NOTHING, 0)


def test_running_executions_are_counted(store: Engine) -> None:
    """Running live executions and applications with recent contact are counted, the same by any collector."""
    documents: list[Document] = [
        application(application_id="runs", documents_made=2),
        execution(application_id="runs", execution_id=1, state="running", started_at_ms=STARTED_AT_MS + 5_000),
        execution(application_id="runs", execution_id=2, state="running"),
        execution(application_id="runs", execution_id=3, state="succeeded"),
        execution(application_id="runs", execution_id=4, state="failed"),
        execution(application_id="old", execution_id=1, state="running", origin="event_log"),
        application(application_id="ended", state="ended", ended_at_ms=STARTED_AT_MS),
        application(application_id="silent"),
    ]
    for writer in Writer(store), Writer(store):
        writer.write([*documents, application(application_id="lost")])
    silence(store, "silent", 6)
    with store.begin() as connection:  # what is shipped of it later is no sign of its life
        connection.execute(text("UPDATE application SET state = 'lost' WHERE application_id = 'lost'"))
    found = count_activity(store)
    assert (found.executions, found.applications) == (2, 1)
    assert found.oldest_start == datetime.fromtimestamp(STARTED_AT_MS / 1000, timezone.utc)


def test_what_did_not_arrive(store: Engine) -> None:
    """Undelivered documents are counted by the state of their application, without superseded and old ones."""

    def said(app: str, **changes: object) -> Document:
        return application(application_id=app, sequence=10, **{"documents_made": 10, **changes})

    dropped = {"memory": [(2, 3)], "spool": [(4, 4)]}
    documents = [
        said("runs", dropped=dropped, supersedes=[(5, 8)], events_dropped=5),
        said("runs too", refused=[(2, 4)]),
        said("ended", state="ended", ended_at_ms=STARTED_AT_MS),
        said("silent"),
        said("long ago"),
        said("log", origin="event_log"),
    ]
    headers = [(Header(_ListenerId(documents[2].listener.id), number, "ended"), "a reason") for number in (2, 3)]
    Writer(store).write(documents, headers)
    silence(store, "silent", 6)
    silence(store, "long ago", 25 * 60)
    found = count_activity(store)
    assert found.undelivered == NOTHING | {
        ("running", "missing"): (10 - 1 - 3 - 4) + (10 - 1 - 3),
        ("running", "refused"): 3,
        ("running", "dropped"): 3,
        ("ended", "missing"): 10 - 1 - 2,
        ("ended", "refused"): 2,
        ("silent", "missing"): 9,
    }
    assert found.dropped_events == 5


@pytest.mark.parametrize(
    ("limit", "count"), [("ACTIVITY_TIMEOUT", count_activity), ("REGRESSIONS_TIMEOUT", count_regressions)]
)
def test_counting_gives_up(
    store: Engine, monkeypatch: pytest.MonkeyPatch, limit: str, count: Callable[[Engine], object]
) -> None:
    """A database that is too slow is not kept busy."""
    monkeypatch.setattr(activity, limit, "1ms")
    with store.begin() as other:
        other.execute(text("LOCK TABLE execution"))
        with pytest.raises(OperationalError, match="statement timeout"):
            count(store)
