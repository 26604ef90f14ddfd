"""The mechanisms by which an execution spends its time, each with the wall time that it explains.

A mechanism looks at an execution and yields causes. What a cause explains is what the execution would be spared if the
mechanism were absent and all else the same; docs/verdict.md has the rule of each. `PLACES` only say where the time
went; the others say why, and go before these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_high
from typing import Literal

from joinsight.base.units import bytes_text, duration_text, times
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.operators import OUTPUT_ROWS, PYTHON_TIME
from joinsight.plan.texts import join_text
from joinsight.timing.cost import Account
from joinsight.timing.task_time import kinds_of_work, work_text
from joinsight.verdict import names
from joinsight.verdict.straggler import Straggler, straggler
from joinsight.verdict.view import Ran, View

Code = Literal[
    "join_output",
    "data_skew",
    "output_skew",
    "slow_host",
    "python",
    "scan",
    "small_files",
    "shuffle",
    "spill",
    "gc",
    "broadcast",
    "waiting",
    "few_tasks",
    "tiny_tasks",
    "driver",
    "commit",
    "contention",
    "cache",
    "nested",
    "compute",
    "even",
]
PLACES: tuple[Code, ...] = ("compute", "scan", "shuffle", "driver", "python")
"""Codes that say where the time went; how much of it a repair would save is not known."""

_PLACE_WEIGHT = 0.5
_LEAST_TOGETHER = 0.5
_SEEN_WEIGHT = 0.75
_MB = 1 << 20
_LEAST_RATIO = 4.0
"""Rows out of a join to rows of its larger side."""
_LEAST_EXPLODED = 0.15
"""Share of the wall time: what follows a join that multiplies its rows has more to do in later stages, too."""
_SLOW = 1.5
"""The median task of an executor to that of the others."""
_MUCH_EXCESS = 0.1
"""Share of a stage's run time."""
_SKEWED = 2.5
"""The longest task to the mean of the others."""
_MUCH_OF_STAGE = 0.3
_IN_ONE_TASK = 0.75
"""What a place counts in a stage of which one task took much: most of what was done there, was done in that one."""
_COALESCED = (1.5, 4.0)
"""The same, and what it read to what the others did, where tasks are few: AQE has merged the others."""
_TINY_MS = 100
"""Run time of a task that is mostly overhead."""
_PER_TASK_MS = 5
"""What a task costs beside its work: serialization, launch, its metrics and result."""
_MANY_TASKS = 10
"""Tasks for each slot, from which on they may be too many."""
_MANY_FILES = 100
_SMALL_FILE = 4 * _MB
"""Spark's spark.sql.files.openCostInBytes: opening a file costs as much as reading this."""
_STARTING_MS = 1_000
"""What the driver takes for a short query."""
_UNSPLITTABLE = (".gz", ".zip", ".deflate", ".snappy]")
"""Ends of names of files that one task has to read whole."""
_TEXT_FORMATS = ("csv", "json", "xml")
_MOST_ROWS = 0.5
"""Share of the rows that are read which a broadcast has, where it is little but read."""
_MUCH_WORK = 0.3
"""Share of an operator's time from which on a kind of work is named."""
_SMALL_SIDE = 10 * _MB
"""Spark's default of spark.sql.autoBroadcastJoinThreshold."""
_MUCH_LARGER = 4
_MOSTLY = 0.6
_BESIDE_PYTHON = 0.75
"""Python functions take many times as long as Spark's own: once they are replaced, few tasks may be enough."""
_SPILL_PER_SECOND = 20 * _MB
"""Bytes of deserialized data that a task spills, and reads again, in a second."""
_MOST_SPILL = 0.7
"""The largest share of a stage that spilling can have taken."""
_BESIDE_SKEW = 0.5
"""What else there is in the stage of a skew: without it, the task that spills would have less to keep, and a join that
the session is told to shuffle might be fast."""
SPILL_SIZE = "spill size"
_MUCH_GC = 0.15
"""Share of the run time of tasks."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What a part of the wall time went into."""

    code: Code
    wall_ms: int
    nodes: tuple[int, ...]
    """The operators concerned, the one to look at first."""
    what: str
    """What happened, as a clause after the place: ``one of 3 tasks made 98 % of ...``."""
    next: str
    """What to do first."""
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)
    stage_id: int | None = None
    seen_ms: int = 0
    """How long it could be seen: for skew, how much longer the longest task ran than the mean one. On few slots, even
    tasks would take as long, but the cause is the same."""
    is_place: bool | None = None
    """Whether it only says where the time went; by default, what its code is."""
    least_share: float = 0.2
    """Share of the wall time that it must explain to be the verdict."""
    certainty: float = 1.0
    """What it counts of its weight, where another cause says more about the same time."""

    @property
    def only_says_where(self) -> bool:
        """Whether it only says where the time went."""
        return self.code in PLACES if self.is_place is None else self.is_place

    @property
    def weight(self) -> float:
        """By this, causes are compared."""
        wall = self.wall_ms * (_PLACE_WEIGHT if self.only_says_where else 1)
        return self.certainty * max(wall, self.seen_ms * _SEEN_WEIGHT)


def causes(view: View) -> Iterator[Cause]:
    """Those of all mechanisms, in no order; with several of a code that add up, also all of them together."""
    uneven = _uneven_stages(view)
    for mechanism in MECHANISMS:
        found = [
            replace(each, certainty=_IN_ONE_TASK * each.certainty)
            if each.only_says_where and each.stage_id in uneven
            else each
            for each in mechanism(view)
        ]
        yield from found
        for code, call in TOGETHER.items():
            its = sorted((each for each in found if each.code == code and each.wall_ms), key=lambda each: -each.wall_ms)
            if len(its) > 1:
                yield _together(its, call)


def _uneven_stages(view: View) -> frozenset[int | None]:
    """Stages that took as long as they did because of one task."""
    walls = {ran.stage_id: ran.wall_ms for ran in view.ran}
    return frozenset(
        each.stage_id
        for each in imbalance(view)
        if each.code in ("data_skew", "output_skew", "slow_host")
        and each.stage_id is not None
        and max(each.wall_ms, each.seen_ms) >= _MUCH_OF_STAGE * walls[each.stage_id]
    )


TOGETHER: Mapping[Code, str] = {
    "shuffle": "shuffles",
    "broadcast": "broadcasts",
    "scan": "scans",
    "python": "Python functions",
    "slow_host": "stages with a task that ran much longer than the others, with no more data",
    "tiny_tasks": "stages of many short tasks",
    "few_tasks": "stages of fewer tasks than could run",
}
"""Codes whose causes happen one after the other, and what they are called together."""


def _together(its: Sequence[Cause], call: str) -> Cause:
    wall, first = sum(each.wall_ms for each in its), its[0]
    nodes = tuple(dict.fromkeys(i for each in its for i in each.nodes))
    what = f"{len(its)} {call} took {duration_text(wall)}; in the largest, {first.what}"
    evidence = {**first.evidence, "number": len(its)}
    seen = sum(each.seen_ms for each in its)
    least = _LEAST_TOGETHER if first.code in PLACES else first.least_share
    return replace(
        first, least_share=least, seen_ms=seen, wall_ms=wall, nodes=nodes, what=what, evidence=evidence, stage_id=None
    )


