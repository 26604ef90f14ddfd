"""What the mechanisms of a verdict look at: an execution's plan, metrics, stages on its path, and what they cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from math import prod

from joinsight.analysis.stored import StoredPlan
from joinsight.contract.document import ENDED
from joinsight.plan import operators
from joinsight.plan.engines import THREADED
from joinsight.plan.graph import Node
from joinsight.plan.spark_texts import spark_graph
from joinsight.tables import Row
from joinsight.timing.cost import CostBreakdown, CostSubject
from joinsight.timing.critical_path import STAGE_CAUSES
from joinsight.timing.task_time import divide, is_timed

_FRAMES = ("codegen", "adapter", "query_stage", "shuffle_read", "reused_exchange", "reused_subquery", "subquery")


@dataclass(frozen=True, slots=True)
class Ran:
    """A stage attempt for whose tasks the execution waited."""

    row: Row
    wall_ms: int
    """How long it waited while tasks ran."""
    parts: Mapping[CostSubject, int]
    """Wall time by what the tasks were at."""
    nodes: tuple[int, ...]
    """The operators that ran in it, the most expensive first as far as that is known."""
    is_running: bool = False
    """Whether it still runs, at the last report: its sums are those of the tasks that ended."""

    @property
    def stage_id(self) -> int:
        return int(self.row["stage_id"])

    @property
    def tasks(self) -> int:
        """Tasks that ran, or all while it runs."""
        if self.is_running:
            return int(self.row["tasks"])
        return int(self.row["succeeded_tasks"] or self.row["tasks"])

    @property
    def run_ms(self) -> int:
        """Run time of all tasks."""
        return int(self.row["run_time_ms"] or 0)

    @property
    def cpu_ms(self) -> float:
        """CPU time of all tasks."""
        return self.number("cpu_time_ns") / 1e6

    def number(self, name: str) -> int:
        """A column, 0 for NULL."""
        return int(self.row.get(name) or 0)

    def ratio(self, largest: float, total: float) -> float | None:
        """A value of the task that has most of it to the mean of the others; None where there are none."""
        if not largest or self.tasks < 2:
            return None
        return largest / max(1.0, (total - largest) / (self.tasks - 1))


class View:
    """An execution as the verdict sees it."""

    def __init__(self, stored: StoredPlan) -> None:
        self.stored = stored.as_it_ran
        self.is_final = self.stored is stored
        """Whether its plan is the final one, and not the last of which anything ran."""
        self.execution = stored.execution
        self.plan = self.stored.plan
        self.has_ended = self.execution["state"] in ENDED
        self._guessed: dict[CostSubject, Mapping[int, float]] = {}
        self._handled_by: dict[int, float] = {}

    @property
    def breakdown(self) -> CostBreakdown:
        """What the execution cost; most findings do without."""
        return self.stored.breakdown

    @cached_property
    def as_spark(self) -> Mapping[int, Node]:
        """The nodes of the final plan as Spark would have printed them."""
        return spark_graph(self.plan.graph).by_id

    @cached_property
    def wall_ms(self) -> int:
        """From the execution's start to its end, or so far."""
        duration_ms = self.execution["duration_ms"]
        return self.breakdown.wall_ms or (self._so_far if duration_ms is None else int(duration_ms))

    @property
    def _so_far(self) -> int:
        times = [row[name] for row in self.stored.stages for name in ("last_finish_at", "submitted_at") if row[name]]
        return max(0, self._ms(max([*times, self.execution["updated_at"] or self.execution["started_at"]])))

    @property
    def keys(self) -> Mapping[int, str]:
        """Keys of operators by node."""
        return self.stored.operator_keys

    @cached_property
    def rests(self) -> Mapping[str, int]:
        """Wall time in which no tasks of it ran, by cause."""
        found: dict[str, int] = defaultdict(int)
        for item in self.breakdown.items:
            if item.kind == "rest":
                found[item.name] += item.wall_ms
        found["waiting"] -= sum(self._beside.values())
        return found

    @cached_property
    def _beside(self) -> Mapping[tuple[int, int], int]:
        """Wall time in which a stage on the path waited because others of the execution ran: that of the others."""
        found: dict[tuple[int, int], int] = defaultdict(int)
        ran = [
            (self._ms(row["first_launch_at"]), self._ms(row["last_finish_at"]), (row["stage_id"], row["stage_attempt"]))
            for row in self.stored.stages
            if row["first_launch_at"] is not None and row["last_finish_at"] is not None
        ]
        for segment in self.stored.segments:
            if segment["cause"] != "waiting":
                continue
            start, end = segment["start_ms"], segment["end_ms"]
            beside = [each for each in ran if each[0] < end and each[1] > start and each[2][0] != segment["stage_id"]]
            beside = sorted(beside, key=lambda each: each[0] - each[1])[:_MOST_BESIDE]
            cuts = sorted({start, end, *(min(max(t, start), end) for each in beside for t in each[:2])})
            for first, last in pairwise(cuts):
                its = [key for begin, finish, key in beside if begin <= first and finish >= last]
                for key, ms in divide(last - first, dict.fromkeys(its, 1)).items() if its else ():
                    found[key] += ms
        return found

    def ms_since(self, time: datetime) -> int:
        """From then to the end, or to the last report."""
        return self.wall_ms - self._ms(time)

    def _ms(self, time: datetime) -> int:
        started: datetime = self.execution["started_at"]
        return round((time - started).total_seconds() * 1000)

    @cached_property
    def slots(self) -> int | None:
        """How many tasks could run at once, as far as it is known."""
        seen = [row["width"] for row in self.stored.stages if row["width"]]
        declared = [row["slots"] for row in self.stored.stages if row.get("slots")]
        return max([*declared, *seen, self.stored.slots or 0]) or None

    def knows_cpu(self, ran: Ran) -> bool:
        """Whether the CPU time of a stage is that of its work: threads of native engines are not counted."""
        return not any(operators.of(self.plan.nodes[i].name).engine in THREADED for i in ran.nodes or self.plan.nodes)

    @cached_property
    def full_cpu_share(self) -> float | None:
        """CPU time to run time of tasks while they ran in all slots, the largest of all stages; None: unknown."""
        slots = self.slots or 0
        full = (row for row in self.stored.stages if slots and (row["width"] or 0) >= slots)
        long = (row for row in full if (row["run_time_ms"] or 0) >= LEAST_RUN_MS)
        return max(((row["cpu_time_ns"] or 0) / 1e6 / row["run_time_ms"] for row in long), default=0.0) or None

    @cached_property
    def ran(self) -> Sequence[Ran]:
        """The stage attempts on the critical path, the longest first; without a path, all that ran."""
        waited = Counter(self._beside)
        for segment in self.stored.segments:
            if segment["cause"] in STAGE_CAUSES:
                waited[segment["stage_id"], segment["stage_attempt"]] += segment["end_ms"] - segment["start_ms"]
        if not self.has_ended and not self.stored.segments:
            slots = max(1, self.slots or 1)
            for row in self.stored.stages:
                if row["run_time_ms"]:
                    waited[row["stage_id"], row["stage_attempt"]] += row["run_time_ms"] // slots
        rows = {(row["stage_id"], row["stage_attempt"]): row for row in self.stored.stages}
        found = [
            Ran(rows[key], wall, self._parts(key, wall), self.nodes_of(key[0]), self._is_running(rows[key]))
            for key, wall in waited.items()
            if key in rows
        ]
        return sorted(found, key=lambda each: -each.wall_ms)

    def _is_running(self, row: Row) -> bool:
        return bool(not self.has_ended and row["state"] == "running")

    def _parts(self, attempt: tuple[int, int], wall_ms: int) -> Mapping[CostSubject, int]:
        weights = self.breakdown.weights.get(attempt, {})
        return (
            divide(wall_ms, weights) if any(weights.values()) else {CostSubject("shared", stage_id=attempt[0]): wall_ms}
        )

    @cached_property
    def walls(self) -> Mapping[CostSubject, int]:
        """Wall time by what tasks were at, and that of broadcasts."""
        found: dict[CostSubject, int] = defaultdict(int)
        for ran in self.ran:
            for subject, ms in ran.parts.items():
                found[subject] += ms
        for s in self.stored.segments:
            if s["cause"] == "broadcast" and s["node_id"] in self.plan.nodes:
                found[CostSubject("operator", node_id=s["node_id"])] += s["end_ms"] - s["start_ms"]
        return found

    def nodes_of(self, stage_id: int) -> tuple[int, ...]:
        """The operators that ran in a stage, the most expensive first as far as that is known."""
        its = [i for i in self.breakdown.ran(stage_id) if self.is_work(i)]
        weight = self._weights.get(stage_id, {})
        return tuple(sorted(its, key=lambda i: (-weight.get(i, 0.0), i)))

    def is_work(self, node_id: int) -> bool:
        """Whether it is an operator that does something itself."""
        node = self.plan.nodes[node_id]
        operator = operators.of(node.name)
        return not (node.is_cluster or operator.is_wrapper or operator.kind in _FRAMES)

    @cached_property
    def _weights(self) -> Mapping[int, Mapping[int, float]]:
        """By stage, how much of it each of its operators may be: measured, else estimated from its rows."""
        weights: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for (stage_id, _), parts in self.breakdown.weights.items():
            weight = weights[stage_id]
            for subject, ms in parts.items():
                if subject.kind == "operator" and subject.node_id is not None:
                    weight[subject.node_id] += ms
                elif subject.kind == "shared":
                    for node_id, part in self._guesses_of(subject).items():
                        weight[node_id] += part * ms
        return weights

    def guesses(self, nodes: Sequence[int]) -> Mapping[int, float]:
        """How operators that cannot be told apart may share their time, by the rows that each handled: adds up to 1.

        Only ever used to say which one to look at first. Operators whose time is known have none of it.
        """
        for i in nodes:
            if i not in self._handled_by:
                self._handled_by[i] = self._handled(i)
        weights = {i: self._handled_by[i] for i in nodes if self.is_work(i) and i not in self._known}
        whole = sum(weights.values())
        return {i: each / whole for i, each in weights.items()} if whole else dict.fromkeys(weights, 0.0)

    def _guesses_of(self, subject: CostSubject) -> Mapping[int, float]:
        """Those of the operators of a shared account."""
        if subject not in self._guessed:
            self._guessed[subject] = self.guesses(self.breakdown.holds(subject))
        return self._guessed[subject]

    @cached_property
    def _known(self) -> frozenset[int]:
        """Operators of which the time is known; what a native engine measured may be none."""
        found = self.breakdown.operators().items()
        known = (i for i, item in found if item.task_time_ms or (not self.has_ended and item.wall_ms))
        return self.timed.union(known)

    @cached_property
    def timed(self) -> frozenset[int]:
        """Operators of a native engine that measures what each takes."""
        return frozenset(node.id for node in self.stored.plan.graph.nodes if is_timed(node))

    def likely_wall_of(self, node_id: int) -> int:
        """Wall time of an operator: what is known, and its likely part of what it shares with others."""
        shared = (
            round(ms * self._guesses_of(subject).get(node_id, 0.0))
            for ran in self.ran
            if node_id in ran.nodes
            for subject, ms in ran.parts.items()
            if subject.kind == "shared"
        )
        return self.wall_of((node_id,)) + sum(shared)

    def _handled(self, node_id: int) -> float:
        node = self.plan.nodes[node_id]
        read = sum(self.rows(i) or 0 for i in self.plan.inputs(node))
        made = self.rows(node_id) or 0
        kind = operators.of(node.name).kind
        if operators.of(node.name).compares_pairs:
            made += prod(self.rows(i) or 0 for i in self.plan.inputs(node)[:2])
        return (read + made) * _WEIGHTS.get(kind, 1.0) * (_HEAVY if is_heavy(node) else 1.0)

    def stretch(self, ran: Ran) -> float:
        """How many times as long as they worked the tasks of a stage ran: on busy hosts they wait for CPUs.

        The CPU time of Python and of threads of native engines is not known.
        """
        worked = ran.cpu_ms + ran.number("gc_time_ms")
        is_python = any(operators.is_python(self.plan.nodes[i].name) for i in ran.nodes)
        if not worked or is_python or not self.knows_cpu(ran):
            return 1.0
        return max(1.0, min(_MOST_STRETCH, ran.run_ms / worked))

    def rows(self, node_id: int) -> int | None:
        """Rows that a node gives to its consumer."""
        return self.plan.fed_by(node_id).rows

    def block_ms(self, ran: Ran) -> int:
        """Wall time in which a stage wrote shuffles whose blocks are so small that only their number matters."""
        its = (row for row in self.stored.shuffles if ran.stage_id in (row["map_stages"] or ()))
        small = {
            row["node_id"]
            for row in its
            if (row["bytes_written"] or 0) <= _BLOCK * ran.tasks * (row["partitions"] or 0)
            and row["node_id"] is not None
        }
        return sum(ms for subject, ms in ran.parts.items() if subject.node_id in small)

    def takes_long_for_a_row(self, nodes: Collection[int | None], rows: int) -> bool:
        """Whether the own work of an operator, by samples of these nodes, took much CPU time for each of its rows."""
        cpu_ms = sum(
            ran.cpu_ms * ms / max(1, ran.wall_ms)
            for ran in self.ran
            if self.knows_cpu(ran)
            for subject, ms in ran.parts.items()
            if subject.node_id is not None and subject.node_id in nodes
        )
        return rows >= _LEAST_ROWS and 1_000 * cpu_ms >= _SLOW_ROW_US * rows

    def of_kind(self, *kinds: str) -> Iterator[Node]:
        """The nodes of these kinds."""
        return (node for node in self.plan.graph.nodes if operators.of(node.name).kind in kinds)

    def above(self, node_id: int) -> Iterator[int]:
        """The operators that a node's rows go through in the same stage, up to the exchange that takes them."""
        todo, seen = [node_id], {node_id}
        while todo:
            for above in self.plan.consumers(self.plan.nodes[todo.pop()]):
                if above not in seen:
                    seen.add(above)
                    yield above
                    if not operators.of(self.plan.nodes[above].name).is_exchange:
                        todo.append(above)

    def below(self, node_id: int) -> Iterator[Node]:
        """All nodes whose rows reach a node, each once, nearest first."""
        seen = {node_id}
        todo = deque([node_id])
        while todo:
            for child in self.plan.inputs(self.plan.nodes[todo.popleft()]):
                if child not in seen:
                    seen.add(child)
                    todo.append(child)
                    yield self.plan.nodes[child]

    def wall_of(self, nodes: Iterable[int], names: Iterable[str] = ()) -> int:
        """Wall time of these operators and activities, as far as it is known by operator."""
        wanted, activities = set(nodes), set(names)
        return sum(
            ms
            for subject, ms in self.walls.items()
            if (subject.kind == "operator" and subject.node_id in wanted)
            or (subject.kind == "activity" and subject.name in activities)
        )

    def wall_of_writing(self, write: int) -> int:
        """Wall time of a write: encoding rows, and opening, writing and closing files."""
        return self.likely_wall_of(write) + self.wall_of((), ("file_write",))


