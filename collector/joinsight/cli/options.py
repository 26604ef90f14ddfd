"""Commands whose help has sections, and options and parameter types that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from joinsight.base.errors import ConfigurationError
from joinsight.base.timeparse import parse_duration, parse_moment
from joinsight.store import URL_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])


OPTIONS, EXPERT, DATABASE = "Options", "Expert options", "Database"
"""The sections of a command's options, in their order."""


class SectionOption(click.Option):
    """An option in a section of its own."""

    def __init__(self, *args: Any, section: str = OPTIONS, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists rarely needed options last."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        for title in (OPTIONS, EXPERT, DATABASE):
            options = (each for each in self.get_params(context) if isinstance(each, click.Option))
            its = (each for each in options if getattr(each, "section", OPTIONS) == title)
            records = [record for each in its if (record := each.get_help_record(context)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class SectionedGroup(click.Group):
    """A group of such commands."""

    command_class = SectionedCommand


def command(name: str | None = None) -> Callable[[Callable[..., Any]], SectionedCommand]:
    """Like `click.command`."""
    return click.command(name, cls=SectionedCommand)


def expert_option(*names: str, **attributes: Any) -> Callable[[Command], Command]:
    """Like `click.option`, for what few need."""
    return click.option(*names, cls=SectionOption, section=EXPERT, **attributes)


_LONGEST = timedelta(days=36_525)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.4 on
    """A duration of at least `at_least`, at most `_LONGEST`; `examples` are for the error message."""

    name = "duration"

    def __init__(self, at_least: str, examples: str = "90s, 5m or 2h") -> None:
        self._at_least = at_least
        self._examples = examples

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> timedelta:
        """The duration; fails with examples."""
        try:
            duration = parse_duration(value)
        except OverflowError:
            duration = None
        least = parse_duration(self._at_least)
        if duration is None or least is None or not least <= duration <= _LONGEST:
            problem = f"{value!r} is not a valid duration; write {self._examples}, at least {self._at_least}."
            self.fail(problem, param, context)
        return duration


KEEP = Duration(at_least="1d", examples="400d or 52w")
"""How long the database keeps executions."""


class Moment(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.4 on
    """A point in time: ``2h`` (ago), or an ISO date with or without a time (UTC unless it has an offset)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> datetime:
        """The time; raises `ConfigurationError` with examples."""
        return parse_moment(param.opts[0] if param else "TIME", value)


def database_options(command: Command) -> Command:
    """``--database-url`` and ``--data``."""
    command = click.option(
        "--data",
        cls=SectionOption,
        section=DATABASE,
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder of the embedded PostgreSQL.  [default: ~/.local/share/joinsight]",
    )(command)
    return click.option(
        "--database-url",
        cls=SectionOption,
        section=DATABASE,
        metavar="URL",
        help=f"Use this PostgreSQL server; better set {URL_VARIABLE}, which other users cannot see.",
    )(command)


def read_secret(option: str, file: Path) -> str:
    """The first line of the file of `option`; raises `ConfigurationError`, which does not show the content."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(option, str(file), str(error), "Name a readable text file.") from None
    if not text.strip():
        raise ConfigurationError(option, str(file), "the file is empty", "Write the secret into its first line.")
    return text.strip().splitlines()[0].strip()


def master_option(command: Command) -> Command:
    """``--master``, for commands that run in Spark."""
    return click.option(
        "--master",
        metavar="URL",
        help="Spark's master: local[4], yarn, spark://...  [default: Spark's own, else local[*]]",
    )(command)


def limit_option(default: int = 20, *, most: int = 100_000, of: str = "rows") -> Callable[[Command], Command]:
    """``--limit``."""
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help=f"Maximum number of {of}.",
    )


def core_hour_price_option(help: str) -> Callable[[Command], Command]:
    """``--core-hour-price``."""
    return click.option("--core-hour-price", metavar="PRICE", type=click.FloatRange(0, 1_000_000), help=help)


def no_browser_option(command: Command) -> Command:
    """``--no-browser``."""
    help = "Print the address, on the first line, and open no browser."
    return click.option("--no-browser", is_flag=True, help=help)(command)


def json_lines_option(command: Command) -> Command:
    """``--json`` of a list."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object per line, with all columns and raw numbers."
    )(command)
