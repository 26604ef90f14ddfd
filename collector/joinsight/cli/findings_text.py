"""Renders findings in full::

critical  broadcast-failed  local-1790000000000/12  2026-11-21 08:31  Sales by slow stores
  The query failed: its broadcast was not ready after 1 s (spark.sql.broadcastTimeout).
  See what the broadcast side computes: the time is mostly that of the tasks beneath it. ...
  timeout_s 1 | node 10, operator 9cbf27f7c1d04b3e
  joinsight docs findings#broadcast-failed
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.text import Text

from joinsight.findings import link
from joinsight.findings.finding import WHOLE_EXECUTION
from joinsight.tables import Row
from joinsight.terminal import visible, visible_line

STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
_INDENT = "  "


def lines(row: Row, width: int, about: Sequence[str] = ()) -> Iterator[Text]:
    """One finding; `about` describes the execution, where that is not clear from the context."""
    head = Text(row["severity"], STYLES[row["severity"]])
    yield head.append(visible_line("  ".join(["", row["finding"], *about])), "")
    for text, style in ((row["title"], "bold"), (row["advice"], "")):
        yield from _wrapped(text, width, style)
    yield from _wrapped(" | ".join([_evidence(row["evidence"]), _where(row)]), width, "dim")
    yield Text(_INDENT + link(row["finding"]), "dim")


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
