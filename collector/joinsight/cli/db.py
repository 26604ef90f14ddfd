"""`joinsight db`: manages the database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click
from rich.console import Console

from joinsight.cli import table
from joinsight.cli.console import console, cut_at
from joinsight.cli.options import KEEP, database_options
from joinsight.cli.table import Column
from joinsight.display import bytes_text
from joinsight.store import embedded, partitions
from joinsight.store.database import check_schema, open_database, upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.prune import Pruned, preview, prune


@click.group()
def db() -> None:
    """Manage the database."""


@db.command("upgrade")
@database_options
def db_upgrade(database_url: str | None, data: Path | None) -> None:
    """Create or upgrade the schema, and make the next months' partitions."""
    with open_database(database_url, data, create=True) as engine:
        upgrade(engine)
        check_schema(engine)
        partitions.create_ahead(engine)
        click.echo(f"The schema is up to date: {engine.url.render_as_string(hide_password=True)}")


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
        for line in table.lines(columns, cut_at(out)):
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
    """Show whether the embedded PostgreSQL is running, and on which port."""
    folder = data or embedded.default_folder()
    status = embedded.status(folder)
    running = f"running, port {status.port}, process {status.pid}" if status else "not running"
    click.echo(f"{folder}: " + (running if embedded.exists(folder) else "no database"))


@db.command("grant-reader")
@database_options
@click.argument("role")
def db_grant_reader(database_url: str | None, data: Path | None, role: str) -> None:
    """Let ROLE read all tables, future months included, and nothing else.

    A role that does not exist is created without a login: give it one, or grant it to the user of your dashboards.
    """
    with open_database(database_url, data) as engine:
        check_schema(engine)
        is_new = grant_reader(engine, role)
        click.echo(f"{role} may read all tables" + (" (new role, without a login)" if is_new else ""))


@db.command("stop")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of the embedded PostgreSQL.")
def db_stop(data: Path | None) -> None:
    """Stop the embedded PostgreSQL, even if it is in use; a running `joinsight serve` starts it again."""
    folder = data or embedded.default_folder()
    click.echo(f"{folder}: " + ("stopped" if embedded.stop(folder) else "was not running"))
