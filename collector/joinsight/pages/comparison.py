"""The page that compares two executions, or two plans of one: both plans as one tree, operator next to operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from joinsight.analysis.comparison import ComparedExecution as ComparedRun
from joinsight.analysis.comparison import Comparison, Measure, MeasureChange, Part, compare
from joinsight.analysis.stored import StoredPlan, graph_of
from joinsight.contract.document import ENDED
from joinsight.pages.boxes import box_of
from joinsight.pages.environment import compare_address, render
from joinsight.plan import operators
from joinsight.plan.identity import Identity
from joinsight.present.comparison import difference, not_compared, started_text, value, verdicts
from joinsight.present.engines import engine_text
from joinsight.present.tree import PlanTree, TreeNode, plan_tree
from joinsight.tables import Row
from joinsight.why import Why, explain

LEAST_FOLDED = 3
"""Unchanged operators next to each other that are one line."""
MOST_LISTED = 20
"""Changed operators that are listed above the plans."""
MAX_DEPTH = 24
"""Deeper operators are indented as much as this."""
_MEASURES: Sequence[tuple[Measure, Callable[[TreeNode], int | None]]] = (
    (Measure("rows", "rows", "rows"), lambda node: node.rows),
    (Measure("bytes", "size", "bytes", True), lambda node: node.bytes),
    (Measure("time", "time", "ms", True), lambda node: node.time_ms),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: an execution and one of its plans."""

    letter: str
    stored: StoredPlan
    run: ComparedRun
    version: Row | None

    @property
    def is_final(self) -> bool:
        """Whether the plan is the last one."""
        return self.version is not None and bool(self.version["is_final"])


@dataclass(frozen=True, slots=True)
class TreeOperator:
    """An operator in a tree."""

    node: TreeNode
    depth: int
    token: Hashable
    """Equal for the same operator of both plans."""
    reuses: bool = False

    @property
    def figures(self) -> str:
        """Rows, bytes and time."""
        box = box_of(self.node)
        return " · ".join(filter(None, (box.figures, self.node.time)))

    @property
    def text(self) -> str:
        """What it does, shortened."""
        return "reused: shown above" if self.reuses else box_of(self.node).text


@dataclass(frozen=True, slots=True)
class Words:
    """A change in words."""

    title: str
    before: str
    after: str
    factor: str
    is_worse: bool | None


@dataclass(frozen=True, slots=True)
class Line:
    """An operator of both plans, or of one of them."""

    a: TreeOperator | None
    b: TreeOperator | None
    changes: Sequence[Words] = ()

    @property
    def kind(self) -> str:
        """``both``, ``changed``, ``removed`` or ``added``."""
        if self.a is None or self.b is None:
            return "added" if self.a is None else "removed"
        return "changed" if self.changes else "both"


@dataclass(frozen=True, slots=True)
class Plans:
    """Two plans next to each other."""

    a: Side
    b: Side
    lines: Sequence[Line]
    duration: Words | None = None
    """What the duration was, if these are of a part and differ much."""

    @property
    def rows(self) -> Sequence[Sequence[Line]]:
        """The lines, `folded`."""
        return folded(self.lines)

    @property
    def changed(self) -> Sequence[Line]:
        """The lines of what differs."""
        return [line for line in self.lines if line.kind != "both"]

    @property
    def counts(self) -> Counter[str]:
        """Lines by their kind."""
        return Counter(line.kind for line in self.lines)


@dataclass(frozen=True, slots=True)
class StartedPart:
    """An execution that both started, or one of them."""

    heading: str
    only: str
    """The letter of the one that started it; empty for both."""
    execution: Row
    """In B, if it is there."""
    plans: Plans | None
    """None if only one has it, or if it differs little."""


def compare_page(a: Side, b: Side) -> str:
    """The page as HTML."""
    comparison = compare(a.run, b.run)
    same_run = _key(a) == _key(b)
    totals = [*comparison.duration.changes, *comparison.pairs["stage"][0].changes]
    return render(
        "compare.html",
        a=a,
        b=b,
        same_run=same_run,
        why=_why(a.stored, b.stored) if not same_run else None,
        engines={side.letter: engine_text(side.stored) for side in (a, b)} if not same_run else {},
        verdicts=[] if same_run else list(verdicts(comparison)),
        settings=comparison.configuration,
        totals=[] if same_run else [(_words(change), change.is_large) for change in totals if _is_known(change)],
        plans=Plans(a, b, lines(a, b, comparison)),
        parts=[] if same_run else [_started(part, a, b) for part in comparison.parts],
        not_compared=list(not_compared(comparison)),
        most_listed=MOST_LISTED,
        max_depth=MAX_DEPTH,
        download_page=compare_address(
            a.stored.execution, b.stored.execution, a_version=_number(a), b_version=_number(b), download="html"
        ),
    )


