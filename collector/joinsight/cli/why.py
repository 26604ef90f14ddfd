"""`joinsight why`: divides the difference between two executions over its causes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from joinsight.base.units import duration_text
from joinsight.cli.options import command, database_options
from joinsight.present.values import query_title
from joinsight.queries import reading
from joinsight.store.database import check_schema, open_database
from joinsight.terminal.console import console, print_text
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.why import Why, explain


@command()
@database_options
@click.argument("a")
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: docs/why.md describes its fields.")
def why(database_url: str | None, data: Path | None, a: str, b: str | None, as_json: bool) -> None:
    """Say why an execution took longer or shorter than another.

    A and B are ids from `joinsight queries`: 12, APPLICATION/12, or last. Without B, A is compared with the typical
    one of the latest runs of the same query in the same job before it.
    """
    with open_database(database_url, data) as engine:
        check_schema(engine)
        with engine.connect() as connection:
            after = reading.find_execution(connection, b or a)
            before = reading.find_execution(connection, a) if b else reading.find_typical(connection, after)
            first, last = (reading.read_plan(connection, key) for key in (before, after))
    found = explain(first, last)
    if as_json:
        click.echo(to_json(asdict(found)))
        return
    out = console()
    print_text(out, Text(query_title(last.execution), "bold"))
    print_why(out, found)


def print_why(out: Console, found: Why) -> None:
    """Print the sentence, then a line for each cause with what moved."""
    print_text(out, Text(visible_line(found.text)))
    for limit in found.limits:
        print_text(out, Text(visible_line(f"Note: {limit}."), "yellow"))
    if found.is_normal:
        return
    out.print()
    for cause in found.causes:
        sign = "+" if cause.wall_ms >= 0 else "-"
        amount = f"{sign}{duration_text(abs(cause.wall_ms))}"
        evidence = "; ".join(cause.evidence)
        print_text(out, Text(f"{amount:>9}  {cause.code:<13}  {visible_line(evidence)}".rstrip()))
        if cause.advice:
            print_text(out, Text(f"{'':>24}  {visible_line(cause.advice)}", "dim"))
    total = f"{'+' if found.difference_ms >= 0 else '-'}{duration_text(abs(found.difference_ms))}"
    print_text(out, Text(f"{total:>9}  in all", "bold"))
