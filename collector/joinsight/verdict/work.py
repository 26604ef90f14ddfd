"""Operators' own work, Python functions, and operators that multiply rows."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from joinsight.base.units import duration_text
from joinsight.plan import operators
from joinsight.plan.graph import Node
from joinsight.plan.operators import OUTPUT_ROWS, PYTHON_TIME
from joinsight.plan.texts import join_text
from joinsight.tables import Row
from joinsight.timing.cost import CostSubject
from joinsight.timing.task_time import kinds_of_work, single_of, work_text
from joinsight.verdict import names
from joinsight.verdict.cause import BESIDE_SKEW, Cause, rows_text, stage_of
from joinsight.verdict.tasks import SKEWED, ratio_of
from joinsight.verdict.view import View

_LEAST_RATIO = 4.0
"""Rows out of a join to rows of its larger side."""
_LEAST_COPIES = 2.0
"""The same of an Expand of groupings or distinct counts, which makes a copy of each row for each of them."""
_LEAST_EXPLODED = 0.15
"""Share of the wall time: what follows a join that multiplies its rows has more to do in later stages, too."""
_MOST_ROWS = 0.5
"""Share of the rows that an operator makes which a shuffle has, for what reads it to work on them, too."""
_MUCH_WORK = 0.3
"""Share of an operator's time from which on a kind of work is named."""
_MOST_WORK = 0.5
"""The same, for it to be what to look at first."""
_PAIRS_ADVICE = "It compares all pairs of rows: give it an equality condition, or make one side smaller."
_KEY_ADVICE = (
    "Its key is not unique on either side: look at its most frequent values (joinsight keys), join on more columns,"
    " or aggregate one side before the join."
)
_CONDITION_ADVICE = (
    "It checks its condition for each pair of rows with the same key: compute its parts before the join, join on more"
    " columns, such as a range of what the condition compares, or filter before it."
)
_PARSE_ADVICE = "Parse each document once, with a schema of only the fields that are needed; or store them as columns."
_WORK_ADVICE = {
    "regex": "Simplify its regular expressions: nested repetitions, such as (a+)+, take exponentially long; LIKE or"
    " contains before them spare most rows.",
    "json": _PARSE_ADVICE,
    "xml": _PARSE_ADVICE,
    "decimal": "Use decimals of at most 18 digits, or double where it is exact enough.",
    "date": "Parse and format times once, and store them as DATE or TIMESTAMP.",
    "hash": "Hash or encrypt fewer rows and columns; where no cryptography is needed, xxhash64 takes far less than md5"
    " or sha2.",
}

_WORDS = {"RLIKE": "regex", "regexp_": "regex", "from_json": "json", "get_json_object": "json", "sha2(": "hash"}
"""Functions that take long for a row, and what kind of work they are."""


def join_output(view: View) -> Iterator[Cause]:
    """A join makes many more rows than it reads, and all that follows in its stage works on them."""
    for node in view.of_kind("join"):
        multiplied = _multiplied(view, node)
        if multiplied is None:
            continue
        out, larger = multiplied
        left, right = (view.rows(i) or 0 for i in view.plan.inputs(node)[:2])
        ratio = out / larger
        checking = _checks(view, node.id)
        wall = _wall_above(view, node.id, out) - (0 if checking is None else view.wall_of((checking,)))
        yield Cause(
            "join_output",
            round(wall * (1 - 1 / ratio)),
            (node.id,),
            f"{names.operator(view, node.id)} made {rows_text(out)} from {rows_text(left)} and {rows_text(right)}",
            _PAIRS_ADVICE if operators.of(node.name).compares_pairs else _KEY_ADVICE,
            {"output_rows": out, "left_rows": left, "right_rows": right, "ratio": round(ratio, 1)},
            stage_of(view, node.id),
            least_share=_LEAST_EXPLODED,
            certainty=BESIDE_SKEW if _is_of_one_task(view, node, larger) else 1.0,
        )


