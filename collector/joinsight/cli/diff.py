"""`joinsight diff`: compares two executions side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from joinsight.analysis.comparison import (
    MIN_CHANGE,
    MIN_RATIO,
    ComparedExecution,
    Comparison,
    MeasureChange,
    Pair,
    compare,
)
from joinsight.base.units import duration_text
from joinsight.cli.options import command, database_options
from joinsight.present.comparison import difference, not_compared, started_text, value, verdicts
from joinsight.present.engines import engine_text
from joinsight.present.values import execution_name, join_keys, one_line, partitioned_by, query_title, short_key, when
from joinsight.queries import reading
from joinsight.store.database import open_store
from joinsight.terminal import table
from joinsight.terminal.console import console, print_line
from joinsight.terminal.escaping import to_json, visible_line
from joinsight.terminal.table import Column

_TITLES = {"joins": "Joins", "shuffle": "Shuffles", "broadcast": "Broadcasts", "stage": "All stages"}
_STYLES = {True: "red", False: "green", None: ""}
_SETTING_WIDTH = 60
_FOOTNOTE = (
    f"Hidden: changes below {MIN_RATIO * 100:.0f} % of the larger value, or below "
    f"{MIN_CHANGE['bytes'] / 2**20:.0f} MiB, "
    f"{MIN_CHANGE['rows']:,} rows,\n{MIN_CHANGE['ms']:.0f} ms, {MIN_CHANGE['count']} in number or "
    f"{MIN_CHANGE['ratio']} in skew. --all shows them."
)


@command()
@database_options
@click.argument("a")
@click.argument("b", required=False)
@click.option("--all", "everything", is_flag=True, help="Also show what did not change, or only a little.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with everything compared.")
def diff(database_url: str | None, data: Path | None, a: str, b: str | None, everything: bool, as_json: bool) -> None:
    """Compare two executions: plan, settings and numbers.

    A and B are ids from `joinsight queries`: 12, APPLICATION/12, or last. Without B, A is compared with the previous
    successful and complete run of the same query in the same job.
    """
    with open_store(database_url, data) as connection:
        after = reading.find_execution(connection, b or a)
        before = reading.find_execution(connection, a) if b else reading.find_previous(connection, after)
        plans = [reading.read_plan(connection, key) for key in (before, after)]
        runs = (reading.read_run(connection, key, its.nested) for key, its in zip((before, after), plans, strict=True))
        comparison = compare(*runs)
        engines = {side: engine_text(its) for side, its in zip("AB", plans, strict=True)}
    if as_json:
        click.echo(to_json({**_as_json(comparison), "engines": engines}))
        return
    print_comparison(console(), comparison, everything, engines)


def print_comparison(
    out: Console, comparison: Comparison, everything: bool = False, engines: Mapping[str, str] | None = None
) -> None:
    """Print what changed: header, settings, plan, operators and stages; `everything`: what did not change, too.

    `engines`: what native engines ran, by side.
    """
    _print_header(out, comparison)
    for side, text in (engines or {}).items():
        if text:
            out.print(Text(f"{side}: {visible_line(text)}."), soft_wrap=True)
    _print_settings(out, comparison)
    _print_tables(out, comparison, everything)
    _print_parts(out, comparison, everything)
    if not everything:
        out.print(Text(f"\n{_FOOTNOTE}", "dim"), soft_wrap=True)


def _print_tables(out: Console, comparison: Comparison, everything: bool) -> None:
    for name, pairs in comparison.pairs.items():
        title = _TITLES[name]
        if name == "stage" and comparison.parts:
            title += ", with those of the executions that they started"
        _print_pairs(out, title, [pair for pair in pairs if everything or pair.is_large], everything)


def _print_parts(out: Console, comparison: Comparison, everything: bool) -> None:
    """Print what changed in the executions that both started, and which only one of them did."""
    alike = 0
    for part in comparison.parts:
        if part.comparison is None:
            its = part.run.execution
            took = duration_text(its["duration_ms"] or 0)
            out.print()
            print_line(out, Text(f"Only {part.only} started {started_text(its)}, {took}", "yellow"))
        elif everything or part.is_large:
            _print_part(out, part.comparison, everything)
        else:
            alike += 1
    if alike:
        what = (
            "1 other execution that both started differs" if alike == 1 else f"{alike} others that both started differ"
        )
        out.print(Text(f"\n{what} little.", "dim"))
    for text in not_compared(comparison):
        out.print(Text(text, "dim"), soft_wrap=True)


def _print_part(out: Console, its: Comparison, everything: bool) -> None:
    out.print()
    print_line(out, Text(f"Both started {started_text(its.b.execution)}", "bold"))
    for letter, run in (("A", its.a), ("B", its.b)):
        out.print(_run_line(letter, run, its), soft_wrap=True)
    for text, is_notable in verdicts(its):
        if is_notable:
            out.print(Text(text, "yellow"), soft_wrap=True)
    _print_tables(out, its, everything)


def _run_line(letter: str, run: ComparedExecution, comparison: Comparison) -> Text:
    """When it ran, how it ended, and of B how much longer it took."""
    e = run.execution
    how = e["state"] if e["duration_ms"] is None else f"{e['state']} after {duration_text(e['duration_ms'])}"
    line = Text(f"{letter}  {execution_name(e)}  {when(e['started_at'])}  {how}")
    if letter == "B":
        [duration] = comparison.duration.changes
        line.append(f"  {difference(duration)}", _style(duration) if duration.is_large else "")
    return line


def _print_header(out: Console, comparison: Comparison) -> None:
    print_line(out, Text(query_title(comparison.b.execution), "bold"))
    for letter, run in (("A", comparison.a), ("B", comparison.b)):
        e = run.execution
        out.print(_run_line(letter, run, comparison), soft_wrap=True)
        if e["state"] == "running":
            out.print(Text("   It still runs: its numbers are those of its last report", "yellow"), soft_wrap=True)
        for reason in e["incomplete"] or ():
            out.print(Text(f"   These numbers may be partial: {reason}", "yellow"), soft_wrap=True)
        if e["error"]:
            print_line(out, Text(f"   {one_line(e['error'])}", "red"))
    for text, is_notable in verdicts(comparison):
        out.print(Text(text, "yellow" if is_notable else "dim"), soft_wrap=True)


def _print_settings(out: Console, comparison: Comparison) -> None:
    if not comparison.configuration:
        return
    out.print(Text("\nConfiguration", "bold"))
    width = min(_SETTING_WIDTH, max(map(len, comparison.configuration)))
    for key, values in comparison.configuration.items():
        before, after = ("(default)" if value is None else one_line(value) for value in values)
        print_line(out, Text(f"{key:<{width}}  {before} → {after}"))


def _print_pairs(out: Console, title: str, pairs: list[Pair], everything: bool) -> None:
    if not pairs:
        return
    rows = [row for pair in pairs for row in _lines(pair, everything)]
    operator, label, measure, before, after, how_much = zip(*rows, strict=True)
    columns = [
        Column("operator", operator),
        Column("", label, flexible=True),
        Column("what", measure),
        Column("A", before, right=True),
        Column("B", after, right=True),
        Column("change", how_much, right=True),
    ]
    out.print(Text(f"\n{title}", "bold"))
    table.print_columns(out, columns)


def _lines(pair: Pair, everything: bool) -> Iterator[tuple[str | Text, ...]]:
    """A line for each change to show; the operator is in the first line."""
    names: tuple[str, str] = (short_key(pair.row["operator_key"]), _label(pair)) if "node_id" in pair.row else ("", "")
    if pair.a is None or pair.b is None:
        where = "only in A" if pair.b is None else "only in B"
        yield (*names, Text(where, "yellow"), "", "", "")
        return
    for change in pair.changes:
        if everything or change.is_large:
            shown = (value(change, change.before), value(change, change.after))
            yield (*names, change.measure.title, *shown, Text(difference(change), _style(change)))
            names = ("", "")


def _label(pair: Pair) -> str:
    """The operator's text, from B if B has it."""
    if pair.table == "joins":
        return f"{pair.row['join_type'] or ''} {join_keys(pair.row)}".strip()
    if pair.table == "shuffle":
        return f"by {partitioned_by(pair.row)}"
    return str(pair.row["mode"] or "").partition("(")[0]


def _style(change: MeasureChange) -> str:
    return _STYLES[change.is_worse] if change.is_large else ""


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "a": _run(comparison.a),
        "b": _run(comparison.b),
        "same_query": comparison.same_query,
        "same_plan": comparison.same_plan,
        "configuration": {key: {"a": a, "b": b} for key, (a, b) in comparison.configuration.items()},
        **{name: [_pair(pair) for pair in pairs] for name, pairs in comparison.pairs.items()},
        "started": [
            _as_json(part.comparison)
            if part.comparison
            else {side: run and _run(run) for side, run in (("a", part.a), ("b", part.b))}
            for part in comparison.parts
        ],
    }


def _run(run: ComparedExecution) -> dict[str, Any]:
    return {"execution": run.execution, "spark_version": run.application["spark_version"]}


def _pair(pair: Pair) -> dict[str, Any]:
    changed = [change.measure.name for change in pair.changes if change.is_large]
    return {"a": pair.a, "b": pair.b, "changed": changed}
