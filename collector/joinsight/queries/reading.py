"""The queries of commands and pages: executions, plans, shuffles, broadcasts, joins, findings and deliveries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from itertools import takewhile
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    and_,
    column,
    func,
    literal_column,
    or_,
    select,
    text,
    true,
    tuple_,
)

from joinsight.analysis.comparison import Run
from joinsight.analysis.stored import StoredPlan, uses_of
from joinsight.analysis.table_formats import READS_LOG, reads_log
from joinsight.analysis.title import is_bare_command, title_of_command
from joinsight.base.errors import ConfigurationError, NotFound
from joinsight.base.severity import rank
from joinsight.contract.accepted_advice import SETTING, of_setting
from joinsight.contract.document import MAX_LONG
from joinsight.queries.filters import FILTERS, SORTS, Filters, Of, Sort, ids_of, is_of_application
from joinsight.store.delivery import missing
from joinsight.tables import (
    DURATION,
    EXECUTION_KEY,
    IMPACT,
    SEVERITY_RANK,
    Row,
    alarm,
    application,
    aqe_decision,
    broadcast,
    cache,
    delivery,
    execution,
    finding,
    forecast,
    has_work,
    is_part,
    joins,
    owner,
    stage,
)
from joinsight.tables import shuffle as shuffle_table
from joinsight.tables.views import node_metric, plan_version, segment, task_time, v_finding_groups, v_regressions

Key = tuple[datetime, str, str, int]


EMPTY = (
    "No executions are stored yet. `joinsight demo` runs an example, `joinsight listener-jar --conf` prints the options"
    " that attach the listener to your jobs, and `joinsight backfill` imports event logs."
)


_NONE_WITH_WORK = "No stored execution did work of its own. `joinsight queries --show all` lists them."


@dataclass(frozen=True, slots=True)
class Cursor:
    """A row of a sorted list of executions, next to which a page of it ends: by its value and key."""

    value: Any
    """The value of the column that the list is sorted by."""
    key: Key
    is_before: bool = False
    """Whether the page is before the row, not after it."""

    def condition(self, sort: Sort) -> ColumnElement[bool]:
        """Whether a row is on that side of it."""
        started_at, key = execution.c.started_at, tuple_(*(execution.c[name] for name in EXECUTION_KEY))
        if self.is_before:
            follows = and_(started_at >= self.key[0], key > self.key)
        else:
            follows = and_(started_at <= self.key[0], key < self.key)
        if not sort.is_nullable:
            return follows
        column = sort.column
        if self.value is None:
            same = and_(column.is_(None), follows)
            return or_(column.is_not(None), same) if self.is_before else same
        same = and_(column == self.value, follows)
        return or_(column > self.value, same) if self.is_before else or_(column < self.value, same, column.is_(None))


def cursor_at(row: Row, sort: str, *, is_before: bool = False) -> Cursor:
    """The cursor at this row of a list of executions."""
    by = SORTS["queries"][sort]
    key = (row["started_at"], row["application_id"], row["attempt_id"], row["execution_id"])
    return Cursor(row[by.column.name] if by.is_nullable else None, key, is_before)


def read_queries(connection: Connection, filters: Filters, sort: str, cursor: Cursor | None = None) -> list[Row]:
    """Executions that match the filters, sorted and limited; next to the cursor's row, if any."""
    rows = _rows(connection, _queries(filters, sort, cursor))
    _complete_titles(connection, rows)
    return rows[::-1] if cursor is not None and cursor.is_before else rows


def _complete_titles(connection: Connection, rows: Iterable[Row]) -> None:
    """Add to titles of commands of which Spark prints only the name, ``save as table``, what they ran the longest."""
    for row in rows:
        only_started = row["nested"] and not row["jobs"]
        if only_started and is_bare_command(row["title"]) and row["title"] not in row["description"]:
            c, until = execution.c, row["ended_at"] or row["started_at"] + _LONGEST_COMMAND
            statement = (
                select(c.title)
                .where(*(c[name] == row[name] for name in ("application_id", "attempt_id", "root_execution_id")))
                .where(c.started_at >= row["started_at"], c.started_at <= until, c.jobs > 0, c.title.is_not(None))
                .order_by(c.duration_ms.desc().nulls_last(), c.execution_id)
            )
            row["title"] = title_of_command(row["title"], connection.scalar(statement.limit(1)))


