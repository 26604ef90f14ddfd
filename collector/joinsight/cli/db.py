"""`joinsight db`: manages the database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from joinsight.base.errors import ConfigurationError, DatabaseError
from joinsight.base.units import bytes_text
from joinsight.cli.options import KEEP, SectionedGroup, database_options
from joinsight.store import URL_VARIABLE, embedded, partitions
from joinsight.store.database import check_schema, client_url, open_database, shown_url, upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.prune import Pruned, preview, prune
from joinsight.terminal import table
from joinsight.terminal.console import console
from joinsight.terminal.table import Column


@click.group(cls=SectionedGroup)
def db() -> None:
    """Manage the database."""


@db.command("upgrade")
@database_options
def db_upgrade(database_url: str | None, data: Path | None) -> None:
    """Create or upgrade the schema.

    Also makes the partitions of the next months. Does nothing to an up-to-date schema.
    """
    with open_database(database_url, data, create=True) as engine:
        upgrade(engine)
        check_schema(engine)
        try:
            partitions.create_ahead(engine)
        except DatabaseError as error:  # a collector does so, too
            click.echo(f"The partitions of the next months were not created: {error}", err=True)
        click.echo(f"The schema is up to date: {shown_url(engine.url)}")


@db.command("prune")
@database_options
@click.option("--keep", type=KEEP, required=True, help="Delete months that ended longer ago than this: 400d, 52w.")
@click.option(
    "--misdated", is_flag=True, help="Also delete all rows of the default partitions: see `joinsight doctor`."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
def db_prune(database_url: str | None, data: Path | None, keep: timedelta, misdated: bool, dry_run: bool) -> None:
    """Delete the months that are older than --keep, in all tables.

    Only whole months are deleted: with 400d, between 400 and 430 days remain. Rows of the default partitions that were
    stored longer ago are deleted too, and applications without executions and without contact since then.
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
        table.print_columns(out, columns)
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
    """Show whether the embedded PostgreSQL is running.

    With its port and process.
    """
    folder = data or embedded.default_folder()
    status = embedded.status(folder)
    running = f"running, port {status.port}, process {status.pid}" if status else "not running"
    click.echo(f"{folder}: " + (running if embedded.exists(folder) else "no database"))


@db.command("grant-reader")
@database_options
@click.argument("role")
def db_grant_reader(database_url: str | None, data: Path | None, role: str) -> None:
    """Let a role read all tables.

    ROLE may then read those of future months too, and nothing else. A role that does not exist is created without a
    login: give it one, or grant it to the user of your dashboards."""
    with open_database(database_url, data) as engine:
        check_schema(engine)
        is_new = grant_reader(engine, role)
        click.echo(f"{role} may read all tables" + (" (new role, without a login)" if is_new else ""))


@db.command("url")
@database_options
def db_url(database_url: str | None, data: Path | None) -> None:
    """Print the URL of the database, for psql and other programs.

    The URL has no password. That of the embedded PostgreSQL names a file with the password, which only its owner can
    read; the server listens on 127.0.0.1 only, and runs while a command uses it, such as `joinsight serve`.
    """
    server = database_url or os.environ.get(URL_VARIABLE)
    if server:
        click.echo(client_url(server))
        return
    folder = data or embedded.default_folder()
    url = embedded.client_url(folder)
    if url is None:
        problem = "is not running" if embedded.exists(folder) else "does not exist"
        remedy = "It has an address while it is used: by joinsight serve, ui or db shell."
        raise DatabaseError(f"The embedded database in {folder} {problem}. {remedy}")
    click.echo(url)


@db.command("shell", context_settings={"ignore_unknown_options": True})
@database_options
@click.argument("arguments", metavar="[PSQL-ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def db_shell(database_url: str | None, data: Path | None, arguments: tuple[str, ...]) -> None:
    """Open psql on the database.

    Further arguments are psql's: joinsight db shell -c "SELECT count(*) FROM execution". The psql on PATH is used, else
    the one of the embedded PostgreSQL.
    """
    with open_database(database_url, data) as engine:
        environment = dict(os.environ)
        if engine.url.password:
            environment["PGPASSWORD"] = str(engine.url.password)  # not on the command line, which others can see
        signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for psql
        command = [find_psql(), client_url(engine.url), *arguments]
        code = subprocess.run(command, env=environment).returncode
    raise SystemExit(code)


def find_psql() -> str:
    """The psql on PATH, else the one of the embedded PostgreSQL."""
    found = shutil.which("psql")
    try:
        return found or str(embedded.find_binaries() / "psql")
    except DatabaseError:
        remedy = "Install it (Debian: apt-get install postgresql-client)."
        raise ConfigurationError("PATH", os.environ.get("PATH"), "there is no psql on it", remedy) from None


@db.command("stop")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_stop(data: Path | None) -> None:
    """Stop the embedded PostgreSQL.

    Even if it is in use; a running `joinsight serve` starts it again.
    """
    folder = data or embedded.default_folder()
    click.echo(f"{folder}: " + ("stopped" if embedded.stop(folder) else "was not running"))
