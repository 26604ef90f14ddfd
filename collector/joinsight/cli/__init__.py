"""The command line: a module for each group of commands, and `main`."""

from __future__ import annotations

import logging
import os
import signal
import sys

import click
from sqlalchemy.exc import DBAPIError

from joinsight import __version__
from joinsight.cli import admin, backfill, dashboards, demo, diff, docs, doctor, read, regressions, ship, spark
from joinsight.errors import ConfigurationError, JoinsightError
from joinsight.store.database import reason
from joinsight.terminal import guard

_HELP = """See what every exchange and join of your Spark SQL queries really cost.

\b
Start here:      joinsight demo
Collect:         joinsight serve
Look:            joinsight queries, then plan, shuffles, broadcasts, joins, findings
Compare:         joinsight diff, joinsight regressions
With Spark:      joinsight backfill, joinsight export, joinsight rollup
Read:            joinsight docs

Data is kept in the PostgreSQL server that JOINSIGHT_DATABASE_URL names, else in an embedded one in --data.
"""


@click.group(help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 100})
@click.version_option(__version__, prog_name="joinsight")
def cli() -> None:
    """Joinsight."""


for command in (
    demo.demo,
    *admin.COMMANDS,
    *read.COMMANDS,
    diff.diff,
    regressions.regressions,
    doctor.doctor,
    docs.docs,
    ship.ship,
    *spark.COMMANDS,
    dashboards.dashboards,
    backfill.backfill,
):
    cli.add_command(command)


def main() -> None:
    """Run a command; a `JoinsightError` is printed without a traceback."""
    guard()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # raises, so that context managers exit
    for name in ("alembic", "httpx", "py4j"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        cli()
    except JoinsightError as error:
        click.echo(f"joinsight: {error}", err=True)
        sys.exit(2 if isinstance(error, ConfigurationError) else 1)
    except DBAPIError as error:
        click.echo(f"joinsight: database error: {reason(error)}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
