"""A plan in one line, for people: ``sales ⋈ store where amount → by region → sum(amount) → save to parquet daily``.

It is made of the first plan's shape (`plan.identity`), so it has no ids and no literals, and is the same in all
runs of a query, whatever AQE did. Each operator adds to the outline of its inputs::

    Execute InsertInto... reports/daily      sales ⋈ store where amount → by region → sum(amount) → save to ...
    └ Aggregate keys=[region] [sum(amount)]  sales ⋈ store where amount → by region → sum(amount)
      └ Join Inner (store_id = store_id)     sales ⋈ store where amount
        ├ Filter (amount > ?)                sales where amount
        │ └ Scan parquet sales               sales
        └ Scan parquet store                 store

An outline keeps a bounded number of sources, columns and steps, so that the work is in proportion to the plan's size
also where inputs are shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from joinsight.plan import operators, texts
from joinsight.plan.graph import COMMAND_TABLE, Node
from joinsight.plan.identity import Shape
from joinsight.plan.paths import end_of_path

MAX_CHARACTERS = 120
_MAX_SOURCES, _MAX_COLUMNS, _MAX_STEPS, _MAX_MORE = 4, 3, 6, 999
_MAX_NAME, _MAX_NESTED, _MAX_READ = 40, 48, 2_000  # characters: of a name, of a joined subquery, read of an operator
_JOIN, _CROSS, _UNION = "⋈", "×", "∪"
_JOIN_SIGNS = {"LeftSemi": "with", "LeftAnti": "without", "ExistenceJoin": "with"}

_NAME = re.compile(r"`?[^\W\d][\w.$`-]*")
_CALL = re.compile(r"(?:gpu|finalmerge_)?(\w+)\((distinct )?(.*)\)", re.DOTALL)
_COLUMN = re.compile(r"(?<![\w.$?])(?:as \w+|([^\W\d][\w.$]*)(?![\w.$(]))")
_NOT_COLUMNS = frozenset({
    "AND", "OR", "NOT", "IN", "INSET", "LIKE", "ILIKE", "RLIKE", "ESCAPE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS",
    "div", "subquery", "true", "false", "null",
})  # fmt: skip
_GENERATED = re.compile(r"_w\d+$|_groupingexpression$|_gen_alias_")
_FILTER = re.compile("Filter$")  # also of native engines
_NOT_NULL = re.compile(r"(?:gpu)?isnotnull\([^()]*\)")
_AGGREGATE = re.compile(r"keys=\[(.*?)\],? functions=\[(.*)", re.DOTALL)
_PARTIAL = re.compile(r"(?:partial|merge)_")
_SCAN = re.compile(r"\w*Scan\b\s*(\S*)\s*(.*)", re.DOTALL)
_LOCATION = re.compile(r"\bLocation: \w+(?:\(\d+ paths\))?\[(.*)", re.DOTALL)
_QUOTED_TABLE = re.compile(r"`[^`]{1,200}`(?:\.`[^`]{1,200}`){0,3}")
_CATALOG_TABLE = re.compile(r"Database: ([^\s,]{1,200})\nTable: ([^\s,]{1,200})|\(table=(?P<name>[^\s,()]{1,200})")
_DEFAULT_NAMESPACE = re.compile(r"^(?:spark_catalog\.)?(?:default\.)?")
_PATH = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}:)?/[^,\]\s]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WRITES = re.compile(r"(?:Atomic|Append|Overwrite|WriteTo|WriteDelta|Replace|Create|Delete|Merge|Update|Cache)")


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done to rows: ``by region, day``; `items` are shortened as needed."""

    verb: str
    items: tuple[str, ...] = ()

    def text(self, most: int) -> str:
        return f"{self.verb} {_listed(self.items, most)}".strip()


