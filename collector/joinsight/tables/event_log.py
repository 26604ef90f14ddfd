"""Table `event_log`: the event logs that were read."""

from __future__ import annotations

from datetime import datetime

from joinsight.tables.declare import Bytes, Int, Long, TableRow, column, required, table_of


class EventLogRow(TableRow, frozen=True, kw_only=True):
    """An event log that `joinsight backfill` has read; it is read again only after it has changed."""

    path: str = required("path as the file system of Spark names it; without .inprogress")
    application_id: str = required("Spark's application id, from the log's name")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    size_bytes: Bytes = required("size of its files when they were read")
    modified_at: datetime = required("when the newest of its files was last modified")
    is_open: bool = required("whether its application was still running or was killed: the log may grow")
    outcome: str = required(
        "whole, partial (parts of it cannot be read) or failed (the next run tries it again)",
        one_of=("whole", "partial", "failed"),
    )
    problems: list[str] | None = column("why parts of it were not read; NULL: everything was read")
    is_compacted: bool = required("whether the History Server has removed finished executions from it")
    missing_files: Int = required("number of missing files of a rolling log")
    lines: Long = required("number of lines read")
    event_bytes: Bytes = required("size of these lines, uncompressed")
    executions: Long = required("number of executions in it")
    reader_version: str = required("version of Joinsight that read it")
    read_at: datetime = required("when it was read")


event_log = table_of(EventLogRow, "event_log", key=("path",))
