"""All periodic tasks of a collector: each runs in its own thread while the collector serves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from joinsight.alarms import forecasts, watch
from joinsight.alarms.causes import store_causes
from joinsight.alarms.run_causes import store_run_causes
from joinsight.base.errors import DatabaseError
from joinsight.serve.metrics import Metrics
from joinsight.serve.webhook import Webhook, tell
from joinsight.store import baselines, embedded, partitions
from joinsight.store.activity import count_activity, count_alarms, count_forecasts, count_regressions
from joinsight.store.database import embedded_folder, reason
from joinsight.store.mark_lost import DEFAULT_LOST_AFTER, REAP_SECONDS, Reaper
from joinsight.store.prune import prune

FILES_SECONDS = 1
POSTGRES_SECONDS = 1
START_AGAIN_SECONDS = 30
"""Pause after a failed start of the embedded PostgreSQL."""
ACTIVITY_SECONDS = 15
PARTITIONS_SECONDS = 60
REGRESSIONS_SECONDS = 300
BASELINES_SECONDS = 600
"""Until those of a new day are there, regressions compute them."""
ALARMS_SECONDS = 600
WEBHOOK_SECONDS = 30
PRUNE_SECONDS = 86_400
STOP_SECONDS = 5
"""Longest wait for tasks at shutdown, because one may wait for PostgreSQL."""

_T = TypeVar("_T")

log = logging.getLogger("joinsight")


@dataclass(frozen=True, slots=True)
class Task:
    """Periodic work."""

    name: str
    """The thread is called ``joinsight-NAME``."""
    interval_seconds: float
    run: Callable[[], None]
    failure: str
    """The log message when it fails."""


@contextmanager
def background_tasks(
    engine: Engine,
    metrics: Metrics,
    lost_after: timedelta = DEFAULT_LOST_AFTER,
    keep: timedelta | None = None,
    reload_files: Callable[[], None] | None = None,
    webhook: Webhook | None = None,
) -> Iterator[None]:
    """Run all tasks of a collector until the context ends.

    `keep`: prune older months; None: keep all. `reload_files` reloads files that have changed. `webhook`
    is told about certain regressions.
    """
    tasks = [
        _mark_lost(engine, metrics, lost_after),
        _create_partitions(engine, metrics),
        Task(
            "activity",
            ACTIVITY_SECONDS,
            _counting(lambda: count_activity(engine), metrics.set_activity),
            "activity was not counted",
        ),
        Task(
            "regressions",
            REGRESSIONS_SECONDS,
            _counting(lambda: count_regressions(engine), metrics.set_regressions),
            "regressions were not counted",
        ),
        _store_baselines(engine),
        Task(
            "alarms",
            ALARMS_SECONDS,
            _counting(partial(_alarms, engine, metrics), metrics.set_alarms),
            "alarms were not updated",
        ),
    ]
    if folder := embedded_folder(engine):
        tasks.append(_restart_postgres(folder))
    if keep:
        tasks.append(_prune(engine, keep))
    if webhook:
        tell_it = partial(tell, engine, webhook, partial(metrics.count, "joinsight_notifications_total", 1))
        tasks.append(Task("webhook", WEBHOOK_SECONDS, tell_it, "the webhook was not called"))
    if reload_files:
        tasks.append(Task("files", FILES_SECONDS, reload_files, "files were not reloaded"))
    with running(tasks):
        yield


@contextmanager
def running(tasks: Iterable[Task]) -> Iterator[None]:
    """Run each task now and then at its interval, until the context ends.

    An exception is logged, and the task runs again.
    """
    stop = threading.Event()
    threads = [
        threading.Thread(target=_repeat, args=(task, stop), name=f"joinsight-{task.name}", daemon=True)
        for task in tasks
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))


def _repeat(task: Task, stop: threading.Event) -> None:
    while True:
        try:
            task.run()
        except DatabaseError as error:
            log.warning("%s: %s", task.failure, error)
        except SQLAlchemyError as error:
            log.error("%s: %s", task.failure, reason(error))
        except Exception:
            log.exception("internal error: %s", task.failure)
        if stop.wait(task.interval_seconds):
            return


def _counting(count: Callable[[], _T], show: Callable[[_T | None], None]) -> Callable[[], None]:
    """Work that counts and shows the result, None when the database does not answer."""

    def run() -> None:
        try:
            show(count())
        except SQLAlchemyError:
            show(None)
            raise

    return run


def _alarms(engine: Engine, metrics: Metrics) -> Mapping[str, int]:
    """Watch what ran since the last time."""
    watch.update(engine, datetime.now(timezone.utc))
    store_causes(engine)
    store_run_causes(engine, datetime.now(timezone.utc))
    forecasts.update(engine, datetime.now(timezone.utc))
    metrics.set_forecasts(count_forecasts(engine))
    return count_alarms(engine)


def _mark_lost(engine: Engine, metrics: Metrics, lost_after: timedelta) -> Task:
    reaper = Reaper(engine, lost_after)

    def run() -> None:
        metrics.count("joinsight_executions_total", reaper.tick(), "lost")

    return Task("lost", REAP_SECONDS, run, "lost executions were not marked")


def _create_partitions(engine: Engine, metrics: Metrics) -> Task:
    """Create partitions ahead of their month; logs when the default partition has more executions than before."""
    known = 0

    def run() -> None:
        nonlocal known
        misdated = partitions.create_ahead(engine)
        if misdated > known:
            log.warning(
                "%d executions with an impossible start time are in the default partition: joinsight doctor lists them",
                misdated,
            )
        known = misdated
        metrics.set_misdated(misdated)

    return Task("partitions", PARTITIONS_SECONDS, run, "partitions of the coming months were not created")


def _store_baselines(engine: Engine) -> Task:
    stored: datetime | None = None

    def run() -> None:
        nonlocal stored
        now = datetime.now(timezone.utc)
        if stored != baselines.moment(now, 0):  # there may be none to store
            baselines.store_nightly(engine, now)
            stored = baselines.moment(now, 0)

    return Task("baselines", BASELINES_SECONDS, run, "baselines of regressions were not stored")


def _restart_postgres(folder: Path) -> Task:
    """Restart the embedded server when it has died or was stopped."""
    not_before = 0.0

    def run() -> None:
        nonlocal not_before
        if embedded.alive(folder) or time.monotonic() < not_before:
            return
        log.error("embedded PostgreSQL is not running: restarting it")
        not_before = time.monotonic() + START_AGAIN_SECONDS
        with embedded.embedded_postgres(folder):  # as a further user, so that the server still stops with the last user
            not_before = 0.0
            log.info("embedded PostgreSQL restarted")

    return Task("postgres", POSTGRES_SECONDS, run, "embedded PostgreSQL was not restarted")


def _prune(engine: Engine, keep: timedelta) -> Task:
    """Prune now and once a day, unless another program is pruning."""

    def run() -> None:
        pruned = prune(engine, keep)
        months, freed = len({part.starts_at for part in pruned.partitions}), sum(p.bytes for p in pruned.partitions)
        log.info("pruned %d months, %d bytes, and %d applications", months, freed, pruned.applications)

    return Task("prune", PRUNE_SECONDS, run, "pruning did not finish")
