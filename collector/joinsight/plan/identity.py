"""Keys that identify a query and its operators across runs, where all of Spark's ids are different.

``query_shape`` identifies a query, ``plan_fingerprint`` how it ran, ``operator_key`` one exchange or join by the plan
below it. Each is a hash of the plan's texts, without what changes from run to run::

    plan                                                 shape, from the root
    HashAggregate(keys=[k#1], functions=[sum(a#2)])      0 Aggregate keys=[k] functions=[sum(a)]
    └ Exchange hashpartitioning(k#1, 200)                1 Join Inner (id = id)
      └ HashAggregate(... partial_sum(a#2))              2 Filter (a > ?)
        └ BroadcastHashJoin [id#3], [id#9], BuildRight   3 Scan parquet t[id,a]
          ├ Filter (a#2 > 10)                            2 Scan parquet s[id,k]
          │ └ FileScan parquet t[id#3,a#2]
          └ BroadcastExchange
            └ FileScan parquet s[id#9,k#1]

The rules are the patterns below, and the traits `is_wrapper`, `is_arrangement` and `shape_name` in `operators`. A
change of the rules must raise `RULES`; docs/identity.md describes them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from joinsight.plan import operators, texts
from joinsight.plan.graph import COMMAND, COMMAND_TABLE, Graph, Node
from joinsight.plan.paths import end_of_path
from joinsight.plan.spark_texts import spark_graph

RULES = 1
"""Version of the rules; part of the hashed text, so that keys of different versions never match."""

# Spark does not quote literals: a literal is what is not an attribute (k#1L), function, keyword or operator.
_TOKEN = re.compile(
    r"(?P<subquery>(?:ReusedSubquery )?Subquery [\w-]*#\d+, \[id=#\d+\])"
    r"|(?P<cut>, \.\.\. \d+ more fields)"
    r"|(?P<input>input\[\d+, [^,\]]*, (?:true|false)\])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<space>\s+)|(?P<word>[^\s()\[\]{},]+)"
)
_ID = re.compile(r"#\d+L?(?:-T\d+ms)?")
_OPERATORS = frozenset({
    "=", "<=>", "<", "<=", ">", ">=", "!=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "||", "<<", ">>", ">>>",
    "AND", "OR", "div",
})  # fmt: skip
_KEYWORDS = _OPERATORS | {
    "NOT", "IN", "INSET", "LIKE", "ILIKE", "RLIKE", "ESCAPE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "as", "ASC",
    "DESC", "NULLS", "FIRST", "LAST", "distinct", "FILTER", "WHERE", "RowFrame", "RangeFrame",
    "keys=", "key=", "functions=", "orderBy=", "output=",
}  # fmt: skip
_COUNTS = ("limit", "offset", "step", "splits")
_TYPE = re.compile(
    r"(?:string|binary|boolean|tinyint|smallint|int|bigint|float|double|decimal|date|timestamp|time|interval|array|map"
    r"|struct|void|variant|char|varchar)(?:\b|_)"
)
_LITERALS = re.compile(  # one literal of several words, or several in a row
    r"\?(?:(?:, ?| | (?:[-+*/%=<>&|^]{1,3}|AND|OR|as) )\?| \(\??\))+(?P<cut>, \.\.\. \d+ more fields)?"
)
_LIST_OF_ONE = re.compile(r"\((\w+) = \?\)")  # the optimizer's form of IN with one literal
_EQUALITY = re.compile(r"\((\w+) = (\w+)\)")
_RUNTIME_FILTER = re.compile(r"dynamicpruning|might_contain\(")
_PATH = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}:/[^,\]]*|\bpath=[^,\]]*")
_OBJECT = re.compile(r"\$?\$Lambda[$/\w]*|@[0-9a-f]{4,}\b")
_GENERATED = re.compile(r"(?<=SPARK_GEN_SUBQ_)\d+|(?<=numPartitions=)\d+")
_AFTER_FUNCTIONS = re.compile(r"\]\)?, (?:filters|isStreamingAgg)=.*$", re.DOTALL)
"""What engines print after the functions of an aggregate."""
_PARTIAL = re.compile(r"^(?:partial|merge)_")
_NOT_KEYED = ("shuffle_read", "reused_exchange", "reused_subquery", "subquery", "pruning", "adapter", "query_stage")
_MAX_ARGUMENTS = 1_000
"""Characters of a command's arguments without ids: fewer than are left of those that the listener has cut."""
_MAX_STEPS = 8  # of an aggregate with filters; Spark makes four
_DISTINCT_GROUP = re.compile(r"\bgid\b")
"""The column that Spark adds for several distinct aggregates, which it orders by ids: these change from run to run."""
_KEYS = re.compile(r"(\bkeys?=\[)([^\]]*)")
_WORD = re.compile(r"[^\s,\[\]]+")


