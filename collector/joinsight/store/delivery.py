"""Keeps account of what arrived: one row for each listener, merged in the transaction that stores the batch.

The account is one of which numbers, never of how many: sets, as multiranges, whose union is exact whatever arrives
twice, late or through another collector. A number is missing when it was given to a document and is in none of the
sets: it did not arrive, no newer document of the same execution did, and it was neither refused nor dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, case, cast, func, select
from sqlalchemy.dialects.postgresql import Insert, Range, insert

from joinsight.decode import Stamp
from joinsight.document import MAX_LONG, Application, Document
from joinsight.rows import Row
from joinsight.store import models

Refused = tuple[Stamp | Document, str]
"""A document that was refused, and why."""

_Key = tuple[str, str, str]
_SETS = ("sequences_arrived", "sequences_superseded", "sequences_refused", "sequences_dropped")
_SAID = ("sequence", "documents_made", "documents_dropped_by_cause", "events_dropped", "listener_failures")


@dataclass(slots=True)
class _News:
    """What a batch tells of a listener."""

    arrived: list[tuple[int, int]] = field(default_factory=list)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    reason: str | None = None
    newest: Application | None = None


def record(connection: Connection, documents: Sequence[Document], refused: Sequence[Refused]) -> None:
    """Note that these arrived, and that those were refused; row by row in the order of the keys, against deadlocks."""
    news: dict[_Key, _News] = {}
    for document in documents:
        its = news.setdefault(_key(document), _News())
        its.arrived.append((document.sequence, document.sequence))
        its.superseded += document.supersedes
        if isinstance(document, Application):
            its.refused += document.refused
            for numbers in document.dropped.values():
                its.dropped += numbers
            if its.newest is None or its.newest.sequence < document.sequence:
                its.newest = document
    for stamp, reason in refused:
        its = news.setdefault(_key(stamp), _News())
        its.refused += [(stamp.sequence, stamp.sequence), *stamp.supersedes]
        its.reason = reason
    for key in sorted(news):
        connection.execute(_MERGE, _row(key, news[key]))


def _key(of: Document | Stamp) -> _Key:
    return of.application_id, of.attempt_id, of.listener.id


def _row(key: _Key, news: _News) -> Row:
    row: Row = dict.fromkeys(_SAID) | dict(zip(models.delivery.primary_key.columns.keys(), key, strict=True))
    for name, numbers in zip(_SETS, (news.arrived, news.superseded, news.refused, news.dropped), strict=True):
        row[name] = list(_ranges(numbers))
    row["refused_reason"] = news.reason
    a = news.newest
    if a is None:
        return row | {"sequence": 0}
    return row | {
        "sequence": a.sequence,
        "documents_made": a.documents_made,
        "documents_dropped_by_cause": {
            cause: sum(last - first + 1 for first, last in numbers) for cause, numbers in a.dropped.items()
        },
        "events_dropped": a.events_dropped,
        "listener_failures": a.listener_failures,
    }


def _ranges(numbers: Iterable[tuple[int, int]]) -> Iterator[Range[int]]:
    """The same numbers in order, each once."""
    start = end = 0
    for first, last in sorted(numbers):
        if first > end:
            if start:
                yield Range(start, end)
            start = first
        end = max(end, last + 1)
    if start:
        yield Range(start, end)


def count(numbers: ColumnElement[Any]) -> ColumnElement[int]:
    """How many numbers a multirange holds."""
    each = func.unnest(numbers).column_valued("each")
    size = func.coalesce(func.sum(func.upper(each) - func.lower(each)), 0)
    return cast(select(size).scalar_subquery(), BigInteger)


def missing(sets: Mapping[str, ColumnElement[Any]], made: ColumnElement[Any]) -> ColumnElement[Any]:
    """The numbers that are missing, of the `sets` named as their columns; NULL while no application document has come.

    `made` are the documents that the newest one speaks of; a higher number that is known was given too.
    """
    known = sets["sequences_arrived"] + sets["sequences_superseded"] + sets["sequences_refused"]
    highest = func.greatest(func.least(made, MAX_LONG - 1), func.coalesce(func.upper(known) - 1, 0))
    given = func.int8multirange(func.int8range(1, highest + 1), type_=models.delivery.c.sequences_arrived.type)
    return case((made.is_not(None), given - known - sets["sequences_dropped"]))


def _derived(sets: Mapping[str, ColumnElement[Any]], said: Row) -> Row:
    """What follows from the rest: of numbers that are in several sets, having arrived counts before all else."""
    here = sets["sequences_arrived"] + sets["sequences_superseded"]
    return {
        "documents_arrived": count(sets["sequences_arrived"]),
        "documents_refused": count(sets["sequences_refused"] - sets["sequences_arrived"]),
        "documents_dropped": count(sets["sequences_dropped"] - here - sets["sequences_refused"]),
        "documents_missing": case((said["documents_made"].is_not(None), count(missing(sets, said["documents_made"])))),
    }


def _merge() -> Insert:
    c = models.delivery.c
    names = (*_SETS, "refused_reason", *_SAID)
    given = {name: bindparam(name, type_=c[name].type) for name in names}
    said: Row = {name: given[name] for name in _SAID}
    new = _derived({name: given[name] for name in _SETS}, said)
    heard = {"first_heard_at": func.now(), "last_heard_at": func.now()}
    key: Row = {column.name: bindparam(column.name) for column in models.delivery.primary_key}
    statement = insert(models.delivery).values({**key, **given, **heard, **new})
    coming = statement.excluded
    newer = coming.sequence > c.sequence
    sets = {name: c[name] + coming[name] for name in _SETS}
    said = {name: case((newer, coming[name]), else_=c[name]) for name in _SAID}
    return statement.on_conflict_do_update(
        index_elements=list(key),
        set_={
            **sets,
            "refused_reason": func.coalesce(coming.refused_reason, c.refused_reason),
            "first_heard_at": func.least(c.first_heard_at, coming.first_heard_at),
            "last_heard_at": func.greatest(c.last_heard_at, coming.last_heard_at),
            **said,
            **_derived(sets, said),
        },
    )


_MERGE = _merge()
