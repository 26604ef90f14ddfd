"""A query that failed because of a broadcast: too slow, too large for Spark, or too large for the driver's memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from joinsight.analysis.rows import byte_size
from joinsight.findings.finding import WHOLE_EXECUTION, Finding, Heuristic, PlanContext, Waited

_SHUFFLE_IT = (
    "have the join shuffled: remove the hint BROADCAST, add the hint MERGE, or lower"
    " spark.sql.autoBroadcastJoinThreshold (-1: never broadcast)"
)


@dataclass(frozen=True, slots=True)
class _Cause:
    said: re.Pattern[str]
    """How Spark says it; its groups are the evidence, by name."""
    title: str
    advice: str


# In Spark 3.4 to 4.3: QueryExecutionErrors, BroadcastExchangeExec
_CAUSES = (
    _Cause(
        re.compile(r"Could not execute broadcast in (?P<timeout_s>\d+) sec"),
        "The query failed: its broadcast was not ready after {timeout_s} s (spark.sql.broadcastTimeout).",
        "Check what the broadcast side computes: the tasks beneath it take most of the time. Make it faster, raise"
        " spark.sql.broadcastTimeout, set spark.sql.adaptive.enabled=true (AQE waits as long as necessary), or"
        f" {_SHUFFLE_IT}.",
    ),
    _Cause(
        re.compile(
            r"Cannot broadcast the table that is larger than (?P<limit_bytes>[\d.]+ *\w+): (?P<size_bytes>[\d.]+ *\w+)"
        ),
        "The query failed: its broadcast has {size_bytes}, more than the {limit_bytes} that Spark allows.",
        f"Filter the broadcast side and select fewer columns before the join, or {_SHUFFLE_IT}.",
    ),
    _Cause(
        re.compile(r"Cannot broadcast the table [^:]*rows: (?P<rows>\d+)"),
        "The query failed: its broadcast has {rows} rows, more than Spark allows.",
        f"Filter the broadcast side before the join, or {_SHUFFLE_IT}.",
    ),
    _Cause(
        re.compile(r"Not enough memory to build and broadcast"),
        "The query failed: the driver did not have enough memory to build the broadcast.",
        f"Give the driver more memory (spark.driver.memory), or {_SHUFFLE_IT}.",
    ),
)


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Goes by the text of the error. The operator is named if a single broadcast was not ready."""
    error = context.execution.error or ""
    for cause in _CAUSES:
        said = cause.said.search(error)
        if context.execution.state != "failed" or not said:
            continue
        evidence = {name: _number(text) for name, text in said.groupdict().items()}
        failed = [row for row in context.rows.broadcast if row.outcome == "failed"]
        only = failed[0] if len(failed) == 1 else None
        yield Finding(
            HEURISTIC.id,
            "critical",
            cause.title.format_map(said.groupdict()),
            evidence,
            cause.advice,
            only.node_id if only else WHOLE_EXECUTION,
            only.operator_key if only else None,
            impact_ms=context.execution.duration_ms,
            waited=Waited(context.execution.duration_ms),
        )
        return


def _number(text: str) -> float:
    """Of ``30`` or ``9.2 GiB``."""
    number, unit = re.fullmatch(r"([\d.]+) *(\w*)", text).groups()  # type: ignore[union-attr]
    return float(number) * (byte_size(f"1{unit}", 1) or 1)


HEURISTIC = Heuristic(
    "broadcast-failed", evaluate, "the whole query, which failed", needs_whole=False, is_about_time=False
)