# Rows

_PAIRS_ADVICE = "It compares all pairs of rows: give it an equality condition, or make one side smaller."

_KEY_ADVICE = (
    "Its key is not unique on either side: look at its most frequent values (joinsight keys), join on more columns,"
    " or aggregate one side before the join."
)


def join_output(view: View) -> Iterator[Cause]:
    """A join makes many more rows than it reads, and all that follows in its stage works on them."""
    for node in view.of_kind("join"):
        out = view.facts.total(node, OUTPUT_ROWS)
        sides = [view.rows(i) for i in view.facts.inputs(node)[:2]]
        if out is None or len(sides) < 2 or None in sides:
            continue
        left, right = (side or 0 for side in sides)
        larger = max(left, right, 1)
        if out < _LEAST_RATIO * larger or out < 10_000:
            continue
        ratio = out / larger
        what = f"{names.operator(view, node.id)} made {_rows(out)} from {_rows(left)} and {_rows(right)}"
        yield Cause(
            "join_output",
            round(_wall_above(view, node.id) * (1 - 1 / ratio)),
            (node.id,),
            what,
            _PAIRS_ADVICE if operators.of(node.name).compares_pairs else _KEY_ADVICE,
            {"output_rows": out, "left_rows": left, "right_rows": right, "ratio": round(ratio, 1)},
            _stage_of(view, node.id),
            least_share=_LEAST_EXPLODED,
            certainty=_BESIDE_SKEW if _is_of_one_task(view, node, larger) else 1.0,
        )


def _is_of_one_task(view: View, join: Node, larger: int) -> bool:
    """Whether only one task's part of a join multiplies its rows: some values of its key do, not all of them."""
    measured = view.facts.metrics(join).get(OUTPUT_ROWS)
    ran = None if measured is None else next((each for each in view.ran if each.stage_id == measured.max_stage), None)
    if measured is None or ran is None:
        return False
    ratio = _ratio_of(view, ran, join, OUTPUT_ROWS)
    return ratio is not None and ratio >= _SKEWED and (measured.sum or 0) - (measured.max or 0) < _LEAST_RATIO * larger


# Tasks of a stage


def imbalance(view: View) -> Iterator[Cause]:
    """Tasks that are unequal, too few, or too many: the slots were not used evenly."""
    slots = view.slots
    for ran in view.ran:
        if ran.is_running:
            yield from _so_far(view, ran, max(1, slots or ran.number("width") or 1))
            continue
        if not ran.run_ms or not ran.wall_ms or ran.row["stage_attempt"]:
            continue
        usable = max(1, slots or ran.number("width") or 1)
        spared = ran.wall_ms - round(ran.run_ms / usable)
        longest = ran.number("run_time_ms_max")
        ratio = ran.ratio(longest, ran.run_ms)
        slow = _slow(ran)
        if slow is not None:
            yield slow
            continue
        mean = ran.run_ms / max(1, ran.tasks)
        if ran.tasks >= _MANY_TASKS * usable and mean <= _TINY_MS:
            useful = max(0, ran.run_ms - _PER_TASK_MS * ran.tasks) / usable
            yield _tiny_tasks(view, ran, max(spared, round(ran.wall_ms - useful)), mean)
        elif ratio is not None and ratio >= _SKEWED and (wall := _uneven_ms(view, ran, usable, spared, ratio)) > 0:
            yield _skew(view, ran, wall, ratio)
        elif ratio is not None and spared > 0 and _is_coalesced(view, ran, usable, ratio):
            yield _skew(view, ran, spared, ratio)
        elif ran.tasks < usable and spared > 0:
            yield _few_tasks(view, ran, round(ran.wall_ms * (1 - ran.tasks / usable)), usable)


def _so_far(view: View, ran: Ran, usable: int) -> Iterator[Cause]:
    """The same of a stage that runs, of which the tasks that ended are known and the oldest of the others."""
    slow = _slow(ran) if ran.run_ms else None
    found = None if slow or ran.row["stage_attempt"] else straggler(view, ran, usable)
    if slow is not None:
        yield slow
    elif found is not None:
        reason = _of_straggler(view, ran, found)
        yield Cause(
            reason.code,
            found.spared_ms,
            reason.nodes,
            found.text + reason.text,
            reason.next,
            {
                **{"tasks": found.tasks, "running_tasks": found.left, "elapsed_ms": found.elapsed_ms},
                **{"run_time_ms_median": found.median_ms, **reason.evidence},
            },
            ran.stage_id,
            min(ran.wall_ms, found.elapsed_ms - found.median_ms),
        )
    elif ran.tasks < usable:
        yield _few_tasks(view, ran, round(ran.wall_ms * (1 - ran.tasks / usable)), usable)


def _of_straggler(view: View, ran: Ran, found: Straggler) -> _Reason:
    its = found.handled
    if its is None:
        advice = (
            "Look at what it does (Thread Dump of its executor in Spark's UI): slow values, or other load on its host;"
            " spark.speculation=true starts such tasks again elsewhere."
        )
        return _Reason("slow_host", ran.nodes[:3], ", with no more rows than the others have", advice)
    share = f"{_share(its.rows, its.of)} of {_rows(its.of)}"
    if its.is_read:
        nodes = (*(i for i in ran.nodes if _is_keyed(view, i) and i != its.node_id), its.node_id)
        evidence = {"read_ratio": round(its.ratio, 1)}
        return _Reason("data_skew", nodes, f"; it has read {share}", _skew_advice(view, nodes), evidence)
    advice = "Look at the most frequent values of its key (joinsight keys): some have many rows on both sides."
    text = f"; it has made {share} of {names.operator(view, its.node_id)}"
    return _Reason("output_skew", (its.node_id,), text, advice, {"made_ratio": round(its.ratio, 1)})


def _uneven_ms(view: View, ran: Ran, usable: int, spared: int, ratio: float) -> int:
    """What a stage would be spared if its longest task were like the others.

    The same work in even tasks needs no less of the slots; a task that is slow without more work does.
    """
    longest, mean = ran.number("run_time_ms_max"), ran.run_ms / ran.tasks
    wall = min(spared, round(longest - mean))
    if _reason(view, ran, ratio).code == "slow_host":
        excess = longest - (ran.run_ms - longest) / (ran.tasks - 1)
        wall = max(wall, round(excess / usable))
    return min(wall, ran.wall_ms)


def _is_coalesced(view: View, ran: Ran, usable: int, ratio: float) -> bool:
    """Whether one task has so much that AQE merged what the others have, and few are left."""
    least, least_read = _COALESCED
    read = _read_ratio(view, ran) if 1 < ran.tasks <= 2 * usable and ratio >= least else None
    return read is not None and read[0] >= least_read


def _tiny_tasks(view: View, ran: Ran, wall_ms: int, mean: float) -> Cause:
    return Cause(
        "tiny_tasks",
        min(wall_ms, ran.wall_ms),
        ran.nodes[:3],
        f"{ran.tasks:,} tasks ran for {duration_text(round(mean))} each, less than starting them costs",
        "Make fewer, larger tasks: coalesce, fewer spark.sql.shuffle.partitions or larger"
        " spark.sql.files.maxPartitionBytes; AQE (spark.sql.adaptive.enabled) coalesces shuffle partitions.",
        {"tasks": ran.tasks, "mean_run_time_ms": round(mean, 1)},
        ran.stage_id,
    )


