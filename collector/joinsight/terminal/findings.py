"""Renders findings in full: one of an execution, or a group over the runs of a query::

critical  broadcast-failed  nightly: Sales by slow stores
  in 3 of 90 runs, first 2026-10-19 08:31, last 2026-10-21 08:32, not in the last run
  3.3 s at stake, 100 % of the time; impact 3.3 s
  The query failed: its broadcast was not ready after 1 s (spark.sql.broadcastTimeout).
  Check what the broadcast side computes: the tasks beneath it take most of the time. ...
  timeout_s 1 | node 10, operator 9cbf27f7c1d04b3e
  joinsight plan local-1790000000000/12 | joinsight docs findings#broadcast-failed
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from joinsight.findings import link
from joinsight.findings.finding import WHOLE_EXECUTION
from joinsight.present.findings import at_stake, impact, occurrence
from joinsight.present.values import execution_name, query_title, when
from joinsight.tables import Row
from joinsight.terminal.escaping import visible, visible_line

STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_INDENT = "  "
_TITLE = 60


def group_lines(group: Row, width: int) -> Iterator[Text]:
    """A group over the runs of a query."""
    yield _head(group, f"{group['job_name']}: {query_title(group)[:_TITLE]}")
    yield from _wrapped(occurrence(group), width, "")
    yield from _body(group, width, impact(group))
    yield Text(f"{_INDENT}joinsight plan {visible_line(execution_name(group))} | {link(group['finding'])}", "dim")


def execution_lines(row: Row, width: int) -> Iterator[Text]:
    """A finding of one execution, which is named."""
    about = (execution_name(row), when(row["started_at"]), query_title(row)[:_TITLE])
    yield from lines(row, width, about)


def lines(row: Row, width: int, about: Sequence[str] = ()) -> Iterator[Text]:
    """A finding of one execution; `about` describes it, where that is not clear from the context."""
    yield _head(row, *about)
    yield from _body(row, width)
    yield Text(_INDENT + link(row["finding"]), "dim")


def _head(row: Row, *about: str) -> Text:
    head = Text(row["severity"], STYLES[row["severity"]])
    return head.append(visible_line("  ".join(["", row["finding"], *about])), "")


def _body(row: Row, width: int, impact: str = "") -> Iterator[Text]:
    costs = "; ".join(filter(None, [at_stake(row, row["duration_ms"]), f"impact {impact}" if impact else ""]))
    for text, style in ((costs, ""), (row["title"], "bold"), (row["advice"], "")):
        yield from _wrapped(text, width, style)
    yield from _wrapped(" | ".join(filter(None, [_evidence(row["evidence"]), _where(row)])), width, "dim")


def _wrapped(text: str, width: int, style: str) -> Iterator[Text]:
    wrapped = textwrap.wrap(
        visible(text),
        width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped:
        yield Text(line, style)


def _evidence(evidence: dict[str, float]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in evidence.items() if value is not None)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:.3g}"


def _where(row: Row) -> str:
    if row["node_id"] == WHOLE_EXECUTION:
        return "the whole execution"
    operator = f", operator {row['operator_key']}" if row["operator_key"] else ""
    return f"node {row['node_id']}{operator}"
