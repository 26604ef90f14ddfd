"""The lists of commands and pages: executions, shuffles, broadcasts, joins, findings and streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
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

from joinsight.analysis.stored import StoredPlan
from joinsight.analysis.table_formats import is_own_read
from joinsight.contract.document import MAX_LONG
from joinsight.queries.filters import FILTERS, MOST_AFTER, SORTS, Filters, Of, Sort
from joinsight.queries.reading import LONGEST_COMMAND, Key, complete_titles, find_execution, read_plan, read_rows
from joinsight.queries.users import looked_up
from joinsight.tables import (
    EXECUTION_KEY,
    IMPACT,
    SEVERITY_RANK,
    Row,
    broadcast,
    execution,
    finding,
    has_work,
    is_part,
    joins,
)
from joinsight.tables import shuffle as shuffle_table
from joinsight.tables.views import v_finding_groups


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
    rows = read_rows(connection, _queries(looked_up(connection, filters), sort, cursor))
    complete_titles(connection, rows)
    return rows[::-1] if cursor is not None and cursor.is_before else rows


def read_list(connection: Connection, name: str, filters: Filters, sort: str) -> list[Row]:
    """The rows of a list of `filters.LISTS`, operators and findings with their execution's title and description.

    A finding has the title as `query_title`. `finding_groups`: see `read_finding_groups`.
    """
    rows = read_rows(connection, _list(connection, name, filters, sort))
    complete_titles(connection, rows)
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
        .where(~has_work(execution), ~is_part(execution))
        .where(*looked_up(connection, filters).of_execution(execution), *bounds)
    )
    return connection.scalar(select(func.count()).select_from(hidden.limit(MOST_HIDDEN).subquery())) or 0


STREAM = ("streaming_query_id", "streaming_batch_id")
_TABLES = {"shuffles": shuffle_table, "broadcasts": broadcast, "joins": joins, "findings": finding}


def _list(connection: Connection, name: str, filters: Filters, sort: str) -> Select[Any]:
    filters = looked_up(connection, filters)
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
    """Whether it has work that a user asked for: no other execution started it, nor a table format."""
    c = executions.c
    is_of_format = is_own_read(executions) & (c.state == "succeeded")
    return has_work(executions) & ~is_part(executions) & ~is_of_format


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
    connection: Connection, since: datetime, until: datetime | None = None, *, job: str | None = None, limit: int = 20
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
        if table is finding:
            on_operator += _with_started(connection, key)
        else:
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
    names = ("job_name", "description", "called_from", "state", "duration_ms", *STREAM)
    described = [title, *(its.c[name] for name in names)]
    return _page(select(source, *described).select_from(joined), orders, source, filters)


def _with_started(connection: Connection, key: Key) -> list[ColumnElement[bool]]:
    """The condition on findings of an execution and of those that it started, as a command does."""
    started_at, application_id, attempt_id, execution_id = key

    def same(source: FromClause) -> list[ColumnElement[bool]]:
        return [source.c.application_id == application_id, source.c.attempt_id == attempt_id]

    c, last = execution.c, min(execution_id + MOST_AFTER, MAX_LONG)
    its = (c.execution_id > execution_id, c.execution_id <= last, c.root_execution_id == execution_id)
    within = c.started_at.between(started_at, started_at + LONGEST_COMMAND)
    started = connection.execute(select(c.execution_id, c.started_at).where(*same(execution), within, *its)).all()
    ids, times = zip((execution_id, started_at), *started, strict=True)
    return [*same(finding), finding.c.execution_id.in_(ids), finding.c.started_at.between(started_at, max(times))]


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
