"""Generates the documents of all runs and copies their rows into the tables."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any
from uuid import UUID

from msgspec import structs
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range
from sqlalchemy import Engine
from tests.copying import copy_rows
from tests.findings.planted import PLANTED
from tests.history.jobs import DAY, LEAST_JOBS, Job, Run, make_jobs, runs_of_day

from joinsight import __version__
from joinsight.analysis.rows import Rows, application_row, execution_rows
from joinsight.contract.document import Application, Execution, Listener
from joinsight.contract.incomplete import reason
from joinsight.findings import FindingsEngine
from joinsight.findings.finding import NoHistory
from joinsight.store import partitions
from joinsight.store.history import RUNS
from joinsight.tables import PACKED, ApplicationRow, DeliveryRow, ExecutionRow, metadata

LEAST_DAYS = 14
SPARK_VERSION = "4.3.0"
"""The name under which the templates were recorded."""
_CHUNK = 200
_LOST = reason("driver_lost", time="5m")


@dataclass(frozen=True, slots=True)
class Event:
    """A planted event, with the facts to check a detection against."""

    kind: str
    """One of: data_growth, broadcast_over_threshold, join_flip, plan_changed, slower, data_grew, skew, spill,
    broadcast_failed, driver_lost."""
    job_name: str
    query_shape: str
    operator_key: str | None
    """The join (join_flip, plan_changed, spill), broadcast (broadcast_*), shuffle (skew); None: the whole query."""
    day: datetime
    """Midnight (UTC) of the first day with it; runs of this day have it and those of the day before have not."""
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Planted:
    """What `generate` planted."""

    start: datetime
    end: datetime
    jobs: int
    events: tuple[Event, ...]
    rows: Mapping[str, int]
    """Rows by table."""

    def of(self, kind: str) -> Event:
        """The planted event of this kind."""
        return next(event for event in self.events if event.kind == kind)


def generate(
    engine: Engine, *, days: int, end: datetime, seed: int = 0, jobs: int = 200, tables: Collection[str] | None = None
) -> Planted:
    """Fill the tables with the history of the `days` before `end`, from midnight (UTC) on.

    `tables` names those to fill, all for None.
    """
    assert days >= LEAST_DAYS and jobs >= LEAST_JOBS, "each event needs a job of its own, and days before and after it"
    end = end.astimezone(timezone.utc)
    start = end.replace(hour=0, minute=0, second=0, microsecond=0) - days * DAY
    all_jobs = make_jobs(jobs, days, seed)
    partitions.create(engine, {partitions.month_of(start + day * DAY) for day in range(days + 2)})
    filled = _Filler(engine, tables)
    findings, earlier = FindingsEngine(heuristics=PLANTED), _EarlierRuns()
    applications = 0
    for day in range(days + 1):
        midnight = start + day * DAY
        runs = [run for job in all_jobs for run in runs_of_day(job, day, midnight, seed) if run.started_at < end]
        for run in sorted(runs, key=lambda run: (run.started_at, run.job.index)):
            applications += 1
            found = _rows(run, applications, start, end, seed)
            if found is not None:
                application, delivery, executions = found
                filled.add({"application": [application], "delivery": [delivery]})
                for rows in executions:
                    filled.add(replace(rows, finding=findings.rows(rows, earlier)).by_table())
                    filled.add({name: getattr(rows, name) for name in map(str, PACKED)})
                    earlier.add(rows)
            filled.end_of_run()
    filled.flush()
    events = tuple(_event(job, start) for job in all_jobs if job.story)
    return Planted(start, end, jobs, events, dict(filled.rows))


def _event(job: Job, start: datetime) -> Event:
    assert job.story is not None
    standard = next(iter(job.queries[0].templates.values()))
    rows = execution_rows(standard.execution)
    keys = {row.node_id: row.operator_key for row in rows.plan_node}
    operator = None
    if job.story.kind in ("join_flip", "plan_changed", "spill"):
        operator = rows.joins[0].operator_key
    elif job.story.kind.startswith("broadcast"):
        operator = rows.broadcast[0].operator_key
    elif job.story.kind == "skew" and standard.shuffle:
        operator = keys[standard.shuffle.node_id]
    shape = rows.execution.query_shape
    assert shape is not None
    return Event(job.story.kind, job.name, shape, operator, start + job.planted_day * DAY, job.story.numbers)


def _rows(
    run: Run, number: int, start: datetime, end: datetime, seed: int
) -> tuple[ApplicationRow, DeliveryRow, list[Rows]] | None:
    """The rows of an application, its delivery and its executions; None if all executions would end too late."""
    job, effect = run.job, run.job.effect(run.day)
    random = Random(f"{seed}/{number}")
    common: dict[str, Any] = {
        "schema_version": 1,
        "origin": "live",
        "listener": Listener(str(UUID(int=random.getrandbits(128), version=4)), __version__, SPARK_VERSION),
        "application_id": f"application_{_ms(start)}_{number:04}",
        "application_name": job.name.split("/")[-1],
        "job_name": job.name,
        "tags": {"generated": "true", "team": job.team, "pipeline": job.name.split("/")[0]},
    }
    first_stage = 0
    ended = run.started_at
    executions = []
    for execution_id, (seconds, query, scale) in enumerate(run.queries):
        started_at = run.started_at + timedelta(seconds=seconds)
        template = query.templates[effect.variant or next(iter(query.templates))]
        changes: dict[str, Any] = {
            **common,
            "execution_id": execution_id,
            "root_execution_id": execution_id,
            "sequence": execution_id + 2,
            "description": query.title,
            "call_site": f"save at /jobs/{job.name}.py:{20 + execution_id}",
        }
        if job.schedule == "stream":
            changes["streaming_query_id"] = str(UUID(int=Random(job.name).getrandbits(128), version=4))
            changes["streaming_batch_id"] = run.day * len(run.queries) + execution_id
        if effect.is_lost:
            changes |= {
                "state": "lost",
                "ended_at_ms": None,
                "incomplete": [_LOST.text],
                "incomplete_codes": [_LOST.code],
            }
        execution = template.scaled(scale, _ms(started_at), first_stage, **changes)
        ended = started_at + timedelta(milliseconds=round(template.duration_ms * scale.time))
        if ended >= end:
            break
        executions.append((execution, template.plans, ended))
        first_stage += template.stages
    if not executions:
        return None
    last = executions[-1][-1] + timedelta(seconds=random.uniform(1, 3))
    application, delivery = _of_application(run, common, [e for e, *_ in executions], last, effect.is_lost)
    made = [(execution_rows(execution, plans), moment) for execution, plans, moment in executions]
    return application, delivery, [replace(r, execution=structs.replace(r.execution, updated_at=at)) for r, at in made]


def _of_application(
    run: Run, common: dict[str, Any], executions: list[Execution], last: datetime, is_lost: bool
) -> tuple[ApplicationRow, DeliveryRow]:
    documents = len(executions) + (1 if is_lost else 2)
    application = Application(
        **common,
        sequence=documents,
        state="running" if is_lost else "ended",
        started_at_ms=_ms(run.started_at),
        ended_at_ms=None if is_lost else _ms(last),
        user=run.job.user,
        master="yarn",
        documents_made=documents,
    )
    delivery = DeliveryRow(
        application_id=application.application_id,
        attempt_id=application.attempt_id,
        listener_id=application.listener.id,
        sequences_arrived=Multirange([Range(1, documents + 1)]),
        documents_arrived=documents,
        sequences_superseded=Multirange(),
        sequences_refused=Multirange(),
        sequences_dropped=Multirange(),
        first_heard_at=run.started_at,
        last_heard_at=last,
        sequence=documents,
        documents_made=documents,
        documents_dropped=0,
        documents_dropped_by_cause={},
        documents_refused=0,
        documents_missing=0,
        events_dropped=0,
        listener_failures=0,
    )
    return structs.replace(application_row(application), updated_at=last), delivery


class _EarlierRuns(NoHistory):
    """The `History` of the runs generated so far, in order of time."""

    errors: tuple[type[Exception], ...] = ()

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[str, str], deque[int]] = defaultdict(lambda: deque(maxlen=RUNS))

    def add(self, rows: Rows) -> None:
        for row in rows.broadcast:
            if row.outcome == "succeeded" and row.rows is not None and row.operator_key is not None:
                self._rows[rows.execution.job_name, row.operator_key].append(row.rows)

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> Sequence[int]:
        """Rows of the latest runs of a broadcast in the job, of those that succeeded."""
        return self._rows[run.job_name, operator_key]


class _Filler:
    """Collects rows and copies them in chunks, a transaction each."""

    def __init__(self, engine: Engine, tables: Collection[str] | None) -> None:
        self._engine = engine
        self._tables = metadata.tables.keys() if tables is None else tables
        self._waiting: dict[str, list[Any]] = defaultdict(list)
        self.rows: Counter[str] = Counter()

    def add(self, found: Mapping[str, Sequence[Any]]) -> None:
        for table, rows in found.items():
            if table in self._tables:
                self._waiting[table] += rows

    def end_of_run(self) -> None:
        """Copy the rows that must be stored in one transaction."""
        if len(self._waiting["execution"]) >= _CHUNK:
            self.flush()

    def flush(self) -> None:
        with self._engine.begin() as connection:
            for table, rows in self._waiting.items():
                if rows:
                    copy_rows(connection, metadata.tables[table], rows)
                    self.rows[table] += len(rows)
        self._waiting.clear()


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
