"""What other executions say about findings: small index lookups in the transaction of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any

from sqlalchemy import Connection, and_, delete, select, text, tuple_
from sqlalchemy.exc import SQLAlchemyError

from joinsight.analysis.parts import MOST_PARTS
from joinsight.analysis.rows import Rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.findings import HEURISTICS
from joinsight.findings.batch import STATE_ROWS, CompletedBatch
from joinsight.tables import (
    EXECUTION_KEY,
    CacheRow,
    ExecutionRow,
    Row,
    as_columns,
    broadcast,
    cache,
    execution,
    finding,
)
from joinsight.tables.views import plan_version

RUNS = 20
"""Maximum earlier runs that count."""
MAX_READ = 100
"""Maximum earlier runs that are read, of any job: a development run must not read the whole history of production."""
BATCHES = 20
"""Maximum micro-batches that are compared with a later one."""
MAX_LOOKUPS = 2_000
"""Lookups of one batch, limited because a plan may have tens of thousands of broadcasts while other batches wait."""


class EarlierRuns:
    """The `History` of `joinsight.findings`, from PostgreSQL."""

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, connection: Connection, batch: Iterable[Rows] = ()) -> None:
        """`batch`: executions that are being written."""
        self._connection = connection
        self._batch: dict[tuple[Any, ...], list[Rows]] = defaultdict(list)
        for rows in batch:
            self._batch[_command(rows.execution)].append(rows)
        self._plans: dict[tuple[Any, ...], list[StoredPlan]] = {}
        self._left = MAX_LOOKUPS

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> Sequence[int]:
        """The rows of a broadcast in the latest runs before `run` that succeeded, the last one first.

        Only runs of the same job and origin, among the last `MAX_READ` of the broadcast. Empty once the batch has made
        `MAX_LOOKUPS` lookups.
        """
        self._left -= 1
        if self._left < 0:
            return ()
        latest = (
            select(broadcast)
            .where(broadcast.c.operator_key == operator_key, broadcast.c.started_at < run.started_at)
            .where(broadcast.c.outcome == "succeeded", broadcast.c.rows.is_not(None))
            .order_by(broadcast.c.started_at.desc())
            .limit(MAX_READ)
            .subquery()
        )
        same = and_(*(execution.c[name] == latest.c[name] for name in EXECUTION_KEY))
        statement = (
            select(latest.c.rows)
            .join(execution, same)
            .where(execution.c.job_name == run.job_name, execution.c.origin == run.origin)
            .order_by(latest.c.started_at.desc())
            .limit(RUNS)
        )
        return [rows for rows in self._connection.scalars(statement) if rows is not None]

    def fills(self, run: ExecutionRow, cache_id: int) -> Sequence[int]:
        """Those of the latest `RUNS` executions that filled it; empty after `MAX_LOOKUPS` lookups."""
        self._left -= 1
        if self._left < 0:
            return ()
        statement = (
            select(cache.c.fill_task_ms)
            .where(cache.c.application_id == run.application_id, cache.c.attempt_id == run.attempt_id)
            .where(cache.c.cache_id == cache_id, cache.c.started_at < run.started_at)
            .where(cache.c.fill_task_ms.is_not(None))
            .order_by(cache.c.started_at.desc())
            .limit(RUNS)
        )
        return [ms for ms in self._connection.scalars(statement) if ms is not None]

    def runs(self, run: ExecutionRow) -> Sequence[Row]:
        """As `earlier_runs`; empty after `MAX_LOOKUPS` lookups."""
        self._left -= 1
        return [] if self._left < 0 else earlier_runs(self._connection, as_columns(run))

    def started(self, run: ExecutionRow) -> Sequence[StoredPlan]:
        """At most `MOST_PARTS` of the batch, and as many that are stored, none of these after `MAX_LOOKUPS` lookups."""
        its = _command(run)
        if its not in self._plans:
            longest = nlargest(MOST_PARTS + 1, self._batch.get(its, ()), lambda rows: rows.execution.duration_ms or 0)
            self._plans[its] = [stored_plan(rows) for rows in longest]  # maybe `run` itself, too
        found = [each for each in self._plans[its] if each.execution["execution_id"] != run.execution_id]
        self._left -= 1
        if self._left < 0:
            return found
        c = execution.c
        latest = run.ended_at or run.started_at
        statement = (
            select(execution)
            .where(*(c[name] == value for name, value in zip(_OF_COMMAND, its, strict=True)))
            .where(c.started_at.between(run.started_at, latest), c.execution_id != run.execution_id)
            .order_by(c.duration_ms.desc().nulls_last(), c.execution_id)
            .limit(MOST_PARTS)
        )
        rows = [dict(row) for row in self._connection.execute(statement).mappings()]
        return found + [StoredPlan(row, self._final_plan(row), [], [], [], [], [], [], [], []) for row in rows]

    def _final_plan(self, row: Row) -> list[Row]:
        c = plan_version.c
        statement = select(plan_version).where(*(c[name] == row[name] for name in EXECUTION_KEY), c.is_final)
        return [dict(each) for each in self._connection.execute(statement).mappings()]

    def batches(self, run: ExecutionRow) -> Sequence[CompletedBatch]:
        """The last micro-batches before `run`, the latest first; empty after `MAX_LOOKUPS` lookups."""
        self._left -= 1
        if self._left < 0 or run.streaming_run_id is None:
            return ()
        its = {name: getattr(run, name) for name in _OF_RUN}
        return [
            CompletedBatch(
                row["started_at"],
                row["duration_ms"],
                row["task_time_ms"] or 0,
                row["state_rows"],
                {key: (left, right) for key, left, right in row["sides"] or ()},
                dict(row["made_ms"] or ()),
            )
            for row in self._connection.execute(_BATCHES, {**its, "state": STATE_ROWS, "limit": BATCHES}).mappings()
        ]


_MOST_COMPARED = 9
"""Earlier runs with whose CPU time a run is compared."""


def earlier_runs(connection: Connection, run: Mapping[str, Any]) -> list[Row]:
    """The latest complete runs of the same query in the same job and origin before this one."""
    if run["query_shape"] is None:
        return []
    statement = text(
        "SELECT e.application_id, e.duration_ms, e.plan_fingerprint, s.run_time_ms, s.cpu_time_ms, s.waited_ms,"
        " s.input_rows FROM ("
        " SELECT e.started_at, e.application_id, e.attempt_id, e.execution_id, e.duration_ms, e.plan_fingerprint"
        " FROM execution e"
        " WHERE e.query_shape = :query_shape AND e.job_name = :job_name AND e.origin = :origin"
        " AND e.started_at < :started_at AND e.state = 'succeeded' AND e.incomplete IS NULL"
        " ORDER BY e.started_at DESC LIMIT :most) AS e"
        " CROSS JOIN LATERAL (SELECT sum(s.run_time_ms)::bigint AS run_time_ms,"
        " (sum(s.cpu_time_ns) / 1000000)::bigint AS cpu_time_ms, sum(s.input_rows)::bigint AS input_rows,"
        " sum(greatest(0, s.run_time_ms - s.gc_time_ms - s.shuffle_fetch_wait_ms"
        " - (s.cpu_time_ns + s.shuffle_write_time_ns) / 1000000))::bigint AS waited_ms FROM stage s"
        " WHERE s.started_at = e.started_at AND s.application_id = e.application_id"
        " AND s.attempt_id = e.attempt_id AND s.execution_id = e.execution_id) AS s"
        " ORDER BY e.started_at DESC"
    )
    values = {name: run[name] for name in ("query_shape", "job_name", "origin", "started_at")}
    return [dict(row) for row in connection.execute(statement, {**values, "most": _MOST_COMPARED}).mappings()]


_OF_COMMAND = ("application_id", "attempt_id", "root_execution_id")


def _command(row: ExecutionRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _OF_COMMAND)


_OF_RUN = ("started_at", "application_id", "attempt_id", "query_shape", "streaming_run_id", "streaming_batch_id")
# The index of query_shape finds the executions that do the work; the outer one of each started at most a day before
_BATCHES = text("""
    WITH work AS (
        SELECT started_at, application_id, attempt_id, execution_id, root_execution_id, task_time_ms
        FROM execution
        WHERE query_shape = :query_shape AND started_at < :started_at
            AND application_id = :application_id AND attempt_id = :attempt_id
            AND streaming_run_id = :streaming_run_id AND streaming_batch_id < :streaming_batch_id
            AND state = 'succeeded' AND NOT is_outer
        ORDER BY started_at DESC LIMIT :limit
    )
    SELECT r.started_at, r.duration_ms, w.task_time_ms, kept.state_rows, joined.sides, made.made_ms
    FROM work w
    JOIN execution r ON r.application_id = w.application_id AND r.attempt_id = w.attempt_id
        AND r.execution_id = w.root_execution_id
        AND r.started_at BETWEEN w.started_at - interval '1 day' AND w.started_at AND r.duration_ms IS NOT NULL
    CROSS JOIN LATERAL (
        SELECT sum(total)::bigint AS state_rows FROM node_metric m
        WHERE (m.started_at, m.application_id, m.attempt_id, m.execution_id)
            = (w.started_at, w.application_id, w.attempt_id, w.execution_id) AND m.node_id >= 0 AND m.name = :state
    ) AS kept
    CROSS JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_array(j.operator_key, j.left_rows, j.right_rows)) AS sides FROM joins j
        WHERE (j.started_at, j.application_id, j.attempt_id, j.execution_id)
            = (w.started_at, w.application_id, w.attempt_id, w.execution_id)
    ) AS joined
    CROSS JOIN LATERAL (
        SELECT jsonb_agg(jsonb_build_array(x.operator_key, x.ms)) AS made_ms FROM (
            SELECT e.operator_key, sum(s.end_ms - s.start_ms)::bigint AS ms
            FROM (
                SELECT operator_key, node_id FROM shuffle
                WHERE (started_at, application_id, attempt_id, execution_id)
                    = (w.started_at, w.application_id, w.attempt_id, w.execution_id)
                UNION ALL
                SELECT operator_key, node_id FROM broadcast
                WHERE (started_at, application_id, attempt_id, execution_id)
                    = (w.started_at, w.application_id, w.attempt_id, w.execution_id)
            ) AS e
            JOIN segment s ON (s.started_at, s.application_id, s.attempt_id, s.execution_id, s.node_id)
                = (w.started_at, w.application_id, w.attempt_id, w.execution_id, e.node_id)
            GROUP BY e.operator_key
        ) AS x
    ) AS made
    ORDER BY r.started_at DESC
""")

_OF_ONLY_READERS = [each.id for each in HEURISTICS if each.while_only_reader]


def remove_refuted(connection: Connection, stored: Iterable[CacheRow]) -> None:
    """Remove findings that hold only while one execution uses a cached table, where another uses it.

    `stored` are the uses of cached tables in a batch, which is in the tables. Either execution may arrive first.
    """
    used = sorted({(row.application_id, row.attempt_id, row.cache_id) for row in stored})
    if not used:
        return
    filled, other = cache.alias("filled"), cache.alias("other")
    same = ("application_id", "attempt_id", "cache_id")
    connection.execute(
        delete(finding)
        .where(finding.c.finding.in_(_OF_ONLY_READERS), finding.c.node_id == filled.c.node_id)
        .where(*(finding.c[name] == filled.c[name] for name in EXECUTION_KEY))
        .where(*(filled.c[name] == other.c[name] for name in same), filled.c.execution_id != other.c.execution_id)
        .where(tuple_(*(filled.c[name] for name in same)).in_(used))
    )
