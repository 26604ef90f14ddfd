"""`joinsight docs`: the documentation of the installed version."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from joinsight.base import manual
from joinsight.cli.options import command
from joinsight.terminal import table
from joinsight.terminal.console import console
from joinsight.terminal.table import Column


@command()
@click.argument("page", required=False, metavar="[PAGE[#SECTION]]")
def docs(page: str | None) -> None:
    """Print a page of the documentation.

    Without PAGE, lists the pages. With SECTION, prints that section only. To a pipe or file it
    prints Markdown.
    """
    out = console()
    if page is None:
        names = manual.pages()
        titles = [manual.title(manual.read(name)) for name in names]
        table.print_columns(out, [Column("page", list(names)), Column("title", titles)])
    elif sys.stdout.isatty():
        from rich.markdown import Markdown  # imported here: it brings two parsers

        out.print(Markdown(manual.read(page), hyperlinks=False))
        out.print(Text(f"\n{manual.address(page)}", "dim"), soft_wrap=True)
    else:
        click.echo(manual.read(page), nl=False)
