"""Takes what ran into the series of its queries, and raises and closes alarms: a collector does it in the background.

A day of history is one transaction, at the end of which alarms are raised over all series. Of two collectors, the
second one waits, and finds that everything is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import groupby, islice
from typing import Any

from sqlalchemy import Connection, Engine, text

from joinsight.alarms.detector import certain
from joinsight.alarms.series import LEAST_WEEKS, LevelChange, Point, Series
from joinsight.tables import CANCELLED, DURATION, FAILED, Row

HISTORY = timedelta(days=90)
"""How far back a first update goes."""
LATE = timedelta(days=3)
"""Executions that arrive later than this after the newest ones are not seen."""
UNFINISHED = timedelta(days=1)
"""How long an hour with running executions is waited for."""
ACCEPTED = timedelta(days=28)
"""After this, a slower query is taken to be so."""
ACTIVE = timedelta(days=7)
KEPT = timedelta(days=400)
"""How long closed alarms are kept."""
FALSE_SHARE = 0.1
"""On average, at most this share of the alarms is false, times the weeks that were watched."""
MOST_SERIES = 50_000
"""Queries that are watched; of more, later ones are not."""
_BATCH = 500
_TIMEOUT = "120s"
_EVIDENCE = {DURATION: "slower_weeks", FAILED: "failed_weeks", CANCELLED: "cancelled_weeks"}
_POINT_COLUMNS = ("hours", "durations_ms", "ended_hours", "outcomes")
_KEY = ("job_name", "query_shape", "origin")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
POINTS = """
    SELECT job_name, query_shape, origin, CAST(floor(extract(epoch FROM started_at) / 3600) AS integer) AS hour,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY duration_ms)
            FILTER (WHERE state = 'succeeded' AND incomplete IS NULL) AS duration_ms,
        count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE state IN ('failed', 'lost')) AS failed,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        bool_or(state = 'running') AS is_running, max(title) AS title
    FROM execution
    WHERE started_at >= :start AND started_at < :end AND query_shape IS NOT NULL AND NOT is_outer
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
"""
_WATCHED = """
    SELECT w.* FROM watched_query w JOIN unnest(
        CAST(:job_name AS text[]), CAST(:query_shape AS text[]), CAST(:origin AS text[])
    ) AS k (job_name, query_shape, origin) USING (job_name, query_shape, origin)
"""
_OPEN = """
    SELECT a.* FROM alarm a JOIN unnest(
        CAST(:job_name AS text[]), CAST(:query_shape AS text[]), CAST(:origin AS text[])
    ) AS k (job_name, query_shape, origin) USING (job_name, query_shape, origin)
    WHERE a.closed_at IS NULL
"""
_BEFORE_EDIT = """
    SELECT * FROM watched_query
    WHERE job_name = :job_name AND origin = :origin AND title = :title AND query_shape <> :query_shape
        AND seen_until >= :earliest
    ORDER BY query_shape LIMIT 2
"""
_STORE = """
    INSERT INTO watched_query VALUES (
        :job_name, :query_shape, :origin, :title, :seen_until, :edited_at, :hours, :durations_ms, :ended_hours,
        :outcomes, :slower_weeks, :failed_weeks, :cancelled_weeks
    ) ON CONFLICT (job_name, query_shape, origin) DO UPDATE SET
        title = excluded.title, seen_until = excluded.seen_until, hours = excluded.hours,
        durations_ms = excluded.durations_ms, ended_hours = excluded.ended_hours, outcomes = excluded.outcomes,
        slower_weeks = excluded.slower_weeks, failed_weeks = excluded.failed_weeks,
        cancelled_weeks = excluded.cancelled_weeks
"""
_CANDIDATES = """
    SELECT w.* FROM watched_query w
    WHERE (SELECT sum(x) FROM unnest(w.slower_weeks) AS x) >= :duration_ms
        OR (SELECT sum(x) FROM unnest(w.failed_weeks) AS x) >= :failed
        OR (SELECT sum(x) FROM unnest(w.cancelled_weeks) AS x) >= :cancelled
"""
# A typical run of an hour: by ix_execution_comparable
_TYPICAL = """
    SELECT started_at, application_id, attempt_id, execution_id, plan_fingerprint, input_bytes, shuffle_write_bytes
    FROM execution
    WHERE query_shape = :query_shape AND job_name = :job_name AND origin = :origin
        AND started_at >= :start AND started_at < :end AND state = 'succeeded' AND incomplete IS NULL
    ORDER BY abs(duration_ms - :near), started_at LIMIT 1
"""
_DATA_SHARE = 2 / 3
"""As in `joinsight_regressions`: the input must have grown by this share of what the measure grew by."""
_FORGET = (
    "DELETE FROM watched_query WHERE seen_until < :oldest",
    "UPDATE alarm a SET closed_at = :now, outcome = 'gone' WHERE closed_at IS NULL AND NOT EXISTS (SELECT FROM"
    " watched_query w WHERE (w.job_name, w.query_shape, w.origin) = (a.job_name, a.query_shape, a.origin))",
    "DELETE FROM alarm WHERE closed_at < :forgotten",
)
_EDITED = """
    UPDATE alarm SET closed_at = :now, outcome = 'edited'
    WHERE job_name = :job_name AND query_shape = :query_shape AND origin = :origin AND closed_at IS NULL
