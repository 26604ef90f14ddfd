"""A plan's drawing as an SVG file: it has its own style and no links or scripts, and needs nothing from elsewhere."""

from __future__ import annotations

import re

from markupsafe import Markup

from joinsight.pages.drawing import Drawing
from joinsight.pages.environment import PLAN_STYLE, STYLE, render

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow, even escaped."""
_LIGHT = dict(re.findall(r"(--[\w-]+): (#\w+);", STYLE[: STYLE.index("@media")]))
_PLAN_STYLE = re.sub(r"var\((--[\w-]+)\)", lambda found: _LIGHT[found[1]], PLAN_STYLE)
"""With colours in place of variables, which few programs but browsers know."""


def svg_file(drawing: Drawing, title: str) -> str:
    """The file's text, as XML."""
    return _NOT_XML.sub("\ufffd", render("file.svg", drawing=drawing, title=title, plan_style=Markup(_PLAN_STYLE)))


def file_name(name: str) -> str:
    """The name of the file for an execution, of letters that every system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"plan-{name}")[:120] + ".svg"
