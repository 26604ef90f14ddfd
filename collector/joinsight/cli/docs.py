"""`joinsight docs`: the documentation of the installed version."""

from __future__ import annotations

import sys

import click
from rich.markdown import Markdown
from rich.text import Text

from joinsight import manual
from joinsight.cli import table
from joinsight.cli.table import Column
from joinsight.terminal import console


@click.command()
@click.argument("page", required=False, metavar="[PAGE[#SECTION]]")
def docs(page: str | None) -> None:
    """Print a page of the documentation, or a section of it.

    Without PAGE it lists the pages. What a pipe gets is Markdown.
    """
    out = console()
    if page is None:
        names = manual.pages()
        titles = [manual.title(manual.read(name)) for name in names]
        for line in table.lines([Column("page", list(names)), Column("title", titles)], out.width):
            out.print(line, soft_wrap=True)
    elif sys.stdout.isatty():
        out.print(Markdown(manual.read(page), hyperlinks=False))
        out.print(Text(f"\n{manual.address(page)}", "dim"), soft_wrap=True)
    else:
        click.echo(manual.read(page), nl=False)
