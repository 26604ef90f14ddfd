"""The templates: everything that is put into them is escaped, and numbers are worded as everywhere else."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from joinsight import wording
from joinsight.display import bytes_text, duration_text
from joinsight.pages.boxes import WIDTH
from joinsight.rows import Row, driver_ms

_environment = Environment(
    loader=PackageLoader("joinsight.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_STYLE = _environment.loader.get_source(_environment, "style.css")[0] if _environment.loader else ""

SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src data:; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)
"""What a browser may do with a page: show it. No script runs, nothing is fetched, the style is known by its hash."""


def address(row: Row, **parameters: object) -> str:
    """Of the page of an execution. Its start tells it from another one of the same name."""
    started_at = row["started_at"].isoformat().replace("+00:00", "Z")
    given = {name: value for name, value in parameters.items() if value is not None}
    named = urlencode({"started_at": started_at, **given}, safe=":")
    return f"/executions/{quote(wording.execution_name(row))}?{named}"


def render(template: str, **values: Any) -> str:
    """A page as HTML."""
    return _environment.get_template(template).render(values)


def error_page(heading: str, reason: str, remedy: str = "") -> str:
    """A page that says why there is no other."""
    return render("error.html", heading=heading, reason=reason, remedy=remedy)


def size_text(size: int | None) -> str:
    """``1.5 MiB``; nothing for what was not measured, nor for nothing."""
    return bytes_text(size) if size else ""


def time_text(ms: int | None) -> str:
    """``1.5 s``; nothing for what was not measured."""
    return "" if ms is None else duration_text(ms)


_environment.globals.update(style=Markup(_STYLE), width=WIDTH)
_environment.filters.update(
    address=address,
    size=size_text,
    duration=time_text,
    number=wording.number_text,
    ratio=wording.ratio_text,
    driver_ms=driver_ms,
    **{
        function.__name__: function
        for function in (
            wording.build_side,
            wording.execution_name,
            wording.join_keys,
            wording.one_line,
            wording.partitioned_by,
            wording.partitions,
            wording.short_key,
            wording.when,
        )
    },
)
