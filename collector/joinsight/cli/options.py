"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from joinsight.store.database import URL_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])


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
