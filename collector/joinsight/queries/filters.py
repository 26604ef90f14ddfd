"""The filters and sort orders of the lists of queries, shuffles, broadcasts, joins and findings.

Each is declared only here: commands derive their options from it, pages their forms and parameters, `reading` its
conditions. The fields of `Filters` are the filters, in display order. SQLAlchemy and the tables are imported when a
condition or an order is used: the help of a command needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from joinsight.analysis.search import query
from joinsight.base.errors import ConfigurationError
from joinsight.base.severity import SEVERITIES
from joinsight.base.timeparse import parse_moment
from joinsight.contract.document import EXECUTION_STATES, MAX_LONG

if TYPE_CHECKING:
    from types import ModuleType

    from sqlalchemy import ColumnElement, CompoundSelect, FromClause

OPERATORS = ("shuffles", "broadcasts", "joins", "findings")
LISTS = ("queries", *OPERATORS)

KEY_LENGTH = 16
"""Characters of a query's shape, a plan's fingerprint and an operator's key."""
_KEY = re.compile(f"[0-9a-f]{{4,{KEY_LENGTH}}}")
_EXECUTION = re.compile("(?s:.+/)?[0-9]{1,19}")
_KEY_HELP = "in every run; 4 digits or more"


class Of(Enum):
    """The table that has the column of a filter."""

    EXECUTION = "execution"
    OPERATOR = "operator"
    BOTH = "both"
    """Applies to both sides of the join: PostgreSQL infers a condition on the other side only from an equality."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter; its field in `Filters`, its option and its parameter have the same name."""

    of: Of
    help: str
    placeholder: str = ""
    """The placeholder in a form, or the name of no choice there."""
    metavar: str | None = None
    known: Callable[[], Collection[str]] | None = None
    """Gives the values that it may have; None for any."""
    parse: Callable[[str, str], Any] = lambda name, value: value
    """Parses (name, text); raises `ConfigurationError` with the name of the filter."""
    condition: Callable[[FromClause, Any], ColumnElement[bool]] | None = None
    """The condition on a row of an execution or operator; None where `reading` looks something up first."""
    is_selective: Callable[[Any], bool] = lambda value: True
    """Whether so few rows match that PostgreSQL should start with them, regardless of the sort order."""
    lists: tuple[str, ...] = LISTS

    @property
    def has_choices(self) -> bool:
        """Whether it may have certain values only."""
        return self.known is not None

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty for any."""
        return tuple(self.known()) if self.known else ()

    def value(self, name: str, given: str) -> Any:
        """The parsed value; raises `ConfigurationError` for an invalid text."""
        return one_of(name, given, self.choices) if self.known else self.parse(name, given)


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort order of a list. Each has an index, declared with its table."""

    expression: Callable[[ModuleType], ColumnElement[Any]]
    """Takes the module `joinsight.tables`; returns what the list is sorted by."""
    meaning: str
    is_nullable: bool = True
    then: Callable[[ModuleType], ColumnElement[Any]] | None = None
    """What equal ones are sorted by."""

    @property
    def column(self) -> ColumnElement[Any]:
        """What it sorts by."""
        from joinsight import tables

        return self.expression(tables)

    @property
    def order(self) -> ColumnElement[Any]:
        """The largest first; what was not measured last."""
        return self.column.desc().nulls_last() if self.is_nullable else self.column.desc()

    @property
    def orders(self) -> list[ColumnElement[Any]]:
        """`order`, and that of equal ones."""
        from joinsight import tables

        return [self.order, *([self.then(tables).desc().nulls_last()] if self.then else [])]

    @property
    def reverse(self) -> ColumnElement[Any]:
        """`order`, backwards."""
        return self.column.asc().nulls_first() if self.is_nullable else self.column.asc()


def one_of(name: str, given: str, known: Collection[str]) -> str:
    """`given`; raises `ConfigurationError` if it is not in `known`."""
    if given not in known:
        raise ConfigurationError(name, given, "not a valid value", f"Write one of {', '.join(known)}.")
    return given


def _equals(column: str) -> Callable[[FromClause, Any], ColumnElement[bool]]:
    return lambda source, value: source.c[column] == value