def _few_tasks(view: View, ran: Ran, wall_ms: int, usable: int) -> Cause:
    of = "one task" if ran.tasks == 1 else f"{ran.tasks} tasks"
    unsplit = _unsplit_scan(view, ran)
    if unsplit is not None:
        return Cause(
            "scan",
            wall_ms,
            (unsplit,),
            f"{of} read a file that cannot be split, while {usable} could run",
            "Store the data in a format that can be split (Parquet, ORC, or text without gzip), or as more files.",
            {"tasks": ran.tasks, "slots": usable},
            ran.stage_id,
            is_place=not (_is_packed(view.facts.nodes[unsplit]) or _is_of_lines(view.facts.nodes[unsplit])),
        )
    return Cause(
        "few_tasks",
        wall_ms,
        _of_few_tasks(view, ran),
        f"{of} {_does(ran)} all of its work, while {usable} could run",
        _few_tasks_advice(view, ran),
        {"tasks": ran.tasks, "slots": usable},
        ran.stage_id,
        certainty=_BESIDE_PYTHON if _python_ms(view, ran) >= _MOSTLY * ran.wall_ms else 1.0,
    )


def _does(ran: Ran) -> str:
    if not ran.is_running:
        return "did"
    return "does" if ran.tasks == 1 else "do"


def _python_ms(view: View, ran: Ran) -> int:
    """How long the tasks of a stage waited for Python."""
    return sum(
        ms
        for account, ms in ran.parts.items()
        if account.name == "python"
        or (account.node_id is not None and operators.is_python(view.facts.nodes[account.node_id].name))
    )


def _of_few_tasks(view: View, ran: Ran) -> tuple[int, ...]:
    """The most expensive operator, then those that need all rows in one task."""
    single = [
        row["node_id"]
        for row in view.stored.shuffles
        if ran.stage_id in (row["reduce_stages"] or ()) and (row["partitions"] or 0) < (view.slots or 2)
    ]
    windows = [i for i in ran.nodes if names.operator(view, i) == names.ALL_ROWS]
    return tuple(dict.fromkeys([*windows, *ran.nodes[:2], *single]))


def _few_tasks_advice(view: View, ran: Ran) -> str:
    nodes = [view.facts.nodes[i] for i in ran.nodes]
    if any(names.operator(view, node.id) == names.ALL_ROWS for node in nodes):
        return "Give the window a PARTITION BY, so that several tasks can compute it."
    if any(node.name.startswith(operators.COALESCE) for node in nodes):
        return "coalesce(n) also makes the operators before it run in n tasks: use repartition(n), or a larger n."
    return (
        "Use more partitions: remove repartition(1) or coalesce(1), raise spark.sql.shuffle.partitions, or lower"
        " spark.sql.adaptive.advisoryPartitionSizeInBytes or spark.sql.files.maxPartitionBytes."
    )


def _unsplit_scan(view: View, ran: Ran) -> int | None:
    """A scan of large files that made too few tasks: Spark splits files that it can split."""
    for node_id in ran.nodes:
        node = view.facts.nodes[node_id]
        if operators.of(node.name).kind != "scan":
            continue
        files, size = (view.facts.total(node, name) for name in ("number of files read", "size of files read"))
        least = _SMALL_FILE if _is_of_lines(node) else 2 * _SMALL_FILE
        if files and files <= ran.tasks and (_is_packed(node) or (size or 0) / files > least):
            return node_id
    return None


def _is_of_lines(node: Node) -> bool:
    """Whether it reads text, of which Spark splits a file beyond `_SMALL_FILE` unless it is compressed or one value."""
    return _format(node) in (*_TEXT_FORMATS, "text")


