"""What a collector does for the store beside writing: an embedded server that has died, partitions before their month,
an eye on the default ones, the number of regressions, and pruning if it is asked to.

Each task is repeated in a thread of its own for as long as the collector serves; a database that is gone is said, and
asked again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from joinsight.errors import DatabaseError
from joinsight.store import embedded, partitions
from joinsight.store.database import embedded_folder, reason
from joinsight.store.prune import prune

UPKEEP_SECONDS = 60
ALIVE_SECONDS = 1
START_AGAIN_SECONDS = 30
"""After a start that failed."""
PRUNE_SECONDS = 86_400
REGRESSIONS_SECONDS = 300
REGRESSIONS_TIMEOUT = "30s"
_REGRESSIONS = "SELECT kind, subject, count(*) FROM v_regressions GROUP BY kind, subject"
_LAST_TURN_SECONDS = 5
"""A turn that PostgreSQL keeps waiting must not keep the program from ending."""

_T = TypeVar("_T")

log = logging.getLogger("joinsight")


@contextmanager
def repeating(name: str, seconds: float, turn: Callable[[], None], trouble: str) -> Iterator[None]:
    """Call `turn` now and every so many seconds, in a thread of this name, as long as the context lasts.

    What the database has against it is logged as `trouble`.
    """
    stop = threading.Event()

    def run() -> None:
        while True:
            try:
                turn()
            except DatabaseError as error:
                log.warning("%s: %s", trouble, error)
            except SQLAlchemyError as error:
                log.error("%s: %s", trouble, reason(error))
            if stop.wait(seconds):
                return

    thread = threading.Thread(target=run, name=f"joinsight-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LAST_TURN_SECONDS)


@contextmanager
def counting(
    name: str, seconds: float, count: Callable[[], _T], on_counted: Callable[[_T | None], None], trouble: str
) -> Iterator[None]:
    """The same for what is counted: `on_counted` is told the result, None when the database does not answer."""

    def turn() -> None:
        try:
            on_counted(count())
        except SQLAlchemyError:
            on_counted(None)
            raise

    with repeating(name, seconds, turn, trouble):
        yield


@contextmanager
def keeping_alive(engine: Engine) -> Iterator[None]:
    """Start the embedded server again whenever it has died or was stopped; any other is its administrator's."""
    folder = embedded_folder(engine)
    if folder is None:
        yield
        return
    not_before = 0.0

    def turn() -> None:
        nonlocal not_before
        if embedded.alive(folder) or time.monotonic() < not_before:
            return
        log.error("the embedded PostgreSQL has died or was stopped: starting it")
        not_before = time.monotonic() + START_AGAIN_SECONDS
        with embedded.embedded_postgres(folder):  # as one more user, so that it ends with the last
            not_before = 0.0
            log.info("the embedded PostgreSQL runs again")

    with repeating("postgres", ALIVE_SECONDS, turn, "the embedded PostgreSQL was not started"):
        yield


@contextmanager
def keeping_partitions(engine: Engine, on_misplaced: Callable[[int], None]) -> Iterator[None]:
    """Make partitions ahead of time, once a minute; `on_misplaced` is told how many executions are in the default one.

    The log says it when they become more.
    """
    known = 0

    def turn() -> None:
        nonlocal known
        misplaced = partitions.create_ahead(engine)
        if misplaced > known:
            log.warning(
                "%d executions have started at times that no clock can rightly show: they are in the default partition,"
                " and joinsight doctor says which",
                misplaced,
            )
        known = misplaced
        on_misplaced(misplaced)

    with repeating("partitions", UPKEEP_SECONDS, turn, "the next months' partitions were not made"):
        yield


def count_regressions(engine: Engine) -> Mapping[tuple[str, str], int]:
    """Of the last seven days, by kind and subject. Raises SQLAlchemy's errors, and gives up after 30 s."""
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{REGRESSIONS_TIMEOUT}'"))
        return Counter({(kind, subject): number for kind, subject, number in connection.execute(text(_REGRESSIONS))})


def counting_regressions(
    engine: Engine, on_counted: Callable[[Mapping[tuple[str, str], int] | None], None]
) -> AbstractContextManager[None]:
    """Count the regressions every five minutes; `on_counted` is told how many there are, None when that is not known.

    Each collector counts for itself: it is a question that changes nothing.
    """

    count = partial(count_regressions, engine)
    return counting("regressions", REGRESSIONS_SECONDS, count, on_counted, "regressions were not counted")


@contextmanager
def pruning(engine: Engine, keep: timedelta) -> Iterator[None]:
    """Prune the database now and once a day, if no other program does."""

    def turn() -> None:
        pruned = prune(engine, keep)
        months, freed = len({part.starts_at for part in pruned.partitions}), sum(p.bytes for p in pruned.partitions)
        log.info("pruned %d months, %d bytes, and %d applications", months, freed, pruned.applications)

    with repeating("prune", PRUNE_SECONDS, turn, "the database was not pruned to its end"):
        yield
