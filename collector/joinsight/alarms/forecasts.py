"""Finds the numbers of operators that are on their way to a limit, and stores when they will reach it: once a day.

Only operators that have come some way to their limit in the last days are looked up in the past, by their key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, text
from sqlalchemy.dialects.postgresql import insert

from joinsight.alarms.forecast import HORIZON_DAYS, MOST, forecast
from joinsight.analysis.rows import byte_size, max_broadcast_bytes
from joinsight.tables import EXECUTION_KEY, Row
from joinsight.tables import forecast as table

RECENT = timedelta(days=3)
EACH = timedelta(hours=20)
"""How often they are computed; rows that were not confirmed for a week are deleted."""
KEPT = timedelta(days=7)
MOST_OPERATORS = 500
"""Operators of a kind that are looked up in the past."""
MOST_RUNS = 5000
AVERAGES_FROM = 2001
"""Partitions from which on Spark keeps averages of sizes: spark.shuffle.minNumPartitionsToHighlyCompress."""
NEAR = 0.2
"""Share of the limit from which on a number is looked up."""
_RESERVED_BYTES = 300 << 20
_MEMORY_FRACTION = 0.6
_TIMEOUT = "120s"
_SAME = " AND ".join(f"e.{name} = o.{name}" for name in EXECUTION_KEY)
_SETTINGS = "coalesce(a.configuration, '{}') || coalesce(e.configuration, '{}')"


@dataclass(frozen=True, slots=True)
class _Kind:
    source: str
    """A table or join, as `o`, with the value in it."""
    value: str
    limit: str
    """SQL, NULL where it is not known; or what `limit_of` takes."""
    condition: str
    limit_of: Callable[[Row], float | None] = lambda row: row["limit_value"]


def _most_broadcast(row: Row) -> float | None:
    return max_broadcast_bytes(row["settings"])


def _memory_of_a_task(row: Row) -> float | None:
    """The memory for execution that each task of an executor has if all of its cores are busy."""
    settings: Mapping[str, str] = row["settings"]
    slots = row["slots"]
    name = "spark.driver.memory" if (row["master"] or "").startswith("local") else "spark.executor.memory"
    heap = byte_size(settings.get(name), None)
    try:
        fraction = float(settings.get("spark.memory.fraction", _MEMORY_FRACTION))
        cores = int(settings.get("spark.executor.cores", "0")) or slots
    except ValueError:
        return None
    return (heap - _RESERVED_BYTES) * fraction / cores if heap and cores and heap > _RESERVED_BYTES else None


# The largest peak of a task in the stages that read the shuffles of a join
_JOIN_PEAK = f"""
    joins o CROSS JOIN LATERAL (
        SELECT max(s.peak_memory_bytes) AS peak_bytes, max(s.slots) AS slots
        FROM shuffle x JOIN stage s ON {" AND ".join(f"s.{name} = x.{name}" for name in EXECUTION_KEY)}
            AND s.stage_id = ANY (x.reduce_stages)
        WHERE {" AND ".join(f"x.{name} = o.{name}" for name in EXECUTION_KEY)}
            AND x.node_id IN (o.left_exchange, o.right_exchange)
    ) AS peak
