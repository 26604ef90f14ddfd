"""`joinsight open`: an event log in a browser, from a database that is gone afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.cli.options import command, database_options, no_browser_option

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from joinsight.backfill.jvm import Reader
    from joinsight.backfill.run import Report

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?=/)")
_PROBLEMS = 5


@command("open")
@click.argument("log")
@no_browser_option
@click.option(
    "--port", default=0, metavar="PORT", type=click.IntRange(0, 65535), help="0: any free port.  [default: 0]"
)
@database_options
def open(log: str, no_browser: bool, port: int, database_url: str | None, data: Path | None) -> None:
    """Open an event log in a browser, without a server.

    LOG is a file, a folder of logs, a zip file of them, or a URL: of an application in a History Server, or of its
    download (/api/v1/applications/ID/logs). It is read as by `joinsight backfill`, into a database that is removed at
    the end, unless --data or --database-url names one to keep. The pages are served read-only until Ctrl-C, on Linux
    only to you.
    """
    from joinsight.backfill.fetch import fetch, is_url, shown
    from joinsight.backfill.jvm import find_java, spark_jars
    from joinsight.backfill.listing import LOCAL, check_local
    from joinsight.cli.ui import SERVING, serve_pages, show
    from joinsight.store.temporary import temporary_folder

    _check(log)
    find_java()
    spark_jars()
    if is_url(log):
        click.echo(f"Downloading {shown(log)}", err=True)
    else:
        check_local([log])
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        path = fetch(log.removeprefix(LOCAL), folder)
        with _reader(path) as reader:
            engine = stack.enter_context(_database(database_url, data, folder))
            report = _read(engine, path, reader)
        _print_problems(report)
        page = _page(report)
        serve_pages(engine, port, lambda url: show(f"{url}{page}", SERVING, no_browser=no_browser))


def _check(log: str) -> None:
    """Raises `ConfigurationError` for a path on a file system that only Spark reads."""
    scheme = _SCHEME.match(log)
    if scheme and scheme[0].lower() not in ("http:", "https:", "file:"):
        problem = "this command reads files on this machine, and http and https URLs"
        raise ConfigurationError("LOG", log, problem, "`joinsight backfill` reads this one, then `joinsight ui`.")


def _reader(path: Path) -> AbstractContextManager[Reader | None]:
    """A JVM that starts now, while the database does; None for several logs, which several JVMs read."""
    from joinsight.backfill.jvm import Reader
    from joinsight.backfill.listing import Local, find

    logs = find(Local(), [str(path)]).logs.values()
    return Reader(sum(log.weight for log in logs)) if len(logs) == 1 else nullcontext()


@contextmanager
def _database(url: str | None, data: Path | None, folder: Path) -> Iterator[Engine]:
    """The database that is named, else a new one in `folder`, which starts while the modules of the server load."""
    with ExitStack() as stack:
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(lambda: stack.enter_context(_opened(url, data, folder)))
            import joinsight.backfill.run
            import joinsight.serve.read_only  # noqa: F401
        yield starting.result()


@contextmanager
def _opened(url: str | None, data: Path | None, folder: Path) -> Iterator[Engine]:
    from joinsight.store.database import check_schema, connect, open_embedded
    from joinsight.store.temporary import database_in

    if url:
        with connect(url) as engine:
            check_schema(engine)
            yield engine
        return
    with open_embedded(data or database_in(folder), is_temporary=data is None) as engine:
        yield engine


def _read(engine: Engine, path: Path, reader: Reader | None) -> Report:
    """The report of reading all logs at `path`. Raises `JoinsightError` if there is nothing to show."""
    from joinsight.backfill.run import backfill
    from joinsight.cli.backfill import following

    with following() as follow:
        report = backfill(None, engine, [str(path)], follow=follow, reader=reader)
    if not report.found:
        number = len(report.left_out)
        raise JoinsightError(
            f"{path.name} is not an event log: its first line is not an event."
            if path.is_file()
            else f"No event log in {path.name}: of {number:,} files, none begins with an event."
        )
    if not report.unchanged and not any(each.entry.executions for each in report.done):
        problems = [problem for each in report.done for problem in each.entry.problems]
        why = problems[-1] if problems else "it has no SQL execution, and Joinsight shows nothing else"
        raise JoinsightError(f"{path.name}: {why}")
    return report


def _print_problems(report: Report) -> None:
    problems = [f"{each.entry.path}: {problem}" for each in report.done for problem in each.entry.problems]
    for problem in problems[:_PROBLEMS]:
        click.echo(problem, err=True)
    if len(problems) > _PROBLEMS:
        click.echo(f"and {len(problems) - _PROBLEMS} more problems", err=True)


def _page(report: Report) -> str:
    """The address of the list: of the application if it is the only one."""
    applications = set().union(*(each.applications for each in report.done))
    if report.unchanged or len(applications) != 1:
        return ""
    return "?" + urlencode({"application": applications.pop()})
