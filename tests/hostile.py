"""Documents that are expensive to process: each shape grows with `n` in one or two ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.documents import STARTED_AT_MS, Plan, PlanNode, execution

from joinsight.contract.document import Accumulator, Execution, Job, JoinHint, Metric, Spread, Stage

_ROWS = "number of output rows"
_JOIN = "SortMergeJoin [k#1], [k#2], Inner"
_SHUFFLE = "Exchange hashpartitioning(k#1, 8), ENSURE_REQUIREMENTS, [plan_id={}]"
_BROADCAST = "BroadcastExchange HashedRelationBroadcastMode(List(input[0, int, true]),false), [plan_id={}]"
_SHUFFLE_METRICS = ("data size", "shuffle bytes written", "shuffle records written", "records read", "fetch wait time")
_BROADCAST_METRICS = ("data size", _ROWS, "time to collect", "time to build", "time to broadcast")


class _Tree:
    """A plan in the making, with what was measured at it; ids of accumulators begin at `first`."""

    def __init__(self, first: int = 1) -> None:
        self.nodes: list[PlanNode] = []
        self.accumulators: dict[int, Accumulator] = {}
        self._next = first

    def add(self, parent: int, name: str, simple: str = "", metrics: tuple[str, ...] = (), stage: int = 1) -> int:
        """A node below `parent`; gives its place."""
        made = [self._metric(metric, stage) for metric in metrics]
        self.nodes.append(PlanNode(name, parent, simple or name, metrics=made))
        return len(self.nodes) - 1

    def _metric(self, name: str, stage: int) -> Metric:
        metric = Metric(name, self._next, "sum")
        self._next += 1
        big = 50 << 20
        self.accumulators[metric.id] = Accumulator(
            metric.id, "sum", 2, 2 * big, 1, big, big, big, stage, 0, stage * 10, [stage]
        )
        return metric

    def shuffle(self, parent: int, number: int, stage: int = 1) -> int:
        return self.add(parent, "Exchange", _SHUFFLE.format(number), _SHUFFLE_METRICS, stage)

    def broadcast(self, parent: int, number: int) -> int:
        return self.add(parent, "BroadcastExchange", _BROADCAST.format(number), _BROADCAST_METRICS)

    def join(self, parent: int, name: str = "SortMergeJoin", simple: str = _JOIN) -> int:
        return self.add(parent, name, simple, (_ROWS,))

    def reused(self, parent: int, original: int, name: str = "Exchange") -> int:
        """What is beneath is the original's subtree of one node, so that it is drawn once."""
        node = self.nodes[original]
        self.nodes.append(PlanNode("ReusedExchange", parent, f"ReusedExchange {name}"))
        self.nodes.append(PlanNode(node.name, len(self.nodes) - 1, node.simple, metrics=node.metrics))
        return len(self.nodes) - 2


def _of(*trees: _Tree, **changes: Any) -> Execution:
    accumulators = {a.id: a for tree in trees for a in tree.accumulators.values()}
    plans = [Plan(STARTED_AT_MS + number, tree.nodes) for number, tree in enumerate(trees)]
    return execution(plans=plans, accumulators=list(accumulators.values()), **changes)


def _stage(number: int, attempt: int = 0) -> Stage:
    spread = Spread(0, 1, 2, 1 << 30, 5)
    return Stage(
        number,
        attempt,
        "a stage",
        8,
        "succeeded",
        8,
        submitted_at_ms=STARTED_AT_MS,
        completed_at_ms=STARTED_AT_MS + 1,
        run_time_ms=10,
        disk_spilled_bytes=1 << 30,
        run_time=spread,
        shuffle_read=spread,
        shuffle_read_records=spread,
    )


def shuffles_and_joins(n: int) -> Execution:
    """A deep chain of joins, each of two shuffles."""
    tree, parent = _Tree(), -1
    for level in range(n):
        parent = tree.join(parent)
        tree.shuffle(parent, level, stage=level)
        if level == n - 1:
            tree.shuffle(parent, n)
    return _of(tree, stages=[_stage(number) for number in range(n)])


def joins_of_unknown_inputs(n: int) -> Execution:
    """A deep chain of joins, whose texts and inputs are not in the plan, and which share a metric."""
    metrics = [Metric(_ROWS, 1, "sum")]
    nodes = [PlanNode("SortMergeJoin", level - 1, f"SortMergeJoin {level}", metrics=metrics) for level in range(n)]
    return execution(plans=[Plan(STARTED_AT_MS, nodes)])


