"""The rows that tables must have according to Spark's stores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from math import inf
from operator import getitem
from typing import Any, get_type_hints

from msgspec import Meta
from tests import reported_settings
from tests.exactness.tasklog import Logged

from joinsight.contract.document import Slowest, StageTotals
from joinsight.tables import Row

MAX_TEXT = 16 * 1024
MAX_CALL_SITE = 1024
_NOT_RUN = ("SKIPPED", "PENDING")
_STAGE_STATES = {
    "COMPLETE": "succeeded",
    "FAILED": "failed",
    "SKIPPED": "skipped",
    "ACTIVE": "running",
    "PENDING": "pending",
}


def _spark_names() -> Iterator[tuple[str, str, str]]:
    """The totals of a stage, with what Spark's StageData and TaskData call them, as the document declares it."""
    for name, hint in get_type_hints(StageTotals, include_extras=True).items():
        extra = _extra(hint)
        if "spark" in extra:
            yield name, extra["spark"], extra["of_task"]


def _extra(hint: Any) -> dict[str, str]:
    [extra] = [each.extra for each in hint.__metadata__ if isinstance(each, Meta) and each.extra]
    return extra


_PEAK = "peak_memory_bytes"
STAGE_TOTALS = {name: spark for name, spark, _ in _spark_names() if name != _PEAK}
"""Columns of table `stage`, and what Spark calls them in StageData. Without the peak: Spark adds it up over tasks."""
_OF_TASKS = {
    name: extra["of_tasks"]
    for name, hint in get_type_hints(StageTotals, include_extras=True).items()
    if "of_tasks" in (extra := _extra(hint))
}
"""Columns that add up what Spark's TaskData has."""
_OF_TASK = {spark: of_task.split(".") for _, spark, of_task in _spark_names()}

OF_STAGES = (
    *("stages", "tasks", "task_time_ms", "input_bytes", "output_bytes", "shuffle_write_bytes", "shuffle_read_bytes"),
    *("memory_spilled_bytes", "disk_spilled_bytes"),
)
"""Columns of table `execution` that add up its stages."""

# A column that is neither here nor compared fails the tests
_OURS = {
    "origin": "who read it: the listener, or the backfill",
    "listener_id": "the listener's own",
    "sequence": "the document's number",
    "updated_at": "when the row was written",
}
WITHOUT_COUNTERPART: dict[str, dict[str, str]] = {
    "application": {
        **_OURS,
        "job_name": "spark.joinsight.jobName, which Spark does not know",
        "listener_version": "Joinsight's own",
        "tags": "spark.joinsight.tag.*, which Spark does not know",
    },
    "execution": {
        **_OURS,
        "job_name": "as of the application",
        "tags": "as of the application",
        "words": "derived from other columns, for searches",
        "title": "made of the description, the SQL text and the first plan: tests/analysis/test_title.py",
        "called_from": "taken from the description and the call site, compared: tests/analysis/test_called_from.py",
        **dict.fromkeys(
            ("user_name", "session_id", "operation_id", "user_tags"),
            "taken from the job tags and the job group, which are compared: tests/listener/RequestedByTest.java",
        ),
        "is_sampled": "of samples of our own: tests/timing/test_task_time.py",
        "query_shape": "a key of our own, made of the first plan's graph: tests/plan/test_identity.py",
        "plan_fingerprint": "a key of our own, made of the last plan's graph: tests/plan/test_identity.py",
    },
    "stage": {
        **dict.fromkeys(
            ("oldest_launch_at", "oldest_task_id"),
            "of a stage that runs; these have ended: tests/listener/ExecutionsTest.java",
        ),
        "slack_ms": "Spark does not know it: tests/timing/test_critical_path.py",
        "waits_for": "likewise: tests/analysis/test_replay.py",
        "broadcast_ms": "the metrics of its broadcast, which are compared: tests/analysis/test_replay.py",
    },
}
"""Columns by table to which nothing in Spark's stores corresponds, with the reason."""


def application_row(said: dict[str, Any], ended_at: int) -> Row:
    """The expected row of `application`. `ended_at`: given, because no live store has its application's end."""
    application = said["application"]
    (attempt,) = application["attempts"]
    return {
        "application_id": application["id"],
        "attempt_id": attempt["attemptId"] or "",
        "name": application["name"],
        "state": "ended",
        "started_at": attempt["startTime"],
        "ended_at": ended_at,
        "spark_user": attempt["sparkUser"],
        "master": said["settings"]["spark.master"],
        "spark_version": attempt["appSparkVersion"],
        "configuration": reported_settings.allowed(said["settings"]),
    }


