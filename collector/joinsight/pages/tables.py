"""Pages that are one table: queries, streams, joins, shuffles, broadcasts, findings, regressions and jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from joinsight.base.units import bytes_text, duration_text, percent_text, ratio_text
from joinsight.pages.batches import MOST_FOLDED, Batches, as_one, fold, stream_of
from joinsight.pages.chart import Spark
from joinsight.pages.environment import address, compare_regression, job_address, query_address, render, size_text
from joinsight.present import regressions, values
from joinsight.present.cost import between
from joinsight.present.findings import at_stake_over_runs
from joinsight.queries.browse import Pace
from joinsight.queries.filters import FILTERS, SORTS, Filter, Filters, Sort, filters_of, given_filters, one_of
from joinsight.tables import Row

LIMITS = (50, 200, 1_000)
"""The numbers of rows that a table can show."""
_FIELDS = ("job", "search", "finding", "severity", "operator", "shape", "application", "user", "since", "until")
_FIRST = ("job", "search", "finding", "severity", "since")
"""The filters that are always shown."""
_RAN = ("job", "user", "tag", "application", "since", "until")
_WINDOWS: Mapping[str, Sequence[str]] = {
    "queries": ("job", "search", *_RAN[1:]),
    "jobs": _RAN,
    "streams": _RAN,
    "regressions": ("job", "user", "tag", "shape", "since"),
}
"""The filters of pages about what ran in some days."""
_SINGLE = frozenset({"search", "operator", "execution", "state"})
"""Filters that look for single operators."""
_WHICH = {
    "recent": "last",
    "size": "largest",
    "time": "longest",
    "skew": "most skewed",
    "spill": "most spilled",
    "cost": "most costly",
}
_MS_PER_HOUR = 3_600_000
_LATE = 0.9
"""The share of its interval from which on a micro-batch is nearly late."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str = ""
    href: str | None = None
    more: str = ""
    """What follows in small letters."""
    before: str = ""
    """What stands before it: the line of code."""
    batches: Batches | None = None
    """The micro-batches that the row stands for."""
    batches_href: str = ""
    mark: str = ""
    """A severity, or a state."""
    chart: Spark | None = None
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with the order that its heading selects."""

    title: str
    cell: Callable[[Row], Cell]
    is_number: bool = False
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A page with a table."""

    path: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    """What it shows, in a sentence or two."""
    nothing: str = ""
    """The sentence shown without rows."""
    given: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Filter] = field(default_factory=dict)
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    sort: str = ""
    limit: int = LIMITS[0]
    has_more: bool = False

    def address(self, **changes: str) -> str:
        """The address of the page with these parameters."""
        shown = {**self.given, **({"sort": self.sort} if self.sort != next(iter(self.sorts), "") else {})}
        shown |= {"limit": str(self.limit)} if self.limit != LIMITS[0] else {}
        text = urlencode({name: value for name, value in {**shown, **changes}.items() if value}, safe=":/")
        return f"{self.path}?{text}" if text else self.path

    @property
    def first_fields(self) -> dict[str, Filter]:
        """The filters that are always shown."""
        return {name: each for name, each in self.fields.items() if name in _FIRST}

    @property
    def more_fields(self) -> dict[str, Filter]:
        """The filters that are shown on request, or if one of them is set."""
        return {name: each for name, each in self.fields.items() if name not in _FIRST}

    @property
    def filled(self) -> list[tuple[Column, list[Cell]]]:
        """The columns with their cells, without empty ones that it is not sorted by."""
        all_cells = ((column, [column.cell(row) for row in self.rows]) for column in self.columns)
        return [
            (column, its)
            for column, its in all_cells
            if any(each.text or each.chart for each in its) or (column.sort and column.sort == self.sort)
        ]

    @property
    def which(self) -> str:
        """Which of the micro-batches of a row is shown: the first in the order of the page."""
        return _WHICH.get(self.sort, "first")

    @property
    def larger(self) -> int | None:
        """The next number of rows, if there are more."""
        return next((limit for limit in LIMITS if limit > self.limit), None) if self.has_more else None

    def html(self) -> str:
        """The page."""
        return render("rows.html", t=self)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The parameters of a list of operators or findings."""

    name: str
    given: Mapping[str, str]
    filters: Filters
    sort: str
    limit: int

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, str]) -> ListRequest:
        """Parse parameters; raises `ConfigurationError` for invalid ones."""
        sorts = SORTS[name]
        sort = one_of("sort", parameters.get("sort", "").strip() or next(iter(sorts)), sorts)
        limit = int(one_of("limit", parameters.get("limit", str(LIMITS[0])), tuple(map(str, LIMITS))))
        given, filters = given_filters(filters_of(name), parameters, limit + 1)
        return cls(name, given, filters, sort, limit)

    @property
    def folds(self) -> bool:
        """Whether an operator of the micro-batches of a stream is shown as one row."""
        return self.name != "findings" and not self.given.keys() & _SINGLE

    def table(self, rows: Sequence[Row], nothing: str, note: str = "") -> Table:
        """The page of the rows that were read, of which there may be too many."""
        known = filters_of(self.name)
        groups, used = fold(rows, self.limit, _operator_of_stream if self.folds else lambda _: None)
        shown = [as_one(group, group[0]) for group in groups] if self.folds else rows[: self.limit]
        return Table(
            f"/{self.name}",
            self.name.capitalize(),
            _LISTS[self.name],
            shown,
            note,
            nothing,
            self.given,
            {each: known[each] for each in _FIELDS if each in known},
            SORTS[self.name],
            self.sort,
            self.limit,
            used < len(rows) or len(rows) == MOST_FOLDED,
        )


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """The parameters of a page about what ran in some days: filters of executions."""

    path: str
    given: Mapping[str, str]
    filters: Filters

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, str]) -> WindowRequest:
        """Parse parameters; raises `ConfigurationError` for invalid ones."""
        return cls(f"/{name}", *given_filters(_WINDOWS[name], parameters, LIMITS[1]))

    def table(self, columns: Sequence[Column], rows: Sequence[Row], note: str, nothing: str) -> Table:
        """The page of these rows."""
        name = self.path[1:]
        fields = {each: FILTERS[each] for each in _WINDOWS[name]}
        return Table(self.path, name.capitalize(), columns, rows, note, nothing, self.given, fields)


def queries_table(asked: WindowRequest, rows: Sequence[Row], days: str) -> Table:
    """The page of `browse.read_query_groups`."""
    note = f"Queries of {days}, those that took most time first. A query is what runs again and again."
    return asked.table(_QUERIES, rows, note, f"{_no(asked, 'queries')} ran in {days}.")


def _no(asked: WindowRequest, what: str) -> str:
    return f"No matching {what}" if asked.given.keys() - {"since", "until"} else f"No {what}"


def jobs_table(
    asked: WindowRequest,
    rows: Sequence[Row],
    owners: Mapping[str, Row],
    trends: Mapping[str, Spark | None],
    price: float | None,
    days: str,
) -> Table:
    """The page of `trends.read_jobs`, with teams, users and charts by job; `price` is that of an hour of a core."""

    def owner(row: Row) -> Row:
        return owners.get(row["job_name"], {})

    def those(text: str, **filters: str) -> Cell:
        return Cell(text, f"/jobs?{urlencode({**asked.given, **filters})}" if text else None)

    def team(row: Row) -> Cell:
        its = (owner(row).get("tags") or {}).get("team", "")
        return those(its, tag=f"team={its}")

    def user(row: Row) -> Cell:
        its = owner(row).get("user_name") or ""
        return those(its, user=its)

    def hours(row: Row) -> float:
        return float(row["task_time_ms"] or 0) / _MS_PER_HOUR

    columns = [
        Column("Job", lambda row: Cell(row["job_name"], job_address(row))),
        Column("Team", team),
        Column("User", user),
        Column("Executions", lambda row: Cell(f"{row['executions']:,}"), True),
        Column(
            "Failed", lambda row: Cell(f"{row['failed']:,}" if row["failed"] else "", is_bad=bool(row["failed"])), True
        ),
        Column("Query time", lambda row: Cell(duration_text(int(row["duration_ms"] or 0))), True),
        Column("Core-hours", lambda row: Cell(f"{hours(row):,.2f}"), True),
        Column("By run", lambda row: Cell(chart=trends.get(row["job_name"]))),
        Column("Shuffled", lambda row: Cell(size_text(int(row["shuffle_write_bytes"] or 0))), True),
        Column("Last (UTC)", lambda row: Cell(values.when(row["last_at"]))),
    ]
    note = f"Jobs of {days}, those with the longest queries first. Core-hours are the time of tasks, a core each."
    if price is not None:
        columns.insert(7, Column("Cost", lambda row: Cell(f"{hours(row) * price:,.2f}"), True))
        note += f" Cost: at {price:g} for an hour of a core."
    return asked.table(columns, rows, note, f"{_no(asked, 'jobs')} ran in {days}.")


def streams_table(asked: WindowRequest, rows: Sequence[tuple[Row, Pace]], days: str) -> Table:
    """The page of `reading.read_streams`, each with its pace."""
    note = (
        f"Streaming queries of {days}, the latest first; a row is a run, from a start to its stop. Rates are of"
        " the last micro-batches. At a load of 100 %, they take all of the time from one to the next."
    )
    flat = [{**row, "pace": pace} for row, pace in rows]
    return asked.table(_STREAMS, flat, note, f"{_no(asked, 'streaming queries')} ran in {days}.")


def regressions_table(asked: WindowRequest, rows: Sequence[Row], nothing: str, problem: str) -> Table:
    """The page of `reading.read_regressions`, each with its reason."""
    note = "Queries and operators whose last runs are worse than their earlier ones, the most costly first."
    return asked.table(_REGRESSIONS, rows, note, problem or nothing)


def _operator_of_stream(row: Row) -> tuple[object, ...] | None:
    stream, key = stream_of(row), row["operator_key"]
    return (stream, key) if stream and key else None


def _execution(row: Row) -> Cell:
    node = row.get("node_id")
    href = address(row, node=node if node is not None and node >= 0 else None)
    each = f"?{urlencode({'operator': row['operator_key'] or '', 'application': row['application_id']}, safe='/')}"
    called_from = row.get("called_from") or ""
    return Cell(values.query_title(row), href, before=called_from, batches=row.get("batches"), batches_href=each)


def _job(row: Row) -> Cell:
    return Cell(row["job_name"], job_address(row))


def _number(title: str, name: str, sort: str = "") -> Column:
    return Column(title, lambda row: Cell(values.number_text(row[name])), True, sort)


def _size(title: str, name: str, sort: str = "") -> Column:
    return Column(title, lambda row: Cell(size_text(row[name])), True, sort)


def _time(title: str, name: str, sort: str = "") -> Column:
    return Column(title, lambda row: Cell("" if row[name] is None else duration_text(round(row[name]))), True, sort)


def _state(row: Row) -> Cell:
    return Cell(row["state"], mark=row["state"])


def _strategy(row: Row) -> Cell:
    join_type = row["join_type"] if row["join_type"] != "Inner" else None
    return Cell(row["strategy"], more=", ".join(filter(None, (join_type, "skew split" if row["is_skew"] else ""))))


def _join_time(row: Row) -> Cell:
    return Cell(between(row["cost_wall_ms"], row["cost_most_wall_ms"], is_partial=bool(row["cost_is_partial"])))


def _started(row: Row) -> Cell:
    return Cell(values.when(row["started_at"]))


def _operator(row: Row) -> Cell:
    key = row["operator_key"]
    return Cell(values.short_key(key), f"?{urlencode({'operator': key})}" if key else None)


def _finding(row: Row) -> Cell:
    return Cell(row["title"], address(row, node=row["node_id"] if row["node_id"] >= 0 else None), mark=row["severity"])


def _of_query(row: Row) -> Cell:
    text = values.query_title(row)
    return Cell(text, query_address(row), before=row.get("called_from") or "") if row["query_shape"] else Cell(text)


def _stake(row: Row) -> Cell:
    if row["wall_ms"]:
        return Cell(at_stake_over_runs(row))
    if row["impact_ms"]:
        return Cell(f"{duration_text(row['impact_ms'])} of tasks or driver")
    return Cell(bytes_text(row["impact_bytes"]) if row["impact_bytes"] else "")


def _rate(rows: float | None) -> str:
    return "" if rows is None else f"{rows:,.0f}" if rows >= 10 else f"{rows:.1f}"


def _load(row: Row) -> Cell:
    load = row["pace"].load
    return Cell("" if load is None else percent_text(load), is_bad=load is not None and load >= _LATE)


def _stream_change(row: Row) -> Cell:
    pace: Pace = row["pace"]
    texts = [f"plan changed at batch {pace.plan_changed_at:,}"] if pace.plan_changed_at is not None else []
    usual = row["duration_ms_median"]
    if usual and pace.duration_ms and pace.duration_ms >= 1.5 * usual and pace.duration_ms - usual >= 1_000:
        texts.append(f"slower: {duration_text(round(usual))} → {duration_text(round(pace.duration_ms))}")
    return Cell("; ".join(texts), is_bad=len(texts) > 0)


def _regression(row: Row) -> Cell:
    what = f"{regressions.measure(row)} {ratio_text(row['factor'])}".strip()
    moved = f"{regressions.value(row, 'baseline')} → {regressions.value(row, 'current')}"
    return Cell(moved, compare_regression(row), before=what)


def _failed(row: Row) -> Cell:
    return Cell(f"{row['failed']:,}" if row["failed"] else "", is_bad=bool(row["failed"]))


_FAILED = Column("Failed", _failed, True)
_QUERIES = (
    Column("Query", _of_query),
    Column("Job", _job),
    _number("Runs", "executions"),
    _FAILED,
    Column("Time", lambda row: Cell(duration_text(int(row["duration_ms"] or 0))), True),
    _time("Last run", "last_ms"),
    Column("Task time", lambda row: Cell(duration_text(int(row["task_time_ms"] or 0))), True),
    _number("Plans", "plans"),
    Column("Last (UTC)", lambda row: Cell(values.when(row["last_at"]))),
)
_STREAMS = (
    Column("Stream", lambda row: Cell(row["title"] or row["streaming_query_name"] or "", address(row))),
    Column("Job", _job),
    Column("State", _state),
    _number("Batches", "batches"),
    Column("Every", lambda row: Cell(_ms(row["pace"].interval_ms)), True),
    Column("Takes", lambda row: Cell(_ms(row["pace"].duration_ms)), True),
    Column("Load", _load, True),
    Column("Rows/s in", lambda row: Cell(_rate(row["pace"].rows_in)), True),
    Column("Rows/s processed", lambda row: Cell(_rate(row["pace"].rows_processed)), True),
    _number("State rows", "state_rows"),
    _size("State", "state_bytes"),
    _FAILED,
    Column("What changed", _stream_change),
    Column("Last batch (UTC)", lambda row: Cell(values.when(row["last_batch_at"]))),
)
_REGRESSIONS = (
    Column("Query", _of_query),
    Column("Job", _job),
    Column("What became worse", _regression),
    Column("Why", lambda row: Cell(row["reason"] or regressions.KINDS[row["kind"]])),
    Column("Since (UTC)", lambda row: Cell(values.when(row["first_bad_at"]))),
    _number("Runs", "bad_runs"),
    Column("Cost", lambda row: Cell(duration_text(row["cost_ms"]) if row["cost_ms"] else ""), True),
)
_LISTS: Mapping[str, Sequence[Column]] = {
    "joins": (
        Column("Query", _execution),
        Column("Job", _job),
        Column("Started (UTC)", _started, False, "recent"),
        Column("Strategy", _strategy),
        Column("On", lambda row: Cell(values.join_keys(row))),
        Column("Build", lambda row: Cell(values.build_side(row))),
        _number("Left rows", "left_rows"),
        _number("Right rows", "right_rows"),
        _number("Rows out", "output_rows", "size"),
        _size("Spilled", "spill_bytes", "spill"),
        Column("Wall time", _join_time, True, "cost"),
        Column("Operator", _operator),
    ),
    "shuffles": (
        Column("Query", _execution),
        Column("Job", _job),
        Column("Started (UTC)", _started, False, "recent"),
        Column("Partitioned by", lambda row: Cell(values.partitioned_by(row))),
        _size("Written", "bytes_written", "size"),
        _number("Rows", "rows_written"),
        Column("Partitions", lambda row: Cell(values.partitions(row)), True),
        _time("Fetch wait", "fetch_wait_ms", "time"),
        Column("Row skew", lambda row: Cell(ratio_text(row["skew_ratio"])), True, "skew"),
        Column("AQE", lambda row: Cell(", ".join(row["aqe_read"] or ()))),
        Column("Operator", _operator),
    ),
    "broadcasts": (
        Column("Query", _execution),
        Column("Job", _job),
        Column("Started (UTC)", _started, False, "recent"),
        Column("Outcome", lambda row: Cell(row["outcome"])),
        _size("Size in memory", "size_bytes", "size"),
        _number("Rows", "rows"),
        _time("Collect", "collect_ms", "time"),
        _time("Build", "build_ms"),
        _time("Send", "broadcast_ms"),
        Column("Operator", _operator),
    ),
    "findings": (
        Column("Finding", _finding, False, "severity"),
        Column("Query", _of_query),
        Column("Job", _job),
        Column("At stake", _stake, False, "cost"),
        Column("Runs", lambda row: Cell(f"{row['executions']:,} of {row['runs']:,}"), True),
        Column("Last (UTC)", _started, False, "recent"),
        Column("What to do", lambda row: Cell(row["advice"])),
    ),
}


def _ms(value: float | None) -> str:
    return "" if value is None else duration_text(round(value))
