"""The templates: all values are escaped, and numbers are formatted as in the terminal."""

from __future__ import annotations

import base64
import hashlib
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from joinsight.base.units import bytes_text, duration_text, first_up, ratio_text
from joinsight.pages.boxes import WIDTH, short_name
from joinsight.pages.chart import SPARK_HEIGHT, SPARK_WIDTH
from joinsight.present import regressions, values
from joinsight.present.findings import at_stake_over_runs
from joinsight.tables import DRIVER_PHASES, EXECUTION_KEY, Row, driver_ms
from joinsight.verdict.failure import first_words

_environment = Environment(
    loader=PackageLoader("joinsight.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _source(name: str) -> str:
    return _environment.loader.get_source(_environment, name)[0] if _environment.loader else ""


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


PLAN_STYLE = _source("plan.css")
STYLE = _source("style.css") + PLAN_STYLE + _source("execution.css") + _source("browse.css")
FILE_STYLE = _source("one_file.css")
SCRIPT = _source("execution.js")

NAVIGATION = (
    *((f"/{name}", name.capitalize()) for name in ("queries", "executions", "streams", "joins", "shuffles")),
    *((f"/{name}", name.capitalize()) for name in ("broadcasts", "findings", "regressions", "jobs", "docs")),
)
"""The pages that each page links to, by their addresses."""

signed_in: ContextVar[str] = ContextVar("signed_in", default="")
"""The user of the request whose page is rendered, as a proxy names them; empty if unknown."""

SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src data:;"
    f" connect-src 'self'; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}"
)
"""Content security policy of a page: one style and one script, by their hashes, and requests to the collector."""


def file_policy() -> str:
    """The security policy of a page that was saved as one file, as an element: it may request nothing."""
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:;"
        f" style-src {_hash(STYLE)} {_hash(FILE_STYLE)}; script-src {_hash(SCRIPT)}"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def address(row: Row, **parameters: object) -> str:
    """The address of the page of an execution; its start distinguishes executions of the same name."""
    given = {name: value for name, value in parameters.items() if value is not None}
    named = urlencode({"started_at": started_at(row), **given}, safe=":,")
    return f"/executions/{quote(values.execution_name(row))}?{named}"


def job_address(row: Row) -> str:
    """The address of the page of a job."""
    return f"/?{urlencode({'job': row['job_name']})}"


def query_address(row: Row) -> str:
    """The address of the page of an execution's query in its job."""
    return f"/queries/{row['query_shape']}?{urlencode({'job': row['job_name']})}"


def compare_address(before: Row, after: Row, **parameters: object) -> str:
    """The address of the page that compares two executions."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return "/compare?" + urlencode({"a": run_name(before), "b": run_name(after), **given}, safe="@:/")


def compare_plans(row: Row, before: int, after: int) -> str:
    """The address of the page that compares two plans of an execution."""
    return compare_address(row, row, a_version=before, b_version=after)


def compare_with_previous(row: Row) -> str:
    """The address of the page that compares an execution with the previous run of its query."""
    return "/compare?" + urlencode({"b": run_name(row)}, safe="@:/")


def compare_regression(row: Row) -> str:
    """The address of the page that compares a typical run before a regression with one since."""
    before = {name: row[f"baseline_{name}"] for name in EXECUTION_KEY}
    return compare_address(before, row)


def run_name(row: Row) -> str:
    """An execution in a parameter: its name, and its start, which distinguishes executions of the same name."""
    return f"{values.execution_name(row)}@{started_at(row)}"


def started_at(row: Row) -> str:
    """The parameter that distinguishes executions of the same name."""
    start: datetime = row["started_at"]
    return start.isoformat().replace("+00:00", "Z")


def render(template: str, **values: Any) -> str:
    """Render a template to HTML."""
    return _environment.get_template(template).render(values)


def error_page(heading: str, reason: str, remedy: str = "") -> str:
    """The page for an error."""
    return render("error.html", heading=heading, reason=reason, remedy=remedy)


def size_text(size: int | None) -> str:
    """``1.5 MiB``; empty for None and 0."""
    return bytes_text(size) if size else ""


def time_text(ms: int | None) -> str:
    """``1.5 s``; empty for None."""
    return "" if ms is None else duration_text(ms)


_environment.globals.update(
    style=Markup(STYLE),
    nav=NAVIGATION,
    signed_in=signed_in.get,
    script=Markup(SCRIPT),
    width=WIDTH,
    spark_size=(SPARK_WIDTH, SPARK_HEIGHT),
    kinds=regressions.KINDS,
    compare_regression=compare_regression,
)
_environment.filters.update(
    address=address,
    query_address=query_address,
    compare_address=compare_address,
    compare_with_previous=compare_with_previous,
    run_name=run_name,
    size=size_text,
    duration=time_text,
    number=values.number_text,
    first_up=first_up,
    ratio=ratio_text,
    driver_ms=lambda row: driver_ms(*(row[phase] for phase in DRIVER_PHASES)),
    **{
        function.__name__: function
        for function in (
            values.build_side,
            values.execution_name,
            values.join_keys,
            values.one_line,
            values.partitioned_by,
            values.partitions,
            values.query_title,
            at_stake_over_runs,
            first_words,
            values.short_key,
            short_name,
            values.when,
            regressions.measure,
            regressions.slower_than_last,
            regressions.value,
        )
    },
)
