"""Reads a whole log: its files to lines, items and documents, and says what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from joinsight.document import Document, Execution
from joinsight.errors import LogError
from joinsight.eventlog.files import Log, number_of
from joinsight.eventlog.fold import Fold
from joinsight.eventlog.framing import lines
from joinsight.eventlog.piece import Counts, Gap, Item, items
from joinsight.incomplete import reason

Opener = Callable[[str], IO[bytes]]


@dataclass(slots=True)
class Outcome:
    """What became of a log, once its documents have been taken."""

    lines: int = 0
    bytes: int = 0
    """Uncompressed."""
    executions: int = 0
    problems: list[str] = field(default_factory=list)
    """Why not all of it could be read; empty: it was."""
    failed: bool = False
    """A problem is not the log's: another time it may be read."""


@dataclass(slots=True)
class Part:
    """A file of a log, or a stretch of one, as it is read: the rest is known when `items` have been taken."""

    name: str
    """The file's."""
    items: Iterable[tuple[int, Item]] = ()
    counts: Counts = field(default_factory=Counts)
    failed: bool = False
    """What cut it off may pass."""


def open_local(path: str) -> IO[bytes]:
    """A local file."""
    return Path(path).open("rb", buffering=0)


def documents(log: Log, outcome: Outcome, opener: Opener = open_local) -> Iterator[Document]:
    """The documents of a log: executions in the order of their ends, then the application's. Fills `outcome`.

    Never raises because of what the files hold.
    """
    return fold(log, outcome, (part(path, opener) for path in log.files))


def part(path: str, opener: Opener) -> Part:
    """A file, or what `opener` gives of it."""
    name = path.rpartition("/")[2]
    found = Part(name)

    def until_cut_off() -> Iterator[bytes]:
        try:
            with opener(path) as file:
                yield from lines(file, name)
        except (LogError, OSError) as error:
            found.counts.cut_off = str(error)
            found.failed = isinstance(error, OSError) or isinstance(error.__cause__, OSError)

    found.items = items(until_cut_off(), found.counts)
    return found


def fold(log: Log, outcome: Outcome, parts: Iterable[Part]) -> Iterator[Document]:
    """The documents of a log by its parts, in their order."""
    fold = Fold(log.application_id, log.attempt_id)
    told: set[int] = set()
    for number in log.missing:
        outcome.problems.append(f"file {number} of the rolling log is missing")
    last = Part("")
    for part in parts:
        outcome.problems += _cut_off(last)
        list(fold.add(((0, gap) for gap in _between(log, last, part)), outcome.lines))
        yield from _count(fold.add(part.items, outcome.lines), told)
        counts = part.counts
        outcome.lines += counts.lines
        outcome.bytes += counts.bytes
        outcome.failed |= part.failed
        if counts.unreadable:
            outcome.problems.append(
                f"{part.name}: {counts.unreadable} lines are unreadable, the first: {counts.first_unreadable}"
            )
        last = part
    why = None
    if last.counts.cut_off is not None and (last.failed or not log.is_open):  # one that is written ends anywhere
        outcome.problems += _cut_off(last)
        why = reason("log_cut_off", problem=last.counts.cut_off)
    yield from _count(fold.finish(outcome.lines, log.is_open, why), told)
    outcome.executions = len(told)
    if fold.withheld is not None:
        outcome.problems.append(fold.withheld)
    for execution, problem in fold.refused:
        outcome.problems.append(f"execution {execution} could not be made a document: {problem}")


def _between(log: Log, last: Part, next: Part) -> Iterator[Gap]:
    if last.counts.cut_off is not None:
        yield Gap(reason("log_part_unreadable"))
    if log.missing and last.name != next.name:
        after, before = number_of(last.name), number_of(next.name)
        if any(after < number < before for number in log.missing):
            yield Gap(reason("log_files_missing"))


def _cut_off(part: Part) -> list[str]:
    return [] if part.counts.cut_off is None else [f"{part.name}: {part.counts.cut_off}"]


def _count(found: Iterator[Document], told: set[int]) -> Iterator[Document]:
    for document in found:
        if isinstance(document, Execution):
            told.add(document.execution_id)
        yield document
