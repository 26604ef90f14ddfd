"""The options of the lists: filters, sort orders, a limit, JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from joinsight.cli.options import Command, database_options, json_lines_option, limit_option
from joinsight.filters import SORTS, Filter, filters_of


def filter_options(name: str) -> Callable[[Command], Command]:
    """Options for a list's filters and sort orders, from `filters`, with ``--limit`` and ``--json``."""

    def decorate(command: Command) -> Command:
        orders = SORTS[name]
        for option in (
            json_lines_option,
            limit_option(),
            click.option(
                "--sort",
                type=click.Choice(list(orders)),
                default=next(iter(orders)),
                show_default=True,
                help="; ".join(f"{each}: {sort.meaning}" for each, sort in orders.items()) + ".",
            ),
            *(_filter_option(each, declared) for each, declared in reversed(filters_of(name).items())),
        ):
            command = option(command)
        return database_options(command)

    return decorate


def _filter_option(name: str, declared: Filter) -> Callable[[Command], Command]:
    def parse(context: click.Context, param: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        choice = _choice(declared)
        return declared.value(f"--{name}", choice.convert(value, param, context) if choice else value)

    def complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [choice for choice in declared.choices if choice.startswith(incomplete)]

    return click.option(
        f"--{name}",
        type=None if declared.metavar else _choice(declared),
        metavar=declared.metavar,
        callback=parse,
        shell_complete=complete if declared.metavar else None,
        help=f"{declared.help}.",
    )


def _choice(declared: Filter) -> click.Choice[str] | None:
    """Those of a filter with a metavar are too many for the help, which need not know them."""
    return click.Choice(declared.choices) if declared.choices else None
