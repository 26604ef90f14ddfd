"""What an event log tells beside what the listener told: the better document stays, whichever comes first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Engine, text
from tests.documents import LISTENER, application, execution, planned

from joinsight.document import Application, Document, Execution, Listener
from joinsight.serve.metrics import Metrics
from joinsight.store.writer import Writer

OF_LOG = Listener("00000000-0000-5000-8000-000000000009", "0.1.0", "4.3.0")
NEWER_READER = Listener("00000000-0000-5000-8000-000000000010", "0.2.0", "4.3.0")
CUT = ["the event log ends before it does"]
_numbers = itertools.count(1)


@pytest.fixture
def app() -> str:
    """The id of an application that no other test uses."""
    return f"logged-{next(_numbers)}"


def of_log(state: str = "succeeded", sequence: int = 50, **changes: Any) -> Execution:
    return execution(**{"origin": "event_log", "listener": OF_LOG, "state": state, "sequence": sequence} | changes)


def live(state: str = "succeeded", **changes: Any) -> Execution:
    return execution(**{"origin": "live", "listener": LISTENER, "state": state, "sequence": 7} | changes)


def stored(engine: Engine, app: str) -> tuple[Any, ...]:
    statement = text("SELECT origin, state, sequence, incomplete FROM execution WHERE application_id = :app")
    with engine.connect() as connection:
        (row,) = connection.execute(statement, {"app": app})
    return tuple(row)


def write(engine: Engine, documents: Sequence[Document], together: bool) -> int:
    """How many live executions were repaired."""
    writer = Writer(engine)
    return sum(writer.write(batch).repaired for batch in ([documents] if together else [[each] for each in documents]))


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
@pytest.mark.parametrize("log_first", [True, False], ids=["log first", "live first"])
@pytest.mark.parametrize(
    ("of_the_listener", "of_the_log", "stays"),
    [
        (live(), of_log(), "live"),
        (live("failed"), of_log(), "live"),
        (live(incomplete=["x"]), of_log(), "event_log"),
        (live(incomplete=["x"]), of_log(incomplete=["y"]), "live"),
        (live(), of_log(incomplete=["y"]), "live"),
        (live("lost", incomplete=["x"]), of_log(), "event_log"),
        (live("lost", incomplete=["x"]), of_log("failed", incomplete=["y"]), "event_log"),
        (live("lost", incomplete=["x"]), of_log("lost", incomplete=CUT), "live"),
        (live("running"), of_log("running", incomplete=CUT), "live"),
        (live("running"), of_log(), "event_log"),
        (live(), of_log("running", incomplete=CUT), "live"),
    ],
    ids=lambda document: (
        f"{document.state}{'-partial' * bool(document.incomplete)}" if document.__class__ is Execution else ""
    ),
)
def test_the_better_one_stays(
    engine: Engine,
    app: str,
    of_the_listener: Execution,
    of_the_log: Execution,
    stays: str,
    log_first: bool,
    together: bool,
) -> None:
    """The live one, unless the log ends what it did not, or is whole where it is partial: in any order, as one."""
    told = [structs.replace(document, application_id=app) for document in (of_the_listener, of_the_log)]
    repaired = write(engine, told[::-1] if log_first else told, together)
    assert stored(engine, app)[0] == stays
    assert repaired == (stays == "event_log" and not log_first and not together)


def test_a_repaired_execution_has_the_rows_of_the_log(engine: Engine, app: str) -> None:
    """Nothing of the partial one is left, and it has no mark."""
    plan = "Exchange | SinglePartition | shuffle bytes written=8"
    partial = planned("Range", application_id=app, incomplete=["the task ends of 1 task were dropped"])
    whole = planned(plan, application_id=app, sequence=99, origin="event_log", listener=OF_LOG)
    writer = Writer(engine)
    assert writer.write([partial]).finished
    written = writer.write([whole])
    assert (written.stored, written.repaired, written.finished) == (1, 1, [])
    assert stored(engine, app) == ("event_log", "succeeded", 99, None)
    with engine.connect() as connection:
        names = text("SELECT name FROM plan_node WHERE application_id = :app")
        assert connection.scalars(names, {"app": app}).all() == ["Exchange"]


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
@pytest.mark.parametrize(
    ("earlier", "later", "stays"),
    [
        (of_log("running", 50, incomplete=CUT), of_log("running", 60, incomplete=CUT), 60),
        (of_log("running", 50, incomplete=CUT), of_log("lost", 50, incomplete=CUT), "lost"),
        (of_log("running", 50, incomplete=CUT), of_log("succeeded", 50), "succeeded"),
        (of_log("running", 50, incomplete=CUT), of_log("succeeded", 20), "succeeded"),
        (of_log("succeeded", 50), of_log("running", 60, incomplete=CUT), "succeeded"),
        (of_log("succeeded", 50, incomplete=["x"]), of_log("succeeded", 40), 40),
        (of_log("succeeded", 50), of_log("succeeded", 60, incomplete=["x"]), 50),
        (of_log("succeeded", 50), of_log("failed", 40), 50),
        (of_log("succeeded", 50), of_log("failed", 50, listener=NEWER_READER), "failed"),
    ],
    ids=lambda each: f"{each.state}-{each.sequence}" if isinstance(each, Execution) else "",
)
def test_of_two_readings_of_a_log_the_better_stays(
    engine: Engine, app: str, earlier: Execution, later: Execution, stays: str | int, together: bool
) -> None:
    """That which ends it, else is whole, else read further; if all is equal, another version's."""
    told = [structs.replace(document, application_id=app) for document in (earlier, later)]
    write(engine, told, together)
    assert stays in stored(engine, app)[1:3]
    if later.sequence != earlier.sequence:  # the shorter log may also be read after the longer one
        write(engine, told[::-1], together)
        assert stays in stored(engine, app)[1:3]