def joins_side_by_side(n: int) -> Execution:
    """A wide union of joins of two shuffles, in a configuration that says nothing."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    for number in range(n):
        join = tree.join(root)
        tree.shuffle(join, 2 * number)
        tree.shuffle(join, 2 * number + 1)
    return _of(tree)


def one_shuffle_for_all(n: int) -> Execution:
    """One shuffle, of many metrics and stages, that all joins read on both sides."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    original = None
    for _ in range(n):
        join = tree.join(root)
        for _ in range(2):
            if original is None:
                original = tree.add(join, "Exchange", _SHUFFLE.format(1), _SHUFFLE_METRICS + tuple(map(str, range(n))))
            else:
                tree.reused(join, original)
    assert original is not None
    one = tree.nodes[original].metrics[0].id
    accumulators = [
        Accumulator(a.id, "sum", 2, 9, 1, 1, 1, 1, stages=list(range(n)) if a.id == one else [1])
        for a in tree.accumulators.values()
    ]
    e = _of(tree, stages=[_stage(number) for number in range(n)])
    return _changed(e, accumulators=accumulators)


def chain_of_reads(n: int) -> Execution:
    """Reads upon reads of one shuffle, new in each plan."""
    trees = []
    for version in range(3):
        tree = _Tree(1 + version * 100_000_000)
        parent = tree.add(-1, "AdaptiveSparkPlan", f"AdaptiveSparkPlan isFinalPlan={version}")
        for level in range(n):
            parent = tree.add(
                parent, "AQEShuffleRead", f"AQEShuffleRead coalesced {version} {level}", ("partition data size",)
            )
        tree.shuffle(parent, 1)
        trees.append(tree)
    return _of(*trees)


def empty_relations(n: int) -> Execution:
    """Each of many inputs, and of many levels, turns out to be empty."""
    before, after = _Tree(), _Tree(100_000_000)
    for tree in before, after:
        root = tree.add(-1, "Union", "Union all")
        for number in range(n):
            if tree is before:
                join = tree.join(root, simple=f"{_JOIN}, (a{number}#1 > b#2)")
                tree.shuffle(join, 2 * number)
                tree.shuffle(join, 2 * number + 1)
            else:
                tree.add(root, "LocalTableScan", f"LocalTableScan <empty>, [k#{number}]")
    return _of(before, after)


def empty_relations_deep_down(n: int) -> Execution:
    """Empty relations far below the last node that both plans have, in the place of a deep plan."""
    before, after = _Tree(), _Tree(100_000_000)
    parent = before.add(-1, "Sort", "Sort [k#1 ASC], true, 0")
    for level in range(n):
        parent = before.add(parent, "Project", f"Project before {level}")
    before.shuffle(parent, 1)
    parent = after.add(-1, "Sort", "Sort [k#1 ASC], true, 0")
    for level in range(n):
        parent = after.add(parent, "Generate", f"Generate after {level}")
    for number in range(n):
        after.add(parent, "LocalTableScan", f"LocalTableScan <empty>, [k#{number}]")
    return _of(before, after)


def nested_joins_that_vanish(n: int) -> Execution:
    """A deep chain of joins is gone in the next plan."""
    before, after = _Tree(), _Tree(100_000_000)
    parent = before.add(-1, "Union", "Union all")
    for level in range(n):
        parent = before.join(parent, simple=f"{_JOIN}, (a{level}#1 > b#2)")
        before.shuffle(parent, level)
    after.add(-1, "Union", "Union all")
    return _of(before, after)


def strategies(n: int) -> Execution:
    """Joins that get another strategy, with their exchange beneath a chain that they share in turn."""
    trees = []
    for version, name in enumerate(("SortMergeJoin", "BroadcastHashJoin", "ShuffledHashJoin")):
        tree = _Tree(1 + version * 100_000_000)
        root = tree.add(-1, "Union", "Union all")
        for number in range(n):
            simple = f"{name} [k{number}#1], [k#2], Inner" + (", BuildRight" if version else "")
            join = tree.join(root, name, simple)
            tree.shuffle(join, 2 * number)
            (tree.broadcast if version == 1 else tree.shuffle)(join, 2 * number + 1)
        trees.append(tree)
    return _of(*trees)


def broadcasts(n: int) -> Execution:
    """Broadcasts of shuffles, each of a stage of its own, for a join of its own."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    for number in range(n):
        join = tree.join(root, "BroadcastHashJoin", "BroadcastHashJoin [k#1], [k#2], Inner, BuildRight, false")
        tree.add(join, "Scan parquet t", "Scan parquet t", (_ROWS,))
        below = tree.add(tree.broadcast(join, number), "AQEShuffleRead", "AQEShuffleRead local")
        tree.shuffle(below, number, stage=number)
    return _of(tree, stages=[_stage(number) for number in range(n)])


def skewed_stages(n: int) -> Execution:
    """Each stage reads every shuffle, and each is skewed."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    for number in range(n):
        tree.shuffle(root, number, stage=number)
    return _of(tree, stages=[_stage(number) for number in range(n)])


