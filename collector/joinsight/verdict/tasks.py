"""Tasks of a stage that are unequal, too few, or too many: the slots were not used evenly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from joinsight.analysis.rows import byte_size
from joinsight.base.units import bytes_text, duration_text, times
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.operators import OUTPUT_ROWS
from joinsight.tables import Row
from joinsight.verdict import names
from joinsight.verdict.cause import MB, MUCH_OF_STAGE, SMALL_FILE, Cause, Code, percent, rows_text
from joinsight.verdict.sources import TEXT_FORMATS, source_format
from joinsight.verdict.straggler import Straggler, straggler
from joinsight.verdict.view import Ran, View, needs_keys

_SLOW = 1.5
"""The median task of an executor to that of the others."""
_MUCH_EXCESS = 0.1
"""Share of a stage's run time."""
SKEWED = 2.5
"""The longest task to the mean of the others."""
_UNEVEN = 1.5
"""The same, where it also read or made far more rows than the others."""
_MANY_TIMES = 4.0
_COALESCE, _ADVISORY = (
    f"spark.sql.adaptive.{name}" for name in ("coalescePartitions.", "advisoryPartitionSizeInBytes")
)
_MERGED = "AQEShuffleRead coalesced"
_ROWS_TELL = {"read_ratio", "made_ratio"}
_EXPLAINED = 0.5
"""Share of the longer run time of a task that its longer CPU time must explain, where all tasks wait for CPUs alike."""
_LEAST_AT_ONCE = 2
"""Fewer processors than these are a busy machine's."""
_TINY_MS = 100
"""Run time of a task that is mostly overhead."""
_PER_TASK_MS = 5
"""What a task costs beside its work, on a calm host: serialization, launch, its metrics and result."""
_LARGE_ROW = 1 << 10
"""Bytes from which on rows, such as lists, may differ so much in size that their number says little."""
_MANY_TASKS = 10
"""Tasks for each slot, from which on they may be too many."""
_UNSPLITTABLE = (".gz", ".zip", ".deflate", ".snappy]")
"""Ends of names of files that one task has to read whole."""
_MOSTLY = 0.6
_BESIDE_PYTHON = 0.75
"""Python functions take many times as long as Spark's own: once they are replaced, few tasks may be enough."""
_BESIDE_SLOW_ROWS = 0.5
"""AQE makes few tasks of few bytes, which are enough for operators that are not that slow."""


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
        spared = ran.wall_ms - round(_even_ms(view, ran, usable))
        longest = ran.number("run_time_ms_max")
        ratio = ran.ratio(longest, ran.run_ms)
        slow = _slow(ran)
        if slow is not None:
            yield slow
            continue
        mean = ran.run_ms / max(1, ran.tasks)
        writing = view.block_ms(ran) * ran.run_ms / ran.wall_ms
        useful = max(0, ran.run_ms - writing - _PER_TASK_MS * view.stretch(ran) * ran.tasks) / usable
        tiny = max(spared, round(ran.wall_ms - useful))
        is_tiny = ran.tasks >= _MANY_TASKS * usable and mean <= _TINY_MS
        is_skewed = ratio is not None and ratio >= SKEWED
        uneven = _uneven_ms(view, ran, usable, spared, ratio or 0.0) if is_skewed else 0
        if is_tiny and not (is_skewed and 2 * uneven >= tiny and _has_more_rows(view, ran, ratio or 0.0)):
            yield _tiny_tasks(view, ran, tiny, mean)
        elif ratio is not None and uneven > 0:
            yield _skew(view, ran, usable, uneven, ratio)
        elif ratio is not None and spared > 0 and _is_uneven(view, ran, usable, ratio):
            saved = spared if ran.tasks <= 2 * usable else _uneven_ms(view, ran, usable, spared, ratio)
            yield _skew(view, ran, usable, max(0, saved), ratio)
        elif ran.tasks < usable:
            yield _few_tasks(view, ran, spared, usable)


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
    share = f"{percent(its.rows, its.of)} of {rows_text(its.of)}"
    if its.is_read:
        nodes = (*(i for i in ran.nodes if needs_keys(view.plan.nodes[i]) and i != its.node_id), its.node_id)
        evidence = {"read_ratio": round(its.ratio, 1)}
        return _Reason("data_skew", nodes, f"; it has read {share}", _skew_advice(view, nodes), evidence)
    advice = _output_advice(view, its.node_id)
    text = f"; it has made {share} of {names.operator(view, its.node_id)}"
    return _Reason("output_skew", (its.node_id,), text, advice, {"made_ratio": round(its.ratio, 1)})


