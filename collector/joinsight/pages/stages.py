"""Which operators of the final plan ran in which stages.

A stage runs what is between exchanges: the operators above the shuffles that it reads, up to the shuffle or broadcast
that it makes. Spark does not report this; the metrics of these operators name stages, and so do the shuffles'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from joinsight.analysis.comparison import Run
from joinsight.analysis.stored import StoredPlan
from joinsight.plan import operators


def stages_of_nodes(plan: StoredPlan, run: Run) -> dict[int, list[int]]:
    """The ids of the stages that ran each node of the final plan, in order; without nodes whose stages are unknown."""
    final = plan.version(None)
    if final is None:
        return {}
    nodes = {node["id"]: node for node in final["nodes"]}
    part_of = _parts(nodes, final["edges"], {i: node["name"] for i, node in nodes.items()})
    stages: dict[int, set[int]] = defaultdict(set)  # by part
    read_by: dict[int, set[int]] = defaultdict(set)  # the stages that read an exchange
    members: dict[int, list[int]] = defaultdict(list)  # of a codegen cluster
    consumers: dict[int, list[int]] = defaultdict(list)
    for child, parent in final["edges"]:
        consumers[child].append(parent)
    for i, node in nodes.items():
        if node["cluster"] is not None:
            members[node["cluster"]].append(i)
    for row in run.shuffle:
        if row["node_id"] in part_of:
            stages[part_of[row["node_id"]]].update(row["map_stages"] or ())
            reads = row["reduce_stages"] or ()
            read_by[row["node_id"]].update(reads)
            if len(consumers[row["node_id"]]) == 1 and consumers[row["node_id"]][0] in part_of:
                stages[part_of[consumers[row["node_id"]][0]]].update(reads)
    for row in plan.metrics:
        node = nodes.get(row["node_id"])
        if node is None or row["max_stage_id"] is None or operators.of(node["name"]).is_exchange:
            continue
        for i in members[node["id"]] if node["is_cluster"] else [node["id"]]:
            stages[part_of[i]].add(row["max_stage_id"])
    hidden = plan.not_run(final) | {i for i, node in nodes.items() if _is_frame(node["name"])}
    each = {i: sorted(stages[part] | read_by[i]) for i, part in part_of.items() if part in stages or i in read_by}
    return {i: found for i, found in each.items() if found and i not in hidden}


def _is_frame(name: str) -> bool:
    """Whether it has no box in the drawing."""
    return name == operators.ADAPTIVE_PLAN or operators.of(name).kind == "shuffle_read"


def _parts(nodes: Iterable[int], edges: Iterable[tuple[int, int]], names: dict[int, str]) -> dict[int, int]:
    """The part of the plan that each node is in, by any node of it: an exchange is in the part that makes its rows."""
    leader = {i: i for i in nodes}

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    for child, parent in edges:
        if child not in names or parent not in names or _ends_a_part(names[child], names[parent]):
            continue
        leader[find(child)] = find(parent)
    return {i: find(i) for i in leader}


def _ends_a_part(child: str, parent: str) -> bool:
    ran_before = operators.of(parent).kind in operators.SOURCES
    return operators.of(child).is_exchange or operators.is_subquery(child) or ran_before
