"""Writes the SQL that counts the keys of a join or shuffle of a stored run.

Spark writes text literals without quotes, and secrets may be redacted, so an expression becomes SQL only if it is made
of columns, numbers and operators. What is not becomes a comment, and where a side's rows come from more than one table
the answer is the code that measures the query instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError
from joinsight.plan import operators, texts
from joinsight.plan.graph import Node
from joinsight.plan.outline import source_name
from joinsight.plan.texts import without_ids
from joinsight.verdict import names
from joinsight.verdict.view import View

_PASSED = ("sort", "shuffle", "broadcast", "adapter", "query_stage", "shuffle_read", "codegen", "columnar")
_ATTRIBUTE = re.compile(r"([A-Za-z_]\w*)#(\d+)L?")
_ALIAS = re.compile(r"(.*) AS (.+)#(\d+)L?", re.DOTALL)
_TOKEN = re.compile(r"\s+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|<=>|[<>=!]=?|[-+*/%(),]")
_WORD = re.compile(
    r"(?i)and|or|not|is|null|isnotnull|isnull|case|when|then|else|end|cast|as|bigint|int|smallint|tinyint|double|float"
    r"|date|timestamp|string|boolean|decimal|lower|upper|trim|abs|year|month|day|coalesce|true|false|in"
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LOCATION = re.compile(r"\[(\w+:/[^,\]]+)\]")
_FORMAT = re.compile(r"(?:Scan|BatchScan) (parquet|orc|json|csv|avro|delta)\b")
_MOST_READ = 20_000
"""Characters of an operator's text: a document may hold anything."""
_MOST_STEPS = 200


@dataclass(frozen=True)
class _Side:
    name: str
    source: str
    """What comes after FROM."""
    keys: Sequence[tuple[str, str]]
    """Expression and name."""
    filters: Sequence[str]
    unknown: Sequence[str]
    """Filters that cannot be written."""


class _NotSimple(Exception):
    """A side's rows come from more than one table, or a key's expression cannot be written."""


def key_code(stored: StoredPlan, node_id: int) -> str:
    """SQL with the most frequent keys of each side, or Python code that measures the query.

    Raises `JoinsightError` if the node is not a join or shuffle with keys.
    """
    view = View(stored)
    node = view.plan.nodes.get(node_id)
    number = stored.execution["execution_id"]
    if node is None:
        raise JoinsightError(f"Execution {number} has no node {node_id} in its final plan.")
    title = names.operator(view, node_id)
    sides = _sides(view, node)
    if not sides:
        raise JoinsightError(f"Node {node_id} ({title}) is not a join or shuffle with keys.")
    head = f"{title} of execution {number}, node {node_id}"
    try:
        return _sql(head, [_side(view, *each) for each in sides])
    except _NotSimple as error:
        return _python(head, node_id, str(error), is_of_server=stored.execution["operation_id"] is not None)


def _sides(view: View, node: Node) -> list[tuple[str, int, Sequence[str]]]:
    join = texts.join_text(node.name, node.simple)
    inputs = view.plan.inputs(node)
    if join is not None:
        if not join.left_keys or len(inputs) < 2:
            return []
        return [("left", inputs[0], join.left_keys), ("right", inputs[1], join.right_keys)]
    if operators.of(node.name).kind == "shuffle" and inputs and (keys := texts.shuffle_text(node.simple).keys):
        return [("input", inputs[0], [re.split(r" (?:ASC|DESC)\b", key)[0] for key in keys])]
    return []


def _side(view: View, name: str, node_id: int, keys: Sequence[str]) -> _Side:
    defined: dict[str, str] = {}
    filters: list[str] = []
    for _ in range(_MOST_STEPS):
        node = view.plan.nodes[node_id]
        kind = operators.of(node.name).kind
        if kind == "scan":
            columns = {i: column for column, i in _ATTRIBUTE.findall(node.simple[:_MOST_READ])}
            named = [(_written(_resolved(key, defined), columns), _key_name(key)) for key in keys]
            if any(expression is None for expression, _ in named):
                raise _NotSimple("a key is an expression with texts, which Spark writes without quotes")
            written = [(each, _written(_resolved(each, defined), columns)) for each in filters]
            return _Side(
                name,
                _source(node),
                [(expression or "", its) for expression, its in named],
                [sql for _, sql in written if sql],
                [without_ids(text) for text, sql in written if sql is None],
            )
        if kind == "filter":
            filters.append(node.simple.removeprefix(node.name).strip()[:_MOST_READ])
        elif kind == "project":
            for each in texts.split(node.simple.removeprefix(node.name).strip()[1:-1][:_MOST_READ]):
                if match := _ALIAS.fullmatch(each):
                    defined[match[3]] = match[1]
        elif kind not in _PASSED and not operators.of(node.name).is_wrapper:
            raise _NotSimple(f"the {name} side is made by {names.operator(view, node_id)}")
        inputs = view.plan.inputs(node)
        if len(inputs) != 1:
            break
        node_id = inputs[0]
    raise _NotSimple(f"the {name} side does not come from one table")