def execution_row(
    spark: dict[str, Any],
    jobs: list[dict[str, Any]],
    stages: list[dict[str, Any]],
    versions: list[Any],
    said: Row,
    logged: Logged,
) -> Row:
    """The expected row of `execution`. `jobs`, `stages`: its own; `versions`: the graphs of its plans."""
    ran = [stage for stage in stages if stage["status"] not in _NOT_RUN]
    in_force = {**said["settings"], **(spark["modifiedConfigs"] or {})}
    started, ended = spark["submissionTime"], spark["completionTime"]

    def total(name: str) -> int | None:
        return sum(stage[name] for stage in ran) if ran else None

    return {
        "application_id": said["application"]["id"],
        "attempt_id": said["application"]["attempts"][0]["attemptId"] or "",
        "execution_id": spark["executionId"],
        "root_execution_id": spark["rootExecutionId"],
        "started_at": started,
        "ended_at": ended,
        "duration_ms": ended - started,
        "state": _state(spark["errorMessage"] or ""),
        "description": cut(spark["description"], MAX_TEXT),
        "call_site": cut(spark["details"], MAX_CALL_SITE),
        "error": cut(spark["errorMessage"] or "", MAX_TEXT) or None,
        # The stores keep these of jobs only, and broadcasts have tags of their own
        "job_group": logged.job_group,
        "job_tags": logged.job_tags,
        **_streaming(spark["description"], logged),
        "is_outer": _is_outer(spark, jobs),
        "nested": _nested(spark, said["executions"].values()),
        "jobs": len(jobs),
        "stages": len(ran),
        "tasks": total("numCompletedIndices"),
        "task_time_ms": total("executorRunTime"),
        "input_bytes": total("inputBytes"),
        "output_bytes": total("outputBytes"),
        "shuffle_write_bytes": total("shuffleWriteBytes"),
        "shuffle_read_bytes": total("shuffleReadBytes"),
        "memory_spilled_bytes": total("memoryBytesSpilled"),
        "disk_spilled_bytes": total("diskBytesSpilled"),
        "shuffle_partitions": int(in_force.get("spark.sql.shuffle.partitions", 200)),
        "broadcast_threshold_bytes": _bytes(in_force.get("spark.sql.autoBroadcastJoinThreshold", "10m")),
        "is_adaptive": any(node["name"] == "AdaptiveSparkPlan" for node in versions[0]["nodes"]),
        "plan_versions": len(versions),
        "configuration": reported_settings.of_session(
            reported_settings.allowed(said["settings"]), reported_settings.allowed(spark["modifiedConfigs"] or {})
        ),
        "incomplete": None,
        "incomplete_codes": None,
    }


def cut(text: str, limit: int) -> str:
    """What is left of a text."""
    mark = f"… [cut: {len(text):,} characters in all]"
    return text if len(text) <= limit else text[: limit - len(mark)] + mark


def _state(error: str) -> str:
    if re.search(r"\bJob \d+ cancelled", error):
        return "cancelled"
    return "failed" if error else "succeeded"


_BATCH = re.compile(r"(.*)\nid = (.*)\nrunId = (.*)\nbatch = (.*)")


def _streaming(description: str, logged: Logged) -> Row:
    """The names of a micro-batch: of its description, or as its jobs have them."""
    batch = _BATCH.fullmatch(description)
    found: tuple[Any, ...]
    if batch is None:
        run = logged.job_group if logged.streaming_query_id else None
        found = (None, logged.streaming_query_id, run, logged.streaming_batch_id)
    else:
        found = (batch[1] or None, batch[2], batch[3], int(batch[4]))
    return dict(zip(("streaming_query_name", *_STREAMING), found, strict=True))


_STREAMING = ("streaming_query_id", "streaming_run_id", "streaming_batch_id")


def _nested(spark: dict[str, Any], executions: Iterable[dict[str, Any]]) -> int:
    """How many it started; Hudi plans a query in executions that begin before it does, which are not of its time."""
    of_it = [each for each in executions if each["rootExecutionId"] == spark["executionId"]]
    its = [each for each in of_it if each["executionId"] != spark["executionId"]]
    return sum(each["submissionTime"] >= spark["submissionTime"] for each in its)


def _is_outer(spark: dict[str, Any], jobs: list[dict[str, Any]]) -> bool:
    is_root = spark["rootExecutionId"] == spark["executionId"]
    nodes = (spark["graph"] or {"nodes": []})["nodes"]
    returns_result = [node["name"] for node in nodes] == ["CommandResult"]
    has_work_elsewhere = returns_result or (bool(_BATCH.fullmatch(spark["description"])) and is_root)
    return has_work_elsewhere and not jobs and not spark["errorMessage"]


