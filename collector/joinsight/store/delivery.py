"""Accounts for documents: one row for each listener, merged in the transaction that stores the batch.

It stores the numbers, not counts: sets, as multiranges, whose union is exact whatever arrives twice, late or through
another collector. A number is missing when it was assigned to a document and is in none of the sets: it did not arrive,
no newer document of the same execution did, and it was neither refused nor dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, case, cast, func, select
from sqlalchemy.dialects.postgresql import Insert, Range, insert

from joinsight import tables
from joinsight.contract.decode import Header
from joinsight.contract.document import MAX_LONG, Application, Document
from joinsight.tables import Row

Refused = tuple[Header | Document, str]
"""A refused document, and the reason."""

_Key = tuple[str, str, str]
_SETS = ("sequences_arrived", "sequences_superseded", "sequences_refused", "sequences_dropped")
_REPORTED = ("sequence", "documents_made", "documents_dropped_by_cause", "events_dropped", "listener_failures")


@dataclass(slots=True)
class _Update:
    """What a batch adds to a listener's row."""

    arrived: list[tuple[int, int]] = field(default_factory=list)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[tuple[int, int]] = field(default_factory=list)
    reason: str | None = None
    newest: Application | None = None


def record(connection: Connection, documents: Sequence[Document], refused: Sequence[Refused]) -> None:
    """Record what arrived and what was refused; row by row in the order of the keys, against deadlocks."""
    updates: dict[_Key, _Update] = {}
    for document in documents:
        update = updates.setdefault(_key(document), _Update())
        update.arrived.append((document.sequence, document.sequence))
        update.superseded += document.supersedes
        if isinstance(document, Application):
            update.refused += document.refused
            for numbers in document.dropped.values():
                update.dropped += numbers
            if update.newest is None or update.newest.sequence < document.sequence:
                update.newest = document
    for header, reason in refused:
        update = updates.setdefault(_key(header), _Update())
        update.refused += [(header.sequence, header.sequence), *header.supersedes]
        update.reason = reason
    if updates:
        connection.execute(_MERGE, [_row(key, updates[key]) for key in sorted(updates)])


def _key(document: Document | Header) -> _Key:
    return document.application_id, document.attempt_id, document.listener.id


def _row(key: _Key, update: _Update) -> Row:
    row: Row = dict.fromkeys(_REPORTED) | dict(zip(tables.delivery.primary_key.columns.keys(), key, strict=True))
    for name, numbers in zip(_SETS, (update.arrived, update.superseded, update.refused, update.dropped), strict=True):
        row[name] = list(_ranges(numbers))
    row["refused_reason"] = update.reason
    a = update.newest
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
    """The numbers of inclusive ranges as disjoint half-open ranges, in order."""
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
    """The number of elements of a multirange."""
    each = func.unnest(numbers).column_valued("each")
    size = func.coalesce(func.sum(func.upper(each) - func.lower(each)), 0)
    return cast(select(size).scalar_subquery(), BigInteger)


def missing(sets: Mapping[str, ColumnElement[Any]], made: ColumnElement[Any]) -> ColumnElement[Any]:
    """The missing numbers, from `sets` by column name; NULL while no application document has arrived.

    `made` is the count that the newest one reports; a higher number in a set was assigned, too.
    """
    known = sets["sequences_arrived"] + sets["sequences_superseded"] + sets["sequences_refused"]
    highest = func.greatest(func.least(made, MAX_LONG - 1), func.coalesce(func.upper(known) - 1, 0))
    given = func.int8multirange(func.int8range(1, highest + 1), type_=tables.delivery.c.sequences_arrived.type)
    return case((made.is_not(None), given - known - sets["sequences_dropped"]))


def _derived(sets: Mapping[str, ColumnElement[Any]], reported: Row) -> Row:
    """The columns that are computed from the sets; an arrived number counts in no other set."""
    here = sets["sequences_arrived"] + sets["sequences_superseded"]
    return {
        "documents_arrived": count(sets["sequences_arrived"]),
        "documents_refused": count(sets["sequences_refused"] - sets["sequences_arrived"]),
        "documents_dropped": count(sets["sequences_dropped"] - here - sets["sequences_refused"]),
        "documents_missing": case(
            (reported["documents_made"].is_not(None), count(missing(sets, reported["documents_made"])))
        ),
    }


def _merge() -> Insert:
    c = tables.delivery.c
    names = (*_SETS, "refused_reason", *_REPORTED)
    given = {name: bindparam(name, type_=c[name].type) for name in names}
    reported: Row = {name: given[name] for name in _REPORTED}
    new = _derived({name: given[name] for name in _SETS}, reported)
    heard = {"first_heard_at": func.now(), "last_heard_at": func.now()}
    key: Row = {column.name: bindparam(column.name) for column in tables.delivery.primary_key}
    statement = insert(tables.delivery).values({**key, **given, **heard, **new})
    coming = statement.excluded
    newer = coming.sequence > c.sequence
    sets = {name: c[name] + coming[name] for name in _SETS}
    reported = {name: case((newer, coming[name]), else_=c[name]) for name in _REPORTED}
    return statement.on_conflict_do_update(
        index_elements=list(key),
        set_={
            **sets,
            "refused_reason": func.coalesce(coming.refused_reason, c.refused_reason),
            "first_heard_at": func.least(c.first_heard_at, coming.first_heard_at),
            "last_heard_at": func.greatest(c.last_heard_at, coming.last_heard_at),
            **reported,
            **_derived(sets, reported),
        },
    )


_MERGE = _merge()
