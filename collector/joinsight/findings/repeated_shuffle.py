"""The same rows shuffled in the same way more than once in a plan, where one shuffle could have been reused."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from joinsight.base.units import bytes_text, first_up
from joinsight.findings.finding import Finding, Heuristic, PlanContext
from joinsight.findings.phrases import shuffle
from joinsight.plan.graph import equal_subtrees
from joinsight.tables import ShuffleRow

_IDS = re.compile(r"#\d+L?|\[(?:plan_)?id=#?\d+\]")


def evaluate(context: PlanContext) -> Iterator[Finding]:
    """Equal texts of all operators beneath, literals included, and equal numbers of rows and bytes."""
    sizes = Counter((row.rows_written, row.data_bytes) for row in context.rows.shuffle)
    if max(sizes.values(), default=0) < 2:
        return
    graph = context.plan.graph
    same = equal_subtrees(
        graph.inputs_first,
        lambda node: graph.children.get(node, ()),
        lambda node: _IDS.sub("", graph.by_id[node].simple),
    )
    groups: dict[tuple[int, int, int], list[tuple[int, ShuffleRow]]] = defaultdict(list)
    for row in context.rows.shuffle:
        if row.rows_written is not None and row.data_bytes is not None and row.bytes_written is not None:
            groups[same[row.node_id], row.rows_written, row.data_bytes].append((row.bytes_written, row))
    for (_, rows_written, _), group in groups.items():
        rows = [row for _, row in group]
        again = sum(written for written, _ in group[1:])
        if len(rows) < 2 or not again:
            continue
        wrote_ms = sum(row.write_time_ns or 0 for row in rows[1:]) // 1_000_000
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(shuffle(rows[0]))} was made {len(rows)} times from the same rows; {bytes_text(again)} were"
            " written again.",
            {"times": len(rows), "repeated_bytes": again, "rows_written": rows_written, "bytes_written": group[0][0]},
            "Spark reuses a shuffle only if the plans beneath are identical: read the same columns on both sides, in"
            " one subquery or DataFrame that both use, without non-deterministic expressions. Check that"
            " spark.sql.exchange.reuse is not off, or cache the rows.",
            rows[1].node_id,
            rows[1].operator_key,
            impact_ms=wrote_ms,
            impact_bytes=again,
            waited=context.waited_for_exchanges(rows[1:]),
        )


HEURISTIC = Heuristic("repeated-shuffle", evaluate, "the repeated shuffles, without the first")