def _key(column: str) -> dict[str, Any]:
    """A key or its first digits; a prefix is a range, because an index serves that in every collation."""

    def parse(name: str, given: str) -> str:
        if not _KEY.fullmatch(given):
            remedy = "Write 16 hexadecimal digits, or the first 4 or more."
            raise ConfigurationError(name, given, "not a valid key", remedy)
        return given

    def condition(source: FromClause, key: str) -> ColumnElement[bool]:
        if len(key) == KEY_LENGTH:
            return source.c[column] == key
        return source.c[column].between(key.ljust(KEY_LENGTH, "0"), key.ljust(KEY_LENGTH, "f"))

    return {"parse": parse, "condition": condition}


def _time(compare: Callable[[ColumnElement[Any], datetime], ColumnElement[bool]]) -> dict[str, Any]:
    condition = lambda source, time: compare(source.c.started_at, time)  # noqa: E731
    return {"metavar": "TIME", "parse": parse_moment, "condition": condition, "is_selective": _never}


def _words(name: str, given: str) -> str:
    if not (words := query(given)):
        raise ConfigurationError(name, given, "has no letters or digits", "Write words, or how they begin.")
    return words


def _has_words(source: FromClause, words: str) -> ColumnElement[bool]:
    from sqlalchemy import cast, func
    from sqlalchemy.dialects.postgresql import TSQUERY

    return func.array_to_tsvector(source.c.words).bool_op("@@")(cast(words, TSQUERY))


def _execution(name: str, given: str) -> str:
    if not _EXECUTION.fullmatch(given) or int(given.rpartition("/")[2]) > MAX_LONG:
        raise ConfigurationError(name, given, "not a valid execution id", "Write 12 or APPLICATION/12.")
    return given


def _is_nested_in(source: FromClause, name: str) -> ColumnElement[bool]:
    path, _, number = name.rpartition("/")
    c, root = source.c, int(number)
    # An execution starts others after itself, with higher ids: the index on these serves the range
    after = c.execution_id.between(min(root + 1, MAX_LONG), min(root + MOST_AFTER, MAX_LONG))
    return is_of_application(source, path) & after & (c.root_execution_id == root)


def is_of_application(source: FromClause, path: str) -> ColumnElement[bool]:
    """Whether it is of the application that an execution's name begins with; any, if that is empty.

    ``APPLICATION``, or ``APPLICATION/ATTEMPT``, where ``-`` or nothing as attempt is the empty one.
    """
    from sqlalchemy import true

    c = source.c
    application_id, _, attempt_id = path.rpartition("/")
    is_whole: ColumnElement[bool] = c.application_id == path if path else true()
    if not application_id:
        return is_whole
    attempt = c.attempt_id == ("" if attempt_id == "-" else attempt_id)
    return ((c.application_id == application_id) & attempt) | is_whole  # an application id may have slashes


MOST_AFTER = 100_000
"""How many executions may start between one and the last one that it started."""


def _is_tagged(source: FromClause, tag: str) -> ColumnElement[bool]:
    by_user = source.c.user_tags.contains([tag])
    name, equals, value = tag.partition("=")
    return by_user | source.c.tags.contains({name: value}) if equals else by_user


def ids_of(id_or_name: str) -> CompoundSelect[Any]:
    """The ids of the applications with this id or name; not an OR, because no index serves one."""
    from sqlalchemy import literal, select

    from joinsight.tables import application

    by_name = select(application.c.application_id).where(application.c.name == id_or_name)
    return select(literal(id_or_name)).union_all(by_name)


@dataclass(frozen=True, slots=True)
class User:
    """Who ran executions: who asked a server for them, else whom Spark ran as."""

    name: str
    applications: tuple[str, ...] | None = None
    """The ids of those that Spark ran as this user, where `users` has looked up that they are few."""


def _is_of_user(source: FromClause, user: User) -> ColumnElement[bool]:
    from sqlalchemy import false, select

    from joinsight.tables import application

    ids: Any = user.applications
    if ids is None:
        ids = select(application.c.application_id).where(application.c.spark_user == user.name)
    ran = false() if ids == () else source.c.application_id.in_(ids)
    its = source.c.user_name
    return (its == user.name) | ((its.is_(None) | (its == "")) & ran)  # an empty one: of before schema 10


def _kinds() -> list[str]:
    from joinsight.findings import HEURISTICS

    return [heuristic.id for heuristic in HEURISTICS]


def _never(value: Any) -> bool:
    return False


def _filter(of: Of, help: str, **details: Any) -> Any:
    return field(default=None, metadata={"filter": Filter(of, help, **details)})