"""
_KEY_OF_RUN = ("started_at", "application_id", "attempt_id", "execution_id")
_Key = tuple[str, str, str]


def update(engine: Engine, now: datetime) -> int:
    """Take what ran until the last full hour, a day at a time; returns the number of alarms that were raised."""
    end = _time(_hour(now))
    with engine.connect() as connection:
        newest = connection.scalar(text("SELECT max(seen_until) FROM watched_query"))
    start = end - HISTORY if newest is None else max(newest - LATE, end - HISTORY)
    blocked: set[_Key] = set()
    raised = 0
    while start < end:
        until = min(end, _time(_hour(start) // 24 * 24 + 24))
        with engine.begin() as connection:
            connection.execute(text(f"SET LOCAL statement_timeout = '{_TIMEOUT}'"))
            connection.execute(text("LOCK TABLE watched_query IN SHARE ROW EXCLUSIVE MODE"))
            _take(connection, start, until, now, blocked)
            raised += _raise_alarms(connection, until)
        start = until
    with engine.begin() as connection:
        for statement in _FORGET:
            connection.execute(text(statement), {"now": end, "oldest": end - HISTORY, "forgotten": end - KEPT})
    return raised


def _take(connection: Connection, start: datetime, end: datetime, now: datetime, blocked: set[_Key]) -> None:
    """Add the points of some hours to their series, and close alarms that are over."""
    grouped = ((key, list(its)) for key, its in groupby(_rows(connection, POINTS, {"start": start, "end": end}), _key))
    while batch := dict(islice(grouped, _BATCH)):
        _take_batch(connection, batch, now, blocked)


def _take_batch(connection: Connection, batch: Mapping[_Key, Sequence[Row]], now: datetime, blocked: set[_Key]) -> None:
    keys = {name: [key[i] for key in batch] for i, name in enumerate(_KEY)}
    watched = {_key(row): row for row in _rows(connection, _WATCHED, keys)}
    alarms: dict[_Key, list[Row]] = {}
    for row in _rows(connection, _OPEN, keys):
        alarms.setdefault(_key(row), []).append(row)
    room = MOST_SERIES
    if len(watched) < len(batch):
        room -= connection.scalar(text("SELECT count(*) FROM watched_query")) or 0
    changed: list[Row] = []
    for key, points in batch.items():
        if key not in watched:
            if room <= 0:
                continue
            room -= 1
        row = watched[key] if key in watched else _new(connection, key, points[0])
        series, its_alarms = _series(row), alarms.get(key, [])
        if _add(series, points, its_alarms, now, key, blocked):
            changed.append(_row(key, row | {"title": points[-1]["title"] or row["title"]}, series))
            for each in its_alarms:
                _close(connection, each)
    if changed:
        connection.execute(text(_STORE), changed)


def _add(
    series: Series, rows: Sequence[Row], alarms: Sequence[Row], now: datetime, key: _Key, blocked: set[_Key]
) -> bool:
    """Add the points that are new, and mark the alarms that are over; returns whether there were any."""
    is_changed = False
    for row in rows:
        if row["hour"] < series.seen_until or key in blocked:
            continue
        if row["is_running"] and _time(row["hour"]) > now - UNFINISHED:
            blocked.add(key)
            continue
        is_changed = True
        series.add(
            Point(*(row[name] for name in Point.__slots__)), [a["measure"] for a in alarms if not a["closed_at"]]
        )
        for alarm in alarms:
            if not alarm["closed_at"]:
                _mark_over(series, alarm, row["hour"])
    return is_changed


def _mark_over(series: Series, alarm: Row, hour: int) -> None:
    measure, raised, after = alarm["measure"], _hour(alarm["raised_at"]), _time(hour + 1)
    if series.has_recovered(measure, raised, alarm["before"], alarm["after"]):
        alarm |= {"closed_at": after, "outcome": "recovered"}
    elif after - alarm["raised_at"] >= ACCEPTED:
        series.accept(measure, _hour(alarm["since"]))
        alarm |= {"closed_at": after, "outcome": "accepted"}


def _close(connection: Connection, alarm: Row) -> None:
    if alarm["closed_at"]:
        closed = (
            "UPDATE alarm SET closed_at = :closed_at, outcome = :outcome WHERE job_name = :job_name"
            " AND query_shape = :query_shape AND origin = :origin AND measure = :measure AND raised_at = :raised_at"
        )
        connection.execute(text(closed), alarm)


def _new(connection: Connection, key: _Key, first: Row) -> Row:
    """A row for a query that is not known: it continues the one that it replaces, if its title says which."""
    row: Row = {name: [] for name in _POINT_COLUMNS} | {name: [0.0, 0.0, 0.0] for name in _EVIDENCE.values()}
    row |= {"title": first["title"], "seen_until": _EPOCH, "edited_at": None}
    values = dict(zip(_KEY, key, strict=True)) | {"title": first["title"]}
    earliest = _time(first["hour"]) - ACTIVE
    found = _rows(connection, _BEFORE_EDIT, values | {"earliest": earliest}) if first["title"] else []
    if len(found) == 1 and _hour(found[0]["seen_until"]) <= first["hour"]:
        edited_at = _time(first["hour"])
        row |= {name: found[0][name] for name in row if name != "edited_at"} | {"edited_at": edited_at}
        connection.execute(text(_EDITED), {name: found[0][name] for name in _KEY} | {"now": edited_at})
    return row


def _raise_alarms(connection: Connection, until: datetime) -> int:
    """Raise the alarms that are certain over all series; returns their number."""
    counted = text("SELECT count(*) FROM watched_query WHERE seen_until > :since")
    number = len(_EVIDENCE) * (connection.scalar(counted, {"since": until - ACTIVE}) or 0)
    rows = {_key(row): row for row in _rows(connection, _CANDIDATES, LEAST_WEEKS)}
    evidence = {(key, name): sum(rows[key][column]) for key in rows for name, column in _EVIDENCE.items()}
    least = {each: LEAST_WEEKS[each[1]] for each in evidence}
    raised = 0
    for key, measure in certain(evidence, number, least, FALSE_SHARE):
        series = _series(rows[key])
        change = series.change(measure)
        if change is not None:
            _raise(connection, key, rows[key], measure, change, evidence[key, measure])
            reset = f"UPDATE watched_query SET {_EVIDENCE[measure]} = '{{0,0,0}}'"
            where = " WHERE job_name = :job_name AND query_shape = :query_shape AND origin = :origin"
            connection.execute(text(reset + where), dict(zip(_KEY, key, strict=True)))
            raised += 1
    return raised


def _raise(connection: Connection, key: _Key, row: Row, measure: str, change: LevelChange, weeks: float) -> None:
    values = dict(zip(_KEY, key, strict=True))
    before = after = None
    if measure == DURATION:
        points = list(zip(row["hours"], row["durations_ms"], strict=True))
        earlier = [each for each in points if each[0] < change.since_hour]
        later = [each for each in points if each[0] >= change.since_hour]
        before = _typical(connection, values, earlier, change.before)
        after = _typical(connection, values, later, change.after)
    alarm = {
        **values,
        "measure": measure,
        "raised_at": row["seen_until"],
        "title": row["title"],
        "since": _time(change.since_hour),
        "before": change.before,
        "after": change.after,
        "runs": change.points,
        "evidence_weeks": weeks,
        "kind": _kind(row, measure, change, before, after),
        **{f"baseline_{name}": before and before[name] for name in _KEY_OF_RUN},
        **{name: after and after[name] for name in _KEY_OF_RUN},
    }
    columns, parameters = ", ".join(alarm), ", ".join(f":{name}" for name in alarm)
    added = f"INSERT INTO alarm ({columns}) VALUES ({parameters}) ON CONFLICT DO NOTHING"
    connection.execute(text(added), alarm)


def _typical(
    connection: Connection, values: Row, points: Sequence[tuple[int, int]], near: float
) -> Mapping[str, Any] | None:
    """A run that took about so long, in the hour whose median is nearest to it."""
    if not points:
        return None
    hour, _ = min(points, key=lambda each: (abs(each[1] - near), -each[0]))
    found = values | {"start": _time(hour), "end": _time(hour + 1), "near": near}
    rows = _rows(connection, _TYPICAL, found)
    return rows[0] if rows else None


def _kind(
    row: Row, measure: str, change: LevelChange, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> str:
    if measure != DURATION:
        return "failing"
    if row["edited_at"] is not None and abs(row["edited_at"] - _time(change.since_hour)) <= ACTIVE:
        return "edited"
    if before is None or after is None:
        return "same_plan"
    if before["plan_fingerprint"] != after["plan_fingerprint"]:
        return "plan_changed"
    was, now = (each["input_bytes"] or each["shuffle_write_bytes"] or 0 for each in (before, after))
    grew = now / was - 1 if was else 0.0
    return "data_grew" if grew >= _DATA_SHARE * (change.after / change.before - 1) else "same_plan"


def _series(row: Row) -> Series:
    return Series(
        _hour(row["seen_until"]),
        row["hours"],
        row["durations_ms"],
        row["ended_hours"],
        row["outcomes"],
        {measure: tuple(row[column]) for measure, column in _EVIDENCE.items()},
    )


def _row(key: _Key, row: Row, series: Series) -> Row:
    return {
        **dict(zip(_KEY, key, strict=True)),
        "title": row["title"],
        "seen_until": _time(series.seen_until),
        "edited_at": row["edited_at"],
        **{name: getattr(series, name) for name in _POINT_COLUMNS},
        **{column: list(series.evidence[measure]) for measure, column in _EVIDENCE.items()},
    }


def _key(row: Row) -> _Key:
    return row["job_name"], row["query_shape"], row["origin"]


def _rows(connection: Connection, statement: str, values: Mapping[str, Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(text(statement), values).mappings()]


def _hour(time: datetime) -> int:
    return int(time.timestamp() // 3600)


def _time(hour: int) -> datetime:
    return _EPOCH + timedelta(hours=hour)
