-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_shuffles AS
SELECT
    o.started_at,
    o.application_id,
    o.attempt_id,
    o.execution_id,
    e.ended_at,
    e.duration_ms,
    e.state,
    e.error,
    a.name AS application_name,
    e.job_name,
    e.tags,
    a.spark_user,
    e.user_name,
    e.session_id,
    e.operation_id,
    e.user_tags,
    e.title,
    e.called_from,
    e.description,
    q.query_shape,
    e.plan_fingerprint,
    e.incomplete,
    e.origin,
    a.spark_version,
    o.node_id,
    o.operator_key,
    o.partitioning,
    o.keys,
    o.origin AS shuffle_origin,
    o.partitions,
    o.consumers,
    o.join_nodes,
    o.map_stages,
    o.reduce_stages,
    o.data_bytes,
    o.bytes_written,
    o.rows_written,
    o.write_time_ns,
    o.local_bytes_read,
    o.remote_bytes_read,
    o.remote_bytes_read_to_disk,
    o.local_blocks_read,
    o.remote_blocks_read,
    o.rows_read,
    o.fetch_wait_ms,
    o.remote_requests_ms,
    o.corrupt_merged_block_chunks,
    o.merged_fetch_fallbacks,
    o.remote_merged_blocks_read,
    o.local_merged_blocks_read,
    o.remote_merged_chunks_read,
    o.local_merged_chunks_read,
    o.remote_merged_bytes_read,
    o.local_merged_bytes_read,
    o.remote_merged_requests_ms,
    o.rows_read_median,
    o.rows_read_max,
    o.rows_read_max_task_id,
    o.skew_ratio,
    o.aqe_read,
    o.aqe_partitions,
    o.aqe_coalesced_partitions,
    o.aqe_skewed_partitions,
    o.aqe_skewed_splits,
    o.aqe_empty_partitions,
    o.aqe_partition_bytes_median,
    o.aqe_partition_bytes_max,
    o.cost_wall_ms,
    o.cost_task_ms,
    coalesce(o.local_bytes_read + o.remote_bytes_read, o.local_bytes_read, o.remote_bytes_read) AS bytes_read,
    coalesce(o.aqe_partitions, o.partitions) AS read_partitions,
    o.bytes_written / nullif(coalesce(o.aqe_partitions, o.partitions), 0) AS bytes_per_partition,
    o.rows_written / nullif(coalesce(o.aqe_partitions, o.partitions), 0) AS rows_per_partition,
    coalesce(nullif(array_to_string(o.aqe_read, ', '), ''), 'as planned') AS aqe_outcome