"""
KINDS: Mapping[str, _Kind] = {
    "broadcast_threshold": _Kind(
        "broadcast o",
        "o.shuffled_bytes",
        "CASE WHEN o.threshold_bytes > 0 THEN o.threshold_bytes END",
        "o.outcome = 'succeeded' AND NOT EXISTS (SELECT FROM joins j WHERE j.hint IS NOT NULL AND"
        f" {' AND '.join(f'j.{name} = o.{name}' for name in EXECUTION_KEY)} AND j.node_id = ANY (o.join_nodes))",
    ),
    "broadcast_limit": _Kind("broadcast o", "o.size_bytes", "8589934592", "o.outcome = 'succeeded'", _most_broadcast),
    "join_spill": _Kind(
        _JOIN_PEAK,
        "peak.peak_bytes",
        "1",
        "o.strategy IN ('SortMergeJoin', 'ShuffledHashJoin') AND coalesce(o.spill_bytes, 0) = 0",
        _memory_of_a_task,
    ),
    "shuffle_partitions": _Kind("shuffle o", "o.partitions", str(AVERAGES_FROM), "true"),
}


def _latest(kind: _Kind) -> str:
    slots = "peak.slots" if "peak" in kind.source else "NULL::integer"
    return f"""
        SELECT DISTINCT ON (e.job_name, e.origin, o.operator_key)
            e.job_name, e.origin, e.query_shape, e.title, o.operator_key, o.node_id, {slots} AS slots, a.master,
            {", ".join(f"o.{name}" for name in EXECUTION_KEY)},
            {kind.value} AS value, {kind.limit} AS limit_value, {_SETTINGS} AS settings
        FROM {kind.source} JOIN execution e ON {_SAME}
        JOIN application a ON a.application_id = o.application_id AND a.attempt_id = o.attempt_id
        WHERE o.started_at >= :recent AND e.started_at >= :recent AND o.operator_key IS NOT NULL
            AND e.state = 'succeeded' AND e.incomplete IS NULL
            AND {kind.condition} AND {kind.value} >= :near * {kind.limit}
        ORDER BY e.job_name, e.origin, o.operator_key, o.started_at DESC
        LIMIT :most
    """


def _past(kind: _Kind) -> str:
    return f"""
        SELECT extract(epoch FROM date_trunc('day', r.started_at)) / 86400 AS day, max(r.value)::float8 AS value
        FROM (
            SELECT o.started_at, {kind.value} AS value
            FROM {kind.source} JOIN execution e ON {_SAME}
            WHERE o.operator_key = :operator_key AND o.started_at >= :earliest AND o.started_at < :now
                AND e.started_at >= :earliest
                AND e.job_name = :job_name AND e.origin = :origin AND e.state = 'succeeded' AND {kind.value} > 0
            ORDER BY o.started_at DESC LIMIT {MOST_RUNS}
        ) AS r
        GROUP BY 1 ORDER BY 1 DESC LIMIT {MOST}
    """


LATEST = {name: _latest(kind) for name, kind in KINDS.items()}
PAST = {name: _past(kind) for name, kind in KINDS.items()}


def update(engine: Engine, now: datetime) -> int:
    """Compute and store the forecasts, unless that was done today; returns their number."""
    with engine.begin() as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{_TIMEOUT}'"))
        connection.execute(text("LOCK TABLE forecast IN SHARE ROW EXCLUSIVE MODE"))
        newest = connection.scalar(text("SELECT max(computed_at) FROM forecast"))
        if newest is not None and newest > now - EACH:
            return 0
        found = [row for name in KINDS for row in _of_kind(connection, name, now)]
        for row in found:
            statement = insert(table).values(row)
            changed = {column: statement.excluded[column] for column in row if column != "first_forecast_at"}
            connection.execute(statement.on_conflict_do_update(index_elements=table.primary_key, set_=changed))
        connection.execute(text("DELETE FROM forecast WHERE computed_at < :oldest"), {"oldest": now - KEPT})
    return len(found)


def _of_kind(connection: Connection, name: str, now: datetime) -> list[Row]:
    kind = KINDS[name]
    given = {"recent": now - RECENT, "near": 0.0 if name == "join_spill" else NEAR, "most": MOST_OPERATORS}
    latest = [dict(row) for row in connection.execute(text(LATEST[name]), given).mappings()]
    found = []
    for row in latest:
        limit = kind.limit_of(row)
        if limit is None or not NEAR * limit <= row["value"] < limit:
            continue
        past = {key: row[key] for key in ("operator_key", "job_name", "origin")}
        past |= {"earliest": now - timedelta(days=HORIZON_DAYS), "now": now}
        points = [(float(p.day), p.value) for p in connection.execute(text(PAST[name]), past)][::-1]
        predicted = forecast([day for day, _ in points], [value for _, value in points], limit)
        if predicted is None:
            continue
        same = ("job_name", "origin", "operator_key", "query_shape", "title", "node_id", *EXECUTION_KEY)
        found.append(
            {
                **{column: row[column] for column in same},
                "kind": name,
                "current": float(row["value"]),
                "limit_value": float(limit),
                "days": len(points),
                "growth_a_day": predicted.growth_a_day,
                "reaches_at": row["started_at"] + timedelta(days=predicted.days),
                "earliest_at": row["started_at"] + timedelta(days=predicted.earliest_days),
                "latest_at": None
                if predicted.latest_days is None
                else row["started_at"] + timedelta(days=predicted.latest_days),
                "first_forecast_at": now,
                "computed_at": now,
            }
        )
    return found
