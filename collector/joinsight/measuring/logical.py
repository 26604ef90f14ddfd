"""Finds a join or shuffle of an execution's plan in its optimized logical plan, with the rows and keys of each side.

The logical plan is an object of the JVM, read through Py4J. Operators of the physical plan are known by their texts, of
which the ids of attributes are the same in both plans: ``[customer_id#7L]`` is found as the join whose left keys refer
to attribute 7. Nothing is compared by name, and literals, which may be redacted, do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from joinsight.plan import operators
from joinsight.plan.texts import without_ids

_ID = re.compile(r"#(\d+)")
_EQUAL, _NULL_SAFE = "EqualTo", "EqualNullSafe"
_KEYS = {
    "Aggregate": "groupingExpressions",
    "Window": "partitionSpec",
    "WindowInPandas": "partitionSpec",
    "ArrowWindowPython": "partitionSpec",
    "RepartitionByExpression": "partitionExpressions",
    "RebalancePartitions": "partitionExpressions",
    "FlatMapGroupsInPandas": "groupingAttributes",
    "FlatMapGroupsInArrow": "groupingAttributes",
    operators.SORT: "order",
}
"""Operators with one input that need its rows by key, and the method that returns the keys."""
COSTLY = ("Join", "Aggregate", "Window", "Distinct", "Deduplicate")
"""Operators whose rows may be worth a cache."""
_NORMALIZED = ("CollationKey", "MapSort", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "SortOrder")
"""What Spark puts around keys so that equal values have equal bytes, which grouping does itself, or to sort by them."""
_COMPUTED = "_grouping"
"""The start of the names that Spark gives to expressions to group by."""
_ALL_FIELDS = 1_000_000
_PYTHON = ("Python", "Pandas", "Arrow")
_PYTHON_BY_ROW = ("BatchEvalPython", "ArrowEvalPython")
_BY_ROW = (operators.PROJECT, operators.FILTER, *_PYTHON_BY_ROW)
"""Operators that take each row by itself."""
_IN_PLACE = (*_BY_ROW, operators.UNION, "Generate")
"""Operators with inputs that need no shuffle of them."""


def is_deterministic(plan: Any) -> bool:
    """Whether running it again gives the same rows, as far as its expressions tell."""
    return bool(plan.deterministic()) and not any(class_name(node) == "Sample" for node in nodes(plan))


@dataclass(frozen=True)
class Side:
    """The rows that reach an operator, and the key of each."""

    name: str
    """left, right, or input."""
    plan: Any
    keys: Sequence[Any]
    """Catalyst expressions over the plan's columns."""
    root: Any
    """The query's whole plan."""

    @cached_property
    def names(self) -> Sequence[str]:
        """A name for each key: that of its column, or what the query calls its expression, or the expression."""
        found: list[str] = []
        for key in self.keys:
            name = _name(key, self.root)
            found.append(name if name not in found else f"{name} ({len(found) + 1})")
        return found

    @property
    def python(self) -> bool:
        """Whether Python functions make its rows."""
        return any(any(word in name for word in _PYTHON) for name, _ in self._nodes)

    @property
    def shuffles(self) -> bool:
        """Whether making its rows may shuffle, or broadcast, others."""
        return any(has_input and name not in _IN_PLACE for name, has_input in self._nodes)

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether reading its rows again gives the same ones."""
        return is_deterministic(self.plan)

    @cached_property
    def _nodes(self) -> Sequence[tuple[str, bool]]:
        """The class of each node of its plan, and whether that has an input."""
        return [(class_name(node), bool(node.children().nonEmpty())) for node in nodes(self.plan)]


@dataclass(frozen=True)
class Found:
    """An operator of the logical plan with its inputs."""

    sides: Sequence[Side]
    null_safe: Sequence[bool] = ()
    """Whether NULLs are equal, for each key of a join."""
    has_condition: bool = False
    """A join that compares more than keys."""


def elements(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


def dataset(session: Any, plan: Any) -> Any:
    """The JVM's Dataset of a plan in a Python session."""
    name = "org.apache.spark.sql.Dataset" if session.version < "4" else "org.apache.spark.sql.classic.Dataset"
    return java_class(session._jvm, name).ofRows(session._jsparkSession, plan)


