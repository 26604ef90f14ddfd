"""Table `delivery`: which documents of a listener have arrived."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index

from joinsight.tables.declare import Json, Long, Ranges, TableRow, column, required, table_of


class DeliveryRow(TableRow, frozen=True, kw_only=True):
    """The delivery status of a listener's documents: arrived, refused, dropped, missing."""

    application_id: str = required("Spark's application id")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    listener_id: str = required("the listener instance, one per SparkContext")
    sequences_arrived: Ranges = required("sequence numbers of the documents that arrived")
    documents_arrived: Long = required("how many arrived")
    sequences_superseded: Ranges = required(
        "numbers that are no longer needed, because a newer document of the same execution or application arrived"
    )
    sequences_refused: Ranges = required("numbers of refused documents, as seen here or reported by the listener")
    sequences_dropped: Ranges = required("numbers of documents that the listener dropped at a limit")
    refused_reason: str | None = column("why the last refused document was refused")
    first_heard_at: datetime = required("when the first document arrived")
    last_heard_at: datetime = required("when the last document or heartbeat arrived")
    sequence: Long = required("number of the application document that the columns below come from; 0: none arrived")
    documents_made: Long | None = column("documents that the listener had numbered by then")
    documents_dropped_by_cause: Json | None = column(
        "documents that it had dropped by then, by cause: memory, spool, failure; including those superseded since"
    )
    documents_dropped: Long = required("number of sequences_dropped that neither arrived nor were superseded")
    documents_refused: Long = required("number of sequences_refused that did not arrive later")
    documents_missing: Long | None = column(
        "how many numbers up to the highest known one are in none of the sets; NULL until an application"
        " document arrives"
    )
    events_dropped: Long | None = column(
        "events that Spark had dropped by then, unseen by its listeners; NULL: unknown"
    )
    listener_failures: Long | None = column("internal exceptions that the listener had caught by then")


delivery = table_of(
    DeliveryRow, "delivery", Index(None, "last_heard_at"), key=("application_id", "attempt_id", "listener_id")
)
