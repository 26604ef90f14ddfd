"""A plan's drawing as an SVG file: it has its own style and no links or scripts, and needs nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from markupsafe import Markup

from joinsight.pages.drawing import Drawing
from joinsight.pages.environment import PLAN_STYLE, STYLE, render

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow, even escaped."""
_COLOURS = [
    dict(re.findall(r"(--[\w-]+): (#\w+);", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
]
"""Light and dark."""


def _plan_style(colours: Mapping[str, str]) -> str:
    """With colours in place of variables, which few programs but browsers know."""
    return re.sub(r"var\((--[\w-]+)\)", lambda found: colours[found[1]], PLAN_STYLE)


_LIGHT = _plan_style(_COLOURS[0])
_DARK = f"svg.plan {{ background: {_COLOURS[1]['--paper']} }}\n{_plan_style({**_COLOURS[0], **_COLOURS[1]})}"


def svg_file(drawing: Drawing, title: str, *, follows_scheme: bool = False) -> str:
    """The file's text, as XML. `follows_scheme`: dark where its reader prefers that."""
    style = _LIGHT + (f"@media (prefers-color-scheme: dark) {{\n{_DARK}}}\n" if follows_scheme else "")
    return _NOT_XML.sub("\ufffd", render("file.svg", drawing=drawing, title=title, plan_style=Markup(style)))


def file_name(name: str, suffix: str = ".svg") -> str:
    """The name of a file for an execution, of letters that every system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"plan-{name}")[:120] + suffix
