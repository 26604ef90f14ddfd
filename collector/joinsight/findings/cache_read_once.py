"""A cached table that was filled by this execution and read by it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from joinsight.display import duration_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.phrases import rows
from joinsight.plan import operators
from joinsight.tables import NodeMetricRow

_MOST_OFTEN = 20
"""Visits of a node, on average."""


def look(case: Case) -> Iterator[Finding]:
    """Whether another execution reads it, this one cannot say: that is left to the reader."""
    measured = _measured_below(case)
    for scans in _cached(measured).values():
        stages = case.stages(
            row.max_stage_id for row in measured[scans[0]] if row.max_stage_id is not None and row.total
        )
        took = sum(stage.totals.run_time_ms for stage in stages if stage.totals)
        if len(scans) > 1 or not stages or took < case.limits.cache_ms:
            continue
        read = case.total(scans[0], operators.OUTPUT_ROWS)
        name = operators.cached_table(case.nodes[scans[0]].name)
        what = f"The cached table {name}" if name else "A cached table"
        yield Finding(
            HEURISTIC.id,
            "info",
            f"{what} was filled here in {duration_text(took)} of task time, and read here once"
            + (f" ({rows(read)})." if read is not None else "."),
            {"filled_ms": took, **({} if read is None else {"rows_read": read})},
            "If no later query of this application reads it, caching only adds cost: remove cache(), persist() or CACHE"
            " TABLE. In the plan of a query that only reads it, the operators beneath the table have no metrics.",
            scans[0],
            impact_ms=took,
            waited=case.waited_for_stages(stage.stage_id for stage in stages),
        )


def _measured_below(case: Case) -> Mapping[int, Sequence[NodeMetricRow]]:
    """What was measured beneath each scan of a cached table; empty for a plan that is too deep in cached tables.

    Each of these shows what is beneath the others again.
    """
    found: dict[int, list[NodeMetricRow]] = {}
    left = _MOST_OFTEN * (len(case.nodes) + len(case.rows.node_metric))
    for node_id, node in case.nodes.items():
        if operators.of(node.name).kind == "cached_scan":
            found[node_id] = []
            for below in case.below(node_id):
                found[node_id] += case.metrics(below).values()
                left -= 1 + len(case.metrics(below))
                if left < 0:
                    return {}
    return found


def _cached(measured: Mapping[int, Sequence[NodeMetricRow]]) -> Mapping[frozenset[int], Sequence[int]]:
    """The scans of each cached table. All of them show the plan that made it, with the same accumulators."""
    found: dict[frozenset[int], list[int]] = defaultdict(list)
    for node_id, below in measured.items():
        found[frozenset(row.accumulator_id for row in below)].append(node_id)
    return found


HEURISTIC = Heuristic("cache-read-once", look, "the stages that filled the cache, while their tasks ran")
