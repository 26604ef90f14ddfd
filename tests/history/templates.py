"""The generator's templates: documents of real executions, renamed for each job and scaled for each run.

A template's numbers fall into two groups. *Large* ones are of the facts (sales, returns) and of all that they flow
into, *small* ones of the dimensions up to the join that takes them in: a dimension can grow at a pace of its own.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from joinsight.analysis.rows import Plans
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Accumulator, Execution, Plan, Spread, Stage
from joinsight.plan import operators
from joinsight.plan.graph import Graph

FILE = Path(__file__).with_name("templates.ndjson.gz")
LAKE = "s3a://lake/warehouse"

_FACTS = re.compile(r"\.(sales|returns)$|InMemory")
_WORDS = re.compile(
    r"\b(sales|returns|store|product|customer|sale_id|store_id|product_id|customer_id|amount|quantity|refund|category"
    r"|region|segment)\b"
)

Unit = Literal["data", "time", "same"]
_ROWS = {"number of output rows", "records read", "shuffle records written"}
_UNSCALED = {"peak memory", "metadata time"}
_UNITS: Mapping[str, Unit] = {"size": "data", "timing": "time", "nsTiming": "time"}
_SUFFIXES: Mapping[str, Unit] = {
    "_bytes": "data",
    "_rows": "data",
    "_time_ms": "time",
    "_wait_ms": "time",
    "_delay_ms": "time",
    "_duration_ms": "time",
    "_ns": "time",
}
_STAGE_FIELDS: Mapping[str, Unit] = {
    name: unit
    for name in Stage.__struct_fields__
    for suffix, unit in _SUFFIXES.items()
    if name.endswith(suffix) and name != "peak_memory_bytes"  # bounded by what a task may have
}
_STAGE_TIMES = tuple(name for name in Stage.__struct_fields__ if name.endswith("_at_ms"))
_SPREADS: Mapping[str, Unit] = {
    "run_time": "time",
    "cpu_time": "time",
    "shuffle_read": "data",
    "shuffle_read_records": "data",
}
# Totals of a stage that are those of the exchanges which its tasks read and wrote
_OF_EXCHANGES = {
    "shuffle_read_local_bytes": "local bytes read",
    "shuffle_read_remote_bytes": "remote bytes read",
    "shuffle_read_rows": "records read",
    "shuffle_write_bytes": "shuffle bytes written",
    "shuffle_write_rows": "shuffle records written",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """How one run changes its template: factors, and the events that affect it."""

    large: float
    small: float
    time: float
    """The factor for the time of the execution and of the tasks that process the facts."""
    small_time: float
    largest_share: float | None = None
    """The share of the skewed shuffle's rows that its largest task reads."""
    spilled_share: float = 0.0
    """Bytes that the sorts spill, of the bytes that they sort."""


