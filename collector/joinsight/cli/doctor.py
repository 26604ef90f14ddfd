"""`joinsight doctor`: checks database, collector and deliveries, or Spark, and says what to do about problems."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text
from sqlalchemy.exc import DBAPIError

from joinsight.base.errors import DatabaseError
from joinsight.base.units import duration_text
from joinsight.cli.check import Check, check_collector, check_writing
from joinsight.cli.collector import collector_options
from joinsight.cli.options import Moment, command, database_options, limit_option
from joinsight.cli.spark_check import check_spark
from joinsight.contract import incomplete
from joinsight.queries.deliveries import read_deliveries
from joinsight.store import event_logs, partitions
from joinsight.store.database import check_schema, open_database, reason, shown_url
from joinsight.store.mark_lost import DEFAULT_LOST_AFTER
from joinsight.tables import Row
from joinsight.terminal import table
from joinsight.terminal.console import console, paragraph_width
from joinsight.terminal.escaping import to_json, visible
from joinsight.terminal.table import Column

_REASONS = 3
_RANGES = 5
_SHIP = (
    "Deliver it from the driver's machine: joinsight ship FOLDER, the collector's in spark.joinsight.spool or in"
    " /tmp/joinsight-spool-USER."
)
_LOG = "The driver's log has lines with Joinsight that say why."
_REFUSED = (
    "They are *.refused in the driver's spool folder. Install the same version of Joinsight in the driver and the"
    " collector; if it is the same, this is a fault of Joinsight's: please report it."
)
_DROPPED = {
    "memory": "Raise spark.joinsight.memoryLimit, or make the spool folder writable.",
    "spool": "Raise spark.joinsight.spoolLimit, and find out why the collector was unavailable.",
}
_MISPLACED = (
    "No month has a partition for them, so they are in the default one. If a clock was wrong, set it: the rows stay"
    " readable, and `joinsight db prune --keep 400d --misdated` deletes them. If the time is right, `joinsight db"
    " upgrade` makes their month's partition and moves them there; a running collector does so within a minute."
)
_FAILED_LOGS = (
    "The table event_log says why (outcome 'failed'). `joinsight backfill` tries them again each time it finds them."
)
_NOTHING = (
    "Is the listener attached? Check spark.jars and spark.extraListeners of the job: `joinsight listener-jar --conf`"
    " prints them. Does spark.joinsight.url name this collector? If something is wrong with these, the driver's log has"
    " a line with Joinsight that says what. Is this the database that your collector writes to?"
)


@command()
@database_options
@collector_options
@click.option("--application", metavar="ID|NAME", help="Only this application.")
@click.option("--since", type=Moment(), help="Only those heard from since: 2h, 7d, 2026-11-20T08:00 (UTC).")
@limit_option(10, most=10_000, of="applications")
@click.option(
    "--spark", "of_spark", is_flag=True, help="Check what the Spark of this machine sends instead, with a query."
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="With --spark: a setting of Spark; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    database_url: str | None,
    data: Path | None,
    application: str | None,
    since: datetime | None,
    limit: int,
    of_spark: bool,
    conf: tuple[str, ...],
    as_json: bool,
    **collector: Any,
) -> None:
    """Check the database, the collector and all deliveries.

    Shows what arrived of the documents of the latest applications, and what to do about each problem. With --spark it
    starts Spark as a job on this machine would, and follows a query until it is stored; that needs no database. Exits
    with 0 when everything is in order, with 1 when something needs attention.
    """
    deliveries: list[Row] = []
    if of_spark:
        if database_url or data or application or since:
            raise click.UsageError("--spark looks at no database: leave out the options of one.")
        checks = [*check_spark(conf, **collector)]
    else:
        if conf:
            raise click.UsageError("--conf needs --spark.")
        checks, deliveries = _check_database(database_url, data, application, since, limit)
        checks += check_collector(**collector)
    now = datetime.now(timezone.utc)
    delivery_checks = [check for row in deliveries for check in examine(row, now)]
    well = not any(check.remedy for check in (*checks, *delivery_checks))
    if as_json:
        result = {"well": well, "checks": [*map(asdict, checks)], "applications": deliveries}
        click.echo(to_json(result | {"findings": [*map(asdict, delivery_checks)]}))
    else:
        _print(console(), checks, deliveries, delivery_checks, now)
    if not well:
        raise SystemExit(1)


def _check_database(
    url: str | None, data: Path | None, application: str | None, since: datetime | None, limit: int
) -> tuple[list[Check], list[Row]]:
    try:
        with open_database(url, data) as engine:
            check_schema(engine)
            checks = [Check("database", f"{shown_url(engine.url)}, schema up to date"), *check_writing(engine)]
            with engine.connect() as connection:
                deliveries = read_deliveries(connection, application, since, limit)
                checks += _check_default_partition(partitions.misdated(connection, limit))
                logs_read = event_logs.summary(connection)
                checks += _check_event_logs(logs_read)
    except DatabaseError as error:
        return [Check("database", str(error), "Nothing can be stored or read until this is fixed.")], []
    except DBAPIError as error:
        return [Check("database", reason(error), "Check this user's privileges, and PostgreSQL's log.")], []
    if not deliveries and logs_read.logs and not application and not since:
        return [*checks, Check("documents", "no listener has sent any; all executions are from event logs")], []
    if not deliveries:
        matching = "matching " if application or since else ""
        return [*checks, Check("documents", f"no {matching}document has ever arrived", _NOTHING)], []
    last = deliveries[0]
    ago = _ago(datetime.now(timezone.utc) - last["last_heard_at"])
    checks.append(Check("documents", f"the last one arrived {ago} ago, from {_application(last)}"))
    return checks, deliveries


def _check_default_partition(misdated: list[Row]) -> Iterator[Check]:
    for row in misdated:
        started = " to ".join(sorted({f"{row[name]:%Y-%m-%d}" for name in ("first_start", "last_start")}))
        yield Check(
            "clock", f"{row['application_id']}: {_executions(row['executions'])} started on {started}", _MISPLACED
        )


def _check_event_logs(logs: event_logs.LogTotals) -> Iterator[Check]:
    if logs.last_read_at is not None:
        ago = _ago(datetime.now(timezone.utc) - logs.last_read_at)
        parts = [
            f"{number:,} {what}" for number, what in ((logs.partial, "in part"), (logs.failed, "failed")) if number
        ]
        found = f"{logs.logs:,} were read, the last one {ago} ago" + (f" ({', '.join(parts)})" if parts else "")
        yield Check("event logs", found, _FAILED_LOGS if logs.failed else None)


def examine(row: Row, now: datetime) -> Iterator[Check]:
    """Check the delivery of a listener's documents, and its executions."""
    what = _application(row)
    silent = now - row["last_heard_at"]
    gone = row["state"] == "lost" or silent > DEFAULT_LOST_AFTER
    if row["state"] != "ended" and gone:
        yield Check(
            what,
            f"driver lost: last contact {_ago(silent)} ago"
            if row["state"] == "lost"
            else f"no contact for {_ago(silent)}, and it has not ended",
            f"If the driver is running, it cannot reach the collector. {_LOG}"
            if row["next_attempt"] is None
            else f"Attempt {row['next_attempt']} started since. YARN's log of this attempt says why it ended.",
        )
    if row["documents_missing"]:
        found = f"{_documents(row['documents_missing'])} made and did not arrive ({_numbers(row['sequences_missing'])})"
        remedy = f"The driver's spool folder may hold them. {_SHIP} What is not there was lost with the driver."
        under_way = row["state"] != "ended" and not gone
        yield Check(
            what, f"{found} yet: the listener keeps trying" if under_way else found, None if under_way else remedy
        )
    refused = row["documents_refused"]
    if refused:
        reason = row["refused_reason"] or "the reason is in the collector's log"
        yield Check(what, f"{_documents(refused)} refused: {reason}", _REFUSED)
    if row["documents_dropped"]:
        causes = sorted(cause for cause, number in (row["documents_dropped_by_cause"] or {}).items() if number)
        remedy = " ".join(_DROPPED.get(cause, _LOG) for cause in causes) or _LOG
        found = f"{_documents(row['documents_dropped'])} dropped in the driver ({', '.join(causes)})"
        yield Check(what, found, remedy)
    if row["events_dropped"]:
        yield Check(
            what,
            f"Spark dropped {row['events_dropped']:,} events before its listeners saw them: some numbers are partial",
            "Raise spark.scheduler.listenerbus.eventqueue.capacity (default: 10000).",
        )
    if row["listener_failures"]:
        yield Check(
            what,
            f"the listener failed {row['listener_failures']:,} times; after ten within an hour it pauses for an hour",
            "The driver's log has the first stack trace. This is a fault of Joinsight's: please report it.",
        )
    lost = row["executions"].get("lost", 0)
    if lost:
        yield Check(
            what,
            f"{_executions(lost)} lost: the numbers are the last ones reported while running",
            f"Was the driver killed? Then its spool folder may hold more. {_SHIP}",
        )
    for reason, number in list(row["incomplete"].items())[:_REASONS]:
        if reason not in incomplete.LOST:
            yield Check(what, f"numbers of {number:,} executions may be partial: {incomplete.generic_text(reason)}")


