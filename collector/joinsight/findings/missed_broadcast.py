"""A join whose sides were both shuffled though one was measured at or under the broadcast threshold."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.display import bytes_text
from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.wording import first_up, join
from joinsight.rows import Row

_OTHER = {"left": "right", "right": "left"}


def look(case: Case) -> Iterator[Finding]:
    """Goes by `broadcast_verdict`, which is one of these only for sizes that were measured and are whole."""
    for found in case.rows["joins"]:
        if found["broadcast_verdict"] not in ("possible", "hinted"):
            continue
        size, other = found["broadcast_side_bytes"], found.get(f"{_OTHER[found['broadcast_side']]}_bytes")
        if size is None or found["threshold_bytes"] is None or other is None:
            continue
        if other < case.limits.missed_broadcast_bytes:
            continue
        shuffle = case.shuffles.get(found.get(f"{_OTHER[found['broadcast_side']]}_exchange")) or {}
        costs = (shuffle.get("write_time_ns") or 0) // 1_000_000 + (shuffle.get("fetch_wait_ms") or 0)
        costs += found["sort_ms"] or 0
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{first_up(join(found))} shuffled {bytes_text(other)}, though its {found['broadcast_side']} side has only"
            f" {bytes_text(size)} and up to {bytes_text(found['threshold_bytes'])} may be broadcast.",
            {"side_bytes": size, "threshold_bytes": found["threshold_bytes"], "other_side_bytes": other},
            _advice(case, found),
            found["node_id"],
            found["operator_key"],
            impact_ms=costs or None,
            impact_bytes=shuffle.get("bytes_written"),
        )


def _advice(case: Case, found: Row) -> str:
    hint = f"give its {found['broadcast_side']} side the hint BROADCAST"
    if "no_broadcast_hash" in (found["hint"] or ""):
        return (
            "AQE gave it a hint (no_broadcast_hash): more of the side's partitions are empty than"
            f" spark.sql.adaptive.nonEmptyPartitionRatioForBroadcastJoin allows. To have it broadcast, {hint}."
        )
    if found["broadcast_verdict"] == "hinted":
        return f"It has a hint ({found['hint']}) for another join: take it away, or {hint}."
    if not case.execution["is_adaptive"]:
        return (
            "Spark planned by an estimate, which was larger. Set spark.sql.adaptive.enabled=true, so that it plans anew"
            f" by what it has measured, or {hint}; ANALYZE TABLE betters the estimate."
        )
    return (
        f"Spark planned by an estimate, which was larger, and AQE did not change it: {hint}. ANALYZE TABLE"
        " betters the estimate. AQE keeps a sort-merge join if more of the side's partitions are empty than"
        " spark.sql.adaptive.nonEmptyPartitionRatioForBroadcastJoin allows."
    )


HEURISTIC = Heuristic("missed-broadcast", look)
