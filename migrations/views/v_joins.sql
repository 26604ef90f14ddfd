-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_joins AS
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
    o.strategy,
    o.join_type,
    o.build_side,
    o.left_keys,
    o.right_keys,
    o.condition,
    o.is_skew,
    o.hint,
    o.output_rows,
    o.output_ratio,
    o.left_rows,
    o.right_rows,
    o.left_bytes,
    o.right_bytes,
    o.build_bytes,
    o.build_ms,
    o.sort_ms,
    o.spill_bytes,
    o.left_exchange,
    o.right_exchange,
    o.threshold_bytes,
    o.broadcast_verdict,
    o.broadcast_side,
    o.broadcast_side_bytes,
    o.cost_wall_ms,
    o.cost_task_ms,
    o.cost_is_partial,
    o.cost_most_wall_ms
FROM joins o
LEFT JOIN execution q USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN execution e USING (started_at, application_id, attempt_id, execution_id)
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_joins IS 'A join of a final plan, with its execution and application.';
COMMENT ON COLUMN v_joins.started_at IS 'when the execution started; the partition''s key';
COMMENT ON COLUMN v_joins.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_joins.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_joins.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN v_joins.ended_at IS 'when it ended; NULL while it is running';
COMMENT ON COLUMN v_joins.duration_ms IS 'duration from start to end, milliseconds';
COMMENT ON COLUMN v_joins.state IS 'running, succeeded, failed, cancelled (its job, job group or context was cancelled, or its streaming query stopped) or lost (its driver is gone)';
COMMENT ON COLUMN v_joins.error IS 'why it failed';
COMMENT ON COLUMN v_joins.application_name IS 'spark.app.name';
COMMENT ON COLUMN v_joins.job_name IS 'spark.joinsight.jobName, or the application''s name; stable from run to run';
COMMENT ON COLUMN v_joins.tags IS 'spark.joinsight.tag.*';
COMMENT ON COLUMN v_joins.spark_user IS 'the user that Spark ran as';
COMMENT ON COLUMN v_joins.user_name IS 'who asked a Spark Connect or Thrift server for it; NULL: no server did (docs/servers.md)';
COMMENT ON COLUMN v_joins.session_id IS 'the session of the Spark Connect or Thrift server, elsewhere Spark''s own; NULL: unknown (before Spark 4.0)';
COMMENT ON COLUMN v_joins.operation_id IS 'the operation of the Spark Connect server or the statement of the Thrift server; NULL: no server';
COMMENT ON COLUMN v_joins.user_tags IS 'the first 100 tags that the user set (addTag, addJobTag), as the user wrote them';
COMMENT ON COLUMN v_joins.title IS 'what to call it, in one line: the description or statement that the user gave, else what its plan reads, does and writes; NULL: no description and no plan';
COMMENT ON COLUMN v_joins.called_from IS 'the line of the user''s code that started it, e.g. sales.py:42; NULL: unknown (docs/identity.md#call-sites)';
COMMENT ON COLUMN v_joins.description IS 'the job description, or the call site';
COMMENT ON COLUMN v_joins.query_shape IS 'key of the query, equal in all its runs regardless of the plan; NULL: no plan';
COMMENT ON COLUMN v_joins.plan_fingerprint IS 'key of the final plan, equal in all runs with the same plan; NULL: no plan';
COMMENT ON COLUMN v_joins.incomplete IS 'why its numbers may be partial; NULL: complete';
COMMENT ON COLUMN v_joins.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN v_joins.spark_version IS 'version of Spark';
COMMENT ON COLUMN v_joins.node_id IS 'node of the final plan';
COMMENT ON COLUMN v_joins.operator_key IS 'key of the join, equal in all runs regardless of the strategy';
COMMENT ON COLUMN v_joins.strategy IS 'BroadcastHashJoin, SortMergeJoin, SortMergeAsOfJoin, ShuffledHashJoin, BroadcastNestedLoopJoin, CartesianProduct';
COMMENT ON COLUMN v_joins.join_type IS 'Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, ExistenceJoin';
COMMENT ON COLUMN v_joins.build_side IS 'left or right: the side that is broadcast or hashed';
COMMENT ON COLUMN v_joins.left_keys IS 'equi-join keys of the left side, as Spark writes them';
COMMENT ON COLUMN v_joins.right_keys IS 'equi-join keys of the right side';
COMMENT ON COLUMN v_joins.condition IS 'the rest of the condition; for an as-of join, its match condition';
COMMENT ON COLUMN v_joins.is_skew IS 'whether AQE marked it as a skew join';
COMMENT ON COLUMN v_joins.hint IS 'the strategy hint of each side that has one, as Spark prints it, e.g. broadcast left; NULL: none, or unknown';
COMMENT ON COLUMN v_joins.output_rows IS 'output rows';
COMMENT ON COLUMN v_joins.output_ratio IS 'output_rows / the larger of left_rows and right_rows; NULL: not measured';
COMMENT ON COLUMN v_joins.left_rows IS 'rows of the left input, from the nearest operator below that counts them; NULL: not measured, or counted repeatedly (cartesian product without a shuffle)';
COMMENT ON COLUMN v_joins.right_rows IS 'rows of the right input';
COMMENT ON COLUMN v_joins.left_bytes IS 'bytes of the left input, from the exchange or broadcast that feeds it';
COMMENT ON COLUMN v_joins.right_bytes IS 'bytes of the right input';
COMMENT ON COLUMN v_joins.build_bytes IS 'size of the relation that it built or received by broadcast';
COMMENT ON COLUMN v_joins.build_ms IS 'time to build it, by the tasks (shuffled hash) or the driver (broadcast)';
COMMENT ON COLUMN v_joins.sort_ms IS 'time of its two sorts, summed over tasks (sort-merge)';
COMMENT ON COLUMN v_joins.spill_bytes IS 'bytes that it and its sorts spilled, by size in memory; fewer on disk';
COMMENT ON COLUMN v_joins.left_exchange IS 'node id of the exchange that feeds it from the left';
COMMENT ON COLUMN v_joins.right_exchange IS 'node id of the exchange that feeds it from the right';
COMMENT ON COLUMN v_joins.threshold_bytes IS 'broadcast threshold in force for measured sizes: under AQE spark.sql.adaptive.autoBroadcastJoinThreshold if set, otherwise spark.sql.autoBroadcastJoinThreshold; -1: disabled; NULL: not readable';
COMMENT ON COLUMN v_joins.broadcast_verdict IS 'was_broadcast: it is a broadcast join. Otherwise: possible (the measured size of a side that may be broadcast was at or under the threshold), hinted (as possible, but a hint of the query or of AQE determined the strategy), over_threshold (each such side exceeded the threshold or the most that Spark can broadcast), switched_off (the threshold is negative), forbidden_by_type (a full outer or as-of join), unknown (no size was measured, or not in full)';
COMMENT ON COLUMN v_joins.broadcast_side IS 'left or right: the side that was broadcast, or the smaller measured side that may be';
COMMENT ON COLUMN v_joins.broadcast_side_bytes IS 'was_broadcast: size of the relation in memory, many times that of its rows if they are few. Otherwise the size that AQE would compare with the threshold: data size of the shuffle that feeds the side, whose rows are only sorted, filtered or aggregated in between. Without AQE Spark compares an estimate';
COMMENT ON COLUMN v_joins.cost_wall_ms IS 'how long the execution waited for it, and for the sorts, shuffles and broadcasts that only it needed (docs/cost.md); NULL: unknown';
COMMENT ON COLUMN v_joins.cost_task_ms IS 'the same in time of tasks, summed; NULL: unknown, or only its broadcast is known';
COMMENT ON COLUMN v_joins.cost_is_partial IS 'whether the costs are a lower bound: operators of its stage could not be told apart, or no sample saw the join';
COMMENT ON COLUMN v_joins.cost_most_wall_ms IS 'what it can have cost at most: cost_wall_ms, and all the wall time that it shares with other operators of its stages, which could not be told apart; NULL: unknown';