def _even_ms(view: View, ran: Ran, usable: int) -> float:
    """How long a stage would take if its work were even in all slots, which may share fewer processors.

    In stages that have all slots, tasks then have the CPU for a smaller share of their run time.
    """
    if not view.knows_cpu(ran):
        return ran.run_ms / usable
    share = ran.cpu_ms / ran.run_ms
    when_full = min(share, view.full_cpu_share or share)
    return ran.run_ms / min(usable, max(_LEAST_AT_ONCE, usable * when_full / share)) if share else ran.run_ms / usable


def _uneven_ms(view: View, ran: Ran, usable: int, spared: int, ratio: float) -> int:
    """What a stage would be spared if its longest task were like the others.

    The same work in even tasks needs no less of the slots; a task that is slow without more work does.
    """
    longest = ran.number("run_time_ms_max")
    wall = min(spared, round(longest - ran.run_ms / max(ran.tasks, usable)))
    if _reason(view, ran, ratio).code == "slow_host":
        others = (ran.run_ms - longest) / (ran.tasks - 1)
        excess = longest - others
        wall = max(wall, round(excess / usable))
        if _knows_cpu(view, ran):  # else its rows may take more CPU
            wall = max(wall, round(min(excess, ran.wall_ms - max(others, (ran.run_ms - excess) / usable))))
    return min(wall, ran.wall_ms)


def _knows_cpu(view: View, ran: Ran) -> bool:
    """Whether the CPU time of the longest task is known: that of Python and of native engines is not."""
    names = [view.plan.nodes[i].name for i in ran.nodes]
    elsewhere = any(operators.is_python(name) or operators.of(name).engine for name in names)
    return bool(ran.number("cpu_time_ms_max")) and not elsewhere


def _is_uneven(view: View, ran: Ran, usable: int, ratio: float) -> bool:
    """Whether rows tell why its longest task took longer, and that costs more than that tasks are few.

    Where one has many times the rows, tasks are few because AQE merged what the others have.
    """
    evidence = _reason(view, ran, ratio).evidence if ratio >= _UNEVEN else {}
    more_rows = max((evidence[name] for name in evidence.keys() & _ROWS_TELL), default=0.0)
    mean = ran.run_ms / ran.tasks
    costs_more = ran.number("run_time_ms_max") - mean >= mean - ran.run_ms / usable
    return more_rows >= _MANY_TIMES or (more_rows > 0 and costs_more)


def _has_more_rows(view: View, ran: Ran, ratio: float) -> bool:
    """Whether the longest task of a stage has more rows than the others."""
    return bool(_reason(view, ran, ratio).evidence.keys() & _ROWS_TELL)


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
    seen_ms = round(ran.wall_ms * (1 - ran.tasks / usable))
    of = "one task" if ran.tasks == 1 else f"{ran.tasks} tasks"
    evidence: Mapping[str, float] = {"tasks": ran.tasks, "slots": usable}
    unsplit = _unsplit_scan(view, ran)
    if unsplit is not None:
        return Cause(
            "scan",
            wall_ms,
            (unsplit,),
            f"{of} read a file that cannot be split, while {usable} could run",
            "Store the data in a format that can be split (Parquet, ORC, or text without gzip), or as more files.",
            evidence,
            ran.stage_id,
            seen_ms,
            is_place=not (_is_packed(view.plan.nodes[unsplit]) or _is_of_lines(view.plan.nodes[unsplit])),
        )
    merged = _merged(view, ran, usable)
    if merged:
        text = f"{of} {_does(ran)} all of its work, because nearly all of {bytes_text(_read_bytes(ran))} have one key"
        advice = _skew_advice(view, merged)
        return Cause("data_skew", wall_ms, merged, text, advice, evidence, ran.stage_id, seen_ms)
    return Cause(
        "few_tasks",
        wall_ms,
        _of_few_tasks(view, ran),
        f"{of} {_does(ran)} all of its work, while {usable} could run",
        _few_tasks_advice(view, ran),
        evidence,
        ran.stage_id,
        seen_ms,
        certainty=_beside(view, ran),
    )