@dataclass(frozen=True, slots=True)
class Filters:
    """The values of the filters; None does not filter."""

    execution: str | None = _filter(Of.OPERATOR, "Only of this execution", metavar="EXECUTION", lists=OPERATORS)
    operator: str | None = _filter(
        Of.OPERATOR, f"Only this operator, {_KEY_HELP}", metavar="KEY", **_key("operator_key"), lists=OPERATORS
    )
    finding: str | None = _filter(
        Of.OPERATOR,
        "Only of this kind, such as skewed-shuffle; `joinsight docs findings` explains all",
        metavar="KIND",
        known=_kinds,
        condition=_equals("finding"),
        is_selective=_never,
        lists=("findings",),
    )
    severity: str | None = _filter(
        Of.OPERATOR,
        "Only of this severity",
        known=lambda: SEVERITIES,
        condition=_equals("severity"),
        is_selective=_never,
        lists=("findings",),
    )
    search: str | None = _filter(
        Of.EXECUTION,
        "Only with these words, or words that begin like them, in the description, job, tables or operators",
        metavar="WORDS",
        parse=_words,
        condition=_has_words,
        is_selective=_never,
        lists=("queries",),
    )
    application: str | None = _filter(
        Of.EXECUTION,
        "Only of this application",
        metavar="ID|NAME",
        placeholder="ID or name",
        condition=lambda source, id_or_name: source.c.application_id.in_(ids_of(id_or_name)),
    )
    job: str | None = _filter(
        Of.EXECUTION, "Only of this job (spark.joinsight.jobName)", metavar="NAME", condition=_equals("job_name")
    )
    user: User | None = _filter(  # noqa: RUF009
        Of.EXECUTION,
        "Only of this user: of a Spark Connect or Thrift server, else the one that Spark ran as",
        metavar="NAME",
        parse=lambda name, value: User(value),
        condition=_is_of_user,
        is_selective=lambda user: user.applications is not None,
    )
    session: str | None = _filter(Of.EXECUTION, "Only of this session", metavar="ID", condition=_equals("session_id"))
    tag: str | None = _filter(
        Of.EXECUTION,
        "Only with this user tag (addTag, addJobTag) or value of spark.joinsight.tag.NAME",
        metavar="TAG|NAME=VALUE",
        placeholder="etl, team=sales",
        condition=_is_tagged,
        is_selective=lambda tag: "=" not in tag,  # NAME=VALUE has no index
    )
    state: str | None = _filter(
        Of.EXECUTION,
        "Only of executions in this state",
        known=lambda: EXECUTION_STATES,
        condition=_equals("state"),
        is_selective=lambda state: state != "succeeded",
    )
    since: datetime | None = _filter(  # noqa: RUF009  # a declaration is immutable
        Of.BOTH,
        "Started at this time or later: 2h, 7d, 2026-11-20T08:00 (UTC)",
        placeholder="2h, 7d, 2026-11-20",
        **_time(lambda started_at, time: started_at >= time),
    )
    until: datetime | None = _filter(  # noqa: RUF009
        Of.BOTH,
        "Started before this time",
        placeholder="1h, 2026-11-21",
        **_time(lambda started_at, time: started_at < time),
    )
    shape: str | None = _filter(Of.EXECUTION, f"Only of this query, {_KEY_HELP}", metavar="KEY", **_key("query_shape"))
    root: str | None = _filter(
        Of.EXECUTION,
        "Only what this execution started, such as the joins of a MERGE",
        metavar="EXECUTION",
        placeholder="APPLICATION/12",
        parse=_execution,
        condition=_is_nested_in,
        lists=("queries",),
    )
    show: str | None = _filter(
        Of.EXECUTION,
        "nested: also executions that others started; all: also those without work of their own, such as commands of"
        " less than a second without a Spark job",
        placeholder="with work",
        known=lambda: ("nested", "all"),
        is_selective=_never,
        lists=("queries",),
    )
    limit: int = 20

    def given(self, of: Of) -> dict[str, Any]:
        """The filters on this table that are set."""
        values = {name: getattr(self, name) for name, each in FILTERS.items() if each.of is of}
        return {name: value for name, value in values.items() if value is not None}

    def conditions(self, of: Of, source: FromClause) -> list[ColumnElement[bool]]:
        """Their conditions on `source`."""
        conditions = ((FILTERS[name].condition, value) for name, value in self.given(of).items())
        return [condition(source, value) for condition, value in conditions if condition is not None]

    def of_execution(self, source: FromClause) -> list[ColumnElement[bool]]:
        """All conditions on an execution."""
        return [*self.conditions(Of.EXECUTION, source), *self.conditions(Of.BOTH, source)]

    def is_selective(self, of: Of) -> bool:
        """Whether one of them is selective."""
        return any(FILTERS[name].is_selective(value) for name, value in self.given(of).items())


