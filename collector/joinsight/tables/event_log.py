"""Table `event_log`: the event logs that were read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from joinsight.tables.declare import Bytes, Int, Long, column, required, table_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogRow:
    """An event log that `joinsight backfill` has read: one that has not changed since is not read again."""

    path: str = required("where it is, as Spark's file system names it; without .inprogress")
    application_id: str = required("Spark's application id, by the log's name")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    size_bytes: Bytes = required("size of its files when they were read")
    modified_at: datetime = required("when the newest of them was last changed")
    is_open: bool = required("its application had not ended it: it may grow")
    outcome: str = required(
        "whole, partial (not all of it can be read) or failed (it is tried again each time)",
        one_of=("whole", "partial", "failed"),
    )
    problems: list[str] | None = column("why not all of it was read; NULL: it was")
    is_compacted: bool = required("the History Server has removed from it what had ended")
    missing_files: Int = required("files of a rolling log that are not there")
    lines: Long = required("lines that were read")
    event_bytes: Bytes = required("bytes of these, uncompressed")
    executions: Long = required("executions in it")
    reader_version: str = required("version of Joinsight that read it")
    read_at: datetime = required("when it was read")


event_log = table_of(EventLogRow, "event_log", key=("path",))
