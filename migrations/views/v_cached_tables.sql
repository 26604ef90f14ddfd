-- Written by make docs from collector/joinsight/tables/views.py
CREATE VIEW v_cached_tables AS
SELECT c.application_id, c.attempt_id, c.cache_id, a.name AS application_name, a.job_name, c.table_name,
    c.first_used_at, c.last_used_at, c.filled_by, c.fill_wall_ms, c.fill_task_ms, c.executions, c.reads, c.rows_read
FROM (
    SELECT c.application_id, c.attempt_id, c.cache_id, max(c.table_name) AS table_name,
        min(c.started_at) AS first_used_at, max(c.started_at) AS last_used_at,
        array_agg(c.execution_id ORDER BY c.started_at, c.execution_id)
            FILTER (WHERE c.fill_stages IS NOT NULL) AS filled_by,
        sum(c.fill_wall_ms)::bigint AS fill_wall_ms, sum(c.fill_task_ms)::bigint AS fill_task_ms,
        count(*) AS executions, count(*) FILTER (WHERE c.fill_stages IS NULL) AS reads,
        sum(c.rows_read)::bigint AS rows_read
    FROM cache c
    GROUP BY c.application_id, c.attempt_id, c.cache_id
) AS c
LEFT JOIN application a USING (application_id, attempt_id);
COMMENT ON VIEW v_cached_tables IS 'A cached table of an application, with the executions that filled it and how many read it.';
COMMENT ON COLUMN v_cached_tables.application_id IS 'Spark''s application id';
COMMENT ON COLUMN v_cached_tables.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN v_cached_tables.cache_id IS 'the cached table, within its application';
COMMENT ON COLUMN v_cached_tables.application_name IS 'Spark''s application name';
COMMENT ON COLUMN v_cached_tables.job_name IS 'the job';
COMMENT ON COLUMN v_cached_tables.table_name IS 'its name; NULL: it is a DataFrame';
COMMENT ON COLUMN v_cached_tables.first_used_at IS 'start of the first execution that filled or read it';
COMMENT ON COLUMN v_cached_tables.last_used_at IS 'start of the last one';
COMMENT ON COLUMN v_cached_tables.filled_by IS 'executions that filled a part of it, the first one first; NULL: unknown';
COMMENT ON COLUMN v_cached_tables.fill_wall_ms IS 'sum of their fill_wall_ms, milliseconds';
COMMENT ON COLUMN v_cached_tables.fill_task_ms IS 'sum of their fill_task_ms, milliseconds';
COMMENT ON COLUMN v_cached_tables.executions IS 'executions that read it, with those that filled it';
COMMENT ON COLUMN v_cached_tables.reads IS 'executions that read it and filled no part of it';
COMMENT ON COLUMN v_cached_tables.rows_read IS 'rows that all of them read; NULL: not measured';
