"""Why one execution took longer or shorter than another: causes whose amounts add up to the difference.

::

    two executions ──► places: stages matched by their operators' keys, broadcasts, the driver's causes
    a matched stage: wall time = rows x time a row (CPU, GC, spilling, waiting) x imbalance / slots
        ──► the difference divided over these factors (`division`), without a rest
    a place of one execution only ──► another plan
    a cause without a number that moved, and what is too small ──► not explained

docs/why.md has the rules and the codes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError
from joinsight.base.units import bytes_text, duration_text
from joinsight.contract.document import ENDED
from joinsight.plan import operators
from joinsight.present.values import execution_name
from joinsight.tables import Row
from joinsight.why.division import (
    BUSY,
    BUSY_WITHOUT_WAITING,
    CALM,
    USUAL,
    WARMING,
    rounded,
    scatter,
    shares,
)
from joinsight.why.places import RunPlaces, StageRun, follows_cpu, matched
from joinsight.why.switched import can_replay, has_switched, values
from joinsight.why.witnesses import (
    MOVED,
    all_files,
    files_of,
    has_other_cpu,
    has_other_skew,
    other_operators,
    ratio,
    witness,
)

NOT_EXPLAINED = "not_explained"
_ADVICE: Mapping[str, str] = {
    "data": "There was more or less to do: see which source brought it, and whether that was expected.",
    "plan": "Spark ran another plan: look at the settings, hints and sizes that changed (joinsight diff A B).",
    "cpu_per_row": "The same rows took more or less CPU: look at expressions, functions, casts and file formats.",
    "skew": "Look at the most frequent values of the key that this stage reads.",
    "partitions": "There were more or fewer tasks: look at spark.sql.shuffle.partitions, repartition and AQE.",
    "memory": "Look at spark.executor.memory, spark.memory.fraction, and at how much each task keeps.",
    "fetch": "Look at the network and disks of the executors that served these blocks.",
    "contention": "Look at what else used the CPUs and disks of these hosts.",
    "slots": "Look at what else ran in the application, and at how many executors it had.",
    "retry": "Look at why tasks failed, or why executors or their shuffle files were lost.",
    "files": "Compact the files that it reads.",
    "broadcast": "Look at the size of the broadcast and at the driver's memory and network.",
    "driver": "Look at what the driver did: planning, listing files, collecting results, other threads.",
    "commit": "Look at the number of files written, and at the storage.",
    "nested": "Look at the executions that it started.",
    NOT_EXPLAINED: "",
}
"""By code, what to do first."""
CODES = tuple(_ADVICE)
_FACTORS: Mapping[str, str] = {
    "cpu": "cpu_per_row",
    "python": "cpu_per_row",
    "gc": "memory",
    "spill": "memory",
    "fetch": "fetch",
    "write": "fetch",
    "wait": "contention",
}
"""The code of each part of a task's time."""
_LEAST_SHARE = 0.03
"""Share of the difference below which a cause is not named."""
_FILES_MOVED = 2.0
_TASKS_MOVED = 2.0
_UNEVEN = 1.2
"""How much more unequal the tasks of a stage must be."""
_LEAST_REST_MS = 20
_KNOWN = ("plan", "data", "files", "retry", "partitions", "skew")
"""Causes that are known from numbers without scatter: plans, rows, files, attempts, tasks."""
_NO_EFFECTS = ("driver", "broadcast", "commit", "nested")
"""Causes that have no effects which other codes name: their time is the driver's own."""
_EFFECTS = ("memory", "fetch", "contention", "cpu_per_row", "slots", "skew", "partitions", "driver", "broadcast")
_BUSY = 0.6
"""The wait for CPUs to the CPU time of tasks, above which their hosts were busy."""
_BUSIER = 1.75
"""How many times as long as in any known run tasks must take for their CPU time, for busy hosts to be the cause."""
_MORE_WORK = 1.25
"""How many times the CPU time of known runs other work must take, to be more than other times."""
_MOST = 0.45
"""Share of the difference that the first cause must have for runs on busy hosts that did the same work."""
_OTHER_USE = 1.4
"""How many times as many slots one of them must have used, for that to be no scatter."""
_FEW = 5
"""One of how many known runs may be an exception."""
_LEAST_NAMED = 0.2
"""Share of the difference that all causes must explain, for them to be named."""
_OF_DRIVER = ("driver", "broadcast")
_LEAD = 0.3
"""Share of the difference from which on a known cause comes before all others."""
_MOST_EFFECT, _MOST_KNOWN = 0.35, 0.8
"""How large an effect may be, compared with its cause; what is larger is a cause of its own."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the difference; above 0: it made the second execution slower."""

    code: str
    wall_ms: int
    task_ms: int
    place: Mapping[str, object]
    """`operators`: their keys; `stage`: where most of it happened, in the second execution if it is there."""
    evidence: Sequence[str]
    """What moved, a line each."""
    advice: str


