"""Golden plans: the simplified plans of measured queries as a text, and what a difference from such a text means.

::

    # orders ⋈ customers → by segment → sum(amount)
    set spark.sql.autoBroadcastJoinThreshold=-1
    Aggregate keys=[segment] functions=[sum(amount)]
    ...

A section for each execution with a plan: its title, which is for people only, the settings that decide about plans,
where they are set, and the plan's lines (`gate.simplified`).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joinsight.base.errors import JoinsightError
from joinsight.gate.explained import explained
from joinsight.gate.simplified import PlanLine, from_lines, simplified, to_lines
from joinsight.plan.decisions import JOIN_STRATEGY
from joinsight.plan.graph import Graph, Node
from joinsight.plan.operators import BROADCAST_HASH_JOIN
from joinsight.plan.spark_texts import spark_graph
from joinsight.tables import AqeDecisionRow, JoinRow, PlanEdgeRow, PlanNodeRow

SETTINGS = (
    "spark.sql.adaptive.autoBroadcastJoinThreshold",
    "spark.sql.adaptive.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.cbo.enabled",
    "spark.sql.cbo.joinReorder.enabled",
    "spark.sql.join.preferSortMergeJoin",
    "spark.sql.sources.bucketing.enabled",
)
"""The settings in a golden plan."""


@dataclass(frozen=True)
class Section:
    """One execution."""

    title: str
    settings: Mapping[str, str]
    lines: Sequence[str]

    @property
    def compared(self) -> list[str]:
        """All but the title."""
        return [*(f"set {key}={value}" for key, value in sorted(self.settings.items())), *self.lines]


def plan_of(
    nodes: Iterable[PlanNodeRow],
    edges: Iterable[PlanEdgeRow],
    joins: Iterable[JoinRow],
    decisions: Iterable[AqeDecisionRow],
) -> Sequence[PlanLine]:
    """The simplified final plan of an execution, from its rows."""
    drawn = tuple(Node(n.node_id, n.name, n.simple, metadata=n.metadata or {}, is_cluster=n.is_cluster) for n in nodes)
    graph = spark_graph(Graph(drawn, tuple((edge.child_id, edge.parent_id) for edge in edges)))
    joins = list(joins)
    changed = {each.operator_key for each in decisions if each.kind == JOIN_STRATEGY}
    by_aqe = {join.node_id for join in joins if join.strategy == BROADCAST_HASH_JOIN and join.operator_key in changed}
    return simplified(graph, {join.node_id: join.hint for join in joins if join.hint}, by_aqe)


def section(title: str, configuration: Mapping[str, str] | None, plan: Sequence[PlanLine]) -> Section:
    """The section of an execution with these settings."""
    settings = configuration or {}
    return Section(title, {key: settings[key] for key in SETTINGS if key in settings}, to_lines(plan))


def to_text(found: Sequence[Section]) -> str:
    """The content of a golden file."""
    return "\n".join("\n".join([f"# {each.title}", *each.compared, ""]) for each in found)


def from_text(text: str) -> list[Section]:
    """Read a golden file. Raises `JoinsightError` with the line that is not one of `to_text`."""
    found = []
    for part in text.replace("\r\n", "\n").strip("\n").split("\n\n"):
        lines = part.split("\n") if part else []
        title = lines.pop(0).removeprefix("# ") if part.startswith("#") else ""
        settings = {}
        while lines and lines[0].startswith("set "):
            key, _, value = lines.pop(0)[4:].partition("=")
            settings[key] = value
        try:
            from_lines(lines)
        except ValueError as error:
            raise JoinsightError(f"{str(error)!r} is not a line that can stand here") from None
        if lines:
            found.append(Section(title, settings, lines))
    return found


def difference(before: Sequence[Section], after: Sequence[Section]) -> str:
    """What the difference means, in sentences, then line by line; empty if plans and settings are equal."""
    if [each.compared for each in before] == [each.compared for each in after]:
        return ""
    texts = []
    if len(before) != len(after):
        texts.append(f"It ran {_queries(len(before))}, and now runs {_queries(len(after))}.")
    for old, new in zip(before, after, strict=False):
        if old.compared != new.compared:
            about = [] if len(before) == len(after) == 1 else [f"# {new.title}"]
            texts.append("\n".join([*about, *meanings(old, new), "", *changed_lines(old.compared, new.compared)]))
    for each in before[len(after) :]:
        texts.append("\n".join([f"# {each.title}", *(f"- {line}" for line in each.compared)]))
    for each in after[len(before) :]:
        texts.append("\n".join([f"# {each.title}", *(f"+ {line}" for line in each.compared)]))
    return "\n\n".join(texts)


def meanings(old: Section, new: Section) -> list[str]:
    """What changed, in sentences, causes first; empty if plan and settings are equal."""
    if old.compared == new.compared:
        return []
    keys = sorted(old.settings.keys() | new.settings.keys())
    settings = {key: (old.settings.get(key), new.settings.get(key)) for key in keys}
    changed = {key: pair for key, pair in settings.items() if pair[0] != pair[1]}
    found = explained(from_lines(old.lines), from_lines(new.lines), changed)
    return found or ["The same operators are in another order."]


def changed_lines(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of both, marked with - and + where they differ, else indented."""
    lines = []
    # Whole lines only: `difflib.ndiff` compares each changed line with each other one by characters
    for _, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if old[old_from:old_to] == new[new_from:new_to]:
            lines += [f"  {line}" for line in old[old_from:old_to]]
            continue
        lines += [f"- {line}" for line in old[old_from:old_to]]
        lines += [f"+ {line}" for line in new[new_from:new_to]]
    return lines


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"
