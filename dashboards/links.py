"""Links between dashboards; they keep time range, data source, tag and job."""

from __future__ import annotations

Link = dict[str, object]
_KEPT = "${__url_time_range}&${postgresql:queryparam}&${tag:queryparam}&${tag_value:queryparam}"
_EXECUTION = "&".join(
    f"var-{name}=${{__data.fields.{name}:percentencode}}" for name in ("application_id", "attempt_id", "execution_id")
)


def to(title: str, dashboard: str, parameters: str = "${job:queryparam}") -> Link:
    """A link to a dashboard, with values of its variables."""
    return {"title": title, "url": f"/d/joinsight-{dashboard}?{_KEPT}&{parameters}"}


def of_row(**variables: str) -> str:
    """Parameters that set variables to columns of the clicked row."""
    return "&".join(f"var-{name}=${{__data.fields.{column}:percentencode}}" for name, column in variables.items())


def to_query() -> Link:
    """A link to the clicked row's execution; needs the columns application_id, attempt_id, execution_id."""
    return to("Open this execution", "query", "${job:queryparam}&" + _EXECUTION)


def to_job(dashboard: str, title: str) -> Link:
    """A link to a dashboard, filtered by the clicked row's job; needs the column job_name."""
    return to(title, dashboard, of_row(job="job_name"))


def to_history() -> Link:
    """A link to the history of the clicked row's query; needs the columns job_name and query_shape."""
    return to("Runs of this query", "history", of_row(job="job_name", query_shape="query_shape"))