def sampled(session: Any, plan: Any, part: float, seed: int) -> Any:
    """A plan with a random part of its rows, chosen below its Python functions: they make no others."""
    from pyspark.sql import DataFrame

    above: list[Any] = []
    is_above = 0
    rows = plan
    while class_name(rows) in _BY_ROW:
        above.append(rows)
        if class_name(rows) in _PYTHON_BY_ROW:
            is_above = len(above)
        rows = rows.child()
    above = above[:is_above]
    rows = above[-1].child() if above else plan
    rows.setAnalyzed()
    changed = (
        DataFrame(dataset(session, rows), session).sample(fraction=part, seed=seed)._jdf.queryExecution().analyzed()
    )
    for node in reversed(above):
        changed = node.withNewChildren(scala_list(session._jvm, [changed]))
    changed.setAnalyzed()
    return changed


def scala_list(jvm: Any, each: Iterable[Any]) -> Any:
    """A Scala list of these."""
    java = jvm.java.util.ArrayList()
    for one in each:
        java.add(one)
    return jvm.PythonUtils.toSeq(java).toList()


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM by its full name, without a call for each of its packages."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, jvm._gateway_client)


def class_name(node: Any) -> str:
    """The name of a node's class, without its package."""
    return str(node.nodeName())


def nodes(root: Any) -> Iterator[Any]:
    """All nodes of a plan, without those of subqueries."""
    todo = [root]  # plans can be thousands of levels deep: no recursion
    while todo:
        node = todo.pop()
        yield node
        todo += reversed(elements(node.children()))


def find_join(root: Any, left: Iterable[str], right: Iterable[str]) -> Found | None:
    """The join with these keys, as the physical plan writes them; None if there is none."""
    left, right = tuple(left), tuple(right)
    return next((join_of(node, root) for node in _all_nodes(root) if is_join(node, left, right)), None)


def is_join(node: Any, left: Iterable[str], right: Iterable[str]) -> bool:
    """Whether a node is the join with these keys."""
    if class_name(node) != "Join":
        return False
    found = join_of(node, node)
    if found is None:
        return False
    ids = [_ids(key.toString() for key in side.keys) for side in found.sides]
    return [_ids(left), _ids(right)] == ids


def is_repartition(node: Any, keys: Iterable[str]) -> bool:
    """Whether a node is the repartition by these keys that a query asked for; without keys: round-robin."""
    if class_name(node) == "Repartition":
        return not tuple(keys) and bool(node.shuffle())
    if class_name(node) != "RepartitionByExpression":
        return False
    return _ids(keys) == _ids(key.toString() for key in _keys(node))


def is_coalesce(node: Any, number: int) -> bool:
    """Whether a node is the `coalesce(number)` that a query asked for."""
    return class_name(node) == "Repartition" and not node.shuffle() and node.numPartitions() == number


def find_input(root: Any, keys: Iterable[str], consumer: str) -> Found | None:
    """The operator that needs its input by these keys; `consumer` is the name of the physical one."""
    wanted = _ids(keys)
    matches = [
        (_agree(class_name(node), consumer), node, its)
        for node in _all_nodes(root)
        if class_name(node) in _KEYS and (its := [key for key in _keys(node) if _ids([key.toString()]) <= wanted])
        if _ids(key.toString() for key in its) == wanted
    ]
    if not matches:  # Spark makes a key of the columns of a DISTINCT aggregate, too
        matches = [
            (True, node, [each for each in elements(node.child().output()) if _ids([each.toString()]) & wanted])
            for node in _all_nodes(root)
            if class_name(node) == "Aggregate" and wanted <= _ids(map(str, _texts(node.child().output())))
        ]
    if not matches or not wanted:
        return None
    _, node, its = max(matches, key=lambda match: match[0])
    child = node.child()
    while class_name(child) == operators.WINDOW_GROUP_LIMIT:  # the first half of its work, as of an aggregation
        child = child.child()
    return Found([Side("input", child, [_bare(key) for key in its], root)])