def _multiplied(view: View, node: Node) -> tuple[int, int] | None:
    """The rows that a join or an explode makes, if they are many, and that it reads: of a join, its larger side."""
    is_join = operators.of(node.name).kind == "join"
    if not is_join and not node.name.startswith(("Generate", "Expand")):
        return None
    read = [view.rows(i) for i in view.plan.inputs(node)[:2]]
    out = view.plan.total(node, OUTPUT_ROWS) if is_join else view.rows(node.id)
    if out is None or len(read) < (2 if is_join else 1) or None in read:
        return None
    most = max(1 if is_join else 0, *(rows or 0 for rows in read))
    least = _LEAST_COPIES if _is_of_groupings(node) else _LEAST_RATIO
    return (out, most) if most and out >= max(10_000, least * most) else None


def multiplying(view: View) -> Iterator[Collection[int]]:
    """The operators that work on rows which a join or an explode multiplied, of each of these."""
    for node in view.plan.graph.nodes:
        multiplied = _multiplied(view, node)
        if multiplied is not None:
            yield _above(view, node.id, multiplied[0])[0]


def _checks(view: View, join: int) -> int | None:
    """The Python function that checks each pair of a join: Spark evaluates such a condition in a filter above it."""
    found = None
    if _multiplied(view, view.plan.nodes[join]) is None:
        return None
    for i in view.above(join):
        node = view.plan.nodes[i]
        kind = operators.of(node.name).kind
        if operators.is_python(node.name):
            found = i
        elif kind == "filter":
            return found if "pythonUDF" in node.simple else None
        elif view.is_work(i) and kind != "project":
            return None
    return None


def _checking(view: View) -> Mapping[int, int]:
    """The Python functions that check each pair of a join, with that join."""
    found = ((_checks(view, join.id), join.id) for join in view.of_kind("join"))
    return {function: join for function, join in found if function is not None}


def _is_of_one_task(view: View, join: Node, larger: int) -> bool:
    """Whether only one task's part of a join multiplies its rows: some values of its key do, not all of them."""
    measured = view.plan.metrics(join).get(OUTPUT_ROWS)
    ran = None if measured is None else next((each for each in view.ran if each.stage_id == measured.max_stage), None)
    if measured is None or ran is None:
        return False
    ratio = ratio_of(view, ran, join, OUTPUT_ROWS)
    return ratio is not None and ratio >= SKEWED and (measured.sum or 0) - (measured.max or 0) < _LEAST_RATIO * larger


_PYTHON_ADVICE = "Use Spark's own functions instead, or a pandas (Arrow) function, which takes many rows at once."
_PANDAS_ADVICE = "Use Spark's own functions instead, or operations of pandas on whole columns, without apply and loops."
_PYTHON_CONDITION_ADVICE = (
    "It checks each pair of rows that the join makes: write the condition with Spark's own functions, or join on more"
    " columns before it, so that fewer pairs remain."
)
_MOST_NAMED = 3


def python(view: View) -> Iterator[Cause]:
    """Functions that Python workers run."""
    checking = _checking(view)
    for node in view.plan.graph.nodes:
        if not operators.is_python(node.name):
            continue
        wall = view.wall_of((node.id,))
        method = "sampled"
        if not wall:
            measured = view.plan.total(node, PYTHON_TIME)
            for ran in view.ran:
                if node.id in ran.nodes and ran.run_ms and measured and not ran.is_running:
                    wall += round(ran.wall_ms * min(1.0, measured / ran.run_ms))
                    method = "measured"
        took = duration_text(wall)
        function = names.python_function(node)
        name = f"the Python function {function}" if function else f"Python code ({node.name})"
        if node.id in checking:
            join = checking[node.id]
            name += f", which checks the {rows_text(view.rows(join) or 0)} of {names.operator(view, join)}"
        if wall:
            yield Cause(
                "python",
                wall,
                (node.id,),
                f"tasks waited {took} for {name}",
                _PYTHON_CONDITION_ADVICE if node.id in checking else _python_advice(view, (node.id,)),
                {"method": method, "rows": view.rows(node.id) or 0},
                stage_of(view, node.id),
            )
    for subject, wall in view.walls.items():
        if subject.name == "python" and wall:
            yield _python_together(view, subject, wall)


