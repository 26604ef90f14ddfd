"""Reads the runs of queries of one side, from a file of documents or a database."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, func, select, text, tuple_
from sqlalchemy.dialects.postgresql import aggregate_order_by

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.table_formats import is_own_read, own_read
from joinsight.base.errors import ConfigurationError, DocumentError
from joinsight.base.units import bytes_text
from joinsight.contract.decode import MAX_DOCUMENT_BYTES, decode_document
from joinsight.contract.document import Execution
from joinsight.gate.golden import Section, plan_of, section
from joinsight.gate.simplified import PlanLine
from joinsight.plan import operators
from joinsight.present.values import query_title
from joinsight.tables import (
    EXECUTION_KEY,
    AqeDecisionRow,
    ExecutionRow,
    JoinRow,
    PlanEdgeRow,
    PlanNodeRow,
    application,
    aqe_decision,
    as_columns,
    execution,
    joins,
)
from joinsight.tables.views import plan_edge, plan_node

MEASURES: Mapping[str, str] = {
    "shuffle_write_bytes": "shuffled bytes",
    "broadcast_bytes": "broadcast bytes",
    "disk_spilled_bytes": "spilled bytes",
    "task_time_ms": "task time",
    "duration_ms": "wall time",
}
"""The columns of an execution that are shown of both sides, and what they are called."""

_GZIP = b"\x1f\x8b"
_MAX_UNPACKED_BYTES = 1 << 30
_EARLIER = 9
"""Earlier runs of a query that tell how much its shuffled bytes vary."""
_AT_ONCE = 200
"""Executions whose plans are read by one statement."""
_R = TypeVar("_R")


@dataclass(frozen=True)
class QueryRun:
    """A run of a query."""

    job: str
    shape: str | None
    spark_version: str
    section: Section
    numbers: Mapping[str, int | None]
    """By column of `MEASURES`."""
    error: str | None
    """Why it failed; None if it did not."""
    strategies: Mapping[str, str]
    """The key of each operator, with the strategy of a join, "" for others."""
    settings: Mapping[str, str]
    """In force when it ran."""
    is_partial: bool = False
    """Whether numbers are missing, since not all events arrived."""
    earlier_shuffled: tuple[int, ...] = ()
    """Shuffled bytes of earlier runs of the query on its side."""


def read_file(path: Path) -> list[QueryRun]:
    """The executions with a plan in a file of documents, a line each, gzip or not.

    Raises `ConfigurationError` for a file that cannot be read, with the line that is not a document.
    """
    runs = []
    for number, line in enumerate(_lines(path), 1):
        if len(line) > MAX_DOCUMENT_BYTES:
            raise _unreadable(path, f"line {number} is longer than {bytes_text(MAX_DOCUMENT_BYTES)}")
        try:
            document = decode_document(line)
        except DocumentError as error:
            raise _unreadable(path, f"line {number} is not a document: {error}") from None
        if isinstance(document, Execution) and document.plans:
            if document.nested and not document.jobs:  # a command that only started others, as in _is_compared
                continue
            if own_read(document.description, document.call_site):
                continue
            rows = execution_rows(document)
            its = document.listener.spark_version
            plan = plan_of(rows.plan_node, rows.plan_edge, rows.joins, rows.aqe_decision)
            runs.append(_run(rows.execution, its, plan, rows.plan_node))
    if not runs:
        raise _unreadable(path, "no query in it has a plan")
    return _with_earlier(runs)


def _with_earlier(runs: Sequence[QueryRun]) -> list[QueryRun]:
    """Each with the shuffled bytes of the runs of its query before it."""
    before: dict[tuple[str, str | None], tuple[int, ...]] = defaultdict(tuple)
    found = []
    for run in runs:
        query = run.job, run.shape
        found.append(replace(run, earlier_shuffled=before[query][-_EARLIER:]))
        if (shuffled := run.numbers["shuffle_write_bytes"]) is not None and run.error is None:
            before[query] += (shuffled,)
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """One at a time: a small gzip file may hold gigabytes."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            lines = gzip.GzipFile(fileobj=file) if is_packed else file
            size = 0
            while line := lines.readline(MAX_DOCUMENT_BYTES + 1):
                size += len(line)
                if is_packed and size > _MAX_UNPACKED_BYTES:
                    raise _unreadable(path, f"it holds more than {bytes_text(_MAX_UNPACKED_BYTES)}")
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, str(error)) from None


