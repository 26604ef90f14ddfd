"""An execution by its name or key: with its plans, and what came before it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, takewhile
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select, text, tuple_

from joinsight.analysis.comparison import ComparedExecution
from joinsight.analysis.parts import MOST_PARTS
from joinsight.analysis.stored import StoredPlan, uses_of
from joinsight.analysis.table_formats import READS_LOG, reads_of
from joinsight.analysis.title import is_bare_command, title_of_command
from joinsight.base.errors import ConfigurationError, NotFound
from joinsight.base.severity import worst_first
from joinsight.contract.accepted_advice import SETTING, of_setting
from joinsight.contract.document import MAX_LONG
from joinsight.plan.engines import FALLBACK
from joinsight.queries.filters import is_of_application
from joinsight.store.history import earlier_runs
from joinsight.tables import (
    EXECUTION_KEY,
    Row,
    application,
    aqe_decision,
    broadcast,
    cache,
    execution,
    finding,
    has_work,
    is_part,
    joins,
    stage,
)
from joinsight.tables import shuffle as shuffle_table
from joinsight.tables.views import node_metric, plan_node, plan_version, segment, task_time

Key = tuple[datetime, str, str, int]


EMPTY = (
    "No executions are stored yet. `joinsight demo` runs an example, `joinsight listener-jar --conf` prints the options"
    " that attach the listener to your jobs, and `joinsight backfill` imports event logs."
)


_NONE_WITH_WORK = "No stored execution did work of its own. `joinsight queries --show all` lists them."


def complete_titles(connection: Connection, rows: Iterable[Row]) -> None:
    """Add to titles of commands of which Spark prints only the name, ``save as table``, what they ran the longest.

    Rows have the key of an execution, and its title as `query_title`, or else as `title`.
    """
    bare: dict[tuple[Any, ...], list[tuple[Row, str]]] = defaultdict(list)
    for row in rows:
        name = "query_title" if "query_title" in row else "title"
        if is_bare_command(row[name]):
            bare[tuple(row[each] for each in EXECUTION_KEY)].append((row, name))
    if not bare:
        return
    root, part = execution.alias("root"), execution.alias("part")
    key = tuple(root.c[name] for name in EXECUTION_KEY)
    is_its = [part.c[name] == root.c[name] for name in ("application_id", "attempt_id")]
    is_its += [part.c.root_execution_id == root.c.execution_id]
    longest = (
        select(*key, part.c.title)
        .prefix_with(text(f"DISTINCT ON ({', '.join(f'root.{name}' for name in EXECUTION_KEY)})"))
        .where(tuple_(*key).in_(list(bare)), root.c.nested > 0, root.c.jobs == 0)
        .where(func.strpos(root.c.description, root.c.title) == 0)
        .where(*is_its, part.c.jobs > 0, part.c.title.is_not(None), ~part.c.description.regexp_match(READS_LOG))
        .where(part.c.started_at.between(root.c.started_at, root.c.started_at + LONGEST_COMMAND))
        .order_by(*key, part.c.duration_ms.desc().nulls_last(), part.c.execution_id)
    )
    for *its, title in connection.execute(longest):
        for row, name in bare[tuple(its)]:
            row[name] = title_of_command(row[name], title)


def is_empty(connection: Connection) -> bool:
    """Whether no execution is stored."""
    return connection.execute(select(execution.c.started_at).limit(1)).first() is None


def read_rows(connection: Connection, statement: Select[Any]) -> list[Row]:
    """What a statement selects."""
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
    is_root = row["root_execution_id"] == row["execution_id"]
    until = None if is_root else row["ended_at"]  # of another one, those that began while it ran
    started = c.started_at.between(row["started_at"], until or row["started_at"] + LONGEST_COMMAND)
    keys = connection.execute(
        select(*(c[name] for name in EXECUTION_KEY))
        .where(*same, inner, started)
        .order_by(c.duration_ms.desc().nulls_last(), c.execution_id)
        .limit(MOST_PARTS)
    )
    return replace(stored, nested=[_read_plan(connection, (k[0], k[1], k[2], k[3])) for k in sorted(map(tuple, keys))])


def _read_before(connection: Connection, row: Row) -> list[Row]:
    """What was run for an execution before it began: by a table format, or as a part of its planning."""
    if row["root_execution_id"] != row["execution_id"]:
        return []
    c = execution.c
    same = [c[name] == row[name] for name in ("application_id", "attempt_id")]
    number = row["execution_id"]
    near = c.execution_id.between(number - _BEFORE, min(number + _BEFORE, MAX_LONG)) & (c.execution_id != number)
    earlier = (c.started_at < row["started_at"]) & (c.started_at >= row["started_at"] - _LONGEST_PLANNING)
    columns = [c[name] for name in (*EXECUTION_KEY, "root_execution_id", "duration_ms", "description", "call_site")]
    statement = select(*columns).where(*same, near, earlier).order_by(c.started_at.desc(), c.execution_id.desc())
    rows = read_rows(connection, statement)
    parts = [each for each in rows if each["root_execution_id"] == number]
    others = (each for each in rows if each["root_execution_id"] == each["execution_id"])
    return [*parts, *takewhile(reads_of, others)]


def _read_plan(connection: Connection, key: Key) -> StoredPlan:
    row = _by_key(connection, execution, key)[0]
    complete_titles(connection, [row])
    version, slots, settings = _application(connection, key)
    return StoredPlan(
        row,
        _by_key(connection, plan_version, key),
        _by_key(connection, aqe_decision, key),
        _by_key(connection, node_metric, key),
        worst_first(_by_key(connection, finding, key)),
        _by_key(connection, segment, key),
        _by_key(connection, task_time, key),
        _by_key(connection, stage, key),
        _by_key(connection, shuffle_table, key),
        _with_uses(connection, _by_key(connection, cache, key)),
        slots,
        earlier_runs(connection, row),
        version,
        of_setting(settings.get(SETTING)),
        settings,
        fallbacks=_fallbacks(connection, key, settings),
    )


def _fallbacks(connection: Connection, key: Key, settings: Mapping[str, str]) -> Mapping[int, str]:
    """Why Spark ran an operator, and not Comet, by node."""
    if not any("comet" in each.lower() for each in chain(*settings.items())):
        return {}
    c = plan_node.c
    same = [c[name] == value for name, value in zip(EXECUTION_KEY, key, strict=True)]
    reason = c.metadata[FALLBACK].astext
    found = connection.execute(select(c.node_id, reason).where(*same, reason.is_not(None)))
    return {row[0]: row[1] for row in found}


_BEFORE, _LONGEST_PLANNING = 50, timedelta(hours=1)
"""Among how many executions next to one, by id, and since when, those are looked for that ran for it before."""
LONGEST_COMMAND = timedelta(days=31)
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


def _with_uses(connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """Cached tables of an execution, with how the executions of its application use each."""
    if not rows:
        return []
    same = [cache.c[name] == rows[0][name] for name in ("application_id", "attempt_id")]
    same.append(cache.c.cache_id.in_([row["cache_id"] for row in rows]))
    uses: defaultdict[int, list[Row]] = defaultdict(list)
    for use in read_rows(connection, select(cache).where(*same).order_by(*cache.primary_key)):
        uses[use["cache_id"]].append(use)
    return [{**row, **uses_of(uses[row["cache_id"]])} for row in rows]


def read_run(connection: Connection, key: Key, nested: Sequence[StoredPlan] = ()) -> ComparedExecution:
    """An execution's rows for `compare`, with those of these executions that it started."""
    same = [application.c[name] == value for name, value in zip(EXECUTION_KEY[1:3], key[1:3], strict=True)]
    of_application = connection.execute(select(application).where(*same)).mappings().one()
    its = {each.name: _by_key(connection, each, key) for each in (joins, shuffle_table, broadcast, stage)}
    rows = _by_key(connection, execution, key)
    complete_titles(connection, rows)
    keys = [tuple(each.execution[name] for name in EXECUTION_KEY) for each in nested]
    started = [read_run(connection, (k[0], k[1], k[2], k[3])) for k in keys]
    return ComparedExecution(rows[0], dict(of_application), **its, started=started)


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