def _python_advice(view: View, nodes: Sequence[int]) -> str:
    is_by_row = any(view.plan.nodes[i].name.startswith("BatchEvalPython") for i in nodes)
    return _PYTHON_ADVICE if is_by_row else _PANDAS_ADVICE


def _python_together(view: View, subject: CostSubject, wall: int) -> Cause:
    """Functions of which it is not known for which the tasks waited: several of a stage, or those of an RDD."""
    nodes = sorted(
        view.breakdown.holds(subject), key=lambda i: -(view.plan.total(view.plan.nodes[i], PYTHON_TIME) or 0)
    )
    functions = list(dict.fromkeys(filter(None, (names.python_function(view.plan.nodes[i]) for i in nodes))))
    if nodes:
        what = f"{len(nodes)} Python functions" + (f" ({', '.join(functions[:_MOST_NAMED])})" if functions else "")
    else:
        what = "Python functions of an RDD"
    return Cause(
        "python",
        wall,
        tuple(nodes),
        f"tasks waited {duration_text(wall)} for {what}",
        _python_advice(view, nodes)
        if nodes
        else "Use DataFrames and Spark's own functions: each row of an RDD goes to Python and back.",
        {"method": "sampled", "functions": len(nodes)},
        next((ran.stage_id for ran in view.ran if subject in ran.parts), None),
    )


def work(view: View) -> Iterator[Cause]:
    """Operators' own work. Of those that cannot be told apart, the likeliest one goes first."""
    known: dict[int, int] = {}
    written = view.wall_of((), ("file_write",))
    for subject, ms in view.walls.items():
        if subject.kind == "operator" and subject.node_id is not None:
            known[subject.node_id] = ms
    for subject, ms in view.walls.items():
        if subject.kind != "shared" or not ms or subject.name:
            continue  # those of one kind have causes of their own
        held = view.breakdown.holds(subject)
        parts = view.guesses(held)
        rows = list(_task_times(view, (), subject.stage_id)) if subject.node_id is None else []
        kind, share = _work(rows)
        named = single_of(map(view.plan.nodes.__getitem__, parts), kind) if share >= _MOST_WORK else None
        first = max(parts, key=lambda i: parts[i], default=None) if named is None else named
        if first is None:
            if view.timed.intersection(held):
                yield _unmeasured(view, ms, subject.stage_id)
            continue
        its = known.pop(first, 0)
        is_guess = len(parts) > 1 and its < ms and named is None
        if operators.of(view.plan.nodes[first].name).kind == "write" and not is_guess:
            written += ms + its
            continue
        rows += _task_times(view, (first, subject.node_id))
        yield _own_work(view, first, ms + its, (first, subject.node_id), rows, is_guess=is_guess)
    for node_id, ms in known.items():
        node = view.plan.nodes[node_id]
        kind = operators.of(node.name).kind
        if kind == "write":
            written += ms
        elif kind not in ("scan", "shuffle", "broadcast") and not operators.is_python(node.name):
            yield _own_work(view, node_id, ms, (node_id,), list(_task_times(view, (node_id,))), is_guess=False)
    if written:
        writes = tuple(node.id for node in view.of_kind("write"))
        yield Cause(
            "compute",
            written,
            writes,
            "encoding and writing files",
            "Write fewer columns, a faster compression (lz4, snappy, zstd level 1), or fewer files at once.",
            {},
            stage_of(view, writes[0]) if writes else None,
        )


def _unmeasured(view: View, wall_ms: int, stage_id: int | None) -> Cause:
    """What a stage of a native engine took beside what its operators measured."""
    run_ms = sum(ran.run_ms for ran in view.ran if ran.stage_id == stage_id)
    spent = (row for row in view.stored.task_times if row["stage_id"] == stage_id and row["node_id"] is not None)
    measured = sum(row["task_time_ms"] for row in spent)
    return Cause(
        "compute",
        wall_ms,
        (),
        f"its operators measured {duration_text(measured)} of its {duration_text(run_ms)} of task time",
        "Look at its tasks: what an engine does not measure is mostly starting a call in each, and committing shuffle"
        " files. Fewer and larger tasks do that less often.",
        {"measured_ms": measured, "run_time_ms": run_ms},
        stage_id,
    )


