"""What `joinsight verdict` prints."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from joinsight.queries import reading
from joinsight.store.database import open_store
from joinsight.terminal.console import console
from joinsight.terminal.escaping import to_json
from joinsight.terminal.execution import print_header
from joinsight.verdict import judge


def print_stored(execution: str, *, database_url: str | None, data: Path | None, as_json: bool) -> None:
    """Print the verdict on the execution of this name."""
    with open_store(database_url, data) as connection:
        stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    verdict = judge(stored)
    if as_json:
        click.echo(to_json({**asdict(verdict), "advice": [each.text for each in stored.not_followed]}))
        return
    print_header(console(), stored, verdict)