FROM shuffle o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_shuffles IS 'A shuffle exchange of a final plan, with its execution and application.';
COMMENT ON COLUMN v_shuffles.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_shuffles.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_shuffles.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_shuffles.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_shuffles.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_shuffles.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_shuffles.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_shuffles.error IS 'why it failed';
COMMENT ON COLUMN v_shuffles.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_shuffles.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_shuffles.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_shuffles.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_shuffles.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_shuffles.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_shuffles.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_shuffles.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_shuffles.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_shuffles.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_shuffles.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_shuffles.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_shuffles.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_shuffles.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_shuffles.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_shuffles.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_shuffles.node_id IS 'node of the final plan';
COMMENT ON COLUMN v_shuffles.operator_key IS 'key of the exchange, equal in all runs';
COMMENT ON COLUMN v_shuffles.partitioning IS 'e.g. hashpartitioning, rangepartitioning, SinglePartition, RoundRobinPartitioning';
COMMENT ON COLUMN v_shuffles.keys IS 'partitioning expressions, as Spark writes them';
COMMENT ON COLUMN v_shuffles.shuffle_origin IS 'reason for the shuffle: ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ...';
COMMENT ON COLUMN v_shuffles.partitions IS 'number of reduce partitions';
COMMENT ON COLUMN v_shuffles.consumers IS 'number of plan nodes that read it; more than 1: it is reused';
COMMENT ON COLUMN v_shuffles.join_nodes IS 'node ids of the joins that it feeds';
COMMENT ON COLUMN v_shuffles.map_stages IS 'stages that wrote it';
COMMENT ON COLUMN v_shuffles.reduce_stages IS 'stages that read it';
COMMENT ON COLUMN v_shuffles.data_bytes IS 'size of the rows before serialization for the shuffle';
COMMENT ON COLUMN v_shuffles.bytes_written IS 'bytes written';
COMMENT ON COLUMN v_shuffles.rows_written IS 'rows written';
COMMENT ON COLUMN v_shuffles.write_time_ns IS 'write time, summed over tasks, nanoseconds';
COMMENT ON COLUMN v_shuffles.local_bytes_read IS 'bytes read from the same executor or host';
COMMENT ON COLUMN v_shuffles.remote_bytes_read IS 'bytes read over the network';
COMMENT ON COLUMN v_shuffles.remote_bytes_read_to_disk IS 'of these, bytes stored on disk first';
COMMENT ON COLUMN v_shuffles.local_blocks_read IS 'blocks read from the same executor or host';
COMMENT ON COLUMN v_shuffles.remote_blocks_read IS 'blocks read over the network';
COMMENT ON COLUMN v_shuffles.rows_read IS 'rows read, over all consumers';
COMMENT ON COLUMN v_shuffles.fetch_wait_ms IS 'time that tasks waited for blocks, summed, milliseconds';
COMMENT ON COLUMN v_shuffles.remote_requests_ms IS 'duration of remote requests, summed, milliseconds';
COMMENT ON COLUMN v_shuffles.corrupt_merged_block_chunks IS 'push-based: corrupt merged block chunks';
COMMENT ON COLUMN v_shuffles.merged_fetch_fallbacks IS 'push-based: merged fetches that fell back to original blocks';
COMMENT ON COLUMN v_shuffles.remote_merged_blocks_read IS 'push-based: merged blocks read over the network';
COMMENT ON COLUMN v_shuffles.local_merged_blocks_read IS 'push-based: merged blocks read from the same host';
COMMENT ON COLUMN v_shuffles.remote_merged_chunks_read IS 'push-based: merged chunks read over the network';
COMMENT ON COLUMN v_shuffles.local_merged_chunks_read IS 'push-based: merged chunks read from the same host';
COMMENT ON COLUMN v_shuffles.remote_merged_bytes_read IS 'push-based: merged bytes read over the network';
COMMENT ON COLUMN v_shuffles.local_merged_bytes_read IS 'push-based: merged bytes read from the same host';
COMMENT ON COLUMN v_shuffles.remote_merged_requests_ms IS 'push-based: duration of remote merged requests, summed, milliseconds';
COMMENT ON COLUMN v_shuffles.rows_read_median IS 'rows that the median task read; where tasks of other branches of a UNION are in its stages, the median of the tasks that read any';
COMMENT ON COLUMN v_shuffles.rows_read_max IS 'rows that the largest task read';
COMMENT ON COLUMN v_shuffles.rows_read_max_task_id IS 'the task that read most rows';
COMMENT ON COLUMN v_shuffles.skew_ratio IS 'rows_read_max / rows_read_median; NULL: not read by several tasks, or the median is 0 or unknown';
COMMENT ON COLUMN v_shuffles.aqe_read IS 'how AQE reads it: coalesced, skewed, local; NULL: as planned';
COMMENT ON COLUMN v_shuffles.aqe_partitions IS 'partitions after AQE coalesced and split';
COMMENT ON COLUMN v_shuffles.aqe_coalesced_partitions IS 'partitions that AQE made by coalescing';
COMMENT ON COLUMN v_shuffles.aqe_skewed_partitions IS 'partitions that AQE found skewed';
COMMENT ON COLUMN v_shuffles.aqe_skewed_splits IS 'partitions into which AQE split the skewed ones';
COMMENT ON COLUMN v_shuffles.aqe_empty_partitions IS 'empty partitions (Spark 4.1 and later)';
COMMENT ON COLUMN v_shuffles.aqe_partition_bytes_median IS 'size of the median partition that AQE reads';
COMMENT ON COLUMN v_shuffles.aqe_partition_bytes_max IS 'size of the largest partition that AQE reads';
COMMENT ON COLUMN v_shuffles.cost_wall_ms IS 'how long the execution waited for tasks to write it and to wait for its blocks (docs/cost.md); NULL: unknown';
COMMENT ON COLUMN v_shuffles.cost_task_ms IS 'time of tasks that wrote it or waited for its blocks, summed; NULL: unknown';
COMMENT ON COLUMN v_shuffles.bytes_read IS 'bytes read, local and remote, over all consumers';
COMMENT ON COLUMN v_shuffles.read_partitions IS 'partitions that its first consumer reads: those of AQE, or the original ones';
COMMENT ON COLUMN v_shuffles.bytes_per_partition IS 'bytes_written / read_partitions';
COMMENT ON COLUMN v_shuffles.rows_per_partition IS 'rows_written / read_partitions';
COMMENT ON COLUMN v_shuffles.aqe_outcome IS 'aqe_read as text: as planned, coalesced, skewed, local, or several of these';
