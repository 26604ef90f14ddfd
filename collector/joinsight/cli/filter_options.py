"""The options of the lists: filters, sort orders, a limit, JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from joinsight.cli.options import Command, database_options, json_lines_option, limit_option
from joinsight.queries.filters import SORTS, Filter, filters_of


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
        return None if value is None else declared.value(f"--{name}", value)

    return click.option(
        f"--{name}",
        type=_Choice(declared) if declared.has_choices else None,
        metavar=declared.metavar,
        callback=parse,
        help=f"{declared.help}.",
    )


class _Choice(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.2 on
    """The values of a filter, which are computed when they are needed: a help with a metavar does not show them."""

    def __init__(self, declared: Filter) -> None:
        self._declared = declared
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """The values."""
        return self._declared.choices

    @choices.setter
    def choices(self, choices: object) -> None:
        """Set by the base class."""