def broadcast_bytes(metrics: list[Row], nodes: list[Row]) -> int | None:
    """The data sizes of the nodes that broadcast."""
    broadcasts = {node["node_id"] for node in nodes if node["name"].endswith("BroadcastExchange")}
    sizes = [row["total"] for row in metrics if row["node_id"] in broadcasts and row["name"] == "data size"]
    return sum(size for size in sizes if size is not None) if any(size is not None for size in sizes) else None


def without(stage: dict[str, Any], late: set[int]) -> dict[str, Any]:
    """The stage without these tasks."""
    tasks = [task for task in stage["tasks"] if task["taskId"] not in late]
    row = {**stage, "tasks": tasks}
    for name in STAGE_TOTALS.values():
        metrics = [task["taskMetrics"] for task in tasks if task["taskMetrics"]]
        row[name] = sum(reduce(getitem, _OF_TASK[name], one) for one in metrics)
    states = Counter(task["status"] for task in tasks)
    succeeded = len({task["index"] for task in tasks if task["status"] == "SUCCESS"})
    return row | {
        "numCompletedIndices": succeeded,
        "numFailedTasks": states["FAILED"],
        "numKilledTasks": states["KILLED"],
    }


def slots(stage: dict[str, Any], executors: list[dict[str, Any]]) -> int | None:
    """The most tasks that executors could run at once while a stage ran, of an application that loses no executor."""
    if stage["status"] in _NOT_RUN:
        return None
    assert all(executor["isActive"] for executor in executors)
    until = stage["completionTime"]
    found: int = sum(executor["maxTasks"] for executor in executors if until is None or executor["addTime"] <= until)
    return found