class Template:
    """An execution of one job; `scaled` makes its runs."""

    def __init__(self, execution: Execution, large: set[int]) -> None:
        self.execution = execution
        self.plans = Plans(execution)
        self.duration_ms = (execution.ended_at_ms or execution.started_at_ms) - execution.started_at_ms
        measured = {a.id: a for a in execution.accumulators}
        names = {m.id: m.name for node in execution.nodes for m in node.metrics}
        self._accumulators = [(a, a.id in large, _unit(a.type, names.get(a.id, ""))) for a in execution.accumulators]
        self._stages = [(s, self._is_large(s), self._exchanges(s, names)) for s in execution.stages]
        self.shuffle = _largest_shuffle(self.plans.graph, measured)
        """The shuffle that is skewed when one is."""
        self._sorts = _sorts(self.plans.graph, measured)
        self.stages = 1 + max(stage.id for stage in execution.stages)

    def _is_large(self, stage: Stage) -> bool:
        own = [is_large for a, is_large, _ in self._accumulators if stage.id in a.stages]
        return any(own) or not own

    def _exchanges(self, stage: Stage, names: Mapping[int, str]) -> dict[str, list[int]]:
        """Field of the stage -> accumulators whose sums it is."""
        found = {}
        for field, name in _OF_EXCHANGES.items():
            own = [a for a, _, _ in self._accumulators if names.get(a.id) == name and a.stages == [stage.id]]
            if own and sum(a.sum or 0 for a in own) == getattr(stage, field):
                found[field] = [a.id for a in own]
        return found

    def scaled(self, scale: Scale, started_at_ms: int, first_stage: int, **changes: Any) -> Execution:
        """One run. `first_stage` is added to the ids of stages and jobs; `changes` replace fields of the document."""
        e = self.execution
        factors = {
            True: {"data": scale.large, "time": scale.time, "same": 1.0},
            False: {"data": scale.small, "time": scale.small_time, "same": 1.0},
        }
        skewed = self.shuffle if scale.largest_share is not None else None
        share = scale.largest_share or 0.0
        sums: dict[int, int] = {}
        accumulators = []
        for a, is_large, unit in self._accumulators:
            scaled = _scaled(a, factors[is_large][unit], first_stage)
            if skewed is not None and a.id in skewed.metrics:
                scaled = _skewed(scaled, share)
            elif a.id in self._sorts and scale.spilled_share:
                scaled = _filled(scaled, round(self._sorts[a.id] * scale.large * scale.spilled_share))
            sums[a.id] = scaled.sum or 0
            accumulators.append(scaled)
        spilled = [(a, sums[a.id]) for a, _, _ in self._accumulators if a.id in self._sorts and scale.spilled_share]

        def at(ms: int | None) -> int | None:
            return None if ms is None else started_at_ms + round((ms - e.started_at_ms) * scale.time)

        stages = []
        for stage, is_large, exchanges in self._stages:
            values = _scaled_stage(stage, factors[is_large])
            values |= {field: sum(sums[i] for i in ids) for field, ids in exchanges.items()}
            spill = sum(size for a, size in spilled if stage.id == a.max_stage)
            if spill:
                values |= {"memory_spilled_bytes": spill * 3, "disk_spilled_bytes": spill}
            if skewed is not None and stage.id in skewed.stages:
                values |= {
                    name: _skewed_spread(values[name], stage.succeeded_tasks, total, share)
                    for name, total in (
                        ("shuffle_read", values["shuffle_read_local_bytes"] + values["shuffle_read_remote_bytes"]),
                        ("shuffle_read_records", values["shuffle_read_rows"]),
                        ("run_time", values["run_time_ms"]),
                    )
                }
            values |= {name: at(getattr(stage, name)) for name in _STAGE_TIMES}
            values["samples"] = {key: round(count * factors[is_large]["time"]) for key, count in stage.samples.items()}
            stages.append(replace(stage, id=stage.id + first_stage, **values))
        jobs = [
            replace(
                job,
                id=job.id + first_stage,
                submitted_at_ms=at(job.submitted_at_ms) or 0,
                ended_at_ms=at(job.ended_at_ms),
                stages=[i + first_stage for i in job.stages],
            )
            for job in e.jobs
        ]
        plans = [Plan(at(plan.at_ms) or 0, plan.nodes, plan.parents) for plan in e.plans]
        standard = {
            "started_at_ms": started_at_ms,
            "ended_at_ms": started_at_ms + round(self.duration_ms * scale.time),
            "accumulators": accumulators,
            "stages": stages,
            "jobs": jobs,
            "plans": plans,
        }
        return replace(e, **{**standard, **changes})


@dataclass(frozen=True, slots=True)
class Shuffle:
    """What changes if a shuffle is skewed: its node, the accumulators per reading task, the reading stages."""

    node_id: int
    metrics: frozenset[int]
    stages: frozenset[int]


@cache
def _texts() -> dict[str, str]:
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    return {msgspec.json.decode(line)["description"]: line for line in lines}


def template(name: str, words: Mapping[str, str]) -> Template:
    """A template with the names of tables and columns that `words` replaces."""
    text = _WORDS.sub(lambda found: words.get(found[0], found[0]), _texts()[name])
    text = text.replace("spark_catalog.default.", f"spark_catalog.{words['default']}.")
    return Template(_read(text), _large_metrics(_read(_texts()[name])))


def _read(text: str) -> Execution:
    """The document, its stages and jobs numbered from 0 on, as in an application that runs nothing else."""
    e = decode_document(text.encode())
    assert isinstance(e, Execution)
    stages, jobs = min(stage.id for stage in e.stages), min(job.id for job in e.jobs)
    return replace(
        e,
        stages=[replace(stage, id=stage.id - stages) for stage in e.stages],
        jobs=[replace(job, id=job.id - jobs, stages=[i - stages for i in job.stages]) for job in e.jobs],
        accumulators=[_moved(a, -stages) for a in e.accumulators],
    )


def _moved(a: Accumulator, stages: int) -> Accumulator:
    """Accumulators moved to the tasks of other stages."""
    max_stage = None if a.max_stage is None else a.max_stage + stages
    return replace(a, stages=[i + stages for i in a.stages], max_stage=max_stage)