def _is_packed(node: Node) -> bool:
    """Whether the name of a file says that it cannot be split; else it is only likely."""
    return any(suffix in node.simple for suffix in _UNSPLITTABLE)


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why one task of a stage ran longer than the others."""

    code: Code
    nodes: tuple[int, ...]
    text: str
    """What follows the times of the tasks."""
    next: str
    evidence: Mapping[str, float] = field(default_factory=dict)


def _skew(view: View, ran: Ran, spared: int, ratio: float) -> Cause:
    longest = ran.number("run_time_ms_max")
    reason = _reason(view, ran, ratio)
    ran_for = f"one of {ran.tasks:,} tasks ran for {duration_text(longest)}, {times(ratio)} as long as the others"
    seen_ms = min(ran.wall_ms, longest) - round(ran.run_ms / ran.tasks)
    return Cause(
        reason.code,
        spared,
        reason.nodes,
        ran_for + reason.text,
        reason.next,
        {"tasks": ran.tasks, "run_time_ms_max": longest, "ratio": round(ratio, 1), **reason.evidence},
        ran.stage_id,
        seen_ms if reason.evidence.keys() & {"read_ratio", "made_ratio"} else 0,
    )


def _reason(view: View, ran: Ran, ratio: float) -> _Reason:
    """What it read, what it made, or where it ran; `ratio`: of its run time to that of the others."""
    read = _read_ratio(view, ran)
    if read is not None and read[0] >= max(2.0, 0.3 * ratio):
        its, text, nodes = read
        evidence = {"read_ratio": round(its, 1)}
        return _Reason("data_skew", nodes, f", because {text}", _skew_advice(view, nodes), evidence)
    made = _made_ratio(view, ran)
    if made is not None:
        node_id, its, text = made
        advice = "Look at the most frequent values of its key (joinsight keys): some have many rows on both sides."
        evidence = {"made_ratio": round(its, 1)}
        return _Reason("output_skew", (node_id,), f": {text}, although all read about as much", advice, evidence)
    cpu = ran.ratio(ran.number("cpu_time_ms_max"), ran.number("cpu_time_ns") / 1e6)
    if cpu is not None and cpu >= 0.5 * ratio:
        text = f": its rows took {times(cpu)} as much CPU, although all read about as much"
        advice = "Look at what its rows have more of: long texts, large arrays, values that are slow to compute."
        return _Reason("output_skew", ran.nodes[:3], text, advice, {"cpu_ratio": round(cpu, 1)})
    return _Reason("slow_host", ran.nodes[:3], ", with no more data than they had", f"Look at the host: {_SLOW_HOST}")


_SLOW_HOST = "other load, slow disks, memory; spark.speculation=true starts such tasks again elsewhere."


def _slow(ran: Ran) -> Cause | None:
    """An executor or host that took longer for its tasks than others for the same work."""
    host, excess = ran.row.get("slowest_host"), ran.number("slowest_excess_ms")
    median, others = ran.number("slowest_median_ms"), ran.number("slowest_others_median_ms")
    tasks = ran.number("slowest_tasks")
    if not host or tasks < 2 or median < _SLOW * max(1, others) or excess < _MUCH_EXCESS * ran.run_ms:
        return None
    executor = ran.row.get("slowest_executor")
    where = f"executor {executor} on {host}" if executor else str(host)
    return Cause(
        "slow_host",
        round(ran.wall_ms * min(1.0, excess / ran.run_ms)),
        ran.nodes[:3],
        f"{where} took {duration_text(median)} for the median task, {times(median / max(1, others))} as long as the"
        " others for as much work",
        f"Look at that host: {_SLOW_HOST}",
        {"tasks": tasks, "median_ms": median, "others_median_ms": others, "excess_ms": excess},
        ran.stage_id,
        seen_ms=min(ran.wall_ms, excess),
    )


def _read_ratio(view: View, ran: Ran) -> tuple[float, str, tuple[int, ...]] | None:
    """What the task that read most read, to the mean of the others; as text; and the operators concerned."""
    best: tuple[float, str] | None = None
    for name, total, text in (
        ("shuffle_read_rows", ran.number("shuffle_read_rows"), _rows),
        (
            "shuffle_read_bytes",
            ran.number("shuffle_read_local_bytes") + ran.number("shuffle_read_remote_bytes"),
            bytes_text,
        ),
    ):
        largest = ran.number(f"{name}_max")
        ratio = ran.ratio(largest, total)
        if ratio is None:
            continue
        if best is None or ratio > best[0]:
            best = ratio, f"it read {_share(largest, total)} of {text(total)}"
    read = [
        row
        for row in view.stored.shuffles
        if ran.stage_id in (row["reduce_stages"] or ()) and row["node_id"] is not None
    ]
    for row in read if len(read) > 1 else ():  # one side of a join may hide that the other one is skewed
        largest, total = row["rows_read_max"] or 0, row["rows_read"] or 0
        ratio = ran.ratio(largest, total) if total >= _MUCH_OF_STAGE * ran.number("shuffle_read_rows") else None
        if best is not None and ratio is not None and ratio > best[0]:
            best = ratio, f"it read {_share(largest, total)} of {_rows(total)}"
    shuffles = [row["node_id"] for row in read]
    if best is not None:
        readers = [i for i in ran.nodes if _is_keyed(view, i) and i not in shuffles][:2]
        worst = sorted(shuffles, key=lambda i: -(_most_read(view, i)))
        return best[0], best[1], (*readers, *worst[:2]) or ran.nodes[:2]
    for node_id in ran.nodes:
        node = view.facts.nodes[node_id]
        if operators.of(node.name).kind != "scan":
            continue
        ratio = _ratio_of(view, ran, node, OUTPUT_ROWS)
        if ratio is not None and ratio >= 2:
            measured = view.facts.metrics(node)[OUTPUT_ROWS]
            its = f"it read {_share(measured.max or 0, measured.sum or 0)} of {_rows(measured.sum or 0)}"
            return ratio, its, (node_id, *(i for i in ran.nodes[:1] if i != node_id))
    return None


def _most_read(view: View, node_id: int) -> int:
    return next((row["rows_read_max"] or 0 for row in view.stored.shuffles if row["node_id"] == node_id), 0)


def _is_keyed(view: View, node_id: int) -> bool:
    node = view.facts.nodes[node_id]
    return (
        operators.of(node.name).kind in ("join", "aggregate") or "Window" in node.name or operators.is_python(node.name)
    )


def _ratio_of(view: View, ran: Ran, node: Node, name: str) -> float | None:
    """The largest task's value of a metric to the mean of the others; None unless it was measured in this stage."""
    measured = view.facts.metrics(node).get(name)
    if measured is None or measured.max_stage != ran.stage_id:
        return None
    return ran.ratio(measured.max or 0, measured.sum or 0)


def _made_ratio(view: View, ran: Ran) -> tuple[int, float, str] | None:
    """The operator of which one task made most of the rows, the most uneven one."""
    found = []
    for node_id in ran.nodes:
        node = view.facts.nodes[node_id]
        ratio = _ratio_of(view, ran, node, OUTPUT_ROWS)
        if ratio is not None and ratio >= _SKEWED and (view.facts.total(node, OUTPUT_ROWS) or 0) >= 1_000:
            found.append((operators.of(node.name).kind == "join", ratio, node_id))
    if not found:
        return None
    _, ratio, node_id = max(found)
    measured = view.facts.metrics(view.facts.nodes[node_id])[OUTPUT_ROWS]
    share = _share(measured.max or 0, measured.sum or 0)
    return node_id, ratio, f"it made {share} of the {_rows(measured.sum or 0)} of {names.operator(view, node_id)}"


def _skew_advice(view: View, nodes: tuple[int, ...]) -> str:
    find = "Find the most frequent value of the key (joinsight keys); NULL and a default are the usual ones."
    for name in (view.facts.nodes[i].name for i in nodes):
        if operators.of(name).kind == "join":
            return f"{find} Join its rows separately, or let AQE split them (spark.sql.adaptive.skewJoin.*)."
        if "Window" in name:
            return f"{find} Give the window a finer PARTITION BY, or leave the rows of that value out of it."
        if operators.is_python(name):
            return f"{find} Give the Python function smaller groups, or leave the rows of that value out of it."
    return f"{find} Aggregate its rows in two steps: by the key and a random number, then by the key."


def memory(view: View) -> Iterator[Cause]:
    """Garbage collection and spilling, in all stages on the path."""
    collected = [
        (min(round(ran.wall_ms * min(1.0, share)), ran.number("gc_time_ms")), ran)
        for ran in view.ran
        if ran.run_ms and (share := ran.number("gc_time_ms") / ran.run_ms) >= _MUCH_GC
    ]
    if collected:
        _, worst = max(collected, key=lambda each: each[0])
        took, run = (sum(ran.number(name) for _, ran in collected) for name in ("gc_time_ms", "run_time_ms"))
        yield Cause(
            "gc",
            sum(ms for ms, _ in collected),
            worst.nodes[:3],
            f"garbage collection took {100 * min(1.0, took / run):.0f} % of the run time of {_stages(collected)}",
            "Give executors more memory or fewer cores; avoid collect_list, large arrays and caches of objects.",
            {"gc_time_ms": took, "run_time_ms": run},
            worst.stage_id,
        )
    spilling = [
        (min(round(ran.wall_ms * min(_MOST_SPILL, 1_000 * size / _SPILL_PER_SECOND / ran.run_ms)), most), ran)
        for ran in view.ran
        if ran.run_ms and (size := ran.number("memory_spilled_bytes")) and (most := _most_spill(view, ran)) > 0
    ]
    if spilling:
        skewed = _skewed_stages(view)
        _, worst = max(spilling, key=lambda each: each[0])
        size, on_disk = (sum(ran.number(f"{name}_spilled_bytes") for _, ran in spilling) for name in ("memory", "disk"))
        yield Cause(
            "spill",
            sum(ms for ms, _ in spilling),
            _spillers(view, worst) or worst.nodes[:3],
            f"{_stages(spilling)} spilled {bytes_text(size)} of data, {bytes_text(on_disk)} on disk",
            "Use more partitions (spark.sql.shuffle.partitions), so that each task has less to keep, or give"
            " executors more memory (spark.executor.memory, spark.memory.fraction) for each core.",
            {"memory_spilled_bytes": size, "disk_spilled_bytes": on_disk},
            worst.stage_id,
            certainty=_BESIDE_SKEW if worst.stage_id in skewed else 1.0,
        )


