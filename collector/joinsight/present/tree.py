"""A plan for display: its operators with their texts, costs and findings, and their edges.

The terminal draws it as a tree (`terminal.tree`), pages draw it as boxes (`pages.drawing`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import bytes_text, duration_text
from joinsight.findings.causes import SKEWED_SHUFFLE
from joinsight.plan import operators
from joinsight.plan.operators import FILES_SIZE, ROWS_READ, Operator
from joinsight.plan.texts import without_ids
from joinsight.present.values import ratio_text
from joinsight.tables import Row
from joinsight.timing.cost import Bill

# Details that are not about the query: ids, the usual origin of a shuffle, the default catalog
_NOISE = re.compile(r",? ?\[plan_id=\d+\]|,? ?\[id=#\d+\]|, ENSURE_REQUIREMENTS\b|\bspark_catalog\.")
HOT = 0.2
"""The share of the time from which on a node is marked as expensive."""
_LEAST_SHARE = 0.0005


@dataclass(frozen=True, slots=True)
class Cluster:
    """A whole-stage-codegen stage; `number` is ``(2)``, or empty if its name has none."""

    number: str
    time: str


@dataclass(slots=True)
class TreeNode:
    """An operator and its cost; None, or an empty text, where it was not measured."""

    row: Row
    """From `plan_version.nodes`: id, name, simple, metrics as (accumulator, name, type)."""
    cluster: Cluster | None = None
    rows: int | None = None
    bytes: int | None = None
    bytes_are: str = ""
    """``of files`` where `bytes` is not the size of the output: tasks may read less or more than that."""
    time_ms: int | None = None
    """The sum over tasks; for a broadcast, the time on the driver."""
    time_share: float = 0.0
    """The share of the time of all nodes."""
    wall_ms: int = 0
    """How long the execution waited for it, as far as that is known: docs/cost.md."""
    wall_share: float = 0.0
    """The share of the execution's time."""
    is_sampled: bool = False
    """Whether `wall_share` is known of all operators that have code of their own."""
    read: Row | None = None
    """The metric of rows read per task, for a shuffle whose `skew_ratio` is known."""
    findings: list[Row] = field(default_factory=list)
    """The worst first."""

    @property
    def id(self) -> int:
        """Spark's node id in this plan version."""
        return int(self.row["id"])

    @property
    def name(self) -> str:
        """Spark's name."""
        return str(self.row["name"])

    @property
    def kind(self) -> str:
        """``broadcast``, ``shuffle``, ``join``, or empty for all other operators."""
        kind = operators.of(self.name).kind
        return kind if kind in ("broadcast", "shuffle", "join") else ""

    @property
    def text(self) -> str:
        """The operator with its arguments, on one line, shortened by `clean`."""
        return clean(self.row["simple"]) or self.name or "(no plan)"

    @property
    def size(self) -> str:
        """``1.5 MiB``."""
        return "" if self.bytes is None else bytes_text(self.bytes)

    @property
    def time(self) -> str:
        """``13 ms``."""
        return "" if self.time_ms is None else duration_text(self.time_ms)

    @property
    def wall(self) -> str:
        """Its share of the execution's time in percent: ``30.7``."""
        return f"{self.wall_share:.1%}".removesuffix("%") if self.wall_share >= _LEAST_SHARE else ""

    @property
    def is_hot(self) -> bool:
        """Whether it took much of the time."""
        return self.share >= HOT

    @property
    def share(self) -> float:
        """What is known best: its share of the wall time, or of the times that Spark measures."""
        return self.wall_share if self.is_sampled else self.time_share

    @property
    def skew(self) -> str:
        """Rows of the largest task divided by the median: ``6.3×``."""
        return "" if self.read is None else ratio_text(self.read["max"] / self.read["median"])

    @property
    def is_skewed(self) -> bool:
        """Whether its skew is a finding."""
        return self.id in skewed_nodes(self.findings)

    @property
    def severity(self) -> str:
        """The severity of its worst finding; empty if there is none."""
        return str(self.findings[0]["severity"]) if self.findings else ""


@dataclass(frozen=True, slots=True)
class PlanTree:
    """A plan version, without whole-stage-codegen clusters, which are at their nodes."""

    nodes: Mapping[int, TreeNode]
    inputs: Mapping[int, Sequence[int]]
    """The inputs of each node, the left one first; a reused exchange is an input of several nodes."""
    roots: Sequence[int]
    measured: Mapping[int, Row]
    """The execution's metrics by accumulator."""

    def metrics(self, node: Row) -> list[tuple[str, Row]]:
        """The measured metrics of a node, with Spark's names."""
        rows = ((name, self.measured.get(accumulator)) for accumulator, name, _ in node["metrics"])
        return [(name, row) for name, row in rows if row is not None]


