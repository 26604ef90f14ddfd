"""Where two executions spent their wall time, place by place: stages, matched by their operators' keys, broadcasts."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from joinsight.analysis.stored import StoredPlan
from joinsight.plan import operators
from joinsight.plan.engines import THREADED
from joinsight.plan.graph import Node
from joinsight.plan.identity import Identity
from joinsight.plan.operators import OUTPUT_ROWS
from joinsight.tables import Row
from joinsight.timing.critical_path import STAGE_CAUSES
from joinsight.verdict.view import View

_LEAST_ALIKE = 0.3
"""Share of the operators of two stages that must be the same."""
_LABELS = 0.8
"""What equal labels count: the operators below them may differ."""
_NAMES = 0.5
"""What equal names of operators count, in plans with the same joins and exchanges: an edited query."""
_MOST_STAGES = 300
"""Stages of an execution that are matched."""
_OTHER_SHARE = 1.1
"""How many times the share of their rows filters must pass, to count."""
_WORD = re.compile(r"[^\s(),\[\]]+")
_SPILL_PER_MS = 20 * (1 << 20) / 1000
_MOST_SPILL = 0.7


@dataclass(frozen=True)
class StageRun:
    """All attempts of a stage of one execution."""

    view: View
    stage_id: int
    rows: Sequence[Row]
    wall_ms: int
    """How long the execution waited for its tasks, also since they had the slots that another of its stages waited for;
    repeated attempts apart."""
    tail_ms: int
    keys: frozenset[str]
    """Keys of its operators."""
    labels: frozenset[str]
    """What each of its operators does, whatever is below it."""
    names: Counter[str]
    """Those of its operators."""
    writes: str | None
    """Key of the exchange that it writes; None: the result."""
    filtered: float = 1.0
    """How many times its rows count, since its filters passed more or fewer of them than in the other execution."""

    def total(self, name: str) -> int:
        """A column, summed over its attempts."""
        return sum(row[name] or 0 for row in self.rows)

    @property
    def repeated(self) -> int:
        """How many attempts repeated it."""
        return sum(row["stage_attempt"] > 0 for row in self.rows)

    @property
    def failed(self) -> int:
        """Task attempts that failed."""
        return self.total("failed_tasks")

    @property
    def run_ms(self) -> int:
        return self.total("run_time_ms")

    @property
    def delay_ms(self) -> int:
        """How long its tasks waited for the driver: to run, and until it knew of their end."""
        return self.total("scheduler_delay_ms")

    @property
    def tasks(self) -> int:
        return self.total("succeeded_tasks")

    @cached_property
    def handled(self) -> int:
        """Rows that it read, and that its joins and generators made."""
        made = 0
        for node_id in self.view.breakdown.ran(self.stage_id):
            node = self.view.plan.nodes[node_id]
            if operators.of(node.name).kind == "join" or node.name.startswith("Generate"):
                made += self.view.plan.total(node, OUTPUT_ROWS) or 0
        return round((self.total("input_rows") + self.total("shuffle_read_rows") + made) * self.filtered)

    @cached_property
    def passed(self) -> int:
        """Rows that its filters passed; 0: it has none, or they passed nothing."""
        nodes = (self.view.plan.nodes[node_id] for node_id in self.view.breakdown.ran(self.stage_id))
        filters = (node for node in nodes if operators.of(node.name).kind == "filter")
        return sum(self.view.plan.total(node, OUTPUT_ROWS) or 0 for node in filters)

    @property
    def longest_to_mean(self) -> float:
        """Run time of its longest task to the mean."""
        longest = max((row["run_time_ms_max"] or 0 for row in self.rows), default=0)
        return longest * max(1, self.tasks) / self.run_ms if longest and self.run_ms else 1.0

    @property
    def most_rows_to_mean(self) -> float:
        """Shuffled rows that its largest task read, to the mean; 0: unknown."""
        most, rows = (
            max((row["shuffle_read_rows_max"] or 0 for row in self.rows), default=0),
            self.total("shuffle_read_rows"),
        )
        return most * max(1, self.tasks) / rows if rows else 0.0

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Its tasks' run time by what it went into, in milliseconds; adds up to it."""
        run = float(self.run_ms)
        gc, fetch = float(self.total("gc_time_ms")), float(self.total("shuffle_fetch_wait_ms"))
        write = self.total("shuffle_write_time_ns") / 1e6
        python = float(
            sum(
                row["task_time_ms"]
                for row in self.view.stored.task_times
                if row["stage_id"] == self.stage_id and row["part"] == "python"
            )
        )
        known = {"cpu": self.cpu_ms, "gc": gc, "fetch": fetch, "write": write, "python": python}
        whole = sum(known.values())
        if whole > run > 0:
            known = {name: value * run / whole for name, value in known.items()}
            whole = run
        known["wait"] = max(0.0, run - whole)
        spill = min(_MOST_SPILL * run, self.total("memory_spilled_bytes") / _SPILL_PER_MS)
        taken = known["cpu"] + known["wait"]
        if spill and taken:
            spill = min(spill, _MOST_SPILL * taken)
            for name in ("cpu", "wait"):
                known[name] *= 1 - spill / taken
        return {**known, "spill": spill if taken else 0.0}

    @cached_property
    def is_threaded(self) -> bool:
        """Whether a native engine worked in threads of its own, whose CPU time is not among that of the tasks.

        Then nothing tells whether tasks worked or waited: both are `wait`.
        """
        nodes = (self.view.plan.nodes[node_id] for node_id in self.view.breakdown.ran(self.stage_id))
        return any(operators.of(node.name).engine in THREADED for node in nodes)

    @property
    def cpu_ms(self) -> float:
        """CPU time of its tasks."""
        return self.total("cpu_time_ns") / 1e6

    @property
    def waited_ms(self) -> float:
        """Run time that is neither CPU time nor measured waiting."""
        known = self.total("gc_time_ms") + self.total("shuffle_fetch_wait_ms")
        known += (self.total("cpu_time_ns") + self.total("shuffle_write_time_ns")) // 1_000_000
        return max(0, self.run_ms - known)

    @property
    def stretch(self) -> float:
        """How much longer than their CPU time tasks took for it, since they waited for CPUs and disks."""
        cpu, wait = self.parts["cpu"], self.parts["wait"]
        return (cpu + wait) / cpu if cpu else 1.0

    @property
    def slots(self) -> int:
        """Slots that it could use."""
        declared = [int(row.get("slots") or 0) for row in self.rows]
        return max([*declared, self.view.slots or 1])

    @cached_property
    def largest_operators(self) -> list[str]:
        """The keys of those that took longest."""
        ran = next((ran for ran in self.view.ran if ran.stage_id == self.stage_id), None)
        nodes = ran.nodes[:3] if ran else ()
        return [key for i in nodes if (key := self.view.keys.get(i))]


