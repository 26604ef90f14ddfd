"""Tasks that spent much of their time waiting for the blocks of a shuffle."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text, duration_text, percent_text
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import shuffle


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """The wait for one shuffle to the run time of all tasks of the stages that read it."""
    for row in context.rows.shuffle:
        wait = row.fetch_wait_ms
        ran = sum(stage.totals.run_time_ms for stage in context.stages(row.reduce_stages or ()) if stage.totals)
        if not wait or not ran or wait < context.limits.fetch_wait_share * ran:
            continue
        remote = row.remote_bytes_read
        of = "" if remote is None else f"; {bytes_text(remote)} came from other machines"
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"Tasks waited {duration_text(wait)} for {shuffle(row)}, {percent_text(wait / ran)} of their run time{of}.",
            {
                "fetch_wait_ms": wait,
                "run_time_ms": ran,
                "share": wait / ran,
                **({} if remote is None else {"remote_bytes_read": remote}),
            },
            "The disks or the network of the executors that serve the blocks are too slow, or these executors are busy"
            " with garbage collection. Fewer, larger partitions make fewer, larger blocks. Filter and aggregate first"
            " to shuffle less. Local SSDs (spark.local.dir), the external shuffle service and push-based shuffle"
            " (spark.shuffle.push.enabled) also help.",
            row.node_id,
            row.operator_key,
            impact_ms=wait,
            impact_bytes=remote,
            waited=context.waited_for_exchanges([row]),
        )


HEURISTIC = Heuristic("fetch-wait", evaluate, "the shuffle")
