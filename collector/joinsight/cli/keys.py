"""`joinsight keys`: the code that names the hottest keys of a join or shuffle of a stored run."""

from __future__ import annotations

from pathlib import Path

import click

from joinsight.cli.options import command, database_options


@command()
@database_options
@click.argument("execution")
@click.argument("node", type=int)
def keys(execution: str, node: int, database_url: str | None, data: Path | None) -> None:
    """Print the code that names the hottest keys of a join or shuffle.

    EXECUTION is an id from `joinsight queries`: 12, APPLICATION/12, or last. NODE is the number of the join or shuffle
    in its final plan. No key is stored, so run the code where the data is: SQL, or Python if the rows come from more
    than one table.
    """
    from joinsight.present.hot_keys import key_code
    from joinsight.queries import reading
    from joinsight.store.database import open_store

    with open_store(database_url, data) as connection:
        stored = reading.read_plan(connection, reading.find_execution(connection, execution))
    click.echo(key_code(stored, node))
