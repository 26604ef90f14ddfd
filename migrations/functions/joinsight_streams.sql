-- Runs of streaming queries: a row for each, over the micro-batches that started in a time.
CREATE FUNCTION joinsight_streams(since timestamptz, until timestamptz DEFAULT 'infinity') RETURNS TABLE (
    job_name text,
    streaming_query_name text,
    streaming_query_id text,
    streaming_run_id text,
    title text,
    state text,
    error text,
    batches bigint,
    failed bigint,
    first_batch_at timestamptz,
    last_batch_at timestamptz,
    last_batch_id bigint,
    batches_per_minute double precision,
    duration_ms_median double precision,
    duration_ms_p95 double precision,
    duration_ms_max bigint,
    task_time_ms bigint,
    input_bytes bigint,
    output_bytes bigint,
    shuffle_write_bytes bigint,
    broadcast_bytes bigint,
    disk_spilled_bytes bigint,
    state_rows bigint,
    state_bytes bigint,
    started_at timestamptz,
    application_id text,
    attempt_id text,
    execution_id bigint
) LANGUAGE sql STABLE AS $$
SELECT s.job_name, last.streaming_query_name, s.streaming_query_id, s.streaming_run_id, coalesce(work.title, last.title),
    last.state, last.error, s.batches, s.failed, s.first_batch_at, s.last_batch_at, last.streaming_batch_id,
    (s.batches - 1) * 60 / nullif(extract(epoch FROM s.last_batch_at - s.first_batch_at), 0)::double precision,
    s.duration_ms_median, s.duration_ms_p95, s.duration_ms_max, s.task_time_ms, s.input_bytes, s.output_bytes,
    s.shuffle_write_bytes, s.broadcast_bytes, s.disk_spilled_bytes, kept.state_rows, kept.state_bytes,
    last.started_at, s.application_id, s.attempt_id, last.execution_id
FROM (
    SELECT e.application_id, e.attempt_id, e.job_name, e.streaming_query_id, e.streaming_run_id,
        count(*) FILTER (WHERE e.root_execution_id = e.execution_id) AS batches,
        count(*) FILTER (WHERE e.root_execution_id = e.execution_id AND e.state = 'failed') AS failed,
        min(e.started_at) AS first_batch_at,
        max(e.started_at) FILTER (WHERE e.root_execution_id = e.execution_id) AS last_batch_at,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY e.duration_ms)
            FILTER (WHERE e.root_execution_id = e.execution_id AND e.state = 'succeeded') AS duration_ms_median,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY e.duration_ms)
            FILTER (WHERE e.root_execution_id = e.execution_id AND e.state = 'succeeded') AS duration_ms_p95,
        max(e.duration_ms) FILTER (WHERE e.root_execution_id = e.execution_id AND e.state = 'succeeded')
            AS duration_ms_max,
        sum(e.task_time_ms)::bigint AS task_time_ms, sum(e.input_bytes)::bigint AS input_bytes,
        sum(e.output_bytes)::bigint AS output_bytes, sum(e.shuffle_write_bytes)::bigint AS shuffle_write_bytes,
        sum(e.broadcast_bytes)::bigint AS broadcast_bytes, sum(e.disk_spilled_bytes)::bigint AS disk_spilled_bytes
    FROM execution e
    WHERE e.streaming_query_id IS NOT NULL AND e.started_at >= since AND e.started_at < until
    GROUP BY e.application_id, e.attempt_id, e.job_name, e.streaming_query_id, e.streaming_run_id
) AS s
CROSS JOIN LATERAL (
    SELECT e.* FROM execution e
    WHERE e.started_at = s.last_batch_at AND e.application_id = s.application_id AND e.attempt_id = s.attempt_id
        AND e.streaming_query_id = s.streaming_query_id AND e.root_execution_id = e.execution_id
    ORDER BY e.execution_id DESC LIMIT 1
) AS last
LEFT JOIN LATERAL (
    SELECT e.title, e.started_at, e.execution_id FROM execution e
    WHERE e.started_at BETWEEN last.started_at AND coalesce(last.ended_at, 'infinity') AND NOT e.is_outer
        AND e.application_id = s.application_id AND e.attempt_id = s.attempt_id
        AND e.root_execution_id = last.execution_id
    ORDER BY e.execution_id LIMIT 1
) AS work ON true
LEFT JOIN LATERAL (
    SELECT sum(m.total) FILTER (WHERE m.name = 'number of total state rows')::bigint AS state_rows,
        sum(m.total) FILTER (WHERE m.name = 'memory used by state')::bigint AS state_bytes
    FROM node_metric m
    WHERE m.started_at = work.started_at AND m.application_id = s.application_id AND m.attempt_id = s.attempt_id
        AND m.execution_id = work.execution_id
) AS kept ON true
$$;
COMMENT ON FUNCTION joinsight_streams IS 'Runs of streaming queries over the micro-batches that started in a time. Columns: v_streams. docs/streaming.md';