def _texts(sequence: Any) -> list[str]:
    return [each.toString() for each in elements(sequence)]


def _agree(logical: str, physical: str) -> bool:
    return (logical in physical) or (logical in ("RepartitionByExpression", "RebalancePartitions") and not physical)


def _keys(node: Any) -> list[Any]:
    return elements(getattr(node, _KEYS[class_name(node)])())


def join_of(node: Any, root: Any) -> Found | None:
    """The sides of a join of a plan; None if it compares no keys."""
    condition = node.condition()
    if condition.isEmpty():
        return None
    left, right = node.left(), node.right()
    pairs: list[tuple[Any, Any]] = []
    null_safe: list[bool] = []
    rest = False
    for each in _conjuncts(condition.get()):
        pair = None
        if _is_null_aware(each):
            each, rest = each.left(), True
        if class_name(each) in (_EQUAL, _NULL_SAFE):
            one, other = each.left(), each.right()
            if _reads(one, left) and _reads(other, right):
                pair = one, other
            elif _reads(one, right) and _reads(other, left):
                pair = other, one
        if pair is None:
            rest = True
        else:
            pairs.append((_bare(pair[0]), _bare(pair[1])))
            null_safe.append(class_name(each) == _NULL_SAFE)
    if not pairs:
        return None
    lefts, rights = zip(*pairs, strict=True)
    return Found([Side("left", left, lefts, root), Side("right", right, rights, root)], null_safe, rest)


def _is_null_aware(expression: Any) -> bool:
    """Whether it is that of NOT IN: equal, or not known whether."""
    if class_name(expression) != "Or" or class_name(expression.right()) != "IsNull":
        return False
    return bool(expression.left().semanticEquals(expression.right().child()))


def _reads(expression: Any, plan: Any) -> bool:
    references = expression.references()
    return bool(references.nonEmpty() and references.subsetOf(plan.outputSet()))


def _conjuncts(expression: Any) -> Iterator[Any]:
    todo = [expression]
    while todo:
        each = todo.pop()
        if class_name(each) == "And":
            todo += [each.right(), each.left()]
        else:
            yield each


def _bare(expression: Any) -> Any:
    while class_name(expression) in _NORMALIZED:
        expression = expression.child() if hasattr(expression, "child") else expression.expr()
    return expression


def _name(expression: Any, root: Any) -> str:
    bare = _bare(expression)
    while (kind := class_name(bare)) == "Cast":
        bare = _bare(bare.child())
    if kind == "AttributeReference" and not str(bare.name()).startswith(_COMPUTED):
        return str(bare.name())
    text = str(bare.toString())
    if "mapsort(" in text and bare.references().size() == 1:
        return str(bare.references().head().name())
    same = "|".join(re.escape(each) for each in (text, str(_bare(expression).toString())))
    named = re.compile(rf"(?:\[|, )(?:{same}) AS ([^_].*?)#\d")
    computed = None
    for node in _all_nodes(root):  # Spark may compute a key below the projection that named it
        line = str(node.simpleString(_ALL_FIELDS))  # a call for a node, not for each of its columns
        if found := named.search(line):
            return found[1]
        if kind == "AttributeReference" and f" AS {text}" in line:
            computed = node
    if computed is None:
        return without_ids(text)
    columns = computed.expressions()
    aliases = (each for each in map(columns.apply, range(columns.size())) if class_name(each) == "Alias")
    return next((_name(each.child(), root) for each in aliases if each.exprId().equals(bare.exprId())), text)


def _ids(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(found for text in texts for found in _ID.findall(text))


def _all_nodes(root: Any) -> Iterator[Any]:
    yield from nodes(root)
    for each in elements(root.subqueriesAll()):
        yield from nodes(each)
