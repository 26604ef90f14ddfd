"""A plan for display: its operators with their texts, costs and findings, and their edges.

The terminal draws it as a tree (`terminal.tree`), pages draw it as boxes (`pages.drawing`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import bytes_text, duration_text, percent_text, ratio_text
from joinsight.contract.document import Accumulator
from joinsight.findings.causes import SKEWED_SHUFFLE
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.operators import FILES_SIZE, ROWS_READ, WRITE_TIME, Operator
from joinsight.plan.outline import source_name
from joinsight.plan.texts import without_ids
from joinsight.present import caches
from joinsight.tables import Row
from joinsight.timing.cost import CostBreakdown, Item

# Details that are not about the query: ids, the usual origin of a shuffle, the default catalog
_NOISE = re.compile(r",? ?\[plan_id=\d+\]|,? ?\[id=#\d+\]|, ENSURE_REQUIREMENTS\b|\bspark_catalog\.")
HOT = 0.2
"""The share of the time from which on a node is marked as expensive."""
_LEAST_SHARE = 0.0005


@dataclass(frozen=True, slots=True)
class Cluster:
    """A whole-stage-codegen stage; `number` is ``(2)``, or empty if its name has none."""

    number: str


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that cannot be told apart, in a codegen stage or elsewhere in a stage, and their time together."""

    operators: frozenset[int]
    cluster: int | None
    """The codegen stage; None: they are all those of the stages."""
    stages: tuple[int, ...]
    wall_ms: int
    time_ms: int
    """The sum over tasks."""
    share: float
    """The share of the execution's time; of its task time before the end."""

    @property
    def is_hot(self) -> bool:
        """Whether they took much of the time."""
        return self.share >= HOT

    @property
    def amount(self) -> str:
        """``43.0 s, 88 % wall``; while it runs ``43.0 s of tasks``."""
        if self.wall_ms:
            return f"{duration_text(self.wall_ms)}, {percent_text(self.share)} wall"
        return f"{duration_text(self.time_ms)} of tasks"

    @property
    def place(self) -> str:
        """``stage 59``; empty for a codegen stage."""
        return f"stage{'s' * (len(self.stages) > 1)} {', '.join(map(str, self.stages))}" if self.stages else ""


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
    """The sum over tasks, without that of other operators; for a broadcast, the time on the driver."""
    wall_ms: int = 0
    """How long the execution waited for it, as far as that is known: docs/cost.md."""
    wall_share: float = 0.0
    """The share of the execution's time."""
    share: float = 0.0
    """The same; before the end, the share of the time of all tasks."""
    read: Row | None = None
    """The metric of rows read per task, for a shuffle whose `skew_ratio` is known."""
    findings: list[Row] = field(default_factory=list)
    """The worst first."""
    reads: list[Row] = field(default_factory=list)
    """How AQE reads this shuffle: operators of Spark's that are not shown on their own."""
    cached: str = ""
    """``cached, filled by #0 in 24.2 s``, for a scan of a cached table that was there."""
    holds: int = 0
    """The number of operators that filled it, which are left out."""

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
        text = ", ".join(filter(None, (clean(self.row["simple"]), *self.read_as, self.cached)))
        return text or self.name or "(no plan)"

    @property
    def read_as(self) -> list[str]:
        """``coalesced``: how AQE reads this shuffle."""
        return list(dict.fromkeys(clean(each["simple"]).removeprefix(each["name"]).strip() for each in self.reads))

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
    """A plan version, without whole-stage-codegen clusters, which are at their nodes, and without Spark's frames.

    Below a scan of a cached table that was there, the operators that filled it are left out: they did not run.
    """

    nodes: Mapping[int, TreeNode]
    inputs: Mapping[int, Sequence[int]]
    """The inputs of each node, the left one first; a reused exchange is an input of several nodes."""
    roots: Sequence[int]
    measured: Mapping[int, Row]
    """The execution's metrics by accumulator."""
    groups: Sequence[Group] = ()
    """What is known of several operators only, the longest first."""

    def metrics(self, node: Row) -> list[tuple[str, Row]]:
        """The measured metrics of a node, with Spark's names."""
        rows = ((name, self.measured.get(accumulator)) for accumulator, name, _ in node["metrics"])
        return [(name, row) for name, row in rows if row is not None]

    def all_metrics(self, node: TreeNode) -> list[tuple[str, Row]]:
        """Those of a node, and of how AQE reads it."""
        return [each for row in (node.row, *node.reads) for each in self.metrics(row)]


