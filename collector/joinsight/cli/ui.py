"""`joinsight ui`: opens the pages in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx

from joinsight.base.errors import JoinsightError
from joinsight.cli.options import command, core_hour_price_option, database_options, no_browser_option
from joinsight.driver.attach import DEFAULT_URL

if TYPE_CHECKING:
    from sqlalchemy import Engine

_ANSWER_SECONDS = 5.0
SERVING = "Serving until Ctrl-C."


@command()
@database_options
@click.option("--url", help=f"Open the pages of this collector.  [default: {DEFAULT_URL}, if one is running]")
@click.option(
    "--port",
    default=0,
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Serve on this port; 0: any free port.  [default: 0]",
)
@no_browser_option
@core_hour_price_option("Show on the page of jobs what they cost at this price of a core for an hour.")
def ui(
    database_url: str | None,
    data: Path | None,
    url: str | None,
    port: int,
    no_browser: bool,
    core_hour_price: float | None,
) -> None:
    """Open the pages in a browser.

    Opens the pages of the collector at --url. Without a collector, or with --data or --database-url, it serves the
    pages of that database itself, read-only, until Ctrl-C; on Linux only to you. Without a display it prints the
    address only.
    """
    if not database_url and data is None:
        problem = _problem(url or DEFAULT_URL)
        if problem is None:
            show(f"{(url or DEFAULT_URL).rstrip('/')}/", no_browser=no_browser)
            return
        if url is not None:
            raise JoinsightError(
                f"No collector at {url}: {problem}. Without --url, the pages of the database are opened."
            )
    from joinsight.store.database import check_schema, open_database

    with open_database(database_url, data) as engine:
        check_schema(engine)
        serve_pages(engine, port, lambda url: show(url, SERVING, no_browser=no_browser), core_hour_price)


def serve_pages(
    engine: Engine, port: int, on_start: Callable[[str], None], core_hour_price: float | None = None
) -> None:
    """Serve the pages of a database, read-only, to this user of this machine, until a signal.

    `on_start` is called with the address, at which a browser can connect from then on. `core_hour_price` is for the
    page of jobs.
    """
    from joinsight.serve.read_only import read_only_server
    from joinsight.serve.server import bind

    with bind("127.0.0.1", port) as bound:
        bound.listen()
        on_start(f"http://127.0.0.1:{bound.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            read_only_server(engine, core_hour_price).run(sockets=[bound])


def _problem(url: str) -> str | None:
    """Why no collector answers at `url`; None if one does. Sends nothing secret, so any certificate will do."""
    try:
        answer = httpx.get(f"{url.rstrip('/')}/healthz", verify=False, timeout=_ANSWER_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return None if (answer.status_code, answer.text) == (200, "ok\n") else f"status {answer.status_code}"


def show(address: str, *notes: str, no_browser: bool) -> None:
    """Print the address, and open it if there is a graphical browser: one for terminals would take this one."""
    click.echo(address)
    for note in notes:
        click.echo(note, err=True)
    if no_browser:
        return
    if sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        webbrowser.open(address)