def test_reading_a_log_again_changes_nothing(engine: Engine, app: str) -> None:
    """What is stored of a log is old news the second time."""
    documents: list[Document] = [of_log(application_id=app), of_application(app, "ended")]
    writer = Writer(engine)
    assert writer.write(documents).stored == 2
    written = writer.write(documents)
    assert (written.stored, written.stale, written.repaired) == (0, 2, 0)


def of_application(app: str, state: str, origin: str = "event_log") -> Application:
    listener = OF_LOG if origin == "event_log" else LISTENER
    return application(application_id=app, state=state, origin=origin, listener=listener, sequence=90)


@pytest.mark.parametrize("log_first", [True, False], ids=["log first", "live first"])
@pytest.mark.parametrize(
    ("of_the_listener", "of_the_log", "stays"),
    [
        ("running", "running", "live"),
        ("running", "ended", "event_log"),
        ("ended", "ended", "live"),
        ("ended", "running", "live"),
    ],
)
def test_applications(
    engine: Engine, app: str, of_the_listener: str, of_the_log: str, stays: str, log_first: bool
) -> None:
    """The listener's word counts, unless only the log knows that it ended; then the listener may say so, too."""
    told: list[Document] = [of_application(app, of_the_listener, "live"), of_application(app, of_the_log)]
    write(engine, told[::-1] if log_first else told, together=False)
    statement = text("SELECT origin, state FROM application WHERE application_id = :app")
    with engine.connect() as connection:
        (row,) = connection.execute(statement, {"app": app})
    assert row.origin == stays
    assert (row.state == "ended") == ("ended" in (of_the_listener, of_the_log))


def test_no_account_is_kept_of_what_a_log_brings(engine: Engine, app: str) -> None:
    """`delivery` and the collector's counters are about listeners; a log's documents are in neither."""
    written = Writer(engine).write([of_log(application_id=app), of_application(app, "ended")])
    with engine.connect() as connection:
        count = text("SELECT count(*) FROM delivery WHERE application_id = :app")
        assert connection.scalar(count, {"app": app}) == 0
    assert len(written.finished) == 1
    metrics = Metrics()
    before = ours(metrics)
    metrics.finished(written.finished[0])
    assert ours(metrics) == before
    assert any(line.startswith("joinsight_executions_total") for line in before)


def ours(metrics: Metrics) -> list[str]:
    """Lines of the page of metrics, but those of the process, which change by themselves."""
    return [line for line in metrics.page().decode().splitlines() if "joinsight_" in line]