def plan_tree(stored: StoredPlan, version: Row, opened: Container[int] = (), whole_ms: float | None = None) -> PlanTree:
    """A plan version for display; only the final one has findings, as they refer to its nodes.

    `opened` are the scans of cached tables below which the operators that filled them are shown. `whole_ms` is what
    shares of the wall time are of: its own by default.
    """
    measured = stored.plan_of(version)
    whole = stored.breakdown.wall_ms if whole_ms is None else whole_ms
    inputs = {parent: list(children) for parent, children in measured.graph.children.items()}
    operators_only = {node["id"]: TreeNode(node) for node in version["nodes"] if not node["is_cluster"]}
    _leave_out_frames(operators_only, inputs)
    not_run = stored.not_run(version)
    _close_caches(stored, version, operators_only, inputs, not_run, opened)
    fed = {child for parent, below in inputs.items() if parent in operators_only for child in below}
    roots = [i for i in operators_only if i not in fed]
    groups = _groups(stored.breakdown, whole) if version["is_final"] else []
    tree = PlanTree(operators_only, inputs, roots, {row["accumulator_id"]: row for row in stored.metrics}, groups)
    skew_known = _skew_known(stored)
    clusters = {node["id"]: _cluster(node) for node in version["nodes"] if node["is_cluster"]}
    for node in tree.nodes.values():
        node.cluster = clusters.get(node.row["cluster"])
        if node.id in not_run:
            continue
        _measure(node, operators.of(node.name), measured.metrics(measured.nodes[node.id]))
        read = (row for _, row in tree.metrics(node.row) if row["accumulator_id"] in skew_known)
        node.read = next((_read(row, skew_known[row["accumulator_id"]]) for row in read), None)
    if version["is_final"]:
        _charge(tree, stored.breakdown, whole)
    for finding in stored.findings if version["is_final"] else ():
        if finding["node_id"] in tree.nodes:
            tree.nodes[finding["node_id"]].findings.append(finding)
    return tree


def _leave_out_frames(nodes: dict[int, TreeNode], inputs: dict[int, list[int]]) -> None:
    """Leave out AdaptiveSparkPlan, and AQEShuffleRead, which becomes a trait of its shuffle."""
    hidden: dict[int, int] = {}
    for i, node in list(nodes.items()):
        is_read = operators.of(node.name).kind == "shuffle_read"
        if (is_read or node.name == operators.ADAPTIVE_PLAN) and len(inputs.get(i, ())) == 1:
            [hidden[i]] = inputs.pop(i)
            del nodes[i]
            if is_read:
                nodes[_shown(hidden[i], hidden)].reads.append(node.row)
    if hidden:
        for parent, below in inputs.items():
            inputs[parent] = [_shown(child, hidden) for child in below]


def _shown(node: int, hidden: Mapping[int, int]) -> int:
    while node in hidden:
        node = hidden[node]
    return node