@dataclass(frozen=True, slots=True)
class _Outline:
    sources: tuple[tuple[str, str], ...] = ()
    """Pairs of the sign before it and its name."""
    more: int = 0
    """Sources beyond the limit."""
    where: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    steps: tuple[_Step, ...] = ()

    def then(self, *steps: _Step) -> _Outline:
        if any(step == self.steps[-1] for step in steps if self.steps):
            return self
        all_steps = self.steps + steps
        if len(all_steps) > _MAX_STEPS:
            all_steps = (*all_steps[:2], _Step("…"), *all_steps[3 - _MAX_STEPS :])
        return replace(self, steps=all_steps)

    def filtered(self, columns: Sequence[str]) -> _Outline:
        new = [each for each in columns if each not in self.where]
        if not new:
            return self
        if self.steps:
            return self.then(_Step("where", tuple(new[: _MAX_COLUMNS + 1])))
        return replace(self, where=(*self.where, *new)[: _MAX_COLUMNS + 1])

    def text(self, limit: int) -> str:
        """At most `limit` characters: less detail where it is too long, in the end cut off."""
        text = ""
        for most in range(_MAX_COLUMNS, 0, -1):
            text = self._text(most)
            if len(text) <= limit:
                return text
        return shortened(text, limit)

    def _text(self, most: int) -> str:
        shown = self.sources[: most + 1]
        text = " ".join(f"{sign} {name}".strip() for sign, name in shown)
        more = self.more + len(self.sources) - len(shown)
        if more:
            text += f" {self.sources[-1][0]} {more} more"
        if self.where:
            text += f" where {_listed(self.where, most)}"
        steps = [step.text(most) for step in self.steps]
        if not steps and not self.where and len(self.sources) == 1 and any(each != "…" for each in self.columns):
            steps = [_listed(self.columns, most)]
        return " → ".join([text, *steps] if text else steps)


def outline(shape: Shape) -> str:
    """The outline of a plan from its shape; empty for a plan without nodes."""
    nodes = shape.graph.by_id
    made: dict[int, _Outline] = {}
    for node_id in shape.order:
        inputs = [made[i] for i in shape.inputs[node_id] if not operators.is_subquery(nodes[i].name)]
        made[node_id] = _add(nodes[node_id], shape.labels[node_id][:_MAX_READ], inputs)
    return made[shape.roots[0]].text(MAX_CHARACTERS) if shape.roots else ""


def shortened(text: str, limit: int = MAX_CHARACTERS) -> str:
    """A text on one line, cut off with an ellipsis."""
    text = " ".join(text[: 4 * limit].split()) if len(text) > 4 * limit else " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _add(node: Node, label: str, inputs: Sequence[_Outline]) -> _Outline:
    """The outline up to an operator."""
    operator = operators.of(node.name)
    kind, name = operator.kind, operator.name or node.name
    if kind == "cached_scan":
        return _cached(node.name, label, inputs)
    if kind == "scan" or not inputs:
        return _source(node, label)
    if kind == "join":
        sign = _JOIN_SIGNS.get(label.split(" ", 2)[1]) or (_JOIN if "(" in label else _CROSS)
        return _combined(sign, inputs)
    if len(inputs) > 1:
        return _combined(_JOIN if "CoGroup" in name else _UNION, inputs)
    below = inputs[0]
    if kind == "filter" or _FILTER.search(name):
        return below.filtered(_columns(" AND ".join(_conditions(label.partition(" ")[2]))))
    if kind == "project":
        return replace(below, columns=_items(label.partition("[")[2].removesuffix("]")))
    if "Aggregate" in label and (match := _AGGREGATE.search(label)):
        return _aggregated(below, match[1], match[2])
    if kind == "write" or name.startswith("Execute ") or _WRITES.match(name):
        return below.then(_command(node))
    step = next((make(label) for pattern, make in _STEPS if pattern.search(name)), None)
    return below.then(*step) if step else below


def _combined(sign: str, inputs: Sequence[_Outline]) -> _Outline:
    sources: list[tuple[str, str]] = []
    where: list[str] = []
    more = 0
    for side in inputs:
        if side.steps:
            parts: Sequence[tuple[str, str]] = (("", f"({side.text(_MAX_NESTED)})"),)
        else:
            parts, more = side.sources, more + side.more
            where += [each for each in side.where if each not in where]
        if sources and sign == _UNION and parts == (("", sources[-1][1]),):
            continue
        sources += [(own or (sign if sources else ""), each) for own, each in parts]
        if len(sources) > _MAX_SOURCES + 1:
            more += len(sources) - _MAX_SOURCES - 1
            del sources[_MAX_SOURCES + 1 :]
    return _Outline(tuple(sources), min(more, _MAX_MORE), tuple(where[: _MAX_COLUMNS + 1]))


