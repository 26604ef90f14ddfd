"""Compares an application's rows with Spark's stores, in both directions.

Ours is a dict::

    {"application": row, "executions": {id: {"row", "metrics", "nodes", "edges", "versions", "stages": rows,
                                             "jobs": [as in the document]}}}

Spark's is what `tests.exactness.oracle` says. No difference is allowed but those that `docs/exactness.md` names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.exactness.expected import (
    OF_STAGES,
    STAGE_TOTALS,
    WITHOUT_COUNTERPART,
    application_row,
    broadcast_bytes,
    execution_row,
    slots,
    stage_row,
    without,
)
from tests.exactness.tasklog import Attempt, Logged, Place

from joinsight.present.display import row_text
from joinsight.tables import EXECUTION_KEY, Row

TIE = "another task with the same largest value"
REPORTED_LATE = "a value that was reported after the end"
LOST_BY_SPARK = "a value that Spark's store has lost"
UNEQUAL = (TIE, REPORTED_LATE, LOST_BY_SPARK)
"""Rules about values that are compared, and are not equal."""
NOT_IN_LOG = "a value whose percentiles the log cannot tell"
LATE_TASK = "a task that ended after its execution"
NOT_STARTED = "an execution that ended without having started"
RULES = (*UNEQUAL, NOT_IN_LOG, LATE_TASK, NOT_STARTED)
"""All rules about what may differ whose cases are counted."""
NO_NODE = -1
_PLACE = re.compile(r"\(stage (\d+)\.(\d+): task (\d+)\)")
_TASKS = ("numCompletedIndices", "numFailedTasks", "numKilledTasks")
_JOB_STATES = {"SUCCEEDED": "succeeded", "FAILED": "failed", "RUNNING": "running"}


@dataclass
class Comparison:
    """The number of comparisons, and the differences in words."""

    differences: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    """Values that Spark or we have."""
    equal: int = 0
    """Those that are the same; the others are differences, or `allowed`."""
    allowed: Counter[str] = field(default_factory=Counter)
    """How many there are by each rule of `docs/exactness.md` about what may differ."""

    def same(self, kind: str, where: str, spark: Any, ours: Any) -> bool:
        """Count a comparison, and record a difference."""
        self.counts[kind] += 1
        self.compared += 1
        if spark == ours:
            self.equal += 1
            return True
        start = _first_difference(repr(spark), repr(ours))
        self.differences.append(f"{where}: Spark {_short(spark, start)}, ours {_short(ours, start)}")
        return False

    def row(self, kind: str, where: str, spark: Row, ours: Row) -> None:
        """Compare every column of `spark`."""
        self.counts[kind] += 1
        for column, value in spark.items():
            self.same("columns", f"{where}: {column}", value, ours[column])

    def table(self, table: str, where: str, spark: Row, ours: Row) -> None:
        """Compare every column of the table, except those known to have no counterpart."""
        unknown = ours.keys() ^ (spark.keys() | WITHOUT_COUNTERPART[table].keys())
        assert not unknown, f"columns of {table} that are not compared, without a reason: {sorted(unknown)}"
        self.row(f"{table}s", where, spark, ours)

    def keys(self, where: str, spark: Iterable[Any], ours: Iterable[Any]) -> list[Any]:
        """The keys that both have; a key that one of them lacks is a difference."""
        a, b = set(spark), set(ours)
        self.differences += [f"{where} {key}: we have none" for key in sorted(a - b)]
        self.differences += [f"{where} {key}: Spark has none" for key in sorted(b - a)]
        return sorted(a & b)

    def summary(self) -> str:
        parts = [*sorted(self.counts.items()), *self.allowed.most_common()]
        return ", ".join(f"{number:,} {kind}" for kind, number in parts if number)

    def words(self) -> str:
        return "\n".join(self.differences[:40]) + f"\n({len(self.differences)} differences)"


class Comparer:
    """Compares one application's rows with one of Spark's stores."""

    def __init__(
        self,
        said: dict[str, Any],
        plan_versions: dict[str, list[Any]],
        logged: dict[int, Logged],
        ended_at: int,
        *,
        is_live: bool,
        is_async: bool = False,
    ) -> None:
        """`is_async`: Spark aggregates executions in a separate thread, and may lose values."""
        self.said = said
        self.plan_versions = plan_versions
        self.logged = logged
        self.ended_at = ended_at
        self.is_live = is_live
        self.is_async = is_async
        self.result = Comparison()
        self.shared: set[int] = set()
        self.partial: set[int] = set()
        """Executions that share a stage with others, or of which tasks ended after them that we do not have."""
        self.attempts: dict[int, list[dict[str, Any]]] = {}
        for stage in said["stages"].values():
            self.attempts.setdefault(stage["stageId"], []).append(stage)

    def compare(self, ours: dict[str, Any]) -> Comparison:
        result = self.result
        result.table("application", "application", application_row(self.said, self.ended_at), ours["application"])
        known = self.said["executions"]
        # One that ended without having started (3.x: it failed in analysis) is an execution for nobody
        theirs = [int(key) for key, execution in known.items() if execution["graph"] is not None]
        result.allowed[NOT_STARTED] += len(known) - len(theirs)
        self.shared = self._shared_stages(known)
        for number in result.keys("execution", theirs, ours["executions"]):
            self._execution(number, known[str(number)], ours["executions"][number])
        self._shared(ours["executions"].values())
        return result

    def _shared_stages(self, executions: dict[str, Any]) -> set[int]:
        """The stages of several executions, which ran them at the same time."""
        owners: Counter[int] = Counter()
        for execution in executions.values():
            owners.update({stage for job in execution["jobs"] for stage in self.said["jobs"][job]["stageIds"]})
        return {stage for stage, number in owners.items() if number > 1}

    def _shared(self, executions: Iterable[dict[str, Any]]) -> None:
        """A task counts for one of the executions that share its stage; their sum is what Spark has."""
        rows = [row for execution in executions for row in execution["stages"] if row["stage_id"] in self.shared]
        for stage in (stage for number in self.shared for stage in self.attempts[number]):
            key = stage["stageId"], stage["attemptId"]
            mine = [row for row in rows if (row["stage_id"], row["stage_attempt"]) == key]
            expected = stage_row(stage, [], [])
            names = ("succeeded_tasks", "failed_tasks", "killed_tasks", *STAGE_TOTALS)
            theirs = {name: expected[name] or 0 for name in names}
            together = {name: sum(row[name] or 0 for row in mine) for name in names}
            self.result.row("stages that executions share", f"stage {key}", theirs, together)

    def _execution(self, number: int, spark: dict[str, Any], mine: dict[str, Any]) -> None:
        where = f"execution {number} ({' '.join(spark['description'].split())[:50]})"
        jobs = [self.said["jobs"][job] for job in spark["jobs"]]
        jobs.sort(key=lambda job: int(job["jobId"]))
        stages = {
            (stage["stageId"], stage["attemptId"]): stage
            for job in jobs
            for stage_id in job["stageIds"]
            for stage in self.attempts[stage_id]
        }
        versions = self.plan_versions.get(str(number), [])
        logged = self.logged[number]
        if self.is_live:
            for key, stage in stages.items():
                late = self._late_tasks(key, stage, mine["stages"], logged)
                if late:
                    self.partial.add(number)
                    self.result.allowed[LATE_TASK] += len(late)
                    stages[key] = without(stage, late)
        expected = execution_row(spark, jobs, list(stages.values()), versions, self.said, logged)
        # Made of values that are compared below
        expected["broadcast_bytes"] = broadcast_bytes(mine["metrics"], mine["nodes"])
        if any(stage in self.shared for stage, _ in stages):
            self.partial.add(number)
            expected |= {name: mine["row"][name] for name in OF_STAGES}
        self.result.table("execution", where, expected, mine["row"])
        self._jobs(where, jobs, mine["jobs"])
        ours = {(row["stage_id"], row["stage_attempt"]): row for row in mine["stages"]}
        for key in self.result.keys(f"{where}: stage", stages, ours):
            if key[0] in self.shared:
                continue
            its_jobs = [job["jobId"] for job in jobs if key[0] in job["stageIds"]]
            at = f"{where}: stage {key[0]}.{key[1]}"
            its_key = {name: expected[name] for name in EXECUTION_KEY}
            expected_stage = its_key | stage_row(stages[key], its_jobs, logged.parents[key[0]])
            expected_stage["slots"] = slots(stages[key], self.said["executors"])
            self.result.table("stage", at, expected_stage, ours[key])
        self._graphs(where, spark, versions, mine)
        self._metrics(where, spark, mine["metrics"], logged)
        self._segments(where, expected["duration_ms"], mine["segments"])

    def _segments(self, where: str, duration_ms: int, segments: list[Row]) -> None:
        """Without a gap or an overlap from the start to the end, each with a cause."""
        times = [row["start_ms"] for row in segments] + [duration_ms]
        ends = [0] + [row["end_ms"] for row in segments]
        self.result.same("segments", f"{where}: segments", times, ends)
        self.result.same("segments", f"{where}: empty segments", [], [row for row in segments if not _length(row) > 0])
        self.result.same("segments", f"{where}: sum of segments", duration_ms, sum(map(_length, segments)))

    def _late_tasks(self, key: tuple[int, int], stage: dict[str, Any], ours: list[Row], logged: Logged) -> set[int]:
        """The tasks that we did not receive, if they are the stage's last ones and ended after the execution.

        A task that is killed may end after it for one listener of Spark, and before it for another.
        """
        seen = [
            row["succeeded_tasks"] + row["failed_tasks"] + row["killed_tasks"]
            for row in ours
            if (row["stage_id"], row["stage_attempt"]) == key
        ]
        missing = sum(stage[name] for name in _TASKS) - sum(seen)
        if key[0] in self.shared or not seen or missing <= 0:
            return set()
        last = set(logged.ends[key][-missing:])
        killed = {task["taskId"] for task in stage["tasks"] if task["status"] == "KILLED"}
        return last if last <= logged.late_tasks | killed else set()

    def _jobs(self, where: str, jobs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
        expected = {
            job["jobId"]: {
                "stages": job["stageIds"],
                "state": _JOB_STATES[job["status"]],
                "submitted_at_ms": job["submissionTime"],
                "ended_at_ms": job["completionTime"],
            }
            for job in jobs
        }
        mine = {job["id"]: job for job in ours}
        for number in self.result.keys(f"{where}: job", expected, mine):
            self.result.row("jobs", f"{where}: job {number}", expected[number], mine[number])

    def _graphs(self, where: str, spark: dict[str, Any], versions: list[Any], mine: dict[str, Any]) -> None:
        self.result.same("columns", f"{where}: Spark's last graph", spark["graph"], versions[-1])
        self.result.same("columns", f"{where}: number of plan versions", len(versions), len(mine["versions"]))
        for version, (graph, row) in enumerate(zip(versions, mine["versions"], strict=False)):
            at = f"{where}: plan version {version}"
            mine_edges = [list(edge) for edge in row["edges"]]
            self._same_graph("plan versions", at, graph, {"nodes": row["nodes"], "edges": mine_edges})
            if version == 0:
                self.result.same("columns", f"{at}: planned_at", spark["submissionTime"], row["planned_at"])
            is_last = version == len(versions) - 1
            self.result.same("columns", f"{at}: is_final", is_last, row["is_final"])
        metrics: dict[int, set[tuple[Any, ...]]] = {}
        for row in mine["metrics"]:
            metrics.setdefault(row["node_id"], set()).add((row["accumulator_id"], row["name"], row["type"]))
        nodes = [
            {
                **{"id": row["node_id"], "name": row["name"], "simple": row["simple"]},
                **{"cluster": row["cluster_id"], "is_cluster": row["is_cluster"]},
                "metrics": metrics.get(row["node_id"], set()),
            }
            for row in mine["nodes"]
        ]
        graph = spark["graph"]
        last = [{**node, "metrics": {tuple(metric) for metric in node["metrics"]}} for node in graph["nodes"]]
        edges = [[row["child_id"], row["parent_id"]] for row in mine["edges"]]
        self._same_graph("graphs", f"{where}: graph", {**graph, "nodes": last}, {"nodes": nodes, "edges": edges})

    def _same_graph(self, kind: str, where: str, graph: dict[str, Any], mine: dict[str, Any]) -> None:
        self.result.counts[kind] += 1
        theirs, ours = ({node["id"]: node for node in one["nodes"]} for one in (graph, mine))
        for node in self.result.keys(f"{where}: node", theirs, ours):
            self.result.same("nodes", f"{where}: node {node}", theirs[node], ours[node])
        self.result.same("columns", f"{where}: edges", graph["edges"], mine["edges"])

    # Values

    def _metrics(self, where: str, spark: dict[str, Any], rows: list[Row], logged: Logged) -> None:
        said = spark["metricValues"] or {}
        graph = spark["graph"]["nodes"]
        placed = {(node["id"], metric[0]): metric for node in graph for metric in node["metrics"]}
        in_graph = {accumulator for _, accumulator in placed}
        for metric in spark["metrics"]:  # all that were ever announced
            accumulator = metric["accumulatorId"]
            if accumulator not in in_graph and str(accumulator) in said:
                placed[NO_NODE, accumulator] = [accumulator, metric["name"], metric["metricType"]]
        self.result.keys(f"{where}: value", said, said.keys() & {str(accumulator) for _, accumulator in placed})
        ours = {(row["node_id"], row["accumulator_id"]): row for row in rows}
        for key in self.result.keys(f"{where}: metric", placed, ours):
            row = ours[key]
            at = f"{where}: metric {row['name']} ({row['accumulator_id']}) of node {row['node_id']}"
            self.result.same("columns", f"{at}: name and type", placed[key][1:], [row["name"], row["type"]])
            self._value(at, said.get(str(key[1])), row, logged)

    def _value(self, where: str, said: str | None, row: Row, logged: Logged) -> None:
        text = row_text(row)
        if said is not None or text is not None:
            self.result.counts["values"] += 1
            self.result.compared += 1
            self.result.equal += said == text
        is_sure = text is not None and self._numbers(where, row, logged)
        if said == text or self._is_tie(said, text, row, logged):
            return
        if self.is_live and (logged.outlived or row["accumulator_id"] in logged.reported_late):
            self.result.allowed[REPORTED_LATE] += 1
        elif self.is_async and is_sure:
            self.result.allowed[LOST_BY_SPARK] += 1
        else:
            self.result.differences.append(f"{where}: Spark {said!r}, ours {text!r}")

    def _is_tie(self, said: str | None, text: str | None, row: Row, logged: Logged) -> bool:
        """Whether the strings differ only in the task with the largest value, and both tasks have that value."""
        if said is None or text is None or _PLACE.sub("", said) != _PLACE.sub("", text):
            return False
        a, b = _PLACE.search(said), _PLACE.search(text)
        if a is None or b is None:
            return False
        if not {_place(a), _place(b)} <= self._holders(row, logged):
            return False
        self.result.allowed[TIE] += 1
        return True

    @staticmethod
    def _holders(row: Row, logged: Logged) -> set[Place | None]:
        """The tasks that have the largest value; None: the driver."""
        return {place for value, place in logged.values(row["accumulator_id"]) if value == row["max"]}

    def _numbers(self, where: str, row: Row, logged: Logged) -> bool:
        """Compare count, total, min, median, p95 and max with those of the values in the log.

        False: they could not be compared, or differ.
        """
        accumulator = row["accumulator_id"]
        touched = logged.touched(accumulator)
        unsure = logged.late or logged.shared or (self.is_live and any(a.has_failures for a in logged.stages.values()))
        if unsure:
            self.result.allowed[NOT_IN_LOG] += 1
            return False
        values = [value for value, _ in logged.values(accumulator) if _counts(row["type"], value)]
        zeros = self._zeros(row, values, touched, logged.stages.values())
        if zeros is None:
            self.result.differences.append(f"{where}: {row['count']} values, of which the log has {len(values)}")
            return False
        values += [0] * zeros
        values.sort()
        n = len(values)
        expected = {
            "count": n,
            "total": sum(values) if n else None,
            "min": values[0] if n else None,
            "median": values[n // 2] if n else None,
            "p95": values[n * 95 // 100] if n else None,
            "max": values[-1] if n else None,
        }
        is_same = self.result.same("percentiles", where, expected, {name: row[name] for name in expected})
        if n and values[-1] > 0:  # of which task a largest value of 0 is, the log does not know
            place = row["max_stage_id"], row["max_stage_attempt"], row["max_task_id"]
            ours = None if place == (None, None, None) else place
            if ours not in self._holders(row, logged):
                self.result.differences.append(f"{where}: {values[-1]} is not of {ours}")
                return False
        return is_same

    def _zeros(self, row: Row, values: list[int], touched: list[Attempt], stages: Iterable[Attempt]) -> int | None:
        """The number of tasks that wrote nothing and count as 0; None: no number explains our count.

        A log does not have what a task did not touch. In a replay all of these tasks count, of stages of which some
        task touched it. Live, those count that count additive metrics, and those that never came to write; also of
        stages none of whose tasks touched it: as many as we say, if whole stages make up the number.
        """
        accumulator = row["accumulator_id"]
        if row["type"] == "average":
            return 0

        def silent(attempt: Attempt) -> int:
            wrote = set(attempt.values.get(accumulator, ()))
            if self.is_live and row["type"] != "sum" and not row["type"].startswith("v2Custom"):
                wrote |= attempt.done
            return attempt.tasks - len(wrote)

        zeros = sum(map(silent, touched))
        if not self.is_live:
            return zeros
        more: int = row["count"] - len(values) - zeros
        return zeros + more if more in _sums([silent(a) for a in stages if a not in touched]) else None


def in_ms(row: Row) -> Row:
    """The row with times as Spark has them, in milliseconds."""
    return {k: round(v.timestamp() * 1000) if isinstance(v, datetime) else v for k, v in row.items()}


def _counts(metric_type: str, value: int) -> bool:
    if metric_type == "sum" or metric_type.startswith("v2Custom"):
        return True
    return value > 0 if metric_type == "average" else value >= 0


def _sums(numbers: Iterable[int]) -> set[int]:
    """The sums of all subsets of the numbers."""
    found = {0}
    for number in numbers:
        found |= {number + other for other in found}
    return found


def _place(match: re.Match[str]) -> Place:
    return int(match[1]), int(match[2]), int(match[3])


def _first_difference(a: str, b: str) -> int:
    return next((at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _short(value: Any, difference: int) -> str:
    """The value as text, from a little before the first difference if it is long."""
    text = repr(value)
    start = max(0, difference - 100)
    return text if len(text) <= 600 else f"...{text[start : start + 600]}..."


def _length(segment: Row) -> int:
    length: int = segment["end_ms"] - segment["start_ms"]
    return length
