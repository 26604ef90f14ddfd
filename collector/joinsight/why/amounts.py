"""How much each cause has of the difference between two executions, place by place."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.present.cost import UNATTRIBUTED
from joinsight.why.compared import Compared
from joinsight.why.division import shares
from joinsight.why.places import StageRun, follows_cpu
from joinsight.why.switched import values
from joinsight.why.witnesses import MOVED, all_files, files_of, has_other_skew, other_operators, ratio, witness

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
_FILES_MOVED = 2.0
_TASKS_MOVED = 2.0
_LEAST_SPILLED = 10 << 20
_UNEVEN = 1.2
"""How much more unequal the tasks of a stage must be."""
_DELAYED, _LEAST_DELAY_MS = 3.0, 500.0
"""How many times as long tasks must wait for the driver's scheduler, and how much longer a slot, for slots to be idle
because of the driver."""
_RESTS = {**UNATTRIBUTED, "retry": "repeated attempts of stages"}
"""What each cause of time in which no first attempt ran is called."""
_LEAST_REST_MS = 20
_MOST_EVIDENCE = 4


@dataclass
class Amount:
    """What was found for a code."""

    wall: float = 0.0
    task: float = 0.0
    places: dict[tuple[int | None, tuple[str, ...]], float] = field(default_factory=lambda: defaultdict(float))
    evidence: dict[str, float] = field(default_factory=dict)
    """What moved, with the time that it stands for."""

    @property
    def place(self) -> Mapping[str, object]:
        """Where most of it was."""
        if not self.places:
            return {"operators": [], "stage": None}
        stage, keys = max(self.places, key=lambda place: abs(self.places[place]))
        return {"operators": list(keys), "stage": stage}

    @property
    def moved(self) -> Sequence[str]:
        """What moved with it, the largest first."""
        same = {text: abs(wall) for text, wall in self.evidence.items() if wall * self.wall >= 0 or math.isinf(wall)}
        return sorted(same, key=lambda text: -same[text])[:_MOST_EVIDENCE]


class Amounts:
    """By code, what was found."""

    def __init__(self, both: Compared) -> None:
        self.both = both
        self.found: dict[str, Amount] = defaultdict(Amount)
        self.renamed: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        """By what replays call it, what else an amount is."""
        for one, other in both.pairs:
            if one is not None and other is not None:
                self._stage(one, other)
            else:
                self._only(one or other, 1 if one is None else -1)
        self._rests()
        self._broadcasts()
        if both.has_switched:
            self._replayed()
        for code, settings in (("plan", both.settings), ("memory", both.memory_settings)):
            if code in self.found:
                self.found[code].evidence |= dict.fromkeys(settings, float("inf"))

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

    def _stage(self, one: StageRun, other: StageRun) -> None:
        retried = self._retried(one, other)
        if retried:
            self._add("retry", self._wall_ms(other) - self._wall_ms(one), other.run_ms - one.run_ms, other, retried)
            return
        is_changed = self.both.is_another_engine or (one.keys != other.keys and self.both.is_another_shape)
        by_files, by_tasks = self._files(one, other), self._tasks(one, other)
        by_spilling = self._spilling(one, other)
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
                elif by_spilling and code in ("cpu_per_row", "contention"):
                    code = "memory"
                if code != known:
                    self.renamed[known][code] += wall[factor]
                if wall[factor] or task[factor]:
                    self._add(code, wall[factor], task[factor], other, witness(code, one, other))
            for factor in ("rows", "spread", "slots"):
                of_all[factor] += wall[factor]
            task_rows += task["rows"]
        if (self.both.is_another_shape or self.both.is_another_engine) and not self.both.is_more_data:
            self._add("plan", of_all["rows"], task_rows, other, other_operators(one, other))
        else:
            self._add("data", of_all["rows"], task_rows, other, self._more_rows(one, other))
        spread = self._spread_code(one, other, of_all["spread"])
        self._add(spread, of_all["spread"], 0, other, witness(spread, one, other))
        self._add("slots", of_all["slots"], 0, other, witness("slots", one, other))

    def _wall_ms(self, stage: StageRun) -> float:
        """How long the execution waited for a stage; if the path switched, how long its tasks need on all slots."""
        return stage.run_ms / stage.slots if self.both.has_switched else float(stage.wall_ms)

    def _replayed(self) -> None:
        """The path went through other stages: the amounts are what the causes change in replays."""
        walls = values(self.both.a, self.both.b, self.both.pairs)
        for old, as_new in self.renamed.items():
            whole = sum(map(abs, as_new.values())) + (abs(self.found[old].wall) if old in self.found else 0.0)
            amount = walls.get(old, 0.0)
            for new, wall in as_new.items():
                share = amount * abs(wall) / whole if whole else 0.0
                walls[new] = walls.get(new, 0.0) + share
                walls[old] = walls.get(old, 0.0) - share
        ends = [each.rests.get("finish", 0) for each in (self.both.a, self.both.b)]
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
        delay = other.delay_ms / other.slots - one.delay_ms / one.slots
        is_delayed = ratio(one.delay_ms, other.delay_ms) >= _DELAYED and abs(delay) >= _LEAST_DELAY_MS
        if is_delayed and delay * wall > 0 and abs(delay) >= abs(wall) / 2:
            return "driver"
        tail, uneven = other.tail_ms - one.tail_ms, other.longest_to_mean / one.longest_to_mean
        if wall < 0:
            tail, uneven = -tail, 1 / uneven
        if uneven >= _UNEVEN and tail >= 0.3 * abs(other.wall_ms - one.wall_ms):
            return "skew"
        return "plan" if self.both.is_another_shape else "slots"  # other stages run at the same time

    @staticmethod
    def _retried(one: StageRun, other: StageRun) -> str:
        """What one of them repeated more often; empty if neither did, or if it also had other rows."""
        if one.repeated != other.repeated:
            return f"repeated attempts of stage {other.stage_id}: {other.repeated}, before {one.repeated}"
        if one.failed != other.failed and ratio(one.handled, other.handled) < 1.5:
            return f"failed tasks of stage {other.stage_id}: {other.failed}, before {one.failed}"
        return ""

    @staticmethod
    def _files(one: StageRun, other: StageRun) -> bool:
        """Whether the one that took longer read about as many rows from, or wrote to, far more files."""
        files = files_of(one, other)
        rows = one.total("input_rows"), other.total("input_rows")
        is_same_way = (files[1] - files[0]) * (other.run_ms - one.run_ms) > 0
        return min(files) > 0 and ratio(*files) >= _FILES_MOVED and ratio(*rows) < 1.5 and is_same_way

    @staticmethod
    def _tasks(one: StageRun, other: StageRun) -> bool:
        """Whether about as many rows were divided as evenly over a very different number of tasks, for its slots."""
        tasks = [its.tasks for its in (one, other)], [its.tasks / its.slots for its in (one, other)]
        is_moved = min(ratio(*each) for each in tasks) >= _TASKS_MOVED
        return is_moved and ratio(one.handled, other.handled) < 1.5 and not has_other_skew(one, other)

    @staticmethod
    def _spilling(one: StageRun, other: StageRun) -> bool:
        """Whether only one of them spilled, about as many rows: its tasks also sorted again, and waited for disks."""
        spilled = [its.total("memory_spilled_bytes") for its in (one, other)]
        return max(spilled) >= _LEAST_SPILLED and not min(spilled) and ratio(one.handled, other.handled) < 1.5

    @staticmethod
    def _more_rows(one: StageRun, other: StageRun) -> str:
        if ratio(one.handled, other.handled) < 1.02:
            return ""
        if other.filtered != 1:
            return f"filters of stage {other.stage_id} passed {other.passed:,} rows, {one.passed:,} before"
        which = ""
        for node_id in other.view.breakdown.ran(other.stage_id):
            node = other.view.plan.nodes[node_id]
            if operators.of(node.name).kind == "scan":
                which = f" ({node.name.strip()})"
        return f"stage {other.stage_id}{which} handled {other.handled:,} rows, {one.handled:,} before"

    def _only(self, stage: StageRun | None, sign: int) -> None:
        if stage is None:
            return
        which = "only in the second" if sign > 0 else "only in the first"
        names = ", ".join(dict.fromkeys(stage.view.plan.nodes[i].name.strip() for i in self._nodes(stage)[:3]))
        text = f"stage {stage.stage_id} ({names or 'without operators'}) ran {which}"
        is_same = self.both.is_more_data and not self.both.is_another_plan  # Spark samples again to sort more data
        self._add("data" if is_same else "plan", sign * stage.wall_ms, sign * stage.run_ms, stage, text)

    @staticmethod
    def _nodes(stage: StageRun) -> Sequence[int]:
        return [i for i in stage.view.breakdown.ran(stage.stage_id) if stage.view.is_work(i)]

    def _rests(self) -> None:
        first, last = self.both.a.rests, self.both.b.rests
        for cause in {*first, *last}:
            moved = last.get(cause, 0) - first.get(cause, 0)
            took, before = (duration_text(its.get(cause, 0)) for its in (last, first))
            text = f"{_RESTS.get(cause, cause)}: {took}, {before} before" if abs(moved) >= _LEAST_REST_MS else ""
            code = {"waiting": "slots", "commit": "commit", "nested": "nested", "retry": "retry"}.get(cause, "driver")
            if cause == "waiting" and self.both.is_retried:
                code = "retry"  # for another executor
            if cause == "prepare" and ratio(*(all_files(each) for each in (self.both.a, self.both.b))) >= _FILES_MOVED:
                code = "files"
            self._add(code, moved, 0, None, text)

    def _broadcasts(self) -> None:
        first, last = self.both.a.broadcasts, self.both.b.broadcasts
        for key in {*first, *last}:
            (wall_a, bytes_a), (wall_b, bytes_b) = first.get(key, (0, 0)), last.get(key, (0, 0))
            if not (wall_a and wall_b) or self.both.is_another_engine:
                code = "plan" if self.both.is_another_plan else "broadcast"
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


__all__ = ["Amount", "Amounts"]
