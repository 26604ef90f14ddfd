"""What the commands of `lists` print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from joinsight import reading
from joinsight.cli import findings_text, table, tree
from joinsight.cli.console import console, cut_at, paragraph_width, print_text
from joinsight.cli.listing import read_listing
from joinsight.cli.table import Column
from joinsight.display import bytes_text, duration_text
from joinsight.filters import Filters
from joinsight.present import (
    build_side,
    caches,
    decisions,
    execution_name,
    join_keys,
    number_text,
    one_line,
    partitioned_by,
    partitions,
    query_title,
    ratio_text,
    short_key,
    when,
)
from joinsight.present.task_time import by_operator
from joinsight.present.time_spent import by_cause
from joinsight.reading import StoredPlan
from joinsight.store.database import check_schema, open_database
from joinsight.tables import Row
from joinsight.terminal import to_json, visible_line
from joinsight.verdict import Verdict, judge

_ERROR_LENGTH = 500
"""Characters of an error that a terminal shows."""


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
    with open_database(database_url, data) as engine:
        check_schema(engine)
        with engine.connect() as connection:
            stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    if as_json:
        everything = {
            "execution": stored.execution,
            "versions": stored.versions,
            "decisions": stored.decisions,
            "findings": stored.findings,
            "metrics": stored.metrics,
            "segments": stored.segments,
            "task_times": stored.task_times,
            "caches": stored.caches,
        }
        click.echo(to_json(everything))
        return
    numbers = range(len(stored.versions)) if all_versions else [version]
    print_execution(console(), stored, numbers, metrics=metrics)


def print_execution(
    out: Console, stored: StoredPlan, versions: Sequence[int | None] = (None,), *, metrics: bool = False
) -> None:
    """Print an execution with these plan versions; None: the final one."""
    print_header(out, stored)
    for number in versions:
        print_plan(out, stored, number, metrics=metrics)
    print_time(out, stored)
    print_task_time(out, stored)
    print_caches(out, stored)
    print_findings_of(out, stored)


def print_header(out: Console, stored: StoredPlan, verdict: Verdict | None = None) -> None:
    """Print the execution's title, state, keys and errors, and the verdict on it."""
    e = stored.execution
    print_text(out, Text(query_title(e), style="bold"))
    how = f"{e['state']} after {duration_text(e['duration_ms'])}" if e["duration_ms"] is not None else e["state"]
    versions = f", {e['plan_versions']} plans" if e["plan_versions"] > 1 else ""
    line = f"  from {e['called_from']}" if e["called_from"] else ""
    line += f"  by {e['user_name']}" if e["user_name"] else ""
    print_text(out, Text(f"{execution_name(e)}  {when(e['started_at'])}  {how}{versions}{line}", "dim"))
    if e["query_shape"]:
        print_text(out, Text(f"shape {e['query_shape']}, final plan {e['plan_fingerprint']}", "dim"))
    if e["origin"] == "event_log":
        out.print(Text("read from an event log", "dim"))
    if e["error"]:
        error = Text(one_line(e["error"]), style="red")
        if cut_at(out) is not None:
            error.truncate(_ERROR_LENGTH, overflow="ellipsis")
        print_text(out, error)
    for reason in e["incomplete"] or ():
        print_text(out, Text(f"These numbers may be partial: {reason}", style="yellow"))
    _print_verdict(out, verdict or judge(stored))


def _print_verdict(out: Console, verdict: Verdict) -> None:
    """Print where the time went and what to do first."""
    print_text(out, Text(f"\n{visible_line(verdict.text)}"))
    print_text(out, Text(visible_line(verdict.next), "bold"))


def print_plan(out: Console, stored: StoredPlan, number: int | None, *, metrics: bool = False) -> None:
    """Print a plan version with AQE's decisions in it; for None, the final one with all decisions."""
    version = stored.version(number)
    if version is None:
        out.print("(No plan: the execution failed before Spark had one.)")
        return
    if number is not None:
        kind = "the final plan" if version["is_final"] else "replaced by AQE; numbers are those at the end"
        after = decisions.moment(stored, version["planned_at"])
        out.print(Text(f"\nPlan {version['version']}, {after} after the start: {kind}", "bold"))
    for line in tree.draw(stored, version, width=cut_at(out), metrics=metrics):
        out.print(line, soft_wrap=True)
    decided = list(decisions.lines(stored, number))
    if decided:
        out.print(Text("AQE decided:", "bold"))
    for plan_version, decision in decided:
        out.print(Text(f"  plan {plan_version}, {decision}"), soft_wrap=True)


def print_time(out: Console, stored: StoredPlan) -> None:
    """Print what the wall time went into, the largest part first."""
    spent = by_cause(stored.segments)
    if spent:
        out.print(Text("Where the time went:", "bold"))
    for each in spent:
        length = f"{each.cause:<9} {duration_text(each.ms):>8} {each.share:>6.1%}"
        out.print(Text(f"  {length}  {each.places}".rstrip()), soft_wrap=True)


def print_task_time(out: Console, stored: StoredPlan) -> None:
    """Print what the run time of tasks went into, the largest part first, if something of it was sampled."""
    spent = by_operator(stored)
    if spent:
        out.print(Text("Task time:", "bold"))
    for each in spent:
        length = f"{each.part:<15} {duration_text(each.ms):>8} {each.error:<8} {each.share:>6.1%}"
        out.print(Text(f"  {length}  {visible_line(each.place)}".rstrip()), soft_wrap=True)


def print_caches(out: Console, stored: StoredPlan) -> None:
    """Print the cached tables that the execution filled or read."""
    if stored.caches:
        out.print(Text("Cached tables:", "bold"))
    for row in stored.caches:
        out.print(Text(f"  {visible_line(caches.line(row))}"), soft_wrap=True)


def print_findings_of(out: Console, stored: StoredPlan) -> None:
    """Print the findings of the execution, the worst first."""
    if stored.findings:
        out.print(Text("Findings:", "bold"))
    for row in stored.findings:
        for line in findings_text.lines({**row, "duration_ms": stored.execution["duration_ms"]}, paragraph_width(out)):
            out.print(line, soft_wrap=True)


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
    """The title, and where there is room the line that it was called from and its user."""
    text = Text(visible_line(query_title(r)))
    for prefix, name in (("", "called_from"), ("by ", "user_name")):
        if r[name]:
            text.append(f"  {prefix}{visible_line(r[name])}", "dim")
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
    least = "≥ " if r["cost_is_partial"] else ""
    return f"{least}{duration_text(r['cost_wall_ms'])}" if r["cost_wall_ms"] is not None else ""


def print_table(out: Console, columns: list[Column], rows: list[Row]) -> None:
    """Print a table, under the name of the application if all rows have the same."""
    if len({(r["application_id"], r["attempt_id"]) for r in rows}) == 1:
        attempt = f", attempt {rows[0]['attempt_id']}" if rows[0]["attempt_id"] else ""
        print_text(out, Text(f"Application {rows[0]['application_id']}{attempt}, times in UTC", "dim"))
    for line in table.lines(columns, cut_at(out)):
        out.print(line, soft_wrap=True)


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
