"""How documents from event logs and the listener replace each other; `test_replacement` tests the rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import Engine, text
from tests.documents import LISTENER, application, execution, planned

from joinsight.contract.document import Application, Document, Execution, Listener
from joinsight.serve.metrics import Metrics
from joinsight.store.writer import Writer

OF_LOG = Listener("00000000-0000-5000-8000-000000000009", "0.1.0", "4.3.0")
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
    [(live(incomplete=["x"]), of_log(), "event_log"), (live(), of_log(incomplete=["y"]), "live")],
    ids=["the log's", "the listener's"],
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
    """In any order, together or one after the other; a live one that was replaced is counted as repaired."""
    told = [structs.replace(document, application_id=app) for document in (of_the_listener, of_the_log)]
    repaired = write(engine, told[::-1] if log_first else told, together)
    assert stored(engine, app)[0] == stays
    assert repaired == (stays == "event_log" and not log_first and not together)


def test_a_repaired_execution_has_the_rows_of_the_log(engine: Engine, app: str) -> None:
    """Nothing of the partial one remains, and it is not marked."""
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
def test_an_end_that_only_the_log_knows_is_stored(engine: Engine, app: str, log_first: bool) -> None:
    told: list[Document] = [of_application(app, "running", "live"), of_application(app, "ended")]
    write(engine, told[::-1] if log_first else told, together=False)
    statement = text("SELECT origin, state FROM application WHERE application_id = :app")
    with engine.connect() as connection:
        (row,) = connection.execute(statement, {"app": app})
    assert tuple(row) == ("event_log", "ended")


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
