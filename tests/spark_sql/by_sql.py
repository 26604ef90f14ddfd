"""Daily totals computed by PostgreSQL: expected values for Spark, and roll-ups for tests without Spark."""

from __future__ import annotations

from sqlalchemy import Connection, text

from joinsight import tables

QUERIES = """
    SELECT CAST(started_at AT TIME ZONE 'UTC' AS date) AS day, job_name,
        coalesce(query_shape, '') AS query_shape, origin,
        min(left(description, 200) COLLATE "C") AS description, count(*) AS executions,
        count(*) FILTER (WHERE state = 'succeeded') AS succeeded, count(*) FILTER (WHERE state = 'failed') AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled, count(*) FILTER (WHERE state = 'lost') AS lost,
        count(incomplete) AS incomplete,
        count(DISTINCT plan_fingerprint) AS plans, sum(duration_ms) AS duration_ms,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms)
            FILTER (WHERE state = 'succeeded') AS duration_ms_median,
        max(duration_ms) FILTER (WHERE state = 'succeeded') AS duration_ms_max,
        sum(tasks) AS tasks, sum(task_time_ms) AS task_time_ms, sum(input_bytes) AS input_bytes,
        sum(output_bytes) AS output_bytes, sum(shuffle_write_bytes) AS shuffle_write_bytes,
        sum(shuffle_read_bytes) AS shuffle_read_bytes, sum(broadcast_bytes) AS broadcast_bytes,
        sum(disk_spilled_bytes) AS disk_spilled_bytes, max(updated_at) AS newest_at
    FROM execution WHERE NOT is_outer GROUP BY 1, 2, 3, 4
"""
OPERATORS = """
    SELECT CAST(started_at AT TIME ZONE 'UTC' AS date) AS day, job_name, operator_key, origin, min(subject) AS subject,
        count(*) AS runs, sum(rows) AS rows, sum(bytes) AS bytes, max(bytes) AS largest_bytes, sum(time_ms) AS time_ms,
        sum(cost_wall_ms) AS cost_wall_ms, sum(cost_task_ms) AS cost_task_ms, sum(spill_bytes) AS spill_bytes,
        max(skew_ratio) AS skew_ratio,
        array_agg(DISTINCT strategy ORDER BY strategy) FILTER (WHERE strategy IS NOT NULL) AS strategies
    FROM (
        SELECT started_at, application_id, attempt_id, execution_id, operator_key, 'join' AS subject,
            output_rows AS rows,
            coalesce(left_bytes + right_bytes, left_bytes, right_bytes) AS bytes,
            coalesce(build_ms + sort_ms, build_ms, sort_ms) AS time_ms, cost_wall_ms, cost_task_ms,
            spill_bytes, NULL AS skew_ratio, strategy
        FROM joins
        UNION ALL
        SELECT started_at, application_id, attempt_id, execution_id, operator_key, 'shuffle', rows_written,
            bytes_written,
            coalesce(write_time_ns / 1000000 + fetch_wait_ms, write_time_ns / 1000000, fetch_wait_ms),
            cost_wall_ms, cost_task_ms, NULL, skew_ratio, NULL
        FROM shuffle
        UNION ALL
        SELECT started_at, application_id, attempt_id, execution_id, operator_key, 'broadcast', rows, size_bytes,
            collect_ms + build_ms + broadcast_ms, cost_wall_ms, cost_task_ms, NULL, NULL, NULL
        FROM broadcast
    ) AS o JOIN execution USING (started_at, application_id, attempt_id, execution_id)
    WHERE operator_key IS NOT NULL
    GROUP BY 1, 2, 3, 4
"""


def fill(connection: Connection) -> None:
    """Fill the empty tables of totals from the tables that they summarise."""
    for table, query in ((tables.rollup_day, QUERIES), (tables.rollup_operator_day, OPERATORS)):
        columns = ", ".join(table.columns.keys())
        connection.execute(text(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM ({query}) AS totals"))
