"""Names, texts and numbers of stored rows as plain text."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from joinsight.plan.texts import join_on, without_ids

if TYPE_CHECKING:
    from joinsight.tables import Row

_SHORT_KEY = 8


def execution_name(r: Row) -> str:
    """``APPLICATION/ATTEMPT/ID`` or ``APPLICATION/ID``, for `joinsight plan` and addresses of pages."""
    attempt = f"{r['attempt_id']}/" if r["attempt_id"] else ""
    return f"{r['application_id']}/{attempt}{r['execution_id']}"


def query_title(r: Row) -> str:
    """What to call the query of an execution, an operator or a finding; its name if it has no title."""
    return r["query_title" if "query_title" in r else "title"] or execution_name(r)


def when(moment: datetime) -> str:
    """Format a time in UTC, to the minute."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")


def one_line(text: str) -> str:
    """Collapse runs of white space to single blanks."""
    return " ".join(text.split())


def number_text(value: int | None) -> str:
    """``1,500,000``; empty for None."""
    return "" if value is None else f"{value:,}"


def hidden_text(number: int, most: int) -> str:
    """``12 more without work of their own``: what a list leaves out, counted up to `most`; empty for none."""
    counted = f"{number:,} or more" if number == most else f"{number:,} more"
    return f"{counted} without work of their own" if number else ""


def short_key(key: str | None) -> str:
    """The part of a key that tables show; `--shape` and `--operator` accept it."""
    return (key or "")[:_SHORT_KEY]


def partitioned_by(r: Row) -> str:
    """A shuffle's keys, else its partitioning."""
    return without_ids(", ".join(r["keys"] or ()) or r["partitioning"] or "")


def partitions(r: Row) -> str:
    """A shuffle's number of partitions as planned, and as AQE reads them if that differs: ``200→7``."""
    planned, now = r["partitions"], r["aqe_partitions"]
    return number_text(planned) if now is None or now == planned else f"{number_text(planned)}→{number_text(now)}"


def build_side(r: Row) -> str:
    """The side that a join builds; with a question mark, the side that could have been broadcast."""
    could_be = f"{r['broadcast_side']}?" if r["broadcast_verdict"] == "possible" else ""
    built = r["build_side"] or ""
    return could_be if could_be.startswith(built) else f"{built}, {could_be}".removesuffix(", ")


def join_keys(r: Row) -> str:
    """A join's keys, else its condition."""
    return join_on(r["left_keys"] or (), r["right_keys"] or (), r["condition"])
