"""Reads a whole log: its files to lines, items and documents, and says what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from joinsight.document import Document
from joinsight.errors import LogError
from joinsight.eventlog.files import Log
from joinsight.eventlog.fold import Fold
from joinsight.eventlog.framing import lines
from joinsight.eventlog.piece import Counts, Gap, Item, items

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


def open_local(path: str) -> IO[bytes]:
    """A local file."""
    return Path(path).open("rb", buffering=0)


def documents(log: Log, outcome: Outcome, opener: Opener = open_local) -> Iterator[Document]:
    """The documents of a log: executions in the order of their ends, then the application's. Fills `outcome`.

    Never raises because of what the files hold.
    """
    fold = Fold(log.application_id, log.attempt_id)
    for number in log.missing:
        outcome.problems.append(f"file {number} of the rolling log is missing")
    reason = None
    for number, path in enumerate(log.files):
        name = path.rpartition("/")[2]
        counts = Counts()
        yield from _count(fold.add(_items(path, name, counts, opener), outcome.lines), outcome)
        outcome.lines += counts.lines
        outcome.bytes += counts.bytes
        if counts.unreadable:
            outcome.problems.append(
                f"{name}: {counts.unreadable} lines are unreadable, the first: {counts.first_unreadable}"
            )
        if counts.cut_off is not None:
            outcome.problems.append(f"{name}: {counts.cut_off}")
            reason = f"the event log could not be read to its end: {counts.cut_off}"
            if number + 1 < len(log.files):
                list(fold.add([(0, Gap("a part of the event log could not be read while it ran"))], outcome.lines))
                reason = None
        if number == 0 and log.missing:
            list(fold.add([(0, Gap("files of the rolling event log are missing"))], outcome.lines))
    yield from _count(fold.finish(outcome.lines, log.is_open, reason), outcome)
    if fold.withheld is not None:
        outcome.problems.append(fold.withheld)
    for execution, problem in fold.refused:
        outcome.problems.append(f"execution {execution} could not be made a document: {problem}")


def _count(found: Iterator[Document], outcome: Outcome) -> Iterator[Document]:
    for document in found:
        outcome.executions += document.__struct_config__.tag == "execution"
        yield document


def _items(path: str, name: str, counts: Counts, opener: Opener) -> Iterator[tuple[int, Item]]:
    def until_cut_off() -> Iterator[bytes]:
        try:
            with opener(path) as file:
                yield from lines(file, name)
        except (LogError, OSError) as error:
            counts.cut_off = str(error)

    return items(until_cut_off(), counts)
