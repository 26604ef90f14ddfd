"""Ways from one dashboard to the next. They keep the time, the data source and the job."""

from __future__ import annotations

Link = dict[str, object]
_KEPT = "${__url_time_range}&${postgresql:queryparam}"
_EXECUTION = "&".join(
    f"var-{name}=${{__data.fields.{name}:percentencode}}" for name in ("application_id", "attempt_id", "execution_id")
)


def to(title: str, dashboard: str, parameters: str = "${job:queryparam}") -> Link:
    """To a dashboard, with what its variables are set to."""
    return {"title": title, "url": f"/d/joinsight-{dashboard}?{_KEPT}&{parameters}"}


def of_row(**variables: str) -> str:
    """Parameters: variables that are set to columns of the row that was clicked."""
    return "&".join(f"var-{name}=${{__data.fields.{column}:percentencode}}" for name, column in variables.items())


def to_query() -> Link:
    """To the execution of the row that was clicked: columns application_id, attempt_id, execution_id."""
    return to("Open this execution", "query", "${job:queryparam}&" + _EXECUTION)


def to_job(dashboard: str, title: str) -> Link:
    """To a dashboard, limited to the job of the row that was clicked: column job_name."""
    return to(title, dashboard, of_row(job="job_name"))


def to_history() -> Link:
    """To the past of the query of the row that was clicked: columns job_name and query_shape."""
    return to("Runs of this query", "history", of_row(job="job_name", query_shape="query_shape"))
