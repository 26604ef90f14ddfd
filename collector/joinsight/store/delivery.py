"""Keeps account of what arrived: one row for each listener, merged in the transaction that stores the batch.

The numbers of the documents are a multirange, so the union with those of a batch is exact whatever arrives twice, late
or through another collector; while none is missing it is a single range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
_SAID = (
    "sequence",
    "documents_made",
    "documents_dropped",
    "documents_dropped_by_cause",
    "documents_refused",
    "events_dropped",
    "listener_failures",
)


@dataclass(slots=True)
class _News:
    """What a batch tells of a listener."""

    arrived: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    reason: str | None = None
    newest: Application | None = None


def record(connection: Connection, documents: Sequence[Document], refused: Sequence[Refused]) -> None:
    """Note that these arrived, and that those were refused; row by row in the order of the keys, against deadlocks."""
    news: dict[_Key, _News] = {}
    for document in documents:
        its = news.setdefault(_key(document), _News())
        its.arrived.add(document.sequence)
        if isinstance(document, Application) and (its.newest is None or its.newest.sequence < document.sequence):
            its.newest = document
    for stamp, reason in refused:
        its = news.setdefault(_key(stamp), _News())
        its.refused.add(stamp.sequence)
        its.reason = reason
    for key in sorted(news):
        connection.execute(_MERGE, _row(key, news[key]))


def _key(of: Document | Stamp) -> _Key:
    return of.application_id, of.attempt_id, of.listener.id


def _row(key: _Key, news: _News) -> Row:
    row: Row = dict.fromkeys(_SAID) | dict(zip(models.delivery.primary_key.columns.keys(), key, strict=True))
    row["sequences_arrived"] = list(_ranges(news.arrived))
    row["sequences_refused"] = list(_ranges(news.refused))
    row["refused_reason"] = news.reason
    a = news.newest
    if a is None:
        return row | {"sequence": 0}
    return row | {
        "sequence": a.sequence,
        "documents_made": a.documents_made,
        "documents_dropped": sum(a.documents_dropped.values()),
        "documents_dropped_by_cause": a.documents_dropped,
        "documents_refused": a.documents_refused,
        "events_dropped": a.events_dropped,
        "listener_failures": a.listener_failures,
    }


def _ranges(numbers: Iterable[int]) -> Iterator[Range[int]]:
    start = end = 0
    for number in sorted(numbers):
        if number != end:
            if start:
                yield Range(start, end)
            start = number
        end = number + 1
    if start:
        yield Range(start, end)


def count(numbers: ColumnElement[Any]) -> ColumnElement[int]:
    """How many numbers a multirange holds."""
    each = func.unnest(numbers).column_valued("each")
    size = func.coalesce(func.sum(func.upper(each) - func.lower(each)), 0)
    return cast(select(size).scalar_subquery(), BigInteger)


def _derived(arrived: ColumnElement[Any], refused: ColumnElement[Any], said: Row) -> Row:
    """What follows from the rest.

    Documents may have arrived that were made after the newest application document was: those do not count against
    the ones that are missing of its number. The listener knows of refused documents whose stamp could not be read here.
    """
    made, dropped = said["documents_made"], said["documents_dropped"]
    by_then = func.int8multirange(func.int8range(1, func.least(made, MAX_LONG - 1) + 1), type_=arrived.type)
    unread = func.greatest(0, said["documents_refused"] - count(refused))
    missing = made - count((arrived + refused) * by_then) - dropped - unread
    return {
        "documents_arrived": count(arrived),
        "documents_missing": case((made.is_not(None), func.greatest(0, missing))),
    }


def _merge() -> Insert:
    c = models.delivery.c
    names = ("sequences_arrived", "sequences_refused", "refused_reason", *_SAID)
    given = {name: bindparam(name, type_=c[name].type) for name in names}
    said: Row = {name: given[name] for name in _SAID}
    new = _derived(given["sequences_arrived"], given["sequences_refused"], said)
    heard = {"first_heard_at": func.now(), "last_heard_at": func.now()}
    key: Row = {column.name: bindparam(column.name) for column in models.delivery.primary_key}
    statement = insert(models.delivery).values({**key, **given, **heard, **new})
    coming = statement.excluded
    newer = coming.sequence > c.sequence
    arrived = c.sequences_arrived + coming.sequences_arrived
    refused = c.sequences_refused + coming.sequences_refused
    said = {name: case((newer, coming[name]), else_=c[name]) for name in _SAID}
    return statement.on_conflict_do_update(
        index_elements=list(key),
        set_={
            "sequences_arrived": arrived,
            "sequences_refused": refused,
            "refused_reason": func.coalesce(coming.refused_reason, c.refused_reason),
            "first_heard_at": func.least(c.first_heard_at, coming.first_heard_at),
            "last_heard_at": func.greatest(c.last_heard_at, coming.last_heard_at),
            **said,
            **_derived(arrived, refused, said),
        },
    )


_MERGE = _merge()
