"""The work of a task: receives the documents that Java reads from event logs, and writes them to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

import joinsight
from joinsight.backfill.jvm import OUTCOME, Reader
from joinsight.backfill.log_file import LogFile
from joinsight.base.errors import DatabaseError, DocumentError, JoinsightError
from joinsight.base.gc_tuning import collect_seldom
from joinsight.contract.decode import decode_document, printable
from joinsight.contract.document import Document, Execution
from joinsight.findings import FindingsEngine
from joinsight.findings.thresholds import Thresholds
from joinsight.store import event_logs
from joinsight.store.database import connect, reason
from joinsight.store.writer import Writer

_BATCH_DOCUMENTS = 200
_BATCH_WEIGHT = 20_000
_PROBLEMS = 20
_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Store:
    """Where to write. It is sent to executors inside the function that they run, not in Spark's settings, which others
    see."""

    url: str
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class LogResult:
    """The result for one log."""

    entry: event_logs.Entry
    stored: int
    """Documents that changed the store."""
    repaired: int
    """Those that replaced an execution which the listener had reported only in part."""
    is_log: bool = True
    """False: a candidate that is not an event log, and was left out."""
    applications: frozenset[str] = frozenset()
    """Ids, from its events."""


class Outcome(msgspec.Struct):
    """The result of reading a log, as Java reports it at the end."""

    lines: int
    bytes: int
    """Uncompressed."""
    problems: list[str]
    """Why parts could not be read; empty: everything was read."""
    failed: bool
    """The failure may be temporary: it was not caused by the log's contents."""
    is_log: bool = True
    """False: the first line of a candidate is not an event."""


class _Id(msgspec.Struct):
    execution_id: int | None = None


class LogDocuments:
    """The documents in a log's lines; `outcome` is available when all documents were consumed."""

    def __init__(self, log: LogFile, lines: Iterator[bytes]) -> None:
        self._lines = lines
        # Spark flushes whole blocks, so nothing can be read of a log that has just been opened
        self._must_have_events = log.state.size_bytes > 0 and not log.is_open
        self._outcome: Outcome | None = None
        self._missing = [f"file {number} of the rolling log is missing" for number in log.missing]
        self._refused: list[str] = []
        self._has_documents = False
        self.executions: set[int] = set()
        self.applications: set[str] = set()

    def __iter__(self) -> Iterator[Document]:
        while self._outcome is None:
            line = next(self._lines, None)
            if line is None:
                raise JoinsightError("Java ended in the middle of an event log")
            if line.startswith(OUTCOME):
                self._outcome = msgspec.json.decode(line, type=Outcome)
                return
            try:
                document = decode_document(line)
            except DocumentError as error:  # the log contains something that Spark does not write
                number = msgspec.json.decode(line, type=_Id).execution_id
                what = "the application" if number is None else f"execution {number}"
                self._refused.append(f"{what} could not be converted to a document: {error}")
                continue
            self._has_documents = True
            self.applications.add(document.application_id)
            if isinstance(document, Execution):
                self.executions.add(document.execution_id)
            yield document

    @property
    def outcome(self) -> Outcome:
        """The outcome of the log; skips documents that were not consumed."""
        for _ in self:
            pass
        assert self._outcome is not None
        if not self._outcome.is_log:
            return self._outcome
        problems = [*self._missing, *self._outcome.problems, *self._refused]
        has_nothing = not self._has_documents and not self._refused
        if has_nothing and (self._outcome.lines or (self._must_have_events and not problems)):
            problems.append("it has no events of an application: it is not an event log, or its beginning is missing")
        return msgspec.structs.replace(self._outcome, problems=problems)


def read_logs(store: Store, logs: Sequence[LogFile], reader: Reader | None = None) -> Iterator[LogResult]:
    """Read logs on this machine and write them, one after the other; without a `reader` by a new one."""
    with nullcontext(reader) if reader else Reader(sum(log.weight for log in logs)) as used:
        yield from write_logs(store, logs, used.read([log.request() for log in logs]))


def write_logs(store: Store, logs: Sequence[LogFile], lines: Iterator[bytes]) -> Iterator[LogResult]:
    """Write logs, one after the other; `lines` come from `EventLogReader`."""
    collect_seldom()
    with connect(store.url) as engine:
        writer = Writer(engine, FindingsEngine(store.thresholds))
        for log in logs:
            yield _write(engine, writer, log, LogDocuments(log, lines))


def _write(engine: Engine, writer: Writer, log: LogFile, documents: LogDocuments) -> LogResult:
    """Write a log's documents and record the log in `event_log`. Only a `JoinsightError` fails more than this log."""
    stored = repaired = 0
    problems: list[str] = []
    failed = False
    try:
        for batch in _batches(documents):
            with _database():
                written = writer.write(batch)
            stored += written.stored
            repaired += written.repaired
            problems += [_refusal(*each) for each in written.refused]
    except JoinsightError:
        raise
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}")
        failed = True
    outcome = documents.outcome
    outcome.problems += problems
    outcome.failed |= failed
    entry = _entry(log, outcome, len(documents.executions))
    if outcome.is_log:
        with _database():
            event_logs.write(engine, entry)
    return LogResult(entry, stored, repaired, outcome.is_log, frozenset(documents.applications))


@contextmanager
def _database() -> Iterator[None]:
    """Shorten database errors to one line without rows, because Spark would log them."""
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseError(reason(error).splitlines()[0]) from None


def _batches(documents: LogDocuments) -> Iterator[Sequence[Document]]:
    batch: list[Document] = []
    weight = 0
    for document in documents:
        batch.append(document)
        if isinstance(document, Execution):
            weight += len(document.accumulators) + len(document.nodes) + len(document.stages)
        if len(batch) >= _BATCH_DOCUMENTS or weight >= _BATCH_WEIGHT:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def _refusal(document: Document, why: str) -> str:
    what = f"execution {document.execution_id}" if isinstance(document, Execution) else "the application"
    return f"{what}: {why}"


def _entry(log: LogFile, outcome: Outcome, executions: int) -> event_logs.Entry:
    problems = [printable(problem)[:_PROBLEM_CHARACTERS] for problem in outcome.problems[:_PROBLEMS]]
    if len(outcome.problems) > _PROBLEMS:
        problems.append(f"and {len(outcome.problems) - _PROBLEMS} more")
    state = log.state
    return event_logs.Entry(
        path=log.key,
        application_id=log.application_id,
        attempt_id=log.attempt_id,
        size_bytes=state.size_bytes,
        modified_at=state.modified_at,
        is_open=state.is_open,
        outcome="failed" if outcome.failed else "partial" if problems else "whole",
        problems=problems,
        is_compacted=log.is_compacted,
        missing_files=len(log.missing),
        lines=outcome.lines,
        event_bytes=outcome.bytes,
        executions=executions,
        reader_version=joinsight.__version__,
    )
