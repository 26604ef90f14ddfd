"""The documentation as pages: the Markdown that is installed with the program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from joinsight.base import manual
from joinsight.base.manual import anchor_of
from joinsight.pages.environment import render

_PAGE = re.compile(r"(?:\.\./)*(?:docs/)?([\w-]+)\.md(#[\w-]+)?")


def docs_index() -> str:
    """The page that lists all others, by their titles."""
    titles = {name: _title(file.read_text(encoding="utf-8")) for name, file in manual.pages().items()}
    by_title = dict(sorted(titles.items(), key=lambda page: page[1].lower()))
    return render("docs.html", heading="Docs", titles=by_title, text=None)


def docs_page(name: str) -> str:
    """A page by its name; raises `NotFound`."""
    source = manual.read(name)
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(source)
    for token in _flat(tokens):
        _point_here(token)
    for opening, inside in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", anchor_of(inside.content))
    html = markdown.renderer.render(tokens, markdown.options, {})  # without HTML of the source
    html = html.replace("<th></th>", "<td></td>")
    for scrolls in ("pre", "table"):
        html = html.replace(f"<{scrolls}>", f'<{scrolls} tabindex="0">')
    text = Markup(html)
    return render("docs.html", heading=_title(source), titles={}, text=text)


def _title(source: str) -> str:
    return manual.title(source).replace("`", "")


def _flat(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or ())


def _point_here(token: Token) -> None:
    """Let links to other pages lead to those of the collector, to files of the repository to the site; no pictures."""
    if token.type == "image":  # the policy of pages loads none
        token.type, token.tag, token.content = "text", "", token.content
        return
    href = token.attrGet("href") if token.type == "link_open" else None
    if not isinstance(href, str):
        return
    page = _PAGE.fullmatch(href)
    if page and page[1].lower() in manual.pages():
        token.attrSet("href", f"/docs/{quote(page[1].lower())}{page[2] or ''}")
    elif not href.startswith(("http://", "https://", "#")):
        token.attrSet("href", manual.SITE)