class Identity:
    """Computes the keys of an execution's plans. Texts that several plans share are parsed once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[tuple[str, str], str] = {}
        self._run_labels: dict[tuple[str, str, bool], str] = {}
        self._last: tuple[Graph, Shape] | None = None

    def shape(self, graph: Graph) -> Shape:
        """The shape of a plan; cached for one graph: without AQE, the first and the last plan are the same."""
        if self._last is None or self._last[0] is not graph:
            self._last = graph, Shape(spark_graph(graph), self.label)
        return self._last[1]

    def query_shape(self, graph: Graph) -> str | None:
        """The key of the query, given its first plan, before AQE changed it; None for a graph without nodes."""
        shape = self.shape(graph)
        return _key("shape", *(shape.digests[top] for top in shape.roots)) if shape.roots else None

    def shape_text(self, graph: Graph) -> str:
        """The shape behind `query_shape`: a line for each operator that is part of it, with its depth."""
        shape = self.shape(graph)
        lines = []
        todo = [(top, 0) for top in reversed(shape.roots)]
        while todo:
            node_id, depth = todo.pop()
            lines.append(f"{depth} {shape.labels[node_id]}")
            todo.extend((child, depth + 1) for child in reversed(shape.inputs[node_id]))
        return "\n".join(lines)

    def plan_fingerprint(self, graph: Graph) -> str | None:
        """The key of how a plan runs; None for a graph without nodes."""
        return _key("plan", self.fingerprint_text(graph)) if graph.nodes else None

    def fingerprint_text(self, graph: Graph) -> str:
        """The text behind `plan_fingerprint`: a line for each operator, with its number and those of its inputs."""
        _, inputs, _ = skip(graph, _is_wrapper)
        kept = [n for n in graph.nodes if not n.is_cluster and not (_is_wrapper(n) and len(inputs[n.id]) == 1)]
        number = {node.id: position for position, node in enumerate(kept)}
        lines = []
        for node in kept:
            below = " ".join(str(number[top]) for top in inputs[node.id])
            lines.append(f"{number[node.id]} {self.run_label(node)} <- {below}".rstrip(" <-"))
        return "\n".join(lines)

    def operator_keys(self, graph: Graph) -> dict[int, str]:
        """The keys of the operators of a plan, by node id; frames and readers of shuffles have none.

        Equal operators get different keys, by their order in the plan.
        """
        return disambiguate(self.operator_bases(graph))

    def operator_bases(self, graph: Graph) -> dict[int, str]:
        """`operator_keys`, but equal operators have the same key, to compare plans where one reuses an exchange."""
        shape = self.shape(graph)
        keys = {}
        for node in shape.graph.nodes:
            kind = operators.of(node.name).kind
            if node.is_cluster or kind in _NOT_KEYED or operators.of(node.name).is_wrapper:
                continue
            is_exchange = operators.of(node.name).is_exchange
            own = self.run_label(node, origin=False) if is_exchange else shape.labels[node.id]
            keys[node.id] = _key(kind, own, *(shape.digests[i] for i in shape.inputs[node.id]))
        return keys

    # Labels describe one operator

    def label(self, node: Node) -> str:
        """What an operator does, without how."""
        known = self._labels.get((node.name, node.simple))
        if known is None:
            known = self._labels[node.name, node.simple] = self._read_label(node)
        return known

    def _read_label(self, node: Node) -> str:
        name = node.name
        operator = operators.of(name)
        join = texts.join_text(name, node.simple)
        if join is not None:
            pairs = zip(join.left_keys, join.right_keys, strict=False)
            on = [f"({' = '.join(sorted((self._text(a), self._text(b))))})" for a, b in pairs]
            on += [_sorted_sides(each) for each in _conjuncts(self._text(join.condition or ""))]
            return f"Join {_join_type(join.join_type)} {' '.join(sorted(set(on)))}"
        if operator.kind == "filter":
            return f"{operator.name} {' AND '.join(self._filters(node.simple.removeprefix(name).strip()))}"
        if operators.is_scan(name):
            return self._scan(node)
        if name.startswith(operators.SUBQUERY):
            return operators.SUBQUERY
        if COMMAND in node.metadata:
            return self._command(node)
        arguments = node.simple.removeprefix(name)
        if name.startswith("Execute "):
            arguments = _PATH.sub("path#0", arguments)
        text = self._text(arguments).rstrip()
        if _DISTINCT_GROUP.search(text):
            is_expand = name == operators.EXPAND
            text = " ".join(["", *sorted(_WORD.findall(text))]) if is_expand else _KEYS.sub(_ordered_keys, text)
        return f"{operator.shape_name or operator.name or name}{text}"

    def _command(self, node: Node) -> str:
        """A command that prints only its name: its table, or the end of its path, and its arguments."""
        table = node.metadata.get(COMMAND_TABLE, "")
        where = end_of_path(table, 1) if "/" in table else table.replace("`", "")
        return f"{node.name} {where}: {self._text(node.metadata[COMMAND])[:_MAX_ARGUMENTS]}"

    def run_label(self, node: Node, *, origin: bool = True) -> str:
        """What an operator does and how; with `origin`, also why Spark added an exchange."""
        known = self._run_labels.get((node.name, node.simple, origin))
        if known is None:
            known = self._run_labels[node.name, node.simple, origin] = self._read_run_label(node, origin)
        return known

    def _read_run_label(self, node: Node, origin: bool) -> str:
        name, simple = node.name, node.simple
        kind = operators.of(name).kind
        join = texts.join_text(name, simple)
        if join is not None:
            return f"{name} {join.build_side} {self.label(node)}"
        if kind == "shuffle":
            shuffle = texts.shuffle_text(simple)
            its = [self._text(key) for key in shuffle.keys]
            keys = ", ".join(sorted(its) if any(map(_DISTINCT_GROUP.fullmatch, its)) else its)
            return f"{operators.EXCHANGE} {shuffle.partitioning}({keys}) {shuffle.origin if origin else ''}".rstrip()
        if kind == "broadcast":
            return f"{operators.BROADCAST_EXCHANGE} {self._text(texts.broadcast_mode(simple) or '')}"
        if kind == "shuffle_read":
            return simple
        if kind in ("pruning", "reused_exchange"):
            return name
        label = self.label(node)
        return label if label.startswith(name) else f"{name}: {label}"

    def _scan(self, node: Node) -> str:
        """A source: its name, columns and partition filters, without file locations and pushed filters."""
        name = _GENERATED.sub("", operators.scan_name(node.name)).strip()
        arguments = node.simple.removeprefix("File").removeprefix(node.name).partition("[")[2]
        columns = self._text(f"[{arguments.partition(']')[0]}]") if arguments else ""
        filters = node.metadata.get("PartitionFilters", "").strip()[1:-1]
        if not filters:
            filters = node.simple.partition(" PartitionFilters: [")[2].partition("], ")[0]
        kept = sorted({f for part in texts.split(filters) for f in self._filters(part)})
        return f"{name}{columns}{' WHERE ' + ' AND '.join(kept) if kept else ''}"

    def _filters(self, text: str) -> list[str]:
        """The conditions of a filter, sorted, without runtime filters."""
        conditions = {_LIST_OF_ONE.sub(r"\1 IN (?)", each) for each in _conjuncts(self._text(text))}
        implied = {f"isnotnull({each.removesuffix(' IN (?)')})" for each in conditions if each.endswith(" IN (?)")}
        return sorted(each for each in conditions - implied if not _RUNTIME_FILTER.search(each))

    def _text(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = normalized(text)
        return known


def disambiguate(bases: Mapping[int, str]) -> dict[int, str]:
    """`operator_keys` from `operator_bases`."""
    seen: Counter[str] = Counter()
    keys = {}
    for node_id, base in bases.items():
        keys[node_id] = _key(base, str(seen[base])) if seen[base] else base
        seen[base] += 1
    return keys


class Shape:
    """A plan without operators that are not part of the shape; `inputs` skips these, and partial aggregates."""

    def __init__(self, graph: Graph, label: Callable[[Node], str]) -> None:
        self.graph = graph
        nodes = graph.by_id
        self.order, self.inputs, self.roots = skip(graph, _is_outside_shape)
        self.labels: dict[int, str] = {}
        self.digests: dict[int, str] = {}
        aggregates: dict[int, Aggregate] = {}
        for node_id in self.order:
            inputs = self.inputs[node_id]
            aggregate = Aggregate.of(nodes[node_id])
            if aggregate is not None:
                aggregates[node_id] = aggregate
                below = aggregates.get(inputs[0]) if len(inputs) == 1 else None
                if below is not None and aggregate.completes(below):
                    aggregate.take(below)
                    inputs = self.inputs[node_id] = self.inputs[inputs[0]]
                self.labels[node_id] = label(aggregate.node(node_id))
            else:
                self.labels[node_id] = label(nodes[node_id])
            # Subqueries of a scan are left out: only some versions of Spark repeat those of the filter above it there
            is_scan = operators.is_scan(nodes[node_id].name)
            subqueries = {self.digests[i] for i in inputs if not is_scan and nodes[i].name == operators.SUBQUERY}
            rows = [self.digests[i] for i in inputs if nodes[i].name != operators.SUBQUERY]
            self.digests[node_id] = _key(self.labels[node_id], *rows, "subqueries", *sorted(subqueries))


@dataclass(slots=True)
class Aggregate:
    """One step of an aggregate: Spark computes partial aggregates, merges them, and completes them."""

    keys: str
    functions: list[str]
    filters: set[str] = field(default_factory=set)  # FILTER (WHERE ...), which Spark prints for partial functions only
    taken: int = 0  # number of steps below whose filters it has taken

    @staticmethod
    def of(node: Node) -> Aggregate | None:
        """One step of an aggregate; None for any other node."""
        if operators.of(node.name).kind != "aggregate":
            return None
        keys, between, functions = _AFTER_FUNCTIONS.sub("])", node.simple).partition("], functions=[")
        if not between:
            return None
        split = texts.split(functions.removesuffix(")").removesuffix("]"))
        return Aggregate(keys.partition("=[")[2], split, {each for each in split if " FILTER (WHERE " in each})

    def take(self, below: Aggregate) -> None:
        """Merge the step below into this one."""
        self.filters |= below.filters
        self.taken = below.taken + 1 if below.filters else 0

    def completes(self, below: Aggregate) -> bool:
        """Whether the step below is an earlier one of the same aggregate."""
        if below.taken >= _MAX_STEPS:
            return False
        if below.functions:
            return all(_PARTIAL.match(function) for function in below.functions)
        distinct = any("(distinct " in function for function in self.functions)
        return distinct or (not self.functions and self.keys == below.keys)

    def node(self, node_id: int) -> Node:
        """The whole aggregate."""
        functions = [_PARTIAL.sub("", function).partition(" FILTER (WHERE ")[0] for function in self.functions]
        name = operators.AGGREGATE
        filters = sorted(self.filters, key=normalized)  # not by the ids of columns, which differ from run to run
        text = f"{name} keys=[{self.keys}] functions=[{', '.join(functions + filters)}]"
        return Node(node_id, name, text)


def _ordered_keys(match: re.Match[str]) -> str:
    return match[1] + ", ".join(sorted(match[2].split(", ")))


def _is_wrapper(node: Node) -> bool:
    return operators.of(node.name).is_wrapper


def _is_outside_shape(node: Node) -> bool:
    """An operator that is not part of the shape."""
    operator = operators.of(node.name)
    return is_half(node) or operator.is_wrapper or operator.is_arrangement


def is_half(node: Node) -> bool:
    """Whether it only prepares rows for another operator: a sort that is no ORDER BY, the first of two limits."""
    kind = operators.of(node.name).kind
    if kind == "sort":
        return not node.simple.endswith("], true, 0")
    return kind == "group_limit" and node.simple.endswith(", Partial")


def skip(graph: Graph, skipped: Callable[[Node], bool]) -> tuple[Sequence[int], dict[int, list[int]], list[int]]:
    """Node ids, inputs before consumers; the inputs of each, skipped nodes replaced by theirs; and the roots."""
    inputs: dict[int, list[int]] = {}
    representatives: dict[int, list[int]] = {}  # itself, or its input if skipped
    for node_id in graph.inputs_first:
        below: list[int] = []
        for child in graph.children.get(node_id, ()):
            if operators.of(graph.by_id[child].name).kind != "pruning":
                below += representatives[child]
        inputs[node_id] = below
        is_skipped = len(below) == 1 and skipped(graph.by_id[node_id])
        representatives[node_id] = below if is_skipped else [node_id]
    return graph.inputs_first, inputs, [each for top in graph.tops for each in representatives[top]]


def normalized(text: str) -> str:
    """An expression, or a list of them, without ids and literals: ``((a#1 > 5) AND b#2 IN (x,y))`` as
    ``((a > ?) AND b IN (?))``. Takes time in proportion to the text's length.
    """
    out: list[str] = []
    wants_operand = False  # after an operator or a comma; an empty string is a literal too
    text = _OBJECT.sub("", text)
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0]
        if kind == "space":
            out.append(" ")
            continue
        if kind in ("close", "comma") and wants_operand:
            out.append("?" if out[-1] == " " else " ?")
        wants_operand = kind == "comma"
        if kind == "subquery":
            out.append("subquery")
        elif kind == "input":
            out.append(f"input{word[6:].split(',')[0]}")
        elif kind != "word":
            out.append(word)
        elif "#" in word and (bare := _ID.sub("", word)) != word:
            out.append(bare)
        elif word in _KEYWORDS:
            wants_operand = word in _OPERATORS
            out.append(word)
        else:
            is_function = text.startswith("(", token.end()) and not word[0].isdigit()
            is_type = out[-2:] == ["as", " "] and _TYPE.match(word)
            count = word.partition("=")[0]
            out.append(word if is_function or is_type else f"{count}=?" if word != count in _COUNTS else "?")
    if wants_operand and out and out[-1] == " ":
        out.append("?")
    return _LITERALS.sub("?", "".join(out)).replace(" INSET ?", " IN (?)")


def _conjuncts(flat: str) -> list[str]:
    """The conjuncts of ``((a AND b) AND c)``: a, b, c; in one pass, however deep."""
    closing: dict[int, int] = {}
    ands: dict[int, list[int]] = defaultdict(list)
    inside = [-1]
    for token in re.finditer(r"[()]| AND ", flat):
        if token[0] == "(":
            inside.append(token.start())
        elif token[0] != ")":
            ands[inside[-1]].append(token.start())
        elif len(inside) > 1:
            closing[inside.pop()] = token.start()
    conjuncts = []
    todo = [(0, len(flat), -1)]
    while todo:
        start, end, group = todo.pop()
        cuts = [start - len(" AND "), *ands.get(group, ()), end]
        for before, after in pairwise(cuts):
            first = before + len(" AND ")
            if first in ands and closing.get(first) == after - 1:
                todo.append((first + 1, after - 1, first))
            elif first < after:
                conjuncts.append(flat[first:after])
    return conjuncts


def _sorted_sides(conjunct: str) -> str:
    equality = _EQUALITY.fullmatch(conjunct)
    return f"({' = '.join(sorted(equality.groups()))})" if equality else conjunct


def _join_type(name: str | None) -> str:
    return "Inner" if name in (None, "Cross") else str(name)


def shape_of_command(shape: str, told_by: str) -> str | None:
    """The key of a command of which Spark prints only its name, given what else tells it from others; None: nothing."""
    return _key("command", shape, told_by) if told_by else None


def _key(*parts: str) -> str:
    text = "\n".join((f"joinsight identity {RULES}", *parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
