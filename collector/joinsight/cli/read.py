"""What the commands of `lists` print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.cli.listing import read_listing
from joinsight.plan.rewritten import changed_rows
from joinsight.plan.table_files import table_files
from joinsight.present.cost import between
from joinsight.present.values import (
    build_side,
    execution_name,
    join_keys,
    number_text,
    partitioned_by,
    partitions,
    query_title,
    short_key,
    when,
)
from joinsight.queries import reading
from joinsight.queries.filters import Filters
from joinsight.store.database import open_store
from joinsight.tables import Row
from joinsight.terminal import table
from joinsight.terminal.console import console, print_text
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.terminal.execution import print_execution
from joinsight.terminal.table import Column


def print_list(
    name: str, *, database_url: str | None, data: Path | None, sort: str, as_json: bool, **given: Any
) -> None:
    """Print a list of `filters.LISTS`."""
    listing = read_listing(database_url, data, name, Filters(**given), sort)
    rows = listing.rows
    if as_json:
        for row in rows:
            click.echo(to_json(row))
    elif rows:
        print_table(console(), _TABLES[name](rows), rows)
    if listing.is_empty:
        click.echo(reading.EMPTY, err=True)
    elif not rows:
        what = "executions" if name == "queries" else name
        click.echo(f"No matching {what}. `joinsight queries` without filters shows the latest executions.", err=True)
    elif listing.rest:
        click.echo(listing.rest, err=True)
    if listing.hidden:
        click.echo(listing.hidden, err=True)


def print_stored(
    execution: str,
    *,
    database_url: str | None,
    data: Path | None,
    version: int | None,
    all_versions: bool,
    metrics: bool,
    as_json: bool,
) -> None:
    """Print the execution of this name."""
    with open_store(database_url, data) as connection:
        stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    if as_json:
        files, changed = table_files(stored.plan), changed_rows(stored.plan)
        everything = {
            "execution": stored.execution,
            "versions": stored.versions,
            "decisions": stored.decisions,
            "findings": stored.findings,
            "metrics": stored.metrics,
            "segments": stored.segments,
            "task_times": stored.task_times,
            "caches": stored.caches,
            "files": None if files is None else asdict(files),
            "rows": None if changed is None else asdict(changed),
        }
        click.echo(to_json(everything))
        return
    numbers = range(len(stored.versions)) if all_versions else [version]
    print_execution(console(), stored, numbers, metrics=metrics)


def query_table(rows: list[Row]) -> list[Column]:
    """The columns of `joinsight queries`."""
    return [
        *_identity(rows),
        _jobs(rows),
        Column("started", [when(r["started_at"]) for r in rows]),
        Column("state", [state_text(r["state"]) for r in rows]),
        _short_keys("shape", rows, "query_shape"),
        Column("query", [_title_and_line(r) for r in rows], flexible=True),
        _durations("time", rows, "duration_ms"),
        _sizes("shuffled", rows, "shuffle_write_bytes"),
        _sizes("broadcast", rows, "broadcast_bytes", drop=4),
        _sizes("spilled", rows, "disk_spilled_bytes", drop=5),
    ]


def _title_and_line(r: Row) -> Text:
    """The line that it was called from, the title, and where there is room its user."""
    text = Text(f"{visible_line(r['called_from'])}  " if r["called_from"] else "", "dim")
    text.append(visible_line(query_title(r)), "not dim")
    if r["nested"] and not r["is_outer"]:
        text.append(f"  +{r['nested']}", "dim")
    if r["user_name"]:
        text.append(f"  by {visible_line(r['user_name'])}", "dim")
    return text


def shuffle_table(rows: list[Row]) -> list[Column]:
    """The columns of `joinsight shuffles`."""
    return [
        *_identity(rows),
        _short_keys("operator", rows, "operator_key"),
        Column("partitioned by", [partitioned_by(r) for r in rows], flexible=True),
        _sizes("written", rows, "bytes_written"),
        _numbers("rows", rows, "rows_written", drop=2),
        Column("partitions", [partitions(r) for r in rows], right=True),
        _durations("wait", rows, "fetch_wait_ms"),
        Column("skew", [ratio_text(r["skew_ratio"]) for r in rows], right=True),
        Column("AQE", [" ".join(r["aqe_read"] or ()) for r in rows], drop=4),
    ]


def broadcast_table(rows: list[Row]) -> list[Column]:
    """The columns of `joinsight broadcasts`."""
    return [
        *_identity(rows),
        _short_keys("operator", rows, "operator_key"),
        Column("query", [query_title(r) for r in rows], flexible=True),
        Column("outcome", [state_text(r["outcome"]) for r in rows]),
        _sizes("size", rows, "size_bytes"),
        _numbers("rows", rows, "rows"),
        _durations("collect", rows, "collect_ms"),
        _durations("build", rows, "build_ms"),
        _durations("send", rows, "broadcast_ms"),
    ]


def join_table(rows: list[Row]) -> list[Column]:
    """The columns of `joinsight joins`."""
    return [
        *_identity(rows),
        _short_keys("operator", rows, "operator_key"),
        Column("strategy", [r["strategy"] + (" (skew)" if r["is_skew"] else "") for r in rows]),
        Column("type", [r["join_type"] or "" for r in rows], drop=3),
        Column("build", [build_side(r) for r in rows]),
        Column("on", [join_keys(r) for r in rows], flexible=True),
        _numbers("left rows", rows, "left_rows", drop=2),
        _numbers("right rows", rows, "right_rows", drop=1),
        _numbers("rows out", rows, "output_rows"),
        _sizes("in-memory spill", rows, "spill_bytes", drop=4),
        Column("wall time", [_wall_time(r) for r in rows], right=True, drop=1),
    ]


def _wall_time(r: Row) -> str:
    """That of a join with what only it needed."""
    return between(r["cost_wall_ms"], r["cost_most_wall_ms"], is_partial=bool(r["cost_is_partial"]))


def print_table(out: Console, columns: list[Column], rows: list[Row]) -> None:
    """Print a table, under the name of the application if all rows have the same."""
    if len({(r["application_id"], r["attempt_id"]) for r in rows}) == 1:
        attempt = f", attempt {rows[0]['attempt_id']}" if rows[0]["attempt_id"] else ""
        print_text(out, Text(f"Application {rows[0]['application_id']}{attempt}, times in UTC", "dim"))
    table.print_columns(out, columns)


def _identity(rows: list[Row]) -> list[Column]:
    """The execution's id, with its application if the rows have several."""
    single = len({(r["application_id"], r["attempt_id"]) for r in rows}) == 1
    return [
        Column("id" if single else "execution", [str(r["execution_id"]) if single else execution_name(r) for r in rows])
    ]