@dataclass(frozen=True, slots=True)
class Why:
    """The fields are those of ``joinsight why --json``: docs/why.md."""

    a: str
    b: str
    difference_ms: int
    """How much longer the second took."""
    task_difference_ms: int
    scatter_ms: int
    """How much runs of this query differ without a cause."""
    runs: int
    """Runs from which that is known; 0: it is a guess."""
    is_normal: bool
    """Whether the difference is within the scatter: then nothing is explained."""
    causes: Sequence[Cause]
    """The largest first; their `wall_ms` add up to `difference_ms`, their `task_ms` to `task_difference_ms`."""
    text: str
    limits: Sequence[str]
    """What could not be divided, and why."""


@dataclass
class _Sum:
    """What was found for a code."""

    wall: float = 0.0
    task: float = 0.0
    places: dict[tuple[int | None, tuple[str, ...]], float] = field(default_factory=lambda: defaultdict(float))
    evidence: dict[str, float] = field(default_factory=dict)
    """What moved, with the time that it stands for."""


def explain(a: StoredPlan, b: StoredPlan) -> Why:
    """Why `b` took longer or shorter than `a`. Raises `JoinsightError` unless both have ended."""
    for each in (a, b):
        if each.execution["state"] not in ENDED or each.execution["duration_ms"] is None:
            name = execution_name(each.execution)
            raise JoinsightError(f"Execution {name} is {each.execution['state']}: its time cannot be divided.")
    return _Division(RunPlaces(a), RunPlaces(b)).result()