def plan_tree(plan: StoredPlan, version: Row) -> PlanTree:
    """A plan version for display; only the final one has findings, as they refer to its nodes."""
    inputs: dict[int, list[int]] = defaultdict(list)
    for child, parent in version["edges"]:
        inputs[parent].append(child)
    fed = {child for child, _ in version["edges"]}
    operators_only = {node["id"]: TreeNode(node) for node in version["nodes"] if not node["is_cluster"]}
    roots = [i for i in operators_only if i not in fed]
    tree = PlanTree(operators_only, inputs, roots, {row["accumulator_id"]: row for row in plan.metrics})
    skew_known, not_run = _skew_known(plan), plan.not_run(version)
    idle = {node["cluster"] for node in version["nodes"] if node["id"] in not_run}
    clusters = {
        node["id"]: _cluster(tree, node, did_run=node["id"] not in idle)
        for node in version["nodes"]
        if node["is_cluster"]
    }
    for node in tree.nodes.values():
        node.cluster = clusters.get(node.row["cluster"])
        if node.id in not_run:
            continue
        operator = operators.of(node.name)
        _measure(node, operator, operator.by_sparks_names(tree.metrics(node.row)))
        read = (row for _, row in tree.metrics(node.row) if row["accumulator_id"] in skew_known)
        node.read = next((_read(row, skew_known[row["accumulator_id"]]) for row in read), None)
    total = sum(node.time_ms or 0 for node in tree.nodes.values())
    for node in tree.nodes.values():
        node.time_share = (node.time_ms or 0) / total if total else 0.0
    if version["is_final"]:
        _charge(tree, plan.bill)
    for finding in plan.findings if version["is_final"] else ():
        if finding["node_id"] in tree.nodes:
            tree.nodes[finding["node_id"]].findings.append(finding)
    return tree


def _charge(tree: PlanTree, bill: Bill) -> None:
    whole = bill.wall_ms
    if not whole:
        return
    is_sampled = any(item.task_time_error_ms is not None for item in bill.items)
    for node in tree.nodes.values():
        node.is_sampled = is_sampled
    for node_id, item in bill.operators().items():
        if node_id in tree.nodes:
            tree.nodes[node_id].wall_ms = item.wall_ms
            tree.nodes[node_id].wall_share = item.wall_ms / whole


def _cluster(tree: PlanTree, node: Row, *, did_run: bool) -> Cluster:
    number = re.search(r"\(\d+\)", node["name"])
    spent = next((row["total"] for name, row in tree.metrics(node) if did_run and name == "duration"), None)
    return Cluster(number[0] if number else "", "" if spent is None else duration_text(spent))


def _measure(node: TreeNode, operator: Operator, by_name: Mapping[str, Row]) -> None:
    never_set = operator.never_set(node.row["simple"] or "", {name: row["total"] for name, row in by_name.items()})
    by_name = {name: row for name, row in by_name.items() if name not in never_set}
    node.rows = next((by_name[name]["total"] for name in operator.rows if name in by_name), None)
    size = next((name for name in operator.bytes if name in by_name), None)
    if size is not None:
        node.bytes, node.bytes_are = by_name[size]["total"], "of files" if size == FILES_SIZE else ""
    times = [row for name, row in by_name.items() if name in operator.time and row["total"] is not None]
    if times:
        node.time_ms = sum(row["total"] // 1_000_000 if row["type"] == "nsTiming" else row["total"] for row in times)


def _read(metric: Row, median: int) -> Row:
    """The rows that its tasks read: the metric has tasks of other branches of a UNION, too, as zeros."""
    return {**metric, "median": median, "p95": max(median, metric["p95"])}


def _skew_known(plan: StoredPlan) -> dict[int, int]:
    """The median of the rows that tasks read, by the accumulator of a shuffle whose skew is known; plans share them."""
    known = {row["node_id"]: row["rows_read_median"] for row in plan.shuffles if row["skew_ratio"] is not None}
    final = plan.version(None)
    return {
        accumulator: known[node["id"]]
        for node in (final["nodes"] if final and known else ())
        if node["id"] in known
        for accumulator, name, _ in node["metrics"]
        if operators.of(node["name"]).metric(name) == ROWS_READ
    }


def skewed_nodes(findings: Iterable[Row]) -> set[int]:
    """The nodes whose skew is a finding, and so is highlighted: by the thresholds of the collector that computed it."""
    return {row["node_id"] for row in findings if row["finding"] == SKEWED_SHUFFLE}


def clean(text: str) -> str:
    """Spark's text of an operator without details that are not about the query, on one line."""
    return " ".join(_NOISE.sub("", without_ids(text)).split())