def _started(part: Part, a: Side, b: Side) -> StartedPart:
    its = part.run.execution
    if part.comparison is None or not part.is_large:
        return StartedPart(started_text(its), part.only, its, None)
    sides = _part_of(a, part.comparison.a), _part_of(b, part.comparison.b)
    [duration] = part.comparison.duration.changes
    took = _words(duration) if duration.is_large else None
    return StartedPart(started_text(its), part.only, its, Plans(*sides, lines(*sides, part.comparison), took))


def _part_of(side: Side, run: ComparedRun) -> Side:
    number = run.execution["execution_id"]
    stored = next(each for each in side.stored.nested if each.execution["execution_id"] == number)
    return Side(side.letter, stored, run, stored.version(None))


def _number(side: Side) -> int | None:
    """The plan version in an address; None for the final one."""
    return None if side.version is None or side.is_final else side.version["version"]


def folded(lines: Sequence[Line]) -> list[Sequence[Line]]:
    """The lines; those of `LEAST_FOLDED` unchanged operators and more next to each other together, all others alone."""
    found: list[Sequence[Line]] = []
    for is_same, group in groupby(lines, lambda line: line.kind == "both"):
        its = list(group)
        found += [its] if is_same and len(its) >= LEAST_FOLDED else [[line] for line in its]
    return found


def _why(a: StoredPlan, b: StoredPlan) -> Why | None:
    """The causes of the difference; None before both have ended."""
    ended = (each.execution["state"] in ENDED and each.execution["duration_ms"] is not None for each in (a, b))
    return explain(a, b) if all(ended) else None


def _key(side: Side) -> tuple[Any, ...]:
    e = side.stored.execution
    return e["started_at"], e["application_id"], e["attempt_id"], e["execution_id"]


def _is_known(change: MeasureChange) -> bool:
    return bool(change.before or change.after)


def lines(a: Side, b: Side, comparison: Comparison) -> list[Line]:
    """Both plans from the root down, in one order: what only A has stands before what only B has in its place."""
    before, after = list(_operators(a)), list(_operators(b))
    pairs: dict[int, Sequence[MeasureChange]] = {}
    if a.is_final and b.is_final:
        for table in ("joins", "shuffle", "broadcast"):
            pairs |= {pair.b["node_id"]: pair.changes for pair in comparison.pairs[table] if pair.a and pair.b}
    matcher = SequenceMatcher(None, [each.token for each in before], [each.token for each in after], autojunk=False)
    found: list[Line] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            both = zip(before[i:i_end], after[j:j_end], strict=True)
            found += [Line(x, y, list(_changes(x, y, pairs.get(y.node.id)))) for x, y in both]
        else:
            found += [Line(each, None) for each in before[i:i_end]]
            found += [Line(None, each) for each in after[j:j_end]]
    return found


def _changes(a: TreeOperator, b: TreeOperator, measured: Sequence[MeasureChange] | None) -> Iterator[Words]:
    if a.reuses or b.reuses:
        return
    changes = list(measured or ())
    if a.node.name != b.node.name and not any(each.measure.name == "strategy" and each.is_large for each in changes):
        changes.append(MeasureChange(Measure("name", "operator", "text"), a.node.name, b.node.name))
    named = {each.measure.unit.replace("ns", "ms") for each in changes if each.is_large}
    changes += [
        MeasureChange(measure, read(a.node), read(b.node))
        for measure, read in _MEASURES
        if measure.unit not in named and not {read(a.node), read(b.node)} & {None}
    ]
    yield from (_words(change) for change in changes if change.is_large)


def _words(change: MeasureChange) -> Words:
    before, after = value(change, change.before), value(change, change.after)
    return Words(change.measure.title, before, after, difference(change), change.is_worse)


def _operators(side: Side) -> Iterator[TreeOperator]:
    """The operators of a plan, each before its inputs."""
    if side.version is None:
        return
    tree = plan_tree(side.stored, side.version)
    keys = Identity().operator_keys(graph_of(side.version))
    seen: set[int] = set()
    times: Counter[Hashable] = Counter()
    todo: list[tuple[int, int, Hashable]] = [(root, 0, "") for root in reversed(tree.roots)]
    while todo:
        node_id, depth, above = todo.pop()
        node, reuses = tree.nodes[node_id], node_id in seen
        base = keys.get(node_id) or (above, node.name, reuses)
        times[base] += 1
        yield TreeOperator(node, depth, (base, times[base]), reuses)
        if not reuses:
            seen.add(node_id)
            is_join = operators.of(node.name).kind == "join"
            todo += _inputs(tree, node_id, depth + 1, keys[node_id] if is_join and node_id in keys else above)


def _inputs(tree: PlanTree, node_id: int, depth: int, above: Hashable) -> list[tuple[int, int, Hashable]]:
    return [(child, depth, above) for child in reversed(tree.inputs.get(node_id, ())) if child in tree.nodes]
