"""Annotations: failures, changed plans and deployments, as lines on all panels with a time axis."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as board

from dashboards.parts import POSTGRESQL, Sql
from dashboards.sql import HERE, JOB, TAG, TIME, TITLE
from dashboards.style import ANNOTATIONS

MOST = 100
"""The newest of each kind that are drawn; more would hide the panels."""
_DATED = "[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9:]{5,}"
"""Dates and times in applications' names, which are no change. Shorter numbers may be versions."""


def _html(text: str) -> str:
    """SQL: text that Grafana shows as it is; it takes annotations for HTML."""
    return f"replace(replace(replace({text}, '&', '&amp;'), '<', '&lt;'), '>', '&gt;')"


def _ms(macro: str) -> str:
    return f"floor(extract(epoch FROM {macro}()::timestamptz) * 1000)::bigint"


def _linked(link: str) -> str:
    """SQL: a link to the row's execution, unless its ids need an encoding, which those of Spark never do."""
    return f"CASE WHEN application_id || attempt_id ~ '[^A-Za-z0-9_.-]' THEN '' ELSE {link} END"


_TO_QUERY = _linked(
    f"""format('<br><a href="/d/joinsight-query?from=%s&amp;to=%s&amp;var-postgresql=${{postgresql}}'
            '&amp;var-application_id=%s&amp;var-attempt_id=%s&amp;var-execution_id=%s">Open this execution</a>',
            {_ms("$__timeFrom")}, {_ms("$__timeTo")}, application_id, attempt_id, execution_id)"""
)
TO_COLLECTOR = _linked(
    """format('<br><a href="${collector}/executions/%s">The collector''s own page</a>',
            concat_ws('/', application_id, nullif(attempt_id, ''), execution_id))"""
)


def _annotation(name: str, sql: str, *, is_on: bool) -> board.AnnotationQuery:
    target = Sql(sql, "Anno").build()
    made = board.AnnotationQuery(name, POSTGRESQL, is_on, icon_color=ANNOTATIONS[name], target=target)
    made.placement = None  # else Grafana hides the toggle in a menu
    made.built_in = None
    return made


def failures(
    runs: str = f"FROM execution {HERE} AND NOT is_outer", chosen: str = "", *, link: str = _TO_QUERY
) -> board.AnnotationQuery:
    """Each execution that failed or was lost."""
    text = f"concat_ws(': ', job_name, {TITLE}, state, left(split_part(error, E'\\n', 1), 200))"
    return _annotation(
        "Failures",
        f"""
        {chosen}
        SELECT started_at AS time, {_html(text)} || {link} AS text, state AS tags
        {runs} AND state IN ('failed', 'lost')
        ORDER BY started_at DESC LIMIT {MOST}
        """,
        is_on=True,
    )


def plan_changes(
    runs: str = f"FROM execution {HERE} AND NOT is_outer",
    chosen: str = "",
    *,
    link: str = _TO_QUERY,
    is_on: bool = True,
) -> board.AnnotationQuery:
    """Each successful run with another plan than the run before it, of the same query in the same job."""
    text = f"format('%s: %s: plan %s, before %s', job_name, {TITLE}, left(plan_fingerprint, 8), left(plan_before, 8))"
    return _annotation(
        "Plan changes",
        f"""
        {chosen}
        SELECT started_at AS time, {_html(text)} || {link} AS text, 'plan changed' AS tags
        FROM (
            SELECT started_at, application_id, attempt_id, execution_id, job_name, title, plan_fingerprint,
                lag(plan_fingerprint) OVER (PARTITION BY job_name, query_shape ORDER BY started_at) AS plan_before
            {runs} AND state = 'succeeded' AND incomplete IS NULL AND query_shape IS NOT NULL
        ) AS runs
        WHERE plan_fingerprint <> plan_before
        ORDER BY started_at DESC LIMIT {MOST}
        """,
        is_on=is_on,
    )


def deployments(condition: str = f"{JOB} AND {TAG}", chosen: str = "") -> board.AnnotationQuery:
    """Each application with another version of Spark, or another name, than the one before it of the same job."""
    differences = """concat_ws(', ',
            CASE WHEN spark_version <> spark_before THEN format('Spark %s, before %s', spark_version, spark_before) END,
            CASE WHEN is_renamed THEN format('application %s, before %s', name, name_before) END)"""
    text = f"concat_ws(': ', job_name, {differences})"
    same = [f"regexp_replace({name}, '{_DATED}', '', 'g')" for name in ("application.name", "earlier.name")]
    return _annotation(
        "Deployments",
        f"""
        {chosen}
        SELECT started_at AS time, {_html(text)} AS text, 'deployment' AS tags
        FROM application CROSS JOIN LATERAL (
            SELECT earlier.spark_version AS spark_before, earlier.name AS name_before,
                {same[0]} <> {same[1]} AS is_renamed
            FROM application AS earlier
            WHERE earlier.job_name = application.job_name AND earlier.started_at < application.started_at
            ORDER BY earlier.started_at DESC LIMIT 1
        ) AS before
        WHERE {TIME} AND {condition} AND (spark_version <> spark_before OR is_renamed)
        ORDER BY started_at DESC LIMIT {MOST}
        """,
        is_on=True,
    )
