"""The command line: a table of the commands, each of which is imported when it is named, and `main`."""

from __future__ import annotations

import difflib
import errno
import importlib
import logging
import os
import signal
import sys

import click
from click.shell_completion import CompletionItem

from joinsight import __version__
from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.terminal.escaping import guard

_HELP = """See what every join and shuffle of your Spark SQL queries really cost.

Data is kept in the PostgreSQL server of JOINSIGHT_DATABASE_URL, else in an embedded one in the folder --data.
"""
_SECTIONS = {
    "Collect": {
        "demo": ("demo", "Run a real Spark job and report what its joins cost."),
        "serve": ("serve", "Run the collector: receive, store and show executions."),
        "listener-jar": ("listener_jar", "Print the path of the listener's jar, for spark-submit."),
        "backfill": ("backfill", "Import past runs from Spark event logs."),
        "ship": ("ship", "Deliver the spool files of a listener to a collector."),
    },
    "Look": {
        "open": ("open_log", "Open an event log in a browser, without a server."),
        "ui": ("ui", "Open the pages in a browser."),
        "queries": ("lists", "List SQL executions."),
        "verdict": ("lists", "Say where an execution's time went, why, and what to do first."),
        "plan": ("lists", "Draw the plan of an execution with the cost of each operator."),
        "cost": ("lists", "Show what each operator and each join of an execution cost."),
        "export-html": ("export_html", "Write an execution, or the comparison of two, as one HTML file."),
        "streams": ("streams", "List streaming queries: rate, durations and state of their micro-batches."),
        "joins": ("lists", "List joins: strategy, rows in and out, build side, spill."),
        "shuffles": ("lists", "List shuffles: bytes written, partitions, wait and skew."),
        "broadcasts": ("lists", "List broadcasts: outcome, size in memory, time on the driver."),
        "keys": ("keys", "Print the code that names the hottest keys of a join or shuffle."),
        "findings": ("findings", "List problems: how often, at what cost, and what to do."),
    },
    "Compare": {
        "why": ("why", "Say why an execution took longer or shorter than another."),
        "what-if": ("what_if", "Predict how long an execution would have taken with something changed."),
        "diff": ("diff", "Compare two executions: plan, settings and numbers."),
        "gate": ("gate", "Compare the queries of a branch with those of main, for CI."),
        "regressions": ("regressions", "List queries and operators that have become worse."),
        "report": ("report", "Write a report: what became slower and why, what costs most, what will break."),
    },
    "Manage": {
        "doctor": ("doctor", "Check the database, the collector and all deliveries."),
        "db": ("db", "Manage the database."),
        "dashboards": ("dashboards", "Install the dashboards in Grafana."),
        "export": ("spark", "Write the history as Parquet, with Spark."),
        "rollup": ("spark", "Compute totals by day and baselines, with Spark."),
        "docs": ("docs", "Print a page of the documentation."),
        "skill": ("skill", "Print a skill file for agents: how to ask Joinsight, in Markdown."),
        "mcp": ("mcp", "Answer agents by the Model Context Protocol, read-only."),
        "completions": ("completions", "Print the script that completes commands and options in a shell."),
    },
}
"""Module and summary of each command. The summary is also the first sentence of the command's help."""
_COMMANDS = {name: command for section in _SECTIONS.values() for name, command in section.items()}


_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""EPIPE: the reader, such as `head`, has closed the pipe; the others mean that a disk is full or broken."""


class _Lazy(click.Group):
    """Imports the module of a command when the command is named: what one needs, others do not."""

    def list_commands(self, context: click.Context) -> list[str]:
        """All names, by section."""
        return [*_COMMANDS, *self.commands]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command; imports its module."""
        if name not in _COMMANDS:
            return super().get_command(context, name)
        module = importlib.import_module(f"joinsight.cli.{_COMMANDS[name][0]}")
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` name; the error for an unknown one has the names that are alike."""
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            alike = difflib.get_close_matches(args[0], _COMMANDS)
            if not alike:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(alike)}?", context) from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections; imports nothing."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(max(map(len, _COMMANDS))), each[1]) for name, each in commands.items()])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, and options; imports nothing."""
        names = [CompletionItem(name, help=each[1]) for name, each in _COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, context, incomplete)]


@click.group(cls=_Lazy, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="joinsight")
def cli() -> None:
    """Joinsight."""


def main() -> None:
    """Run a command; a `JoinsightError` is printed without a traceback."""
    guard()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # raises, so that context managers exit
    for name in ("alembic", "httpx", "mcp", "py4j"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        try:
            cli()
        finally:
            sys.stdout.flush()  # now, so that an error in writing is reported
    except JoinsightError as error:
        click.echo(f"joinsight: {error}", err=True)
        sys.exit(2 if isinstance(error, ConfigurationError) else 1)
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        if error.errno != errno.EPIPE:
            click.echo(f"joinsight: the output cannot be written: {error.strerror}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        sys.exit(1)
    except Exception as error:
        if isinstance(error, MemoryError) or "start new thread" in str(error):
            limits = "the container's limits and those of ulimit: virtual memory (-v), processes (-u)"
            click.echo(f"joinsight: there is too little memory, or there are too many threads: see {limits}.", err=True)
            sys.exit(1)
        from sqlalchemy.exc import DBAPIError  # imported here, because most of what can be asked needs no database

        if not isinstance(error, DBAPIError):
            raise
        from joinsight.store.database import reason

        click.echo(f"joinsight: database error: {reason(error)}", err=True)
        sys.exit(1)
