"""Table `shuffle`: a shuffle exchange of the final plan."""

from __future__ import annotations

from sqlalchemy import Index

from joinsight.plan.operators import AQE_READ
from joinsight.tables.declare import (
    Bytes,
    ExecutionKey,
    Int,
    Long,
    Ms,
    Ns,
    Ratio,
    Rows,
    column,
    largest,
    metric,
    of_executions,
    required,
    table_of,
)


class ShuffleRow(ExecutionKey, frozen=True, kw_only=True):
    """A shuffle exchange of the final plan: writes, reads and skew."""

    node_id: Int = required("node of the final plan")
    operator_key: str | None = column("key of the exchange, equal in all runs")
    partitioning: str | None = column(
        "e.g. hashpartitioning, rangepartitioning, SinglePartition, RoundRobinPartitioning"
    )
    keys: list[str] | None = column("partitioning expressions, as Spark writes them")
    origin: str | None = column("reason for the shuffle: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ...")
    partitions: Long | None = metric("number of partitions", "number of reduce partitions")
    consumers: Int | None = column("number of plan nodes that read it; more than 1: it is reused")
    join_nodes: list[int] | None = column("node ids of the joins that it feeds")
    map_stages: list[int] | None = column("stages that wrote it")
    reduce_stages: list[int] | None = column("stages that read it")
    data_bytes: Bytes | None = metric("data size", "size of the rows before serialization for the shuffle")
    bytes_written: Bytes | None = metric("shuffle bytes written", "bytes written")
    rows_written: Rows | None = metric("shuffle records written", "rows written")
    write_time_ns: Ns | None = metric("shuffle write time", "write time, summed over tasks, nanoseconds")
    local_bytes_read: Bytes | None = metric("local bytes read", "bytes read from the same executor or host")
    remote_bytes_read: Bytes | None = metric("remote bytes read", "bytes read over the network")
    remote_bytes_read_to_disk: Bytes | None = metric(
        "remote bytes read to disk", "of these, bytes stored on disk first"
    )
    local_blocks_read: Long | None = metric("local blocks read", "blocks read from the same executor or host")
    remote_blocks_read: Long | None = metric("remote blocks read", "blocks read over the network")
    rows_read: Rows | None = metric("records read", "rows read, over all consumers")
    fetch_wait_ms: Ms | None = metric("fetch wait time", "time that tasks waited for blocks, summed, milliseconds")
    remote_requests_ms: Ms | None = metric("remote reqs duration", "duration of remote requests, summed, milliseconds")
    corrupt_merged_block_chunks: Long | None = metric(
        "corrupt merged block chunks", "push-based: corrupt merged block chunks"
    )
    merged_fetch_fallbacks: Long | None = metric(
        "merged fetch fallback count", "push-based: merged fetches that fell back to original blocks"
    )
    remote_merged_blocks_read: Long | None = metric(
        "remote merged blocks fetched", "push-based: merged blocks read over the network"
    )
    local_merged_blocks_read: Long | None = metric(
        "local merged blocks fetched", "push-based: merged blocks read from the same host"
    )
    remote_merged_chunks_read: Long | None = metric(
        "remote merged chunks fetched", "push-based: merged chunks read over the network"
    )
    local_merged_chunks_read: Long | None = metric(
        "local merged chunks fetched", "push-based: merged chunks read from the same host"
    )
    remote_merged_bytes_read: Bytes | None = metric(
        "remote merged bytes read", "push-based: merged bytes read over the network"
    )
    local_merged_bytes_read: Bytes | None = metric(
        "local merged bytes read", "push-based: merged bytes read from the same host"
    )
    remote_merged_requests_ms: Ms | None = metric(
        "remote merged reqs duration", "push-based: duration of remote merged requests, summed, milliseconds"
    )
    rows_read_median: Rows | None = column(
        "rows that the median task read; where tasks of other branches of a UNION are in its stages, the median of the"
        " tasks that read any"
    )
    rows_read_max: Rows | None = column("rows that the largest task read")
    rows_read_max_task_id: Long | None = column("the task that read most rows")
    skew_ratio: Ratio | None = column(
        "rows_read_max / rows_read_median; NULL: not read by several tasks, or the median is 0 or unknown"
    )
    aqe_read: list[str] | None = column("how AQE reads it: coalesced, skewed, local; NULL: as planned")
    aqe_partitions: Long | None = metric(
        "number of partitions", "partitions after AQE coalesced and split", of=AQE_READ
    )
    aqe_coalesced_partitions: Long | None = metric(
        "number of coalesced partitions", "partitions that AQE made by coalescing", of=AQE_READ
    )
    aqe_skewed_partitions: Long | None = metric(
        "number of skewed partitions", "partitions that AQE found skewed", of=AQE_READ
    )
    aqe_skewed_splits: Long | None = metric(
        "number of skewed partition splits", "partitions into which AQE split the skewed ones", of=AQE_READ
    )
    aqe_empty_partitions: Long | None = metric(
        "number of empty partitions", "empty partitions (Spark 4.1 and later)", of=AQE_READ
    )
    aqe_partition_bytes_median: Bytes | None = metric(
        "partition data size", "size of the median partition that AQE reads", of=AQE_READ, statistic="median"
    )
    aqe_partition_bytes_max: Bytes | None = metric(
        "partition data size", "size of the largest partition that AQE reads", of=AQE_READ, statistic="max"
    )
    cost_wall_ms: Ms | None = column(
        "how long the execution waited for tasks to write it and to wait for its blocks (docs/cost.md); NULL: unknown"
    )
    cost_task_ms: Ms | None = column("time of tasks that wrote it or waited for its blocks, summed; NULL: unknown")


shuffle = table_of(
    ShuffleRow,
    "shuffle",
    Index(None, "operator_key", "started_at"),
    of_executions("bytes_written", "write_time_ns", "fetch_wait_ms", "skew_ratio"),
    largest("shuffle", "bytes_written"),
    largest("shuffle", "write_time_ns / 1000000 + fetch_wait_ms", "time"),
    largest("shuffle", "skew_ratio"),
    key=("node_id",),
)