LEAST_RUN_MS = 1_000
"""Run time of the tasks of a stage, from which on their CPU time says whether they had a processor each."""
_MOST_STRETCH = 3.0
"""Beyond it, tasks wait for more than CPUs."""
_MOST_BESIDE = 100
"""Stages that are considered while another waits, the longest ones: a document may hold anything."""
_BLOCK = 32 << 10
"""Spark's default of spark.shuffle.file.buffer."""
_SLOW_ROW_US = 10
"""CPU time for each row, from which on an operator's own work is what takes long: most take about one microsecond."""
_LEAST_ROWS = 10_000
"""Where there are fewer, compiling the code may take longer than running it."""
_WEIGHTS: Mapping[str, float] = {"join": 3.0, "aggregate": 3.0, "sort": 4.0, "scan": 1.5, "shuffle": 2.0}
_HEAVY = 8.0
_HEAVY_WORDS = (
    *(
        "RLIKE",
        "regexp_",
        "from_json",
        "get_json_object",
        "json_tuple",
        "to_json",
        "from_csv",
        "from_xml",
        "parse_json",
    ),
    *("sha2(", "md5(", "split(", "levenshtein(", "translate(", "aes_", "percentile", "collect_", "lambdafunction"),
)


_PARTIAL = re.compile(r"\bpartial_\w+\(")


def needs_keys(node: Node) -> bool:
    """Whether it works on all rows of a key in one task: a join that shuffles, a window, an aggregation's last part."""
    operator = operators.of(node.name)
    is_join = operator.kind == "join" and not (operator.is_broadcast_join or operator.compares_pairs)
    return (
        is_join
        or (operator.kind == "aggregate" and not _PARTIAL.search(node.simple))
        or "Window" in node.name
        or operators.is_python(node.name)
    )


def is_heavy(node: Node) -> bool:
    """Whether its text has a function that takes long for a row."""
    return operators.of(node.name).kind != "scan" and any(word in node.simple for word in _HEAVY_WORDS)
