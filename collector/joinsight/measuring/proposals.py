"""Which variants of a measured query are worth a trial: those that its joins, findings and verdict propose.

Each names the number that it should lower, so that a faster run counts only if its reason is the one that was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from joinsight.analysis.rows import Rows
from joinsight.analysis.stored import stored_plan
from joinsight.base.units import bytes_text, duration_text
from joinsight.measuring.keys import mean_rows_read
from joinsight.measuring.rewrite import SALTS, Plans
from joinsight.plan import operators
from joinsight.tables import JoinRow, ShuffleRow
from joinsight.verdict import names
from joinsight.verdict.cause import Cause, Code
from joinsight.verdict.mechanisms import causes
from joinsight.verdict.view import View

_ADAPTIVE = "spark.sql.adaptive"
_MOST_BROADCAST = 1 << 30
"""Bytes of a side that is proposed for a broadcast: a larger one may end the driver or an executor."""
_LEAST_SHARE = 0.1
"""The share of the wall time from which on a cause gets a proposal."""
_SKEW = 3.0
_PARTITION_BYTES = 64 << 20
_NAMED = 3
_COALESCED = re.compile(rf"{operators.COALESCE} (\d+)")
_NEEDS_OTHERS: tuple[Code, ...] = ("join_output", "python", "small_files", "commit", "gc", "cache", "slow_host")
"""Codes that only other code, data or machines change, whatever else is tried with their operators."""
SHUFFLED_TWICE = "cache the rows that are shuffled twice"


class Run(Protocol):
    """A measured run: `measurement.Measured`."""

    @property
    def executions(self) -> Sequence[Execution]:
        """In their order."""


class Execution(Protocol):
    """An execution of it: `measurement.MeasuredExecution`."""

    @property
    def rows(self) -> Rows:
        """The rows that a collector would store."""


@dataclass(frozen=True)
class Number:
    """What a finding named, summed over the executions of a run."""

    name: str
    of: Callable[[Run], float]
    text: Callable[[int], str]


def _column(name: str) -> Callable[[Run], float]:
    return lambda run: sum(getattr(each.rows.execution, name) or 0 for each in run.executions)


def _stages(value: Callable[[Any], float], together: Callable[[Iterator[float]], float]) -> Callable[[Run], float]:
    return lambda run: together(value(stage) for each in run.executions for stage in each.rows.stage)


SHUFFLED = Number("shuffled", _column("shuffle_write_bytes"), bytes_text)
BROADCAST = Number("broadcast", _column("broadcast_bytes"), bytes_text)
SPILLED = Number("spilled", _column("disk_spilled_bytes"), bytes_text)
SORTED = Number(
    "sort time",
    lambda run: sum(join.sort_ms or 0 for each in run.executions for join in each.rows.joins),
    duration_text,
)
WORK = Number("task time", _column("task_time_ms"), duration_text)
TASKS = Number("tasks", _stages(lambda stage: stage.tasks or 0, sum), lambda number: f"{number:,}")
LONGEST = Number(
    "longest task",
    _stages(lambda stage: stage.run_time_ms.max if stage.run_time_ms else 0, lambda each: max(each, default=0)),
    duration_text,
)


@dataclass(frozen=True)
class Proposal:
    """A variant of a query."""

    variant: str
    code: str
    """What to change in the user's code."""
    number: Number | None
    """What it should lower. None: it is described, not tried."""
    settings: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Plans, Any, Any], Any | None] | None = None
    """Gives the changed plan of (plans, plan, session); None if the plan has no such operator."""
    nodes: tuple[int, ...] = ()
    """The operators that it is about; empty: the whole query."""
    is_made_anew: bool = False
    """Whether each run needs a changed plan of its own, which keeps rows."""
    described: str = ""
    """Why it is not tried."""
    changes_strategy: bool = False
    """Whether it gives the first of its operators, a join, another strategy."""