def _skewed_stages(view: View) -> set[int | None]:
    return {each.stage_id for each in imbalance(view) if each.code == "data_skew"}


def _most_spill(view: View, ran: Ran) -> int:
    """The wall time of what may have spilled in a stage: the operators that did, and shuffles if that is not all."""
    its = set(_spillers(view, ran))
    known = sum(view.facts.total(view.facts.nodes[i], SPILL_SIZE) or 0 for i in its)
    if known < _MOST_SPILL * ran.number("memory_spilled_bytes"):
        its |= {row["node_id"] for row in view.stored.shuffles if ran.stage_id in (row["map_stages"] or ())}
    if not its:
        return ran.wall_ms
    return sum(
        ms
        for account, ms in ran.parts.items()
        if account.node_id in its or (account.kind == "shared" and its & set(view.bill.holds(account)))
    )


def _stages(concerned: Sequence[tuple[int, Ran]]) -> str:
    return "its tasks" if len(concerned) == 1 else f"{len(concerned)} stages"


def _spillers(view: View, ran: Ran) -> tuple[int, ...]:
    spilled = {
        i: view.facts.total(view.facts.nodes[i], SPILL_SIZE) or 0 for i in ran.nodes if view.facts.nodes[i].metrics
    }
    return tuple(sorted((i for i, size in spilled.items() if size), key=lambda i: -spilled[i]))


_PYTHON_ADVICE = "Use Spark's own functions instead, or a pandas (Arrow) function, which takes many rows at once."
_MOST_NAMED = 3


def python(view: View) -> Iterator[Cause]:
    """Functions that Python workers run."""
    for node in view.facts.graph.nodes:
        if not operators.is_python(node.name):
            continue
        wall = view.wall_of((node.id,))
        method = "sampled"
        if not wall:
            measured = view.facts.total(node, PYTHON_TIME)
            for ran in view.ran:
                if node.id in ran.nodes and ran.run_ms and measured and not ran.is_running:
                    wall += round(ran.wall_ms * min(1.0, measured / ran.run_ms))
                    method = "measured"
        took = duration_text(wall)
        function = names.python_function(node)
        name = f"the Python function {function}" if function else f"Python code ({node.name})"
        if wall:
            yield Cause(
                "python",
                wall,
                (node.id,),
                f"tasks waited {took} for {name}",
                _PYTHON_ADVICE,
                {"method": method, "rows": view.rows(node.id) or 0},
                _stage_of(view, node.id),
            )
    for account, wall in view.walls.items():
        if account.name == "python" and wall:
            yield _python_together(view, account, wall)


def _python_together(view: View, account: Account, wall: int) -> Cause:
    """Functions of which it is not known for which the tasks waited: several of a stage, or those of an RDD."""
    nodes = sorted(view.bill.holds(account), key=lambda i: -(view.facts.total(view.facts.nodes[i], PYTHON_TIME) or 0))
    functions = list(dict.fromkeys(filter(None, (names.python_function(view.facts.nodes[i]) for i in nodes))))
    if nodes:
        what = f"{len(nodes)} Python functions" + (f" ({', '.join(functions[:_MOST_NAMED])})" if functions else "")
    else:
        what = "Python functions of an RDD"
    return Cause(
        "python",
        wall,
        tuple(nodes),
        f"tasks waited {duration_text(wall)} for {what}",
        _PYTHON_ADVICE
        if nodes
        else "Use DataFrames and Spark's own functions: each row of an RDD goes to Python and back.",
        {"method": "sampled", "functions": len(nodes)},
        next((ran.stage_id for ran in view.ran if account in ran.parts), None),
    )


_READ_LESS = "Read less: filter on partition columns, select fewer columns."
_COLUMNAR = ("parquet", "orc")


def scans(view: View) -> Iterator[Cause]:
    """Reading sources: many small files, or the scan as a place."""
    for node in view.of_kind("scan"):
        files, size = (view.facts.total(node, name) for name in ("number of files read", "size of files read"))
        wall = view.likely_wall_of(node.id)
        if files and size is not None and files >= _MANY_FILES and size / files < _SMALL_FILE:
            listing = view.facts.total(node, "metadata time") or 0
            whole = sum(ran.wall_ms for ran in view.ran if node.id in ran.nodes)
            yield Cause(
                "small_files",
                min(whole, wall) + min(listing, view.rests.get("prepare", 0)),
                (node.id,),
                f"{names.operator(view, node.id)} read {files:,} files of {bytes_text(round(size / files))} on average",
                "Compact them into files of 128 MB and more, and let what writes them write fewer (repartition before"
                " the write).",
                {"files": files, "bytes": size, "metadata_time_ms": listing},
                _stage_of(view, node.id),
            )
        text_format = _text_format(node)
        yield Cause(
            "scan",
            wall,
            (node.id,),
            f"{names.operator(view, node.id)} read {_scanned(view, node, files, size)}"
            + (f", and parsed {text_format}" if text_format else ""),
            f"Store it as Parquet or ORC, if it is read more than once: each read parses {text_format} again."
            if text_format
            else _READ_LESS
            if _format(node) in _COLUMNAR
            else f"{_READ_LESS} Or store it in a columnar format.",
            {
                "files": files or 0,
                "bytes": size or 0,
                "rows": view.rows(node.id) or 0,
                "is_text": int(bool(text_format)),
            },
            _stage_of(view, node.id),
        )


def _text_format(node: Node) -> str:
    """``JSON``: the format of a scan that has to be parsed; empty: another one."""
    return _format(node).upper() if _format(node) in _TEXT_FORMATS else ""


def _format(node: Node) -> str:
    """``json``: the second word of a scan's name."""
    words = node.name.split(" ", 2)
    return words[1] if len(words) > 1 else ""


def _scanned(view: View, node: Node, files: int | None, size: int | None) -> str:
    parts = [f"{_rows(view.rows(node.id) or 0)}"]
    if files:
        parts.append(f"from {files:,} file{'s' * (files != 1)}" + (f" of {bytes_text(size)}" if size else ""))
    return " ".join(parts)


def exchanges(view: View) -> Iterator[Cause]:
    """Shuffles and broadcasts: their bytes, writing, sending, waiting."""
    for node in view.of_kind("shuffle"):
        written = view.facts.total(node, "shuffle bytes written") or 0
        yield Cause(
            "shuffle",
            view.wall_of((node.id,)),
            (node.id,),
            f"{names.operator(view, node.id)} wrote and read {bytes_text(written)}",
            "Shuffle less: filter, project and aggregate before it, broadcast the smaller side of the join, or store"
            " the data bucketed by the key.",
            {"bytes_written": written, "rows": view.rows(node.id) or 0},
            _stage_of(view, node.id),
        )
    for node in view.of_kind("broadcast"):
        size = view.facts.total(node, "data size") or 0
        rows = view.rows(node.id) or 0
        times = {name: view.facts.total(node, f"time to {name}") or 0 for name in ("collect", "build", "broadcast")}
        taken = ", ".join(f"{duration_text(ms)} to {name}" for name, ms in times.items() if ms)
        yield Cause(
            "broadcast",
            view.wall_of((node.id,)),
            (node.id,),
            f"{names.operator(view, node.id)} has {bytes_text(size)} ({_rows(rows)})" + (f", {taken}" if taken else ""),
            "Broadcast fewer rows and columns, or let Spark shuffle this join: remove the broadcast hint, or lower"
            " spark.sql.autoBroadcastJoinThreshold.",
            {"bytes": size, "rows": rows, **{f"{name}_ms": ms for name, ms in times.items()}},
            seen_ms=_made_for(view, node.id) if _only_sends(view, node) else 0,
        )