def read_database(engine: Engine, since: datetime, jobs: Sequence[str]) -> list[QueryRun]:
    """The last run of each query of each job, of these jobs if any are given, that started since and has ended."""
    c = execution.c
    latest = (
        select(execution)
        .where(*_is_compared(since))
        .prefix_with(text("DISTINCT ON (job_name, query_shape)"))
        .order_by(c.job_name, c.query_shape, *(c[name].desc() for name in EXECUTION_KEY))
    )
    if jobs:
        latest = latest.where(c.job_name.in_(jobs))
    with engine.connect() as connection:
        rows = [ExecutionRow(**row) for row in connection.execute(latest).mappings()]
        rows.sort(key=lambda row: (row.job_name, row.started_at, row.execution_id))
        earlier = {row[:2]: tuple(row[2]) for row in connection.execute(_earlier(since, jobs))}
        return [
            replace(run, earlier_shuffled=earlier.get((run.job, run.shape), ()))
            for at in range(0, len(rows), _AT_ONCE)
            for run in _with_plans(connection, rows[at : at + _AT_ONCE])
        ]


def _earlier(since: datetime, jobs: Sequence[str]) -> Select[Any]:
    """Job, query, and the shuffled bytes of its runs before the last one, the newest first."""
    c = execution.c
    place = func.row_number().over(
        partition_by=(c.job_name, c.query_shape), order_by=[c[name].desc() for name in EXECUTION_KEY]
    )
    columns = (c.job_name, c.query_shape, c.state, c.shuffle_write_bytes, place.label("place"))
    runs = select(*columns).where(*_is_compared(since))
    numbered = (runs.where(c.job_name.in_(jobs)) if jobs else runs).subquery()
    n = numbered.c
    return (
        select(n.job_name, n.query_shape, func.array_agg(aggregate_order_by(n.shuffle_write_bytes, n.place.desc())))
        .where(n.place.between(2, 1 + _EARLIER), n.state == "succeeded", n.shuffle_write_bytes.is_not(None))
        .group_by(n.job_name, n.query_shape)
    )


def _is_compared(since: datetime) -> Sequence[ColumnElement[bool]]:
    """Ended, with a plan of its own: those of a command that only started others are theirs.

    What a table format reads for itself is no query of the job: it depends on what the session knows already.
    """
    c = execution.c
    only_started = (c.jobs == 0) & (c.nested > 0)
    return (
        c.started_at >= since,
        c.state.in_(("succeeded", "failed")),
        c.query_shape.is_not(None),
        only_started.is_not(True),
        ~is_own_read(execution),
    )


def _with_plans(connection: Connection, rows: Sequence[ExecutionRow]) -> Iterator[QueryRun]:
    keys = [_key(row) for row in rows]
    attempts = tuple_(application.c.application_id, application.c.attempt_id)
    chosen = select(*attempts.clauses, application.c.spark_version).where(attempts.in_([key[1:3] for key in keys]))
    versions = {(row[0], row[1]): row[2] for row in connection.execute(chosen)}
    nodes = _children(connection, plan_node, PlanNodeRow, keys)
    edges = _children(connection, plan_edge, PlanEdgeRow, keys)
    joined = _children(connection, joins, JoinRow, keys)
    decided = _children(connection, aqe_decision, AqeDecisionRow, keys)
    for row, key in zip(rows, keys, strict=True):
        yield _run(row, versions[key[1:3]], plan_of(nodes[key], edges[key], joined[key], decided[key]), nodes[key])


def _children(
    connection: Connection, table: Table, row_type: type[_R], keys: Sequence[tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[_R]]:
    key = tuple_(*(table.c[name] for name in EXECUTION_KEY))
    found: dict[tuple[Any, ...], list[_R]] = {each: [] for each in keys}
    statement = select(table).where(key.in_(keys)).order_by(*table.primary_key)
    for row in connection.execute(statement).mappings():
        found[tuple(row[name] for name in EXECUTION_KEY)].append(row_type(**row))
    return found


def _key(row: ExecutionRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in EXECUTION_KEY)


def _run(row: ExecutionRow, spark_version: str, plan: Sequence[PlanLine], nodes: Sequence[PlanNodeRow]) -> QueryRun:
    return QueryRun(
        row.job_name,
        row.query_shape,
        spark_version,
        section(query_title(as_columns(row)), row.configuration, plan),
        {name: getattr(row, name) for name in MEASURES},
        (row.error or "for an unknown reason") if row.state == "failed" else None,
        {node.operator_key: operators.join_strategy(node.name) or "" for node in nodes if node.operator_key},
        row.configuration or {},
        bool(row.incomplete),
    )


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    remedy = "Write it with pytest --joinsight-record or measured.save (docs/gate.md)."
    return ConfigurationError("FILE", str(path), problem, remedy)
