"""Table `broadcast`: a broadcast exchange of the final plan."""

from __future__ import annotations

from sqlalchemy import Index

from joinsight.tables.declare import (
    Bytes,
    ExecutionKey,
    Int,
    Ms,
    Rows,
    column,
    largest,
    metric,
    of_executions,
    required,
    table_of,
)

DRIVER_PHASES = ("collect_ms", "build_ms", "broadcast_ms")
DRIVER_MS = " + ".join(DRIVER_PHASES)
"""`driver_ms` in SQL: NULL if a phase was not measured."""

THRESHOLD = (
    "broadcast threshold in force for measured sizes: under AQE"
    " spark.sql.adaptive.autoBroadcastJoinThreshold if set, otherwise"
    " spark.sql.autoBroadcastJoinThreshold; -1: disabled; NULL: not readable"
)


def driver_ms(*phases: int | None) -> int | None:
    """The time from the driver's request for the rows of a broadcast until it had distributed it; None if a phase was
    not measured.

    This is not only the driver's own work: while it collects, the tasks that produce the rows run or wait. `phases` are
    the `DRIVER_PHASES`.
    """
    measured = [phase for phase in phases if phase is not None]
    return sum(measured) if len(measured) == len(phases) else None


class BroadcastRow(ExecutionKey, frozen=True, kw_only=True):
    """A broadcast exchange of the final plan."""

    node_id: Int = required("node of the final plan")
    operator_key: str | None = column("key of the broadcast, equal in all runs")
    mode: str | None = column(
        "HashedRelationBroadcastMode(...) for hash joins, IdentityBroadcastMode for nested-loop joins"
    )
    outcome: str = required(
        "succeeded, failed (its execution failed before it was ready, and worked on it or says so), running, or"
        " unknown (not measured here: AQE did not need it, or an earlier execution of the same DataFrame made it)",
        one_of=("succeeded", "failed", "running", "unknown"),
    )
    size_bytes: Bytes | None = metric("data size", "size of the relation in memory")
    rows: Rows | None = metric("number of output rows", "rows")
    collect_ms: Ms | None = metric(
        "time to collect",
        "time from the driver's request for the rows until it had them, including the tasks that produce them",
    )
    build_ms: Ms | None = metric("time to build", "time that the driver took to build the relation")
    broadcast_ms: Ms | None = metric("time to broadcast", "time that the driver took to pass it to the block manager")
    consumers: Int | None = column("number of plan nodes that use it; more than 1: it is reused")
    join_nodes: list[int] | None = column("node ids of the joins that use it")
    threshold_bytes: Bytes | None = column(THRESHOLD)
    shuffled_bytes: Bytes | None = column(
        "size of its rows as counted by the shuffle directly beneath it, which AQE compares with the"
        " threshold; NULL: no shuffle there"
    )
    cost_wall_ms: Ms | None = column(
        "how long the execution waited for the driver to collect, build and send it, and for tasks to encode its rows;"
        " NULL: unknown"
    )
    cost_task_ms: Ms | None = column("time of tasks that encoded its rows, summed (docs/cost.md); NULL: unknown")

    @property
    def driver_ms(self) -> int | None:
        """See `driver_ms`."""
        return driver_ms(self.collect_ms, self.build_ms, self.broadcast_ms)


broadcast = table_of(
    BroadcastRow,
    "broadcast",
    Index(None, "operator_key", "started_at"),
    of_executions("size_bytes", "collect_ms", "build_ms", "broadcast_ms"),
    largest("broadcast", "size_bytes"),
    largest("broadcast", DRIVER_MS, "time"),
    key=("node_id",),
)