def _own_work(
    view: View, node_id: int, wall_ms: int, sampled: Sequence[int | None], times: Sequence[Row], *, is_guess: bool
) -> Cause:
    """`sampled`: the nodes that its samples are of: it, its codegen stage. `times`: its rows of `task_time`."""
    node = view.plan.nodes[node_id]
    rows = max([view.rows(i) or 0 for i in (node_id, *view.plan.inputs(node))])
    pairs = _pairs(view, node)
    what = f"its own work on {rows_text(rows)}" if rows else "its own work"
    if pairs:
        what = f"it compared up to {rows_text(pairs).replace('row', 'pair')} of rows"
    if is_guess:
        likely = f"compared up to {rows_text(pairs).replace('row', 'pair')} of rows" if pairs else "handled most rows"
        what = f"probably most of it into the one that {likely}"
    work, share = _work(times)
    if work:
        what = f"{what}; {100 * share:.0f} % of it went into {work_text(work)}"
    is_slow = not operators.of(node.name).compares_pairs and view.takes_long_for_a_row(sampled, rows)
    advice = _WORK_ADVICE.get(work, "") if share >= _MOST_WORK else ""
    return Cause(
        "compute",
        wall_ms,
        (node_id,),
        what,
        advice or _advice_by_text(node, times) or _compute_advice(view, node),
        {
            "rows": rows,
            "is_estimate": int(is_guess),
            "is_slow": int(is_slow),
            **({"work": work, "work_share": round(share, 3)} if work else {}),
        },
        stage_of(view, node_id),
    )


def _advice_by_text(node: Node, times: Iterable[Row]) -> str:
    """What to do about an operator whose work was not sampled, by the functions that it calls."""
    is_one = operators.of(node.name).kind in ("filter", "project") and not any(
        row["method"] == "sampled" for row in times
    )
    return next((_WORK_ADVICE[work] for word, work in _WORDS.items() if is_one and word in node.simple), "")


def _pairs(view: View, node: Node) -> int:
    """How many pairs of rows a join without an equality may have compared; 0: another operator, or it is unknown."""
    sides = [view.rows(i) for i in view.plan.inputs(node)[:2]] if operators.of(node.name).compares_pairs else []
    return math.prod(rows or 0 for rows in sides) if len(sides) == 2 else 0


def _task_times(view: View, nodes: Sequence[int | None], stage: int | None = None) -> Iterator[Row]:
    """Those of nodes, or those of a stage that are of no node."""
    for row in view.stored.task_times:
        if row["node_id"] in nodes if row["node_id"] is not None else row["stage_id"] == stage:
            yield row


def _work(times: Sequence[Row]) -> tuple[str, float]:
    """The kind of work that most of the task time of rows went into, and its share; empty if none stands out."""
    work, share = next(iter(kinds_of_work(times)), ("", 0.0))
    return (work, share) if share >= _MUCH_WORK else ("", 0.0)


def exploding(view: View) -> Iterator[Cause]:
    """An operator other than a join makes many rows of each, and all that follows in its stage works on them."""
    for node in view.plan.graph.nodes:
        multiplied = None if operators.of(node.name).kind == "join" else _multiplied(view, node)
        if multiplied is None:
            continue
        out, read = multiplied
        yield Cause(
            "compute",
            round(_wall_above(view, node.id, out) * (1 - read / out)),
            (node.id,),
            f"it made {rows_text(out)} from {rows_text(read)}",
            _compute_advice(view, node),
            {"output_rows": out, "input_rows": read, "ratio": round(out / read, 1)},
            stage_of(view, node.id),
            is_place=False,
            beside=(stage_of(view, node.id),),
        )