def _unit(type: str, name: str) -> Unit:
    if name in _UNSCALED:
        return "same"
    return "data" if type == "sum" and name in _ROWS else _UNITS.get(type, "same")


def _large_metrics(e: Execution) -> set[int]:
    """Accumulators of nodes that have a fact table beneath them, in any of the plans."""
    large: set[int] = set()
    for plan in e.plans:
        is_large = [False] * len(plan.nodes)
        for position in range(len(plan.nodes) - 1, -1, -1):  # children stand behind their parent
            node, parent = e.nodes[plan.nodes[position]], plan.parents[position]
            is_large[position] |= operators.is_scan(node.name) and _FACTS.search(node.name) is not None
            if is_large[position]:
                large.update(metric.id for metric in node.metrics)
                if parent >= 0:
                    is_large[parent] = True
    return large


def _largest_shuffle(graph: Graph, measured: Mapping[int, Accumulator]) -> Shuffle | None:
    """The shuffle with the most rows that several tasks read."""
    parents, nodes = graph.parents, graph.by_id
    found: list[tuple[int, Shuffle]] = []
    for node in graph.nodes:
        metrics = {metric.name: metric.id for metric in node.metrics}
        read = measured.get(metrics.get("records read", -1))
        if operators.is_shuffle(node.name) and read is not None and read.count > 1 and read.stages:
            touched = {metrics[name] for name in ("records read", "local bytes read", "remote bytes read")}
            for parent in parents.get(node.id, ()):
                touched.update(m.id for m in nodes[parent].metrics if m.name == "partition data size")
            found.append((read.sum or 0, Shuffle(node.id, frozenset(touched), frozenset(read.stages))))
    return max(found, key=lambda each: each[0])[1] if found else None


def _sorts(graph: Graph, measured: Mapping[int, Accumulator]) -> dict[int, int]:
    """The metrics `spill size` of the sorts of joins, with the bytes that the exchange below brings."""
    children, nodes = graph.children, graph.by_id
    found = {}
    for node in graph.nodes:
        below = node
        while below.name in (operators.SORT, operators.AQE_READ) and children.get(below.id):
            below = nodes[children[below.id][0]]
        if node.name == operators.SORT and operators.is_shuffle(below.name):
            size = next((measured[m.id].sum for m in below.metrics if m.name == "data size" and m.id in measured), 0)
            found.update({m.id: size or 0 for m in node.metrics if m.name == "spill size" and m.id in measured})
    return found


def _scaled(a: Accumulator, factor: float, stages: int) -> Accumulator:
    def times(value: int | None) -> int | None:
        return None if value is None else round(value * factor)

    return Accumulator(
        a.id,
        a.type,
        a.count,
        times(a.sum),
        times(a.min),
        times(a.median),
        times(a.p95),
        times(a.max),
        None if a.max_stage is None else a.max_stage + stages,
        a.max_stage_attempt,
        a.max_task,
        [i + stages for i in a.stages],
        a.text,
        a.approximate,
    )


def _skewed(a: Accumulator, largest_share: float) -> Accumulator:
    """The same total, with this share at one task and the rest spread evenly."""
    if a.count < 2 or not a.sum:
        return a
    largest = round(a.sum * largest_share)
    rest = (a.sum - largest) // (a.count - 1)
    return replace(a, min=rest, median=rest, p95=largest if a.count < 20 else rest, max=largest)


def _filled(a: Accumulator, total: int) -> Accumulator:
    each = total // max(a.count, 1)
    return replace(a, sum=total, min=each, median=each, p95=each, max=each)


def _skewed_spread(spread: Spread | None, tasks: int, total: int, largest_share: float) -> Spread | None:
    if spread is None or tasks < 2:
        return spread
    largest = round(total * largest_share)
    rest = (total - largest) // (tasks - 1)
    return Spread(rest, rest, largest if tasks < 20 else rest, largest, spread.max_task)


def _scaled_stage(stage: Stage, factors: Mapping[str, float]) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: None if (value := getattr(stage, name)) is None else round(value * factors[unit])
        for name, unit in _STAGE_FIELDS.items()
    }
    for name, unit in _SPREADS.items():
        spread: Spread | None = getattr(stage, name)
        if spread is not None:
            factor = factors[unit]
            low, median, high, top = (round(x * factor) for x in (spread.min, spread.median, spread.p95, spread.max))
            values[name] = Spread(low, median, high, top, spread.max_task)
        else:
            values[name] = None
    return values
