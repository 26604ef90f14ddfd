"""Commands that run and keep the collector: serve, db, listener-jar."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

import click
from starlette.applications import Starlette

from joinsight.attach import LISTENER, listener_jar
from joinsight.cli.options import Duration, database_options
from joinsight.errors import JoinsightError
from joinsight.serve.server import DEFAULT_PORT, TOKEN_VARIABLE, make_server, read_tokens
from joinsight.store import embedded
from joinsight.store.database import check_schema, open_database, upgrade
from joinsight.store.grants import grant_reader
from joinsight.store.lost import DEFAULT_LOST_AFTER, duration_text, sweeping


@click.command()
@database_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="0: any free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"File with the tokens that listeners may show, one a line.  [default: {TOKEN_VARIABLE}]",
)
@click.option(
    "--lost-after",
    type=Duration(at_least=timedelta(minutes=1)),
    default=duration_text(DEFAULT_LOST_AFTER),
    show_default=True,
    help="Executions are lost when so long nothing was heard of their driver.",
)
def serve(
    database_url: str | None, data: Path | None, host: str, port: int, token_file: Path | None, lost_after: timedelta
) -> None:
    """Receive documents from listeners, store them, export metrics.

    The schema of a server is not touched: run `joinsight db upgrade` first.
    """
    tokens = read_tokens(token_file)
    with open_database(database_url, data) as engine:
        check_schema(engine)
        server, bound = make_server(engine, host, port, tokens)
        with bound:
            address, actual_port = bound.getsockname()[:2]
            shown = f"[{address}]" if ":" in address else address
            click.echo(f"Joinsight collects at http://{shown}:{actual_port} (metrics: /metrics)", err=True)
            if not tokens:
                click.echo(f"No {TOKEN_VARIABLE} is set: only this machine can send, and anyone on it may.", err=True)
            with sweeping(engine, lost_after, cast(Starlette, server.config.app).state.collector.lost):
                server.run(sockets=[bound])


@click.group()
def db() -> None:
    """Look after the database."""


@db.command("upgrade")
@database_options
def db_upgrade(database_url: str | None, data: Path | None) -> None:
    """Bring the schema to this program's version."""
    with open_database(database_url, data) as engine:
        upgrade(engine)
        check_schema(engine)
        click.echo(f"The schema is up to date: {engine.url.render_as_string(hide_password=True)}")


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
    """Stop the embedded PostgreSQL, even if a program uses it."""
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
