"""The texts of cached tables."""

from __future__ import annotations

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.plan.caches import caches
from joinsight.tables import Row

_MOST_IDS = 4


def use(row: Row) -> str:
    """``filled here; filling took 1.2 s, 2.1 s of task time; read by 5 other executions``."""
    fillers, reads = row["filled_by"], row["reads"]
    is_here = row["fill_stages"] is not None
    others = [f"#{number}" for number in fillers if number != row["execution_id"]]
    more = ["..."] if len(others) > _MOST_IDS else []
    by = ["here"] * is_here + ([f"by {', '.join(others[:_MOST_IDS] + more)}"] if others else [])
    if not by:
        return "no stored execution is known to have filled it"
    wall, tasks = duration_text(row["all_fill_wall_ms"]), duration_text(row["all_fill_task_ms"])
    rest = reads - (not is_here)
    read = f"read by {rest:,} other execution{'s' * (rest != 1)}" if rest else "read by no other execution"
    return f"filled {' and '.join(by)}; filling took {wall}, {tasks} of task time; {read}"


def line(row: Row) -> str:
    """The same, with the node and the table's name."""
    name = f" {row['table_name']}" if row["table_name"] else ""
    return f"{row['node_id']}: cached table{name}, {use(row)}"


def filled(stored: StoredPlan, version: Row) -> dict[int, str]:
    """``cached, filled by #0 in 24.2 s``, by the scans of a plan version that read a cached table."""
    known = {row["cache_id"]: row for row in stored.caches}
    measured = stored.plan_of(version)
    return {
        scan: _filled(known[cache.cache_id])
        for cache in caches(measured)
        if cache.cache_id in known
        for scan in cache.scans
    }


def _filled(row: Row) -> str:
    by = [f"#{number}" for number in row["filled_by"]]
    if not by:
        return "cached"
    more = [f"{len(by) - _MOST_IDS} more"] if len(by) > _MOST_IDS else []
    return f"cached, filled by {', '.join([*by[:_MOST_IDS], *more])} in {duration_text(row['all_fill_wall_ms'])}"
