"""Changes a logical plan of the JVM as a hint or a rewritten join would, without the user's code.

Plans are immutable: a changed one has new nodes from the changed operator up to the root, and the same ones below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from joinsight.measuring import logical

SALTS = 8
"""Parts into which a salted join divides each key."""
_LEFT_SPLIT = ("Inner", "LeftOuter", "LeftSemi", "LeftAnti")
_RIGHT_SPLIT = ("Inner", "RightOuter")


class Plans:
    """Makes changed plans in one JVM."""

    def __init__(self, context: Any) -> None:
        self._jvm = context._jvm
        self._logical = self._jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        self._kept: list[Any] = []

    def hinted(self, root: Any, keys: tuple[Iterable[str], Iterable[str]], side: str, strategy: str) -> Any | None:
        """The plan with a hint such as BROADCAST on a side of the join with these keys; None: there is no such join."""
        found = _join_with_path(root, keys)
        if found is None:
            return None
        join, path = found
        some = self._jvm.scala.Option.apply
        hint = some(self._logical.HintInfo(some(self._object(strategy))))
        none = self._jvm.scala.Option.empty()
        hints = (hint, none) if side == "left" else (none, hint)
        changed = join.copy(
            join.left(), join.right(), join.joinType(), join.condition(), self._logical.JoinHint(*hints)
        )
        return self._replaced(root, path, changed)

    def salted(self, root: Any, keys: tuple[Iterable[str], Iterable[str]], side: str, session: Any) -> Any | None:
        """The plan in which a hash of the whole row divides each key of a side into parts, and the other side has
        every row once for each part. None if there is no such join, or its type needs the other side's rows once."""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as f

        found = _join_with_path(root, keys)
        if found is None:
            return None
        join, path = found
        if join.joinType().toString() not in (_LEFT_SPLIT if side == "left" else _RIGHT_SPLIT):
            return None
        inputs = {"left": join.left(), "right": join.right()}
        salts = {}
        for name, plan in inputs.items():
            frame = DataFrame(logical.dataset(session, plan), session)
            if name == side:
                columns = [f.col(each) for each in _unambiguous(frame)]
                salt = f.pmod(f.xxhash64(*columns), f.lit(SALTS)).cast("int")
            else:
                salt = f.explode(f.sequence(f.lit(0), f.lit(SALTS - 1)))
            inputs[name] = frame.select("*", salt.alias("joinsight_salt"))._jdf.queryExecution().analyzed()
            salts[name] = logical.elements(inputs[name].output())[-1]
        same = self._expressions.EqualTo(salts["left"], salts["right"])
        condition = self._jvm.scala.Option.apply(self._expressions.And(join.condition().get(), same))
        changed = join.copy(inputs["left"], inputs["right"], join.joinType(), condition, join.hint())
        return self._replaced(root, path, self._logical.Project(join.output().toList(), changed))

    def without_repartition(self, root: Any, keys: Iterable[str]) -> Any | None:
        """The plan without the repartition by these keys, none: round-robin; None unless it has exactly one."""
        keys = tuple(keys)
        return self._without(root, lambda node: logical.is_repartition(node, keys))

    def without_coalesce(self, root: Any, number: int) -> Any | None:
        """The plan without `coalesce(number)`; None unless it has exactly one."""
        return self._without(root, lambda node: logical.is_coalesce(node, number))

    def _without(self, root: Any, is_it: Callable[[Any], bool]) -> Any | None:
        """The plan with the input of an operator in its place; None unless it has exactly one such operator."""
        found = [each for each in _with_paths(root) if is_it(each[0])]
        return self._replaced(root, found[0][1], found[0][0].child()) if len(found) == 1 else None

    def cached(self, plan: Any, session: Any) -> Any | None:
        """The plan with what it makes more than once made once, and kept on disk until `release`; None: nothing is.

        Spark's own caches know nothing of it, so no other query reads it, and no cached rows lose their memory to it.
        """
        root, again = repeated(plan, session)
        if not again:
            return None
        package = "org.apache.spark.sql.execution.columnar.InMemoryRelation$"
        relation = getattr(logical.java_class(self._jvm, package), "MODULE$").apply(
            self._jvm.org.apache.spark.storage.StorageLevel.DISK_ONLY(),
            logical.dataset(session, again[0][0]).queryExecution(),
            self._jvm.scala.Option.empty(),
        )
        self._kept.append(relation.cacheBuilder())
        for node, path in again:
            root = self._replaced(root, path, relation.withOutput(node.output()))
        return root

    def release(self) -> None:
        """Delete the rows that `cached` keeps."""
        for each in self._kept:
            each.clearCache(True)

    def _replaced(self, root: Any, path: Sequence[int], new: Any) -> Any:
        nodes = [root]
        for index in path:
            nodes.append(nodes[-1].children().apply(index))
        for node, index in zip(reversed(nodes[:-1]), reversed(path), strict=True):
            children = logical.elements(node.children())
            children[index] = new
            new = node.withNewChildren(logical.scala_list(self._jvm, children))
        return new

    def _object(self, name: str) -> Any:
        return getattr(getattr(self._logical, f"{name}$"), "MODULE$")


def repeated(plan: Any, session: Any) -> tuple[Any, Sequence[tuple[Any, tuple[int, ...]]]]:
    """A plan that reads what the session has cached, and the largest operators in it that are equal, with their paths.

    None are if each makes other rows. The nodes of a plan come before those below, so the first ones are the largest.
    """
    root = logical.dataset(session, plan).queryExecution().withCachedData()
    groups: dict[int, list[tuple[Any, tuple[int, ...]]]] = defaultdict(list)
    for node, path in _with_paths(root):
        if logical.class_name(node) in logical.COSTLY:
            groups[node.semanticHash()].append((node, path))
    for first, *others in groups.values():
        same = [each for each in others if first[0].sameResult(each[0])]
        if same:
            return root, [first, *same]
    return root, []


def _join_with_path(root: Any, keys: tuple[Iterable[str], Iterable[str]]) -> tuple[Any, Sequence[int]] | None:
    for node, path in _with_paths(root):
        if logical.is_join(node, *keys):
            return node, path
    return None


def _with_paths(root: Any) -> Iterator[tuple[Any, tuple[int, ...]]]:
    todo: list[tuple[Any, tuple[int, ...]]] = [(root, ())]
    while todo:
        node, path = todo.pop()
        yield node, path
        children = logical.elements(node.children())
        todo += [(child, (*path, index)) for index, child in reversed(list(enumerate(children)))]


def _unambiguous(frame: Any) -> list[str]:
    """Columns that can be hashed, and whose name only one has."""
    names = [each for each, kind in frame.dtypes if "map<" not in kind and frame.columns.count(each) == 1]
    return [f"`{each.replace('`', '``')}`" for each in names]
