"""What the home page and the pages of jobs tell above their list: what became worse, what failed, what to fix first.

The home page also tells how jobs go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

from joinsight.base.units import bytes_text, duration_text
from joinsight.pages.chart import Spark, spark
from joinsight.present.values import when
from joinsight.queries.trends import Trend
from joinsight.tables import Row

MAX_SHOWN = 6
"""Maximum regressions, failures and findings."""
MAX_TRENDS = 15
"""Maximum jobs with a trend."""
_MANY_DAYS = 100
"""From here on a date says more than the number of days."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageSection(Generic[T]):
    """A part of a page that it can do without."""

    rows: Sequence[T] = ()
    nothing: str = ""
    """Why there are no rows, as a sentence, if that needs to be said."""
    problem: str = ""
    """Why it is missing, as a sentence."""
    command: str = ""
    """A command that prints what is missing."""
    slower: Sequence[Row] = ()
    """Rows of `trends.read_slower_than_last`, while there are not enough runs to compare."""
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """What happened in the last days, to all jobs or one; lists may have one row more than the page shows."""

    days: int
    job: str | None
    since: datetime
    until: datetime | None
    """None: now."""
    regressions: PageSection[Row]
    """The most costly one of each query, by `worst_of_queries`."""
    failures: PageSection[Row]
    findings: PageSection[Row]
    jobs: PageSection[JobLine]
    """None on the page of a job."""
    number_of_jobs: int

    @property
    def period(self) -> str:
        """What it covers."""
        return days_text(self.since, self.until)


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job with its charts."""

    job: Row
    duration: Spark | None
    shuffled: Spark | None


def days_text(since: datetime, until: datetime | None) -> str:
    """``the last 7 days``, or ``the 7 days up to 2026-11-18 10:00``."""
    if until is None:
        days = round((datetime.now(timezone.utc) - since) / timedelta(days=1))
        return f"the last {days} days" if 1 < days < _MANY_DAYS else f"the time since {when(since)}"
    if (until - since) % timedelta(days=1):
        return f"the time from {when(since)} to {when(until)}"
    return f"the {(until - since).days} days up to {when(until)}"


def worst_of_queries(regressions: Sequence[Row]) -> list[Row]:
    """The first regression of each query, with the number of the others."""
    first: dict[tuple[str, str], Row] = {}
    for row in regressions:
        shown = first.setdefault((row["job_name"], row["query_shape"]), {**row, "others": -1})
        shown["others"] += 1
    return list(first.values())


def job_lines(trends: Sequence[Trend]) -> list[JobLine]:
    """Jobs with the charts of their runs."""
    return [
        JobLine(
            trend.job,
            spark(trend.duration_ms, "Query time", duration_text),
            spark(trend.shuffle_write_bytes, "Shuffled", bytes_text),
        )
        for trend in trends
    ]