def _cached(name: str, label: str, inputs: Sequence[_Outline]) -> _Outline:
    table = operators.cached_table(name)
    if not table and inputs:
        is_one = len(inputs[0].sources) == 1 and not inputs[0].where and not inputs[0].steps
        table = inputs[0].sources[0][1] if is_one else f"({inputs[0].text(_MAX_NESTED)})"
    columns = _items(label.partition("[")[2].partition("]")[0])
    return _Outline((("", f"cached {_table(table) if table[:1] != '(' else table}".rstrip()),), columns=columns)


def _source(node: Node, label: str) -> _Outline:
    """A scan, or another operator without inputs: what it reads, and its partition filters."""
    columns, _, filters = label.partition("[")[2].partition("] WHERE ")
    source = _Outline((("", source_name(node)),), columns=_items(columns.partition("]")[0]))
    operator = operators.of(node.name)
    if operator.kind == "scan":
        return source.filtered(_columns(" AND ".join(_conditions(filters))))
    return source if operator.source_name else _Outline(steps=(_command(node),))


def source_name(node: Node) -> str:
    """What people call what a scan reads: a table, the end of a path."""
    name = operators.scan_name(node.name).strip()
    known = operators.of(node.name.strip()).source_name
    if known:
        return known
    match = _SCAN.match(name)
    source, table = match.groups() if match else ("", "")
    if source.startswith("JDBCRelation("):
        return f"jdbc {_table(source[13:].partition(')')[0])}"
    if "ExistingRDD" in source:
        return shortened(_PATH.sub("", table.partition(" #")[0]), _MAX_NAME) or "RDD"
    if table:
        return _table(table)
    if "BatchScan" in name and _NAME.fullmatch(source):
        return _table(source)
    match = _LOCATION.search(f"Location: {node.metadata.get('Location', '')}") or _LOCATION.search(node.simple)
    path = _path(match[1].partition(",")[0].partition("]")[0], 1) if match else ""
    return path or f"{source} files".strip()


def _table(name: str) -> str:
    """Without Spark's own catalog, the default schema, and quotes."""
    bare = _DEFAULT_NAMESPACE.sub("", name.replace("`", "").strip())
    return shortened(bare, _MAX_NAME)


def _path(path: str, segments: int) -> str:
    return shortened(end_of_path(path, segments), _MAX_NAME)


def _aggregated(below: _Outline, keys: str, functions: str) -> _Outline:
    computed = texts.split(functions.rpartition("]")[0] if "]" in functions else functions)
    if computed and all(_PARTIAL.match(each) for each in computed):
        return below
    by = _items(keys)
    steps = [_Step("by" if computed else "distinct", by)] if by else []
    if computed:
        steps.append(_Step("", tuple(_calls(computed))))
    return below.then(*steps)


def _windowed(label: str) -> Sequence[_Step]:
    lists = texts.split(label.partition(" ")[2])
    over = _items(lists[1].strip("[]")) if len(lists) > 1 else ()
    return (_Step("window over" if over else "window", over),)


def _by_python(label: str) -> Sequence[_Step]:
    """``MapInPandas f(id), [id]``, ``FlatMapGroupsInPandas [id], f(id), [id]``, ``ArrowEvalPython [f(v)], [x]``."""
    name, _, arguments = label.partition(" ")
    parts = texts.split(arguments)
    by = _items(parts[0].strip("[]")) if "Group" in name or "Aggregate" in name else ()
    functions = dict.fromkeys(re.findall(r"(\w+)\(", " ".join(parts[: 2 if by else 1])))
    for name in ("windowspecdefinition", "specifiedwindowframe"):
        functions.pop(name, None)
    steps = (_Step("by", by),) if by else ()
    return (*steps, _Step("Python", tuple(functions)[: _MAX_COLUMNS + 1]))


_STEPS: tuple[tuple[re.Pattern[str], Callable[[str], Sequence[_Step]]], ...] = (
    (re.compile("TakeOrdered"), lambda label: (_Step("top by", _items(_between(label, "orderBy=["))),)),
    (re.compile("Sort$"), lambda label: (_Step("sort by", _items(_between(label, "["))),)),
    (re.compile("InPandas|InArrow|EvalPython"), _by_python),
    (re.compile("Window$"), _windowed),
    (re.compile("Generate$"), lambda label: (_Step(label.partition(" ")[2].partition("(")[0][:_MAX_NAME]),)),
    (re.compile("^Map(?:Elements|Partitions)|^FlatMap|^AppendColumns"), lambda label: (_Step("map"),)),
    (re.compile("^Sample"), lambda label: (_Step("sample"),)),
)
"""The steps of operators with one input, by their name."""