def small_sides(view: View) -> Iterator[Cause]:
    """A join has both sides shuffled, though one is small: its shuffles and sorts, of which a broadcast needs none."""
    skewed = _skewed_stages(view) if _is_switched_off(view) else set()
    for join in view.bill.joins:
        node = view.facts.nodes[join.node_id]
        text = join_text(node.name, node.simple)
        if text is None or text.join_type is None or operators.of(text.strategy).is_broadcast_join:
            continue
        sides = dict(zip(("left", "right"), map(view.facts.fed_by, view.facts.inputs(node)), strict=False))
        allowed = [name for name in operators.JOIN_TYPES[text.join_type] if name in sides]
        small = min(allowed, key=lambda name: sides[name].bytes or math.inf, default=None)
        if small is None or len(sides) < 2:
            continue
        other = sides["left" if small == "right" else "right"]
        size = sides[small].bytes
        if (
            not size
            or size > _SMALL_SIDE
            or sides[small].exchange is None
            or other.exchange is None
            or (other.bytes or 0) < _MUCH_LARGER * size
        ):
            continue
        stage = _stage_of(view, node.id)
        yield Cause(
            "shuffle",
            sum(map(view.likely_wall_of, join.needed)),
            (other.exchange, node.id),
            f"{names.operator(view, node.id)} shuffled {bytes_text(other.bytes or 0)}, though its {small} side"
            f" has only {bytes_text(size)}",
            f"Broadcasting its {small} side may be faster: remove hints that force another join (MERGE, SHUFFLE_HASH),"
            " give it the hint BROADCAST, or raise spark.sql.autoBroadcastJoinThreshold if it is lower.",
            {"small_bytes": size, "other_bytes": other.bytes or 0},
            stage,
            is_place=not _is_forced(view, size),
            certainty=_BESIDE_SKEW if stage in skewed else 1.0,
        )


def _is_switched_off(view: View) -> bool:
    """Whether the session broadcasts nothing by itself."""
    threshold = view.execution["broadcast_threshold_bytes"]
    return threshold is not None and threshold < 0


def _is_forced(view: View, size: int) -> bool:
    """Whether Spark would have broadcast a side of this size, once AQE knew it: a hint forces another join."""
    threshold = view.execution["broadcast_threshold_bytes"]
    return bool(view.execution["is_adaptive"]) and threshold is not None and size <= threshold


def _made_for(view: View, broadcast: int) -> int:
    """The time on the path of the stages that make its rows, and of the driver for it."""
    return sum(s["end_ms"] - s["start_ms"] for s in view.stored.segments if s["node_id"] == broadcast)


def _only_sends(view: View, broadcast: Node) -> bool:
    """Whether what is below a broadcast does little but read its rows."""
    read = 0
    for node in view.below(broadcast.id):
        if operators.of(node.name).kind in ("join", "aggregate", "shuffle"):
            return False
        read = max(read, view.rows(node.id) or 0)
    return (view.rows(broadcast.id) or 0) >= _MOST_ROWS * read


# No tasks


def waiting(view: View) -> Iterator[Cause]:
    """No slot is free, or fewer than there are."""
    waited = view.rests.get("waiting", 0)
    stages = {s["stage_id"]: s["end_ms"] - s["start_ms"] for s in view.stored.segments if s["cause"] == "waiting"}
    taken = 0
    slots = view.slots or 0
    for ran in view.ran:
        width = ran.number("width")
        if not ran.is_running and 0 < width < min(slots, ran.tasks):
            taken += round(ran.wall_ms * (1 - width / slots))
    if waited or taken:
        longest = max(stages, key=lambda i: stages[i], default=None)
        nodes = next((ran.nodes[:1] for ran in view.ran if ran.stage_id == longest), ())
        clauses = []
        if waited:
            clauses.append(f"its tasks waited {duration_text(waited)} for a free slot")
        if taken:
            clauses.append(f"it had fewer than the {slots} slots, which cost {duration_text(taken)}")
        yield Cause(
            "waiting",
            waited + taken,
            nodes,
            " and ".join(clauses),
            "Look at what else ran in the application at that time, and at the executors that it had (dynamic"
            " allocation, queue); spark.scheduler.mode=FAIR shares slots between jobs.",
            {"waited_ms": waited, "fewer_slots_ms": taken},
            longest,
        )


LARGE_PLAN_OPERATORS = 100
"""Operators of a plan, from which on planning it takes seconds."""
_MUCH_RECEIVED = 10 * _MB
"""Bytes of results, from which on receiving them takes long by itself."""
_LEAST_RESULT = 16 << 10
"""Bytes of a task's result, most of which are rows: its metrics take some kilobytes."""
_RECEIVED_ADVICE = "Collect fewer rows: aggregate or limit before collect or toPandas, or write the result to storage."
_LARGE_PLAN = "Make the plan smaller: fewer columns, unions and steps; checkpoint what loops build up."
_SMALL_PLAN = (
    "Its plan is small: look at long expressions (lists of values, CASEs), at how long the catalog takes to describe"
    " its tables, and at what else the driver did."
)
_FIRST_QUERY = (
    "It is the first query of its application, and Spark loads its classes during it: look at a later query, unless"
    " each application runs only one."
)


def driver(view: View) -> Iterator[Cause]:
    """The driver: planning, listing files, between stages, collecting results."""
    parts = {name: view.rests.get(name, 0) for name in ("prepare", "replan", "driver", "finish")}
    collected = view.wall_of((), ("collect",))
    whole = sum(parts.values()) + collected
    results = _result_bytes(view)
    parts["collect"] = collected
    evidence = {
        **{f"{k}_ms": v for k, v in parts.items()},
        "operators": len(view.facts.graph.nodes),
        "result_bytes": results,
    }
    received = parts["finish"] + collected
    if results >= _MUCH_RECEIVED and received:
        yield Cause(
            "driver",
            received,
            (),
            f"the driver took {duration_text(received)} to receive {bytes_text(results)} of results",
            _RECEIVED_ADVICE,
            {**evidence, "listing_ms": 0},
            is_place=False,
        )
    longest = max(parts, key=lambda name: parts[name])
    listing = sum(view.facts.total(n, "metadata time") or 0 for n in view.facts.graph.nodes)
    if longest in ("finish", "collect") and results:
        what = f"the driver took {duration_text(whole)}, most of it to receive {bytes_text(results)} of results"
        advice = _RECEIVED_ADVICE
    elif longest == "prepare":
        what = f"the driver took {duration_text(whole)}, most of it before any task ran"
        if listing > 0.3 * parts["prepare"]:
            what += f"; listing files took {duration_text(listing)}"
            advice = "Read fewer files and partitions; a table in a metastore or a table format knows its files."
        elif len(view.facts.graph.nodes) >= LARGE_PLAN_OPERATORS:
            advice = _LARGE_PLAN
        else:
            advice = _SMALL_PLAN if view.execution["execution_id"] else _FIRST_QUERY
    elif longest in ("finish", "collect"):
        what = f"the driver took {duration_text(whole)}, most of it for the results of tasks"
        advice = "Look at what the driver does then: the results of many tasks, or its memory and CPU."
    else:
        what = f"the driver took {duration_text(whole)}, most of it between stages"
        advice = "Look at what the driver does then: planning again under AQE, many small jobs, or its memory and CPU."
    if whole < _STARTING_MS and not (results and longest in ("finish", "collect")):
        advice = "Nothing needs to be done: starting a query takes about this."
    yield Cause(
        "driver",
        whole,
        (),
        what,
        advice,
        {**evidence, "listing_ms": listing},
    )