FILTERS: Mapping[str, Filter] = {each.name: each.metadata["filter"] for each in fields(Filters) if each.metadata}


def given_filters(names: Collection[str], parameters: Mapping[str, str], limit: int) -> tuple[dict[str, str], Filters]:
    """The filters of these names as entered, without empty ones, and parsed; `ConfigurationError` for invalid ones."""
    given = {name: text for name in names if (text := parameters.get(name, "").strip())}
    return given, Filters(**{name: FILTERS[name].value(name, text) for name, text in given.items()}, limit=limit)


def filters_of(name: str) -> dict[str, Filter]:
    """The filters of a list."""
    return {each: declared for each, declared in FILTERS.items() if name in declared.lists}


def _largest(expression: Callable[[ModuleType], ColumnElement[Any]], meaning: str) -> Sort:
    return Sort(expression, meaning)


def _newest(table: str) -> Sort:
    return Sort(lambda tables: getattr(tables, table).c.started_at, "newest first", is_nullable=False)


def _join_ms(tables: ModuleType) -> ColumnElement[Any]:
    from sqlalchemy import func

    return func.coalesce(tables.joins.c.cost_most_wall_ms, tables.joins.c.cost_wall_ms)


def _shuffle_ms(tables: ModuleType) -> ColumnElement[Any]:
    from sqlalchemy import BigInteger, literal_column

    ns_per_ms: ColumnElement[int] = literal_column("1000000", BigInteger)  # literal, as in the index
    its = tables.shuffle.c
    return its.write_time_ns // ns_per_ms + its.fetch_wait_ms  # type: ignore[no-any-return]


def _broadcast_ms(tables: ModuleType) -> ColumnElement[Any]:
    its = tables.broadcast.c
    return its.collect_ms + its.build_ms + its.broadcast_ms  # type: ignore[no-any-return]


def _finding_wall_ms(tables: ModuleType) -> ColumnElement[Any]:
    return tables.finding.c.wall_ms  # type: ignore[no-any-return]


def _sql(name: str) -> Callable[[ModuleType], ColumnElement[Any]]:
    """An expression that `joinsight.tables` has as a text."""

    def expression(tables: ModuleType) -> ColumnElement[Any]:
        from sqlalchemy import BigInteger, literal_column

        return literal_column(getattr(tables, name), BigInteger)

    return expression


SORTS: Mapping[str, Mapping[str, Sort]] = {
    "queries": {
        "recent": _newest("execution"),
        "time": _largest(lambda tables: tables.execution.c.duration_ms, "longest first"),
        "size": _largest(lambda tables: tables.execution.c.shuffle_write_bytes, "most shuffled"),
        "spill": _largest(lambda tables: tables.execution.c.disk_spilled_bytes, "most spilled"),
    },
    "shuffles": {
        "size": _largest(lambda tables: tables.shuffle.c.bytes_written, "most bytes written"),
        "time": _largest(_shuffle_ms, "longest writing and waiting"),
        "skew": _largest(lambda tables: tables.shuffle.c.skew_ratio, "most skewed"),
        "recent": _newest("shuffle"),
    },
    "broadcasts": {
        "size": _largest(lambda tables: tables.broadcast.c.size_bytes, "largest in memory"),
        "time": _largest(_broadcast_ms, "longest on the driver"),
        "recent": _newest("broadcast"),
    },
    "joins": {
        "size": _largest(lambda tables: tables.joins.c.output_rows, "most rows out"),
        "time": _largest(lambda tables: tables.execution.c.duration_ms, "longest executions first"),
        "spill": _largest(lambda tables: tables.joins.c.spill_bytes, "most spilled"),
        "cost": _largest(_join_ms, "most wall time that it can have cost, with what only it needed"),
        "recent": _newest("joins"),
    },
    "findings": {
        "severity": Sort(_sql("SEVERITY_RANK"), "worst first, then most wall time at stake", then=_finding_wall_ms),
        "cost": _largest(_finding_wall_ms, "most wall time at stake"),
        "impact": _largest(_sql("IMPACT"), "most time or bytes, 100 MB counting as a second"),
        "recent": _newest("finding"),
    },
}
"""The sort orders of each list; the first is the default."""
