"""Commands that show what is stored: queries, plan, cost, shuffles, broadcasts, joins.

Their help is quick: what prints them, which needs the database's modules, is imported when they run.
"""

from __future__ import annotations

from typing import Any

import click

from joinsight.cli.filter_options import filter_options
from joinsight.cli.options import command, core_hour_price_option, database_options


@command()
@filter_options("queries")
def queries(**options: Any) -> None:
    """List SQL executions."""
    _print("queries", **options)


@command()
@filter_options("shuffles")
def shuffles(**options: Any) -> None:
    """List shuffles: bytes written, partitions, wait and skew."""
    _print("shuffles", **options)


@command()
@filter_options("broadcasts")
def broadcasts(**options: Any) -> None:
    """List broadcasts: outcome, size in memory, time on the driver."""
    _print("broadcasts", **options)


@command()
@filter_options("joins")
def joins(**options: Any) -> None:
    """List joins: strategy, rows in and out, build side, spill.

    The wall time is how long the execution waited for the join and for what only it needed: joinsight docs cost. A
    build side with a question mark could have been broadcast: its size was at or below the threshold.
    """
    _print("joins", **options)


@command()
@database_options
@click.argument("execution")
@click.option("--version", type=int, help="A plan version, from 0.  [default: the final one]")
@click.option("--all-versions", is_flag=True, help="All plan versions that AQE made, oldest first.")
@click.option("--metrics", is_flag=True, help="All metrics of each operator, named as in Spark's UI.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with everything stored.")
def plan(**options: Any) -> None:
    """Draw the plan of an execution with the cost of each operator.

    EXECUTION is an id from `joinsight queries`: 12, APPLICATION/12, or last.
    """
    from joinsight.cli.read import print_stored

    print_stored(**options)


@command()
@database_options
@click.argument("execution")
@core_hour_price_option("Show what the task time cost at this price of a core for an hour.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all lines and raw numbers.")
def cost(**options: Any) -> None:
    """Show what each operator and each join of an execution cost.

    EXECUTION is an id from `joinsight queries`: 12, APPLICATION/12, or last. Wall time is how long the execution
    waited, task time is summed over tasks; both are divided completely. Each join is shown with the sorts, shuffles
    and broadcasts that it alone made necessary.
    """
    from joinsight.cli.cost import print_stored

    print_stored(**options)


@command()
@database_options
@click.argument("execution")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: docs/verdict.md describes its fields.")
def verdict(**options: Any) -> None:
    """Say where an execution's time went, why, and what to do first.

    EXECUTION is an id from `joinsight queries`: 12, APPLICATION/12, or last.
    """
    from joinsight.cli.verdict import print_stored

    print_stored(**options)


def _print(name: str, **options: Any) -> None:
    from joinsight.cli.read import print_list

    print_list(name, **options)
