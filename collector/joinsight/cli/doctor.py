"""`joinsight doctor`: is everything there, has everything arrived, and if not, what does it mean, what can be done."""

from __future__ import annotations

import gzip
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.text import Text
from sqlalchemy.exc import DBAPIError

from joinsight import incomplete
from joinsight.cli import read, table
from joinsight.cli.collector import collector_options, open_collector, reason_of, send
from joinsight.cli.options import database_options
from joinsight.cli.table import Column
from joinsight.display import duration_text
from joinsight.errors import DatabaseError
from joinsight.reading import read_deliveries
from joinsight.rows import Row
from joinsight.store import ledger, partitions
from joinsight.store.database import check_schema, open_database, reason
from joinsight.store.lost import DEFAULT_LOST_AFTER
from joinsight.terminal import console, to_json, visible

_ANSWER_SECONDS = 10.0
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
    "memory": "Raise spark.joinsight.memoryLimit, or see that the spool folder can be written.",
    "spool": "Raise spark.joinsight.spoolLimit, and see why the collector was away.",
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


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `remedy` is what to do, if it needs attention."""

    what: str
    found: str
    remedy: str | None = None


@click.command()
@database_options
@collector_options
@click.option("--application", metavar="ID|NAME", help="Only this application.")
@click.option("--since", type=read.Moment(), help="Only those heard of since: 2h, 7d, 2026-11-20T08:00 (UTC).")
@click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Applications, at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(
    database_url: str | None,
    data: Path | None,
    application: str | None,
    since: datetime | None,
    limit: int,
    as_json: bool,
    **collector: Any,
) -> None:
    """Say whether everything is there and everything arrived, and what to do if not.

    Looks at the database, the collector, and what became of the documents of the applications heard of last.
    Exits with 0 when all is well, with 1 when something needs attention.
    """
    findings, deliveries = _look_at_database(database_url, data, application, since, limit)
    findings += look_at_collector(**collector)
    now = datetime.now(timezone.utc)
    troubles = [finding for row in deliveries for finding in examine(row, now)]
    well = not any(finding.remedy for finding in (*findings, *troubles))
    if as_json:
        found = {"well": well, "checks": [*map(asdict, findings)], "applications": deliveries}
        click.echo(to_json(found | {"findings": [*map(asdict, troubles)]}, read.json_value))
    else:
        _print(console(), findings, deliveries, troubles, now)
    if not well:
        raise SystemExit(1)


def _look_at_database(
    url: str | None, data: Path | None, application: str | None, since: datetime | None, limit: int
) -> tuple[list[Finding], list[Row]]:
    try:
        with open_database(url, data) as engine:
            check_schema(engine)
            findings = [Finding("database", f"{engine.url.render_as_string(hide_password=True)}, schema up to date")]
            with engine.connect() as connection:
                deliveries = read_deliveries(connection, application, since, limit)
                findings += _look_at_default_partition(partitions.misplaced(connection, limit))
                event_logs = ledger.summary(connection)
                findings += _look_at_event_logs(event_logs)
    except DatabaseError as error:
        return [Finding("database", str(error), "Nothing can be stored or read until this is mended.")], []
    except DBAPIError as error:
        return [Finding("database", reason(error), "Check the rights of this user, and PostgreSQL's log.")], []
    if not deliveries and event_logs.logs and not application and not since:
        return [*findings, Finding("documents", "no listener has sent any; what is here is of event logs")], []
    if not deliveries:
        asked = " that fits" if application or since else ""
        return [*findings, Finding("documents", f"no document{asked} has ever arrived", _NOTHING)], []
    last = deliveries[0]
    ago = _ago(datetime.now(timezone.utc) - last["last_heard_at"])
    findings.append(Finding("documents", f"the last one came {ago} ago, of {last['application_id']}"))
    return findings, deliveries


def _look_at_default_partition(misplaced: list[Row]) -> Iterator[Finding]:
    for row in misplaced:
        started = " to ".join(sorted({f"{row[name]:%Y-%m-%d}" for name in ("first_start", "last_start")}))
        yield Finding(
            "clock", f"{row['application_id']}: {_executions(row['executions'])} started on {started}", _MISPLACED
        )


def _look_at_event_logs(found: ledger.Summary) -> Iterator[Finding]:
    if found.last_read_at is not None:
        ago = _ago(datetime.now(timezone.utc) - found.last_read_at)
        parts = [
            f"{number:,} {what}" for number, what in ((found.partial, "in part"), (found.failed, "failed")) if number
        ]
        said = f"{found.logs:,} were read, the last one {ago} ago" + (f" ({', '.join(parts)})" if parts else "")
        yield Finding("event logs", said, _FAILED_LOGS if found.failed else None)


def look_at_collector(url: str, token_file: Path | None, ca_file: Path | None) -> list[Finding]:
    """Whether a collector answers there, has its database, and takes documents from who shows this token."""
    try:
        with open_collector(url, token_file, ca_file, _ANSWER_SECONDS) as client:
            alive = client.get("/healthz")
            if alive.status_code == 403:
                remedy = "Drivers that call it by this name are refused too. Use another --url."
                return [Finding("collector", f"{url} refuses: {alive.text.strip()}", remedy)]
            if (alive.status_code, alive.text) != (200, "ok\n"):
                found = f"what answers at {url} is no collector (status {alive.status_code})"
                return [Finding("collector", found, "Name the collector's address with --url.")]
            ready = client.get("/readyz")
            if ready.status_code != 200:
                remedy = "Drivers keep their documents until it is; see the collector's log."
                return [Finding("collector", f"{url} runs, but is not ready: {ready.text.strip()}", remedy)]
            taken = send(client, gzip.compress(b""))
    except httpx.RequestError as error:
        remedy = "Start it (joinsight serve), or name its address with --url. Drivers keep their documents meanwhile."
        return [Finding("collector", f"none answers at {url}: {reason_of(error)}", remedy)]
    if taken.status_code == 401:
        remedy = "Set JOINSIGHT_TOKEN or --token-file to a token that it knows, here and in the drivers."
        return [Finding("collector", f"{url} is ready, but does not accept this token", remedy)]
    if taken.status_code != 200:
        remedy = "See the collector's log."
        return [Finding("collector", f"{url} answers {taken.status_code} to an empty request", remedy)]
    return [Finding("collector", f"{url} is ready and takes documents")]


def examine(row: Row, now: datetime) -> Iterator[Finding]:
    """What there is to say of a listener's documents and executions."""
    what = row["application_id"] + (f"/{row['attempt_id']}" if row["attempt_id"] else "")
    silent = now - row["last_heard_at"]
    gone = row["state"] == "lost" or silent > DEFAULT_LOST_AFTER
    if row["state"] != "ended" and gone:
        yield Finding(
            what,
            f"its driver was lost, last heard of {_ago(silent)} ago"
            if row["state"] == "lost"
            else f"nothing was heard of it for {_ago(silent)}, and not that it ended",
            f"If the driver lives, it does not reach the collector. {_LOG}",
        )
    if row["documents_missing"]:
        found = f"{_documents(row['documents_missing'])} made and did not arrive ({_numbers(row['sequences_missing'])})"
        remedy = f"The driver's spool folder may hold them. {_SHIP} What is not there was lost with the driver."
        under_way = row["state"] != "ended" and not gone
        yield Finding(
            what, f"{found} yet: the listener keeps trying" if under_way else found, None if under_way else remedy
        )
    refused = row["documents_refused"]
    if refused:
        reason = row["refused_reason"] or "the reason stands in the collector's log"
        yield Finding(what, f"{_documents(refused)} refused: {reason}", _REFUSED)
    if row["documents_dropped"]:
        causes = sorted(cause for cause, number in (row["documents_dropped_by_cause"] or {}).items() if number)
        remedy = " ".join(_DROPPED.get(cause, _LOG) for cause in causes) or _LOG
        found = f"{_documents(row['documents_dropped'])} dropped in the driver ({', '.join(causes)})"
        yield Finding(what, found, remedy)
    if row["events_dropped"]:
        yield Finding(
            what,
            f"Spark dropped {row['events_dropped']:,} events before its listeners saw them: some numbers are partial",
            "Raise spark.scheduler.listenerbus.eventqueue.capacity (standard: 10000).",
        )
    if row["listener_failures"]:
        yield Finding(
            what,
            f"the listener failed {row['listener_failures']:,} times; after ten it is off",
            "The driver's log has the first with its stack trace. This is a fault of Joinsight's: please report it.",
        )
    lost = row["executions"].get("lost", 0)
    if lost:
        yield Finding(
            what,
            f"{_executions(lost)} lost: the last numbers are those of a moment when it ran",
            f"Was the driver killed? Then its spool folder may hold more. {_SHIP}",
        )
    for reason, number in list(row["incomplete"].items())[:_REASONS]:
        if reason not in incomplete.LOST:
            yield Finding(what, f"numbers of {number:,} executions may be partial: {incomplete.of_any(reason)}")