def read_list(connection: Connection, name: str, filters: Filters, sort: str) -> list[Row]:
    """The rows of a list of `filters.LISTS`, operators and findings with their execution's title and description.

    A finding has the title as `query_title`. `finding_groups`: see `read_finding_groups`.
    """
    rows = _rows(connection, _list(connection, name, filters, sort))
    if name == "queries":
        _complete_titles(connection, rows)
    return rows


def count(connection: Connection, name: str, filters: Filters, sort: str, most: int) -> int:
    """The number of rows that a list has without its limit, `most` at most: counting all of a history takes long."""
    statement = _list(connection, name, replace(filters, limit=most), sort)
    rows = statement.with_only_columns(literal_column("1"), maintain_column_froms=True).subquery()
    return connection.scalar(select(func.count()).select_from(rows)) or 0


MOST_CHECKED = 10_000
"""No more are counted by `read_checked`."""


def read_checked(connection: Connection, filters: Filters) -> tuple[int, StoredPlan | None]:
    """The number of executions with work that match the filters, and the longest of them: of those without findings,
    the nearest to one.
    """
    number = count(connection, "queries", filters, "recent", MOST_CHECKED)
    longest = read_queries(connection, replace(filters, limit=1), "time") if number else []
    if not longest or longest[0]["duration_ms"] is None:
        return number, None
    key = tuple(longest[0][name] for name in EXECUTION_KEY)
    return number, read_plan(connection, (key[0], key[1], key[2], key[3]))


MOST_HIDDEN = 1_000
"""No more are counted by `count_hidden`."""


def count_hidden(connection: Connection, filters: Filters, start: Cursor | None, end: Cursor | None) -> int:
    """The number of executions without work of their own that a list in the order ``recent`` leaves out.

    Between these cursors, if any: to reach its end, the list has read them all.
    """
    if filters.show == "all":
        return 0
    by = SORTS["queries"]["recent"]
    bounds = (cursor.condition(by) for cursor in (start, end) if cursor is not None)
    hidden: Select[Any] = (
        select(literal_column("1"))
        .select_from(execution)
        .where(~has_work(execution), ~is_part(execution), *filters.of_execution(execution), *bounds)
    )
    return connection.scalar(select(func.count()).select_from(hidden.limit(MOST_HIDDEN).subquery())) or 0


def is_empty(connection: Connection) -> bool:
    """Whether no execution is stored."""
    return connection.execute(select(execution.c.started_at).limit(1)).first() is None


_TABLES = {"shuffles": shuffle_table, "broadcasts": broadcast, "joins": joins, "findings": finding}


def _list(connection: Connection, name: str, filters: Filters, sort: str) -> Select[Any]:
    if name == "queries":
        return _queries(filters, sort)
    if name == "finding_groups":
        return _finding_groups(filters, sort)
    return _operators(connection, _TABLES[name], filters, SORTS[name], sort)


def _queries(filters: Filters, sort: str, cursor: Cursor | None = None) -> Select[Any]:
    """Executions; those before a cursor in reverse order."""
    executions, by = _executions(filters), SORTS["queries"][sort]
    listed = has_work if _shows_parts(filters, sort) else _is_asked_for
    if filters.show == "all":
        executions, listed = select(execution).where(*filters.of_execution(execution)), lambda executions: true()
    if cursor is not None:
        executions = executions.where(cursor.condition(by))

    def ordered(statement: Select[Any]) -> Select[Any]:
        if cursor is None or not cursor.is_before:
            return statement.order_by(by.order, *(execution.c[name].desc() for name in EXECUTION_KEY))
        return statement.order_by(by.reverse, *(execution.c[name].asc() for name in EXECUTION_KEY))

    if filters.is_selective(Of.EXECUTION) and sort != "recent":  # sort the keys, then look up as many rows as are shown
        keys = ordered(executions).offset(0).subquery(execution.name)
        run = execution.alias("run")
        row = select(run).where(_same_execution(run, keys), listed(run)).offset(0).lateral("row")
        return ordered(select(row).select_from(keys.join(row, true()))).limit(filters.limit)
    return ordered(executions.where(listed(execution))).limit(filters.limit)


def _is_asked_for(executions: FromClause) -> ColumnElement[bool]:
    """Whether it has work that a user asked for: no other execution started it, nor Delta Lake to read its log."""
    c = executions.c
    of_delta = c.description.regexp_match(READS_LOG) & (c.state == "succeeded")
    return has_work(executions) & ~is_part(executions) & ~of_delta