def _between(label: str, opening: str) -> str:
    return label.partition(opening)[2].partition("]")[0]


def _command(node: Node) -> _Step:
    """What a command does, and to which table or path."""
    name = operators.of(node.name).name or node.name
    name = name.removeprefix("Execute ").removesuffix("Command").removesuffix("Exec")
    simple = node.simple[:_MAX_READ].removeprefix(node.name).strip()
    table = _table(match[0]) if (match := _QUOTED_TABLE.search(simple)) else _changed_table(node)
    if name.startswith("InsertInto"):
        if table:
            return _Step(f"insert into {table}")
        path = _path(match[0], 2) if (match := _PATH.match(simple)) else ""
        formats = [part for part in texts.split(simple)[1:4] if part not in ("true", "false") and part[:1] != "["]
        return _Step(f"save to {formats[0].lower()[:_MAX_NAME] if formats else 'files'} {path}".rstrip())
    if name == operators.WRITE_V2:
        return _Step("write")
    if how := operators.V2_WRITES.get(name.removesuffix("ExecV1")):
        match = _CATALOG_TABLE.search(simple)
        table = (match["name"] or f"{match[1]}.{match[2]}") if match else ""
        return _Step(f"write ({how}) {_table(table)}".rstrip())
    if not table and name.endswith("AsSelect"):
        table = next((_table(part) for part in texts.split(simple)[:3] if _NAME.fullmatch(part)), "")
    words = " ".join(_CAMEL.split(name.removeprefix("Atomic"))).lower()
    words = words.removesuffix(" as select").replace("data source ", "").replace("hive ", "").replace("as v1 ", "as ")
    return _Step(shortened(f"{words} {table}", _MAX_NESTED))


def _changed_table(node: Node) -> str:
    """The table of a command that prints only its name, or the end of its path."""
    told = node.metadata.get(COMMAND_TABLE, "")
    return _path(told, 2) if _PATH.fullmatch(told) else _table(told)


def _conditions(text: str) -> list[str]:
    """The conjuncts of a label that are not just about NULL."""
    return [each for each in text.split(" AND ") if not _NOT_NULL.fullmatch(each)]


def _columns(text: str) -> list[str]:
    """The columns in a text without literals, in order, each once."""
    found = (match[1] for match in _COLUMN.finditer(text))
    return list(dict.fromkeys(each[:_MAX_NAME] for each in found if each and each not in _NOT_COLUMNS))


def _column(name: str) -> str:
    """Without quotes and the table it is of."""
    return name.replace("`", "").rpartition(".")[2][:_MAX_NAME]


def _items(text: str) -> tuple[str, ...]:
    """The names in a list of columns, aliases for computed ones; ``…`` for what has none."""
    items = []
    for each in texts.split(text)[: _MAX_COLUMNS + 1]:
        bare = re.split(r" (?:ASC|DESC) ", each)[0].rpartition(" AS ")[2].strip()
        is_named = _NAME.fullmatch(bare) and not _GENERATED.match(bare)
        items.append(_column(bare) if is_named else "…")
    return tuple(items)


def _calls(functions: Sequence[str]) -> list[str]:
    """``sum(amount)``, ``count``, ``sum(…)`` where the argument is an expression; each once."""
    calls = []
    for each in functions[:20]:
        match = _CALL.match(each)
        if match is None:
            calls.append(each[:_MAX_NAME] if _NAME.fullmatch(each) else "…")
            continue
        name, distinct = match[1], match[2] or ""
        known = _column(match[3]) if _NAME.fullmatch(match[3]) else "…"
        calls.append(name if match[3] == "?" else f"{name}({distinct}{known})")
    return list(dict.fromkeys(calls))[: _MAX_COLUMNS + 1]


def _listed(items: Sequence[str], most: int) -> str:
    shown = list(items[:most])
    if len(items) > most and shown[-1:] != ["…"]:
        shown.append("…")
    return ", ".join(shown)