def _print(out: Console, checks: list[Check], rows: list[Row], delivery_checks: list[Check], now: datetime) -> None:
    for check in checks:
        _print_check(out, check, width=9)
    if rows:
        out.print()
        table.print_columns(out, _columns(rows, now))
    if delivery_checks:
        out.print()
    for check in delivery_checks:
        _print_check(out, check)
    out.print()
    if any(check.remedy for check in (*checks, *delivery_checks)):
        out.print(Text("Something needs attention: see the lines with ✗.", "bold"))
    else:
        out.print(Text("All is well.", "bold"))


def _print_check(out: Console, check: Check, width: int = 0) -> None:
    mark, style = ("✗", "red") if check.remedy else ("✓", "green") if width else ("·", "dim")
    lines = [*_wrapped(out, f"{check.what:<{width}}  {check.found}", 2), *_wrapped(out, check.remedy or "", 4)]
    for first, line in zip((mark, *" " * len(lines)), lines, strict=False):
        out.print(Text.assemble((first, style), line[1:]), soft_wrap=True)


def _wrapped(out: Console, paragraph: str, indent: int) -> list[str]:
    return textwrap.wrap(
        visible(paragraph),
        paragraph_width(out),
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _columns(rows: list[Row], now: datetime) -> list[Column]:
    def numbers(header: str, values: list[int | None]) -> Column:
        return Column(header, [f"{value:,}" if value else "" for value in values], right=True)

    executions = [row["executions"] for row in rows]
    return [
        Column("application", [_application(row) for row in rows]),
        Column("name", [" ".join((row["name"] or "").split()) for row in rows], flexible=True),
        Column("heard", [f"{_ago(now - row['last_heard_at'])} ago" for row in rows], right=True),
        numbers("made", [row["documents_made"] for row in rows]),
        numbers("arrived", [row["documents_arrived"] for row in rows]),
        numbers("missing", [row["documents_missing"] for row in rows]),
        numbers("refused", [row["documents_refused"] for row in rows]),
        numbers("dropped", [row["documents_dropped"] for row in rows]),
        numbers("executions", [sum(states.values()) for states in executions]),
        numbers("running", [states.get("running") for states in executions]),
        numbers("failed", [states.get("failed") for states in executions]),
        numbers("lost", [states.get("lost") for states in executions]),
    ]


def _application(row: Row) -> str:
    """The application's id, with its attempt if it has one: ``application_1_2/1``."""
    return "/".join(filter(None, (row["application_id"], row["attempt_id"])))


def _numbers(ranges: list[list[int]]) -> str:
    """``number 7``, or ``numbers 2, 5 to 9, ...``."""
    shown = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges[:_RANGES]]
    shown += ["..."] * (len(ranges) > _RANGES)
    return ("number " if ranges[0][0] == ranges[-1][1] else "numbers ") + ", ".join(shown)


def _documents(number: int) -> str:
    return f"{number:,} document was" if number == 1 else f"{number:,} documents were"


def _executions(number: int) -> str:
    return f"{number:,} execution was" if number == 1 else f"{number:,} executions were"


def _ago(time: timedelta) -> str:
    """``12 s``; never negative, though the clocks of this machine and the database may differ."""
    return duration_text(max(0, round(time.total_seconds())) * 1000)
