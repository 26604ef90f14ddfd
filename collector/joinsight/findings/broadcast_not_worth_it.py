"""A broadcast that took the driver longer than shuffling both sides would have taken."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.display import duration_text
from joinsight.findings.driver import driver_ms
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.wording import join, rows
from joinsight.rows import Row


def look(case: Case) -> Iterator[Finding]:
    """What was saved is reckoned generously: as if a single task had shuffled and sorted all rows of both sides."""
    for broadcast in case.rows["broadcast"]:
        used_by = [found for node in broadcast["join_nodes"] if (found := case.of_node("joins", node))]
        others = [_other_rows(found) for found in used_by]
        took = driver_ms(case, broadcast)
        if took is None or broadcast["rows"] is None or not used_by or None in others:
            continue
        if broadcast["consumers"] != len(used_by):
            continue  # it prunes partitions too, and may have saved their reading
        shuffled = broadcast["rows"] + sum(other or 0 for other in others)
        saved = round(shuffled * case.limits.shuffle_row_ns / 1_000_000)
        if took < case.limits.broadcast_slow_ms or took <= saved:
            continue
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"The broadcast for {join(used_by[0])} took the driver {duration_text(took)}; to shuffle its"
            f" {rows(broadcast['rows'])} and the {rows(shuffled - broadcast['rows'])} of the other side would have"
            f" taken one task {duration_text(saved)}.",
            {
                "driver_ms": took,
                "saved_ms": saved,
                "rows": broadcast["rows"],
                "other_rows": shuffled - broadcast["rows"],
                "collect_ms": broadcast["collect_ms"],
                "build_ms": broadcast["build_ms"],
                "broadcast_ms": broadcast["broadcast_ms"],
            },
            "Broadcast the other side if it is the smaller one, or have this join shuffled: with the hint MERGE or"
            " SHUFFLE_HASH, without a hint BROADCAST, or with a lower spark.sql.autoBroadcastJoinThreshold.",
            broadcast["node_id"],
            broadcast["operator_key"],
            impact_ms=took - saved,
        )


def _other_rows(join: Row) -> int | None:
    """Rows of the side that is not broadcast; None if they were not measured, or it cannot be joined by shuffles."""
    if join["strategy"] != "BroadcastHashJoin" or join["build_side"] is None:
        return None
    other: int | None = join.get("right_rows" if join["build_side"] == "left" else "left_rows")
    return other


HEURISTIC = Heuristic("broadcast-not-worth-it", look)
