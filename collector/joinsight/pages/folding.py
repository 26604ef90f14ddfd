"""Chains of operators that say little about a query's cost, each drawn as one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from joinsight.plan import operators
from joinsight.present.tree import TreeNode

MIN_SHARE = 0.01
"""The share of the time from which on an operator is never folded."""
_KINDS = ("adapter", "filter", "limit", "project", "query_stage")


def chains(
    roots: Sequence[int], tree: Mapping[int, Sequence[int]], nodes: Mapping[int, TreeNode], keep: Collection[int]
) -> dict[int, list[int]]:
    """Chains of at least two operators by their topmost one; those in `keep` are in none.

    A chain stays within one codegen stage. `tree` has the children of each node; negative ids are further uses.
    """
    found: dict[int, list[int]] = {}
    order, inside = list(roots), set()
    for i in order:
        below = tree.get(i, ())
        order += below
        if i in inside or not _is_foldable(i, tree, nodes, keep):
            continue
        chain = [i]
        while _continues(chain[-1], tree, nodes, keep):
            chain += tree[chain[-1]]
        if len(chain) > 1:
            found[i] = chain
            inside.update(chain)
    return found


def _continues(i: int, tree: Mapping[int, Sequence[int]], nodes: Mapping[int, TreeNode], keep: Collection[int]) -> bool:
    [below] = tree[i]
    return _is_foldable(below, tree, nodes, keep) and nodes[below].cluster is nodes[i].cluster


def _is_foldable(
    i: int, tree: Mapping[int, Sequence[int]], nodes: Mapping[int, TreeNode], keep: Collection[int]
) -> bool:
    node = nodes.get(i)
    if node is None or i in keep or len(tree.get(i, ())) != 1 or node.findings or node.share >= MIN_SHARE:
        return False
    operator = operators.of(node.name)
    return operator.kind in _KINDS or operator.is_wrapper
