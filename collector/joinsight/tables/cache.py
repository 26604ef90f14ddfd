"""Table `cache`: the cached tables that an execution filled or read."""

from __future__ import annotations

from sqlalchemy import Index

from joinsight.tables.declare import ExecutionKey, Int, Long, Ms, column, required, table_of


class CacheRow(ExecutionKey, frozen=True, kw_only=True):
    """A cached table that the final plan of an execution reads."""

    cache_id: Long = required(
        "the cached table, equal in all executions of its application that read it (docs/cost.md#cached-tables)"
    )
    node_id: Int = required("the node that reads it, the first of several")
    scans: Int = required("nodes that read it")
    table_name: str | None = column("its name; NULL: it is a DataFrame")
    rows_read: Long | None = column("rows that the nodes read, summed; NULL: not measured")
    fill_stages: list[int] | None = column("stages whose tasks filled a part of it; NULL: it was there")
    fill_wall_ms: Ms | None = column(
        "how long the execution waited for these stages while their tasks ran, milliseconds; NULL: it was there,"
        " or the execution has not ended"
    )
    fill_task_ms: Ms | None = column("run time of their tasks, summed, milliseconds; NULL: it was there")


cache = table_of(CacheRow, "cache", Index(None, "application_id", "attempt_id", "cache_id"), key=("cache_id",))
