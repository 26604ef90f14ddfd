"""What executors do: read logs, or stretches of them, and write what they hold to PostgreSQL.

A record of a stretch is its key and a pickle: a list of items, and at the stretch's end what was counted. Records of a
log in the order of their keys are the log; never is more of it in memory than a few of them, and what the fold keeps.
"""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, cast

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

import joinsight
from joinsight.backfill.share import Found, Unit
from joinsight.backfill.stretch import Stretch, first_byte
from joinsight.document import Document, Execution
from joinsight.errors import DatabaseError, JoinsightError
from joinsight.eventlog.framing import codec_of
from joinsight.eventlog.piece import Counts, Item
from joinsight.eventlog.read import Outcome, Part, documents, fold, part
from joinsight.eventlog.tasks import TaskBlock
from joinsight.findings import Finder
from joinsight.findings.thresholds import Thresholds
from joinsight.garbage import collect_seldom
from joinsight.store import ledger
from joinsight.store.database import connect, reason
from joinsight.store.writer import Writer

Key = tuple[int, int, int]
"""Number of the log, of its part, of the record."""
Record = tuple[Key, bytes]
Opener = Callable[[str, int], IO[bytes]]
"""Opens a file at a byte."""
LOCAL = "file:"
_LIBRARIES = {"zstd": "zstandard", "lz4": "cramjam", "snappy": "cramjam"}
_RECORD_WEIGHT = 2_000
_BATCH_DOCUMENTS = 200
_BATCH_WEIGHT = 20_000
_PROBLEMS = 20
_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Store:
    """Where to write: it travels to the executors within what they run, not in Spark's settings, which others see."""

    url: str
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a log."""

    entry: ledger.Entry
    stored: int
    """Documents that changed the store."""
    repaired: int
    """Of these, executions that the listener had told of in part."""


def open_local(path: str, start: int) -> IO[bytes]:
    """A file of this machine, or of a disk that all executors share."""
    file = Path(path.removeprefix(LOCAL)).open("rb", buffering=0)  # noqa: SIM115
    file.seek(start)
    return file


def check_libraries(paths: Iterable[str]) -> None:
    """Raises `JoinsightError` if one is missing that these need; each log would be taken for a broken one."""
    for codec in {codec_of(path.rpartition("/")[2], b"") for path in paths}:
        library = _LIBRARIES.get(codec or "")
        if library is not None and importlib.util.find_spec(library) is None:
            raise JoinsightError(
                f"Event logs packed with {codec} need {library} in the Python of the executors:"
                " pip install 'joinsight[eventlog]'"
            )


def read_logs(store: Store, opener: Opener, logs: Iterable[Found]) -> Iterator[Done]:
    """Read logs whole and write them, one after the other."""
    collect_seldom()
    logs = list(logs)
    check_libraries(path for found in logs for path in found.log.files)
    with connect(store.url) as engine:
        writer = Writer(engine, Finder(store.thresholds))
        for found in logs:
            outcome = Outcome()
            told = documents(found.log, outcome, lambda path: opener(path, 0))
            yield _write(engine, writer, found, told, outcome)


def read_units(opener: Opener, units: Iterable[Unit]) -> Iterator[Record]:
    """Read stretches of logs."""
    collect_seldom()
    units = list(units)
    check_libraries(unit.path for unit in units)
    for unit in units:
        number = 0
        found = part(unit.path, partial(_open_stretch, unit, opener))
        for number, items in enumerate(_portions(found.items)):
            yield (unit.log, unit.part, number), pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
        end = found.counts, found.failed
        yield (unit.log, unit.part, number + 1), pickle.dumps(end, pickle.HIGHEST_PROTOCOL)


def fold_logs(
    store: Store, logs: Mapping[int, Found], names: Mapping[tuple[int, int], str], records: Iterable[Record]
) -> Iterator[Done]:
    """Put logs together from the records of their stretches, in order, and write them. `names`: files, by part."""
    collect_seldom()
    with connect(store.url) as engine:
        writer = Writer(engine, Finder(store.thresholds))
        for number, of_log in groupby(records, key=lambda record: record[0][0]):
            outcome = Outcome()
            told = fold(logs[number].log, outcome, _parts(of_log, names))
            yield _write(engine, writer, logs[number], told, outcome)


def _open_stretch(unit: Unit, opener: Opener, path: str) -> IO[bytes]:
    if unit.end is None:
        return opener(path, 0)
    file = opener(path, first_byte(unit.start))
    return cast(IO[bytes], Stretch(file, unit.start, unit.end))


def _portions(items: Iterable[tuple[int, Item]]) -> Iterator[list[tuple[int, Item]]]:
    some: list[tuple[int, Item]] = []
    weight = 0
    for item in items:
        some.append(item)
        weight += len(item[1].task_ids) if isinstance(item[1], TaskBlock) else 20
        if weight >= _RECORD_WEIGHT:
            yield some
            some, weight = [], 0
    yield some


def _parts(records: Iterable[Record], names: Mapping[tuple[int, int], str]) -> Iterator[Part]:
    for key, of_part in groupby(records, key=lambda record: record[0][:2]):
        found = Part(names[key])
        found.items = _items(of_part, found)
        yield found


def _items(records: Iterable[Record], part: Part) -> Iterator[tuple[int, Item]]:
    for _, pickled in records:
        content: list[tuple[int, Item]] | tuple[Counts, bool] = pickle.loads(pickled)
        if isinstance(content, list):
            yield from content
        else:
            part.counts, part.failed = content


def _write(engine: Engine, writer: Writer, found: Found, told: Iterator[Document], outcome: Outcome) -> Done:
    """Write a log's documents and enter it in the ledger. All but `DatabaseError` fails this log only."""
    stored = repaired = 0
    try:
        for batch in _batches(told):
            with _database():
                written = writer.write(batch)
            stored += written.stored
            repaired += written.repaired
            outcome.problems += [_refusal(*each) for each in written.refused]
    except DatabaseError:
        raise
    except Exception as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
        outcome.failed = True
    entry = _entry(found, outcome)
    with _database():
        ledger.write(engine, entry)
    return Done(entry, stored, repaired)


@contextmanager
def _database() -> Iterator[None]:
    """What the database says, in a line and without the rows, which Spark would log."""
    try:
        yield
    except SQLAlchemyError as error:
        raise DatabaseError(reason(error).splitlines()[0]) from None


def _batches(told: Iterator[Document]) -> Iterator[Sequence[Document]]:
    batch: list[Document] = []
    weight = 0
    for document in told:
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


def _entry(found: Found, outcome: Outcome) -> ledger.Entry:
    problems = [_printable(problem) for problem in outcome.problems[:_PROBLEMS]]
    if len(outcome.problems) > _PROBLEMS:
        problems.append(f"and {len(outcome.problems) - _PROBLEMS} more")
    return ledger.Entry(
        path=found.key,
        application_id=found.log.application_id,
        attempt_id=found.log.attempt_id,
        size_bytes=found.size,
        modified_at=found.modified_at,
        is_open=found.log.is_open,
        outcome="failed" if outcome.failed else "partial" if problems else "whole",
        problems=problems,
        is_compacted=found.log.is_compacted,
        missing_files=len(found.log.missing),
        lines=outcome.lines,
        event_bytes=outcome.bytes,
        executions=outcome.executions,
        reader_version=joinsight.__version__,
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:_PROBLEM_CHARACTERS]
