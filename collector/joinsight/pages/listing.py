"""The list of executions: the parameters of its form, its sorted columns, and its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from joinsight.base.errors import ConfigurationError
from joinsight.base.timeparse import parse_moment
from joinsight.pages.batches import MOST_FOLDED, as_one, fold, stream_of
from joinsight.pages.environment import render
from joinsight.pages.home import Overview, PageSection
from joinsight.queries.filters import SORTS, Filters, filters_of, given_filters, one_of
from joinsight.queries.lists import Cursor, cursor_at
from joinsight.tables import Row

FIELDS = filters_of("queries")
_SORTS = SORTS["queries"]
_DEFAULT_SORT = next(iter(_SORTS))
LIMITS = (50, 200, 1_000)
"""The numbers of executions that a page can show."""
_FIRST_FIELDS = ("search", "job", "state", "since", "until")


class _Column(NamedTuple):
    """A column of the list, with the order that its heading selects."""

    title: str
    sort: str = ""
    is_number: bool = False


COLUMNS = (
    _Column("State"),
    _Column("Query"),
    _Column("Job"),
    _Column("Started (UTC)", "recent"),
    _Column("Time", "time", True),
    _Column("Shuffled", "size", True),
    _Column("Broadcast", "", True),
    _Column("Spilled", "spill", True),
    _Column("Execution"),
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of the list, and the addresses of the pages before and after it; None at an end."""

    rows: Sequence[Row]
    """The micro-batches of a stream are one, the latest."""
    before: str | None
    after: str | None
    ends: tuple[Row, Row] | None = None
    """The first and the last execution that were read for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of the list."""

    given: Mapping[str, str]
    """The filters as entered, without empty ones."""
    filters: Filters
    sort: str
    limit: int
    cursor: Cursor | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """Parse parameters; raises `ConfigurationError` for invalid ones."""
        sort = one_of("sort", parameters.get("sort", "").strip() or _DEFAULT_SORT, _SORTS)
        limit = int(one_of("limit", parameters.get("limit", str(LIMITS[0])), tuple(map(str, LIMITS))))
        given, filters = given_filters(FIELDS, parameters, limit + 1)  # one more, to see whether there are more
        return cls(given, filters, sort, limit, _cursor(parameters, sort))

    @property
    def is_home(self) -> bool:
        """Whether nothing is asked but what is new."""
        return not self.given and self._begins

    @property
    def is_job(self) -> bool:
        """Whether nothing is asked but what is new of a job."""
        return self.given.keys() == {"job"} and self._begins

    @property
    def _begins(self) -> bool:
        return self.cursor is None and self.sort == _DEFAULT_SORT

    def address(self, **changes: str) -> str:
        """The address of the list with these parameters, and of these only what differs from the default."""
        parameters = {**self.given, **({} if self.sort == _DEFAULT_SORT else {"sort": self.sort})}
        parameters |= {} if self.limit == LIMITS[0] else {"limit": str(self.limit)}
        shown = urlencode({name: text for name, text in {**parameters, **changes}.items() if text}, safe=":/")
        return f"/?{shown}" if shown else "/"

    def sorted_by(self, column: _Column) -> str:
        """The address of the list sorted by a column."""
        return replace(self, sort=column.sort).address()

    @property
    def folds(self) -> bool:
        """Whether the micro-batches of a stream are shown as one row."""
        return self.sort == _DEFAULT_SORT and not self.given.keys() & {"show", "state", "search"}

    def page(self, rows: Sequence[Row]) -> Listed:
        """The page of the rows that were read, of which there may be too many."""
        is_before = self.cursor is not None and self.cursor.is_before
        shown, used = self._folded(rows[::-1] if is_before else rows)
        more = used < len(rows) or len(rows) == MOST_FOLDED
        if is_before:
            shown.reverse()
        if not used:
            return Listed(shown, None, None)
        ends = (rows[-used], rows[-1]) if is_before else (rows[0], rows[used - 1])
        has_before, has_after = (more, True) if is_before else (self.cursor is not None, more)
        before = self.address(before=self._end(ends[0])) if has_before else None
        after = self.address(after=self._end(ends[1])) if has_after else None
        return Listed(shown, before, after, ends)

    def _folded(self, rows: Sequence[Row]) -> tuple[list[Row], int]:
        """The first rows, micro-batches of a stream as one, and how many of them these are."""
        groups, used = fold(rows, self.limit, stream_of if self.folds else lambda _: None)
        latest = (max(group, key=lambda row: (row["started_at"], row["execution_id"])) for group in groups)
        return [as_one(group, row) for group, row in zip(groups, latest, strict=True)], used

    def bounds(self, listed: Listed) -> tuple[Cursor | None, Cursor | None] | None:
        """Where the page begins and ends, None for an end of the list; None for the order of another column."""
        if self.sort != "recent":
            return None
        if listed.ends is None:
            return None, None
        start = end = None
        if listed.before:
            is_after = self.cursor is not None and not self.cursor.is_before
            start = self.cursor if is_after else cursor_at(listed.ends[0], self.sort)
        if listed.after:
            end = cursor_at(listed.ends[1], self.sort, is_before=True)
        return start, end

    def _end(self, row: Row) -> str:
        """A row as `_cursor` reads it; its value, where it is not what the key begins with."""
        by = _SORTS[self.sort]
        value = row[by.column.name] if by.is_nullable else None
        started_at = row["started_at"].isoformat().replace("+00:00", "Z")
        name = f"{row['application_id']}/{row['attempt_id']}/{row['execution_id']}"
        return f"{'' if value is None else value}/{started_at}/{name}"


def _cursor(parameters: Mapping[str, str], sort: str) -> Cursor | None:
    for name in ("before", "after"):
        text = parameters.get(name, "")
        if text:
            try:
                value, started_at, rest = text.split("/", 2)
                application_id, attempt_id, execution_id = rest.rsplit("/", 2)
                at: datetime = parse_moment(name, started_at)
                key = (at, application_id, attempt_id, int(execution_id))
                number = int(value) if value else None
                if max(abs(number or 0), abs(key[3])) >= 1 << 63:
                    raise ValueError
                return Cursor(number if _SORTS[sort].is_nullable else None, key, is_before=name == "before")
            except ValueError:
                raise ConfigurationError(name, text, "not a valid page", "Use a link of the list.") from None
    return None


NO_MARKS: PageSection[tuple[int, str]] = PageSection()


def list_page(
    asked: Asked,
    listed: Listed,
    marks: PageSection[tuple[int, str]] = NO_MARKS,
    jobs: Sequence[str] = (),
    overview: Overview | None = None,
    hidden: str = "",
) -> str:
    """The page as HTML.

    `marks` are the worst severities by the index of the row, `jobs` are offered to choose from, `hidden` says how many
    executions are left out.
    """
    return render(
        "list.html",
        asked=asked,
        path="/",
        first_fields={name: FIELDS[name] for name in _FIRST_FIELDS},
        more_fields={name: field for name, field in FIELDS.items() if name not in _FIRST_FIELDS},
        columns=COLUMNS,
        sorts=_SORTS,
        is_filtered=bool(asked.given),
        listed=listed,
        marks=marks,
        worst=dict(marks.rows),
        jobs=jobs,
        overview=overview,
        hidden=hidden,
    )
