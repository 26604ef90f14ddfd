"""A page as one file, for a ticket or a colleague: it makes no request, and works without a collector.

What only the collector can do goes: forms and tools; links become text, unless what they lead to is in the file. The
panel of each operator is in it, and shown without a script where its link leads (``:target``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit

from markupsafe import Markup

from joinsight import __version__
from joinsight.analysis.comparison import ComparedExecution
from joinsight.analysis.stored import StoredPlan
from joinsight.pages.comparison import Side, compare_page
from joinsight.pages.environment import FILE_STYLE, file_policy, render
from joinsight.pages.execution import execution_page, operator_panels, operators_of
from joinsight.pages.view import ViewOptions

MAX_BYTES = 1_000_000
"""The size below which a file stays, by leaving out what matters least."""

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})
_ON_SERVER = frozenset({"version", "zoom", "search", "download"})
"""Parameters of links to another state of the page."""
_ID = re.compile(r'\sid="([^"]+)"')

_TOO_LARGE = f"A file has at most {MAX_BYTES // 1_000_000} MB."
_CHEAPEST = "The metrics of {:,} operators that cost least are left out. "
_MOST_OPENED = 2_000
"""Operators of a plan whose chains are opened: a larger one would not fit."""

_Attributes = Mapping[str, str | None]
_Condition = Callable[[str, _Attributes], bool]


def execution_file(stored: StoredPlan, run: ComparedExecution) -> str:
    """The page of an execution with the panels of all operators of its final plan.

    Where the file would be too large: chains of operators are folded, then panels are left out, those of the operators
    that cost least first, then the drawing. The file says so.
    """
    operators = operators_of(stored.version(None))
    panels = _up_to(MAX_BYTES, operator_panels(stored))
    text = page = ""
    for opens_all in (True, False):
        if opens_all and operators > _MOST_OPENED:
            continue
        page = execution_page(stored, run, ViewOptions(refreshes=False, opens_all=opens_all))
        text = _offline(page, panels)
        if len(panels) == operators and _size(text) <= MAX_BYTES:
            return text
    is_drawn = _size(_offline(page, {}, [_CHEAPEST + _TOO_LARGE])) <= MAX_BYTES
    leaves_out, what = (None, "") if is_drawn else (_is_drawing, "The drawing of the plan is left out. ")
    room = MAX_BYTES
    while True:
        kept = _up_to(room, panels.items())
        note = what + _CHEAPEST.format(operators - len(kept)) + _TOO_LARGE
        text = _offline(page, kept, [note], leaves_out)
        over = _size(text) - MAX_BYTES
        if over <= 0 or not kept:
            return text
        room = sum(map(_size, kept.values())) - over


def comparison_file(a: Side, b: Side) -> str:
    """The page that compares two executions, or two plans of one; without operators that did not change, if need be."""
    page = compare_page(a, b)
    text = _offline(page, {})
    if _size(text) <= MAX_BYTES:
        return text
    note = f"Operators that did not change are left out. {_TOO_LARGE}"
    return _offline(page, {}, [note], lambda tag, its: tag == "tr" and "both" in _classes(its))


def _up_to(size: int, panels: Iterable[tuple[int, str]]) -> dict[int, str]:
    """The first panels, of this size together."""
    kept = {}
    for node, panel in panels:
        size -= _size(panel)
        if size < 0:
            break
        kept[node] = panel
    return kept


def _size(text: str) -> int:
    return len(text.encode())


def _offline(
    page: str, panels: Mapping[int, str], notes: Sequence[str] = (), leaves_out: _Condition | None = None
) -> str:
    head = "".join(f'<p class="note">{note}</p>' for note in notes)
    end = render("one_file.html", panels={node: Markup(panel) for node, panel in panels.items()}, version=__version__)
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{file_policy()}', 1)
    page = page.replace("</head>", f"<style>{FILE_STYLE}</style>\n</head>", 1)
    page = page.replace('<main id="main">', f'<main id="main">{head}', 1)
    before, _, after = page.rpartition("</main>")
    made = _Offline(set(_ID.findall(page)), panels.keys(), leaves_out)
    made.feed(f"{before}{end}</main>{after}")
    made.close()
    return "".join(made.parts)


def _is_of_server(tag: str, attributes: _Attributes) -> bool:
    classes = _classes(attributes)
    return tag == "form" or not {"tools", "copy"}.isdisjoint(classes) or (tag == "nav" and "main" in classes)


def _is_drawing(_tag: str, attributes: _Attributes) -> bool:
    return not {"drawing", "map", "legend"}.isdisjoint(_classes(attributes))


def _classes(attributes: _Attributes) -> list[str]:
    return (attributes.get("class") or "").split()


class _Offline(HTMLParser):
    """Copies a page of ours; `parts` is the result. `ids` are those of the page."""

    def __init__(self, ids: Collection[str], panels: Collection[int], leaves_out: _Condition | None) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._ids = ids
        self._panels = panels
        self._leaves_out = leaves_out
        self._skipped: list[str] = []
        """The open elements that are left out."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            if tag not in _VOID:
                self._skipped.append(tag)
            return
        its = dict(attrs)
        if _is_of_server(tag, its) or (self._leaves_out and self._leaves_out(tag, its)):
            if tag not in _VOID:
                self._skipped.append(tag)
            return
        self.parts.append(self._kept(tag, its))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._skipped:
            self.parts.append(self._kept(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._skipped.pop()
        else:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._copy(data)

    def handle_entityref(self, name: str) -> None:
        self._copy(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._copy(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self._copy(f"<!{decl}>")

    def _copy(self, text: str) -> None:
        if not self._skipped:
            self.parts.append(text)

    def _kept(self, tag: str, its: _Attributes) -> str:
        raw = self.get_starttag_text() or ""
        href = its.get("href")
        if href is None or href.startswith("data:"):
            return raw
        target = self._target(href, its)
        link = f' href="{target}"' if target else ""
        return re.sub(r'\shref="[^"]*"', lambda _: link, raw, count=1)

    def _target(self, href: str, its: _Attributes) -> str:
        """Where a link leads in the file; empty for nowhere."""
        number = re.fullmatch(r"(e\d+-)?n(\d+)", its.get("id") or "")  # e: a plan of another execution
        if number and "node" in _classes(its) and "reuse" not in _classes(its):
            return "" if number[1] else self._panel(number[2])
        address = urlsplit(href)
        asked = parse_qs(address.query)
        if href.startswith("#") or "stage" in asked or "close" in _classes(its):
            return f"#{address.fragment}" if address.fragment in self._ids and not asked.keys() & _ON_SERVER else ""
        return self._panel(asked["node"][0]) if "node" in asked and not asked.keys() & _ON_SERVER else ""

    def _panel(self, node: str) -> str:
        return f"#panel-{node}" if int(node) in self._panels else ""
