"""SQL that several dashboards share."""

from __future__ import annotations

TIME = "$__timeFilter(started_at)"
JOB = "job_name IN (${job:sqlstring})"
"""The variable's value for all jobs is the column itself, so that the condition is true for every row."""
TAG = "('' IN (${tag_value:sqlstring}) OR tags ->> ${tag:sqlstring} IN (${tag_value:sqlstring}))"
"""True while the variable has all values, which are `''`: PostgreSQL then drops the condition before it plans."""
OPERATOR = "('${operator}' = '' OR operator_key = '${operator}')"
"""True for every operator while the variable is empty."""
HERE = f"WHERE {TIME} AND {JOB} AND {TAG}"
OF_OPERATORS = f"{HERE} AND {OPERATOR}"

TAGGED_APPLICATION = f"""('' IN (${{tag_value:sqlstring}}) OR (application_id, attempt_id) IN (
                SELECT application_id, attempt_id FROM application WHERE {TAG}
            ))"""
"""The condition on results of functions, which have no tags: an execution has those of its application."""
FOUND = f"joinsight_finding_groups($__timeFrom(), $__timeTo()) WHERE {JOB} AND {TAGGED_APPLICATION}"

EXECUTION_KEY = "started_at, application_id, attempt_id, execution_id"
EXECUTION = "title, application_id, attempt_id, execution_id"
TITLE = "coalesce(title, 'execution ' || execution_id)"
LATEST = f"""(array_agg({TITLE} ORDER BY started_at DESC))[1] AS query, max(started_at) AS last_run,
    (array_agg(application_id ORDER BY started_at DESC))[1] AS application_id,
    (array_agg(attempt_id ORDER BY started_at DESC))[1] AS attempt_id,
    (array_agg(execution_id ORDER BY started_at DESC))[1] AS execution_id"""
"""The title and key of the last execution of a group, for links."""
QUERY_TITLE = "coalesce(max(title), 'query ' || left(query_shape, 8))"
PERIOD = "$__timeGroup(started_at, $__interval) AS time"
FIRST_THIRD = "started_at < $__timeFrom()::timestamptz + ($__timeTo()::timestamptz - $__timeFrom()) / 3"
LAST_THIRD = "started_at > $__timeTo()::timestamptz - ($__timeTo()::timestamptz - $__timeFrom()) / 3"


def first_fifty(groups: str, order: str, *, of: str, shown: str = "first.*", run: str = EXECUTION) -> str:
    """SQL: the first of these groups in an order, with `LATEST`, but only for those: to read and sort the titles of all
    runs takes as long as all else.

    `groups` has the columns job_name, operator_key and last_run; `of` is the view whose rows it groups. `shown` are
    columns of the groups and of the last `run`.
    """
    return f"""
        SELECT {shown}, {TITLE} AS query, run.application_id, run.attempt_id, run.execution_id
        FROM (SELECT * FROM ({groups}) AS groups ORDER BY {order} LIMIT 50) AS first CROSS JOIN LATERAL (
            SELECT {run} FROM {of}
            WHERE {TIME} AND started_at = first.last_run AND job_name = first.job_name
                AND operator_key IS NOT DISTINCT FROM first.operator_key
            LIMIT 1
        ) AS run
        ORDER BY {order}
    """


def in_words(keys: str) -> str:
    """SQL: keys as text, without Spark's expression ids."""
    return f"regexp_replace(array_to_string({keys}, ', '), '#[0-9]+L?', '', 'g')"


def ten_jobs(source: str, measure: str, condition: str = HERE, *, ranked_by: str = "sum") -> str:
    """SQL: a time series for each of the ten jobs with the largest values."""
    return f"""
        WITH found AS (
            SELECT {PERIOD}, job_name AS metric, {measure} AS value FROM {source} {condition} GROUP BY time, metric
        )
        SELECT time, metric, value FROM found
        WHERE metric IN (
            SELECT metric FROM found GROUP BY metric ORDER BY {ranked_by}(value) DESC NULLS LAST LIMIT 10
        )
        ORDER BY time, metric
    """