def attempts(n: int) -> Execution:
    """All attempts of one stage, which every shuffle names."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    for number in range(n):
        tree.broadcast(tree.shuffle(root, number), number)
    return _of(tree, stages=[_stage(1, attempt) for attempt in range(n)])


def caches(n: int) -> Execution:
    """Cached tables above cached tables: each shows the plan that made it, and what is below."""
    tree, parent = _Tree(), -1
    for level in range(n):
        parent = tree.add(parent, "InMemoryTableScan", f"InMemoryTableScan {level}", (_ROWS,), stage=level)
    return _of(tree, stages=[_stage(number) for number in range(n)])


def aggregates(n: int) -> Execution:
    """Each step of an aggregate completes the one below, and has a filter of its own."""
    tree, parent = _Tree(), -1
    for level in range(n):
        function = f"partial_sum(a#1) FILTER (WHERE b{level}#2)"
        parent = tree.add(parent, "HashAggregate", f"HashAggregate(keys=[], functions=[{function}])")
    return _of(tree)


def one_long_text(n: int) -> Execution:
    """A node with a long text stands in the plan again and again."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    condition = " AND ".join(f"(a{number}#1 > b#2)" for number in range(n))
    for _ in range(n):
        tree.add(root, "SortMergeJoin", f"{_JOIN}, {condition}")
    return _of(tree)


def one_node_of_many_metrics(n: int) -> Execution:
    """A node with many metrics stands in the plan again and again."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    first = tree.add(root, "Project", "Project", tuple(f"metric {number}" for number in range(n)))
    tree.nodes += [tree.nodes[first]] * n
    return _of(tree)


def jobs_and_stages(n: int) -> Execution:
    """Every job names its stages, and a stage more."""
    jobs = [Job(number, STARTED_AT_MS, [number, number + 1, number + 2]) for number in range(n)]
    return execution(jobs=jobs, stages=[_stage(number) for number in range(n)])


def jobs_of_one_stage(n: int) -> Execution:
    """Every job names the same stage, which has many attempts."""
    jobs = [Job(number, STARTED_AT_MS, [1]) for number in range(n)]
    return execution(jobs=jobs, stages=[_stage(1, attempt) for attempt in range(n)])


def metrics_of_all_stages(n: int) -> Execution:
    """Every shuffle has the same accumulator, which every stage measured."""
    tree = _Tree()
    root = tree.add(-1, "Union")
    shared = [Metric("records read", 1, "sum")]
    for number in range(n):
        tree.nodes.append(PlanNode("Exchange", root, _SHUFFLE.format(number), metrics=shared))
    accumulators = [Accumulator(1, "sum", 1, 1, 1, 1, 1, 1, stages=list(range(n)))]
    return _changed(_of(tree), accumulators=accumulators)


def versions(n: int) -> Execution:
    """AQE plans again and again, and each plan is new from top to bottom."""
    trees = []
    for version in range(max(2, n // 20)):
        tree = _Tree(1 + version * 1_000_000)
        root = tree.add(-1, "AdaptiveSparkPlan", f"AdaptiveSparkPlan isFinalPlan={version}")
        for number in range(20):
            join = tree.join(root, simple=f"SortMergeJoin [k{version}#1], [k{number}#2], Inner")
            tree.shuffle(join, version * 1_000 + number)
        trees.append(tree)
    metric = next(metric.id for node in trees[0].nodes for metric in node.metrics)
    return _of(*trees, join_hints=[JoinHint(metric, "broadcast")])


def hints(n: int) -> Execution:
    """Every join has a hint."""
    e = joins_side_by_side(n)
    metrics = [node.metrics[0].id for node in e.nodes if node.name == "SortMergeJoin"]
    return _changed(e, join_hints=[JoinHint(metric, "broadcast") for metric in metrics])


def announced_alone(n: int) -> Execution:
    """Metrics that no plan shows."""
    e = joins_side_by_side(n)
    announced = [Metric("odd", 10_000_000 + number, "sum") for number in range(n)]
    more = [Accumulator(metric.id, "sum", 0) for metric in announced]
    return _changed(e, announced=announced, accumulators=[*e.accumulators, *more])


def _changed(e: Execution, **changes: Any) -> Execution:
    return Execution(**{name: getattr(e, name) for name in e.__struct_fields__} | changes)


SHAPES: tuple[Callable[[int], Execution], ...] = (
    shuffles_and_joins,
    joins_of_unknown_inputs,
    joins_side_by_side,
    one_shuffle_for_all,
    chain_of_reads,
    empty_relations,
    empty_relations_deep_down,
    nested_joins_that_vanish,
    strategies,
    broadcasts,
    skewed_stages,
    caches,
    aggregates,
    jobs_and_stages,
    versions,
    hints,
    announced_alone,
)
"""Whose work may grow with the size of the document and no faster."""

TOO_MUCH: tuple[tuple[Callable[[int], Execution], str], ...] = (
    (one_long_text, "characters"),
    (one_node_of_many_metrics, "metrics"),
    (metrics_of_all_stages, "named stages"),
    (jobs_of_one_stage, "named stages"),
    (attempts, "named stages"),
)
"""References are expanded where they occur: the size grows with the square, and is limited."""
