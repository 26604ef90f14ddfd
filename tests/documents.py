"""Makes documents for tests: short ones with default values, and plans with metrics from a drawing."""

from __future__ import annotations

import gzip
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Accumulator, Application, Execution, Listener, Metric
from joinsight.contract.document import Plan as DocumentPlan
from joinsight.contract.document import PlanNode as DocumentNode
from joinsight.plan.graph import Graph, build
from joinsight.tables import as_columns

LISTENER = Listener("6b1f2a34-0000-4000-8000-000000000001", "0.1.0", "4.3.0")
OTHER_LISTENER = Listener("6b1f2a34-0000-4000-8000-000000000002", "0.1.0", "4.3.0")
STARTED_AT_MS = 1_767_225_600_000  # 2026-01-01T00:00Z

FULL = """
SortMergeJoin | [k#1], [k#2], Inner | number of output rows=50, spill size=1
  Sort | [k#1 ASC] | sort time=5
    AQEShuffleRead | skewed | number of partitions=9, partition data size=1+2
      Exchange | hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id=3] | data size=4000, records read=1+2
        InMemoryTableScan | [k#1] | number of output rows=5
          Range | (0, 9) | number of output rows=5
  BroadcastExchange | [plan_id=5] | data size=4000
"""
"""A plan that fills the tables of all kinds of operators."""

TYPES = {
    "size": ("data size", "data size of build side", "spill size", "partition data size", "shuffle bytes written"),
    "timing": ("fetch wait time", "sort time", "duration", "remote reqs duration", "remote merged reqs duration"),
    "nsTiming": ("shuffle write time",),
}
"""Spark's types of metrics, by the metric's name; see `type_of` for all others."""


class PlanNode(NamedTuple):
    """A node with its place in the tree: the index of its parent, -1 for the root."""

    name: str
    parent: int
    simple: str = ""
    metadata: Mapping[str, str] = {}
    metrics: Sequence[Metric] = ()

    def alone(self) -> DocumentNode:
        """The form that a document has."""
        return DocumentNode(self.name, self.simple, dict(self.metadata), list(self.metrics))


class Plan(NamedTuple):
    """A plan as a tree; `execution` converts it to the document's form."""

    at_ms: int
    nodes: Sequence[PlanNode]


def tables(plans: Iterable[Plan]) -> tuple[list[DocumentNode], list[DocumentPlan]]:
    """The distinct nodes of these plans, and the plans that refer to them."""
    nodes: list[DocumentNode] = []
    known: dict[str, int] = {}
    named = []
    for at_ms, tree in plans:
        indexes = []
        for node in tree:
            indexes.append(known.setdefault(repr(node.alone()), len(nodes)))
            if indexes[-1] == len(nodes):
                nodes.append(node.alone())
        named.append(DocumentPlan(at_ms, indexes, [node.parent for node in tree]))
    return nodes, named


StoredRows = dict[str, list[dict[str, Any]]]
"""Rows by table, each by column."""


def stored_rows(e: Execution) -> StoredRows:
    """The rows of an execution, by table."""
    return {table: [as_columns(row) for row in rows] for table, rows in execution_rows(e).by_table().items()}


def read_back(e: Execution, slots: int | None = None) -> StoredPlan:
    """An execution as it is read once it is stored; `slots`: of its application."""
    its = stored_plan(execution_rows(e))
    return its if slots is None else replace(its, slots=slots)


def longest(path: Path) -> Execution:
    """The execution of a recorded file of documents that took longest."""
    lines = gzip.decompress(path.read_bytes()).splitlines()
    found = [each for line in lines if isinstance(each := decode_document(line), Execution)]
    return max(found, key=lambda each: (each.ended_at_ms or 0) - each.started_at_ms)


def graph_of(tree: Sequence[PlanNode], *, keep_duplicate_subquery_edges: bool = False) -> Graph:
    """The graph of a tree."""
    return build(
        [node.alone() for node in tree],
        [node.parent for node in tree],
        keep_duplicate_subquery_edges=keep_duplicate_subquery_edges,
    )


def application(**changes: Any) -> Application:
    """A running application."""
    standard = {**_common(), "state": "running", "started_at_ms": STARTED_AT_MS - 5_000}
    return Application(**{**standard, **changes})


