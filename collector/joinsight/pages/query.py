"""The page of a query's history: its runs as charts and a table, what changed between them, a form to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from joinsight.pages.environment import render
from joinsight.pages.history import draw_history
from joinsight.pages.home import PageSection
from joinsight.pages.runs import ListedRun, runs_of
from joinsight.tables import Row

LIMITS = (100, 500)
"""The numbers of runs that a page can show."""


@dataclass(frozen=True, slots=True)
class QueryRuns:
    """What the page is about."""

    shape: str
    job: str
    jobs: Sequence[Row]
    """All that ran the query, with `job`."""
    rows: Sequence[Row]
    """The newest first; may be one more than `limit`."""
    usual: Row | None
    regressions: PageSection[Row]
    limit: int = LIMITS[0]
    until: datetime | None = None


def query_page(query: QueryRuns) -> str:
    """The page as HTML."""
    runs = runs_of(list(query.rows[: query.limit])[::-1])
    newest = runs[-1].row
    older = query.rows[query.limit]["started_at"] if len(query.rows) > query.limit else None
    duration = [row for row in query.regressions.rows if row["measure"] == "duration_ms"]
    return render(
        "query.html",
        q=query,
        newest=newest,
        runs=runs[::-1],
        plans=len({run.plan for run in runs if run.plan}),
        chart=draw_history(runs, query.usual, duration[0] if duration else None),
        first=_to_compare(runs, duration),
        older=_address(query, until=older.isoformat().replace("+00:00", "Z")) if older else None,
        newer=_address(query) if query.until else None,
        all=_address(query, limit=str(LIMITS[-1])) if older and query.limit < LIMITS[-1] else None,
        address_of=lambda job: f"/queries/{query.shape}?{urlencode({'job': job})}",
    )


def _to_compare(runs: Sequence[ListedRun], duration: Sequence[Row]) -> Row | None:
    """The run to compare the newest one with: the typical one of a regression, else the one before."""
    if duration:
        key = tuple(duration[0][f"baseline_{name}"] for name in ("started_at", "application_id", "execution_id"))
        for run in runs[:-1]:
            if tuple(run.row[name] for name in ("started_at", "application_id", "execution_id")) == key:
                return run.row
    return runs[-2].row if len(runs) > 1 else None


def _address(query: QueryRuns, **changes: Any) -> str:
    limit = {} if query.limit == LIMITS[0] else {"limit": str(query.limit)}
    return f"/queries/{query.shape}?" + urlencode({"job": query.job, **limit, **changes}, safe=":/")