def follows_cpu(one: StageRun, other: StageRun) -> tuple[bool, bool]:
    """Whether the wait a row changed in the direction of the CPU time a row, and more than it.

    On busy hosts, what takes twice the CPU time also waits up to twice as long for it: of a wait that changed more,
    only the ratio of both tells how busy they were, and one that changed less tells nothing.
    """
    if one.is_threaded or other.is_threaded:
        return False, False
    parts = [[its.parts[name] / max(1, its.handled) for its in (one, other)] for name in ("cpu", "wait")]
    if not all(map(min, parts)):
        return False, False
    cpu, wait = (math.log(last / first) for first, last in parts)
    return cpu * wait > 0, abs(wait) > abs(cpu)


class RunPlaces:
    """Those of one execution."""

    def __init__(self, stored: StoredPlan) -> None:
        self.view = View(stored)
        self.stored = stored
        self._identity = Identity()

    @cached_property
    def stages(self) -> Sequence[StageRun]:
        """Stages that ran."""
        ran: dict[int, list[Row]] = {}
        for row in self.stored.stages:
            if row["run_time_ms"] is not None:
                ran.setdefault(row["stage_id"], []).append(row)
        return [self._stage(stage_id, rows) for stage_id, rows in ran.items()]

    @cached_property
    def known_slots(self) -> int:
        """The slots of its application, most if that changed; 0: unknown."""
        return max([row.get("slots") or 0 for row in self.stored.stages], default=0) or self.stored.slots or 0

    def _stage(self, stage_id: int, rows: Sequence[Row]) -> StageRun:
        view, waited = self.view, self._waited[stage_id]
        nodes = view.breakdown.ran(stage_id)
        keys = frozenset(key for i in nodes if (key := view.keys.get(i)))
        labels = frozenset(self._label(view.plan.nodes[i]) for i in nodes)
        names = Counter(view.plan.nodes[i].name for i in nodes)
        wall = waited["running"] + waited["tail"] + self._beside.get(stage_id, 0)
        return StageRun(view, stage_id, rows, wall, waited["tail"], keys, labels, names, self._writes.get(stage_id))

    def _label(self, node: Node) -> str:
        """What an operator does, in any order: Spark orders several distinct aggregates by ids, which change."""
        return " ".join(sorted(_WORD.findall(self._identity.label(node))))

    @cached_property
    def operators(self) -> Counter[tuple[str, str]]:
        """Names of all operators, and what they do."""
        return Counter((node.name, self._label(node)) for node in self.view.plan.graph.nodes)

    @cached_property
    def skeleton(self) -> Counter[str]:
        """How many joins and exchanges of each kind the plan has."""
        names = (node.name for node in self.view.plan.graph.nodes)
        return Counter(name for name in names if operators.of(name).is_exchange or operators.of(name).kind == "join")

    @cached_property
    def _waited(self) -> Mapping[int | None, Counter[str]]:
        """How long the execution waited for a stage, by cause."""
        found: dict[int | None, Counter[str]] = defaultdict(Counter)
        for s in self.stored.segments:
            found[s["stage_id"]][s["cause"]] += s["end_ms"] - s["start_ms"]
        return found

    @cached_property
    def _beside(self) -> Mapping[int, int]:
        """How long another stage of the execution waited for slots that the tasks of this one had, by stage."""
        found: Counter[int] = Counter()
        for ran in self.view.ran:
            found[ran.stage_id] += ran.wall_ms
        for stage_id, its in self._waited.items():
            if stage_id is not None:
                found[stage_id] -= sum(its[cause] for cause in STAGE_CAUSES)
        return found

    @cached_property
    def _writes(self) -> Mapping[int, str | None]:
        """The key of the exchange that a stage writes."""
        found: dict[int, str | None] = {}
        for row in self.stored.shuffles:
            for stage_id in row["map_stages"] or ():
                found.setdefault(stage_id, row["operator_key"])
        return found

    @cached_property
    def rests(self) -> Mapping[str, int]:
        """Wall time in which no first attempt of a stage ran, by cause. Broadcasts, waiting for own stages: apart."""
        found: dict[str, int] = {}
        for s in self.stored.segments:
            if s["cause"] in ("running", "tail") or s["cause"] == "broadcast":
                continue
            found[s["cause"]] = found.get(s["cause"], 0) + s["end_ms"] - s["start_ms"]
        beside = sum(self._beside.values())
        return {**found, "waiting": found.get("waiting", 0) - beside} if beside else found

    @property
    def is_threaded(self) -> bool:
        """Whether that is so in one of its stages (see `StageRun`)."""
        return any(stage.is_threaded for stage in self.stages)

    @cached_property
    def engines(self) -> Mapping[str, int]:
        """How many operators each native engine ran."""
        found = (operators.of(node.name) for node in self.view.plan.graph.nodes)
        return Counter(each.engine for each in found if each.engine and not each.is_wrapper)

    @cached_property
    def broadcasts(self) -> Mapping[str, tuple[int, int]]:
        """Wall time and bytes of each broadcast on the path, by key."""
        found: dict[str, tuple[int, int]] = {}
        for s in self.stored.segments:
            if s["cause"] == "broadcast":
                node = self.view.plan.nodes.get(s["node_id"])
                key = self.view.keys.get(s["node_id"], "") if node else ""
                size = (self.view.plan.total(node, "data size") or 0) if node else 0
                wall, _ = found.get(key, (0, 0))
                found[key] = wall + s["end_ms"] - s["start_ms"], size
        return found