def _result_bytes(view: View) -> int:
    """What the driver received of rows; results of tasks that only update metrics count nothing."""
    return sum(
        row["result_bytes"]
        for row in view.stored.stages
        if row["broadcast_ms"] is None
        and not row["shuffle_write_rows"]
        and (row["result_bytes"] or 0) >= _LEAST_RESULT * max(1, row["tasks"])
    )


def files_written(view: View) -> Iterator[Cause]:
    """A write of many small files."""
    for node in view.of_kind("write"):
        files, size = (view.facts.total(node, name) or 0 for name in ("number of written files", "written output"))
        if files < _MANY_FILES or size / files >= _SMALL_FILE:
            continue
        stages = [ran for ran in view.ran if node.id in ran.nodes]
        yield Cause(
            "small_files",
            view.wall_of((), ("file_write",)) + view.rests.get("commit", 0),
            (node.id,),
            f"it wrote {files:,} files of {bytes_text(round(size / files))} on average",
            "Write fewer, larger files: repartition before the write, by its partition columns or to fewer partitions.",
            {"files": files, "bytes": size},
            stages[0].stage_id if stages else None,
        )


def commit(view: View) -> Iterator[Cause]:
    """The commit of a write."""
    writes = list(view.of_kind("write"))
    files = max([view.facts.total(node, "number of written files") or 0 for node in writes], default=0)
    took = view.rests.get("commit", 0)
    if took:
        yield Cause(
            "commit",
            took,
            tuple(node.id for node in writes),
            f"the commit of the write took {duration_text(took)}" + (f" for {files:,} files" if files else ""),
            "Write fewer files (repartition by the partition columns before the write), or use a committer or table"
            " format that does not rename files.",
            {"files": files, "commit_ms": took},
        )


def nested(view: View) -> Iterator[Cause]:
    """Executions that this one started."""
    took = view.rests.get("nested", 0)
    if took:
        spent: dict[int, int] = {}
        for each in view.stored.segments:
            if each["cause"] == "nested" and each["nested_execution_id"] is not None:
                number = each["nested_execution_id"]
                spent[number] = spent.get(number, 0) + each["end_ms"] - each["start_ms"]
        longest = max(spent, key=lambda number: spent[number], default=None)
        yield Cause(
            "nested",
            took,
            (),
            f"it waited {duration_text(took)} for {len(spent)} execution{'s' * (len(spent) != 1)} that it started"
            + (f", the longest is {longest}" if longest is not None else ""),
            f"Look at execution {longest}: joinsight verdict {view.execution['application_id']}/{longest}.",
            {"executions": len(spent), "longest_execution": longest or 0},
        )


# Caches and the machine


def caches(view: View) -> Iterator[Cause]:
    """A cached table that this execution filled, or filled again."""
    for row in view.stored.caches:
        filled = row["fill_wall_ms"] or 0
        if row["fill_stages"] is None:
            continue
        again = len(row["filled_by"]) > 1
        what = f"filling {row['table_name'] or 'a cached DataFrame'} took {duration_text(filled)}"
        if again:
            what += f"; executions {', '.join(map(str, row['filled_by'][:5]))} filled it"
        yield Cause(
            "cache",
            filled,
            (row["node_id"],),
            what,
            "It was filled more than once: it does not fit into memory, or was not kept. Use MEMORY_AND_DISK or more"
            " memory, or cache less."
            if again
            else "Later executions save this time, if they read it; else remove cache() or persist().",
            {"fill_wall_ms": filled, "filled_by": len(row["filled_by"]), "reads": row["reads"]},
            row["fill_stages"][0] if row["fill_stages"] else None,
        )


def contention(view: View) -> Iterator[Cause]:
    """The same work took the same CPU time, but longer: something else used the machine."""
    runs = [each for each in view.stored.earlier if each["run_time_ms"] and each["cpu_time_ms"]]
    run = sum(ran.run_ms for ran in view.ran)
    cpu = sum(ran.number("cpu_time_ns") for ran in view.ran) // 1_000_000
    if not runs or not run or not cpu:
        return
    usual = median_high(each["cpu_time_ms"] / each["run_time_ms"] for each in runs)
    usual_wall = median_high(each["duration_ms"] for each in runs)
    usual_cpu = median_high(each["cpu_time_ms"] for each in runs)
    now = cpu / run
    longer = view.wall_ms - usual_wall
    if now < 0.7 * usual and longer > 0.2 * usual_wall and 0.6 < cpu / usual_cpu < 1.6:
        yield Cause(
            "contention",
            min(longer, round(sum(ran.wall_ms for ran in view.ran) * (1 - now / usual))),
            (view.ran[0].nodes[:3] if view.ran else ()),
            f"its tasks had the CPU for {100 * now:.0f} % of their run time, {100 * usual:.0f} % in earlier runs, for"
            " as much CPU time",
            "The machine was busy with something else: look at what ran beside it.",
            {"cpu_share": round(now, 3), "usual_cpu_share": round(usual, 3), "earlier_runs": len(runs)},
            view.ran[0].stage_id if view.ran else None,
        )


def work(view: View) -> Iterator[Cause]:
    """Operators' own work. Of those that cannot be told apart, the likeliest one goes first."""
    known: dict[int, int] = {}
    for account, ms in view.walls.items():
        if account.kind == "operator" and account.node_id is not None:
            known[account.node_id] = ms
    for account, ms in view.walls.items():
        if account.kind != "shared" or not ms or account.name:
            continue  # those of one kind have causes of their own
        parts = view.guesses(view.bill.holds(account))
        first = max(parts, key=lambda i: parts[i], default=None)
        if first is None:
            continue
        its = known.pop(first, 0)
        is_guess = len(parts) > 1 and its < ms
        yield _own_work(view, first, ms + its, account.node_id if is_guess else first, is_guess=is_guess)
    for node_id, ms in known.items():
        node = view.facts.nodes[node_id]
        if operators.of(node.name).kind in ("scan", "shuffle", "broadcast") or operators.is_python(node.name):
            continue
        yield _own_work(view, node_id, ms, node_id, is_guess=False)
    written = view.wall_of((), ("file_write",))
    if written:
        writes = tuple(node.id for node in view.of_kind("write"))
        yield Cause(
            "compute",
            written,
            writes,
            "encoding and writing files",
            "Write fewer columns, a faster compression (lz4, snappy, zstd level 1), or fewer files at once.",
            {},
        )


