"""Divides the run time of stages among the operators of the final plan: docs/task-time.md.

The listener says how often tasks were seen at what, in terms of stacks; here these become nodes of the plan. Where a
function of generated code holds several operators, their time is that of the whole codegen stage: nothing is guessed.
A stage without samples has the few times that Spark measures by themselves.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from joinsight.contract.document import MAX_LONG, NOT_RUN, Accumulator, Stage
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.metrics import PlanMetrics
from joinsight.timing.stages import BYTES_READ, Stages

Key = TypeVar("Key", bound=Hashable)
Method = Literal["sampled", "metrics", "stage"]
METHODS: tuple[Method, ...] = ("sampled", "metrics", "stage")
REST = "rest"
_NATIVE = "native"
"""Samples of calls that run many operators of a native engine; their time is divided by what these measured."""
Took = tuple[int | None, str]
"""A node, None for one that AQE removed, and a part of the task time that it took: one of `PARTS`."""
PARTS = (
    *("code", "sort", "aggregation", "hashed_relation", "operator"),
    *("shuffle_read", "scan", "cached_scan", "python"),
    *("shuffle_write", "file_write", "cache_build", "collect", "other", REST),
)
"""What tasks can be at: groups of samples (`Stacks` of the listener), and what no metric explains."""
WORKS: Mapping[str, str] = {
    "regex": "regular expressions",
    "json": "JSON",
    "xml": "XML",
    "csv": "CSV",
    "decimal": "decimals",
    "date": "dates and timestamps",
    "string": "strings",
    "hash": "hashing or encryption",
    "compare": "comparing and sorting",
    "compression": "compression",
    "serialization": "serialization",
    "parquet": "Parquet",
    "orc": "ORC",
    "avro": "Avro",
    "io": "reading or writing files and connections",
    "python": "waiting for Python workers",
    "lock": "waiting for a lock",
    "wait": "waiting",
}
"""Kinds of work inside of an operator (`Work` of the listener), as readers see them."""
USER_CODE = "user:"
"""What precedes the class of a user's code where other kinds of work are one of `WORKS`."""

_MEASURED = {
    "sort time": "sort",
    "scan time": "scan",
    "shuffle write time": "shuffle_write",
    "fetch wait time": "shuffle_read",
    "task commit time": "file_write",
    operators.PYTHON_TIME: "python",
}
"""Spark's times that include no other operator's, and what tasks are at then; Python's only as `_is_alone` says."""
_PARTS_OF_KINDS: Mapping[str, str] = {"sort": "sort", "aggregate": "aggregation", "scan": "scan"}
_BESIDE_PYTHON = ("scan", "filter", "project", "sort", "aggregate", "limit", "shuffle_read", "write", "query_stage")
"""Kinds of operators that take little beside a Python worker for as many rows, or of which Spark measures the time."""
_NUMBER = re.compile(r"\((\d+)\)")
_FUNCTION = re.compile(r"([A-Za-z]+)_([A-Za-z]+)(?:_\w+)?_\d+")
_COLUMNS = re.compile(r"Project(?: \[(?:[\w.]+#\d+L?(?:, )?)*\])?")
"""A projection that only picks columns, or none: it has no code."""
_LOOPS = ("doAggregateWithKeys", "doAggregateWithoutKey", "addToSorter")
"""Functions that run the operators below theirs."""
_UPWARD = ("doConsume", "doAggregateWithKeysOutput", "consumeFullOuterJoinRow")
"""Functions that run the operators above theirs."""
_NO_HELPERS = ("filter", "project")
"""Kinds of operators of whose classes generated code calls nothing: on a stack, they have no generated code."""
_EXPRESSIONS = {
    "regex": re.compile(r"\bR?LIKE\b|\bregexp_|\bsplit\("),
    "json": re.compile(r"(?i)json\w{0,30}\(|variant\w{0,30}\("),
    "xml": re.compile(r"(?i)xml\w{0,30}\(|xpath\w{0,30}\("),
    "csv": re.compile(r"(?i)csv\w{0,30}\("),
    "hash": re.compile(r"\b(sha\d?|md5|crc32|xxhash64|hash|aes_\w{1,30})\("),
}
"""What an operator's text has whose code does this kind of work; searching takes time in proportion to the text."""


