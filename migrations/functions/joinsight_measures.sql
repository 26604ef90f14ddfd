-- What is compared of a run with earlier runs, of the query and of each operator; more is worse. joinsight_measure_names
-- names them by position. `data` is what goes in: if it grew as much, it explains the change.
-- Costs count where tasks were sampled: without, they are only known in part, which would differ from those with samples.
-- PostgreSQL inlines it: a look-up by key in each table, or only in that of one subject. One column a measure, for rows
-- cost more than columns. The run started at `earliest` or later, which keeps other months out of the plan.
CREATE FUNCTION joinsight_measures(
    of_started_at timestamptz, of_application_id text, of_attempt_id text, of_execution_id bigint,
    duration_ms bigint, input_bytes bigint, shuffle_write_bytes bigint, is_sampled boolean,
    earliest timestamptz, only_subject text
) RETURNS TABLE (
    subject text, operator_key text, data double precision,
    first double precision, second double precision, third double precision, fourth double precision,
    fifth double precision
) LANGUAGE sql STABLE AS $$
    SELECT 'query', '', coalesce(nullif(input_bytes, 0), shuffle_write_bytes)::float8,
        duration_ms::float8, NULL::float8, NULL::float8, NULL::float8, NULL::float8
    WHERE coalesce(only_subject, 'query') = 'query'
    UNION ALL
    SELECT 'join', operator_key, greatest(left_rows, right_rows)::float8,
        spill_bytes::float8, output_rows::float8 / nullif(greatest(left_rows, right_rows), 0),
        CASE WHEN is_sampled THEN cost_wall_ms END, CASE WHEN is_sampled THEN cost_task_ms END, NULL
    FROM joins
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
        AND started_at >= earliest AND coalesce(only_subject, 'join') = 'join'
    UNION ALL
    SELECT 'shuffle', operator_key, rows_written::float8,
        bytes_written::float8, skew_ratio, fetch_wait_ms::float8,
        CASE WHEN is_sampled THEN cost_wall_ms END, CASE WHEN is_sampled THEN cost_task_ms END
    FROM shuffle
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
        AND started_at >= earliest AND coalesce(only_subject, 'shuffle') = 'shuffle'
    UNION ALL
    SELECT 'broadcast', operator_key, rows::float8,
        size_bytes::float8, (collect_ms + build_ms + broadcast_ms)::float8,
        CASE WHEN is_sampled THEN cost_wall_ms END, CASE WHEN is_sampled THEN cost_task_ms END, NULL
    FROM broadcast
    WHERE (started_at, application_id, attempt_id, execution_id)
        = (of_started_at, of_application_id, of_attempt_id, of_execution_id) AND operator_key IS NOT NULL
        AND started_at >= earliest AND coalesce(only_subject, 'broadcast') = 'broadcast'
$$;
COMMENT ON FUNCTION joinsight_measures IS 'What joinsight_regressions compares of a run. Internal: it may change.';