class _Division:
    def __init__(self, a: RunPlaces, b: RunPlaces) -> None:
        self.a, self.b = a, b
        self.found: dict[str, _Sum] = defaultdict(_Sum)
        self.renamed: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        """By what replays call it, what else an amount is."""
        self.pairs = list(matched(a, b))
        first, last = a.stored.execution, b.stored.execution
        self.difference = last["duration_ms"] - first["duration_ms"]
        self.tasks = sum(s.run_ms for s in b.stages) - sum(s.run_ms for s in a.stages)
        is_other = a.operators != b.operators
        self.is_another_plan = is_other and first["plan_fingerprint"] != last["plan_fingerprint"]
        attempts = [(sum(s.repeated for s in its.stages), sum(s.failed for s in its.stages)) for its in (a, b)]
        self.is_retried = attempts[0] != attempts[1]
        self.is_another_shape = a.skeleton != b.skeleton
        """Whether joins or exchanges differ; else only expressions do, which take more or less CPU a row."""
        slots = [each.known_slots for each in (a, b)]
        self.has_other_slots = min(slots) > 0 and ratio(*slots) >= MOVED
        self.is_edited = is_other and first["query_shape"] != last["query_shape"]
        read = [sum(s.total("input_rows") for s in each.stages) for each in (a, b)]
        self.is_more_data = ratio(*read) >= MOVED

    def result(self) -> Why:
        shorter = min(each.stored.execution["duration_ms"] for each in (self.a, self.b))
        recordings = [each.stored.recording for each in (self.a, self.b)]
        self.has_switched = has_switched(self.pairs, shorter) and all(map(can_replay, recordings))
        for one, other in self.pairs:
            if one is not None and other is not None:
                self._stage(one, other)
            else:
                self._only(one or other, 1 if one is None else -1)
        self._rests()
        self._broadcasts()
        if self.has_switched:
            self._replayed()
        for code, settings in (("plan", self.settings), ("memory", self.memory_settings)):
            if code in self.found:
                self.found[code].evidence |= dict.fromkeys(settings, float("inf"))
        first = self._fold()
        limits = self._limits()
        spread, runs = self._scatter(shorter)
        is_normal = abs(self.difference) <= spread and not self._is_more_than_busy(shorter, first)
        is_normal = is_normal and not self._is_more_work(shorter) and not self._is_steady_cause(shorter, first)
        if first == "contention" and self.difference > 0 and self.is_busy and not self.is_other_work:
            least = scatter([], shorter, CALM if runs else BUSY)[0]
            spread = least if self.is_busier else max(spread, self.difference)
            is_normal = self.difference <= spread
        causes = self._causes(is_named=not is_normal and not self._is_of_busy_hosts(first))
        why = Why(
            a=execution_name(self.a.stored.execution),
            b=execution_name(self.b.stored.execution),
            difference_ms=self.difference,
            task_difference_ms=self.tasks,
            scatter_ms=round(spread),
            runs=runs,
            is_normal=is_normal,
            causes=causes,
            text="",
            limits=limits,
        )
        return replace(why, text=_text(why))

    def _add(
        self,
        code: str,
        wall: float,
        task: float = 0.0,
        stage: StageRun | None = None,
        evidence: str = "",
        keys: Sequence[str] = (),
    ) -> None:
        its = self.found[code]
        its.wall += wall
        its.task += task
        its.places[None if stage is None else stage.stage_id, tuple(stage.largest_operators if stage else keys)] += wall
        if evidence:
            its.evidence[evidence] = its.evidence.get(evidence, 0.0) + wall

    # A stage of both

    def _stage(self, one: StageRun, other: StageRun) -> None:
        retried = self._retried(one, other)
        if retried:
            self._add("retry", self._wall_ms(other) - self._wall_ms(one), other.run_ms - one.run_ms, other, retried)
            return
        is_changed = one.keys != other.keys and self.is_another_shape
        by_files, by_tasks = self._files(one, other), self._tasks(one, other)
        of_all: dict[str, float] = defaultdict(float)
        task_rows = 0.0
        follows, is_more = follows_cpu(one, other)
        is_stretched = follows and is_more
        for name in one.parts:
            if is_stretched and name == "wait":
                continue  # a part of the CPU time
            walls = [
                {
                    "rows": float(max(1, its.handled)),
                    "per_row": its.parts[name] / max(1, its.handled),
                    "stretch": its.stretch if is_stretched and name == "cpu" else 1.0,
                    "spread": self._wall_ms(its) * its.slots / its.run_ms if its.run_ms else 0.0,
                    "slots": 1 / its.slots,
                }
                for its in (one, other)
            ]
            wall = shares(*walls)
            task = shares(*({key: each[key] for key in ("rows", "per_row", "stretch")} for each in walls))
            for part, factor in (("cpu" if follows and name == "wait" else name, "per_row"), ("wait", "stretch")):
                code = known = "plan" if is_changed and part in ("cpu", "wait", "write") else _FACTORS[part]
                if by_files and code in ("cpu_per_row", "contention"):
                    code = "files"
                elif by_tasks and code != "plan":
                    code = "partitions"
                if code != known:
                    self.renamed[known][code] += wall[factor]
                if wall[factor] or task[factor]:
                    self._add(code, wall[factor], task[factor], other, witness(code, one, other))
            for factor in ("rows", "spread", "slots"):
                of_all[factor] += wall[factor]
            task_rows += task["rows"]
        if self.is_another_shape and not self.is_more_data:
            self._add("plan", of_all["rows"], task_rows, other, other_operators(one, other))
        else:
            self._add("data", of_all["rows"], task_rows, other, self._more_rows(one, other))
        spread = self._spread_code(one, other, of_all["spread"])
        self._add(spread, of_all["spread"], 0, other, witness(spread, one, other))
        self._add("slots", of_all["slots"], 0, other, witness("slots", one, other))

    def _wall_ms(self, stage: StageRun) -> float:
        """How long the execution waited for a stage; if the path switched, how long its tasks need on all slots."""
        return stage.run_ms / stage.slots if self.has_switched else float(stage.wall_ms)

    def _replayed(self) -> None:
        """The path went through other stages: the amounts are what the causes change in replays."""
        walls = values(self.a, self.b, self.pairs)
        for old, as_new in self.renamed.items():
            whole = sum(map(abs, as_new.values())) + (abs(self.found[old].wall) if old in self.found else 0.0)
            amount = walls.get(old, 0.0)
            for new, wall in as_new.items():
                share = amount * abs(wall) / whole if whole else 0.0
                walls[new] = walls.get(new, 0.0) + share
                walls[old] = walls.get(old, 0.0) - share
        ends = [each.rests.get("finish", 0) for each in (self.a, self.b)]
        walls["driver"] = walls.get("driver", 0.0) + ends[1] - ends[0]
        for code, its in self.found.items():
            if code in ("commit", "nested"):
                continue
            scale = walls.get(code, 0.0) / its.wall if its.wall else 0.0
            its.evidence = {text: abs(scale) * wall for text, wall in its.evidence.items()}
            its.places = defaultdict(float, {place: abs(scale) * wall for place, wall in its.places.items()})
            its.wall = walls.get(code, 0.0)

    def _spread_code(self, one: StageRun, other: StageRun, wall: float) -> str:
        """Why a stage's slots were used more or less evenly, for `wall` more time."""
        if self._files(one, other):
            return "files"
        is_short = min(its.tasks - its.slots for its in (one, other)) < 0
        if self._tasks(one, other) or (ratio(one.tasks, other.tasks) >= 1.5 and is_short):
            return "partitions"
        if has_other_skew(one, other):
            return "skew"
        tail, uneven = other.tail_ms - one.tail_ms, other.longest_to_mean / one.longest_to_mean
        if wall < 0:
            tail, uneven = -tail, 1 / uneven
        if uneven >= _UNEVEN and tail >= 0.3 * abs(other.wall_ms - one.wall_ms):
            return "skew"
        return "plan" if self.is_another_shape else "slots"  # other stages run at the same time

    @staticmethod
    def _retried(one: StageRun, other: StageRun) -> str:
        """What one of them repeated more often; empty if neither did, or if it also had other rows."""
        if one.repeated != other.repeated:
            return f"stage {other.stage_id} had {other.repeated} repeated attempts, {one.repeated} before"
        if one.failed != other.failed and ratio(one.handled, other.handled) < 1.5:
            return f"stage {other.stage_id} had failed tasks: {other.failed}, before {one.failed}"
        return ""

    @staticmethod
    def _files(one: StageRun, other: StageRun) -> bool:
        """Whether it read about as many rows from, or wrote to, a very different number of files."""
        files = files_of(one, other)
        rows = one.total("input_rows"), other.total("input_rows")
        return min(files) > 0 and ratio(*files) >= _FILES_MOVED and ratio(*rows) < 1.5

    @staticmethod
    def _tasks(one: StageRun, other: StageRun) -> bool:
        """Whether about as many rows were divided as evenly over a very different number of tasks, for its slots."""
        tasks = [its.tasks for its in (one, other)], [its.tasks / its.slots for its in (one, other)]
        is_moved = min(ratio(*each) for each in tasks) >= _TASKS_MOVED
        return is_moved and ratio(one.handled, other.handled) < 1.5 and not has_other_skew(one, other)

    @staticmethod
    def _more_rows(one: StageRun, other: StageRun) -> str:
        if ratio(one.handled, other.handled) < 1.02:
            return ""
        which = ""
        for node_id in other.view.bill.ran(other.stage_id):
            node = other.view.facts.nodes[node_id]
            if operators.of(node.name).kind == "scan":
                which = f" ({node.name.strip()})"
        return f"stage {other.stage_id}{which} handled {other.handled:,} rows, {one.handled:,} before"

    # What only one has

    def _only(self, stage: StageRun | None, sign: int) -> None:
        if stage is None:
            return
        which = "only in the second" if sign > 0 else "only in the first"
        names = ", ".join(dict.fromkeys(stage.view.facts.nodes[i].name.strip() for i in self._nodes(stage)[:3]))
        text = f"stage {stage.stage_id} ({names}) ran {which}"
        self._add("plan", sign * stage.wall_ms, sign * stage.run_ms, stage, text)

    @staticmethod
    def _nodes(stage: StageRun) -> Sequence[int]:
        return [i for i in stage.view.bill.ran(stage.stage_id) if stage.view.is_work(i)]

    # No tasks

    def _rests(self) -> None:
        first, last = self.a.rests, self.b.rests
        for cause in {*first, *last}:
            moved = last.get(cause, 0) - first.get(cause, 0)
            text = f"{cause}: {duration_text(last.get(cause, 0))}, {duration_text(first.get(cause, 0))} before"
            text = text if abs(moved) >= _LEAST_REST_MS else ""
            code = {"waiting": "slots", "commit": "commit", "nested": "nested", "retry": "retry"}.get(cause, "driver")
            if cause == "waiting" and self.is_retried:
                code = "retry"  # for another executor
            if cause == "prepare" and ratio(*(all_files(each) for each in (self.a, self.b))) >= _FILES_MOVED:
                code = "files"
            self._add(code, moved, 0, None, text)

    def _broadcasts(self) -> None:
        first, last = self.a.broadcasts, self.b.broadcasts
        for key in {*first, *last}:
            (wall_a, bytes_a), (wall_b, bytes_b) = first.get(key, (0, 0)), last.get(key, (0, 0))
            if not (wall_a and wall_b):
                code = "plan" if self.is_another_plan else "broadcast"
                sizes = f"{bytes_text(bytes_b)}, {bytes_text(bytes_a)} before"
                self._add(code, wall_b - wall_a, 0, None, f"a broadcast of {sizes}", [key] if key else [])
                continue
            parts = shares(
                {"size": float(max(1, bytes_a)), "per_byte": wall_a / max(1, bytes_a)},
                {"size": float(max(1, bytes_b)), "per_byte": wall_b / max(1, bytes_b)},
            )
            sizes = f"the broadcast has {bytes_text(bytes_b)}, {bytes_text(bytes_a)} before"
            moved = ratio(bytes_a, bytes_b) >= MOVED
            keys = [key] if key else []
            self._add("data" if moved else "broadcast", parts["size"], 0, None, sizes if moved else "", keys)
            took = f"the broadcast took {duration_text(wall_b)}, {duration_text(wall_a)} before"
            self._add("broadcast", parts["per_byte"], 0, None, took, keys)

    # Together

    def _fold(self) -> str:
        """Count the side effects of the first cause with it: amounts that are small next to its own. Returns it."""
        amounts = {code: abs(its.wall) for code, its in self.found.items() if its.wall}
        named = [code for code in amounts if _evidence(self.found[code]) and code not in self.of_warming]
        if not named:
            return NOT_EXPLAINED
        possible = [*_KNOWN, *["cpu_per_row"] * self.is_edited, *["memory"] * bool(self.memory_settings)]
        possible += ["slots"] * (self.has_other_slots or self.has_other_use)
        known = [code for code in named if code in possible and amounts[code] >= _LEAD * abs(self.difference)]
        lead = max(known or named, key=lambda code: amounts[code])
        effects = _EFFECTS if lead in ("data", *_NO_EFFECTS) or self.is_more_data else ("data", *_EFFECTS)
        for code in () if lead in _NO_EFFECTS else effects:
            is_driver = code in _OF_DRIVER and lead != "contention"
            most = amounts[lead] * (_MOST_EFFECT if is_driver or not (known or lead == "contention") else _MOST_KNOWN)
            if code != lead and amounts.get(code, most + 1) <= most:
                its = self.found.pop(code)
                self.found[lead].wall += its.wall
                self.found[lead].task += its.task
        return lead

    def _limits(self) -> list[str]:
        found = []
        for each in (self.a, self.b):
            e = each.stored.execution
            name = execution_name(e)
            if not each.stored.segments:
                found.append(f"{name} has no critical path: its stages are unknown")
            found += [f"{name} is partial: {reason}" for reason in e["incomplete"] or ()]
            if e["state"] != "succeeded":
                found.append(f"{name} {e['state']}")
        if self.a.stored.execution["query_shape"] != self.b.stored.execution["query_shape"]:
            seconds = sum(x.wall_ms for x, y in self.pairs if x and y)
            whole = sum(s.wall_ms for s in self.a.stages)
            share = seconds / whole if whole else 0.0
            found.append(f"these are different queries: {share:.0%} of the stages' time was matched")
        if self.is_warming:
            name = execution_name((self.b if self.difference > 0 else self.a).stored.execution)
            found.append(f"{name} was the first run of the query in its application, which takes longer")
        if self._versions:
            found.append(f"{self._versions}: keys of operators, and what is measured at them, may differ")
        return found

    @cached_property
    def _versions(self) -> str:
        """Versions of Spark that differ; empty if they do not, or are unknown."""
        first, last = (each.stored.spark_version for each in (self.a, self.b))
        return f"Spark is {last}, {first} before" if first and last and first != last else ""

    def _scatter(self, shorter_ms: int) -> tuple[float, int]:
        """How much runs of the query differ without a cause, and from how many runs that is known."""
        floor = USUAL if self.is_other_work else WARMING if self.is_warming else BUSY if self.is_busy else CALM
        return scatter([row["duration_ms"] for row in self.alike], shorter_ms, floor)

    def _is_more_than_busy(self, shorter_ms: int, lead: str) -> bool:
        """Whether the difference without the time in which tasks waited for CPUs, which scatters most, is a cause's."""
        first, last = (each.stored.execution["duration_ms"] - self._waited(each) for each in (self.a, self.b))
        slots = max((s.slots for s in self.a.stages), default=1)
        quiet = [row["duration_ms"] - (row.get("waited_ms") or 0) / slots for row in self.alike]
        calm = BUSY_WITHOUT_WAITING if self.is_busy else CALM
        floor = USUAL if self.is_other_work else WARMING if self.is_warming else calm
        least = scatter(quiet, shorter_ms, floor)[0]
        is_one = self.is_other_work or abs(self.found[lead].wall) > least  # many small ones are those of a busy host
        return bool(is_one and abs(last - first) > least)

    @cached_property
    def is_busy(self) -> bool:
        """Whether tasks of both executions waited for CPUs and disks for much of their time."""
        return self._is_busy(self.a) and self._is_busy(self.b)

    @staticmethod
    def _is_busy(run: RunPlaces) -> bool:
        cpu, python, wait = (sum(s.parts[name] for s in run.stages) for name in ("cpu", "python", "wait"))
        return wait / max(1.0, cpu + python) > _BUSY

    @cached_property
    def is_busier(self) -> bool:
        """Whether tasks waited plainly longer for their CPU time than in the first execution and all known runs."""
        first, last = (
            _stretch(*(sum(getattr(s, name) for s in its.stages) for name in ("cpu_ms", "waited_ms")))
            for its in (self.a, self.b)
        )
        known = [_stretch(row["cpu_time_ms"], row["waited_ms"]) for row in self.alike if row.get("cpu_time_ms")]
        return last >= _BUSIER * max([first, *known])

    def _is_more_work(self, shorter_ms: int) -> bool:
        """Whether other work took other CPU time, which scatters less than wall time, and it took as much longer."""
        first, last = (sum(s.parts["cpu"] + s.parts["python"] for s in its.stages) for its in (self.a, self.b))
        known = sorted([first, *(row["cpu_time_ms"] for row in self.alike if row.get("cpu_time_ms"))])
        few = len(known) // _FEW
        is_more = last > _MORE_WORK * known[-1 - few] if self.difference > 0 else _MORE_WORK * last < known[few]
        return self.is_other_work and is_more and abs(self.difference) > USUAL.guessed * shorter_ms

    def _is_steady_cause(self, shorter_ms: int, lead: str) -> bool:
        """Whether the cause is a commit, or that far fewer slots were used: both scatter less than wall time."""
        if lead == "commit":
            its = abs(self.found[lead].wall)
            return its >= _MOST * abs(self.difference) and its > CALM.guessed * shorter_ms
        is_long = abs(self.difference) > USUAL.guessed * shorter_ms
        return lead in ("slots", "skew", "partitions") and self.has_other_use and is_long

    @cached_property
    def has_other_use(self) -> bool:
        """Whether the slower of them used far fewer slots while its stages ran."""
        first, last = (
            sum(s.run_ms for s in its.stages) / max(1, sum(s.wall_ms for s in its.stages)) for its in (self.a, self.b)
        )
        return ratio(first, last) >= _OTHER_USE and (first > last) == (self.difference > 0)

    @staticmethod
    def _waited(run: RunPlaces) -> float:
        """Wall time in which tasks waited for CPUs and disks, as if all slots always ran."""
        return sum(s.parts["wait"] / s.slots for s in run.stages)

    @cached_property
    def is_warming(self) -> bool:
        """Whether the slower of them was the first run of the query in its application, which compiles code, and the
        other was not.
        """
        slower, other = (self.b, self.a) if self.difference > 0 else (self.a, self.b)
        return bool(self._is_first(slower.stored)) and self._is_first(other.stored) is False

    @property
    def of_warming(self) -> Sequence[str]:
        """Causes that only a first run in an application has, of two runs with the same query and plan."""
        is_same = not (self.is_edited or self.is_another_plan)
        return ("cpu_per_row", "driver") if self.is_warming and is_same else ()

    def _is_first(self, run: StoredPlan) -> bool | None:
        earlier = [row.get("application_id") for its in (self.a, self.b) for row in its.stored.earlier]
        if not any(earlier):
            return None  # unknown
        return run.execution["application_id"] not in [row["application_id"] for row in run.earlier]

    @cached_property
    def alike(self) -> Sequence[Row]:
        """Earlier runs that did the work of the first execution."""
        return max(([*filter(self._is_alike, its.stored.earlier)] for its in (self.b, self.a)), key=len)

    def _is_alike(self, earlier: Row) -> bool:
        """Whether an earlier run had the plan of the first execution and about as many rows, as far as is known."""
        if earlier["duration_ms"] is None:
            return False
        plan, rows = earlier.get("plan_fingerprint"), earlier.get("input_rows")
        is_plan = plan is None or plan == self.a.stored.execution["plan_fingerprint"]
        return is_plan and (rows is None or ratio(rows, sum(s.total("input_rows") for s in self.a.stages)) < MOVED)

    @cached_property
    def is_other_work(self) -> bool:
        """Whether a number with little scatter moved: plan, rows, files, tasks, attempts, settings, versions, CPU,
        slots.
        """
        if self.is_another_plan or self.is_retried or self.settings or self.memory_settings or self.has_other_slots:
            return True
        if any(one is None or other is None for one, other in self.pairs):
            return True
        is_known = self.is_edited or not self.is_warming
        if any(x and y and (has_other_skew(x, y) or (is_known and has_other_cpu(x, y))) for x, y in self.pairs):
            return True
        names = ("input_rows", "shuffle_read_rows", "succeeded_tasks")
        totals = [[sum(s.total(name) for s in its.stages) for name in names] for its in (self.a, self.b)]
        files = [all_files(its) for its in (self.a, self.b)]
        return any(ratio(*each) >= MOVED for each in (*zip(*totals, strict=True), files))

    def _is_of_busy_hosts(self, lead: str) -> bool:
        """Whether a bit of everything took longer on busy hosts, or tasks or the driver waited less than on these."""
        is_less = lead in ("contention", "driver") and self.difference < 0 and self._is_busy(self.a)
        is_most = abs(self.found[lead].wall) >= _MOST * abs(self.difference) if lead in self.found else False
        return not self.is_other_work and (is_less or (self.is_busy and not is_most))

    def _causes(self, is_named: bool) -> list[Cause]:
        kept: dict[str, _Sum] = {}
        is_partial = any(each.stored.execution["incomplete"] or not each.stored.segments for each in (self.a, self.b))
        for code, its in self.found.items():
            is_small = abs(its.wall) < max(_LEAST_SHARE * abs(self.difference), 1)
            is_left = is_small or is_partial or code in (NOT_EXPLAINED, *self.of_warming)
            if is_named and not is_left and _evidence(its):
                kept[code] = its
        if sum(its.wall for its in kept.values()) * self.difference < _LEAST_NAMED * self.difference**2:
            kept = {}
        walls = rounded({code: its.wall for code, its in kept.items()}, self.difference, NOT_EXPLAINED)
        tasks = rounded({code: its.task for code, its in kept.items()}, self.tasks, NOT_EXPLAINED)
        causes = [
            Cause(code, wall, tasks[code], _place(kept.get(code)), _evidence(kept.get(code)), _ADVICE[code])
            for code, wall in walls.items()
            if code != NOT_EXPLAINED or wall or tasks[code]
        ]
        return sorted(causes, key=lambda each: (each.code == NOT_EXPLAINED, -abs(each.wall_ms)))

    @cached_property
    def memory_settings(self) -> list[str]:
        """Settings of the application's memory that differ."""
        first, last = (each.stored.settings for each in (self.a, self.b))
        return [
            f"{name} is {last.get(name, 'not set')}, {first.get(name, 'not set')} before"
            for name in sorted({*first, *last} if first and last else ())
            if "memory" in name and first.get(name) != last.get(name)
        ]

    @cached_property
    def settings(self) -> list[str]:
        """Accepted advice that only one of them follows, versions and settings that differ."""
        first, last = (each.stored.execution["configuration"] or {} for each in (self.a, self.b))
        before, after = ([each.text for each in run.stored.not_followed] for run in (self.a, self.b))
        return [
            *(f"it runs without accepted advice: {each}" for each in after if each not in before),
            *(f"it follows accepted advice now: {each}" for each in before if each not in after),
            *[self._versions] * bool(self._versions),
            *(
                f"{name} is {last.get(name, 'not set')}, {first.get(name, 'not set')} before"
                for name in sorted({*first, *last})
                if first.get(name) != last.get(name)
            ),
        ]


