"""What a verdict calls operators and stages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from joinsight.plan import operators, texts
from joinsight.plan.graph import Node
from joinsight.plan.outline import shortened, source_name
from joinsight.plan.texts import join_on, without_ids
from joinsight.verdict.view import View

ALL_ROWS = "the window over all rows"
_LONGEST = 70
_MOST_KEYS = 5
_MOST_SOURCES = 3
_MOST_READ = 2_000
"""Characters of an operator's text: a document may hold anything, and nobody reads more."""
_AGGREGATE = re.compile(r"keys=\[(.*?)\],? functions=\[", re.DOTALL)
_FUNCTION = re.compile(r"([A-Za-z_]\w*)\(")
_WRITTEN = re.compile(r"InsertIntoHadoopFsRelationCommand (\S+), \w+,(?: \[[^\]]*\],)? (\w+)")
_EXPRESSION = "_groupingexpression"
"""What Spark calls an expression by which a query groups."""


def operator(view: View, node_id: int) -> str:
    """``the join on customer_id``, ``the aggregation by region``, ``the scan of orders``."""
    node = view.as_spark[node_id]
    kind, name = operators.of(node.name).kind, node.name
    if kind == "join":
        join = texts.join_text(name, node.simple)
        on = "" if join is None else join_on(join.left_keys[:_MOST_KEYS], join.right_keys[:_MOST_KEYS], join.condition)
        return f"the join on {_short(on)}" if on else "the join"
    if kind == "shuffle":
        keys = _short(without_ids(", ".join(texts.shuffle_text(node.simple).keys[:_MOST_KEYS])))
        return f"the shuffle by {keys}" if keys else "the shuffle"
    if kind == "broadcast":
        return f"the broadcast of {_sources(view, node_id)}"
    if kind == "aggregate":
        match = _AGGREGATE.search(node.simple[:_MOST_READ])
        by = _listed(match[1]) if match else ""
        return f"the aggregation by {by}" if by else "the aggregation"
    if kind == "scan":
        return f"the scan of {source_name(node) or 'files'}"
    if kind == "cached_scan":
        table = operators.cached_table(name)
        return f"the cached table {table}" if table else "the cached DataFrame"
    if kind == "filter":
        return f"the filter {_short(_bare(node))}"
    if kind == "project":
        return f"the projection {_short(_bare(node))}"
    if kind == "sort":
        return f"the sort by {_listed(_bare(node).lstrip('['))}"
    if kind == "write":
        match = _WRITTEN.search(node.simple[:_MOST_READ])
        if match:
            return f"the write of {_short(match[1].rstrip('/').rpartition('/')[2])} as {match[2]}"
        return f"the write ({shortened(without_ids(name), _LONGEST)})"
    if operators.is_python(name):
        return f"the Python function {python_function(node)}".rstrip()
    if "Window" in name:
        lists = texts.split(_bare(node))
        return f"the window over {_listed(lists[1].strip('[]'))}" if len(lists) > 2 else ALL_ROWS
    if name.startswith("Generate"):
        return f"the {_bare(node).partition('(')[0][:_LONGEST]} of rows"
    return shortened(without_ids(node.simple if len(node.simple) < _LONGEST else name), _LONGEST)


def python_function(node: Node) -> str:
    """The name of the user's function, if the text has it."""
    found = [each for each in _FUNCTION.findall(_bare(node)) if each not in ("windowspecdefinition",)]
    return found[0] if found else ""


def place(view: View, node_ids: Sequence[int], stage_id: int | None, what: str) -> str:
    """``stage 59 (the join on customer_id, the aggregation by region)``; without operators if `what` names the first.

    Empty if `what` says it all.
    """
    named = list(dict.fromkeys(operator(view, i) for i in node_ids[:2]))
    inside = "" if named and named[0] in what else ", ".join(named)
    if stage_id is None:
        return inside
    return f"stage {stage_id} ({inside})" if inside else f"stage {stage_id}"


def _bare(node: Node) -> str:
    return without_ids(node.simple[:_MOST_READ].removeprefix(node.name).strip())


def _short(text: str) -> str:
    return shortened(text.replace(_EXPRESSION, "an expression"), _LONGEST)


def _listed(text: str) -> str:
    parts = [
        re.split(r" (?:ASC|DESC)\b", each)[0].strip("[] ") for each in texts.split(without_ids(text).partition("]")[0])
    ]
    return _short(", ".join(each for each in parts[:_MOST_KEYS] if each))


def _sources(view: View, node_id: int) -> str:
    scans = (node for node in view.below(node_id) if operators.of(node.name).kind == "scan")
    found = dict.fromkeys(source_name(node) or "files" for node in scans)
    return ", ".join(list(found)[:_MOST_SOURCES]) or "rows"
