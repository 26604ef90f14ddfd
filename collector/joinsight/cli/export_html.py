"""`joinsight export-html`: pages as files."""

from __future__ import annotations

from pathlib import Path

import click

from joinsight.base.errors import ConfigurationError
from joinsight.cli.options import command, database_options


@command()
@click.argument("execution")
@click.argument("other", required=False, metavar="[B]")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write this file; -: standard output.  [default: named after the execution, in this folder]",
)
@database_options
def export_html(
    database_url: str | None, data: Path | None, execution: str, other: str | None, output: Path | None
) -> None:
    """Write an execution, or the comparison of two, as one HTML file.

    EXECUTION and B are ids from `joinsight queries`: 12, APPLICATION/12, or last. The file has the verdict, the plan
    and the metrics of each operator, or the comparison of EXECUTION and B. It needs no network, and stays below 1 MB:
    it says what was left out for that. Secrets are masked as in the database.
    """
    from joinsight.base.files import write_whole
    from joinsight.base.units import bytes_text
    from joinsight.pages.comparison import Side
    from joinsight.pages.one_file import comparison_file, execution_file
    from joinsight.pages.svg_file import file_name
    from joinsight.present.values import execution_name
    from joinsight.queries import reading
    from joinsight.store.database import open_store

    with open_store(database_url, data) as connection:
        sides = []
        for letter, name in zip("AB", filter(None, (execution, other)), strict=False):
            key = reading.find_execution(connection, name)
            stored = reading.read_plan(connection, key)
            run = reading.read_run(connection, key, stored.nested)
            sides.append(Side(letter, stored, run, stored.version(None)))
    text = execution_file(sides[0].stored, sides[0].run) if other is None else comparison_file(*sides)
    if output == Path("-"):
        click.echo(text)
        return
    path = output or Path(file_name("-".join(execution_name(side.stored.execution) for side in sides), ".html"))
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigurationError("--output", str(path), str(error), "Name a file that can be written.") from None
    click.echo(f"{path} ({bytes_text(len(text.encode()))})")
