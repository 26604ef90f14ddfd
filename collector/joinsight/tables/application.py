"""Table `application`: an application attempt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import get_args

from sqlalchemy import Index, text

from joinsight.contract.document import Origin
from joinsight.tables.declare import Long, Strings, TableRow, column, required, table_of

_MOST_CHARACTERS = 100


class ApplicationRow(TableRow, frozen=True, kw_only=True):
    """An application attempt."""

    application_id: str = required("Spark's application id")
    attempt_id: str = required("Spark's application attempt id; empty if none")
    name: str = required("spark.app.name")
    job_name: str = required("spark.joinsight.jobName, or the name; stable from run to run")
    state: str = required(
        "running, ended, or lost (its driver is gone); unknown while only its executions have arrived",
        one_of=("unknown", "running", "ended", "lost"),
    )
    started_at: datetime | None = column("when the application started")
    ended_at: datetime | None = column("when it ended")
    spark_user: str | None = column("the user that Spark ran as")
    master: str | None = column("spark.master")
    spark_version: str = required("version of Spark")
    origin: str = required("live (listener) or event_log (backfill)", one_of=get_args(Origin))
    listener_id: str = required("the listener instance, one per SparkContext")
    listener_version: str = required("version of Joinsight in the driver")
    tags: Strings | None = column("spark.joinsight.tag.*")
    configuration: Strings | None = column("allow-listed settings of the SparkConf")
    sequence: Long = required("number of the document that this row comes from")
    updated_at: datetime | None = required("when this row was written", default=None)


application = table_of(
    ApplicationRow,
    "application",
    Index(None, "job_name", "started_at"),
    Index(None, "name"),
    Index(None, "spark_user", "application_id"),
    Index(
        "ix_application_open",
        "application_id",
        "attempt_id",
        postgresql_where=text("state IN ('unknown', 'running') AND origin = 'live'"),
    ),
    key=("application_id", "attempt_id"),
)


def owner(tags: Mapping[str, str] | None) -> dict[str, str | None]:
    """``team`` and ``user`` by the tags of these names, at most 100 characters each; None: not tagged."""
    return {name: (tags or {}).get(name, "")[:_MOST_CHARACTERS] or None for name in ("team", "user")}