def _merged(view: View, ran: Ran, usable: int) -> tuple[int, ...]:
    """What reads a shuffle by a key of which AQE merged all partitions into one, large enough to leave several.

    It does so where one of them has nearly all, and merges the small ones with it.
    """
    read = [row for row in view.stored.shuffles if ran.stage_id in (row["reduce_stages"] or ())]
    is_whole = all(
        row["partitioning"] == "hashpartitioning"
        and (row["partitions"] or 0) >= max(2, usable)
        and (row["rows_read"] or 0) >= (row["rows_written"] or 0)  # show() reads one partition of several
        for row in read
    )
    is_asked = any(view.plan.nodes[i].name.startswith(operators.COALESCE) for i in ran.nodes)
    if not read or not is_whole or is_asked or int(ran.row["tasks"]) > 1 or _read_bytes(ran) < _least_split(view):
        return ()
    shuffles = [row["node_id"] for row in read if row["node_id"] is not None]
    return (*[i for i in ran.nodes if needs_keys(view.plan.nodes[i]) and i not in shuffles][:2], *shuffles[:2])


def _least_split(view: View) -> int:
    """Bytes of a shuffle from which on AQE leaves several partitions if none has most of them.

    Spark makes them of 1 MiB and more, for all slots; without ``parallelismFirst``, of the advisory size.
    """
    settings = view.stored.session_settings
    if settings.get(f"{_COALESCE}parallelismFirst", "true").lower() == "false":
        return 2 * (byte_size(settings.get(_ADVISORY), None) or 64 * MB)
    return 3 * (byte_size(settings.get(f"{_COALESCE}minPartitionSize"), None) or MB)


def _read_bytes(ran: Ran) -> int:
    """What its tasks read of shuffles."""
    return ran.number("shuffle_read_local_bytes") + ran.number("shuffle_read_remote_bytes")


def _beside(view: View, ran: Ran) -> float:
    """What few tasks count where one operator takes most of their time, and would be repaired first."""
    if _python_ms(view, ran) >= _MOSTLY * ran.wall_ms:
        return _BESIDE_PYTHON
    first, its = max(((of.node_id, ms) for of, ms in ran.parts.items()), key=lambda each: each[1], default=(None, 0))
    if first is None or first not in view.plan.nodes or its < _MOSTLY * ran.wall_ms:
        return 1.0
    rows = max(view.rows(i) or 0 for i in (first, *view.plan.inputs(view.plan.nodes[first])))
    is_slow = view.takes_long_for_a_row((first,), rows)
    return _BESIDE_SLOW_ROWS if is_slow and _Read.of(view, ran).is_merged(ran) else 1.0


class _Read(NamedTuple):
    """The shuffles that a stage read."""

    rows: Sequence[Row]
    shuffles: Sequence[Node]
    readers: Sequence[Node]
    partitions: int

    @classmethod
    def of(cls, view: View, ran: Ran) -> _Read:
        rows = [row for row in view.stored.shuffles if ran.stage_id in (row["reduce_stages"] or ())]
        shuffles = [view.plan.nodes[row["node_id"]] for row in rows if row["node_id"] in view.plan.nodes]
        readers = [view.plan.nodes[i] for node in shuffles for i in view.plan.consumers(node)]
        return cls(rows, shuffles, readers, max((row["partitions"] or 0 for row in rows), default=0))

    def is_merged(self, ran: Ran) -> bool:
        """Whether AQE merged partitions because they are small."""
        return self.partitions > ran.tasks and any(node.simple.startswith(_MERGED) for node in self.readers)