def _stretch(cpu_ms: float, waited_ms: float) -> float:
    """How many times their CPU time tasks took for it."""
    return (cpu_ms + waited_ms) / max(1.0, cpu_ms)


def _place(its: _Sum | None) -> Mapping[str, object]:
    if its is None or not its.places:
        return {"operators": [], "stage": None}
    stage, keys = max(its.places, key=lambda place: abs(its.places[place]))
    return {"operators": list(keys), "stage": stage}


_MOST_EVIDENCE = 4


def _evidence(its: _Sum | None) -> Sequence[str]:
    if its is None:
        return []
    same = {text: abs(wall) for text, wall in its.evidence.items() if wall * its.wall >= 0 or math.isinf(wall)}
    return sorted(same, key=lambda text: -same[text])[:_MOST_EVIDENCE]


def _text(why: Why) -> str:
    """One or two sentences."""
    amount = duration_text(abs(why.difference_ms))
    how = "longer" if why.difference_ms >= 0 else "less"
    known = f"from {why.runs} runs" if why.runs else "a guess, since too few earlier runs are known"
    if why.is_normal:
        return (
            f"{why.b} took {amount} {how} than {why.a}: normal scatter, no cause. Runs of this query differ by up to"
            f" {duration_text(why.scatter_ms)} ({known})."
        )
    named = [each for each in why.causes if each.code != NOT_EXPLAINED and each.wall_ms * why.difference_ms > 0]
    if not named:
        return f"{why.b} took {amount} {how} than {why.a}, and nothing that moved explains it."
    first = named[0]
    more = f" ({first.evidence[0]})" if first.evidence else ""
    sign = "" if first.wall_ms >= 0 else "-"
    return (
        f"{why.b} took {amount} {how} than {why.a}. The largest cause is {first.code}:"
        f" {sign}{duration_text(abs(first.wall_ms))}{more}."
    )


__all__ = ["CODES", "Cause", "Why", "explain"]
