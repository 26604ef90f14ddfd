"""`joinsight demo`: a real Spark job with the listener, a collector, and a report at the end."""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timezone
from pathlib import Path

import click
from rich.console import Console
from rich.rule import Rule
from sqlalchemy import Engine

from joinsight.analysis.comparison import compare
from joinsight.cli import diff, read
from joinsight.cli.options import command, database_options
from joinsight.demo import runner
from joinsight.demo.workload import NIGHTLY, QUERIES
from joinsight.queries import lists, reading
from joinsight.queries.filters import Filters
from joinsight.serve.background import background_tasks
from joinsight.serve.server import DEFAULT_PORT
from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.store.database import open_database, upgrade
from joinsight.tables import EXECUTION_KEY, Row
from joinsight.terminal import execution
from joinsight.terminal.console import console, paragraph_width, progress
from joinsight.terminal.findings import execution_lines


@command()
@database_options
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="0: any free port.",
)
@click.option("--keep-serving", is_flag=True, help="Keep the collector running until Ctrl-C.")
def demo(database_url: str | None, data: Path | None, port: int, keep_serving: bool) -> None:
    """Run a real Spark job and report what its joins cost.

    Takes about a minute: it writes 50 MB of data to a temporary folder and joins it with each of Spark's strategies,
    with the listener attached. Needs Java and pip install 'joinsight[spark]'.
    """
    out = console()
    options = "" if data is None and database_url is None else _options(database_url, data)
    runner.check_requirements()
    token, password = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    since = datetime.now(timezone.utc)
    with open_database(database_url, data, create=True) as engine:
        upgrade(engine)
        with (
            runner.collector(engine, port, [token, f"read:{password}"], or_any_port=True) as (url, server),
            background_tasks(engine, server.collector.metrics),
        ):
            with progress() as bar:
                task = bar.add_task("Starting Spark", total=None)

                def on_step(step: int, steps: int, title: str) -> None:
                    bar.update(task, completed=step - 1, total=steps, description=title.split(":")[0])
                    if not bar.console.is_terminal:
                        click.echo(f"[{step}/{steps}] {title}", err=True)

                runner.run_workload(url, {TOKEN_VARIABLE: token}, on_step)
                bar.update(task, completed=bar.tasks[0].total or 0, description="Done")
            report(out, engine, runner.wait_for_application(engine, since))
            _more(out, options, url, password if keep_serving else None)
            if keep_serving:
                try:
                    while not server.should_exit:
                        time.sleep(0.5)
                except KeyboardInterrupt:
                    out.print("Stopped.")


def report(out: Console, engine: Engine, application: str) -> None:
    """Print the cost of the workload: its queries, notable plans, largest operators and findings."""
    with engine.connect() as connection:
        mine = Filters(application=application, limit=60)
        titles = [title for title, _ in QUERIES]
        queries = [r for r in lists.read_queries(connection, mine, "recent")[::-1] if r["description"] in titles]
        shuffles, broadcasts, joins = (
            lists.read_list(connection, name, mine, "size") for name in ("shuffles", "broadcasts", "joins")
        )
        findings = lists.read_list(connection, "findings", mine, "severity")
        nights = [query for query in queries if query["description"] == NIGHTLY]
        queries = [query for query in queries if query not in nights]
        last_two = [reading.read_run(connection, _key(query)) for query in nights[-2:]]
        plans = [reading.read_plan(connection, key) for key in _notable(queries, shuffles, joins)]
    out.print(Rule("Queries"))
    read.print_table(out, read.query_table(queries), queries)
    for plan in plans:
        out.print(Rule("Plan"))
        execution.print_header(out, plan)
        execution.print_plan(out, plan, None)
        out.print()
    out.print(Rule("History of a query"))
    read.print_table(out, read.query_table(nights), nights)
    out.print()
    diff.print_comparison(out, compare(*last_two))
    for title, render, rows in (
        ("Shuffles, largest first", read.shuffle_table, shuffles[:10]),
        ("Broadcasts, largest first", read.broadcast_table, broadcasts[:10]),
        ("Joins, most rows out first", read.join_table, joins[:12]),
    ):
        if rows:
            out.print(Rule(title))
            read.print_table(out, render(rows), rows)
    out.print(Rule("Findings, worst first"))
    kinds = {finding["finding"]: finding for finding in reversed(findings)}
    for finding in sorted(kinds.values(), key=findings.index):
        for line in execution_lines(finding, paragraph_width(out)):
            out.print(line, soft_wrap=True)


def _notable(queries: list[Row], shuffles: list[Row], joins: list[Row]) -> list[reading.Key]:
    """The plans to show: one where AQE split a skewed join, one with a reused shuffle, and one that failed."""
    chosen: list[Row] = [join for join in joins if join["is_skew"]][:1]
    chosen += [shuffle for shuffle in shuffles if (shuffle["consumers"] or 0) > 1][:1]
    chosen += [query for query in queries if query["state"] == "failed"][:1]
    return list(dict.fromkeys(map(_key, chosen)))


def _key(row: Row) -> reading.Key:
    return tuple(row[name] for name in EXECUTION_KEY)


def _options(database_url: str | None, data: Path | None) -> str:
    return " --database-url ..." if database_url else f" --data '{data}'"


def _more(out: Console, options: str, url: str, password: str | None) -> None:
    """Print what to try next; `password` opens the pages if the collector keeps serving."""
    out.print(Rule("More"))
    commands = {
        f"joinsight queries --sort time{options}": "what took longest",
        f"joinsight plan last --metrics{options}": "a plan with every metric, as in Spark's UI",
        f"joinsight plan last --all-versions{options}": "how AQE changed it",
        f"joinsight shuffles --sort skew{options}": "what is skewed",
        f"joinsight findings{options}": "the findings, with numbers and advice",
    }
    for line, meaning in commands.items():
        out.print(f"  {line:<{max(map(len, commands))}}  {meaning}", soft_wrap=True)
    served = "serves" if password else "served until now; `joinsight serve` serves them from now on"
    out.print(f"  Metrics for Prometheus: {url}/metrics ({served})", soft_wrap=True)
    if password:
        out.print(f"  The plans in a browser: {url}/ (any user name, password {password})", soft_wrap=True)
        out.print("  The collector runs until Ctrl-C.")
    else:
        out.print(f"  The plans in a browser: joinsight ui{options}", soft_wrap=True)
