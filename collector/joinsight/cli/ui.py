"""`joinsight ui`: opens the pages in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

import click
import httpx

from joinsight.base.errors import JoinsightError
from joinsight.cli.options import command, database_options
from joinsight.driver.attach import DEFAULT_URL

_ANSWER_SECONDS = 5.0


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
def ui(database_url: str | None, data: Path | None, url: str | None, port: int) -> None:
    """Open the pages in a browser.

    Opens the pages of the collector at --url. Without a collector, or with --data or --database-url, it serves the
    pages of that database itself, read-only, until Ctrl-C; on Linux only to you. Without a display it prints the
    address only.
    """
    if not database_url and data is None:
        problem = _problem(url or DEFAULT_URL)
        if problem is None:
            _open(url or DEFAULT_URL)
            return
        if url is not None:
            raise JoinsightError(
                f"No collector at {url}: {problem}. Without --url, the pages of the database are opened."
            )
    from joinsight.serve.read_only import read_only_server
    from joinsight.serve.server import bind
    from joinsight.store.database import check_schema, open_database

    with open_database(database_url, data) as engine, bind("127.0.0.1", port) as bound:
        check_schema(engine)
        bound.listen()  # before the server runs, so that the browser can connect at once
        _open(f"http://127.0.0.1:{bound.getsockname()[1]}", " (until Ctrl-C)")
        with suppress(KeyboardInterrupt):
            read_only_server(engine).run(sockets=[bound])


def _problem(url: str) -> str | None:
    """Why no collector answers at `url`; None if one does. Sends nothing secret, so any certificate will do."""
    try:
        answer = httpx.get(f"{url.rstrip('/')}/healthz", verify=False, timeout=_ANSWER_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    return None if (answer.status_code, answer.text) == (200, "ok\n") else f"status {answer.status_code}"


def _open(url: str, until: str = "") -> None:
    """Print the address, and open it if there is a graphical browser: one for terminals would take this one."""
    address = f"{url.rstrip('/')}/"
    click.echo(f"{address}{until}")
    if sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        webbrowser.open(address)
