"""Prints an execution: its header, plan, times and findings; what `joinsight plan` and `print(measured)` show."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from joinsight.analysis.stored import StoredPlan
from joinsight.base.units import duration_text
from joinsight.present import caches, decisions
from joinsight.present.engines import changed_text, engine_text, files_text, own_reads_text
from joinsight.present.task_time import by_operator
from joinsight.present.time_spent import by_cause
from joinsight.present.values import execution_name, one_line, query_title, when
from joinsight.terminal import findings, tree
from joinsight.terminal.console import cut_at, paragraph_width, print_text
from joinsight.terminal.escaping import visible_line
from joinsight.verdict import Verdict, judge

_ERROR_LENGTH = 500
"""Characters of an error that a terminal shows."""


def print_execution(
    out: Console, stored: StoredPlan, versions: Sequence[int | None] = (None,), *, metrics: bool = False
) -> None:
    """Print an execution with these plan versions; None: the final one."""
    print_header(out, stored)
    for number in versions:
        print_plan(out, stored, number, metrics=metrics)
    print_time(out, stored)
    print_task_time(out, stored)
    print_caches(out, stored)
    print_nested(out, stored, metrics=metrics)
    print_findings_of(out, stored)


def print_nested(out: Console, stored: StoredPlan, *, metrics: bool = False) -> None:
    """Print the plans of the executions that this one started, with their shares of its wall time."""
    whole, drawn = stored.breakdown.wall_ms, set(map(id, stored.drawn))
    for each in stored.nested:
        e = each.execution
        waited = stored.waited.get(e["execution_id"], 0)
        share = f", {waited / whole:.1%} of the time" if waited and whole else ""
        took = "" if e["duration_ms"] is None else f" {duration_text(e['duration_ms'])}{share}:"
        out.print(Text(f"\nStarted execution {e['execution_id']},{took} {visible_line(query_title(e))}", "bold"))
        if id(each) in drawn:
            print_plan(out, each, None, metrics=metrics, whole_ms=stored.whole_ms(each))


def print_header(out: Console, stored: StoredPlan, verdict: Verdict | None = None) -> None:
    """Print the execution's title, state, keys and errors, and the verdict on it."""
    e = stored.execution
    print_text(out, Text(query_title(e), style="bold"))
    how = f"{e['state']} after {duration_text(e['duration_ms'])}" if e["duration_ms"] is not None else e["state"]
    versions = f", {e['plan_versions']} plans" if e["plan_versions"] > 1 else ""
    line = f"  from {e['called_from']}" if e["called_from"] else ""
    line += f"  by {e['user_name']}" if e["user_name"] else ""
    print_text(out, Text(f"{execution_name(e)}  {when(e['started_at'])}  {how}{versions}{line}", "dim"))
    if e["query_shape"]:
        print_text(out, Text(f"shape {e['query_shape']}, final plan {e['plan_fingerprint']}", "dim"))
    if engine := engine_text(stored):
        print_text(out, Text(visible_line(engine), "dim"))
    for text in (changed_text(stored.plan), files_text(stored.plan), own_reads_text(stored)):
        if text:
            print_text(out, Text(text, "dim"))
    if e["origin"] == "event_log":
        out.print(Text("read from an event log", "dim"))
    if e["error"]:
        error = Text(one_line(e["error"]), style="red")
        if cut_at(out) is not None:
            error.truncate(_ERROR_LENGTH, overflow="ellipsis")
        print_text(out, error)
    for reason in e["incomplete"] or ():
        print_text(out, Text(f"These numbers may be partial: {reason}", style="yellow"))
    _print_verdict(out, verdict or judge(stored))
    for advice in stored.not_followed:
        print_text(out, Text(f"It ran without accepted advice: {visible_line(advice.text)}.", "yellow"))


def _print_verdict(out: Console, verdict: Verdict) -> None:
    """Print where the time went and what to do first."""
    print_text(out, Text(f"\n{visible_line(verdict.text)}"))
    print_text(out, Text(visible_line(verdict.next), "bold"))


def print_plan(
    out: Console, stored: StoredPlan, number: int | None, *, metrics: bool = False, whole_ms: float | None = None
) -> None:
    """Print a plan version with AQE's decisions in it; for None, the final one with all decisions.

    `whole_ms`: see `plan_tree`.
    """
    version = stored.version(number)
    if version is None:
        out.print("(No plan: the execution failed before Spark had one.)")
        return
    if number is not None:
        kind = "the final plan" if version["is_final"] else "replaced by AQE; numbers are those at the end"
        after = decisions.moment(stored, version["planned_at"])
        out.print(Text(f"\nPlan {version['version']}, {after} after the start: {kind}", "bold"))
    for line in tree.draw(stored, version, width=cut_at(out), metrics=metrics, whole_ms=whole_ms):
        out.print(line, soft_wrap=True)
    decided = list(decisions.lines(stored, number))
    if decided:
        out.print(Text("AQE decided:", "bold"))
    for plan_version, decision in decided:
        out.print(Text(f"  plan {plan_version}, {decision}"), soft_wrap=True)


def print_time(out: Console, stored: StoredPlan) -> None:
    """Print what the wall time went into, the largest part first."""
    spent = by_cause(stored.segments)
    if spent:
        out.print(Text("Where the time went:", "bold"))
    for each in spent:
        length = f"{each.shown:<28} {duration_text(each.ms):>8} {each.share:>6.1%}"
        out.print(Text(f"  {length}  {each.places}".rstrip()), soft_wrap=True)


def print_task_time(out: Console, stored: StoredPlan) -> None:
    """Print what the run time of tasks went into, the largest part first, if something of it was sampled."""
    spent = by_operator(stored)
    if spent:
        out.print(Text("Task time:", "bold"))
    for each in spent:
        length = f"{each.part:<15} {duration_text(each.ms):>8} {each.error:<8} {each.share:>6.1%}"
        work = f" ({each.work})" if each.work else ""
        out.print(Text(f"  {length}  {visible_line(each.place + work)}".rstrip()), soft_wrap=True)


def print_caches(out: Console, stored: StoredPlan) -> None:
    """Print the cached tables that the execution filled or read."""
    if stored.caches:
        out.print(Text("Cached tables:", "bold"))
    for row in stored.caches:
        out.print(Text(f"  {visible_line(caches.line(row))}"), soft_wrap=True)


def print_findings_of(out: Console, stored: StoredPlan) -> None:
    """Print the findings of the execution, the worst first."""
    found = stored.all_findings
    if found:
        out.print(Text("Findings:", "bold"))
    duration_ms = stored.execution["duration_ms"] or stored.breakdown.wall_ms
    for row in found:
        for line in findings.lines({**row, "duration_ms": duration_ms}, paragraph_width(out)):
            out.print(line, soft_wrap=True)
