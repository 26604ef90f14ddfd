"""Commands that run and keep the collector: serve, db, listener-jar."""

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
from joinsight.garbage import collect_seldom
from joinsight.serve.logs import FORMATS, configure, fields
from joinsight.serve.metrics import DEFAULT_JOB_NAMES
from joinsight.serve.server import DEFAULT_PORT, looking_after, make_server, open_door
from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.store import embedded, partitions
from joinsight.store.database import check_schema, open_database, upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.lost import DEFAULT_LOST_AFTER, duration_text
from joinsight.store.prune import Pruned, find, prune
from joinsight.terminal import console

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
    default=duration_text(DEFAULT_LOST_AFTER),
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
    help=f"From which number on something is a finding (docs/findings.md); several times.  [also: {VARIABLE}]",
)
@click.option(
    "--job-names",
    type=click.IntRange(min=0),
    default=DEFAULT_JOB_NAMES,
    show_default=True,
    help="So many jobs have metrics of their own, the first that come; all others are `other` (docs/metrics.md).",
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
        open_door(
            host,
            port,
            token_file,
            tls_certificate,
            tls_key,
            finding_thresholds=finding_thresholds,
            database_url=database_url,
            data=data,
        ) as door,
        open_database(database_url, data) as engine,
    ):
        schema = check_schema(engine)
        server = make_server(engine, door, job_names)
        server.announcement = fields(
            url=door.url,
            metrics=f"{door.url}/metrics",
            tokens=len(door.tokens),
            readers=door.tokens.readers,
            database=engine.url.render_as_string(hide_password=True),
            schema=schema,
            version=__version__,
        )
        if door.tokens.open:
            log.warning("no token is set: only this machine can send, and anyone on it may")
        elif not door.tokens.readers:
            log.warning("no token may read: the pages are closed; a line read:NAME:TOKEN opens them to who has it")
        collect_seldom()
        with looking_after(engine, server.collector, lost_after, keep):
            server.run(sockets=[door.bound])
    log.info("stopped", extra=fields(unfinished=server.unfinished or None))
    if server.unfinished:
        logging.shutdown()
        os._exit(1)  # else Python would wait for them, however long PostgreSQL takes


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
        work = find if dry_run else prune
        print_pruned(console(), work(engine, keep, misdated), dry_run)


def print_pruned(out: Console, pruned: Pruned, dry_run: bool) -> None:
    """By month and table, then in all."""
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
    what = f"{len({part.starts_at for part in parts})} months, {freed} on disk"
    rest = (
        (pruned.misdated, "executions of the default partition"),
        (pruned.applications, "applications"),
        (pruned.deliveries, "rows of delivery"),
    )
    also = "".join(f", {number:,} {name}" for number, name in rest if number)
    out.print(("Would delete " if dry_run else "Deleted ") + what + also, soft_wrap=True)


@db.command("status")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_status(data: Path | None) -> None:
    """Say whether the embedded PostgreSQL runs, and where."""
    folder = data or embedded.default_folder()
    found = embedded.status(folder)
    click.echo(f"{folder}: " + (f"runs, port {found.port}, process {found.pid}" if found else "does not run"))


@db.command("grant-reader")
@database_options
@click.argument("role")
def db_grant_reader(database_url: str | None, data: Path | None, role: str) -> None:
    """Let ROLE read all tables, those of later months too, and nothing else.

    A role that does not exist is made, without a login: give it one, or grant it to the user of your dashboards.
    """
    with open_database(database_url, data) as engine:
        check_schema(engine)
        made = grant_reader(engine, role)
        click.echo(f"{role} may read everything" + (" (new, cannot log in yet)" if made else ""))


@db.command("stop")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_stop(data: Path | None) -> None:
    """Stop the embedded PostgreSQL, even if a program uses it; `joinsight serve` starts it again."""
    folder = data or embedded.default_folder()
    click.echo(f"{folder}: " + ("stopped" if embedded.stop(folder) else "did not run"))


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
