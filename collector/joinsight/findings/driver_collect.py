"""A query that spent most of its time on the driver, collecting rows while no task of it ran."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text, duration_text, first_up, percent_text
from joinsight.findings.driver import alone_ms
from joinsight.findings.finding import Finding, Heuristic, PlanContext


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Two parts: collecting, building and sending broadcasts, and what the driver did with the result at the end."""
    duration = context.execution.duration_ms
    broadcasts = sum(alone_ms(context, row) for row in context.rows.broadcast)
    result_bytes, result_ms = _result(context)
    if result_bytes < context.limits.driver_result_bytes:
        result_ms = 0
    if duration is None or not duration:
        return
    took = min(broadcasts + result_ms, duration)  # broadcasts are collected side by side
    if not took:
        return
    parts = [
        *([f"for {duration_text(result_ms)} on a result of {bytes_text(result_bytes)}"] if result_ms else []),
        *([f"for {duration_text(broadcasts)} on broadcasts, without the tasks beneath them"] if broadcasts else []),
    ]
    advice = [
        *(
            ["Do not collect so many rows: write them to files, or aggregate, filter or limit them first."]
            if result_ms
            else []
        ),
        *(
            ["Have large broadcasts shuffled instead: lower spark.sql.autoBroadcastJoinThreshold, or remove hints."]
            if broadcasts
            else []
        ),
    ]
    causes = [*(["broadcast"] if broadcasts else []), *(["finish"] if result_ms else [])]
    yield Finding(
        HEURISTIC.id,
        "warning",
        first_up(
            f"the driver worked alone {' and '.join(parts)}: {percent_text(took / duration)} of"
            f" {duration_text(duration)}."
        ),
        {
            "driver_alone_ms": took,
            "duration_ms": duration,
            "share": took / duration,
            "result_bytes": result_bytes,
            "result_ms": result_ms,
            "broadcasts_alone_ms": broadcasts,
        },
        " ".join(advice),
        impact_ms=took,
        waited=context.waited_in(lambda segment: segment.cause in causes),
    )


def _result(context: PlanContext) -> tuple[int, int]:
    """Bytes that the last stage sent to the driver, and the time from its end to the end of the execution."""
    ended = context.execution.ended_at
    ran = ((row.completed_at, row.totals) for row in context.rows.stage)
    completed = [(at, totals.result_bytes) for at, totals in ran if at is not None and totals is not None]
    if not completed or ended is None:
        return 0, 0
    last, result_bytes = max(completed, key=lambda each: each[0])
    return result_bytes, max(0, round((ended - last).total_seconds() * 1000))


HEURISTIC = Heuristic("driver-collect", evaluate, "the driver: broadcasts, and the time after the last job")
