"""Ingests a batch: decodes, writes and counts it, and reports refused documents. Independent of HTTP."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event

from joinsight.decode import Batch, Stamp, decode_request
from joinsight.document import Document
from joinsight.findings import Finder
from joinsight.serve.logs import fields
from joinsight.serve.metrics import Metrics
from joinsight.store.writer import Writer, Written

LOCK_SECONDS = 10
"""Longest wait for a lock in PostgreSQL, of another writer or of someone who alters a table."""
_LOGGED_REFUSALS = 5

log = logging.getLogger("joinsight")


class Closed(Exception):
    """The collector is shutting down; nothing of the batch is committed."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result for a batch."""

    accepted: int
    """Number of committed documents."""
    refused: list[tuple[int, str]]
    """Refused lines in order: number, from 1, and reason."""


class Ingest:
    """Writes batches to the database; safe to use from several threads."""

    def __init__(self, engine: Engine, finder: Finder, metrics: Metrics) -> None:
        event.listen(engine, "connect", _limit_locks)
        engine.dispose()  # existing connections have no limit
        self._writer = Writer(engine, finder, self._check_cancelled)
        self._metrics = metrics
        self._writing: set[int] = set()  # ids of threads; adding to a set and removing from it are atomic
        self._closed = False

    def close(self) -> None:
        """Abort batches that are not being written yet, at their next plan."""
        self._closed = True

    @property
    def writing(self) -> int:
        """Number of batches that are being decoded and written."""
        return len(self._writing)

    def ingest(self, body: bytearray, sender: Mapping[str, str | None]) -> Ingested:
        """Commit a batch except documents that will never be accepted; `sender` is for the log.

        Raises `TooLarge` or `DocumentError` for a batch that cannot be decoded at all, `Closed`, and SQLAlchemy's
        errors when the database is unavailable: nothing is committed then.
        """
        self._writing.add(threading.get_ident())
        try:
            batch, written = self._decode_and_write(body)
        finally:
            self._writing.discard(threading.get_ident())
        _log_refusals(batch, sender)
        return Ingested(len(batch.documents) - len(written.refused), batch.refused)

    def _check_cancelled(self) -> None:
        """Raise `Closed` after `close`."""
        if self._closed:
            raise Closed

    def _decode_and_write(self, body: bytearray) -> tuple[Batch, Written]:
        metrics = self._metrics
        self._check_cancelled()
        metrics.count("joinsight_received_bytes_total", len(body))
        started = time.perf_counter()
        batch = decode_request(body)
        decoded = time.perf_counter()
        metrics.observe("joinsight_decode_seconds", decoded - started)
        metrics.observe("joinsight_batch_documents", len(batch.documents) + len(batch.refused))
        written = self._writer.write([document for _, document in batch.documents], batch.stamps)
        metrics.observe("joinsight_write_seconds", time.perf_counter() - decoded)
        metrics.written()
        for kind, number in batch.refused_by_kind.items():
            metrics.count("joinsight_refused_documents_total", number, kind)
        metrics.count("joinsight_refused_documents_total", len(written.refused) - written.faults, "database")
        metrics.count("joinsight_refused_documents_total", written.faults, "fault")
        for document, reason in written.refused:
            batch.refused.append((next(line for line, each in batch.documents if each is document), reason))
        batch.refused.sort()
        for outcome, number in ("stored", written.stored), ("stale", written.stale), ("refused", len(batch.refused)):
            metrics.count("joinsight_documents_total", number, outcome)
        for rows in written.finished:
            metrics.finished(rows)
        return batch, written


def _limit_locks(connection: Any, _: object) -> None:
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.commit()


def _log_refusals(batch: Batch, sender: Mapping[str, str | None]) -> None:
    context = dict(sender)
    readable: list[Document | Stamp] = [*(d for _, d in batch.documents), *(stamp for stamp, _ in batch.stamps)]
    if readable:
        context |= {"application": readable[0].application_id, "listener": readable[0].listener.id}
    for line, reason in batch.refused[:_LOGGED_REFUSALS]:
        log.warning("document refused", extra=fields(**context, line=line, reason=reason))
    if len(batch.refused) > _LOGGED_REFUSALS:
        more = len(batch.refused) - _LOGGED_REFUSALS
        log.warning("more documents of the same request refused", extra=fields(**context, documents=more))
