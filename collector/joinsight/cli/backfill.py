"""`joinsight backfill`: imports past runs from Spark event logs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from joinsight.base.errors import ConfigurationError
from joinsight.base.units import bytes_text
from joinsight.cli.options import command, database_options, master_option
from joinsight.spark.packages import CONNECTIONS
from joinsight.store import URL_VARIABLE
from joinsight.terminal.console import console, progress
from joinsight.terminal.escaping import to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from joinsight.backfill.run import Progress, Report
    from joinsight.backfill.tasks import LogResult

_MB = 1_000_000
_LEAST_RATED = 10 * _MB
"""Below this, the start takes most of the time."""
_LINE_SECONDS = 10
_EXAMPLES = 3
"""Files that are not event logs, of which the report names no more than these."""


@command("backfill")
@database_options
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@master_option
@click.option(
    "--connections",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=CONNECTIONS,
    show_default=True,
    help="Maximum concurrent connections to PostgreSQL, and logs written at once.",
)
@click.option("--again", is_flag=True, help="Also read logs that have not changed since they were last read.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every log that was read.")
def backfill(
    database_url: str | None,
    data: Path | None,
    paths: tuple[str, ...],
    master: str | None,
    connections: int,
    again: bool,
    as_json: bool,
) -> None:
    """Import past runs from Spark event logs.

    PATH is a log, a folder that is searched for logs, or a pattern (/logs/2026-*), on any file system that Spark
    supports: hdfs://..., s3a://... Logs that have not changed since they were read are skipped, so you can run it every
    night on the same folder; a run that was stopped is continued.

    Logs on local disks are read on this machine, one per core, unless --master is given; Spark reads all others.

    Exits with 0 if everything readable was read, with 1 if something should be tried again.
    """
    from joinsight.backfill import run
    from joinsight.backfill.listing import check_local
    from joinsight.findings.thresholds import VARIABLE, Thresholds, split
    from joinsight.store.database import check_schema, open_database

    check_local(run.local_paths(paths))
    thresholds = Thresholds().overridden(split(os.environ.get(VARIABLE, "")), VARIABLE)
    embedded = not (database_url or os.environ.get(URL_VARIABLE))
    with ExitStack() as stack:
        engine = stack.enter_context(open_database(database_url, data, create=True))
        check_schema(engine)
        spark = None
        if master is not None or not run.can_read_here(paths):
            spark = stack.enter_context(_spark(master))
            if embedded and not spark.sparkContext.master.startswith("local"):
                problem = "the embedded database cannot be reached from a cluster"
                raise ConfigurationError(URL_VARIABLE, None, problem, "Name a PostgreSQL server.")
        with following() as follow:
            report = run.backfill(
                spark, engine, paths, again=again, connections=connections, thresholds=thresholds, follow=follow
            )
    if as_json:
        click.echo(to_json(_as_json(report)))
    else:
        print_report(console(), report)
    if not report.is_complete:
        raise SystemExit(1)


def _spark(master: str | None) -> AbstractContextManager[SparkSession]:
    if importlib.util.find_spec("pyspark") is None:
        problem = "these event logs are read by Spark, and PySpark is not installed"
        raise ConfigurationError("pyspark", None, problem, "pip install 'joinsight[spark]'")
    from joinsight.spark.session import session

    return session("joinsight backfill", master, shows_progress=False)


@contextmanager
def following() -> Iterator[Callable[[Progress], None]]:
    """A progress bar on a terminal, else a line every `_LINE_SECONDS`."""
    last_line_at = 0.0
    with progress() as bar:
        task = bar.add_task("Looking for event logs", total=None)

        def follow(now: Progress) -> None:
            nonlocal last_line_at
            read_by_now = f"{now.bytes / _MB:,.0f} of {now.of_bytes / _MB:,.0f} MB"
            bar.update(task, completed=now.logs, total=now.of_logs, description=f"Event logs ({read_by_now})")
            if not bar.console.is_terminal and now.seconds - last_line_at >= _LINE_SECONDS:
                last_line_at = now.seconds
                click.echo(
                    f"{now.logs:,} of {now.of_logs:,} event logs after {now.seconds:.0f} s: {read_by_now}", err=True
                )

        yield follow


def print_report(out: Console, report: Report) -> None:
    """Print a line for each problem, then the totals."""
    from joinsight.backfill.log_file import name_of

    def print_line(line: str) -> None:
        out.print(line, soft_wrap=True)

    for folder, reason in report.unreadable.items():
        print_line(f"{folder} cannot be listed: {reason}")
    for folder in report.empty:
        print_line(f"{folder} is a rolling event log without files: skipped")
    for each in report.done:
        for problem in each.entry.problems:
            print_line(f"{each.entry.path} ({each.entry.outcome}): {problem}")
    if not report.found:
        print_line("No event logs found.")
    if report.left_out:
        number = len(report.left_out)
        names = ", ".join(map(name_of, report.left_out[:_EXAMPLES])) + (", ..." if number > _EXAMPLES else "")
        print_line(f"{number:,} files are not event logs: {names}" if number > 1 else f"Not an event log: {names}")
    if not report.found:
        return
    done = report.done
    size = report.event_bytes
    speed = f", {size / _MB / report.seconds:,.0f} MB/s" if size >= _LEAST_RATED and report.seconds else ""
    print_line(
        f"{len(done):,} of {report.found:,} event logs read: {_sum(done, 'executions'):,} executions,"
        f" {bytes_text(size)} of events in {report.seconds:.1f} s{speed}"
    )
    for number, what in (
        (len(report.of("whole")), "whole"),
        (len(report.of("partial")), "partial: some of their content cannot be read, see above"),
        (len(report.of("failed")), "failed: the next run tries them again"),
        (len(report.unreadable), "folders failed: the next run tries them again"),
        (sum(each.entry.is_open for each in done), "of these belong to running applications and may grow"),
        (
            sum(each.entry.is_compacted for each in done),
            "of these compacted: the History Server removed ended executions",
        ),
        (sum(each.entry.missing_files > 0 for each in done), "of these without some of their files"),
        (report.unchanged, f"unchanged since they were read, {report.unchanged_partial:,} of them partial"),
        (sum(each.stored for each in done), "documents stored or updated"),
        (sum(each.repaired for each in done), "executions repaired, which the listener had reported in part"),
    ):
        if number:
            print_line(f"  {number:,} {what}")


def _sum(done: list[LogResult], name: str) -> int:
    return sum(getattr(each.entry, name) for each in done)


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "complete": report.is_complete,
        "found": report.found,
        "read": len(report.done),
        **{outcome: len(report.of(outcome)) for outcome in ("whole", "partial", "failed")},
        "unchanged": report.unchanged,
        "unchanged_partial": report.unchanged_partial,
        "unreadable_folders": report.unreadable,
        "empty_folders": report.empty,
        "left_out_files": len(report.left_out),
        "left_out_examples": report.left_out[:_EXAMPLES],
        "executions": _sum(report.done, "executions"),
        "documents_stored": sum(each.stored for each in report.done),
        "executions_repaired": sum(each.repaired for each in report.done),
        "event_bytes": report.event_bytes,
        "seconds": round(report.seconds, 3),
        "logs": [
            asdict(each.entry) | {"documents_stored": each.stored, "executions_repaired": each.repaired}
            for each in report.done
        ],
    }