def proposals(execution: Execution) -> list[Proposal]:
    """The variants for an execution, at most one of a name; first those for what takes most of its time."""
    view = View(stored_plan(execution.rows))
    found: dict[str, Proposal] = {}
    whole = max(1, view.wall_ms)
    large = [each for each in causes(view) if each.wall_ms >= _LEAST_SHARE * whole]
    for join in execution.rows.joins:
        for proposal in _of_join(view, execution, join, large):
            found.setdefault(proposal.variant, proposal)
    for proposal in _of_query(view, execution, large):
        found.setdefault(proposal.variant, proposal)
    for proposal in _described(view, execution, large, list(found.values())):
        found.setdefault(proposal.variant, proposal)
    worst = sorted(large, key=lambda cause: -cause.wall_ms)

    def rank(proposal: Proposal) -> int:
        return next((at for at, cause in enumerate(worst) if set(cause.nodes) & set(proposal.nodes)), len(worst))

    return sorted(found.values(), key=rank)


def _of_join(view: View, execution: Execution, join: JoinRow, large: list[Cause]) -> Iterator[Proposal]:
    if not join.left_keys or not join.right_keys or join.join_type is None:
        return
    title = names.operator(view, join.node_id)
    exchanges = {"left": join.left_exchange, "right": join.right_exchange}
    nodes = tuple(each for each in (join.node_id, *exchanges.values()) if each is not None)
    sizes = {"left": join.left_bytes, "right": join.right_bytes}

    def hinted(variant: str, side: str, hint: str, number: Number, strategy: str | None = None) -> Proposal:
        """The join with a hint on a side; `strategy`: Spark's name for it, if it is another one."""
        code = f'{side}.hint("{hint.lower()}")  # the {side} side of {title}; in SQL /*+ {hint}(its name) */'
        return Proposal(
            variant, code, number, change=_hint(join, side, strategy or hint), nodes=nodes, changes_strategy=True
        )

    is_broadcast = operators.of(join.strategy).is_broadcast_join
    allowed = next((sides for name, sides in operators.JOIN_TYPES.items() if name == join.join_type), ())
    measured = sorted((size, side) for side in allowed if (size := sizes[side]) is not None)
    if not is_broadcast and measured and measured[0][0] <= _MOST_BROADCAST:
        size, side = measured[0]
        yield hinted(f"broadcast the {side} side of {title} ({bytes_text(size)})", side, "BROADCAST", SHUFFLED)
    if is_broadcast and join.build_side and any(cause.code == "broadcast" for cause in large):
        merged = f"sort-merge join instead of a broadcast for {title}"
        yield hinted(merged, join.build_side, "MERGE", BROADCAST, "SHUFFLE_MERGE")
    hashable = sorted((size, side) for side in ("left", "right") if (size := sizes[side]) is not None)
    if join.strategy == operators.SORT_MERGE_JOIN and len(hashable) == 2 and 3 * hashable[0][0] <= hashable[1][0]:
        built = hashable[0][1]
        yield hinted(f"hash the {built} side of {title} instead of sorting both", built, "SHUFFLE_HASH", SORTED)
    shuffles: dict[int | None, ShuffleRow] = {row.node_id: row for row in execution.rows.shuffle}
    ratios = {side: _ratio(shuffles.get(exchange)) for side, exchange in exchanges.items()}
    skewed = max(ratios, key=lambda side: ratios[side])
    if ratios[skewed] >= _SKEW:
        other = "right" if skewed == "left" else "left"
        yield Proposal(
            f"salt {title}, {SALTS} parts of each key",
            f'# {skewed}: .withColumn("salt", pmod(xxhash64(*columns), lit({SALTS})).cast("int"))\n'
            f'# {other}: .withColumn("salt", explode(sequence(lit(0), lit({SALTS - 1}))))\n'
            '# then join on the keys and "salt", and drop "salt"',
            LONGEST,
            change=lambda plans, plan, session: plans.salted(plan, _keys(join), skewed, session),
            nodes=nodes,
        )


