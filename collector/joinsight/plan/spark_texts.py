"""A plan as Spark would have named and printed it, whatever engine runs it: keys and titles are made of this.

Comet prints its operators' output first, ``CometFilter [k#1, v#2], (v#2 > 5)``, and leaves out what Spark prints, such
as whether a sort is global. RAPIDS puts ``gpu`` before functions. Source: Comet 1.2, and plans of other engines' runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from joinsight.plan import operators, texts
from joinsight.plan.graph import Graph, Node

_GPU = re.compile(r"(?<![A-Za-z])gpu(?=[a-z]\w*\()")
"""What RAPIDS puts before the names of functions."""
_INT = re.compile(r"\w+#\d+")
"""A column that is no bigint: those have an L at the end."""
_RENAMED = {"Explode": "Generate"}
_MODES = ("Partial", "PartialMerge", "Final", "Complete")
_RANKS = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
_BETWEEN = ("shuffle_read", "reused_exchange")
"""Kinds of operators between a global sort and its shuffle, beside wrappers."""


def spark_graph(graph: Graph) -> Graph:
    """The same nodes with Spark's names and texts; `graph` itself if none is a native engine's."""
    if not any(operators.of(node.name).engine for node in graph.nodes):
        return graph
    return Graph(tuple(_of_spark(node, graph) for node in graph.nodes), graph.edges)


def _of_spark(node: Node, graph: Graph) -> Node:
    operator = operators.of(node.name)
    if operator.engine == "RAPIDS":
        return replace(node, simple=_GPU.sub("", node.simple))
    if operator.engine != "Comet":
        return node
    if operator.kind == "sort":
        return replace(node, name=operator.name, simple=_sort(_arguments(node), _is_global(node, graph)))
    if operator.kind == "broadcast":
        return replace(node, simple=_broadcast(node, graph) or node.simple)
    make, name = _COMET.get(operator.name), _RENAMED.get(operator.name, operator.name)
    if make is None:
        return node
    try:
        return replace(node, name=name, simple=make(_arguments(node)))
    except ValueError:  # another version prints other arguments
        return node


def _arguments(node: Node) -> list[str]:
    return texts.split(node.simple.removeprefix(node.name).strip())


def _is_global(sort: Node, graph: Graph) -> bool:
    """Whether a sort orders all rows: then its input is divided by ranges, or not at all."""
    below = graph.children.get(sort.id, ())
    while len(below) == 1:
        node = graph.by_id[below[0]]
        operator = operators.of(node.name)
        if operator.kind == "shuffle":
            return texts.shuffle_text(node.simple).partitioning in ("rangepartitioning", "SinglePartition")
        if operator.kind not in _BETWEEN and not operator.is_wrapper:
            return False
        below = graph.children.get(node.id, ())
    return False


def _broadcast(node: Node, graph: Graph) -> str | None:
    """With the mode, which Comet does not print, from the keys of the join that reads it; None: unknown."""
    join, is_right = _join_above(node, graph)
    text = None if join is None else texts.join_text(join.name, join.simple)
    if text is None:
        return None
    keys = text.right_keys if is_right else text.left_keys
    if not keys:
        return f"{operators.BROADCAST_EXCHANGE} IdentityBroadcastMode"
    columns = texts.split(_arguments(node)[0][1:-1]) if _arguments(node) else []
    if not set(keys) <= set(columns):
        return None
    inputs = [f"input[{columns.index(key)}, any, true]" for key in keys]
    if len(keys) == 1 and _is_int(keys[0], node, graph):
        inputs = [f"cast({inputs[0]} as bigint)"]
    return f"{operators.BROADCAST_EXCHANGE} HashedRelationBroadcastMode(List({', '.join(inputs)}),false)"


def _join_above(node: Node, graph: Graph) -> tuple[Node | None, bool]:
    """The first join that reads an exchange, and whether as its right side."""
    todo = [(node.id, above) for above in graph.parents.get(node.id, ())]
    while todo:
        below, number = todo.pop(0)
        above = graph.by_id[number]
        operator = operators.of(above.name)
        if operator.kind == "join":
            sides = graph.children.get(number, ())
            return above, below in sides and sides.index(below) == 1
        if operator.kind in _BETWEEN or operator.is_wrapper:
            todo += [(number, each) for each in graph.parents.get(number, ())]
    return None, False


def _is_int(column: str, node: Node, graph: Graph) -> bool:
    """Whether a scan below says that a column is an int, which Spark casts to bigint."""
    if not _INT.fullmatch(column):
        return False
    field = re.compile(rf"[<,]{re.escape(column.partition('#')[0])}:(?:int|smallint|tinyint)\b")
    todo, seen = [node.id], {node.id}
    while todo:
        for below in graph.children.get(todo.pop(), ()):
            if below not in seen:
                seen.add(below)
                todo.append(below)
                scan = graph.by_id[below]
                if column in scan.simple and field.search(scan.simple.partition("ReadSchema: ")[2]):
                    return True
    return False


def _sort(arguments: Sequence[str], is_global: bool) -> str:
    return f"{operators.SORT} {', '.join(arguments[-1:])}, {'true' if is_global else 'false'}, 0"


def _last(name: str) -> Callable[[Sequence[str]], str]:
    """Without the output, which comes first."""
    return lambda arguments: f"{name} {', '.join(arguments[1:])}"


def _aggregate(arguments: Sequence[str]) -> str:
    """``[input], [Partial], [keys], [functions]``, each only if there is one: without functions there is no mode."""
    mode = next((i for i, each in enumerate(arguments) if each.strip("[]") in _MODES), None)
    if mode is None:
        keys, functions = arguments[-1] if len(arguments) > 1 else "[]", "[]"
    else:
        keys, functions = arguments[mode + 1] if len(arguments) > mode + 2 else "[]", arguments[-1]
    return f"HashAggregate(keys={keys}, functions={functions})"


def _top(arguments: Sequence[str]) -> str:
    """``Exec(limit=10, offset=0, orderBy=[...], output=[...])``."""
    inside = texts.split(arguments[0].partition("(")[2].removesuffix(")")) if arguments else ()
    return f"TakeOrderedAndProject({', '.join(each for each in inside if each != 'offset=0')})"


def _group_limit(arguments: Sequence[str]) -> str:
    """``[output], [partition], [order], RowNumber, 2, Partial``; Spark prints the function of the rank."""
    *lists, rank, limit, mode = arguments[1:]
    by = [each.rpartition(" NULLS ")[0].rpartition(" ")[0] for each in texts.split(lists[-1][1:-1])] if lists else []
    name = _RANKS.get(rank)
    function = rank if name is None else f"{name}({'' if rank == 'RowNumber' else ', '.join(by)})"
    return f"{operators.WINDOW_GROUP_LIMIT} {', '.join([*lists, function, limit, mode])}"


def _generate(arguments: Sequence[str]) -> str:
    """``explode(a), [output], false, [made]``; Spark prints what it takes from its input in place of the output."""
    generator, output, is_outer, made = arguments
    own = set(texts.split(made[1:-1]))
    kept = [each for each in texts.split(output[1:-1]) if each not in own]
    required = [f"[{', '.join(kept)}]"] if kept else []
    return f"Generate {', '.join([generator, *required, is_outer, made])}"


_COMET: Mapping[str, Callable[[Sequence[str]], str]] = {
    operators.FILTER: _last(operators.FILTER),
    operators.PROJECT: _last(operators.PROJECT),
    "Window": _last("Window"),
    operators.HASH_AGGREGATE: _aggregate,
    "TakeOrderedAndProject": _top,
    operators.WINDOW_GROUP_LIMIT: _group_limit,
    "Explode": _generate,
    operators.UNION: lambda arguments: operators.UNION,
}
"""Spark's text from the arguments that Comet prints, by Spark's name."""
