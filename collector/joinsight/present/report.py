"""A report as sections of tables, and these as Markdown or as one HTML file without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$!])")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1c1e21}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem}"
    "th,td{border-bottom:1px solid #d8dade;vertical-align:top}"
    "td.right,th.right{text-align:right;white-space:nowrap}h2{margin-top:2.2rem}.note{color:#5c6068}"
    "@media(prefers-color-scheme:dark){body{color:#e4e6ea;background:#17181b}"
    "th,td{border-color:#3a3d43}.note{color:#a0a4ac}}"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and a table; without rows, only the sentence."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    """Columns with numbers."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What is written."""

    title: str
    about: str
    sections: Sequence[Section]


def markdown(report: Report) -> str:
    """The report as Markdown, with tables as GitHub has them."""
    return "\n".join(_markdown_lines(report))


def _markdown_lines(report: Report) -> Iterator[str]:
    yield f"# {_plain(report.title)}\n\n{_plain(report.about)}\n"
    for section in report.sections:
        yield f"## {_plain(section.title)}\n"
        if section.rows:
            yield f"| {' | '.join(map(_plain, section.header))} |"
            yield "|" + "|".join("---:" if i in section.right else "---" for i in range(len(section.header))) + "|"
            for row in section.rows:
                yield f"| {' | '.join(map(_plain, row))} |"
            yield ""
        if section.note:
            yield f"{_plain(section.note)}\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def html(report: Report) -> str:
    """The report as one HTML file."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.title)}</h1><p>{escape(report.about)}</p>",
    ]
    for section in report.sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        if section.rows:
            head = "".join(_cell("th", text, i in section.right) for i, text in enumerate(section.header))
            rows = (
                "<tr>" + "".join(_cell("td", text, i in section.right) for i, text in enumerate(row)) + "</tr>"
                for row in section.rows
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")
        if section.note:
            parts.append(f'<p class="note">{escape(section.note)}</p>')
    return "\n".join([*parts, "</body></html>", ""])


def _cell(tag: str, text: str, is_right: bool) -> str:
    attribute = ' class="right"' if is_right else ""
    return f"<{tag}{attribute}><bdi>{escape(text)}</bdi></{tag}>"