def _close_caches(
    stored: StoredPlan,
    version: Row,
    nodes: dict[int, TreeNode],
    inputs: dict[int, list[int]],
    not_run: Collection[int],
    opened: Container[int],
) -> None:
    """Leave out what filled the cached tables that were there."""
    scans = [i for i in inputs if i in nodes and i not in not_run and any(child in not_run for child in inputs[i])]
    if not scans:
        return
    filled = caches.filled(stored, version)
    for i in scans:
        nodes[i].cached = filled.get(i, "cached")
        todo = [] if i in opened else inputs.pop(i)
        while todo:
            below = todo.pop()
            if below in nodes and below in not_run:
                del nodes[below]
                nodes[i].holds += 1
                todo += inputs.pop(below, ())


def _charge(tree: PlanTree, breakdown: CostBreakdown, wall: float) -> None:
    """Set the time of operators of which it is known: Spark's own metrics may be without a part of it."""
    tasks = breakdown.task_time_ms
    for node_id, item in breakdown.operators().items():
        node = tree.nodes.get(node_id)
        if node is None:
            continue
        if item.task_time_ms and not operators.is_broadcast(node.name):
            node.time_ms = item.task_time_ms
        node.wall_ms = item.wall_ms
        node.wall_share = item.wall_ms / wall if wall else 0.0
        node.share = node.wall_share if wall or not tasks else item.task_time_ms / tasks


def _groups(breakdown: CostBreakdown, wall: float) -> list[Group]:
    """The shared items of a breakdown, those of the same operators as one."""
    items: dict[tuple[int | None, tuple[int, ...]], list[Item]] = defaultdict(list)
    for item in breakdown.items:
        if item.kind == "shared" and item.operators:
            items[item.node_id, item.operators].append(item)
    tasks = breakdown.task_time_ms
    groups = []
    for (cluster, inside), its in items.items():
        waited, ran = sum(item.wall_ms for item in its), sum(item.task_time_ms for item in its)
        share = waited / wall if wall else ran / tasks if tasks else 0.0
        stages = tuple(sorted(item.stage_id for item in its if item.stage_id is not None))
        groups.append(Group(frozenset(inside), cluster, stages, waited, ran, share))
    return sorted(groups, key=lambda group: -group.share)


def _cluster(node: Row) -> Cluster:
    number = re.search(r"\(\d+\)", node["name"])
    return Cluster(number[0] if number else "")


def _measure(node: TreeNode, operator: Operator, by_name: Mapping[str, Accumulator]) -> None:
    node.rows = next((by_name[name].sum for name in operator.rows if name in by_name), None)
    size = next((name for name in operator.bytes if name in by_name), None)
    if size is not None:
        node.bytes, node.bytes_are = by_name[size].sum, "of files" if size == FILES_SIZE else ""
    times = {name: each.sum for name, each in by_name.items() if name in operator.own_time and each.sum is not None}
    if times:
        node.time_ms = sum(ms // 1_000_000 if name == WRITE_TIME else ms for name, ms in times.items())


def _read(metric: Row, median: int) -> Row:
    """The rows that its tasks read: the metric has tasks of other branches of a UNION, too, as zeros."""
    return {**metric, "median": median, "p95": max(median, metric["p95"])}


def _skew_known(stored: StoredPlan) -> dict[int, int]:
    """The median of the rows that tasks read, by the accumulator of a shuffle whose skew is known; plans share them."""
    known = {row["node_id"]: row["rows_read_median"] for row in stored.shuffles if row["skew_ratio"] is not None}
    final = stored.version(None)
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


def operator_name(name: str, simple: str) -> str:
    """Spark's name; that of a scan of files with what people call these: ``Scan parquet orders``."""
    source = file_source(name, simple)
    return f"{clean(name)} {source}" if source else clean(name)


def file_source(name: str, simple: str) -> str:
    """What people call the files that an operator scans; empty for other operators, and where it has a table."""
    source = source_name(Node(0, name, simple)) if operators.is_scan(name) and "Location: " in simple else ""
    return "" if source.endswith(" files") or source in name else source


def clean(text: str) -> str:
    """Spark's text of an operator without details that are not about the query, on one line."""
    return " ".join(_NOISE.sub("", without_ids(text)).split())