def _shows_parts(filters: Filters, sort: str) -> bool:
    """Whether what an execution started is listed next to it.

    It is where something is looked for that the outer one does not have: words, a query's key, bytes.
    """
    return filters.show == "nested" or any([filters.root, filters.shape, filters.search]) or sort in ("size", "spill")


FINDING_DAYS = 30
"""Days that the groups of findings cover by default, as in the view."""
UNGROUPED_FILTERS = ("execution", "application", "user", "session", "tag", "state")
"""The filters that select single executions, which groups of findings do not have."""
_WALL_MS: ColumnElement[Any] = literal_column("wall_ms").desc().nulls_last()
_IMPACT: ColumnElement[Any] = literal_column(IMPACT).desc().nulls_last()
_GROUP_ORDERS: Mapping[str, Sequence[ColumnElement[Any]]] = {
    "severity": (literal_column(SEVERITY_RANK).desc(), _WALL_MS, _IMPACT),
    "cost": (_WALL_MS, literal_column(SEVERITY_RANK).desc(), _IMPACT),
    "impact": (_IMPACT, literal_column(SEVERITY_RANK).desc()),
    "recent": (),
}


def read_finding_groups(connection: Connection, filters: Filters, sort: str = "severity") -> list[Row]:
    """Findings by job, query, kind and operator: the columns of `v_finding_groups`.

    Those of `finding_since` on unless `filters.since` is set. `UNGROUPED_FILTERS` have no effect.
    """
    return read_list(connection, "finding_groups", filters, sort)


def _finding_groups(filters: Filters, sort: str) -> Select[Any]:
    times = [filters.since or finding_since(datetime.now(timezone.utc))]
    if filters.until is not None:
        times.append(filters.until)
    columns = (column(each.name, each.type) for each in v_finding_groups.columns)
    groups = func.joinsight_finding_groups(*times).table_valued(*columns)
    asked = {
        name: value
        for of in (Of.EXECUTION, Of.OPERATOR)
        for name, value in filters.given(of).items()
        if name not in UNGROUPED_FILTERS
    }
    conditions = [
        condition(groups, value) for name, value in asked.items() if (condition := FILTERS[name].condition) is not None
    ]
    tie = [groups.c[name] for name in ("job_name", "query_shape", "finding", "operator_key")]
    statement = select(groups).where(*conditions)
    statement = statement.order_by(*_GROUP_ORDERS[sort], groups.c.started_at.desc(), *tie)
    return statement.limit(filters.limit)


def read_streams(
    connection: Connection,
    since: datetime,
    until: datetime | None = None,
    *,
    job: str | None = None,
    limit: int = 20,
) -> list[Row]:
    """Runs of streaming queries over the micro-batches in a time: the columns of `v_streams`, the latest first."""
    statement = text(
        "SELECT * FROM joinsight_streams(:since, coalesce(:until, 'infinity'::timestamptz))"
        " WHERE job_name = coalesce(:job, job_name) ORDER BY last_batch_at DESC, streaming_run_id LIMIT :limit"
    )
    values = {"since": since, "until": until, "job": job, "limit": limit}
    return [dict(row) for row in connection.execute(statement, values).mappings()]


def finding_since(now: datetime) -> datetime:
    """The start of the time that groups of findings cover by default."""
    return now - timedelta(days=FINDING_DAYS)


def _executions(filters: Filters) -> Select[Any]:
    return select(execution).where(~execution.c.is_outer, *filters.of_execution(execution))


