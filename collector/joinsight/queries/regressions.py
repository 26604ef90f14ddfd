"""Regressions, suspected and certain, and forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, func, select, text

from joinsight.queries.reading import complete_titles, read_rows
from joinsight.tables import DURATION, EXECUTION_KEY, Row, alarm, execution, forecast, owner
from joinsight.tables.views import v_regressions


def read_regressions(
    connection: Connection,
    since: datetime,
    thresholds: Mapping[str, float],
    *,
    job: str | None = None,
    shape: str | None = None,
    kind: str | None = None,
    limit: int = 20,
) -> list[Row]:
    """Queries and operators whose last runs since then are worse than earlier runs, the most costly first.

    The window begins up to a day earlier if baselines are stored as of then. Certain regressions come first, from
    whenever they are (`alarms.watch`); all others are `suspected` (column `level`).
    `thresholds` are arguments of the function `joinsight_regressions` by name; missing ones have their defaults.
    """
    arguments = "".join(f", {name} => :{name}" for name in thresholds)
    regressions = text(
        f"SELECT * FROM joinsight_regressions(joinsight_window(:since){arguments}, job => :job, shape => :shape)"
        " WHERE kind = coalesce(:kind, kind)"
        " ORDER BY cost_ms DESC, job_name, query_shape, subject <> 'query', factor DESC NULLS FIRST, operator_key,"
        " measure"
        " LIMIT :limit"
    )
    values = {**thresholds, "since": since, "job": job, "shape": shape, "kind": kind, "limit": limit}
    suspected = [dict(row) for row in connection.execute(regressions, values).mappings()]
    found = _with_certain(suspected, read_alarms(connection, job=job, shape=shape), kind)[:limit]
    complete_titles(connection, found)
    return found


def read_alarms(connection: Connection, *, job: str | None = None, shape: str | None = None) -> list[Row]:
    """The certain regressions that are not over, the latest first."""
    c = alarm.c
    statement = select(alarm).where(c.closed_at.is_(None)).order_by(c.raised_at.desc(), *alarm.primary_key)
    if job is not None:
        statement = statement.where(c.job_name == job)
    if shape is not None:
        statement = statement.where(c.query_shape == shape)
    return read_rows(connection, statement.limit(_MOST_ALARMS))


def read_forecasts(connection: Connection, *, job: str | None = None, limit: int = 100) -> list[Row]:
    """What will reach its limit, the earliest first, as of the last time that it was computed."""
    c = forecast.c
    newest = select(func.max(c.computed_at)).scalar_subquery()
    statement = select(forecast).where(c.computed_at == newest).order_by(c.reaches_at, *forecast.primary_key)
    if job is not None:
        statement = statement.where(c.job_name == job)
    rows = read_rows(connection, statement.limit(limit))
    complete_titles(connection, rows)
    return rows


def read_owner(connection: Connection, job: str) -> dict[str, str | None]:
    """``team`` and ``user`` by the tags of a job's last execution, at most 100 characters each; None: not tagged."""
    c = execution.c
    last = select(c.tags).where(c.job_name == job).order_by(c.started_at.desc()).limit(1)
    return owner(connection.scalar(last))


_MOST_ALARMS = 1000
_IDENTIFIES_QUERY = ("job_name", "query_shape", "origin")


def _with_certain(suspected: Sequence[Row], alarms: Sequence[Row], kind: str | None) -> list[Row]:
    """Regressions with their level; certain ones first, those that the others' rule does not see, too."""
    certain = {tuple(row[name] for name in (*_IDENTIFIES_QUERY, "measure")): row for row in alarms}
    found = []
    for row in suspected:
        of_query = tuple(row[name] for name in _IDENTIFIES_QUERY)
        its = certain.pop((*of_query, row["measure"]), None) if row["subject"] == "query" else None
        level = SUSPECTED if its is None else CERTAIN
        found.append(row | {"level": level, "since": row["first_bad_at"] if its is None else its["since"]})
    found += [_of_alarm(row) for row in certain.values() if kind in (None, row["kind"])]
    return sorted(found, key=lambda row: (row["level"] != CERTAIN, -(row["cost_ms"] or 0)))


SUSPECTED, CERTAIN = LEVELS = ("suspected", "certain")


def _of_alarm(row: Row) -> Row:
    """A certain regression as a row of `joinsight_regressions`."""
    is_duration = row["measure"] == DURATION
    cost = round((row["after"] - row["before"]) * row["runs"]) if is_duration else None
    same = (*_IDENTIFIES_QUERY, "title", "measure", "kind", *EXECUTION_KEY, *(f"baseline_{n}" for n in EXECUTION_KEY))
    return dict.fromkeys(_REGRESSION) | {
        **{name: row[name] for name in same},
        "description": "",
        "subject": "query",
        "baseline": row["before"],
        "current": row["after"],
        "factor": row["after"] / row["before"] if row["before"] else None,
        "first_bad_at": row["since"],
        "bad_runs": row["runs"],
        "cost_ms": cost,
        "level": CERTAIN,
        "since": row["since"],
    }


_REGRESSION = tuple(v_regressions.c.keys())


RECENT_RUNS, MINIMUM_RUNS = 3, 5
"""Runs in the window, and before it, that `joinsight_regressions` needs of a query."""


def count_comparable(
    connection: Connection, since: datetime, minimum_runs: int, job: str | None, shape: str | None = None
) -> Row:
    """Whether there are enough runs for `read_regressions`, in the window from `since` on and in the 90 days before.

    ``queries`` ran in it, ``comparable`` of them often enough; the most runs of one are ``recent`` and ``earlier``
    (`minimum_runs` at most).
    """
    counted = text(
        "WITH ran AS ("
        " SELECT e.job_name, e.query_shape, e.origin, count(*) AS recent FROM execution e"
        " WHERE e.started_at >= joinsight_window(:since) AND e.state = 'succeeded' AND e.incomplete IS NULL"
        " AND e.query_shape IS NOT NULL AND e.job_name = coalesce(:job, e.job_name)"
        " AND e.query_shape = coalesce(:shape, e.query_shape)"
        " GROUP BY e.job_name, e.query_shape, e.origin"
        "), counted AS ("
        " SELECT ran.recent, greatest((SELECT count(*) FROM (SELECT FROM execution e"
        " WHERE e.query_shape = ran.query_shape AND e.job_name = ran.job_name AND e.origin = ran.origin"
        " AND e.started_at < joinsight_window(:since)"
        " AND e.started_at >= joinsight_window(:since) - interval '90 days'"
        " AND e.state = 'succeeded' AND e.incomplete IS NULL LIMIT :minimum) AS before),"
        " (SELECT max(b.runs) FROM baseline b WHERE b.job_name = ran.job_name AND b.query_shape = ran.query_shape"
        " AND b.origin = ran.origin AND b.as_of = joinsight_window(:since))) AS earlier FROM ran"
        ") SELECT count(*) AS queries, count(*) FILTER (WHERE recent >= :recent AND earlier >= :minimum) AS comparable,"
        " coalesce(max(recent), 0) AS recent, coalesce(max(earlier), 0) AS earlier FROM counted"
    )
    values = {"since": since, "job": job, "shape": shape, "minimum": minimum_runs, "recent": RECENT_RUNS}
    return dict(connection.execute(counted, values).mappings().one())