def _keys(join: JoinRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(join.left_keys or ()), tuple(join.right_keys or ())


def _hint(join: JoinRow, side: str, strategy: str) -> Callable[[Plans, Any, Any], Any | None]:
    return lambda plans, plan, session: plans.hinted(plan, _keys(join), side, strategy)


def _ratio(row: ShuffleRow | None) -> float:
    """The rows that the largest task read, to the mean of the tasks."""
    if row is None or not row.rows_read or not row.rows_read_max:
        return 0.0
    return float(row.rows_read_max / mean_rows_read(row))


def _of_query(view: View, execution: Execution, large: list[Cause]) -> Iterator[Proposal]:
    shuffles = execution.rows.shuffle
    slots = view.slots or 1
    written = sum(row.bytes_written or 0 for row in shuffles)
    codes: dict[str, Cause] = {cause.code: cause for cause in reversed(large)}
    keyed = [row for row in shuffles if row.keys]
    if not execution.rows.execution.is_adaptive and keyed:
        yield _setting("adaptive query execution", {f"{_ADAPTIVE}.enabled": "true"}, TASKS)
    partitions = max((row.partitions or 0 for row in keyed), default=0)
    if "tiny_tasks" in codes and partitions:
        fewer = max(slots, -(-written // _PARTITION_BYTES))
        if fewer < partitions:
            yield _setting(f"{fewer:,} shuffle partitions", _partitions(fewer), TASKS, codes["tiny_tasks"].nodes)
    if "few_tasks" in codes:
        yield from _more_tasks(view, execution, codes["few_tasks"], partitions)
    reading = codes.get("few_tasks") or codes.get("scan")
    if reading is not None and (reading.code != "scan" or reading.only_says_where):  # else it cannot be split
        read = execution.rows.execution.input_bytes or 0
        if read > slots << 20:
            split = max(1 << 20, read // (3 * slots))
            size = {"spark.sql.files.maxPartitionBytes": f"{split}b"}
            yield _setting(f"input splits of {bytes_text(split)}", size, LONGEST)
    if "spill" in codes and keyed:
        more = 4 * max(partitions, slots)
        size = {f"{_ADAPTIVE}.advisoryPartitionSizeInBytes": "16m"}
        yield _setting(f"{more:,} shuffle partitions", _partitions(more) | size, SPILLED, codes["spill"].nodes)
    skews = [codes[code] for code in ("data_skew", "output_skew") if code in codes]
    if skews and execution.rows.joins:
        yield _setting(
            "AQE splits skewed partitions",
            {
                f"{_ADAPTIVE}.enabled": "true",
                f"{_ADAPTIVE}.skewJoin.enabled": "true",
                f"{_ADAPTIVE}.forceOptimizeSkewedJoin": "true",
                f"{_ADAPTIVE}.skewJoin.skewedPartitionFactor": "2",
                f"{_ADAPTIVE}.skewJoin.skewedPartitionThresholdInBytes": "1m",
                f"{_ADAPTIVE}.advisoryPartitionSizeInBytes": f"{max(1 << 20, written // (4 * slots))}b",
            },
            LONGEST,
            skews[0].nodes,
        )
    by_node = {row.node_id: row for row in shuffles}
    for cause in large:
        if cause.evidence.get("is_needless") and cause.nodes[0] in by_node:
            yield _without(by_node[cause.nodes[0]], cause, SHUFFLED)


def _more_tasks(view: View, execution: Execution, cause: Cause, partitions: int) -> Iterator[Proposal]:
    """More shuffle partitions, or without what the query asks for: a repartition, a coalesce, a bucketed table."""
    slots = view.slots or 1
    shuffles = execution.rows.shuffle
    if partitions or (shuffles and (execution.rows.execution.shuffle_partitions or slots) < slots):
        more = max(3 * slots, partitions)
        coalesced = {f"{_ADAPTIVE}.coalescePartitions.enabled": "false"}
        settings = _partitions(more) | coalesced
        yield _setting(f"{more:,} shuffle partitions, not coalesced", settings, LONGEST, cause.nodes)
    ran = next((each for each in view.ran if each.stage_id == cause.stage_id), None)
    for row in shuffles:
        asked = "REPARTITION_BY_NUM" in view.plan.nodes[row.node_id].simple
        if asked and ran is not None and ran.stage_id in (row.reduce_stages or ()) and (row.partitions or 0) < slots:
            yield _without(row, cause, LONGEST)
    for node in (view.plan.nodes[i] for i in ran.nodes) if ran is not None else ():
        asks = _COALESCED.match(node.simple)
        if asks:
            yield _without_coalesce(int(asks[1]), cause)
        if operators.of(node.name).kind == "scan" and "Bucketed: true" in node.simple:
            yield _setting("without buckets", {"spark.sql.sources.bucketing.enabled": "false"}, LONGEST, cause.nodes)


def _without_coalesce(number: int, cause: Cause) -> Proposal:
    return Proposal(
        f"without coalesce({number})",
        f"# remove .coalesce({number}), or write .repartition({number}) if the number of files matters",
        LONGEST,
        change=lambda plans, plan, session: plans.without_coalesce(plan, number),
        nodes=cause.nodes,
    )


def _without(row: ShuffleRow, cause: Cause, number: Number) -> Proposal:
    keys = tuple(row.keys or ())
    named = ", ".join([*([str(row.partitions)] if row.partitions else []), *keys])
    return Proposal(
        f"without repartition({named})",
        f"# remove .repartition({named})",
        number,
        change=lambda plans, plan, session: plans.without_repartition(plan, keys),
        nodes=cause.nodes,
    )


def caching(kind: str, columns: Sequence[str], times: int) -> Proposal:
    """Cache what the query makes several times."""
    named = ", ".join(columns[:_NAMED]) + (", …" if len(columns) > _NAMED else "")
    return Proposal(
        f"cache the {kind.lower()} with {named}, which the query makes {times} times",
        f"rows = rows.cache()  # the DataFrame with {named}; rows.unpersist() after the query",
        WORK,
        change=lambda plans, plan, session: plans.cached(plan, session),
        is_made_anew=True,
    )


def _partitions(number: int) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(number),
        f"{_ADAPTIVE}.coalescePartitions.initialPartitionNum": str(number),
    }


def _setting(variant: str, settings: Mapping[str, str], number: Number, nodes: tuple[int, ...] = ()) -> Proposal:
    code = "\n".join(f'spark.conf.set("{name}", "{value}")' for name, value in settings.items())
    return Proposal(variant, code, number, settings, nodes=nodes)


def _described(view: View, execution: Execution, large: list[Cause], tried: Collection[Proposal]) -> Iterator[Proposal]:
    """What needs other code, data or machines, which cannot be derived from a plan: of causes without a variant."""
    nodes = {node for each in tried for node in each.nodes}
    known = {each.code for each in large if each.code not in _NEEDS_OTHERS and not nodes.isdisjoint(each.nodes)}
    for cause in sorted(large, key=lambda cause: -cause.wall_ms):
        if cause.is_together or cause.code in known or (cause.only_says_where and cause.code != "python"):
            continue
        known.add(cause.code)
        place = names.operator(view, cause.nodes[0]) if cause.nodes else ""
        yield Proposal(
            cause.what if place in cause.what else f"{place}: {cause.what}",
            cause.next,
            None,
            nodes=cause.nodes,
            described=f"Not tried, because no setting or hint changes it. {cause.next}",
        )
    for finding in execution.rows.finding:
        if finding.finding == "repeated-shuffle":
            yield Proposal(
                SHUFFLED_TWICE,
                finding.advice,
                None,
                nodes=(finding.node_id,),
                described="Not tried: no join or aggregation is in the query's plan twice.",
            )
