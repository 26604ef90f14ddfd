"""`joinsight regressions`: queries and operators that are worse than in earlier runs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from joinsight.base.units import duration_text, ratio_text
from joinsight.cli.options import Moment, command, database_options, expert_option, json_lines_option, limit_option
from joinsight.present.regressions import KINDS, causes_text, measure, none_found, reason, slower_than_last, value
from joinsight.present.values import execution_name, query_title, short_key, when

if TYPE_CHECKING:
    from joinsight.tables import Row


@command()
@database_options
@click.option(
    "--since", type=Moment(), default="7d", show_default=True, help="Check the runs since this time: 7d, 2026-11-20."
)
@click.option("--job", metavar="NAME", help="Only of this job (spark.joinsight.jobName).")
@click.option("--kind", type=click.Choice(list(KINDS)), help="Only of this kind.")
@limit_option()
@json_lines_option
@expert_option(
    "--baseline-runs", metavar="N", type=click.IntRange(1, 1000), help="Earlier runs to compare with.  [default: 20]"
)
@expert_option(
    "--minimum-runs",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Earlier runs that are needed to report anything.  [default: 5]",
)
@expert_option(
    "--mads",
    metavar="N",
    type=click.FloatRange(0),
    help="Scaled MADs of the earlier runs that a regression exceeds.  [default: 3]",
)
@expert_option(
    "--minimum-change",
    metavar="N",
    type=click.FloatRange(0),
    help="Share of the baseline that a regression exceeds.  [default: 0.3]",
)
def regressions(
    database_url: str | None,
    data: Path | None,
    since: datetime,
    job: str | None,
    kind: str | None,
    limit: int,
    as_json: bool,
    **thresholds: float | None,
) -> None:
    """List queries and operators that have become worse.

    The latest runs since --since are compared with earlier runs of the same query in the same job. The most costly
    regressions come first, before them those that are certain: a collector watches all runs of each query, its failures
    and cancelled runs, too (joinsight docs regressions).
    """
    from joinsight.alarms.causes import MOST_EXPLAINED, first_causes
    from joinsight.cli.listing import print_rows
    from joinsight.queries import reading, trends  # here, because the help needs no database
    from joinsight.queries.regressions import MINIMUM_RUNS, RECENT_RUNS, count_comparable, read_regressions
    from joinsight.store.database import open_store

    given = {name: value for name, value in thresholds.items() if value is not None}
    with open_store(database_url, data) as connection:
        rows = read_regressions(connection, since, given, job=job, kind=kind, limit=limit + 1)
        least = int(given.get("minimum_runs", MINIMUM_RUNS))
        counted = None if rows else count_comparable(connection, since, least, job)
        is_young = counted is not None and counted["queries"] and not counted["comparable"]
        slower = trends.read_slower_than_last(connection, since, job, limit=limit) if is_young else []
        is_empty = not rows and reading.is_empty(connection)
        for row in [row for row in rows if row["subject"] == "query"][:MOST_EXPLAINED]:
            row["causes"] = [asdict(cause) for cause in first_causes(connection, row)]
        for row in rows:
            row.setdefault("causes", None)
        unexplained = [] if as_json else [row for row in rows if row["kind"] == "same_plan"]
        for row in unexplained:
            row["reason"] = reason(trends.read_work(connection, row)) if row["subject"] == "query" else ""
    print_rows(rows, limit, None if as_json else _print)
    if counted is not None:
        click.echo(reading.EMPTY if is_empty else none_found(counted, since, least, RECENT_RUNS), err=True)
    if slower and not as_json:
        _print_slower(slower)


def _print(rows: list[Row]) -> None:
    from rich.text import Text

    from joinsight.terminal import table
    from joinsight.terminal.console import console, cut_at, print_line
    from joinsight.terminal.table import Column

    columns = [
        Column("job", [row["job_name"] for row in rows], flexible=True),
        Column("query", [short_key(row["query_shape"]) for row in rows]),
        Column("what", [measure(row) for row in rows]),
        Column("before", [value(row, "baseline") for row in rows], right=True),
        Column("now", [value(row, "current") for row in rows], right=True),
        Column("factor", [ratio_text(row["factor"]) for row in rows], right=True),
        Column("why", [KINDS[row["kind"]] for row in rows]),
        Column("level", [row["level"] for row in rows]),
        Column("cost", [duration_text(row["cost_ms"]) if row["cost_ms"] else "" for row in rows], right=True),
    ]
    out = console()
    header, *lines = table.lines(columns, cut_at(out))
    out.print(header, soft_wrap=True)
    for row, line in zip(rows, lines, strict=True):
        out.print(line, soft_wrap=True)
        print_line(out, Text(f"  {_details(row)}", "dim"))
        if row["application_id"] is None or row["baseline_application_id"] is None:
            continue  # failures
        before = execution_name({name: row[f"baseline_{name}"] for name in _NAME})
        out.print(Text(f"  joinsight diff {before} {execution_name(row)}", "dim"), soft_wrap=True)


def _print_slower(rows: list[Row]) -> None:
    from rich.text import Text

    from joinsight.terminal.console import console, print_line

    out = console()
    out.print("Until then, slower than their previous run:")
    for row in rows:
        print_line(out, Text(f"{query_title(row)} in {row['job_name']}: {slower_than_last(row)}"))
        before = execution_name({name: row[f"baseline_{name}"] for name in _NAME})
        out.print(Text(f"  joinsight why {before} {execution_name(row)}", "dim"), soft_wrap=True)


_NAME = ("application_id", "attempt_id", "execution_id")


def _details(row: Row) -> str:
    runs = f"{row['bad_runs']} run{'' if row['bad_runs'] == 1 else 's'}"
    parts = [f"since {when(row['since'])}, {runs}"]
    if row["data_factor"] is not None:
        parts.append(f"{ratio_text(row['data_factor'])} the data")
    if row["causes"]:
        parts.append(causes_text(row["causes"]))
    elif row.get("reason"):
        parts.append(row["reason"])
    if row["operator_key"]:
        parts.append(f"{row['subject']} {short_key(row['operator_key'])}")
    return "; ".join([*parts, row["title"] or short_key(row["query_shape"])])