def _resolved(text: str, defined: Mapping[str, str]) -> str:
    """With the expressions of projections in place of the names that they define."""
    for _ in range(_MOST_STEPS):
        after = _ATTRIBUTE.sub(lambda match: f"({defined[match[2]]})" if match[2] in defined else match[0], text)
        if after == text or len(after) > _MOST_READ:
            break
        text = after
    return text


def _written(text: str, columns: Mapping[str, str]) -> str | None:
    """SQL of an expression; None if a part of it may be a text literal, or something unknown."""
    plain = _ATTRIBUTE.sub(lambda match: f"`{columns[match[2]]}`" if match[2] in columns else match[0], text)
    rest = re.sub(r"`\w+`", "1", plain)
    words = list(_TOKEN.findall(rest))
    if "".join(words) != rest or any(word[0].isalpha() and not _WORD.fullmatch(word) for word in words):
        return None
    while plain.startswith("(") and plain.endswith(")") and _is_balanced(plain[1:-1]):
        plain = plain[1:-1]
    return plain


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def _key_name(key: str) -> str:
    found = _ATTRIBUTE.findall(key)
    return found[0][0] if len(found) == 1 else re.sub(r"\W+", "_", without_ids(key)).strip("_")


def _source(node: Node) -> str:
    location = _LOCATION.search(node.metadata.get("Location", "")) or _LOCATION.search(node.simple[:_MOST_READ])
    format_name = _FORMAT.match(node.name)
    table = source_name(node)
    is_named = len(node.name.split()) > (1 if node.name.startswith("BatchScan") else 2)
    if is_named and _NAME.fullmatch(table) and "ExistingRDD" not in node.name:
        return table
    if not is_named and format_name and location:
        path = location[1].removeprefix("file:").replace("`", "``")
        return f"{format_name[1]}.`{path}`"
    raise _NotSimple("the name of a table or its files is not known")


def _sql(head: str, sides: Sequence[_Side]) -> str:
    parts = [_counts(head, side) + "\nORDER BY rows DESC LIMIT 10;" for side in sides]
    if len(sides) == 2:
        left, right = sides
        on = " AND ".join(
            f"l.`{one}` = r.`{other}`" for (_, one), (_, other) in zip(left.keys, right.keys, strict=False)
        )
        parts.append(
            f"-- {head}: how many rows of its output each key makes\n"
            f"SELECT l.*, r.rows AS right_rows, l.rows * r.rows AS output_rows\nFROM ({_select(left)}) l\n"
            f"JOIN ({_select(right)}) r ON {on}\nORDER BY output_rows DESC LIMIT 10;"
        )
    return "\n\n".join(parts)


def _counts(head: str, side: _Side) -> str:
    where = "" if side.name == "input" else f", {side.name} side"
    unknown = (f"-- add this filter, with quotes: {' '.join(each.split())}" for each in side.unknown)
    return "\n".join([f"-- {head}{where}", *unknown, _select(side, share=True)])


def _select(side: _Side, share: bool = False) -> str:
    keys = ", ".join(sql if sql == f"`{name}`" else f"{sql} AS `{name}`" for sql, name in side.keys)
    numbers = ", ".join(str(i + 1) for i in range(len(side.keys)))
    of = ", count(*) / sum(count(*)) OVER () AS share" if share else ""
    where = f" WHERE {' AND '.join(side.filters)}" if side.filters else ""
    return f"SELECT {keys}, count(*) AS rows{of} FROM {side.source}{where} GROUP BY {numbers}"


def _python(head: str, node_id: int, why: str, *, is_of_server: bool) -> str:
    where = (
        "A server ran it for a client, which has no driver: ask in a session of your own where the server runs"
        if is_of_server
        else "So ask in the session that runs the query"
    )
    return (
        f"# {head}: {why}.\n# {where}; only the key columns are read again.\n"
        "import joinsight\n\n"
        "with joinsight.measure(spark) as measured:\n    ...  # run the query here\n"
        f"print(measured.keys({node_id}))  # or measured.keys(), if the plan has changed since"
    )
