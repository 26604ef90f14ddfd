"""What `joinsight verdict` prints."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click
from sqlalchemy import Connection

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import NotFound
from joinsight.queries import reading
from joinsight.store.database import check_schema, open_database
from joinsight.terminal.console import console
from joinsight.terminal.escaping import to_json
from joinsight.terminal.execution import print_header
from joinsight.verdict import Verdict, judge


def print_stored(execution: str, *, database_url: str | None, data: Path | None, as_json: bool) -> None:
    """Print the verdict on the execution of this name."""
    with open_database(database_url, data) as engine:
        check_schema(engine)
        with engine.connect() as connection:
            stored = reading.read_plan(connection, reading.find_execution(connection, execution))
            verdict = _judge_with_nested(connection, stored)
    if as_json:
        click.echo(to_json({**asdict(verdict), "advice": [each.text for each in stored.not_followed]}))
        return
    print_header(console(), stored, verdict)


def _judge_with_nested(connection: Connection, stored: StoredPlan) -> Verdict:
    """The verdict on a stored execution, with that on the execution that it waited for, if that explains more."""
    found = judge(stored)
    number = found.evidence.get("longest_execution") if found.code == "nested" else None
    if not number:
        return found
    try:
        key = reading.find_execution(connection, f"{stored.execution['application_id']}/{number}")
    except NotFound:
        return found
    inner = judge(reading.read_plan(connection, key))
    return replace(found, text=f"{found.text} In execution {number}: {inner.text}", next=inner.next)