def _wall_above(view: View, node_id: int, rows: int) -> int:
    """How long the execution waited for an operator and for what its rows go through."""
    its, others = _above(view, node_id, rows)

    def counts(subject: CostSubject) -> bool:
        if subject.kind == "operator":
            return subject.node_id in its
        held = set(view.breakdown.holds(subject)) if subject.kind == "shared" else set()
        return bool(its & held) and not others & held

    return sum(ms for ran in view.ran for subject, ms in ran.parts.items() if counts(subject))


def _above(view: View, node_id: int, rows: int) -> tuple[set[int], set[int]]:
    """An operator and what its rows go through; and those in which more rows join them.

    In the same stage, and in those that read a shuffle which most of its rows reach, up to where more rows join them.
    """
    its, others, todo = {node_id}, set[int](), [node_id]
    while todo:
        i = todo.pop()
        operator = operators.of(view.plan.nodes[i].name)
        if operator.is_exchange and not (operator.kind == "shuffle" and _is_most(view, i, rows)):
            continue
        for above in view.plan.consumers(view.plan.nodes[i]):
            if _has_more_of_others(view, above, i):
                others.add(above)
            elif above not in its:
                its.add(above)
                todo.append(above)
    return its, others


def _is_most(view: View, exchange: int, rows: int) -> bool:
    return (view.rows(exchange) or 0) >= _MOST_ROWS * rows


def _has_more_of_others(view: View, node_id: int, source: int) -> bool:
    """Whether another input of an operator has more rows than `source`."""
    own = view.rows(source) or 0
    return any((view.rows(i) or 0) > own for i in view.plan.inputs(view.plan.nodes[node_id]) if i != source)


def _is_of_groupings(node: Node) -> bool:
    """Whether it copies rows for distinct counts or grouping sets; Spark also unpivots and makes sliding windows so."""
    return node.name.startswith("Expand") and ("gid#" in node.simple or "spark_grouping_id#" in node.simple)


def _compute_advice(view: View, node: Node) -> str:
    kind = operators.of(node.name).kind
    if kind == "join":
        if operators.of(node.name).compares_pairs:
            return _PAIRS_ADVICE
        text = join_text(node.name, node.simple)
        if text is not None and text.condition:
            return _CONDITION_ADVICE
        return "Join fewer rows: filter before it; broadcast the smaller side if it fits."
    if kind == "sort":
        return sort_advice(view, node)
    if kind == "aggregate":
        return "Aggregate fewer rows or groups: filter before it, or aggregate once and reuse the result."
    if kind in ("filter", "project"):
        return "Look at its expressions: regular expressions, JSON, many CASEs or casts; compute them on fewer rows."
    if "Window" in node.name:
        return _FRAME_ADVICE if _FRAME.search(node.simple) else _WINDOW_ADVICE
    if _is_of_groupings(node):
        return (
            "Each count(DISTINCT), and each grouping of CUBE, ROLLUP and GROUPING SETS, makes a copy of each row: use"
            " approx_count_distinct, fewer groupings, or count distinct values in two steps."
        )
    if node.name.startswith(("Generate", "Expand")):
        return "Explode fewer rows: filter before it, or use higher-order functions (transform, filter, aggregate)."
    return "Look at what it does for each row."


_WINDOW_ADVICE = "Window over fewer rows, or replace it by an aggregation and a join."
_FRAME = re.compile(r"specifiedwindowframe\((?:Range|Row)Frame, -\d")
_FRAME_ADVICE = (
    "Spark aggregates the whole frame again for each row: use a smaller frame, or one that begins with UNBOUNDED"
    " PRECEDING; or aggregate first, and window over fewer rows."
)
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


def is_of_all_rows(node: Node) -> bool:
    """Whether it sorts all rows, as ORDER BY does, and not those of each task."""
    return operators.of(node.name).kind == "sort" and "], true" in node.simple


def sort_advice(view: View, sort: Node) -> str:
    """What to do depends on who asked for it: an operator above it, or the query."""
    if is_of_all_rows(sort):
        return _SORT_FOR_QUERY
    for i in view.above(sort.id):
        name, kind = view.plan.nodes[i].name, operators.of(view.plan.nodes[i].name).kind
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
