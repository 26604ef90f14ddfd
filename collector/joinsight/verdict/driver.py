"""Wall time in which no tasks of the execution ran, caches that it filled, and a busy machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import median_high

from joinsight.analysis.micro_batches import computed_again
from joinsight.analysis.table_formats import is_compaction
from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.verdict.cause import LEAST_SHARE, MB, Cause
from joinsight.verdict.view import LEAST_RUN_MS, View

_STARTING_MS = 1_000
"""What the driver takes for a short query."""
_UNEXPLAINED = 1 / 3
"""Share of the wall time from which on a driver is worth naming of which only is known that it took long."""
_MAY_BE_ANYTHING = 0.75
"""What that counts: a driver is slow in first queries and on busy hosts, where an operator's work says more."""
_BUSY_HOST = 0.2
"""Share of their run time in which tasks had the CPU, below which a driver may be slow for no other reason."""
_UNEXPLAINED_ON_BUSY_HOST = 0.6
"""Share of the wall time from which on it is worth naming there."""


_OTHERS = (
    "Look at what else ran in the application at that time, and at the executors that it had (dynamic allocation,"
    " queue); spark.scheduler.mode=FAIR shares slots between jobs."
)
_COMPACTION = "Compaction rewrites many groups of files at the same time: more cores make it faster."


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
            _COMPACTION if is_compaction(view.stored.execution["description"]) else _OTHERS,
            {"waited_ms": waited, "fewer_slots_ms": taken},
            longest,
        )


