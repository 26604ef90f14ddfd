"""The documentation that is installed with the program: its pages, their sections, and their web addresses.

The wheel includes ``docs/*.md`` and ``RUNBOOK.md``; an editable install reads them from the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from joinsight.base.errors import NotFound

SITE = "https://joinsight.github.io/joinsight/"
_HEADING = re.compile(r"(#+) (.+)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def pages() -> dict[str, Path]:
    """The file of each page, by the page's name: ``findings``, ``runbook``."""
    package = Path(__file__).parent.parent
    inside = package / "docs"
    root = package.parent.parent
    files = inside.glob("*.md") if inside.is_dir() else (*root.glob("docs/*.md"), root / "RUNBOOK.md")
    return {file.stem.lower(): file for file in sorted(files, key=lambda file: file.stem.lower())}


def title(page: str) -> str:
    """The heading of a page, given its Markdown."""
    return page.partition("\n")[0].removeprefix("# ")


def address(target: str) -> str:
    """The web address of ``PAGE`` or ``PAGE#SECTION``."""
    name, mark, anchor = target.partition("#")
    return f"{SITE}{name}/{mark}{anchor}"


def read(target: str) -> str:
    """The Markdown of ``PAGE`` or ``PAGE#SECTION``; raises `NotFound` with the valid names."""
    name, _, anchor = target.partition("#")
    file = pages().get(name)
    if file is None:
        raise NotFound(f"No page {name!r}. Pages: {', '.join(pages())}.")
    page = file.read_text(encoding="utf-8")
    if not anchor:
        return page
    sections = dict(_sections(page))
    if anchor not in sections:
        raise NotFound(f"Page {name} has no section {anchor!r}. Sections: {', '.join(sections)}.")
    return sections[anchor]


def anchor_of(heading: str) -> str:
    """The anchor of a heading, as on GitHub and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def without_links(markdown: str) -> str:
    """The text with links to other pages as plain text."""
    return _LINK.sub(r"\1", markdown)


def _sections(page: str) -> Iterator[tuple[str, str]]:
    """Anchor and Markdown of each section, subsections included."""
    lines = page.splitlines(keepends=True)
    is_code = False
    headings: list[tuple[int, int, str]] = []
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and (heading := _HEADING.match(line)):
            headings.append((number, len(heading[1]), heading[2]))
    for position, (number, level, text) in enumerate(headings):
        ends = (other for other, other_level, _ in headings[position + 1 :] if other_level <= level)
        yield anchor_of(text), "".join(lines[number : next(ends, len(lines))])
