"""Divides the difference between two executions whose critical paths go through different stages, by replays.

If another stage became the longest, the differences of stages on the path mislead. Here a cause gets what changes when
only it comes from the second execution: the Shapley value over all sets of causes, each evaluated by scheduling an
execution again with the causes of the set as in the second execution and all others as in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import factorial

from joinsight.analysis.replay import Recording
from joinsight.timing.replay import Replay, ReplayStage, TaskModel
from joinsight.why.places import RunPlaces, StageRun, follows_cpu

Pair = tuple[StageRun | None, StageRun | None]
GROUPS = (
    *("data", "cpu_per_row", "memory", "fetch", "contention"),
    *("skew", "partitions", "slots", "driver", "broadcast", "plan"),
)
"""The causes that are told apart; `plan` is which stages there are, and which wait for which."""
_PARTS: Mapping[str, Sequence[str]] = {
    "cpu_per_row": ("cpu", "python"),
    "memory": ("gc", "spill"),
    "fetch": ("fetch", "write"),
    "contention": ("wait",),
}
_OF_TASKS = ("data", *_PARTS, "skew", "partitions", "slots")
"""Groups that change the tasks of a stage."""
_LEAST_PART, _MOST_LEFT = 0.1, 0.1
"""A stage that has this share of an execution's time and in the other one at most this share of its own makes a switch.
"""
_MOST_ERROR = 0.15
"""How much of a replay may be wrong, for its result to be used."""
_MOST_TASKS = 5_000
"""Tasks of an execution that is scheduled again and again."""
_MOST_EVENTS = 6_000
"""Tasks that are scheduled, over all replays."""


def has_switched(pairs: Sequence[Pair], shorter_ms: int) -> bool:
    """Whether the execution waited for a stage in only one of two executions that both ran it."""
    return any(
        max(x.wall_ms, y.wall_ms) >= _LEAST_PART * shorter_ms and _is_off(min(x, y, key=lambda s: s.wall_ms))
        for x, y in pairs
        if x is not None and y is not None
    )


def _is_off(stage: StageRun) -> bool:
    """Whether the execution hardly waited for it, although its tasks took some time."""
    return stage.wall_ms <= _MOST_LEFT * stage.run_ms / stage.slots


def can_replay(recording: Recording) -> bool:
    """Whether its replay takes about as long as it did, all of it can be told apart, and it is not too large."""
    if not recording.stages or any(each.row["stage_attempt"] for each in recording.stages):
        return False
    if sum(each.tasks for each in recording.stages) > _MOST_TASKS:
        return False
    return abs(recording.replay.wall_ms() - recording.wall_ms) <= _MOST_ERROR * recording.wall_ms


def values(a: RunPlaces, b: RunPlaces, pairs: Sequence[Pair]) -> dict[str, float]:
    """By cause, its part in the difference of the replays, in milliseconds; they add up to it, without the end.

    What the driver does after the last job is no part of it. Causes that change next to nothing are left out: what
    they are together is missing in the sum.
    """
    game = _Game(a.stored.recording, b.stored.recording, pairs)
    whole = game.wall(frozenset(GROUPS)) - game.wall(frozenset())
    alone = {g: abs(game.wall(frozenset({g})) - game.wall(frozenset())) for g in GROUPS}
    last = {g: abs(game.wall(frozenset(GROUPS)) - game.wall(frozenset(GROUPS) - {g})) for g in GROUPS}
    effect = {g: max(alone[g], last[g]) for g in GROUPS}
    active = sorted((g for g in GROUPS if effect[g] >= 0.01 * abs(whole)), key=lambda g: -effect[g])
    most = max(3, (_MOST_EVENTS // max(1, game.tasks)).bit_length() - 1)
    players = [frozenset({g}) for g in active[:most]]
    rest = frozenset(GROUPS).difference(*players)
    return {
        "".join(player): value
        for player, value in shapley([*players, rest], game.wall).items()
        if player is not rest and len(player) == 1
    }


def shapley(players: Sequence[frozenset[str]], value: Callable[[frozenset[str]], float]) -> dict[frozenset[str], float]:
    """The mean over all orders of what each player adds to those before it."""
    n = len(players)
    found = {}
    for player in players:
        others = [each for each in players if each is not player]
        total = 0.0
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for some in combinations(others, size):
                before = frozenset[str]().union(*some)
                total += weight * (value(before | player) - value(before))
        found[player] = total
    return found


@dataclass(frozen=True)
class _Side:
    """A stage in one of the executions."""

    recording: Recording
    position: int
    run: StageRun

    @property
    def model(self) -> TaskModel:
        return self.recording.models[self.position]

    @property
    def broadcast_ms(self) -> int:
        """How long the driver took for its broadcast."""
        return self.recording.stages[self.position].row["broadcast_ms"] or 0


class _Game:
    """Replays with some causes as in the second execution, and all others as in the first."""

    def __init__(self, a: Recording, b: Recording, pairs: Sequence[Pair]) -> None:
        self._recordings = a, b
        positions = [{each.row["stage_id"]: i for i, each in enumerate(its.stages)} for its in (a, b)]
        self._partner: tuple[dict[int, tuple[_Side, _Side]], dict[int, tuple[_Side, _Side]]] = ({}, {})
        for one, other in pairs:
            if one is None or other is None or one.stage_id not in positions[0] or other.stage_id not in positions[1]:
                continue
            i, j = positions[0][one.stage_id], positions[1][other.stage_id]
            self._partner[0][i] = self._partner[1][j] = _Side(a, i, one), _Side(b, j, other)
        self._walls: dict[frozenset[str], float] = {}
        self._tasks: dict[tuple[int, int, frozenset[str]], tuple[float, ...]] = {}
        self.tasks = sum(len(stage.tasks) for stage in (*a.replay.stages, *b.replay.stages)) // 2

    def wall(self, groups: frozenset[str]) -> float:
        """How long it takes with these from the second execution, until the end of the last job."""
        if groups not in self._walls:
            which = int("plan" in groups)
            base = self._recordings[which].replay
            stages = [self._stage(which, stage, groups) for stage in base.stages]
            slots = self._recordings["slots" in groups].slots
            self._walls[groups] = Replay(stages, slots, 0.0).wall_ms()
        return self._walls[groups]

    def _stage(self, which: int, stage: ReplayStage, groups: frozenset[str]) -> ReplayStage:
        sides = self._partner[which].get(stage.id)
        if sides is None:
            slots = self._recordings["slots" in groups].slots
            own = self._recordings[which]
            return stage if slots == own.slots else replace(stage, tasks=own.models[stage.id].tasks(slots))
        key = which, stage.id, groups.intersection(_OF_TASKS)
        if key not in self._tasks:
            self._tasks[key] = _model(sides, groups).tasks(self._recordings["slots" in groups].slots)
        timed, sent = sides["driver" in groups], sides["broadcast" in groups]
        its = timed.recording.replay.stages[timed.position]
        ready = its.ready_ms - timed.broadcast_ms + sent.broadcast_ms
        return replace(stage, tasks=self._tasks[key], delay_ms=its.delay_ms, ready_ms=max(0.0, ready))


def _model(sides: tuple[_Side, _Side], groups: frozenset[str]) -> TaskModel:
    """The tasks of a stage."""
    rows = max(1, sides["data" in groups].run.handled)
    work = 0.0
    follows, is_more = follows_cpu(*(side.run for side in sides))
    is_stretched = follows and is_more
    stretch = sides["contention" in groups].run.stretch if is_stretched else 1.0
    for group, parts in _PARTS.items():
        for part in parts:
            run = sides[("cpu_per_row" if follows and part == "wait" else group) in groups].run
            if not (is_stretched and part == "wait"):
                work += rows * run.parts[part] / max(1, run.handled) * (stretch if part == "cpu" else 1.0)
    divided, shaped = sides["partitions" in groups].model, sides["skew" in groups].model
    return TaskModel(
        divided.count,
        work / max(1, divided.count),
        shaped.shape,
        divided.held_ms,
        sides["slots" in groups].model.stretch,
        shaped.order,
    )