LARGE_PLAN_OPERATORS = 100
"""Operators of a plan, from which on planning it takes seconds."""
LONG_LIST_VALUES = 1_000
"""Values of a list, from which on planning it takes seconds."""
LONG_TEXT = 15_000
"""Characters of an expression, from which on planning and compiling it takes seconds."""
_LIST = re.compile(r"INSET [^)]*?\.\.\. (\d+) more fields")
_MUCH_RECEIVED = 10 * MB
"""Bytes of results, from which on receiving them takes long by itself."""
_LEAST_RESULT = 16 << 10
"""Bytes of a task's result, most of which are rows: its metrics take some kilobytes."""
_RECEIVED_ADVICE = "Collect fewer rows: aggregate or limit before collect or toPandas, or write the result to storage."
_LARGE_PLAN = "Make the plan smaller: fewer columns, unions and steps; checkpoint what loops build up."
_SMALL_PLAN = (
    "Its plan is small: look at long expressions (lists of values, CASEs), at how long the catalog takes to describe"
    " its tables, and at what else the driver did."
)
_LONG_TEXT = (
    "Make its expressions shorter: join a table instead of a CASE of many branches, and do not nest what a loop builds"
    " up (checkpoint it)."
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
        "operators": len(view.plan.graph.nodes),
        "values": (values := _listed_values(view)),
        "longest_text": (text := _longest_text(view) if view.execution["execution_id"] else 0),
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
    listing = sum(view.plan.total(n, "metadata time") or 0 for n in view.plan.graph.nodes)
    is_explained = True
    if longest in ("finish", "collect") and results:
        what = f"the driver took {duration_text(whole)}, most of it to receive {bytes_text(results)} of results"
        advice = _RECEIVED_ADVICE
    elif longest == "prepare":
        what = f"the driver took {duration_text(whole)}, most of it before any task ran"
        if listing > 0.3 * parts["prepare"]:
            what += f"; listing files took {duration_text(listing)}"
            advice = "Read fewer files and partitions; a table in a metastore or a table format knows its files."
        elif values >= LONG_LIST_VALUES:
            what += f"; it filters by a list of {values:,} values"
            advice = "Put the values into a table, and join it with the hint BROADCAST."
        elif text >= LONG_TEXT:
            what += f"; one of its expressions has {text:,} characters"
            advice = _LONG_TEXT
        elif len(view.plan.graph.nodes) >= LARGE_PLAN_OPERATORS:
            advice = _LARGE_PLAN
        else:
            is_explained = False
            advice = _SMALL_PLAN if view.execution["execution_id"] else _FIRST_QUERY
    elif longest in ("finish", "collect"):
        is_explained = False
        what = f"the driver took {duration_text(whole)}, most of it for the results of tasks"
        advice = "Look at what the driver does then: the results of many tasks, or its memory and CPU."
    else:
        is_explained = False
        what = f"the driver took {duration_text(whole)}, most of it between stages"
        advice = "Look at what the driver does then: planning again under AQE, many small jobs, or its memory and CPU."
    share = _share_of_cpus(view)
    waits = not is_explained and share < _BUSY_HOST
    if waits:
        advice = (
            f"Its tasks had the CPU for {100 * share:.0f} % of their run time: if its hosts were busy, the driver"
            " waited, too; look at what else ran there."
        )
    if whole < _STARTING_MS and not is_explained:
        advice = "Nothing needs to be done: starting a query takes about this."
    yield Cause(
        "driver",
        whole,
        (),
        what,
        advice,
        {**evidence, "listing_ms": listing},
        least_share=LEAST_SHARE if is_explained else _UNEXPLAINED_ON_BUSY_HOST if waits else _UNEXPLAINED,
        certainty=1.0 if is_explained else _MAY_BE_ANYTHING,
    )


def _share_of_cpus(view: View) -> float:
    """CPU time to run time of all tasks, without waits that have a reason; 1 if that is not known.

    Python and native engines work in other threads or processes; short tasks say nothing.
    """
    run, fetch, gc, cpu = (
        sum(row[name] or 0 for row in view.stored.stages)
        for name in ("run_time_ms", "shuffle_fetch_wait_ms", "gc_time_ms", "cpu_time_ns")
    )
    works = run - fetch - gc
    elsewhere = any(operators.is_python(n.name) or operators.of(n.name).engine for n in view.plan.graph.nodes)
    return float(cpu / 1e6 / works) if cpu and works >= LEAST_RUN_MS and not elsewhere else 1.0


def _listed_values(view: View) -> int:
    """How many values the longest list of a filter has that Spark does not print to its end."""
    return max((int(n) for node in view.of_kind("filter") for n in _LIST.findall(node.simple)), default=0)


def _longest_text(view: View) -> int:
    """Characters of the longest expression of an operator; most have several in a list."""
    nodes = (node for node in view.of_kind("filter", "project", "aggregate") if len(node.simple) >= LONG_TEXT)
    return max((longest_element(node.simple) for node in nodes), default=0)


def longest_element(text: str) -> int:
    """Characters of the longest element of the lists in an operator's text; of all of it, if there is no list."""
    longest, starts, opened = 0, [0], [""]
    for at, letter in enumerate(text):
        if letter in "([":
            opened.append(letter)
            starts.append(at + 1)
        elif letter in ")]" and len(opened) > 1:
            start = starts.pop()
            longest = max(longest, at - start if opened.pop() == "[" else 0)
        elif letter == "," and opened[-1] == "[":
            longest = max(longest, at - starts[-1])
            starts[-1] = at + 1
    return longest or len(text)


def _result_bytes(view: View) -> int:
    """What the driver received of rows; results of tasks that only update metrics count nothing."""
    return sum(
        row["result_bytes"]
        for row in view.stored.stages
        if row["broadcast_ms"] is None
        and not row["shuffle_write_rows"]
        and (row["result_bytes"] or 0) >= _LEAST_RESULT * max(1, row["tasks"])
    )


def commit(view: View) -> Iterator[Cause]:
    """The commit of a write."""
    writes = list(view.of_kind("write"))
    files = max([view.plan.total(node, "number of written files") or 0 for node in writes], default=0)
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


COMPUTED_AGAIN = (
    "Each of these executions computes the micro-batch again, unless it is cached: call persist() on it first and"
    " unpersist() last, or write it once."
)


def nested(view: View) -> Iterator[Cause]:
    """Executions that this one started."""
    took = view.rests.get("nested", 0)
    if took:
        spent = view.stored.waited_itself
        longest = max(spent, key=lambda number: spent[number], default=None)
        yield Cause(
            "nested",
            took,
            (),
            f"it waited {duration_text(took)} for {len(spent)} execution{'s' * (len(spent) != 1)} that it started"
            + (f", the longest is {longest}" if longest is not None else ""),
            COMPUTED_AGAIN
            if computed_again(view.stored)
            else f"Look at execution {longest}: joinsight verdict {view.execution['application_id']}/{longest}.",
            {"executions": len(spent), "longest_execution": longest or 0},
        )


FILLED_AGAIN = (
    "It was filled more than once: it does not fit into memory, or was not kept. Use MEMORY_AND_DISK or more memory, or"
    " cache less."
)
_AS_MUCH = 0.6
"""Task time of an earlier filling of a cached table to that of a later one; less is a part, such as that for show()."""


def is_filled_again(earlier: Sequence[int], took: int) -> bool:
    """Whether a cached table was filled that an earlier execution had filled; each fills the part that it reads."""
    return took > 0 and max(earlier, default=0) >= _AS_MUCH * took


def caches(view: View) -> Iterator[Cause]:
    """A cached table that this execution filled, or filled again."""
    for row in view.stored.caches:
        filled = row["fill_wall_ms"] or 0
        if row["fill_stages"] is None:
            continue
        own = view.execution["execution_id"]
        fills = zip(row["filled_by"], row["filled_ms"], strict=True)
        again = is_filled_again([ms for number, ms in fills if number < own], row["fill_task_ms"] or 0)
        what = f"filling {row['table_name'] or 'a cached DataFrame'} took {duration_text(filled)}"
        if again:
            what += f"; executions {', '.join(map(str, row['filled_by'][:5]))} filled it"
        yield Cause(
            "cache",
            filled,
            (row["node_id"],),
            what,
            FILLED_AGAIN
            if again
            else "Later executions save this time, if they read it; else remove cache() or persist().",
            {"fill_wall_ms": filled, "filled_by": len(row["filled_by"]), "reads": row["reads"]},
            row["fill_stages"][0] if row["fill_stages"] else None,
        )


_BUSY = 0.7
"""Share of the run time of tasks in which they had the CPU, to that of earlier runs."""


def may_be_contended(view: View) -> bool:
    """Whether tasks had the CPU for so little of their run time that earlier runs may say more."""
    run = sum(ran.run_ms for ran in view.ran)
    return all(map(view.knows_cpu, view.ran)) and 0 < sum(ran.cpu_ms for ran in view.ran) < _BUSY * run


def contention(view: View) -> Iterator[Cause]:
    """The same work took the same CPU time, but longer: something else used the machine."""
    if not may_be_contended(view):
        return
    run = sum(ran.run_ms for ran in view.ran)
    cpu = round(sum(ran.cpu_ms for ran in view.ran))
    runs = [
        each
        for each in view.stored.earlier
        if each["run_time_ms"] and each["cpu_time_ms"] and 0.6 < cpu / each["cpu_time_ms"] < 1.6
    ]
    if not runs:
        return
    usual = median_high(each["cpu_time_ms"] / each["run_time_ms"] for each in runs)
    usual_wall = median_high(each["duration_ms"] for each in runs)
    now = cpu / run
    longer = view.wall_ms - usual_wall
    if now < _BUSY * usual and longer > 0.2 * usual_wall:
        yield Cause(
            "contention",
            min(longer, round(view.wall_ms * (1 - now / usual))),
            (),
            f"its tasks had the CPU for {100 * now:.0f} % of their run time, {100 * usual:.0f} % in earlier runs, for"
            " as much CPU time",
            "The machine was busy with something else: look at what ran beside it.",
            {"cpu_share": round(now, 3), "usual_cpu_share": round(usual, 3), "earlier_runs": len(runs)},
        )
