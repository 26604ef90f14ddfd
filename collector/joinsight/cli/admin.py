"""Commands that run the collector and manage its database: serve, db, listener-jar."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from joinsight import __version__
from joinsight.attach import LISTENER, listener_jar
from joinsight.cli import table
from joinsight.cli.options import Duration, database_options
from joinsight.cli.table import Column
from joinsight.display import bytes_text
from joinsight.errors import JoinsightError
from joinsight.findings.thresholds import VARIABLE
from joinsight.gc_tuning import collect_seldom
from joinsight.serve.background import background_tasks
from joinsight.serve.logs import FORMATS, configure, fields
from joinsight.serve.metrics import DEFAULT_JOB_NAMES
from joinsight.serve.server import DEFAULT_PORT, make_server, open_listener
from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.store import embedded, partitions
from joinsight.store.database import check_schema, open_database, upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.mark_lost import DEFAULT_LOST_AFTER
from joinsight.store.prune import Pruned, preview, prune
from joinsight.terminal import console
from joinsight.timeparse import format_duration

log = logging.getLogger("joinsight")
KEEP = Duration(at_least="1d", examples="400d or 52w")
_file = click.Path(path_type=Path)


@click.command()
@database_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=int, help="0: any free one.")
@click.option(
    "--token-file",
    type=_file,
    help=f"File of tokens: lines NAME:TOKEN for those who send, read:NAME:TOKEN to read.  [default: {TOKEN_VARIABLE}]",
)
@click.option(
    "--lost-after",
    type=Duration(at_least="1m"),
    default=format_duration(DEFAULT_LOST_AFTER),
    show_default=True,
    help="Mark executions and applications lost after this long without contact from the driver.",
)
@click.option(
    "--keep", type=KEEP, help="Prune the database once a day, as `joinsight db prune` does.  [default: never]"
)
@click.option("--tls-certificate", type=_file, help="PEM file of the certificate and its issuers: serve HTTPS.")
@click.option("--tls-key", type=_file, help="PEM file of the certificate's key.")
@click.option(
    "--finding-threshold",
    "finding_thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"From which number on something is a finding (joinsight docs findings); several times.  [also: {VARIABLE}]",
)
@click.option(
    "--job-names",
    type=click.IntRange(min=0),
    default=DEFAULT_JOB_NAMES,
    show_default=True,
    help="Maximum jobs with their own metrics; the rest are `other` (joinsight docs metrics).",
)
@click.option(
    "--log-format", type=click.Choice(FORMATS), default="text", show_default=True, help="Of the log, on stderr."
)
def serve(
    database_url: str | None,
    data: Path | None,
    host: str,
    port: int,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    lost_after: timedelta,
    keep: timedelta | None,
    finding_thresholds: tuple[str, ...],
    job_names: int,
    log_format: str,
) -> None:
    """Receive documents from listeners, store them, show them in a browser, export metrics.

    The schema of a server is not touched: run `joinsight db upgrade` first.

    SIGTERM or Ctrl-C ends it in order, with what is being written; a second one at once.
    """
    configure(log_format)
    with (
        open_listener(
            host,
            port,
            token_file,
            tls_certificate,
            tls_key,
            finding_thresholds=finding_thresholds,
            database_url=database_url,
            data=data,
        ) as listener,
        open_database(database_url, data) as engine,
    ):
        schema = check_schema(engine)
        server = make_server(engine, listener, job_names)
        server.startup_fields = fields(
            url=listener.url,
            metrics=f"{listener.url}/metrics",
            tokens=len(listener.tokens),
            readers=listener.tokens.readers,
            database=engine.url.render_as_string(hide_password=True),
            schema=schema,
            version=__version__,
        )
        if listener.tokens.open:
            log.warning("no token is set: any user of this machine can send, no other machine can")
        elif not listener.tokens.readers:
            log.warning("no token may read: the pages are closed; add a line read:NAME:TOKEN to open them")
        collect_seldom()
        with background_tasks(engine, server.collector.metrics, lost_after, keep, listener.reload_files):
            server.run(sockets=[listener.bound])
    log.info("stopped", extra=fields(unfinished=server.unfinished or None))
    if server.unfinished:
        logging.shutdown()
        os._exit(1)  # else Python would wait for their threads, however long PostgreSQL takes


@click.group()
def db() -> None:
    """Look after the database."""


@db.command("upgrade")
@database_options
def db_upgrade(database_url: str | None, data: Path | None) -> None:
    """Bring the schema to this program's version, and make the next months' partitions."""
    with open_database(database_url, data) as engine:
        upgrade(engine)
        check_schema(engine)
        partitions.create_ahead(engine)
        click.echo(f"The schema is up to date: {engine.url.render_as_string(hide_password=True)}")


@db.command("prune")
@database_options
@click.option("--keep", type=KEEP, required=True, help="Months that ended longer ago than this go: 400d, 52w.")
@click.option(
    "--misdated", is_flag=True, help="All that is in the default partitions goes too: see `joinsight doctor`."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
def db_prune(database_url: str | None, data: Path | None, keep: timedelta, misdated: bool, dry_run: bool) -> None:
    """Delete whole months that are older, with all that belongs to their executions.

    A month of which any part is younger stays whole: with 400d, from 400 to 430 days are kept. What was stored
    longer ago goes of the default partitions, and applications that were last heard of before then and have no
    execution left.
    """
    with open_database(database_url, data) as engine:
        check_schema(engine)
        work = preview if dry_run else prune
        print_pruned(console(), work(engine, keep, misdated), dry_run)


def print_pruned(out: Console, pruned: Pruned, dry_run: bool) -> None:
    """Print what was deleted by month and table, then the totals."""
    parts = pruned.partitions
    if parts:
        months = [f"{part.starts_at:%Y-%m}" for part in parts]
        columns = [
            Column("month", [m if m != before else "" for m, before in zip(months, ["", *months], strict=False)]),
            Column("table", [part.table for part in parts]),
            Column("rows (about)", ["?" if part.rows is None else f"{part.rows:,}" for part in parts], right=True),
            Column("size", [bytes_text(part.bytes) for part in parts], right=True),
        ]
        for line in table.lines(columns, out.width):
            out.print(line, soft_wrap=True)
    freed = bytes_text(sum(part.bytes for part in parts))
    months_and_size = f"{len({part.starts_at for part in parts})} months, {freed} on disk"
    rest = (
        (pruned.misdated, "executions of the default partition"),
        (pruned.applications, "applications"),
        (pruned.deliveries, "rows of delivery"),
    )
    also = "".join(f", {number:,} {name}" for number, name in rest if number)
    out.print(("Would delete " if dry_run else "Deleted ") + months_and_size + also, soft_wrap=True)


@db.command("status")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_status(data: Path | None) -> None:
    """Say whether the embedded PostgreSQL runs, and where."""
    folder = data or embedded.default_folder()
    status = embedded.status(folder)
    click.echo(f"{folder}: " + (f"running, port {status.port}, process {status.pid}" if status else "not running"))


@db.command("grant-reader")
@database_options
@click.argument("role")
def db_grant_reader(database_url: str | None, data: Path | None, role: str) -> None:
    """Let ROLE read all tables, those of later months too, and nothing else.

    A role that does not exist is made, without a login: give it one, or grant it to the user of your dashboards.
    """
    with open_database(database_url, data) as engine:
        check_schema(engine)
        is_new = grant_reader(engine, role)
        click.echo(f"{role} may read everything" + (" (new, cannot log in yet)" if is_new else ""))


@db.command("stop")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_stop(data: Path | None) -> None:
    """Stop the embedded PostgreSQL, even if a program uses it; `joinsight serve` starts it again."""
    folder = data or embedded.default_folder()
    click.echo(f"{folder}: " + ("stopped" if embedded.stop(folder) else "was not running"))


@click.command("listener-jar")
@click.option("--conf", is_flag=True, help="Print the two --conf lines for spark-submit instead.")
def print_listener_jar(conf: bool) -> None:
    """Print the path of the listener's jar, for spark-submit."""
    try:
        jar = listener_jar()
    except FileNotFoundError as error:
        raise JoinsightError(str(error)) from None
    if conf:
        click.echo(f"--conf spark.jars={jar} --conf spark.extraListeners={LISTENER}")
    else:
        click.echo(jar)


COMMANDS = (serve, db, print_listener_jar)