def execution(**changes: Any) -> Execution:
    """An execution without a plan that succeeded after a second."""
    standard = {
        **_common(),
        "execution_id": 0,
        "state": "succeeded",
        "started_at_ms": STARTED_AT_MS,
        "ended_at_ms": changes.get("started_at_ms", STARTED_AT_MS) + 1_000,
        **changes,
    }
    if standard["state"] == "running" and "ended_at_ms" not in changes:
        standard["ended_at_ms"] = None
    standard["nodes"], standard["plans"] = tables(standard.get("plans", ()))
    return Execution(**{"root_execution_id": standard["execution_id"], **standard})


def planned(drawing: str, **changes: Any) -> Execution:
    """An execution with the plan and metrics in `drawing`; see `draw`."""
    nodes, accumulators = draw(drawing)
    return execution(plans=[Plan(STARTED_AT_MS, nodes)], accumulators=accumulators, **changes)


def replanned(earlier: str, drawing: str, **changes: Any) -> Execution:
    """The same, after AQE replaced the plan `earlier`, which is drawn without metrics."""
    nodes, accumulators = draw(drawing)
    plans = [Plan(STARTED_AT_MS, draw(earlier)[0]), Plan(STARTED_AT_MS + 500, nodes)]
    return execution(plans=plans, accumulators=accumulators, **changes)


def _common() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "origin": "live",
        "listener": LISTENER,
        "sequence": 1,
        "application_id": "local-1767225600000",
        "application_name": "test",
        "job_name": "test",
    }


def draw(drawing: str) -> tuple[list[PlanNode], list[Accumulator]]:
    """A plan with metrics from its drawing, indented by two blanks a level::

        SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5
          Exchange | hashpartitioning(k#1, 8), [plan_id=3] | records read=1+2+9, data size=?

    A line is a name, its arguments and its metrics; what stands behind a bar may be left out. ``1+2+9`` are the values
    of three tasks, ``?`` was announced and not measured, ``sort time:nsTiming=5`` has another type than Spark's. Equal
    lines with a plan_id share their accumulators, as a reused exchange and its original do.
    """
    nodes: list[PlanNode] = []
    accumulators: dict[int, Accumulator] = {}
    parents: list[int] = []
    known: dict[str, list[Metric]] = {}
    for line in textwrap.dedent(drawing).splitlines():
        if not line.strip():
            continue
        level = (len(line) - len(line.lstrip())) // 2
        parts = [part.strip() for part in line.split("|")]
        name, arguments, measured = (*parts, "", "", "")[:3]
        key = line.strip() if "plan_id=" in line else str(len(nodes))
        if key not in known:
            known[key] = []
            for text in filter(None, measured.split(", ")):
                metric_name, _, values = text.partition("=")
                metric_name, _, kind = metric_name.partition(":")
                metric = Metric(metric_name, 100 * len(known) + len(known[key]), kind or type_of(metric_name))
                known[key].append(metric)
                if values != "?":
                    accumulators[metric.id] = measure(metric, [int(value) for value in values.split("+")])
        del parents[level:]
        simple = f"{name} {arguments}".strip()
        nodes.append(PlanNode(name, parents[-1] if parents else -1, simple, metrics=known[key]))
        parents.append(len(nodes) - 1)
    return nodes, list(accumulators.values())


def type_of(name: str) -> str:
    """Spark's type of a metric."""
    if name.startswith("time "):
        return "timing"
    if name.endswith(("bytes read", "bytes read to disk")):
        return "size"
    return next((kind for kind, names in TYPES.items() if name in names), "sum")


def measure(metric: Metric, values: Sequence[int], stage: int = 7) -> Accumulator:
    """What the listener reports for these values of the tasks 70, 71, ... of a stage."""
    ordered = sorted(values)
    count = len(ordered)
    positive = [value for value in ordered if value > 0]
    some_are_zero = 0 < len(positive) < count
    return Accumulator(
        metric.id,
        metric.type,
        count,
        sum(ordered),
        ordered[0],
        ordered[count // 2],
        ordered[count * 95 // 100],
        ordered[-1],
        stage,
        0,
        stage * 10 + values.index(ordered[-1]),
        stages=[stage],
        positive=len(positive) if some_are_zero else None,
        positive_median=positive[len(positive) // 2] if some_are_zero else None,
    )


def as_line(document: Application | Execution | dict[str, Any]) -> bytes:
    """A document as a line of a request."""
    return msgspec.json.encode(document)


def request(*lines: bytes | Application | Execution | dict[str, Any]) -> bytes:
    """The body of a request."""
    return gzip.compress(
        b"".join((each if isinstance(each, bytes) else as_line(each)) + b"\n" for each in lines), 1, mtime=0
    )


def texts(value: Any) -> Iterator[str]:
    """All texts in a decoded answer or document, also the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts([*value, *value.values()])
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