class Spent(Struct, frozen=True):
    """A part of the run time of a stage attempt; those of an attempt add up to it."""

    stage_id: int
    stage_attempt: int
    part: str
    """One of `PARTS`."""
    node_id: int | None
    """The operator, or the codegen stage, that it went into; None: it cannot be told."""
    samples: int | None
    task_time_ms: int
    task_time_error_ms: int | None
    """Standard error; None: it is measured."""
    method: Method
    work: str | None = None
    """The kind of work inside of it: a key of `WORKS`, or `USER_CODE` with a class; None: none that is known."""


def work_text(work: str) -> str:
    """A kind of work as readers see it: ``regular expressions``, ``code of com.acme.Parse``."""
    if work.startswith(USER_CODE):
        return f"code of {work.removeprefix(USER_CODE)}"
    return WORKS.get(work, work)


def single_of(nodes: Iterable[Node], work: str) -> int | None:
    """The only one of these operators whose text has what does a kind of work; None: none, or several."""
    does = _EXPRESSIONS.get(work)
    return None if does is None else _single([node for node in nodes if does.search(node.simple)])


def kinds_of_work(task_times: Iterable[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """The kinds of work of these rows of `task_time`, with their shares of the time, the largest first."""
    total = 0
    by_work: Counter[str] = Counter()
    for row in task_times:
        total += row["task_time_ms"]
        if row["work"] is not None:
            by_work[row["work"]] += row["task_time_ms"]
    return [(work, ms / total) for work, ms in by_work.most_common() if ms]


def sum_of_errors(errors: Sequence[int]) -> int | None:
    """The standard error of a sum of independent times; None for none."""
    return math.ceil(math.hypot(*errors)) if errors else None


def task_times(plan: PlanMetrics, stages: Iterable[Stage], removed: Sequence[Node] = ()) -> Iterator[Spent]:
    """What the run time of these stages went into, the largest part of each first.

    `removed`: the nodes of earlier plans that the final one lacks. Their times are of no node.
    """
    stages = list(stages)
    attempts = Counter(stage.id for stage in stages)
    measured, native = _by_metrics(plan), _natively(plan, stages, attempts, removed)
    places = _Places(plan)
    is_sampled = any(any(stage.samples.values()) for stage in stages)
    for stage in stages:
        if stage.state in NOT_RUN or not stage.run_time_ms:
            if stage.state == "running" and any(stage.samples.values()):
                yield from _sampled(stage, places)  # none of its tasks has ended: counts without times
            continue
        its = measured.get(stage.id, ()) if attempts[stage.id] == 1 else ()
        if any(stage.samples.values()):
            yield from _with_native(stage, list(_sampled(stage, places)), native.get(stage.id))
        else:
            yield from _measured(stage, its, native.get(stage.id), is_short=is_sampled)


def _with_native(stage: Stage, sampled: Sequence[Spent], native: _Native | None) -> Sequence[Spent]:
    """What samples saw, with the time of native calls divided among the operators that ran in them.

    Where no call was seen, as the engine's samples tell nothing, operators took what they measured.
    """
    calls = sum(each.task_time_ms for each in sampled if each.part == _NATIVE)
    others = [each for each in sampled if each.part != _NATIVE]
    if native is not None:
        others = _by_shuffle(others, native)
    if native is None or not (its := native.in_calls(any(each.part == "shuffle_read" for each in others))):
        return [replace(each, part="operator") if each.part == _NATIVE else each for each in sampled]
    measured = _in_ms(its)
    whole = calls or min(measured, stage.run_time_ms)
    rest = {index: each.task_time_ms for index, each in enumerate(others)}
    if not any(rest.values()):
        whole = stage.run_time_ms
    found = _divided(stage, whole, its, is_all=not native.untimed_in_calls or measured >= whole)
    if whole > sum(each.task_time_ms for each in found):  # operators that measure no time ran there, too
        left = whole - sum(each.task_time_ms for each in found)
        node = native.untimed_in_calls[0] if len(native.untimed_in_calls) == 1 else None
        method: Method = "stage" if node is None else "metrics"
        found.append(Spent(stage.id, stage.attempt, "operator", node, None, left, None, method))
    if any(rest.values()):
        found += [replace(others[i], task_time_ms=ms) for i, ms in divide(stage.run_time_ms - whole, rest).items()]
    return sorted((each for each in found if each.task_time_ms), key=lambda each: -each.task_time_ms)


def _by_shuffle(sampled: Sequence[Spent], native: _Native) -> list[Spent]:
    """These with reads that may be of several shuffles divided by the bytes that were read of each."""
    unknown = [each for each in sampled if each.part == "shuffle_read" and each.node_id is None]
    if not unknown or not any(native.read.values()):
        return list(sampled)
    parts = divide(sum(each.task_time_ms for each in unknown), native.read)
    found = [
        replace(
            unknown[0], node_id=i, task_time_ms=ms, samples=None, task_time_error_ms=None, method="metrics", work=None
        )
        for i, ms in parts.items()
        if ms
    ]
    return [*(each for each in sampled if each not in unknown), *found]


def _divided(stage: Stage, whole: int, native: Mapping[Took, int], *, is_all: bool) -> list[Spent]:
    """What operators measured; with `is_all` in proportion, so that they add up to `whole`."""
    parts = divide(whole, native) if is_all else {took: _to_ms(ns) for took, ns in native.items()}
    return [Spent(stage.id, stage.attempt, part, node, None, ms, None, "metrics") for (node, part), ms in parts.items()]


def _in_ms(native: Mapping[Took, int]) -> int:
    return sum(map(_to_ms, native.values()))


def _to_ms(ns: int) -> int:
    return (ns + 500_000) // 1_000_000


def divide(whole: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """`whole` in proportion to the weights, which must not all be 0, as integers that add up (largest remainders)."""
    total = sum(weights.values())
    parts = {key: whole * weight // total for key, weight in weights.items()}
    left = whole - sum(parts.values())
    for key in sorted(weights, key=lambda key: -(whole * weights[key] % total))[:left]:
        parts[key] += 1
    return parts


def _sampled(stage: Stage, places: _Places) -> Iterator[Spent]:
    counts: Counter[tuple[str, int | None, str | None]] = Counter()
    for key, count in stage.samples.items():
        group, *place = key.split(" ")
        work = place.pop()[1:] if place and place[-1].startswith("+") else None
        part = group if group in PARTS or group == _NATIVE else "other"
        counts[part, places.node(stage.id, part, place, work), work] += count
    total = counts.total()
    seen = given = 0
    for (part, node, work), count in sorted(counts.items(), key=_largest_first):
        seen += count
        ms = stage.run_time_ms * seen // total - given  # rounded so that they add up
        given += ms
        likely = (count + 1) / (total + 2)  # so that one sample of one is not certain
        error = stage.run_time_ms * math.sqrt(likely * (1 - likely) / (total + 2))
        if count:
            yield Spent(
                stage.id, stage.attempt, part, node, min(count, MAX_LONG), ms, math.ceil(error), "sampled", work
            )


def _largest_first(counted: tuple[tuple[str, int | None, str | None], int]) -> tuple[int, str, int, str]:
    (part, node, work), count = counted
    return -count, part, -1 if node is None else node, work or ""


def _measured(stage: Stage, measured: Sequence[Spent], native: _Native | None, *, is_short: bool) -> Iterator[Spent]:
    """`measured`: by metrics, which do not tell attempts apart; `is_short`: the stage ended before a sample."""
    if native is not None:
        beside = [each for each in measured if (each.node_id, each.part) not in native.took and each.part != "python"]
        left = max(0, stage.run_time_ms - sum(each.task_time_ms for each in beside))
        total = _in_ms(native.took)
        is_most = not native.untimed and (is_short or 2 * total >= left)
        measured = [*beside, *_divided(stage, left, native.took, is_all=is_most or total > left)]
    others = sum(each.task_time_ms for each in measured if each.part != "python")
    left = max(0, stage.run_time_ms - others)  # while they run, Python workers also wait for these
    measured = [
        replace(each, task_time_ms=min(each.task_time_ms, left)) if each.part == "python" else each for each in measured
    ]
    measured = [each for each in measured if each.task_time_ms]
    rest = stage.run_time_ms - sum(each.task_time_ms for each in measured)
    if rest < 0:  # they overlap
        measured, rest = [], stage.run_time_ms
    if rest and is_short and native is not None and len(native.untimed) == len(native.untimed_in_calls) == 1:
        measured.append(Spent(stage.id, 0, "operator", native.untimed[0], None, rest, None, "metrics"))
        rest = 0
    for each in sorted(measured, key=lambda each: -each.task_time_ms):
        yield replace(each, stage_attempt=stage.attempt)
    if rest:
        yield Spent(stage.id, stage.attempt, REST, None, None, rest, None, "stage")


def _by_metrics(plan: PlanMetrics) -> Mapping[int, Sequence[Spent]]:
    """The times that Spark measured in one stage only, by stage."""
    found = defaultdict(list)
    for node in plan.graph.nodes:
        operator = operators.of(node.name)
        for metric in node.metrics:
            measured, name = plan.accumulators.get(metric.id), operator.metric(metric.name)
            if name not in _MEASURED or measured is None or len(measured.stages) != 1:
                continue
            if name == operators.PYTHON_TIME and not _is_alone(plan, node):
                continue
            (stage,) = measured.stages
            ms = (measured.sum or 0) // (1_000_000 if metric.type == "nsTiming" else 1)
            if ms > 0:
                found[stage].append(Spent(stage, 0, _MEASURED[name], node.id, None, ms, None, "metrics"))
    return found


def _is_alone(plan: PlanMetrics, python: Node) -> bool:
    """Whether no other operator of its stage may take long: Python workers also wait for rows, and for their reader."""
    todo, seen = [python.id], {python.id}
    while todo:
        node = plan.nodes[todo.pop()]
        if node.id != python.id:
            operator = operators.of(node.name)
            if operator.is_exchange or operator.kind == "reused_exchange":
                continue
            if operator.kind not in _BESIDE_PYTHON and not operator.is_wrapper and not operator.source_name:
                return False
            if operator.kind == "scan":
                continue
        around = {*plan.inputs(node), *plan.consumers(node)} - seen
        seen |= around
        todo += around
    return True


class _Native(NamedTuple):
    """What operators of a native engine measured in a stage."""

    took: Mapping[Took, int]
    """Nanoseconds: of operators that took less than a millisecond, too, the proportions tell."""
    conversions: frozenset[int]
    """The nodes of these that convert between rows and columns, which are called by themselves."""
    untimed: Sequence[int | None]
    """The operators of the stage that measured no time, but for those that take none."""
    untimed_in_calls: Sequence[int | None]
    """The engine's of these: Spark's do not run in its calls."""
    read: Mapping[int, int]
    """The bytes that it read of shuffles, by node."""

    def in_calls(self, reads_outside: bool) -> Mapping[Took, int]:
        """Those of operators that run many in one call; `reads_outside`: a shuffle is read and decoded elsewhere."""
        outside = ("shuffle_read",) if reads_outside else ()
        return {
            (node, part): ns
            for (node, part), ns in self.took.items()
            if node not in self.conversions and part not in outside
        }


def _natively(
    plan: PlanMetrics, stages: Sequence[Stage], attempts: Mapping[int, int], removed: Sequence[Node]
) -> Mapping[int, _Native]:
    """What operators of native engines measured, by stage; not of stages with several attempts."""
    engines = [node for node in plan.graph.nodes if operators.of(node.name).native_times]
    gone = [node for node in removed if operators.of(node.name).native_times]
    if not engines and not gone:
        return {}
    run_times = {stage.id: stage.run_time_ms for stage in stages if attempts[stage.id] == 1}
    found: dict[int, Counter[Took]] = defaultdict(Counter)
    # Of scans with what was done between, by stage and node
    wholes: dict[int, Counter[int | None]] = defaultdict(Counter)
    for place, node in [*((node.id, node) for node in engines), *((None, node) for node in gone)]:
        operator = operators.of(node.name)
        for metric in node.metrics:
            is_whole = metric.name in operator.times_with_consumers
            if is_whole or metric.name in operator.native_times:
                part = operator.native_times.get(metric.name) or _PARTS_OF_KINDS.get(operator.kind, "operator")
                unit = 1 if metric.type == "nsTiming" else 1_000_000
                for stage, ns in _by_run_time(plan.accumulators.get(metric.id), unit, run_times).items():
                    if is_whole:
                        wholes[stage][place] += ns
                    elif ns:
                        found[stage][place, part] += ns
    for stage, scans in wholes.items():
        waited = scans.total() - found[stage].total()
        if waited > 0:  # for files
            found[stage].update({(i, "scan"): ns for i, ns in divide(waited, scans).items() if ns})
    read: dict[int, Counter[int]] = defaultdict(Counter)
    for node in plan.graph.nodes:
        for name in BYTES_READ if operators.is_shuffle(node.name) else ():
            for stage, size in _by_run_time(plan.metrics(node).get(name), 1, run_times).items():
                read[stage][node.id] += size
    conversions = frozenset(node.id for node in engines if operators.of(node.name).is_wrapper)
    ran = Stages(plan).ran
    timed = {node.id for node in engines if is_timed(node)}
    untimed_gone = Counter(
        stage
        for node in removed
        if operators.of(node.name).engine and not is_timed(node) and not _is_free(node)
        for stage in {i for m in node.metrics if m.id in plan.accumulators for i in plan.accumulators[m.id].stages}
    )
    by_stage = {}
    for stage, took in found.items():
        if took:
            untimed = [i for i in ran.get(stage, ()) if i not in timed and not _takes_no_time(plan, i, ran[stage])]
            in_calls = [i for i in untimed if operators.of(plan.nodes[i].name).engine]
            unknown = [None] * untimed_gone[stage]
            by_stage[stage] = _Native(took, conversions, [*untimed, *unknown], [*in_calls, *unknown], read[stage])
    return by_stage


def _by_run_time(measured: Accumulator | None, unit: int, run_times: Mapping[int, int]) -> Mapping[int, int]:
    """A metric times `unit`, by stage; of several stages, in proportion to how long these ran."""
    if measured is None or measured.sum is None or measured.sum <= 0:
        return {}
    weights = {stage: run_times[stage] for stage in measured.stages if run_times.get(stage)}
    return divide(measured.sum * unit, weights) if weights else {}


def _takes_no_time(plan: PlanMetrics, node_id: int, beside: Sequence[int]) -> bool:
    """Whether an operator takes no time, or reads less than a tenth of the rows of one `beside` it in the stage."""
    if _is_free(plan.nodes[node_id]):
        return True
    rows = plan.rows_read(node_id)
    return rows is not None and any(10 * rows < (plan.rows_read(i) or 0) for i in beside)


def _is_free(node: Node) -> bool:
    """Whether an operator takes no time that others do not measure."""
    operator = operators.of(node.name)
    return operator.is_wrapper or operator.is_exchange or operator.kind == "limit" or operator.name == operators.UNION


def is_timed(node: Node) -> bool:
    """Whether its engine measures what it takes."""
    return any(metric.name in operators.of(node.name).native_times for metric in node.metrics)


class _Places:
    """Finds the nodes that samples belong to."""

    def __init__(self, plan: PlanMetrics) -> None:
        self._facts = plan
        self._clusters: dict[str, list[Node]] = defaultdict(list)
        self._members: dict[int, list[Node]] = defaultdict(list)  # by cluster, the root first
        for node in plan.graph.nodes:
            number = _NUMBER.search(node.name) if node.is_cluster else None
            if number:
                self._clusters[number[1]].append(node)
            elif node.cluster is not None:
                self._members[node.cluster].append(node)
        self._of_stages = Stages(plan)

    def node(self, stage: int, part: str, place: Sequence[str], work: str | None) -> int | None:
        """The node that samples of a group belong to; `place`: the rest of their key. None: it cannot be told."""
        if part == "shuffle_write":
            return self._of_stages.makes(stage)
        if part == "collect":
            broadcast = self._of_stages.broadcasts.get(stage)
            return None if broadcast is None else broadcast.id
        if part in ("code", "sort", "aggregation", "hashed_relation") and len(place) == 2:
            cluster = self._cluster(stage, place[0])
            return None if cluster is None else self._in_code(cluster, part, place[1], work)
        wanted = place[0] if part == "operator" and place else ""
        number = place[-1] if place and place[-1].isdigit() else None
        cluster = None if number is None else self._cluster(stage, number)
        if number is not None and cluster is None:
            return None
        nodes = self._by_stage.get(stage, ()) if cluster is None else self._below(cluster)
        written = self._of_stages.writes.get(stage) if part == "shuffle_read" else None
        return _single(node for node in nodes if node.id != written and _fits(node, part, wanted))

    def _cluster(self, stage: int, number: str) -> Node | None:
        """The codegen stage with this number. Subqueries and cached plans have numbers of their own."""
        known = self._clusters.get(number, [])
        ran = [node for node in known if stage in self._stages(node)]
        found = ran or [node for node in known if not self._stages(node)]
        return found[0] if len(found) == 1 else None

    def _stages(self, node: Node) -> set[int]:
        return {stage for measured in self._facts.metrics(node).values() for stage in measured.stages}

    @cached_property
    def _by_stage(self) -> Mapping[int, Sequence[Node]]:
        """The nodes that measured something in a stage."""
        found = defaultdict(list)
        for node in self._facts.graph.nodes:
            for stage in self._stages(node):
                found[stage].append(node)
        return found

    def _below(self, cluster: Node) -> Iterator[Node]:
        """The operators of a codegen stage, and those that it reads from up to the next one, with their exchanges."""
        todo = [node.id for node in self._members[cluster.id]]
        seen = set(todo)
        while todo:
            node = self._facts.nodes[todo.pop()]
            yield node
            if operators.of(node.name).is_exchange or operators.of(node.name).kind in operators.SOURCES:
                continue
            for child in self._facts.inputs(node):
                if child not in seen and self._facts.nodes[child].cluster in (None, cluster.id):
                    seen.add(child)
                    todo.append(child)

    def _in_code(self, cluster: Node, part: str, function: str, work: str | None) -> int:
        """The operator whose code a function is; that of the codegen stage if it holds several."""
        members = self._members[cluster.id]
        inside = self._inlined(members, function)
        if part != "code":
            kinds = {"sort": "sort", "aggregation": "aggregate", "hashed_relation": "join"}
            inside = [node for node in inside if operators.of(node.name).kind == kinds[part]]
        found = _single(inside or members)
        if part == "code" and work in _EXPRESSIONS:
            does = _EXPRESSIONS[work].search
            if found is None or not does(self._facts.nodes[found].simple):
                its = [node for node in inside or members if does(node.simple)]
                # Rows come through iterators of operators that have no code of their own, and no frame of their own
                fed = [node for node in self._below(cluster) if node.cluster is None and does(node.simple)]
                found = _single(its or fed) if its or fed else found
        return cluster.id if found is None else found

    def _inlined(self, members: Sequence[Node], function: str) -> list[Node]:
        """The operators whose code a function may hold. `members`: of its codegen stage, the root first."""
        inside = {node.id for node in members}
        is_chain = all(sum(child in inside for child in self._facts.inputs(node)) <= 1 for node in members)
        named = _FUNCTION.fullmatch(function)
        owners = [node for node in members if named and operators.code_prefix(node.name) == named[1]]
        if len(owners) > 1 or not is_chain:
            return list(members)
        if not owners:
            return _without_columns(_run(members, 0)) if function == "processNext" else list(members)
        (owner,) = owners
        place = members.index(owner)
        kind = named[2] if named else ""
        if kind in _LOOPS:
            return [*([owner] if _is_sort(owner) else []), *_without_columns(_run(members, place + 1))]
        if kind in _UPWARD:
            if kind == "doConsume" and _is_blocking(owner):
                return [owner]
            above = []
            for node in reversed(members[:place]):
                if _is_blocking(node):
                    above += [node] if _is_sort(node) else []
                    break
                above.append(node)
            return _without_columns([owner, *above])
        return [owner]


def _run(members: Sequence[Node], start: int) -> list[Node]:
    """The operators from a place down to the next that keeps all rows before it returns one."""
    run = []
    for node in members[start:]:
        run.append(node)
        if _is_blocking(node):
            break
    return run


def _without_columns(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if not _COLUMNS.fullmatch(node.simple)] or list(nodes)


def _is_sort(node: Node) -> bool:
    return operators.of(node.name).kind == "sort"


def _is_blocking(node: Node) -> bool:
    return operators.of(node.name).kind in ("sort", "aggregate")


def _fits(node: Node, part: str, wanted: str) -> bool:
    operator = operators.of(node.name)
    if part == "operator":
        is_interpreted = node.cluster is None or operator.kind not in _NO_HELPERS
        return is_interpreted and not node.is_cluster and node.name.partition("(")[0].strip() == wanted
    return is_of_part(node, part)


def is_of_part(node: Node, part: str) -> bool:
    """Whether tasks can be at this part of the task time for a node: at its source, its shuffle, its Python code."""
    if part == "python":
        return operators.is_python(node.name)
    kind = operators.of(node.name).kind
    return kind == "shuffle" if part == "shuffle_read" else part in ("scan", "cached_scan") and kind == part


def _single(nodes: Iterable[Node]) -> int | None:
    found = {node.id for node in nodes}
    return found.pop() if len(found) == 1 else None
