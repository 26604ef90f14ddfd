"""Options and types of options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from joinsight.errors import ConfigurationError
from joinsight.store.database import URL_VARIABLE
from joinsight.wording.moments import parse_duration

Command = TypeVar("Command", bound=Callable[..., Any])


_LONGEST = timedelta(days=36_525)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.4 on
    """A length of time, at least and at most so long; `examples` are what a person would write."""

    name = "duration"

    def __init__(self, at_least: str, examples: str = "90s, 5m or 2h") -> None:
        self._at_least = at_least
        self._examples = examples

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> timedelta:
        """The duration; fails with what would be right."""
        try:
            found = parse_duration(value)
        except OverflowError:
            found = None
        least = parse_duration(self._at_least)
        if found is None or least is None or not least <= found <= _LONGEST:
            problem = f"{value!r} is no such time; write {self._examples}, at least {self._at_least}."
            self.fail(problem, param, context)
        return found


def database_options(command: Command) -> Command:
    """``--database-url`` and ``--data``."""
    command = click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the embedded PostgreSQL.  [default: ~/.local/share/joinsight]",
    )(command)
    return click.option(
        "--database-url",
        metavar="URL",
        help=f"PostgreSQL server to use instead of the embedded one; better set as {URL_VARIABLE}.",
    )(command)


def read_secret(option: str, file: Path) -> str:
    """The first line of a file that an option names; raises `ConfigurationError` that does not show it."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(option, str(file), str(error), "Name a readable text file.") from None
    if not text.strip():
        raise ConfigurationError(option, str(file), "the file is empty", "Write the secret into its first line.")
    return text.strip().splitlines()[0].strip()


def master_option(command: Command) -> Command:
    """``--master``, of commands that Spark carries out."""
    return click.option(
        "--master",
        metavar="URL",
        help="Spark's master: local[4], yarn, spark://...  [default: Spark's own, else local[*]]",
    )(command)
