"""Writes generated tables into documentation pages, between two marks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def written_into(page: str, name: str, lines: Iterable[str]) -> str:
    """The text of the page with these lines between the marks of this name."""
    start, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return "".join((before, start, *(f"{line}\n" for line in lines), end, after))


def rewrite(path: Path, name: str, lines: Iterable[str]) -> None:
    """Replace the lines between the marks of this name in the page's file."""
    path.write_text(written_into(path.read_text(), name, lines))