def _does(ran: Ran) -> str:
    if not ran.is_running:
        return "did"
    return "does" if ran.tasks == 1 else "do"


def _python_ms(view: View, ran: Ran) -> int:
    """How long the tasks of a stage waited for Python."""
    return sum(
        ms
        for subject, ms in ran.parts.items()
        if subject.name == "python"
        or (subject.node_id is not None and operators.is_python(view.plan.nodes[subject.node_id].name))
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
    """What made the tasks few: a window, what the query asks for, AQE, a setting, or its sources."""
    nodes = [view.plan.nodes[i] for i in ran.nodes]
    if any(names.operator(view, node.id) == names.ALL_ROWS for node in nodes):
        return "Give the window a PARTITION BY, so that several tasks can compute it."
    if any(node.name.startswith(operators.COALESCE) for node in nodes):
        return "coalesce(n) also makes the operators before it run in n tasks: use repartition(n), or a larger n."
    read = _Read.of(view, ran)
    if read.is_merged(ran):
        is_even = view.stored.session_settings.get(f"{_COALESCE}parallelismFirst", "true").lower() != "false"
        return (
            f"AQE merged its {read.partitions:,} partitions, because they are small: lower"
            f" {f'{_COALESCE}minPartitionSize' if is_even else _ADVISORY}, or call repartition(n) before what takes"
            " long."
        )
    if any("REPARTITION_BY_NUM" in node.simple for node in read.shuffles):
        return f"Remove repartition({read.partitions}), or give it more partitions: what follows runs in as many tasks."
    if any(operators.of(node.name).name == operators.COLLECT_LIMIT for node in nodes):
        return (
            "show(), take() and LIMIT run one task first, and more only if its rows are too few: filter or aggregate"
            " before that, or raise spark.sql.limit.initialNumPartitions."
        )
    if any(row["partitioning"] == "SinglePartition" for row in read.rows):
        return (
            "All rows come together in one task, for an aggregation, a limit or a sort of all of them: do what takes"
            " long before that, or call repartition(n) after it."
        )
    if read.rows and read.partitions < (view.slots or 2):
        return "Use more partitions: raise spark.sql.shuffle.partitions."
    if any(node.simple.startswith("AQEShuffleRead local") for node in read.readers):
        return (
            "AQE reads the rows where they were written, by as few tasks: call repartition(n) before what takes long."
        )
    if read.rows:
        return "It reads only some of its partitions, as show() and LIMIT do: filter or aggregate before that."
    scans = [node for node in nodes if operators.of(node.name).kind == "scan"]
    if any("Bucketed: true" in node.simple for node in scans):
        return "Each task reads a bucket: store more of them, or set spark.sql.sources.bucketing.enabled=false."
    if any(view.plan.total(node, "number of files read") for node in scans):
        return "Lower spark.sql.files.maxPartitionBytes, store more files, or call repartition(n) after reading."
    if any(node.name.startswith("BatchScan") for node in scans):
        return "Lower the size of the table's splits, or call repartition(n) after reading."
    return "Give its source more partitions (parallelize, range, numPartitions), or call repartition(n) after it."


def _unsplit_scan(view: View, ran: Ran) -> int | None:
    """A scan of large files that made too few tasks: Spark splits files that it can split."""
    for node_id in ran.nodes:
        node = view.plan.nodes[node_id]
        if operators.of(node.name).kind != "scan":
            continue
        files, size = (view.plan.total(node, name) for name in ("number of files read", "size of files read"))
        least = SMALL_FILE if _is_of_lines(node) else 2 * SMALL_FILE
        if files and files <= ran.tasks and (_is_packed(node) or (size or 0) / files > least):
            return node_id
    return None


def _is_of_lines(node: Node) -> bool:
    """Whether it reads text, of which Spark splits a file beyond `SMALL_FILE` unless it is compressed or one value."""
    return source_format(node) in (*TEXT_FORMATS, "text")


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


def _skew(view: View, ran: Ran, usable: int, spared: int, ratio: float) -> Cause:
    longest = ran.number("run_time_ms_max")
    reason = _reason(view, ran, ratio)
    ran_for = f"one of {ran.tasks:,} tasks ran for {duration_text(longest)}, {times(ratio)} as long as the others"
    seen_ms = min(ran.wall_ms, longest) - round(ran.run_ms / max(ran.tasks, usable))
    return Cause(
        reason.code,
        spared,
        reason.nodes,
        ran_for + reason.text,
        reason.next,
        {"tasks": ran.tasks, "run_time_ms_max": longest, "ratio": round(ratio, 1), **reason.evidence},
        ran.stage_id,
        seen_ms if reason.evidence.keys() & _ROWS_TELL else 0,
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
        text, evidence = f": {text}, although all read about as much", {"made_ratio": round(its, 1)}
        return _Reason("output_skew", (node_id,), text, _output_advice(view, node_id), evidence)
    cpu = ran.ratio(ran.number("cpu_time_ms_max"), ran.cpu_ms)
    if cpu is not None and view.knows_cpu(ran) and cpu - 1 >= _EXPLAINED * (ratio - 1):
        text = f": its rows took {times(cpu)} as much CPU, although all read about as much"
        advice = "Look at what its rows have more of: long texts, large arrays, values that are slow to compute."
        return _Reason("output_skew", ran.nodes[:3], text, advice, {"cpu_ratio": round(cpu, 1)})
    where = _where(ran) if ran.number("slowest_run_time_ms") == ran.number("run_time_ms_max") else ""
    on = f", on {where}" if where else ""
    return _Reason("slow_host", ran.nodes[:3], f"{on}, with no more data than they had", f"{_WAITS} {_SLOW_HOST}")


_WAITS = "Look at what its rows wait for, such as a service that they call, or at its host:"
_SLOW_HOST = "other load, slow disks, memory; spark.speculation=true starts such tasks again elsewhere."


def _slow(ran: Ran) -> Cause | None:
    """An executor or host that took longer for its tasks than others for the same work."""
    host, excess = ran.row.get("slowest_host"), ran.number("slowest_excess_ms")
    median, others = ran.number("slowest_median_ms"), ran.number("slowest_others_median_ms")
    tasks = ran.number("slowest_tasks")
    if not host or tasks < 2 or median < _SLOW * max(1, others) or excess < _MUCH_EXCESS * ran.run_ms:
        return None
    return Cause(
        "slow_host",
        round(ran.wall_ms * min(1.0, excess / ran.run_ms)),
        ran.nodes[:3],
        f"{_where(ran)} took {duration_text(median)} for the median task, {times(median / max(1, others))} as long as"
        " the others for as much work",
        f"Look at that host: {_SLOW_HOST}",
        {"tasks": tasks, "median_ms": median, "others_median_ms": others, "excess_ms": excess},
        ran.stage_id,
        seen_ms=min(ran.wall_ms, excess),
    )


def _where(ran: Ran) -> str:
    """``executor 1 on node7``: where tasks took longest; empty if it is not known, or all ran in one place."""
    host, executor = ran.row.get("slowest_host"), ran.row.get("slowest_executor")
    return f"executor {executor} on {host}" if executor and host else str(host or "")


def _read_ratio(view: View, ran: Ran) -> tuple[float, str, tuple[int, ...]] | None:
    """What the task that read most read, to the mean of the others; as text; and the operators concerned."""
    best: tuple[float, str] | None = None
    rows, size = ran.number("shuffle_read_rows"), _read_bytes(ran)
    amounts: Sequence[tuple[str, int, Callable[[int], str]]] = (
        ("shuffle_read_bytes", size, bytes_text),
        ("shuffle_read_rows", rows, rows_text),
    )
    for name, total, text in amounts[: 1 if size >= _LARGE_ROW * rows else 2]:
        largest = ran.number(f"{name}_max")
        ratio = ran.ratio(largest, total)
        if ratio is not None and (best is None or ratio >= best[0]):
            best = ratio, f"it read {percent(largest, total)} of {text(total)}"
    read = [
        row
        for row in view.stored.shuffles
        if ran.stage_id in (row["reduce_stages"] or ()) and row["node_id"] is not None
    ]
    for row in read if len(read) > 1 else ():  # one side of a join may hide that the other one is skewed
        largest, total = row["rows_read_max"] or 0, row["rows_read"] or 0
        ratio = ran.ratio(largest, total) if total >= MUCH_OF_STAGE * ran.number("shuffle_read_rows") else None
        if best is not None and ratio is not None and ratio > best[0]:
            best = ratio, f"it read {percent(largest, total)} of {rows_text(total)}"
    shuffles = [row["node_id"] for row in read]
    if best is not None:
        readers = [i for i in ran.nodes if needs_keys(view.plan.nodes[i]) and i not in shuffles][:2]
        worst = sorted(shuffles, key=lambda i: -(_most_read(view, i)))
        return best[0], best[1], (*readers, *worst[:2]) or ran.nodes[:2]
    for node_id in ran.nodes:
        node = view.plan.nodes[node_id]
        if operators.of(node.name).kind != "scan":
            continue
        ratio = ratio_of(view, ran, node, OUTPUT_ROWS)
        if ratio is not None and ratio >= 2:
            measured = view.plan.metrics(node)[OUTPUT_ROWS]
            its = f"it read {percent(measured.max or 0, measured.sum or 0)} of {rows_text(measured.sum or 0)}"
            return ratio, its, (node_id, *(i for i in ran.nodes[:1] if i != node_id))
    return None


def _most_read(view: View, node_id: int) -> int:
    return next((row["rows_read_max"] or 0 for row in view.stored.shuffles if row["node_id"] == node_id), 0)


def ratio_of(view: View, ran: Ran, node: Node, name: str) -> float | None:
    """The largest task's value of a metric to the mean of the others; None unless it was measured in this stage."""
    measured = view.plan.metrics(node).get(name)
    if measured is None or measured.max_stage != ran.stage_id:
        return None
    return ran.ratio(measured.max or 0, measured.sum or 0)


def _made_ratio(view: View, ran: Ran) -> tuple[int, float, str] | None:
    """The operator of which one task made most of the rows; of several, the one where it made most."""
    found = []
    for node_id in ran.nodes:
        node = view.plan.nodes[node_id]
        ratio = ratio_of(view, ran, node, OUTPUT_ROWS)
        if ratio is not None and ratio >= SKEWED and (view.plan.total(node, OUTPUT_ROWS) or 0) >= 1_000:
            found.append((view.plan.metrics(node)[OUTPUT_ROWS].max or 0, node_id, ratio))
    if not found:
        return None
    _, node_id, ratio = max(found)
    measured = view.plan.metrics(view.plan.nodes[node_id])[OUTPUT_ROWS]
    share = percent(measured.max or 0, measured.sum or 0)
    return node_id, ratio, f"it made {share} of the {rows_text(measured.sum or 0)} of {names.operator(view, node_id)}"


def _output_advice(view: View, node_id: int) -> str:
    if operators.of(view.plan.nodes[node_id].name).kind == "join":
        return "Look at the most frequent values of its key (joinsight keys): some have many rows on both sides."
    return (
        "Look at the rows of that task: some have far larger arrays or texts, or far more of them pass a filter;"
        " repartition before what is expensive."
    )


def _skew_advice(view: View, nodes: tuple[int, ...]) -> str:
    find = "Find the most frequent value of the key (joinsight keys); NULL and a default are the usual ones."
    for name in (view.plan.nodes[i].name for i in nodes):
        if operators.of(name).kind == "join":
            return f"{find} Join its rows separately, or let AQE split them (spark.sql.adaptive.skewJoin.*)."
        if "Window" in name:
            return f"{find} Give the window a finer PARTITION BY, or leave the rows of that value out of it."
        if operators.is_python(name):
            return f"{find} Give the Python function smaller groups, or leave the rows of that value out of it."
    if any(operators.of(view.plan.nodes[i].name).kind == "aggregate" for i in nodes):
        return f"{find} Aggregate its rows in two steps: by the key and a random number, then by the key."
    return f"{find} Repartition by more columns, or by their number alone, where nothing needs its rows together."
