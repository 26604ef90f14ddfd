"""What the lists have in common: their rows, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
from sqlalchemy import Connection

from joinsight.analysis.stored import StoredPlan
from joinsight.present.values import hidden_text
from joinsight.queries import lists, reading
from joinsight.queries.filters import Filters, Of
from joinsight.store.database import open_store
from joinsight.tables import Row
from joinsight.terminal.escaping import to_json

_COUNTED = 1_000
"""Rows that are counted beyond those that are shown."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows to show. `total`: how many there are, but none are counted beyond `_COUNTED`."""

    rows: list[Row]
    total: int
    is_empty: bool
    """No execution is stored."""
    checked: tuple[int, StoredPlan | None] | None = None
    """`lists.read_checked`, for findings of whole executions if there are none."""
    hidden: str | None = None
    """``12 more without work of their own (--show all)``; None for no more."""

    @property
    def rest(self) -> str | None:
        """``20 of 27 shown (all: --limit 27)``; None if all are shown."""
        shown = len(self.rows)
        if shown == self.total:
            return None
        if shown >= _COUNTED:
            return f"{shown:,} shown, there are more (--limit)"
        if self.total > _COUNTED:
            return f"{shown:,} of more than {_COUNTED:,} shown (more: --limit, or filters)"
        return f"{shown:,} of {self.total:,} shown (all: --limit {self.total})"


def read_listing(database_url: str | None, data: Path | None, name: str, filters: Filters, sort: str) -> Listing:
    """The rows of a list of `lists.read_list`."""
    with open_store(database_url, data) as connection:
        rows = lists.read_list(connection, name, replace(filters, limit=filters.limit + 1), sort)
        total = len(rows)
        if filters.limit < total and filters.limit < _COUNTED:
            total = lists.count(connection, name, filters, sort, _COUNTED + 1)
        hidden = _hidden(connection, filters, rows) if (name, sort) == ("queries", "recent") else None
        is_empty = not rows and reading.is_empty(connection)
        is_checked = not rows and name.startswith("finding") and not filters.given(Of.OPERATOR)
        checked = lists.read_checked(connection, filters) if is_checked else None
        return Listing(rows[: filters.limit], total, is_empty, checked, hidden)


def _hidden(connection: Connection, filters: Filters, rows: list[Row]) -> str | None:
    last = rows[filters.limit - 1] if len(rows) > filters.limit else None
    end = lists.cursor_at(last, "recent", is_before=True) if last else None
    hidden = hidden_text(lists.count_hidden(connection, filters, None, end), lists.MOST_HIDDEN)
    return f"{hidden} (--show all)" if hidden else None


def print_rows(rows: list[Row], limit: int, table: Callable[[list[Row]], None] | None) -> None:
    """Print the first of these, of which one more than `limit` was read: as a table, or as JSON for None."""
    shown = rows[:limit]
    if table is None:
        for row in shown:
            click.echo(to_json(row))
    elif shown:
        table(shown)
    if len(rows) > limit:
        click.echo(f"{limit:,} shown, there are more (--limit)", err=True)
