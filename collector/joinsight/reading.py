"""What the commands read: executions, plans, shuffles, broadcasts, joins and deliveries, as PostgreSQL has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    FromClause,
    Select,
    Table,
    and_,
    func,
    literal,
    literal_column,
    select,
    text,
    true,
    tuple_,
)

from joinsight.compare import Run
from joinsight.errors import ConfigurationError, NotFound
from joinsight.findings import SEVERITIES
from joinsight.rows import Row
from joinsight.store.delivery import missing
from joinsight.store.models import (
    EXECUTION_KEY,
    IMPACT,
    SEVERITY_RANK,
    application,
    aqe_decision,
    broadcast,
    delivery,
    execution,
    finding,
    joins,
    node_metric,
    plan_version,
    stage,
)
from joinsight.store.models import shuffle as shuffle_table

Key = tuple[datetime, str, str, int]

KEY_LENGTH = 16
"""Characters of a query's shape, a plan's fingerprint and an operator's key."""

_KEY = re.compile(f"[0-9a-f]{{4,{KEY_LENGTH}}}")

_NS_PER_MS: ColumnElement[int] = literal_column("1000000", BigInteger)  # as in the index, no parameter

_Sorts = Mapping[str, ColumnElement[Any]]

SORTS: Mapping[str, _Sorts] = {
    "queries": {
        "recent": execution.c.started_at.desc(),
        "time": execution.c.duration_ms.desc().nulls_last(),
        "size": execution.c.shuffle_write_bytes.desc().nulls_last(),
        "spill": execution.c.disk_spilled_bytes.desc().nulls_last(),
    },
    "shuffles": {
        "size": shuffle_table.c.bytes_written.desc().nulls_last(),
        "time": (shuffle_table.c.write_time_ns // _NS_PER_MS + shuffle_table.c.fetch_wait_ms).desc().nulls_last(),
        "skew": shuffle_table.c.skew_ratio.desc().nulls_last(),
        "recent": shuffle_table.c.started_at.desc(),
    },
    "broadcasts": {
        "size": broadcast.c.size_bytes.desc().nulls_last(),
        "time": (broadcast.c.collect_ms + broadcast.c.build_ms + broadcast.c.broadcast_ms).desc().nulls_last(),
        "recent": broadcast.c.started_at.desc(),
    },
    "joins": {
        "size": joins.c.output_rows.desc().nulls_last(),
        "time": execution.c.duration_ms.desc().nulls_last(),
        "spill": joins.c.spill_bytes.desc().nulls_last(),
        "recent": joins.c.started_at.desc(),
    },
    "findings": {
        "recent": finding.c.started_at.desc(),
        "severity": literal_column(SEVERITY_RANK, BigInteger).desc().nulls_last(),
        "impact": literal_column(IMPACT, BigInteger).desc().nulls_last(),
    },
}
"""Orders that each command offers; the first is its standard. Each has its index (`models._largest`)."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the reader asked for; empty fields ask for all."""

    application: str | None = None
    """Its id, or its name."""
    job: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: str | None = None
    execution: str | None = None
    shape: str | None = None
    """A `query_shape`, or how it begins."""
    operator: str | None = None
    """An `operator_key`, or how it begins; not for queries."""
    finding: str | None = None
    """A kind of finding; of findings only, like the next."""
    severity: str | None = None
    limit: int = 20


def read_queries(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Executions."""
    asked = _of_execution(filters)
    executions = select(execution).where(*asked, *_within(execution, filters))
    if _few(asked, filters) and sort != "recent":
        executions = select(executions.offset(0).subquery(execution.name))
    return _rows(connection, _first(executions, SORTS["queries"][sort], execution, filters))


def read_shuffles(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Shuffles with their execution's description."""
    return _operators(connection, shuffle_table, filters, SORTS["shuffles"], sort)


def read_broadcasts(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Broadcasts with their execution's description."""
    return _operators(connection, broadcast, filters, SORTS["broadcasts"], sort)


def read_joins(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Joins with their execution's description."""
    return _operators(connection, joins, filters, SORTS["joins"], sort)


def read_findings(connection: Connection, filters: Filters, sort: str) -> list[Row]:
    """Findings with their execution's description."""
    return _operators(connection, finding, filters, SORTS["findings"], sort)


def _operators(connection: Connection, table: Table, filters: Filters, sorts: _Sorts, sort: str) -> list[Row]:
    """Operators, each with its execution's description.

    PostgreSQL takes the columns of the key for independent, expects next to nothing of a join by them, and would read
    everything to sort it. So we say where to begin: with the executions where these are few or give the order, else
    with the operators; the other side is looked up by key. OFFSET 0 keeps PostgreSQL from thinking it over.
    """
    order = sorts[sort]
    by_execution = table is joins and sort == "time"
    own = _within(table, filters)
    if filters.operator is not None:
        own.append(_begins(table.c.operator_key, "--operator", filters.operator))
    if filters.execution is not None:
        key = find_execution(connection, filters.execution)
        own += [table.c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
    own += [table.c[name] == value for name in ("finding", "severity") if (value := getattr(filters, name)) is not None]
    few_operators = filters.operator is not None or filters.execution is not None
    asked = _of_execution(filters)
    few_executions = _few(asked, filters)
    if few_executions or (by_execution and not few_operators):
        executions = select(execution).where(*asked, *_within(execution, filters))
        its: FromClause = (executions.offset(0) if few_executions else executions).subquery(execution.name)
        source: FromClause = select(table).where(_same_execution(table, its), *own).offset(0).lateral(table.name)
        joined = its.join(source, true())
    else:
        operators = select(table).where(*own)
        if few_operators and sort != "recent":
            operators = select(operators.offset(0).subquery(table.name))
        if not asked and not by_execution:  # the first ones are those that are asked for, whatever their execution is
            operators = _first(operators, order, table, filters)
        source = operators.subquery(table.name)
        its = select(execution).where(_same_execution(source, execution), *asked).offset(0).lateral(execution.name)
        joined = source.join(its, true())
    description = (its.c[name] for name in ("job_name", "description", "state", "duration_ms"))
    return _rows(connection, _first(select(source, *description).select_from(joined), order, source, filters))


def _same_execution(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(*(one.c[name] == other.c[name] for name in EXECUTION_KEY))


def _few(asked: list[ColumnElement[bool]], filters: Filters) -> bool:
    """Whether it is fewer executions than PostgreSQL should look for in the order of something else."""
    return len(asked) > (filters.state == "succeeded")


def _of_execution(filters: Filters) -> list[ColumnElement[bool]]:
    """What is asked of executions, beside their time."""
    c = execution.c
    asked: list[ColumnElement[bool]] = []
    if filters.application is not None:
        asked.append(c.application_id.in_(_ids_of(filters.application)))
    if filters.job is not None:
        asked.append(c.job_name == filters.job)
    if filters.state is not None:
        asked.append(c.state == filters.state)
    if filters.shape is not None:
        asked.append(_begins(c.query_shape, "--shape", filters.shape))
    return asked


def _ids_of(named: str) -> CompoundSelect[Any]:
    """The applications with this id or name: no OR, which no index serves."""
    return select(literal(named)).union_all(select(application.c.application_id).where(application.c.name == named))


def _within(source: FromClause, filters: Filters) -> list[ColumnElement[bool]]:
    """Asked of both sides of a join: PostgreSQL concludes from one side to the other only from equality."""
    started = source.c.started_at
    since = [started >= filters.since] if filters.since is not None else []
    return since + ([started < filters.until] if filters.until is not None else [])


def _begins(column: ColumnElement[Any], option: str, text: str) -> ColumnElement[bool]:
    """Whose key is `text`, or begins with it: a range, which an index serves in every collation."""
    if not _KEY.fullmatch(text):
        raise ConfigurationError(option, text, "this is no key", "Write 16 hexadecimal digits, or the first 4 or more.")
    if len(text) == KEY_LENGTH:
        return column == text
    return column.between(text.ljust(KEY_LENGTH, "0"), text.ljust(KEY_LENGTH, "f"))


def _first(statement: Select[Any], order: ColumnElement[Any], source: FromClause, filters: Filters) -> Select[Any]:
    """As many as asked for, in this order; among equals the newest first."""
    tie: list[ColumnElement[Any]] = [source.c[name].desc() for name in EXECUTION_KEY]
    if "node_id" in source.c:
        tie.append(source.c.node_id)
    return statement.order_by(order, *tie).limit(filters.limit)


def _rows(connection: Connection, statement: Select[Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(statement).mappings()]


def find_execution(connection: Connection, text: str, started_at: datetime | None = None) -> Key:
    """The execution that a person means, the newest if several have this name; `started_at` says which one exactly.

    ``last``, ``APPLICATION/ID``, ``APPLICATION/ATTEMPT/ID``, or ``ID``: of the newest application that has it. ``-`` as
    attempt is one without an id. Raises `NotFound`, or `ConfigurationError` for a text of another form.
    """
    c = execution.c
    statement = select(*(c[name] for name in EXECUTION_KEY)).order_by(c.started_at.desc()).limit(1)
    parts = text.split("/")
    if text != "last":
        if len(parts) > 3 or not parts[-1].isdecimal() or len(parts[-1]) > 18 or not all(parts):
            raise ConfigurationError("EXECUTION", text, "this names none", "Write 12, APPLICATION/12 or last.")
        statement = statement.where(c.execution_id == int(parts[-1]))
    if len(parts) > 1:
        statement = statement.where(c.application_id == parts[0])
    if len(parts) > 2:
        statement = statement.where(c.attempt_id == ("" if parts[1] == "-" else parts[1]))
    if started_at is not None:
        statement = statement.where(c.started_at == started_at)
    found = connection.execute(statement).first()
    if found is None:
        raise NotFound(f"There is no execution {text}. `joinsight queries` lists those that are stored.")
    return (found[0], found[1], found[2], found[3])


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """An execution with its plan versions, what AQE decided, all metrics by node and accumulator, and findings."""

    execution: Row
    versions: list[Row]
    decisions: list[Row]
    metrics: list[Row]
    findings: list[Row]
    """The worst first."""

    def version(self, number: int | None) -> Row | None:
        """A plan version, the final one for None; None if the execution has no plan at all."""
        if not self.versions:
            return None
        if number is None:
            return self.versions[-1]
        if not 0 <= number < len(self.versions):
            raise NotFound(f"There is no plan version {number}; the versions are 0 to {len(self.versions) - 1}.")
        return self.versions[number]


def read_plan(connection: Connection, key: Key) -> StoredPlan:
    """All that is stored of one execution's plans."""
    return StoredPlan(
        _of(connection, execution, key)[0],
        _of(connection, plan_version, key),
        _of(connection, aqe_decision, key),
        _of(connection, node_metric, key),
        sorted(_of(connection, finding, key), key=lambda row: SEVERITIES.index(row["severity"])),
    )


def worst_findings(connection: Connection, executions: Sequence[Row]) -> dict[int, str]:
    """The worst severity that was found in each of these executions, by its place among them."""
    keys = {name: [row[name] for row in executions] for name in EXECUTION_KEY}
    worst = text(
        "SELECT place - 1, severity"
        " FROM unnest(CAST(:started_at AS timestamptz[]), CAST(:application_id AS text[]),"
        " CAST(:attempt_id AS text[]), CAST(:execution_id AS bigint[]))"
        " WITH ORDINALITY AS asked(started_at, application_id, attempt_id, execution_id, place)"
        " CROSS JOIN LATERAL (SELECT severity FROM finding AS f WHERE f.started_at = asked.started_at"
        " AND f.application_id = asked.application_id AND f.attempt_id = asked.attempt_id"
        f" AND f.execution_id = asked.execution_id ORDER BY {SEVERITY_RANK} DESC LIMIT 1) AS its"
    )
    return {row[0]: row[1] for row in connection.execute(worst, keys)}


def read_run(connection: Connection, key: Key) -> Run:
    """An execution as it is compared with another."""
    same = [application.c[name] == value for name, value in zip(EXECUTION_KEY[1:3], key[1:3], strict=True)]
    of_application = connection.execute(select(application).where(*same)).mappings().one()
    operators = (_of(connection, table, key) for table in (joins, shuffle_table, broadcast, stage))
    return Run(_of(connection, execution, key)[0], dict(of_application), *operators)


def find_previous(connection: Connection, key: Key) -> Key:
    """The run before this one of the same query in the same job that succeeded and is complete.

    Raises `NotFound` where there is none.
    """
    of = _of(connection, execution, key)[0]
    c = execution.c
    earlier = (
        c.query_shape == of["query_shape"],
        c.job_name == of["job_name"],
        c.started_at <= key[0],
        tuple_(*(c[name] for name in EXECUTION_KEY)) < tuple_(*key),
        c.state == "succeeded",
        c.incomplete.is_(None),
    )
    order = [c[name].desc() for name in EXECUTION_KEY]
    found = connection.execute(select(*(c[name] for name in EXECUTION_KEY)).where(*earlier).order_by(*order).limit(1))
    previous = found.first()
    if previous is None:
        raise NotFound(
            f"There is no earlier complete run of this query in job {of['job_name']}. Name two: joinsight diff A B."
        )
    return (previous[0], previous[1], previous[2], previous[3])


def _of(connection: Connection, table: Table, key: Key) -> list[Row]:
    """The rows of an execution, in the order of their key."""
    where = [table.c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
    return [dict(r) for r in connection.execute(select(table).where(*where).order_by(*table.primary_key)).mappings()]


def read_regressions(
    connection: Connection,
    since: datetime,
    thresholds: Mapping[str, float],
    *,
    job: str | None = None,
    kind: str | None = None,
    limit: int = 20,
) -> list[Row]:
    """Queries and operators whose last runs since then are worse than those before, the most costly first.

    The window begins up to a day earlier where there are baselines of that moment (`joinsight rollup`).
    `thresholds` are arguments of the function `joinsight_regressions`, by name; what is left out has its default there.
    """
    arguments = "".join(f", {name} => :{name}" for name in thresholds)
    regressions = text(
        f"SELECT * FROM joinsight_regressions(joinsight_window(:since){arguments})"
        " WHERE job_name = coalesce(:job, job_name) AND kind = coalesce(:kind, kind)"
        " ORDER BY cost_ms DESC, job_name, query_shape, subject <> 'query', factor DESC NULLS FIRST, operator_key,"
        " measure"
        " LIMIT :limit"
    )
    values = {**thresholds, "since": since, "job": job, "kind": kind, "limit": limit}
    return [dict(row) for row in connection.execute(regressions, values).mappings()]


_LISTENER_KEY = ("application_id", "attempt_id", "listener_id")


def read_deliveries(connection: Connection, named: str | None, since: datetime | None, limit: int) -> list[Row]:
    """What the documents of each listener have come to, the one that was heard last first.

    Each with its application (None where only refused documents of it came), the number of `executions` by state, and
    of `incomplete` ones by the code of the reason (its sentence, where a listener gave no codes).
    """
    d, a = delivery.c, application.c
    statement = (
        select(delivery, a.name, a.state, a.started_at, missing(dict(d), d.documents_made).label("sequences_missing"))
        .outerjoin(application, and_(d.application_id == a.application_id, d.attempt_id == a.attempt_id))
        .order_by(d.last_heard_at.desc(), d.application_id)
        .limit(limit)
    )
    if named is not None:
        statement = statement.where(d.application_id.in_(_ids_of(named)))
    if since is not None:
        statement = statement.where(d.last_heard_at >= since)
    rows = {tuple(row[name] for name in _LISTENER_KEY): dict(row) for row in connection.execute(statement).mappings()}
    for row in rows.values():
        for name in [name for name in row if name.startswith("sequences_")]:
            row[name] = None if row[name] is None else [[each.lower, each.upper - 1] for each in row[name]]
        row["executions"], row["incomplete"] = {}, {}
    key = [execution.c[name] for name in _LISTENER_KEY]
    mine = tuple_(*key).in_(list(rows))
    for *of, state, number in connection.execute(
        select(*key, execution.c.state, func.count()).where(mine).group_by(*key, execution.c.state)
    ):
        rows[tuple(of)]["executions"][state] = number
    reasons_of = func.coalesce(execution.c.incomplete_codes, execution.c.incomplete)
    each = select(*key, func.unnest(reasons_of).label("reason")).where(mine).subquery()
    of_listener = [each.c[name] for name in _LISTENER_KEY]
    reasons = select(*of_listener, each.c.reason, func.count()).group_by(*of_listener, each.c.reason)
    reasons = reasons.order_by(func.count().desc(), each.c.reason)
    for *of, why, number in connection.execute(reasons):
        rows[tuple(of)]["incomplete"][why] = number
    return list(rows.values())