def matched(a: RunPlaces, b: RunPlaces) -> Iterator[tuple[StageRun | None, StageRun | None]]:
    """Pairs of stages that do the same; then those of one execution only."""
    left, right = dict(enumerate(a.stages)), dict(enumerate(b.stages))
    names = _NAMES if a.skeleton == b.skeleton else 0.0
    pairs = sorted(
        ((_alike(x, y, names), -abs(i - j), i, j) for i, x in _longest(left) for j, y in _longest(right)), reverse=True
    )
    for alike, _, i, j in pairs:
        if alike >= _LEAST_ALIKE and i in left and j in right:
            yield _with_filters(left.pop(i), right.pop(j))
    yield from ((x, None) for x in left.values())
    yield from ((None, y) for y in right.values())


def _with_filters(one: StageRun, other: StageRun) -> tuple[StageRun, StageRun]:
    """The same two; where filters passed another share of the rows, that counts as so many times the rows, as far as
    it explains the CPU time a row: what is above a filter handles the rows that it passed.
    """
    if not (one.passed and other.passed):
        return one, other
    (share, cost), (share_before, cost_before) = (
        (its.passed / max(1, its.handled), (its.parts["cpu"] + its.parts["python"]) / max(1, its.handled))
        for its in (other, one)
    )
    shares, costs = share / share_before, cost / cost_before if cost_before else 1.0
    explained = min(shares, costs) if shares > 1 else max(shares, costs)
    if max(shares, 1 / shares) < _OTHER_SHARE or (shares > 1) != (explained > 1):
        return one, other
    return one, replace(other, filtered=explained)


def _longest(stages: Mapping[int, StageRun]) -> Sequence[tuple[int, StageRun]]:
    """Those with most run time, with their positions: all are compared with all, and a document may hold anything."""
    return sorted(stages.items(), key=lambda each: -each[1].run_ms)[:_MOST_STAGES]


def _alike(x: StageRun, y: StageRun, names: float) -> float:
    """How much the operators of two stages are the same, 0 to 1; a bit more if they write the same exchange.

    `names`: what equal names count.
    """
    if not x.keys and not y.keys:
        return 0.5 if x.writes == y.writes else 0.0
    same = len(x.keys & y.keys) / max(1, len(x.keys | y.keys))
    like = len(x.labels & y.labels) / max(1, len(x.labels | y.labels))
    named = (x.names & y.names).total() / max(1, (x.names | y.names).total())
    same = max(same, _LABELS * like, names * named)
    return same + (0.25 if x.writes == y.writes and x.writes is not None else 0)
