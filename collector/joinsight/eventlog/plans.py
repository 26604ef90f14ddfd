"""The plans of an execution as a table of their nodes, equal ones once, and trees: the listener's PlanTable."""

from __future__ import annotations

from collections.abc import Callable

from joinsight.document import Metric, Plan, PlanNode
from joinsight.eventlog.events import PlanInfo


def table(plans: list[tuple[int, PlanInfo]], text: Callable[[str], str]) -> tuple[list[PlanNode], list[Plan]]:
    """Nodes and trees; a plan equal to the one before it is left out. `text` redacts."""
    places: dict[tuple[object, ...], int] = {}
    nodes: list[PlanNode] = []
    trees: list[Plan] = []
    last = None
    for at, root in plans:
        in_tree: list[int] = []
        parents: list[int] = []
        open_nodes = [(root, -1)]  # plans can be hundreds of levels deep: no recursion
        while open_nodes:
            info, parent = open_nodes.pop()
            metadata = sorted(info.metadata.items()) if info.metadata else ()
            key = (info.name, info.simple, info.metrics, *metadata)
            place = places.get(key)
            if place is None:
                place = places[key] = len(nodes)
                metrics = [Metric(metric.name, metric.id, metric.type) for metric in info.metrics]
                masked = {name: text(value) for name, value in metadata}
                nodes.append(PlanNode(text(info.name), text(info.simple), masked, metrics))
            position = len(in_tree)
            in_tree.append(place)
            parents.append(parent)
            for child in reversed(info.children):
                open_nodes.append((child, position))
        if (in_tree, parents) != last:
            trees.append(Plan(at, in_tree, parents))
        last = (in_tree, parents)
    return nodes, trees