def _print(out: Console, findings: list[Finding], rows: list[Row], troubles: list[Finding], now: datetime) -> None:
    for finding in findings:
        _print_finding(out, finding, width=9)
    if rows:
        out.print()
        for line in table.lines(_columns(rows, now), max(80, out.width)):
            out.print(line, soft_wrap=True)
    if troubles:
        out.print()
    for finding in troubles:
        _print_finding(out, finding)
    out.print()
    if any(finding.remedy for finding in (*findings, *troubles)):
        out.print(Text("Something needs attention: see the lines with ✗.", "bold"))
    else:
        out.print(Text("All is well.", "bold"))


def _print_finding(out: Console, finding: Finding, width: int = 0) -> None:
    mark, style = ("✗", "red") if finding.remedy else ("✓", "green") if width else ("·", "dim")
    lines = [*_wrapped(out, f"{finding.what:<{width}}  {finding.found}", 2), *_wrapped(out, finding.remedy or "", 4)]
    for first, line in zip((mark, *" " * len(lines)), lines, strict=False):
        out.print(Text.assemble((first, style), line[1:]), soft_wrap=True)


def _wrapped(out: Console, paragraph: str, indent: int) -> list[str]:
    return textwrap.wrap(
        visible(paragraph),
        max(80, out.width),
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
        Column("application", [row["application_id"] for row in rows]),
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
    """``12 s``: also ``0 s`` where the clocks of this machine and of the database differ."""
    return duration_text(max(0, round(time.total_seconds())) * 1000)