def _own_work(view: View, node_id: int, wall_ms: int, sampled: int | None, *, is_guess: bool) -> Cause:
    """`sampled`: the node that its samples are of, it or its codegen stage."""
    node = view.facts.nodes[node_id]
    rows = max([view.rows(i) or 0 for i in (node_id, *view.facts.inputs(node))])
    pairs = _pairs(view, node)
    what = f"its own work on {_rows(rows)}" if rows else "its own work"
    if pairs:
        what = f"it compared up to {_rows(pairs).replace('row', 'pair')} of rows"
    if is_guess:
        likely = f"compared up to {_rows(pairs).replace('row', 'pair')} of rows" if pairs else "handled most rows"
        what = f"probably most of it into the one that {likely}"
    work, share = _work(view, sampled)
    if work:
        what = f"{what}; {100 * share:.0f} % of it went into {work_text(work)}"
    return Cause(
        "compute",
        wall_ms,
        (node_id,),
        what,
        _compute_advice(view, node),
        {"rows": rows, "is_estimate": int(is_guess), **({"work": work, "work_share": round(share, 3)} if work else {})},
        _stage_of(view, node_id),
    )


def _pairs(view: View, node: Node) -> int:
    """How many pairs of rows a join without an equality may have compared; 0: another operator, or it is unknown."""
    sides = [view.rows(i) for i in view.facts.inputs(node)[:2]] if operators.of(node.name).compares_pairs else []
    return math.prod(rows or 0 for rows in sides) if len(sides) == 2 else 0


def _work(view: View, node_id: int | None) -> tuple[str, float]:
    """The kind of work that most of a node's task time went into, and its share; empty if none stands out."""
    its = (row for row in view.stored.task_times if node_id is not None and row["node_id"] == node_id)
    work, share = next(iter(kinds_of_work(its)), ("", 0.0))
    return (work, share) if share >= _MUCH_WORK else ("", 0.0)


def exploding(view: View) -> Iterator[Cause]:
    """An operator other than a join makes many rows of each, and all that follows in its stage works on them."""
    for node in view.facts.graph.nodes:
        if not node.name.startswith(("Generate", "Expand")):
            continue
        out, read = view.rows(node.id), view.rows(next(iter(view.facts.inputs(node)), node.id))
        if not out or not read or out < _LEAST_RATIO * read or out < 10_000:
            continue
        yield Cause(
            "compute",
            round(_wall_above(view, node.id) * (1 - read / out)),
            (node.id,),
            f"it made {_rows(out)} from {_rows(read)}",
            _compute_advice(view, node),
            {"output_rows": out, "input_rows": read, "ratio": round(out / read, 1)},
            _stage_of(view, node.id),
            is_place=False,
        )


def _wall_above(view: View, node_id: int) -> int:
    """How long the execution waited for an operator and for what its rows go through in the same stage."""
    its = {node_id, *view.above(node_id)}
    return sum(
        ms
        for ran in view.ran
        if node_id in ran.nodes
        for account, ms in ran.parts.items()
        if (account.kind == "operator" and account.node_id in its)
        or (account.kind == "shared" and its & set(view.bill.holds(account)))
    )


def _compute_advice(view: View, node: Node) -> str:
    kind = operators.of(node.name).kind
    if kind == "join":
        if operators.of(node.name).compares_pairs:
            return _PAIRS_ADVICE
        return "Join fewer rows: filter before it; broadcast the smaller side if it fits."
    if kind == "sort":
        return _sort_advice(view, node)
    if kind == "aggregate":
        return "Aggregate fewer rows or groups: filter before it, or aggregate once and reuse the result."
    if kind in ("filter", "project"):
        return "Look at its expressions: regular expressions, JSON, many CASEs or casts; compute them on fewer rows."
    if "Window" in node.name:
        return "Window over fewer rows, or replace it by an aggregation and a join."
    if node.name.startswith("Expand"):
        return (
            "Each count(DISTINCT), and each grouping of CUBE, ROLLUP and GROUPING SETS, makes a copy of each row: use"
            " approx_count_distinct, fewer groupings, or count distinct values in two steps."
        )
    if node.name.startswith("Generate"):
        return "Explode fewer rows: filter before it, or use higher-order functions (transform, filter, aggregate)."
    return "Look at what it does for each row."


_SORT_FOR_QUERY = "Sort less: drop a sort (ORDER BY) that nothing needs, or sort fewer and smaller rows."
_SORT_FOR_JOIN = (
    "Spark sorts for the join: a broadcast of its smaller side, or a shuffled hash join (hint SHUFFLE_HASH), needs no"
    " sort; else join fewer and smaller rows."
)
_SORT_FOR_AGGREGATE = (
    "Spark sorts for the aggregation, because a result, such as the max of a text, has no fixed size: aggregate numbers"
    " or dates instead, or fewer and smaller rows."
)
_SORT_FOR_WINDOW = (
    "Spark sorts for the window: use the same PARTITION BY and ORDER BY for all windows, so that they share a sort, or"
    " sort fewer and smaller rows."
)
_SORT_FOR_WRITE = (
    "Spark sorts for the write, to write one partition after the other: write fewer rows, or set"
    " spark.sql.maxConcurrentOutputFileWriters to at least the number of partitions that a task writes."
)
_SORT_FOR_PYTHON = "Spark sorts to give the Python function one group after the other: give it fewer and smaller rows."


def _sort_advice(view: View, sort: Node) -> str:
    """What to do depends on who asked for it: an operator above it, or the query."""
    if "], true" in sort.simple:
        return _SORT_FOR_QUERY
    for i in view.above(sort.id):
        name, kind = view.facts.nodes[i].name, operators.of(view.facts.nodes[i].name).kind
        if (operators.join_strategy(name) or "").startswith("SortMerge"):
            return _SORT_FOR_JOIN
        if operators.of(name).code_prefix == "sortAgg":
            return _SORT_FOR_AGGREGATE
        if kind == "write":
            return _SORT_FOR_WRITE
        if operators.is_python(name):
            return _SORT_FOR_PYTHON
        if "Window" in name:
            return _SORT_FOR_WINDOW
        if view.is_work(i) and kind not in ("filter", "project"):
            break
    return _SORT_FOR_QUERY


def _stage_of(view: View, node_id: int) -> int | None:
    """The stage on the critical path in which an operator took longest."""
    return next((ran.stage_id for ran in view.ran if node_id in ran.nodes), None)


def _rows(number: int) -> str:
    return f"{number:,} row{'s' * (number != 1)}" if number < 1_000_000 else f"{number / 1e6:,.1f} M rows"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


MECHANISMS: tuple[Callable[[View], Iterator[Cause]], ...] = (
    join_output,
    imbalance,
    memory,
    python,
    scans,
    exchanges,
    small_sides,
    waiting,
    driver,
    commit,
    files_written,
    nested,
    caches,
    contention,
    exploding,
    work,
)
