"""Executions of the function of a micro-batch that compute its rows again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from joinsight.analysis.stored import StoredPlan
from joinsight.analysis.table_formats import is_own_part
from joinsight.plan import operators

_GIVEN = "RDD"
"""What the function of ``foreachBatch`` gets its rows as."""


def computed_again(stored: StoredPlan) -> Mapping[int, int]:
    """How long a micro-batch waited for each of several executions that computed the same rows, by id.

    Not for those that read them from a cached table, nor for parts of a table format's command, which reads them as
    often as it needs to.
    """
    if stored.execution["streaming_batch_id"] is None:
        return {}
    spent = stored.waited_itself
    read = {
        number: set(_rows(each))
        for each in stored.nested
        if spent.get(number := each.execution["execution_id"])
        and not is_own_part(each.execution["description"], each.execution["call_site"])
    }
    times = Counter(key for keys in read.values() for key in keys)
    return {number: spent[number] for number, keys in read.items() if any(times[key] > 1 for key in keys)}


def _rows(stored: StoredPlan) -> Iterator[str]:
    """The keys of RDDs that a plan reads, without what fills cached tables."""
    plan, seen = stored.plan, set[int]()
    todo = list(plan.graph.tops)
    while todo:
        node = plan.nodes[todo.pop()]
        if node.id in seen or operators.of(node.name).kind == "cached_scan":
            continue
        seen.add(node.id)
        todo += plan.children.get(node.id, ())
        if operators.of(node.name).source_name == _GIVEN:
            yield stored.operator_keys[node.id]
