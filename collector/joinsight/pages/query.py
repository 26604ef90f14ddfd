"""The page of a query through time: its runs as charts and a table, what changed between them, a form to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from joinsight.comparison import changed_settings, settings_of
from joinsight.pages.environment import render
from joinsight.pages.history import draw_history
from joinsight.pages.home import Summary
from joinsight.present import short_key
from joinsight.tables import Row

LIMITS = (100, 500)
"""The numbers of runs that a page can show."""
_SETTINGS = 3
"""Changed settings of a run that are named."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and what is different from the run before it."""

    row: Row
    plan: str
    """A letter for each plan, in the order of their first runs; empty without a plan."""
    plan_changed: str = ""
    settings_changed: str = ""
    spark_changed: str = ""

    @property
    def changes(self) -> list[str]:
        """In words."""
        return [each for each in (self.plan_changed, self.settings_changed, self.spark_changed) if each]


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
    regressions: Summary[Row]
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


def runs_of(rows: Sequence[Row]) -> list[Run]:
    """Runs with what changed between them, the oldest first."""
    letters: dict[str, str] = {}
    runs: list[Run] = []
    before: Row | None = None
    for row in rows:
        fingerprint = row["plan_fingerprint"] or ""
        if fingerprint and fingerprint not in letters:
            letters[fingerprint] = _letter(len(letters))
        plan = letters.get(fingerprint, "")
        runs.append(Run(row, plan) if before is None else Run(row, plan, *_changes(before, row, letters)))
        before = row
    return runs


def _letter(number: int) -> str:
    """A to Z, then A1 to Z1 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _changes(before: Row, row: Row, letters: Mapping[str, str]) -> tuple[str, str, str]:
    a, b = before["plan_fingerprint"], row["plan_fingerprint"]
    plan = f"plan {letters[a]} → {letters[b]} ({short_key(b)})" if a and b and a != b else ""
    settings = changed_settings(_settings(before), _settings(row))
    named = [f"{key}: {_value(x)} → {_value(y)}" for key, (x, y) in list(settings.items())[:_SETTINGS]]
    more = [f"{len(settings) - _SETTINGS} more settings"] if len(settings) > _SETTINGS else []
    x, y = before["spark_version"], row["spark_version"]
    return plan, "; ".join([*named, *more]), f"Spark {x} → {y}" if x and y and x != y else ""


def _settings(row: Row) -> dict[str, str]:
    return settings_of({"configuration": row["application_configuration"]}, row)


def _value(setting: str | None) -> str:
    return "(default)" if setting is None else setting[:80]


def _to_compare(runs: Sequence[Run], duration: Sequence[Row]) -> Row | None:
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