def stage_row(stage: dict[str, Any], jobs: list[int], parents: list[int]) -> Row:
    """The expected row of `stage`, without its slots. `parents`: given, because Spark's stores do not have them."""
    tasks = [task for task in stage["tasks"] if task["taskMetrics"]]
    row = {
        "stage_id": stage["stageId"],
        "stage_attempt": stage["attemptId"],
        "name": stage["name"],
        "state": _STAGE_STATES[stage["status"]],
        "job_ids": jobs,
        "submitted_at": stage["submissionTime"],
        "completed_at": stage["completionTime"],
        "failure": stage["failureReason"],
        "parent_ids": parents,
        "first_launch_at": min((task["launchTime"] for task in stage["tasks"]), default=None),
        "tasks": stage["numTasks"],
        "succeeded_tasks": stage["numCompletedIndices"],
        "failed_tasks": stage["numFailedTasks"],
        "killed_tasks": stage["numKilledTasks"],
        **{column: stage[name] for column, name in STAGE_TOTALS.items()},
        **{column: sum(task[name] or 0 for task in tasks if _reported(task)) for column, name in _OF_TASKS.items()},
        _PEAK: max((task["taskMetrics"]["peakExecutionMemory"] for task in tasks), default=0),
    }
    if stage["status"] in _NOT_RUN:
        row |= dict.fromkeys((*STAGE_TOTALS, *_OF_TASKS, _PEAK))
    first: dict[int, dict[str, Any]] = {}
    ran: dict[int, dict[str, Any]] = {}  # of a task and its speculative twin the one that came first
    for task in sorted(tasks, key=lambda task: int(task["launchTime"] + (task["duration"] or 0))):
        if task["status"] == "SUCCESS":
            first.setdefault(task["index"], task["taskMetrics"])
            ran.setdefault(task["index"], task)
    row |= _occupancy(list(ran.values()))
    row |= _executors(list(ran.values()))
    reads = [metrics["shuffleReadMetrics"] for metrics in first.values()]
    times = sorted(metrics["executorRunTime"] for metrics in first.values())
    row |= _spread("run_time_ms", times)
    row |= {f"run_time_ms_p{p}": times[len(times) * p // 100] if times else None for p in (25, 75)}
    row |= _spread("cpu_time_ms", [metrics["executorCpuTime"] // 1_000_000 for metrics in first.values()])
    row |= _spread("shuffle_read_bytes", [read["localBytesRead"] + read["remoteBytesRead"] for read in reads], True)
    row |= _spread("shuffle_read_rows", [read["recordsRead"] for read in reads], True)
    return row


def _reported(task: dict[str, Any]) -> bool:
    """Whether it reported metrics: one that could not fetch a block has none, and is in none of our totals."""
    return not str(task.get("errorMessage") or "").startswith("FetchFailed")


def _occupancy(tasks: list[dict[str, Any]]) -> Row:
    """When the last task finished, the most that ran at once, and since when at most half of these did."""
    if not tasks:
        return dict.fromkeys(("last_finish_at", "width", "tail_at"))
    launches = [task["launchTime"] for task in tasks]
    finishes = [task["launchTime"] + task["duration"] for task in tasks]
    freed = [
        min(finish, task["launchTime"] + task["taskMetrics"]["executorRunTime"])
        for task, finish in zip(tasks, finishes, strict=True)
    ]
    width = max(sum(at >= launch for launch in launches) - sum(at >= end for end in freed) for at in launches)
    width = max(1, width)
    after = [at for at in (max(launches), *finishes) if at >= max(launches)]
    tail = min(at for at in after if 2 * sum(finish > at for finish in finishes) <= width)
    return {"last_finish_at": max(finishes), "width": width, "tail_at": tail if tail < max(finishes) else None}


def _executors(tasks: list[dict[str, Any]]) -> Row:
    """How many executors and hosts ran the tasks, and which of them took the most beyond what the others took."""
    hosts = {task["executorId"]: task["host"] for task in tasks}
    row: Row = {"executors": len(hosts) or None, "hosts": len({*hosts.values()}) or None}
    assert len(hosts) <= 64
    slow = dict.fromkeys(f"slowest_{name}" for name in Slowest.__struct_fields__)
    several = [host for host in {*hosts.values()} if [*hosts.values()].count(host) > 1]
    candidates = [*((name, hosts[name]) for name in hosts), *((None, host) for host in several)]
    excess = {each: _excess(*_parts(tasks, *each)) for each in candidates}
    if excess and max(excess.values()) > 0:
        executor, host = max(excess, key=lambda each: excess[each])
        own, others = _parts(tasks, executor, host)
        median, of_others = (
            sorted(task["taskMetrics"]["executorRunTime"] for task in part)[len(part) // 2] for part in (own, others)
        )
        least = min(int(excess[executor, host]), len(own) * (median - of_others))
        if least > 0:
            slow = {
                "slowest_executor": executor,
                "slowest_host": host,
                "slowest_tasks": len(own),
                "slowest_run_time_ms": sum(task["taskMetrics"]["executorRunTime"] for task in own),
                "slowest_cpu_time_ms": sum(task["taskMetrics"]["executorCpuTime"] for task in own) // 1_000_000,
                "slowest_median_ms": median,
                "slowest_others_median_ms": of_others,
                "slowest_excess_ms": least,
            }
    return row | slow


def _parts(tasks: list[dict[str, Any]], executor: str | None, host: str) -> tuple[list[Any], list[Any]]:
    own = [task for task in tasks if (task["host"] == host if executor is None else task["executorId"] == executor)]
    return own, [task for task in tasks if task not in own]


def _excess(own: list[dict[str, Any]], others: list[dict[str, Any]]) -> float:
    """The run time of tasks beyond that of the others, for the same tasks, rows or bytes."""
    if not others:
        return 0
    mine, theirs = (
        [
            (
                metrics["executorRunTime"],
                1,
                metrics["inputMetrics"]["recordsRead"] + metrics["shuffleReadMetrics"]["recordsRead"],
                metrics["inputMetrics"]["bytesRead"]
                + metrics["shuffleReadMetrics"]["localBytesRead"]
                + metrics["shuffleReadMetrics"]["remoteBytesRead"],
                metrics["outputMetrics"]["recordsWritten"] + metrics["shuffleWriteMetrics"]["recordsWritten"],
            )
            for metrics in (task["taskMetrics"] for task in part)
        ]
        for part in (own, others)
    )
    (run_time, *work), (of_others, *of_their_work) = (
        [sum(each) for each in zip(*part, strict=True)] for part in (mine, theirs)
    )
    ratios = [a / b if b else inf for a, b in zip(work, of_their_work, strict=True) if a]
    return run_time - max(ratios) * of_others if of_others else (run_time if inf not in ratios else 0)


def _spread(column: str, values: list[int], is_of_shuffle: bool = False) -> Row:
    """A distribution's columns; NULL if no task ran or no shuffle was read."""
    values.sort()
    n = len(values)
    if not n or (is_of_shuffle and values[-1] == 0):
        return dict.fromkeys(f"{column}_{name}" for name in ("min", "median", "p95", "max"))
    places = {"min": 0, "median": n // 2, "p95": n * 95 // 100, "max": n - 1}
    return {f"{column}_{name}": values[place] for name, place in places.items()}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(-?\d+)([kmg]?)b?", text.lower())
    assert match, text
    return int(match[1]) << 10 * " kmg".index(match[2] or " ")