def _operators(
    connection: Connection, table: Table, filters: Filters, sorts: Mapping[str, Sort], sort: str
) -> Select[Any]:
    """Operators, each with its execution's title and description.

    PostgreSQL assumes that the columns of the key are independent, expects almost no rows of a join by them, and would
    read everything to sort it. So the query fixes the order: it begins with the executions where these are few or give
    the order, else with the operators, and looks up the other side by key. OFFSET 0 keeps PostgreSQL from reordering.
    """
    orders = sorts[sort].orders
    by_execution = table is joins and sort == "time"
    on_operator = [*filters.conditions(Of.BOTH, table), *filters.conditions(Of.OPERATOR, table)]
    if filters.execution is not None:
        key = find_execution(connection, filters.execution)
        on_operator += [table.c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
    few_operators, few_executions = filters.is_selective(Of.OPERATOR), filters.is_selective(Of.EXECUTION)
    if by_execution and not few_operators and not few_executions:
        its: FromClause = _executions(filters).subquery(execution.name)
        source: FromClause = _operators_of(its, table, on_operator)
        joined = its.join(source, true())
    else:
        on_execution = filters.conditions(Of.EXECUTION, execution)
        of: FromClause = table
        first = orders
        operators = select(table).where(*on_operator)
        if few_executions:
            keys = _executions(filters)
            if by_execution or sort == "recent":  # look-ups then end with the limit
                first = orders if by_execution else [execution.c.started_at.desc()]
                keys = keys.order_by(*first)
            found = keys.offset(0).subquery(execution.name)
            of = _operators_of(found, table, on_operator)
            operators, on_execution = select(of).select_from(found.join(of, true())), []
        elif few_operators and sort != "recent":
            operators = select(operators.offset(0).subquery(table.name))
        if not on_execution and (few_executions or not by_execution):  # the limit then applies before the join
            operators = _page(operators, first, of, filters)
        if few_executions and first is orders and not by_execution and table is not finding:
            operators = _by_ids(operators, table)
        source = operators.subquery(table.name)
        its = (
            select(execution).where(_same_execution(source, execution), *on_execution).offset(0).lateral(execution.name)
        )
        joined = source.join(its, true())
    title = its.c.title.label("query_title") if "title" in source.c else its.c.title
    described = [title, *(its.c[name] for name in ("job_name", "description", "state", "duration_ms"))]
    return _page(select(source, *described).select_from(joined), orders, source, filters)


def _operators_of(executions: FromClause, table: Table, conditions: Sequence[ColumnElement[bool]]) -> FromClause:
    """Operators, looked up for each of these executions."""
    return select(table).where(_same_execution(table, executions), *conditions).offset(0).lateral(table.name)


def _by_ids(keys: Select[Any], table: Table) -> Select[Any]:
    """The rows of a table that have these keys. PostgreSQL then needs only indexes for what the keys are chosen from:
    to read the rows of 80,000 executions takes longest.
    """
    found = keys.subquery("found")
    same = (table.c[column.name] == found.c[column.name] for column in table.primary_key)
    row = select(table).where(*same).offset(0).lateral(table.name)
    return select(row).select_from(found.join(row, true()))


def _same_execution(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(*(one.c[name] == other.c[name] for name in EXECUTION_KEY))


def _page(
    statement: Select[Any], orders: Sequence[ColumnElement[Any]], source: FromClause, filters: Filters
) -> Select[Any]:
    """The statement in these orders, ties with the newest first, and the filters' limit."""
    tie: list[ColumnElement[Any]] = [source.c[name].desc() for name in EXECUTION_KEY]
    if "node_id" in source.c:
        tie.append(source.c.node_id)
    return statement.order_by(*orders, *tie).limit(filters.limit)


def _rows(connection: Connection, statement: Select[Any]) -> list[Row]:
    return [dict(row) for row in connection.execute(statement).mappings()]


def find_execution(connection: Connection, text: str, started_at: datetime | None = None) -> Key:
    """The key of the execution with this name, the newest if several have it; `started_at` selects one exactly.

    ``last``, ``APPLICATION/ID``, ``APPLICATION/ATTEMPT/ID``, or ``ID`` of the newest application that has it. ``-`` or
    nothing as attempt is the empty one. Raises `NotFound`, or `ConfigurationError` for a text of another form.
    """
    c = execution.c
    statement = select(*(c[name] for name in EXECUTION_KEY)).order_by(c.started_at.desc()).limit(1)
    if text == "last":
        statement = statement.where(has_work(execution), ~is_part(execution))
    else:
        name, slash, number = text.rpartition("/")
        if not re.fullmatch("[0-9]{1,19}", number) or int(number) > MAX_LONG or (slash and not name):
            raise ConfigurationError("EXECUTION", text, "not a valid execution id", "Write 12, APPLICATION/12 or last.")
        statement = statement.where(c.execution_id == int(number), is_of_application(execution, name))
    if started_at is not None:
        statement = statement.where(c.started_at == started_at)
    found = connection.execute(statement).first()
    if found is None:
        if text != "last":
            raise NotFound(f"No execution {text}. `joinsight queries` lists the stored ones.")
        raise NotFound(EMPTY if is_empty(connection) else _NONE_WITH_WORK)
    return (found[0], found[1], found[2], found[3])


_RANKED_BY = ("severity", "wall_ms", "impact_ms", "impact_bytes")


def _worst_first(findings: Iterable[Row]) -> list[Row]:
    return sorted(findings, key=lambda row: rank(*(row[name] for name in _RANKED_BY)))


def read_plan(connection: Connection, key: Key) -> StoredPlan:
    """An execution's plans, and those of the executions that it started; the execution must exist."""
    stored = _read_plan(connection, key)
    row = stored.execution
    stored = replace(stored, before=_read_before(connection, row))
    if not any(each["nested_execution_id"] is not None for each in stored.segments):
        return stored
    c = execution.c
    same = [c[name] == row[name] for name in ("application_id", "attempt_id")]
    is_inner = c.execution_id.not_in([row["execution_id"], row["root_execution_id"]]) & ~c.is_outer
    inner = (c.root_execution_id == row["root_execution_id"]) & is_inner
    until = row["ended_at"] or row["started_at"] + _LONGEST_COMMAND
    started = (c.started_at >= row["started_at"]) & (c.started_at <= until)
    keys = connection.execute(
        select(*(c[name] for name in EXECUTION_KEY))
        .where(*same, inner, started)
        .order_by(c.duration_ms.desc().nulls_last(), c.execution_id)
        .limit(_NESTED)
    )
    return replace(stored, nested=[_read_plan(connection, (k[0], k[1], k[2], k[3])) for k in sorted(map(tuple, keys))])


def _read_before(connection: Connection, row: Row) -> list[Row]:
    """What was run for an execution before it began: by Delta Lake, or as a part of its planning."""
    if row["root_execution_id"] != row["execution_id"]:
        return []
    c = execution.c
    same = [c[name] == row[name] for name in ("application_id", "attempt_id")]
    number = row["execution_id"]
    near = c.execution_id.between(number - _BEFORE, min(number + _BEFORE, MAX_LONG)) & (c.execution_id != number)
    earlier = (c.started_at < row["started_at"]) & (c.started_at >= row["started_at"] - _LONGEST_PLANNING)
    columns = [c[name] for name in (*EXECUTION_KEY, "root_execution_id", "duration_ms", "description", "state")]
    statement = select(*columns).where(*same, near, earlier).order_by(c.started_at.desc(), c.execution_id.desc())
    rows = _rows(connection, statement)
    parts = [each for each in rows if each["root_execution_id"] == number]
    others = (each for each in rows if each["root_execution_id"] == each["execution_id"])
    return [*parts, *takewhile(lambda each: reads_log(each["description"]), others)]


def _read_plan(connection: Connection, key: Key) -> StoredPlan:
    row = _by_key(connection, execution, key)[0]
    _complete_titles(connection, [row])
    version, slots, settings = _application(connection, key)
    return StoredPlan(
        row,
        _by_key(connection, plan_version, key),
        _by_key(connection, aqe_decision, key),
        _by_key(connection, node_metric, key),
        _worst_first(_by_key(connection, finding, key)),
        _by_key(connection, segment, key),
        _by_key(connection, task_time, key),
        _by_key(connection, stage, key),
        _by_key(connection, shuffle_table, key),
        _with_uses(connection, _by_key(connection, cache, key)),
        slots,
        _earlier(connection, row),
        version,
        of_setting(settings.get(SETTING)),
        settings,
    )


_BEFORE, _LONGEST_PLANNING = 50, timedelta(hours=1)
"""Among how many executions next to one, by id, and since when, those are looked for that ran for it before."""
_NESTED = 20
"""Executions that a command started of which it is shown what they did: the longest."""
_LONGEST_COMMAND = timedelta(days=31)
_LOCAL = re.compile(r"local\[([0-9]{1,6})(?:,\s*\d+)?\]")
_NUMBER = re.compile("[0-9]{1,6}")
_MOST_EARLIER = 9


def _application(connection: Connection, key: Key) -> tuple[str | None, int | None, Mapping[str, str]]:
    """Spark's version, how many tasks the application can run at once, as far as its settings tell, and these."""
    same = [application.c[name] == value for name, value in zip(EXECUTION_KEY[1:3], key[1:3], strict=True)]
    c = application.c
    row = connection.execute(select(c.spark_version, c.master, c.configuration).where(*same)).first()
    return (None, None, {}) if row is None else (row[0], _slots(row[1], row[2] or {}), row[2] or {})


def _slots(master: str | None, configuration: Mapping[str, str]) -> int | None:
    local = _LOCAL.fullmatch(master or "")
    if local:
        return int(local[1])
    known = [str(configuration.get(name, "")) for name in ("spark.executor.instances", "spark.executor.cores")]
    return int(known[0]) * int(known[1]) if all(map(_NUMBER.fullmatch, known)) else None


def _earlier(connection: Connection, run: Row) -> list[Row]:
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
    return [dict(row) for row in connection.execute(statement, {**values, "most": _MOST_EARLIER}).mappings()]


def _with_uses(connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """Cached tables of an execution, with how the executions of its application use each."""
    if not rows:
        return []
    same = [cache.c[name] == rows[0][name] for name in ("application_id", "attempt_id")]
    same.append(cache.c.cache_id.in_([row["cache_id"] for row in rows]))
    uses: defaultdict[int, list[Row]] = defaultdict(list)
    for use in _rows(connection, select(cache).where(*same).order_by(*cache.primary_key)):
        uses[use["cache_id"]].append(use)
    return [{**row, **uses_of(uses[row["cache_id"]])} for row in rows]


def worst_findings(connection: Connection, executions: Sequence[Row]) -> dict[int, str]:
    """The worst severity of each execution with findings, by its index in `executions`."""
    keys = {name: [row[name] for row in executions] for name in EXECUTION_KEY}
    worst = text(
        "SELECT position - 1, severity"
        " FROM unnest(CAST(:started_at AS timestamptz[]), CAST(:application_id AS text[]),"
        " CAST(:attempt_id AS text[]), CAST(:execution_id AS bigint[]))"
        " WITH ORDINALITY AS listed(started_at, application_id, attempt_id, execution_id, position)"
        " CROSS JOIN LATERAL (SELECT severity FROM finding AS f WHERE f.started_at = listed.started_at"
        " AND f.application_id = listed.application_id AND f.attempt_id = listed.attempt_id"
        f" AND f.execution_id = listed.execution_id ORDER BY {SEVERITY_RANK} DESC LIMIT 1) AS its"
    )
    return {row[0]: row[1] for row in connection.execute(worst, keys)}


def read_run(connection: Connection, key: Key) -> Run:
    """An execution's rows for `compare`."""
    same = [application.c[name] == value for name, value in zip(EXECUTION_KEY[1:3], key[1:3], strict=True)]
    of_application = connection.execute(select(application).where(*same)).mappings().one()
    operators = (_by_key(connection, table, key) for table in (joins, shuffle_table, broadcast, stage))
    return Run(_by_key(connection, execution, key)[0], dict(of_application), *operators)


def find_previous(connection: Connection, key: Key) -> Key:
    """The last earlier run of the same query in the same job that succeeded and is complete.

    Raises `NotFound` if there is none.
    """
    return _previous(connection, key, 1)[0][0]


def find_typical(connection: Connection, key: Key) -> Key:
    """The run of median duration among the latest nine before it that `find_previous` could find.

    Raises `NotFound` if there is none.
    """
    runs = sorted(_previous(connection, key, _MOST_EARLIER), key=lambda run: run[1])
    return runs[(len(runs) - 1) // 2][0]


def _previous(connection: Connection, key: Key, most: int) -> list[tuple[Key, int]]:
    """The latest earlier runs with their durations, the last one first; raises `NotFound` if there is none."""
    run = _by_key(connection, execution, key)[0]
    c = execution.c
    earlier = (
        c.query_shape == run["query_shape"],
        c.job_name == run["job_name"],
        c.started_at <= key[0],
        tuple_(*(c[name] for name in EXECUTION_KEY)) < tuple_(*key),
        c.state == "succeeded",
        c.incomplete.is_(None),
    )
    keys = [c[name] for name in EXECUTION_KEY]
    order = [each.desc() for each in keys]
    found = connection.execute(select(*keys, c.duration_ms).where(*earlier).order_by(*order).limit(most)).all()
    if not found:
        raise NotFound(f"No earlier complete run of this query in job {run['job_name']}. Name two runs.")
    return [((row[0], row[1], row[2], row[3]), row[4]) for row in found]


def _by_key(connection: Connection, table: Table, key: Key) -> list[Row]:
    """The rows of an execution in a table, in the order of their key."""
    where = [table.c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
    return [dict(r) for r in connection.execute(select(table).where(*where).order_by(*table.primary_key)).mappings()]


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
    return _with_certain(suspected, read_alarms(connection, job=job, shape=shape), kind)[:limit]


def read_alarms(connection: Connection, *, job: str | None = None, shape: str | None = None) -> list[Row]:
    """The certain regressions that are not over, the latest first."""
    c = alarm.c
    statement = select(alarm).where(c.closed_at.is_(None)).order_by(c.raised_at.desc(), *alarm.primary_key)
    if job is not None:
        statement = statement.where(c.job_name == job)
    if shape is not None:
        statement = statement.where(c.query_shape == shape)
    return _rows(connection, statement.limit(_MOST_ALARMS))


def read_forecasts(connection: Connection, *, job: str | None = None, limit: int = 100) -> list[Row]:
    """What will reach its limit, the earliest first, as of the last time that it was computed."""
    c = forecast.c
    newest = select(func.max(c.computed_at)).scalar_subquery()
    statement = select(forecast).where(c.computed_at == newest).order_by(c.reaches_at, *forecast.primary_key)
    if job is not None:
        statement = statement.where(c.job_name == job)
    return _rows(connection, statement.limit(limit))


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


_LISTENER_KEY = ("application_id", "attempt_id", "listener_id")


def read_deliveries(connection: Connection, id_or_name: str | None, since: datetime | None, limit: int) -> list[Row]:
    """The delivery of each listener's documents, the most recently active listener first.

    Each with its application (None if all its documents were refused), the number of its `next_attempt` that sent
    any (or None), the number of `executions` by state, and of `incomplete` ones by the code of the reason (its
    sentence for listeners without codes).
    """
    d, a = delivery.c, application.c
    statement = (
        select(delivery, a.name, a.state, a.started_at, missing(dict(d), d.documents_made).label("sequences_missing"))
        .outerjoin(application, and_(d.application_id == a.application_id, d.attempt_id == a.attempt_id))
        .order_by(d.last_heard_at.desc(), d.application_id)
        .limit(limit)
    )
    if id_or_name is not None:
        statement = statement.where(d.application_id.in_(ids_of(id_or_name)))
    if since is not None:
        statement = statement.where(d.last_heard_at >= since)
    rows = {tuple(row[name] for name in _LISTENER_KEY): dict(row) for row in connection.execute(statement).mappings()}
    for row in rows.values():
        for name in [name for name in row if name.startswith("sequences_")]:
            row[name] = None if row[name] is None else [[each.lower, each.upper - 1] for each in row[name]]
        row["executions"], row["incomplete"] = {}, {}
    _add_next_attempts(connection, rows.values())
    key = [execution.c[name] for name in _LISTENER_KEY]
    is_listed = tuple_(*key).in_(list(rows))
    for *listener, state, number in connection.execute(
        select(*key, execution.c.state, func.count()).where(is_listed).group_by(*key, execution.c.state)
    ):
        rows[tuple(listener)]["executions"][state] = number
    codes = func.coalesce(execution.c.incomplete_codes, execution.c.incomplete)
    each = select(*key, func.unnest(codes).label("reason")).where(is_listed).subquery()
    of_listener = [each.c[name] for name in _LISTENER_KEY]
    reasons = select(*of_listener, each.c.reason, func.count()).group_by(*of_listener, each.c.reason)
    reasons = reasons.order_by(func.count().desc(), each.c.reason)
    for *listener, reason, number in connection.execute(reasons):
        rows[tuple(listener)]["incomplete"][reason] = number
    return list(rows.values())


def _add_next_attempts(connection: Connection, rows: Collection[Row]) -> None:
    """Set `next_attempt` of each row; attempts have numbers in YARN's cluster mode only."""
    attempts: dict[str, list[int]] = defaultdict(list)
    c = application.c
    ids = {row["application_id"] for row in rows if row["attempt_id"]}
    for app, attempt in connection.execute(select(c.application_id, c.attempt_id).where(c.application_id.in_(ids))):
        attempts[app] += [int(attempt)] * attempt.isdecimal()
    for row in rows:
        this = row["attempt_id"]
        later = (each for each in attempts[row["application_id"]] if this.isdecimal() and each > int(this))
        row["next_attempt"] = min(later, default=None)
