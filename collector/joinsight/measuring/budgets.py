"""Budgets: sentences that the queries of a test must keep, such as ``at most 2 shuffles``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from joinsight.analysis.table_formats import own_read
from joinsight.base.errors import JoinsightError
from joinsight.base.severity import SEVERITIES
from joinsight.base.units import bytes_text, duration_text
from joinsight.gate.explained import STRATEGIES, Join, contents, joins_of
from joinsight.measuring.measurement import MeasuredExecution

FORMS = """\
  no cartesian product                 no, at most 2, at least 1 or exactly 3 of: queries, shuffles, broadcasts, joins,
                                       broadcast joins, sort-merge joins, shuffled hash joins, nested loop joins,
                                       cartesian products
  shuffle bytes below 10 MB            also broadcast, spilled, input or output bytes; with B, kB, MB, GB, KiB, MiB, GiB
  task time below 30 s                 or wall time; with ms, s, min, h
  every join is broadcast              or sort-merge, shuffled hash
  the join on customer_id is broadcast
  no finding above warning             or info, or no finding at all
"""

Executions = Sequence[MeasuredExecution]
_Budget = Callable[[Executions], str | None]
"""Gives what is wrong; None if the budget is kept."""

_COUNT = re.compile(r"(?:(no)|(at most|at least|exactly) (\d+)) (.+)")
_BELOW = re.compile(
    r"(shuffle bytes|broadcast bytes|spilled bytes|input bytes|output bytes|task time|wall time) below (.+)"
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
_JOIN = re.compile(r"(every join|the join|the join on (.+)) is (.+)")
_FINDING = re.compile(rf"no findings?(?: above ({'|'.join(SEVERITIES[1:])}))?")

_STRATEGY = {text.removeprefix("a ").removesuffix(" join"): name for name, text in STRATEGIES.items()}
_BYTES = {"B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
_MEASURES: Mapping[str, tuple[str, Mapping[str, int], Callable[[int], str]]] = {
    "shuffle bytes": ("shuffle_write_bytes", _BYTES, bytes_text),
    "broadcast bytes": ("broadcast_bytes", _BYTES, bytes_text),
    "spilled bytes": ("disk_spilled_bytes", _BYTES, bytes_text),
    "input bytes": ("input_bytes", _BYTES, bytes_text),
    "output bytes": ("output_bytes", _BYTES, bytes_text),
    "task time": ("task_time_ms", _MS, duration_text),
    "wall time": ("duration_ms", _MS, duration_text),
}


def broken(budgets: Iterable[str], executions: Executions) -> list[str]:
    """The budgets that are not kept, each with what is. Raises `JoinsightError` for one that is not understood."""
    read = [(text, _read(text)) for text in budgets]
    return [f"{text}: {wrong}" for text, budget in read if (wrong := budget(executions))]


def asked_for(executions: Executions) -> Executions:
    """Without what a table format read for itself, which depends on what the session knows already."""
    return [each for each in executions if not own_read(each.row.description, each.row.call_site)]


def _read(text: str) -> _Budget:
    words = " ".join(text.split())
    if match := _FINDING.fullmatch(words):
        return _no_finding(match[1])
    if match := _COUNT.fullmatch(words):
        what = _plural(match[4])
        if what in _COUNTED or what.removesuffix(" joins") in _STRATEGY:
            return _counted(match[2] or "at most", 0 if match[1] else int(match[3]), what)
    if match := _BELOW.fullmatch(words):
        column, units, show = _MEASURES[match[1]]
        amount = _AMOUNT.fullmatch(match[2])
        if amount and amount[2] in units:
            return _below(column, round(float(amount[1]) * units[amount[2]]), show)
    if (match := _JOIN.fullmatch(words)) and match[3] in _STRATEGY:
        return _join_is(match[2], match[1] == "every join", _STRATEGY[match[3]])
    raise JoinsightError(f"{text!r} is not a budget. Budgets are:\n{FORMS}")


def _plural(text: str) -> str:
    return {"query": "queries"}.get(text, text if text.endswith("s") else f"{text}s")


def _joins(executions: Executions) -> list[Join]:
    return [join for each in asked_for(executions) for join in joins_of(each.plan)]


_COUNTED: Mapping[str, Callable[[Executions], list[str]]] = {
    "queries": lambda executions: [each.title for each in executions],
    "shuffles": lambda executions: [text for each in executions for text in contents(each.plan).shuffles.elements()],
    "broadcasts": lambda executions: [bytes_text(each.size_bytes or 0) for e in executions for each in e.broadcasts],
    "joins": lambda executions: [join.name for join in _joins(executions)],
    "cartesian products": lambda executions: [join.name for join in _joins(executions) if join.is_cartesian],
}


def _counted(how: str, number: int, what: str) -> _Budget:
    def check(executions: Executions) -> str | None:
        if what in _COUNTED:
            found = _COUNTED[what](asked_for(executions))
        else:
            strategy = _STRATEGY[what.removesuffix(" joins")]
            found = [join.name for join in _joins(executions) if join.strategy == strategy]
        kept = {"at most": len(found) <= number, "at least": len(found) >= number, "exactly": len(found) == number}
        listed = f" ({'; '.join(found)})" if found else ""
        return None if kept[how] else f"there {'is' if len(found) == 1 else 'are'} {len(found)}{listed}"

    return check


def _below(column: str, limit: int, show: Callable[[int], str]) -> _Budget:
    def check(executions: Executions) -> str | None:
        tops = [e.row for e in executions if column != "duration_ms" or e.row.root_execution_id == e.row.execution_id]
        found = sum(getattr(row, column) or 0 for row in tops)
        return None if found < limit else f"it is {show(found)}"

    return check


def _join_is(key: str | None, every: bool, strategy: str) -> _Budget:
    def check(executions: Executions) -> str | None:
        joins = [join for join in _joins(executions) if key is None or key in (join.key, join.on.strip("() "))]
        if not joins:
            others = dict.fromkeys(join.name for join in _joins(executions))
            return "there is no such join" + (f"; there is a {', a '.join(others)}" if others else "")
        if key is None and not every and len(joins) > 1:
            return f"there are {len(joins)}: {'; '.join(join.name for join in joins)}"
        wrong = [f"the {join.name} is {STRATEGIES[join.strategy]}" for join in joins if join.strategy != strategy]
        return "; ".join(wrong) or None

    return check


def _no_finding(above: str | None) -> _Budget:
    worse = SEVERITIES[: SEVERITIES.index(above)] if above else SEVERITIES

    def check(executions: Executions) -> str | None:
        found = [f"{f.severity}: {f.title}" for e in executions for f in e.findings if f.severity in worse]
        return "; ".join(found) or None

    return check
