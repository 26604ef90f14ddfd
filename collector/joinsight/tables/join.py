"""Table `joins`: a join of the final plan."""

from __future__ import annotations

from sqlalchemy import Index

from joinsight.tables.broadcast import THRESHOLD
from joinsight.tables.declare import (
    Bytes,
    ExecutionKey,
    Int,
    Ms,
    Ratio,
    Rows,
    column,
    largest,
    metric,
    of_executions,
    required,
    table_of,
)


class JoinRow(ExecutionKey, frozen=True, kw_only=True):
    """A join of the final plan."""

    node_id: Int = required("node of the final plan")
    operator_key: str | None = column("key of the join, equal in all runs regardless of the strategy")
    strategy: str = required(
        "BroadcastHashJoin, SortMergeJoin, SortMergeAsOfJoin, ShuffledHashJoin, BroadcastNestedLoopJoin,"
        " CartesianProduct"
    )
    join_type: str | None = column(
        "Inner, Cross, LeftOuter, RightOuter, FullOuter, LeftSemi, LeftAnti, LeftSingle, ExistenceJoin"
    )
    build_side: str | None = column("left or right: the side that is broadcast or hashed", one_of=("left", "right"))
    left_keys: list[str] | None = column("equi-join keys of the left side, as Spark writes them")
    right_keys: list[str] | None = column("equi-join keys of the right side")
    condition: str | None = column("the rest of the condition; for an as-of join, its match condition")
    is_skew: bool = required("whether AQE marked it as a skew join")
    hint: str | None = column(
        "the strategy hint of each side that has one, as Spark prints it, e.g. broadcast left; NULL: none, or unknown"
    )
    output_rows: Rows | None = metric("number of output rows", "output rows")
    output_ratio: Ratio | None = column("output_rows / the larger of left_rows and right_rows; NULL: not measured")
    left_rows: Rows | None = column(
        "rows of the left input, from the nearest operator below that counts them; NULL: not measured, or counted"
        " repeatedly (cartesian product without a shuffle)"
    )
    right_rows: Rows | None = column("rows of the right input")
    left_bytes: Bytes | None = column("bytes of the left input, from the exchange or broadcast that feeds it")
    right_bytes: Bytes | None = column("bytes of the right input")
    build_bytes: Bytes | None = metric(
        "data size of build side", "size of the relation that it built or received by broadcast"
    )
    build_ms: Ms | None = metric(
        "time to build hash map", "time to build it, by the tasks (shuffled hash) or the driver (broadcast)"
    )
    sort_ms: Ms | None = column("time of its two sorts, summed over tasks (sort-merge)")
    spill_bytes: Bytes | None = column("bytes that it and its sorts spilled, by size in memory; fewer on disk")
    left_exchange: Int | None = column("node id of the exchange that feeds it from the left")
    right_exchange: Int | None = column("node id of the exchange that feeds it from the right")
    threshold_bytes: Bytes | None = column(THRESHOLD)
    broadcast_verdict: str | None = column(
        "was_broadcast: it is a broadcast join. Otherwise: possible (the measured size of a side that may be"
        " broadcast was at or under the threshold), hinted (as possible, but a hint of the query or of AQE"
        " determined the strategy), over_threshold (each such side exceeded the threshold or the most that"
        " Spark can broadcast), switched_off (the threshold is negative), forbidden_by_type (a full outer or"
        " as-of join), unknown (no size was measured, or not in full)",
        one_of=(
            "was_broadcast",
            "possible",
            "hinted",
            "over_threshold",
            "switched_off",
            "forbidden_by_type",
            "unknown",
        ),
    )
    broadcast_side: str | None = column(
        "left or right: the side that was broadcast, or the smaller measured side that may be", one_of=("left", "right")
    )
    broadcast_side_bytes: Bytes | None = column(
        "was_broadcast: size of the relation in memory, many times that of its rows if they are few."
        " Otherwise the size that AQE would compare with the threshold: data size of the shuffle that feeds"
        " the side, whose rows are only sorted, filtered or aggregated in between. Without AQE Spark compares"
        " an estimate"
    )
    cost_wall_ms: Ms | None = column(
        "how long the execution waited for it, and for the sorts, shuffles and broadcasts that only it needed"
        " (docs/cost.md); NULL: unknown"
    )
    cost_task_ms: Ms | None = column("the same in time of tasks, summed; NULL: unknown, or only its broadcast is known")
    cost_is_partial: bool | None = column(
        "whether the costs are a lower bound: operators of its stage could not be told apart, or no sample saw the join"
    )
    cost_most_wall_ms: Ms | None = column(
        "what it can have cost at most: cost_wall_ms, and all the wall time that it shares with other operators of its"
        " stages, which could not be told apart; NULL: unknown"
    )


joins = table_of(
    JoinRow,
    "joins",
    Index(None, "operator_key", "started_at"),
    of_executions("output_rows", "spill_bytes", "cost_wall_ms", "cost_most_wall_ms"),
    largest("joins", "output_rows"),
    largest("joins", "spill_bytes"),
    largest("joins", "COALESCE(cost_most_wall_ms, cost_wall_ms)", "cost"),
    key=("node_id",),
)