def _jobs(rows: list[Row]) -> Column:
    """The job, if the rows have several."""
    several = len({r["job_name"] for r in rows}) > 1
    return Column("job", [r["job_name"] if several else "" for r in rows], drop=1)


def _sizes(header: str, rows: list[Row], name: str, drop: int = 0) -> Column:
    return Column(header, ["" if not r[name] else bytes_text(r[name]) for r in rows], right=True, drop=drop)


def _numbers(header: str, rows: list[Row], name: str, drop: int = 0) -> Column:
    return Column(header, [number_text(r[name]) for r in rows], right=True, drop=drop)


def _durations(header: str, rows: list[Row], name: str) -> Column:
    return Column(header, ["" if r[name] is None else duration_text(r[name]) for r in rows], right=True)


def _short_keys(header: str, rows: list[Row], name: str) -> Column:
    """Keys shortened to a prefix that `--shape` and `--operator` accept."""
    return Column(header, [short_key(r[name]) for r in rows], drop=3)


def state_text(state: str) -> Text:
    """The state of an execution, in its colour."""
    return Text(
        "ok" if state == "succeeded" else state,
        style={"failed": "red", "lost": "red", "running": "cyan", "cancelled": "dim"}.get(state, ""),
    )


_TABLES: Mapping[str, Callable[[list[Row]], list[Column]]] = {
    "queries": query_table,
    "shuffles": shuffle_table,
    "broadcasts": broadcast_table,
    "joins": join_table,
}
