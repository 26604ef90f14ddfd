"""`joinsight why`: divides the difference between two executions over its causes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from joinsight.base.units import duration_text
from joinsight.cli.options import command, database_options
from joinsight.present.engines import engine_text
from joinsight.present.report import Report, Section, markdown
from joinsight.present.values import query_title
from joinsight.queries import reading
from joinsight.store.database import open_store
from joinsight.terminal.console import console, print_text
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.why import Why, explain


@command()
@database_options
@click.argument("a")
@click.argument("b", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: docs/why.md describes its fields.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print it as Markdown, with a table of the causes.")
def why(database_url: str | None, data: Path | None, a: str, b: str | None, as_json: bool, as_markdown: bool) -> None:
    """Say why an execution took longer or shorter than another.

    A and B are ids from `joinsight queries`: 12, APPLICATION/12, or last. Without B, A is compared with the typical
    one of the latest runs of the same query in the same job before it.
    """
    with open_store(database_url, data) as connection:
        after = reading.find_execution(connection, b or a)
        before = reading.find_execution(connection, a) if b else reading.find_typical(connection, after)
        first, last = (reading.read_plan(connection, key) for key in (before, after))
    found = explain(first, last)
    if as_json:
        click.echo(to_json(asdict(found)))
        return
    if as_markdown:
        click.echo(markdown(_page(query_title(last.execution), found)), nl=False)
        return
    out = console()
    print_text(out, Text(query_title(last.execution), "bold"))
    for name, text in ((found.a, engine_text(first)), (found.b, engine_text(last))):
        if text:
            print_text(out, Text(visible_line(f"{name}: {text}."), "dim"))
    print_why(out, found)


def _page(title: str, found: Why) -> Report:
    """The page that `--markdown` prints."""
    rows = [(_amount(cause.wall_ms), cause.code, "; ".join(cause.evidence), cause.advice) for cause in found.causes]
    total = [(_amount(found.difference_ms), "in all", "", "")]
    causes = [] if found.is_normal else [*rows, *total]
    note = " ".join(f"Note: {limit}." for limit in found.limits)
    section = Section("Causes", ("time", "cause", "what moved", "what to do"), causes, frozenset({0}), note)
    return Report(title, found.text, [section] if causes or note else [])


def _amount(ms: int) -> str:
    return f"{'+' if ms >= 0 else '-'}{duration_text(abs(ms))}"


def print_why(out: Console, found: Why) -> None:
    """Print the sentence, then a line for each cause with what moved."""
    print_text(out, Text(visible_line(found.text)))
    for limit in found.limits:
        print_text(out, Text(visible_line(f"Note: {limit}."), "yellow"))
    if found.is_normal:
        return
    out.print()
    for cause in (each for each in found.causes if each.wall_ms):
        amount = _amount(cause.wall_ms)
        evidence = "; ".join(cause.evidence)
        print_text(out, Text(f"{amount:>9}  {cause.code:<13}  {visible_line(evidence)}".rstrip()))
        if cause.advice:
            print_text(out, Text(f"{'':>24}  {visible_line(cause.advice)}", "dim"))
    print_text(out, Text(f"{_amount(found.difference_ms):>9}  in all", "bold"))
