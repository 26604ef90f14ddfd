"""The verdict on real executions in which one thing was wrong: tests/verdict/documents, recorded from real jobs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from msgspec import structs
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS, application, execution, longest, planned, read_back
from tests.findings.recorded import recordings
from tests.growth import check_cpu_time

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.cli import cli
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution, Job, Nested, Spread, Stage
from joinsight.findings import FindingsEngine, Thresholds
from joinsight.queries import reading
from joinsight.store.writer import Writer
from joinsight.verdict import Verdict, judge
from joinsight.verdict.driver import driver, longest_element
from joinsight.verdict.exchanges import exchanges, small_sides
from joinsight.verdict.failure import failure_of, first_words, readable
from joinsight.verdict.mechanisms import causes
from joinsight.verdict.memory import memory
from joinsight.verdict.names import operator
from joinsight.verdict.tasks import imbalance
from joinsight.verdict.view import View
from joinsight.verdict.work import exploding, work

DOCUMENTS = Path(__file__).parent / "documents"
REPLAY = Path(__file__).parents[1] / "analysis" / "replay"
EXPECTED = {
    "selfjoin": ("join_output", "BroadcastHashJoin"),
    "regex": ("compute", "Filter"),
    "one-key": ("output_skew", "SortMergeJoin"),  # 6,000 rows of one value on each side
    "udf": ("python", "BatchEvalPython"),
    "udf-of-a-join": ("python", "ArrowEvalPython"),  # it checks each of the pairs that a join makes
    "sort1": ("few_tasks", "Sort"),
    "tiny": ("tiny_tasks", "HashAggregate"),
    "tiny-blocks": ("tiny_tasks", "Exchange"),  # on Spark 3.4.4
    "udfs": ("python", "ArrowEvalPython"),  # two of a stage, which samples cannot tell apart
    "files": ("small_files", "Execute InsertIntoHadoopFsRelationCommand"),
    "small-files-of-json": ("small_files", "Execute InsertIntoHadoopFsRelationCommand"),
    "coalesced": ("data_skew", "SortMergeJoin"),  # AQE merged all other partitions into one
    "distinct": ("compute", "Expand"),
    "json": ("scan", "Scan json "),
    "skew": ("data_skew", "SortMergeJoin"),  # of a key; two slots were busy all the time
    "hot-set": ("data_skew", "ObjectHashAggregate"),  # few rows of one key have nearly all values of a set
    "range-per-site": ("compute", "SortMergeJoin"),  # its two tasks had the two processors that four slots share
    "order-by": ("compute", "Sort"),  # and the shuffle that it needs, which took longer than the sort itself
    "range-window": ("compute", "Window"),  # in one task, which AQE made, as there are few bytes
    "decimals": ("compute", "HashAggregate"),
    "dates": ("compute", "Project"),
    "json-fields": ("compute", "SortAggregate"),
    "explode": ("compute", "Generate"),
    "bucketed": ("few_tasks", "Scan parquet spark_catalog.default.bu1"),  # of one bucket
    "hot-column": ("data_skew", "Exchange"),  # a repartition by it, whose partitions AQE merged into one
    "repartitioned-before-group": ("shuffle", "Exchange"),
    "window": ("data_skew", "Window"),
    "slow-task": ("slow_host", "HashAggregate"),  # one task slept
    "sleeping-row": ("slow_host", "Project"),  # one row slept for 9 s; the first task compiled, and took more CPU
    "stutters": ("slow_host", "Project"),  # one of two executors stood still for moments
    "gz": ("scan", "Scan csv "),
    "small-files": ("small_files", "Scan parquet "),
    "merge-hint": ("shuffle", "SortMergeJoin"),  # the hint MERGE, where Spark would have broadcast the side
    "repartitioned": ("shuffle", "Exchange"),  # for nothing: its rows are shuffled again, by a key
    "long-arrays": ("output_skew", "Generate"),  # a row in ten thousand has an array of 45,000 days
    "hot-window": ("data_skew", "Window"),  # 88 % of the rows have one key: AQE merged all partitions into one
    "gc": ("gc", "Project"),  # 4 MiB for new objects: collecting them took 31 % of the run time
    "long-cases": ("driver", ""),  # 200 branches
    "udf-raises": ("failed", "ArrowEvalPython"),
    # Comet: its operators run in one native call, and measure their times themselves
    "comet-regex": ("compute", "CometFilter"),
    "comet-sort": ("compute", "CometSort"),
    "comet-explode": ("join_output", "CometSortMergeJoin"),
}
"""The code and an operator of the verdict, by document."""


def document(name: str) -> Execution:
    return longest(DOCUMENTS / f"{name}.ndjson.gz")


def stored(name: str) -> StoredPlan:
    """As it is once stored; all ran with two slots."""
    return read_back(document(name), slots=2)


def operators(its: StoredPlan, verdict: Verdict) -> list[str]:
    version = its.version(None)
    assert version is not None
    names = {node["id"]: node["name"] for node in version["nodes"]}
    return [names[i] for i in verdict.nodes]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_verdict_names_mechanism_and_operator(name: str) -> None:
    code, operator = EXPECTED[name]
    its = stored(name)
    verdict = judge(its)
    assert verdict.code == code, verdict.text
    assert operator in (operators(its, verdict) or [""])
    assert len(verdict.operators) == len(verdict.nodes)


@pytest.mark.parametrize("name", EXPECTED)
def test_no_verdict_explains_more_than_the_wall_time(name: str) -> None:
    its = stored(name)
    verdict = judge(its)
    assert 0 < verdict.wall_ms <= its.execution["duration_ms"]
    assert verdict.share == pytest.approx(verdict.wall_ms / its.execution["duration_ms"], abs=1e-3)


def test_one_task_that_aqe_was_asked_to_make_is_no_skew() -> None:
    its = stored("hot-window")
    its.execution["configuration"] = {"spark.sql.adaptive.coalescePartitions.parallelismFirst": "false"}
    assert judge(its).code == "few_tasks"


_STACK = (
    "\n\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:331)\n\nDriver stacktrace:\n\tat org.apache.spark.scheduler"
)
_ABORTED = "org.apache.spark.SparkException: Job aborted"
_TASK = (
    f"{_ABORTED} due to stage failure: Task 3 in stage 7.0 failed 4 times, most recent"
    " failure: Lost task 3.3 in stage 7.0 (TID 41) (10.0.0.7 executor 2): "
)


@pytest.mark.parametrize(
    ("error", "words", "advice"),
    [
        (
            f"{_TASK}java.lang.OutOfMemoryError: Java heap space{_STACK}",
            "java.lang.OutOfMemoryError: Java heap space",
            "memory",
        ),
        (
            f"{_TASK}ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container"
            f" from a bad node. Exit status: 137{_STACK}",
            "ExecutorLostFailure (executor 2 exited",
            "memoryOverhead",
        ),
        (
            f'{_TASK}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "job.py",'
            f" line 3, in f\n    return 1 // x\nZeroDivisionError: integer division or modulo by zero\n{_STACK}",
            "ZeroDivisionError: integer division or modulo by zero.",
            "Python code",
        ),
        (
            f"{_TASK}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File"
            f" \"worker.py\", line 3, in f\n    import pyarrow as pa\nModuleNotFoundError: No module named 'pyarrow'\n",
            "ModuleNotFoundError: No module named 'pyarrow'.",
            "spark.archives",
        ),
        (
            f"{_ABORTED} due to stage failure: ShuffleMapStage 4 has failed the maximum allowable number of times: 4."
            " Most recent failure reason:\norg.apache.spark.shuffle.FetchFailedException\n\tat",
            "org.apache.spark.shuffle.FetchFailedException",
            "executors were lost",
        ),
        (
            f"{_ABORTED}.{_STACK}\nCaused by: org.apache.spark.SparkException: Task failed"
            " while writing rows.\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y",
            "java.io.IOException: No space left on device",
            "disk space",
        ),
        (
            "[CAST_INVALID_INPUT] The value 'n/a' is malformed. Use `try_cast`. SQLSTATE: 22018\n== SQL ==",
            "try_cast`.",
            "NULL",
        ),
        (
            "Cannot broadcast the table that is larger than 8.0 GiB: 9.5 GiB.",
            "8.0 GiB: 9.5 GiB.",
            "Filter the broadcast side",
        ),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "Java heap space", "spark.driver.memory"),
        (
            f"{_TASK}org.apache.spark.memory.SparkOutOfMemoryError: error while calling spill() on x : No space left on"
            " device",
            "No space left on device",
            "disk space",
        ),
        (
            f"{_TASK}ExecutorLostFailure (executor 2 exited) Reason: Exit status: 143. Diagnostics: java"
            " -XX:OnOutOfMemoryError=kill",
            "Exit status: 143",
            "executors were lost",
        ),
        (
            f"{_TASK}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat x\nCaused by:"
            " java.io.EOFException\n\tat y",
            "Python worker exited unexpectedly (crashed)",
            "memoryOverhead",
        ),
        (
            f"{_TASK}Traceback (most recent call last):\n  File x\nFileNotFoundError: [Errno 2] No such file: 'm'\n",
            "FileNotFoundError: [Errno 2]",
            "Python code",
        ),
        ("java.io.FileNotFoundException: File /out/_temporary/0/x does not exist.", "_temporary", "Another job"),
        ("ValidationException: Found conflicting files that can contain rows", "conflicting files", "Another job"),
        ("org.apache.hudi.exception.HoodieWriteConflictException: x", "HoodieWriteConflictException", "Another job"),
        (
            "[CAST_INVALID_INPUT] Use `try_cast`. SQLSTATE: 22018\n== SQL ==\nselect is_corrupt, corrupt",
            "try_cast",
            "NULL",
        ),
        ("[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row. SQLSTATE: 21000", "More than one row.", "several rows"),
        (
            '{\n  "errorClass" : "java.lang.OutOfMemoryError",\n  "messageParameters" : {\n'
            '    "message" : "Java heap space\\n\\tat a.B"\n  }\n}',
            "java.lang.OutOfMemoryError: Java heap space.",
            "spark.driver.memory",
        ),
        ('{"errorClass":' + "[" * 10_000, "errorClass", "Read the whole error"),
        (f"No: {'set a setting ' * 20}", " a setti…", "Read the whole error"),
        ("java.io.InterruptedIOException: timeout", "InterruptedIOException: timeout", "did not answer in time"),
        ("", "for an unknown reason", "Read the whole error"),
    ],
)
def test_a_failed_query_says_why_it_failed_and_no_way_to_be_faster(error: str, words: str, advice: str) -> None:
    its = stored("sort1")
    its.execution.update(state="failed", error=error)
    verdict = judge(its)
    assert (verdict.code, verdict.share) == ("failed", 1.0)
    assert words in verdict.text, verdict.text
    assert advice in verdict.next and "\n" not in verdict.text


def test_a_query_that_failed_at_once_took_0_ms() -> None:
    e = execution(state="failed", error="no such table", ended_at_ms=STARTED_AT_MS)
    its = read_back(e)
    its.execution["updated_at"] = its.execution["started_at"] + timedelta(days=5)
    assert judge(its).text == "It failed after 0 ms: no such table."


def test_what_needed_the_memory_in_the_stage_that_ran_out_of_it_is_named() -> None:
    its = stored("selfjoin")
    its.execution.update(state="failed", error=f"{_TASK}java.lang.OutOfMemoryError: Java heap space")
    its = replace(its, stages=[{**row, "state": "failed"} if row["stage_id"] == 3 else row for row in its.stages])
    verdict = judge(its)
    assert (verdict.code, verdict.stage, verdict.next) == ("failed", 3, judge(stored("selfjoin")).next)
    assert "OutOfMemoryError: Java heap space. The join on cust made 225.0 M rows" in verdict.text


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("cancelled", None),
        ("failed", "[SPARK_JOB_CANCELLED] Job 28 cancelled part of cancelled job"),
        ("failed", '{"errorClass":"java.lang.InterruptedException","messageParameters":{"message":null}}'),
    ],
)
def test_the_verdict_on_a_cancelled_query_is_what_took_so_long(state: str, error: str | None) -> None:
    its = stored("sort1")
    its.execution.update(state=state, error=error)
    assert judge(its).code == "few_tasks" and judge(its).text.startswith("Cancelled after ")


def test_python_functions_of_an_rdd_are_no_operators() -> None:
    verdict = judge(stored("rdd"))
    assert verdict.code == "python"
    assert (verdict.nodes, verdict.stage) == ((), 39)
    assert "tasks waited 13.9 s for Python functions of an RDD" in verdict.text


def test_of_several_stages_together_the_one_that_has_most_is_named() -> None:
    verdict = judge(stored("stutters"))
    assert (verdict.stage, verdict.evidence["number"]) == (9, 2)


def test_of_rows_that_differ_in_size_bytes_prove_the_skew() -> None:
    """The task of the hot key reads few rows, each a large set; another one reads most rows."""
    assert judge(stored("hot-set")).text.endswith("because it read 88 % of 29.3 MiB.")


def test_a_long_list_of_values_takes_the_driver_long() -> None:
    verdict = judge(stored("long-list"))
    assert verdict.code == "driver"
    assert verdict.text.endswith("most of it before any task ran; it filters by a list of 11,975 values.")
    found = FindingsEngine(Thresholds(wall_ms=500)).rows(execution_rows(document("long-list")))
    assert [row.finding for row in found] == ["driver"]


def test_a_scan_says_which_format_it_parsed() -> None:
    verdict = judge(stored("json"))
    assert "parsed JSON" in verdict.text
    assert "Parquet" in verdict.next


def test_the_text_has_the_numbers_that_prove_it() -> None:
    assert "made 225.0 M rows from 15,000 rows and 15,000 rows" in judge(stored("selfjoin")).text
    assert "3,000 tasks" in judge(stored("tiny")).text
    assert "the filter ((RLIKE(l_comment" in judge(stored("comet-regex")).text  # not what Comet prints before it


def test_a_plan_whose_inputs_are_read_twice_at_each_level_is_judged() -> None:
    """The number of ways through it is 2 to the 60."""
    its = stored("selfjoin")
    names = ["BroadcastExchange", *["Union"] * 60]
    nodes: list[dict[str, object]] = [
        {"id": i, "name": name, "simple": name, "metrics": [], "cluster": None, "is_cluster": False}
        for i, name in enumerate(names)
    ]
    edges = [[i + 1, i] for i in range(60) for _ in range(2)]
    version = {**its.versions[-1], "nodes": nodes, "edges": edges}
    assert judge(replace(its, versions=[version])).text


def test_an_error_is_read_in_proportion_to_its_length() -> None:
    """As any sender may write it, of the longest that is read."""
    for begins in ("", "Cannot broadcast the table that is larger than ", "Lost task ", '{"errorClass":"'):
        for word in ("1", " ", "Cannot broadcast the table ", "Caused by: ", "most recent failure: Lost task "):
            check_cpu_time(partial(_reading, begins, word), 20_000)


def _reading(begins: str, word: str, size: int) -> Callable[[], object]:
    text = begins + word * (size // len(word))
    return lambda: (failure_of(readable(text)), first_words(text))


@pytest.mark.parametrize("word", ["keys=[", "a", "json", "xml", "csv", "(", "[", "#1L"])
def test_a_long_text_of_an_operator_is_read_in_proportion_to_its_length(word: str) -> None:
    """Two million characters: what takes time by their square does not end."""
    its = stored("selfjoin")
    names = ("HashAggregate", "Filter", "Project", "Window", "Sort", "ArrowEvalPython", "Generate", "CollectLimit")
    version = its.versions[-1]
    long = word * (2_000_000 // len(word))
    kept = [node["id"] for node in version["nodes"] if not node["is_cluster"]]
    changed = dict(zip(kept, names, strict=False))
    nodes = [
        {**node, "name": changed[node["id"]], "simple": long} if node["id"] in changed else node
        for node in version["nodes"]
    ]
    its = replace(its, versions=[{**version, "nodes": nodes}])
    view = View(its)
    assert all(len(operator(view, i)) < 200 for i in changed)
    assert len(judge(its).text) < 1_000


@pytest.mark.parametrize("settings", [("9" * 5_000, "2"), ("2", "9" * 5_000), ("٣", "x")])
def test_settings_that_are_no_numbers_of_slots_are_unknown(engine: Engine, settings: tuple[str, str]) -> None:
    name = f"app-slots-{settings[0][:2]}-{settings[1][:2]}"
    its = msgspec.structs.replace(document("tiny"), application_id=name)
    configuration = dict(zip(("spark.executor.instances", "spark.executor.cores"), settings, strict=True))
    Writer(engine).write([application(application_id=name, master="yarn", configuration=configuration), its])
    with engine.connect() as connection:
        found = reading.read_plan(connection, reading.find_execution(connection, f"{name}/{its.execution_id}"))
    assert found.slots is None


@pytest.mark.parametrize("missing", ["number of written files", "written output"])
def test_files_that_are_not_counted_are_not_small(missing: str) -> None:
    its = stored("files")
    (node,) = (each for each in its.plan.graph.nodes if each.name.startswith("Execute InsertInto"))
    (number,) = (metric.id for metric in node.metrics if metric.name == missing)
    unmeasured = [{**row, "count": None} if row["accumulator_id"] == number else row for row in its.metrics]
    assert judge(replace(its, metrics=unmeasured)).code != "small_files"


def test_small_files_that_iceberg_writes() -> None:
    """It counts them by names of its own."""
    names = {"number of written files": "number of added data files", "written output": "total size of added files"}
    its = document("files")
    nodes = [
        structs.replace(
            node,
            name="AppendData" if node.name.startswith("Execute Insert") else node.name,
            metrics=[structs.replace(each, name=names.get(each.name, each.name)) for each in node.metrics],
        )
        for node in its.nodes
    ]
    verdict = judge(stored_plan(execution_rows(structs.replace(its, nodes=nodes))))
    assert "it wrote 1,200 files of 1,487 B on average" in verdict.text


def test_a_stage_that_waits_for_others_of_its_execution_waits_for_no_slot() -> None:
    """While its stage waited, other stages of the execution had the slots: that time is theirs."""
    its = stored("selfjoin")
    first, last = its.stages[0], {**its.stages[1], "first_launch_at": None, "last_finish_at": None}
    start = its.execution["started_at"]
    first = {**first, "first_launch_at": start, "last_finish_at": start + timedelta(milliseconds=600)}
    segment = dict.fromkeys(its.segments[0])
    waiting = {**segment, "cause": "waiting", "start_ms": 0, "end_ms": 1_000, "stage_id": last["stage_id"]}
    view = View(replace(its, stages=[first, last], segments=[waiting]))
    assert view.rests["waiting"] == 400
    assert [(ran.stage_id, ran.wall_ms) for ran in view.ran] == [(first["stage_id"], 600)]


def test_a_verdict_while_it_runs_says_so_far() -> None:
    """It divides the time since the start, also if nothing stands out or nothing has run."""
    its = read_back(structs.replace(document("selfjoin"), state="running", ended_at_ms=None))
    its.execution["updated_at"] = its.execution["started_at"] + timedelta(seconds=40)
    verdict = judge(replace(its, slots=2))
    assert (verdict.code, " of 40.0 s so far went into " in verdict.text) == ("join_output", True), verdict.text
    its = read_back(structs.replace(document("tiny"), state="running", ended_at_ms=None, stages=[]))
    its.execution["updated_at"] = its.execution["started_at"] + timedelta(seconds=40)
    verdict = judge(its)
    assert verdict.code == "even" and "Nothing stands out in 40.0 s so far" in verdict.text
    assert verdict.next == "It is still running."


def test_a_stage_whose_tasks_told_no_time_is_judged() -> None:
    """It scanned, and ran while another one waited: nothing says what its tasks were at."""
    its = stored("selfjoin")
    scan, other = ({**stage} for stage in its.stages[:2])
    scan["last_finish_at"] = scan["first_launch_at"] + timedelta(seconds=5)
    start = round((scan["first_launch_at"] - its.execution["started_at"]).total_seconds() * 1000)
    segment: dict[str, object] = dict.fromkeys(its.segments[0])
    waiting = {**segment, "cause": "waiting", "start_ms": start, "end_ms": start + 5_000, "stage_id": other["stage_id"]}
    task_times = [row for row in its.task_times if row["stage_id"] != scan["stage_id"]]
    its = replace(its, stages=[scan, other], segments=[waiting], task_times=task_times)
    assert judge(its).wall_ms == 5_000


def test_keys_of_operators_are_the_same_in_the_plan(engine: Engine) -> None:
    rows = execution_rows(document("udf"))
    keys = {row.node_id: row.operator_key for row in rows.plan_node}
    verdict = judge(replace(stored_plan(rows), slots=2))
    assert [keys[i] for i in verdict.nodes] == list(verdict.operators)


def test_the_command_prints_the_contract(engine: Engine) -> None:
    its = document("selfjoin")
    Writer(engine).write([application(application_id=its.application_id), its])
    url = engine.url.render_as_string(hide_password=False)
    name = f"{its.application_id}/{its.execution_id}"
    result = CliRunner().invoke(cli, ["verdict", name, "--json"], env={"JOINSIGHT_DATABASE_URL": url})
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert {"code", "share", "wall_ms", "operators", "stage", "evidence", "text", "next"} <= set(printed)
    assert printed["code"] == "join_output"
    assert printed["stage"] == 3
    shown = CliRunner().invoke(cli, ["verdict", name], env={"JOINSIGHT_DATABASE_URL": url}).stdout
    assert "the join on cust made 225.0 M rows" in " ".join(shown.split())


def started_by_a_command(name: str) -> StoredPlan:
    """A command of 10 s that started this execution, for which it waited 9 s."""
    inner = stored(name)
    inner.execution["execution_id"] = 5
    nested = [Nested(5, STARTED_AT_MS + 500, STARTED_AT_MS + 9_500)]
    command = planned("Execute MergeIntoCommand", nested=nested, ended_at_ms=STARTED_AT_MS + 10_000)
    return replace(read_back(command), nested=[inner])


@pytest.mark.parametrize("name", ["selfjoin", "regex", "tiny"])
def test_what_a_command_started_is_its_own(name: str) -> None:
    """The verdict names what went wrong in it; the operators have its wall time, and both sums are exact."""
    inner, command = stored(name), started_by_a_command(name)
    of_inner, verdict = judge(inner), judge(command)
    assert (verdict.code, verdict.operators, verdict.nodes) == (of_inner.code, of_inner.operators, ())
    assert verdict.evidence["execution"] == 5
    assert " execution 5" in verdict.text
    assert verdict.share == pytest.approx(0.9 * of_inner.share, abs=1e-3)
    items = [item for _, item in command.command_items]
    assert sum(item.wall_ms for item in items) == command.breakdown.wall_ms == 10_000
    assert sum(item.task_time_ms for item in items) == inner.breakdown.task_time_ms
    assert not any(item.name == "nested" for item in items)


def test_what_an_execution_of_a_command_started_is_not_its_driver() -> None:
    """`saveAsTable` starts the creation of a table, and that the query: the command waits for the query."""
    query, within = stored("regex"), Nested(6, STARTED_AT_MS + 1_000, STARTED_AT_MS + 9_000)
    query.execution["execution_id"] = 6
    creation = planned(
        "Execute CreateDataSourceTableAsSelectCommand",
        **{"execution_id": 5, "started_at_ms": STARTED_AT_MS + 500, "ended_at_ms": STARTED_AT_MS + 9_500},
        nested=[within],
    )
    command = planned(
        "Execute SaveAsV1TableCommand",
        nested=[Nested(5, STARTED_AT_MS + 500, STARTED_AT_MS + 9_500), within],
        ended_at_ms=STARTED_AT_MS + 10_000,
    )
    nested = [read_back(creation), query]
    whole = replace(read_back(command), nested=nested)
    assert whole.waited == {5: 9_000, 6: 8_000}
    verdict = judge(whole)
    assert (verdict.code, verdict.evidence["execution"]) == (judge(stored("regex")).code, 6)
    assert sum(item.wall_ms for _, item in whole.command_items) == 10_000
    assert sum(item.wall_ms for of, item in whole.command_items if of is query) == 8_000
    alone = judge(replace(nested[0], nested=[query]))
    assert (alone.code, alone.evidence["execution"]) == (verdict.code, 6)
    unread = replace(whole, nested=nested[:1])
    assert {item.name: item.wall_ms for of, item in unread.command_items if of is nested[0]}["nested"] == 8_000


def test_what_several_executions_of_a_command_spent_is_added_up() -> None:
    """No join of it took a fifth of the command's time; all of them did, and the text names the largest."""
    inner = [stored("selfjoin") for _ in range(6)]
    nested = []
    for number, each in enumerate(inner):
        each.execution["execution_id"] = 5 + number
        nested.append(Nested(5 + number, STARTED_AT_MS + 1_000 * number, STARTED_AT_MS + 1_000 * number + 900))
    e = planned("Execute MergeIntoCommand", nested=nested, ended_at_ms=STARTED_AT_MS + 6_000)
    verdict = judge(replace(read_back(e), nested=inner))
    assert (verdict.code, verdict.evidence["executions"]) == ("join_output", 6)
    assert verdict.share == pytest.approx(0.9 * judge(inner[0]).share, abs=1e-2)
    assert "in 6 executions, the largest part in execution" in verdict.text


def given(number: int) -> StoredPlan:
    """An execution of the function of a micro-batch, which gets its rows as an RDD."""
    its = stored("tiny")
    its.execution["execution_id"] = number
    name = "Scan ExistingRDD"
    for node in its.versions[-1]["nodes"]:
        if node["name"] == "Range":
            node.update(name=name, simple=f"{name}[id#22L]")
    return its


def test_a_micro_batch_that_runs_several_executions_says_so() -> None:
    """Its function may compute the batch each time; with one execution, the verdict is that of the execution."""
    command = started_by_a_command("tiny")
    command.execution["streaming_batch_id"] = 3
    assert judge(command).code == judge(stored("tiny")).code
    (nested,) = (row for row in command.segments if row["nested_execution_id"] is not None)
    middle = (nested["start_ms"] + nested["end_ms"]) // 2
    first = {**nested, "end_ms": middle + 1}
    second = {**nested, "start_ms": middle + 1, "nested_execution_id": 6}
    rest = [row for row in command.segments if row is not nested]
    twice = replace(command, segments=[*rest, first, second], nested=[given(5), given(6)])
    verdict = judge(twice)
    assert (verdict.code, verdict.evidence["longest_execution"]) == ("nested", 5)
    of_other_rows = replace(twice, nested=[given(5), stored("tiny")])
    assert judge(of_other_rows).code == judge(stored("tiny")).code
    assert verdict.text.endswith(f"In execution 5: {judge(stored('tiny')).text}")
    assert verdict.next.startswith("Each of these executions computes the micro-batch again, unless it is cached: ")


def test_what_a_command_started_and_is_not_read_keeps_a_line() -> None:
    """Its wall time is that of no operator, and the verdict says which execution to look at."""
    command = replace(started_by_a_command("tiny"), nested=())
    assert {item.name: item.wall_ms for _, item in command.command_items}["nested"] == 9_000
    assert (judge(command).code, judge(command).evidence["longest_execution"]) == ("nested", 5)


def test_findings_of_what_a_command_started_are_its_own(engine: Engine) -> None:
    """Those of the execution in a micro-batch; not of a later one that it did not start."""
    its = document("udf")
    inner, other = (structs.replace(its, application_id="batch", execution_id=i, root_execution_id=i) for i in (6, 7))
    inner = structs.replace(inner, root_execution_id=5)
    start, end = inner.started_at_ms, inner.ended_at_ms
    nested = [Nested(6, start, end)]
    outer = execution(application_id="batch", execution_id=5, nested=nested, started_at_ms=start, ended_at_ms=end)
    Writer(engine, FindingsEngine()).write([outer, inner, other])
    url = engine.url.render_as_string(hide_password=False)

    def found(number: int) -> list[tuple[int, str]]:
        command = ["findings", "--execution", f"batch/{number}", "--json"]
        lines = CliRunner().invoke(cli, command, env={"JOINSIGHT_DATABASE_URL": url}).stdout.splitlines()
        return [(row["execution_id"], row["finding"]) for row in map(json.loads, lines)]

    assert found(5) == found(6) == [(6, "python")]
    assert found(7) == [(7, "python")]


def test_a_command_is_read_with_what_it_started(engine: Engine) -> None:
    """With its verdict, its cost by operator, and its plans; an execution that is none of it is not read."""
    inner, at = document("selfjoin"), document("selfjoin").started_at_ms
    its = {"application_id": "app-command", "root_execution_id": 900}
    command = planned(
        "Execute MergeIntoCommand",
        **{**its, "execution_id": 900, "started_at_ms": at - 500, "ended_at_ms": inner.ended_at_ms, "sequence": 8},
        nested=[Nested(901, at, inner.ended_at_ms)],
    )
    started = structs.replace(inner, **its, execution_id=901, sequence=9, listener=command.listener)
    other = structs.replace(inner, application_id="app-command", execution_id=902, root_execution_id=902, sequence=10)
    Writer(engine).write([application(application_id="app-command"), command, started, other])
    environment = {"JOINSIGHT_DATABASE_URL": engine.url.render_as_string(hide_password=False)}
    with engine.connect() as connection:
        found = reading.read_plan(connection, reading.find_execution(connection, "app-command/900"))
    assert [each.execution["execution_id"] for each in found.nested] == [901]
    assert found.execution["title"] == f"merge into: {found.nested[0].execution['title']}"
    shown = {}
    for name in ("verdict", "cost", "plan"):
        result = CliRunner().invoke(cli, [name, "app-command/900"], env=environment)
        assert result.exit_code == 0, result.output
        shown[name] = result.stdout
    assert "execution 901" in shown["verdict"]
    assert "901/" in shown["cost"]
    assert "Started execution 901" in shown["plan"]
    assert "exploding-join" in {row["finding"] for row in found.all_findings}
    assert "In execution 901: Stage 3" in shown["plan"]
    assert "BroadcastHashJoin" in shown["plan"]
    as_json = CliRunner().invoke(cli, ["cost", "app-command/900", "--json"], env=environment)
    assert json.loads(as_json.stdout)["nested"][0]["execution_id"] == 901


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broadcast-missed", ["the join on product_id shuffled 9.2 MiB, though its right side has only 117.2 KiB"]),
        ("broadcast-switched-near", []),
        ("nested-loop", []),
    ],
)
def test_a_join_that_shuffles_both_sides_though_one_is_small(name: str, said: list[str]) -> None:
    """It explains its shuffles and sorts, without what it does itself; a join that was broadcast does not."""
    view = View(read_back(recordings()[name]))
    found = list(small_sides(view))
    assert [each.what for each in found] == said
    for each in found:
        join = next(join for join in view.breakdown.joins if join.node_id == each.nodes[1])
        assert each.wall_ms == sum(map(view.likely_wall_of, join.needed)) > 0
        assert "Broadcasting its right side may be faster" in each.next


def test_a_shuffle_that_a_hint_forces_counts_whole() -> None:
    """AQE would have broadcast a side up to the threshold; one beyond it only may be broadcast."""
    its = read_back(recordings()["broadcast-missed"])
    (forced,) = small_sides(View(its))
    its.execution["broadcast_threshold_bytes"] = 100_000
    (allowed,) = small_sides(View(its))
    assert forced.wall_ms == allowed.wall_ms
    assert (forced.weight, allowed.weight) == (forced.wall_ms, forced.wall_ms / 2)


def test_a_finding_on_the_join_knows_what_to_do_about_it() -> None:
    """It knows the join's hint, so the verdict says the same; that on another join does not count."""
    its = read_back(recordings()["broadcast-missed"])
    (general,) = small_sides(View(its))
    about = {"finding": "missed-broadcast", "advice": "Remove the hint MERGE."}
    its.findings[:] = [{**about, "node_id": general.nodes[1]}]
    (known,) = small_sides(View(its))
    assert known == replace(general, next="Remove the hint MERGE.")
    its.findings[:] = [{**about, "node_id": -1}]
    assert list(small_sides(View(its))) == [general]


def test_a_skewed_join_of_a_session_that_never_broadcasts_is_skewed() -> None:
    """What a broadcast would save counts less than where the session may broadcast."""
    its = stored("skew")
    (never,) = (each for each in causes(View(its)) if "small_bytes" in each.evidence)
    its.execution["broadcast_threshold_bytes"] = 1_000
    (smaller,) = (each for each in causes(View(its)) if "small_bytes" in each.evidence)
    assert (never.wall_ms, never.weight) == (smaller.wall_ms, smaller.weight / 2)


def test_skew_that_costs_little_on_few_slots_says_so() -> None:
    """The slots were busy all the time; the task that took longest is what to look at, still."""
    text = judge(stored("skew")).text
    assert text.startswith("Stage 15 (the join on cust, the shuffle by cust): one of 8 tasks ran for 10.4 s, ")
    assert text.endswith(" With as many slots and processors, even tasks would save 1.2 s of 23.6 s.")


def test_the_skew_of_one_side_is_not_hidden_by_the_other() -> None:
    """The task with NULL read 80 % of the rows of its side, 63 % of those of both."""
    text = judge(stored("null-skew")).text
    assert "1.8 times as long as the others, because it read 80 % of 1.5 M rows" in text


def test_spilling_takes_no_longer_than_what_spills() -> None:
    """The sort took 182 ms of its stage; that the window took the rest is known only once tasks were sampled."""
    its = read_back(recordings()["partitions-single"], slots=2)
    (spill,) = memory(View(its))
    assert spill.wall_ms > 500
    assert spill.weight == spill.wall_ms / 2  # its one task would have less to keep if there were more
    (window,) = (node["id"] for node in its.versions[-1]["nodes"] if node["name"] == "Window")
    its = replace(its, task_times=[{**row, "node_id": row["node_id"] or window} for row in its.task_times])
    (spill,) = memory(View(its))
    assert spill.wall_ms == round(0.7 * 182)  # the rest is what the sort takes without spilling
    assert spill.weight == 182 / 2  # it is as certain as before that it spilled


def test_garbage_collection_takes_no_longer_than_it_took() -> None:
    """Tasks of milliseconds, even if most of them is garbage collection, leave most of their stage to other things."""
    its = stored("tiny")
    stage = max(its.stages, key=lambda each: each["tasks"] or 0)
    stage["gc_time_ms"] = stage["run_time_ms"] = 60
    (cause,) = memory(View(its))
    assert (cause.code, cause.wall_ms) == ("gc", 60)


def test_a_skewed_task_that_spills_is_skewed() -> None:
    """Without the skew, it would have less to keep."""
    its = stored("coalesced")
    (skew,) = (each for each in imbalance(View(stored("coalesced"))) if each.code == "data_skew")
    for row in its.stages:
        if row["stage_id"] == skew.stage_id:
            row["memory_spilled_bytes"] = 100 << 30
    for row in its.metrics:
        if row["name"] == "spill size" and row["max_stage_id"] == skew.stage_id:
            row |= {"total": 100 << 30, "count": 1}
    (spill,) = memory(View(its))
    assert spill.wall_ms > skew.wall_ms
    assert judge(its).code == "data_skew"


def test_a_write_is_named_by_what_it_writes() -> None:
    assert "(the write of o as JSON)" in judge(stored("small-files-of-json")).text


def test_an_expression_of_a_group_is_no_column() -> None:
    view = View(stored("long-arrays"))
    names = {operator(view, node.id) for node in view.of_kind("shuffle", "aggregate")}
    assert "the shuffle by an expression, an expression" in names


def test_a_slow_task_is_named_with_its_executor() -> None:
    assert ", on executor 1 on 192.0.2.2, with no more data than they had" in judge(stored("stutters")).text


def test_starting_tasks_takes_longer_on_busy_hosts() -> None:
    """As all else does: 5,000 tasks had the CPU for 18 % of their run time."""
    its = stored("tiny-stages")
    assert judge(its).share > 0.9
    calm = [{**row, "cpu_time_ns": 1_000_000 * (row["run_time_ms"] or 0)} for row in its.stages]
    assert judge(replace(its, stages=calm)).share < 0.8


def test_a_needless_repartition_counts_whole_beside_a_little_skew() -> None:
    """One of the 24 tasks after it took 2.7 times as long as the others, which cost 5 % of their stage."""
    its = list(causes(View(stored("repartitioned-for-a-key"))))
    assert [each.wall_ms for each in its if each.code == "output_skew"] == [396]
    assert [each.certainty for each in its if each.evidence.get("is_needless")] == [1.0]


def test_multiplied_rows_that_spill_are_multiplied() -> None:
    """Without the copies for each distinct count, tasks would have less to keep."""
    its = stored("distinct")
    for row in its.stages:
        row["memory_spilled_bytes"] = 100 << 30
    for row in its.metrics:
        if row["name"] == "spill size":
            row |= {"total": 100 << 30, "count": 1}
    (spill,) = (each for each in memory(View(its)) if each.code == "spill")
    assert spill.certainty == pytest.approx(0.5 / 0.7, rel=0.05)
    assert judge(its).code == "compute"


@pytest.mark.parametrize(
    ("name", "consumers", "said"),
    [
        ("coalesced", {"SortMergeJoin"}, "Spark sorts for the join: "),
        ("partitions-single", {"Window"}, "Spark sorts for the window: "),
        ("sort-aggregate", {"SortAggregate"}, "Spark sorts for the aggregation, "),
        ("write", {"WriteFiles"}, "Spark sorts for the write, "),
        ("sort1", {"AdaptiveSparkPlan"}, "Sort less: "),
    ],
)
def test_what_to_do_about_a_sort_is_up_to_who_asked_for_it(name: str, consumers: set[str], said: str) -> None:
    """An operator above it, for which Spark added it, or the query."""
    its = read_back(recordings()[name]) if name in recordings() else stored(name)
    view = View(its)
    sorts = [each for each in work(view) if view.plan.nodes[each.nodes[0]].name == "Sort"]
    assert sorts
    for each in sorts:
        (node,) = each.nodes
        assert {view.plan.nodes[i].name for i in view.plan.consumers(view.plan.nodes[node])} == consumers
        assert each.next.startswith(said)


def test_a_sort_of_all_rows_counts_with_its_shuffle_and_the_sampling_of_its_ranges() -> None:
    its = stored("order-by")
    verdict, view = judge(its), View(its)
    sort, shuffle = (next(view.of_kind(kind)).id for kind in ("sort", "shuffle"))
    (sampled,) = (ran.wall_ms for ran in view.ran if ran.stage_id == 53)
    assert verdict.nodes == (sort, shuffle)
    in_53 = sum(ms for ran in view.ran for of, ms in ran.parts.items() if (ran.stage_id, of.node_id) == (53, shuffle))
    assert verdict.wall_ms == view.wall_of((sort, shuffle)) - in_53 + sampled
    assert verdict.next.startswith("Sort less: ")
    assert not [each for each in causes(view) if each.code == "shuffle"]


def test_what_spilling_explains_of_a_sort_of_all_rows_does_not_count() -> None:
    its = stored("order-by")
    (last,) = (stage for stage in its.stages if stage["stage_id"] == 56)
    last["memory_spilled_bytes"] = 1 << 30
    spill, sort = (each for each in causes(View(its)) if each.code == "spill" or "bytes_written" in each.evidence)
    assert 0 < spill.wall_ms == round((1 - sort.certainty) * sort.wall_ms)
    assert sort.weight == sort.certainty * sort.wall_ms / 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("skew", "; broadcast the smaller side of the join, "),
        ("window", "; or store the data bucketed "),
        ("hot-set", "; or store the data bucketed "),
        ("sort1", "The query asks for this repartition: "),
    ],
)
def test_what_to_do_about_a_shuffle_is_up_to_what_needs_it(name: str, said: str) -> None:
    found = [each.next for each in exchanges(View(stored(name))) if each.code == "shuffle"]
    assert found
    assert all(said in each for each in found)


def test_one_task_with_most_rows_among_tiny_ones_is_skew() -> None:
    """Without AQE: 199 partitions have few rows, and the largest one takes as long as before."""
    its = stored("window")
    rows = [
        {**row, "succeeded_tasks": 200, "run_time_ms": row["run_time_ms_max"] + 199 * 20}
        if row["stage_id"] == 85
        else row
        for row in its.stages
    ]
    (hot,) = (each for each in imbalance(View(replace(its, stages=rows))) if each.stage_id == 85)
    assert hot.code == "data_skew"
    even = [{**row, "run_time_ms_max": 60} for row in rows]
    (tiny,) = (each for each in imbalance(View(replace(its, stages=even))) if each.stage_id == 85)
    assert tiny.code == "tiny_tasks"
    (ran,) = (each for each in View(its).ran if each.stage_id == 85)
    both_busy = {"succeeded_tasks": 2000, "run_time_ms": 2 * ran.wall_ms - 20, "run_time_ms_max": ran.wall_ms // 2}
    beside = [{**row, **both_busy} if row["stage_id"] == 85 else row for row in rows]
    (tiny,) = (each for each in imbalance(View(replace(its, stages=beside, slots=2))) if each.stage_id == 85)
    assert tiny.code == "tiny_tasks", "others run beside the longest"


def test_rows_that_were_multiplied_take_longer_also_after_a_shuffle() -> None:
    view = View(stored("distinct"))
    (cause,) = exploding(view)
    (ran,) = (each for each in view.ran if each.stage_id == cause.stage_id)
    assert cause.wall_ms > ran.wall_ms


def test_rows_that_were_multiplied_count_up_to_where_more_rows_join_them() -> None:
    """A small side was exploded: the join with a large one is not its work."""
    its = document("merge-hint")
    (small,) = (i for i in its.plans[-1].nodes if its.nodes[i].name == "Filter" and "cust#18L" in its.nodes[i].simple)
    generate = structs.replace(its.nodes[small], name="Generate", simple="Generate explode(days#1), false, [cust#18L]")
    below = [n for n in its.nodes if n.name.startswith(("Scan", "ColumnarToRow"))][-2:]
    rows = {metric.id for node in below for metric in node.metrics if metric.name == "number of output rows"}
    few = [structs.replace(each, sum=500) if each.id in rows else each for each in its.accumulators]
    its = structs.replace(its, nodes=[generate if i == small else n for i, n in enumerate(its.nodes)], accumulators=few)
    view = View(replace(read_back(its), task_times=[]))
    (cause,) = exploding(view)
    assert cause.wall_ms < 0.2 * view.wall_ms


def test_an_explode_counts_half_where_one_task_made_most_of_its_rows() -> None:
    its = [each for each in causes(View(stored("long-arrays"))) if (each.code, each.stage_id) == ("compute", 21)]
    exploding = {each.certainty for each in its if "input_rows" in each.evidence}
    assert exploding == {each.certainty / 2 for each in its if "input_rows" not in each.evidence}


@pytest.mark.parametrize(
    ("name", "node", "said"),
    [
        ("range-per-site", "SortMergeJoin", "It checks its condition for each pair of rows with the same key: "),
        ("stutters", "Project", "Hash or encrypt fewer rows "),
        ("decimals", "HashAggregate", "Use decimals of at most 18 digits"),
        ("dates", "Project", "Parse and format times once"),  # its samples are of its codegen stage
        ("json-fields", "SortAggregate", "Parse each document once"),
        ("range-window", "Window", "Spark aggregates the whole frame again for each row: "),
        ("regex", "Filter", "Simplify its regular expressions: "),  # not sampled: its text says it
        ("udf", "BatchEvalPython", "Use Spark's own functions instead, or a pandas (Arrow) function"),
        ("udf-of-a-join", "ArrowEvalPython", "It checks each pair of rows that the join makes: "),
        ("udfs", "ArrowEvalPython", "Use Spark's own functions instead, or operations of pandas on whole columns"),
    ],
)
def test_what_to_do_about_an_operator_is_up_to_what_it_does(name: str, node: str, said: str) -> None:
    view = View(stored(name))
    its = [each for each in causes(view) if each.nodes and view.plan.nodes[each.nodes[0]].name == node]
    assert any(each.next.startswith(said) for each in its if each.code in ("compute", "python"))


def test_small_blocks_that_tiny_tasks_write_are_what_they_cost() -> None:
    """900 tasks write 8 blocks of 156 B each: fewer tasks would write fewer."""
    its = stored("tiny-blocks")
    assert judge(its).share > 0.95
    for row in its.shuffles:
        row["bytes_written"] = 1 << 30
    assert judge(its).share < 0.7


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Scan parquet t", "Lower spark.sql.files.maxPartitionBytes, "),
        ("BatchScan t", "Lower the size of the table's splits, "),
        ("Scan ExistingRDD", "Give its source more partitions "),
        ("CollectLimit", "show(), take() and LIMIT run one task first, "),
    ],
)
def test_what_to_do_about_few_tasks_is_up_to_their_source(name: str, said: str) -> None:
    its = stored("bucketed")
    for node in its.versions[-1]["nodes"]:
        node["simple"] = node["simple"].replace("Bucketed: true", "Bucketed: false")
        node["name"] = name if node["name"].startswith("Scan ") else node["name"]
    if not name.startswith("Scan parquet"):
        its = replace(its, metrics=[row for row in its.metrics if row["name"] != "number of files read"])
    assert next(each.next for each in imbalance(View(its)) if each.code == "few_tasks").startswith(said)


def test_few_tasks_that_aqe_made_of_few_bytes_count_half_where_each_row_takes_long() -> None:
    its = stored("range-window")
    assert 0.5 in {each.certainty for each in imbalance(View(its)) if each.code == "few_tasks"}
    for row in its.stages:
        row["cpu_time_ns"] = (row["cpu_time_ns"] or 0) // 100
    assert {each.certainty for each in imbalance(View(its)) if each.code == "few_tasks"} == {1.0}


def test_a_needless_repartition_makes_more_tasks_write_the_next_shuffle() -> None:
    """16 tasks, where there were two, each of which writes 200 blocks of some kilobytes."""
    its = stored("repartitioned-before-group")
    view, verdict = View(its), judge(its)
    after, repartition = (node.id for node in view.of_kind("shuffle"))
    assert verdict.nodes == (repartition,)
    written = sum(ms for ran in view.ran for of, ms in ran.parts.items() if (ran.tasks, of.node_id) == (16, after))
    assert verdict.wall_ms == view.wall_of((repartition,)) + round(written * 14 / 16)
    (last,) = (row for row in its.stages if row["tasks"] == 16 and row["run_time_ms"])
    last["run_time_ms_max"] = last["run_time_ms"] // 2  # one task wrote for as long
    its_own = [each.wall_ms for each in exchanges(View(its)) if each.evidence.get("is_needless")]
    assert its_own == [view.wall_of((repartition,))]


_MERGED = "AQE merged its 200 partitions, because they are small: lower spark.sql.adaptive."
_EACH_SIZE = {"spark.sql.adaptive.coalescePartitions.parallelismFirst": "false"}
_READ = "AQEShuffleRead coalesced"


@pytest.mark.parametrize(
    ("name", "settings", "text", "said"),
    [
        ("sort1", {}, _READ, "Remove repartition(1), or give it more partitions: "),
        ("tiny", {}, _READ, "All rows come together in one task, "),
        ("gz", {}, _READ, f"{_MERGED}coalescePartitions.minPartitionSize, "),
        ("gz", _EACH_SIZE, _READ, f"{_MERGED}advisoryPartitionSizeInBytes, "),
        ("gz", {}, "AQEShuffleRead local", "AQE reads the rows where they were written, "),
        ("bucketed", {}, "", "Each task reads a bucket: "),
        ("gz", {}, "AQEShuffleRead", "It reads only some of its partitions, as show() and LIMIT do: "),
    ],
)
def test_what_to_do_about_few_tasks_is_up_to_what_made_them_few(
    name: str, settings: dict[str, str], text: str, said: str
) -> None:
    its = stored(name)
    its.execution["configuration"] = settings
    for node in its.versions[-1]["nodes"]:
        node["simple"] = node["simple"].replace(_READ, text)
    found = [each.next for each in imbalance(View(its)) if each.code == "few_tasks"]
    assert found
    assert all(each.startswith(said) for each in found)


def test_advice_by_words_is_for_operators_that_were_not_sampled() -> None:
    its = stored("comet-regex")  # measured by the engine
    assert judge(its).next.startswith("Simplify its regular expressions: ")
    sampled = replace(its, task_times=[{**row, "method": "sampled"} for row in its.task_times])
    assert judge(sampled).next.startswith("Look at its expressions: ")


NATIVE = """
    CometExchange | hashpartitioning(k#1, 4) | shuffle bytes written=5, native shuffle writer time:nsTiming=300000000
      CometProject | [(k#1 + 1) AS k#1] | {time} in this operator:nsTiming=200000, number of output rows=9000000
        CometNativeScan parquet t | [k#1] | scan time:nsTiming=3000000000, number of output rows=9000000
"""


@pytest.mark.parametrize(("time", "named"), [("total time (in ms) spent", False), ("no time", True)])
def test_what_no_native_operator_measured_is_of_none_that_measured_its_own(time: str, named: bool) -> None:
    """In an event log, without samples: the projection handles as many rows, but says that it took no time."""
    stage = Stage(
        id=7,
        attempt=0,
        name="",
        state="succeeded",
        slots=1,
        tasks=4,
        succeeded_tasks=4,
        run_time_ms=18_000,
        run_time=Spread(4_500, 4_500, 4_500, 4_500, 70),
        submitted_at_ms=STARTED_AT_MS,
        first_launch_at_ms=STARTED_AT_MS,
        last_finish_at_ms=STARTED_AT_MS + 18_000,
        completed_at_ms=STARTED_AT_MS + 18_000,
    )
    jobs = [Job(0, STARTED_AT_MS, [7], "succeeded", STARTED_AT_MS + 18_000)]
    its = planned(NATIVE.format(time=time), jobs=jobs, stages=[stage], ended_at_ms=STARTED_AT_MS + 18_100)
    verdict = judge(read_back(its, 1))
    assert ("the projection" in verdict.text) == named, verdict.text
    assert (1 in verdict.nodes) == named
    assert named or verdict.text.endswith("went into stage 7: its operators measured 3.3 s of its 18.0 s of task time.")


def test_a_plan_that_became_empty_is_judged_as_it_ran() -> None:
    """No row passed a regular expression: AQE put an empty table in place of the filter, whose stage took the time."""
    its = stored("empty-plan")
    assert [node.name for node in its.plan.graph.nodes] == ["AdaptiveSparkPlan", "LocalTableScan"]
    verdict = judge(its)
    assert (verdict.code, verdict.stage) == ("compute", 2)
    assert "went into the filter (isnotnull(txt) AND RLIKE(txt," in verdict.text
    assert "75 % of it went into regular expressions" in verdict.text
    assert verdict.next.startswith("Simplify its regular expressions: ")
    assert verdict.operators == (View(its).keys[6],)
    assert verdict.nodes == ()  # the final plan has no such node
    its.execution.update(state="failed", error="java.lang.IllegalStateException: no rows")
    assert judge(its).nodes == ()


def test_without_samples_the_operator_of_a_plan_that_became_empty_is_a_guess() -> None:
    its = stored("empty-plan")
    unsampled = replace(its, task_times=[{**row, "work": None} for row in its.task_times])
    assert "cannot be told apart; probably most of it into the one" in judge(unsampled).text
    names = [*its.versions[1]["nodes"]]
    names[5] = {**names[5], "simple": "Project [RLIKE(txt#11, a+) AS g#12L]"}
    two = replace(its, versions=[its.versions[0], {**its.versions[1], "nodes": names}, its.versions[2]])
    assert judge(two).evidence["is_estimate"]  # both have a regular expression


def test_a_function_above_a_join_that_multiplies_nothing_checks_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "which checks the 600,000 rows of the join on plz" in judge(stored("udf-of-a-join")).text
    monkeypatch.setattr("joinsight.verdict.work._LEAST_RATIO", 100.0)
    verdict = judge(stored("udf-of-a-join"))
    assert (verdict.code, "which checks" in verdict.text) == ("python", False)


def test_only_one_long_expression_makes_planning_long() -> None:
    """Many of ordinary length don't; and the first query of an application has another reason."""
    assert longest_element("Project [a#1, CASE WHEN (a#1 = 1) THEN concat(x, y) END AS b#2, c#3]") == 49
    assert longest_element("HashAggregate(keys=[a#1], functions=[sum(if(a#1 > 1, 2, 3)), max(b#2)], output=[])") == 22
    assert longest_element("Filter (a#1 > 7)") == 16
    its = stored("long-cases")
    its.execution["execution_id"] = 0
    assert "characters" not in judge(its).text


def test_a_task_of_which_the_cpu_time_is_not_known_may_have_more_to_do() -> None:
    its = stored("slow-task")
    (known,) = (each for each in imbalance(View(its)) if each.stage_id == 107)
    its = replace(its, stages=[{**row, "cpu_time_ms_max": None} for row in its.stages])
    (unknown,) = (each for each in imbalance(View(its)) if each.stage_id == 107)
    assert unknown.code == "slow_host"
    assert unknown.wall_ms < 0.6 * known.wall_ms


def test_nothing_needs_to_be_done_about_a_short_query() -> None:
    its = read_back(recordings()["broadcast-switched"], slots=2)
    assert judge(its).next == "Nothing needs to be done, unless it runs very often: it took less than a second."


def test_a_small_plan_is_not_to_become_smaller() -> None:
    """Its planning takes long for another reason."""
    its = stored("regex")
    calm = [{**row, "cpu_time_ns": 1_000_000 * row["run_time_ms"]} for row in its.stages]
    its = replace(its, stages=calm, segments=[{**its.segments[0], "cause": "prepare", "start_ms": 0, "end_ms": 9_000}])
    (cause,) = driver(View(its))
    assert "before any task ran" in cause.what
    assert cause.next.startswith("Its plan is small: ")
    its.execution["execution_id"] = 0
    (cause,) = driver(View(its))
    assert cause.next.startswith("It is the first query of its application, ")
    busy = replace(its, stages=[{**row, "cpu_time_ns": row["cpu_time_ns"] // 8} for row in its.stages])
    (waiting,) = driver(View(busy))
    assert waiting.next.startswith("Its tasks had the CPU for 13 % of their run time: ")
    assert waiting.least_share > cause.least_share
    for unknown in ({"run_time_ms": 40, "cpu_time_ns": 6_000_000}, {"cpu_time_ns": 0}):
        (same,) = driver(View(replace(its, stages=[{**row, **unknown} for row in its.stages])))
        assert same.least_share == cause.least_share
    assert cause.least_share > max(each.least_share for each in driver(View(stored("long-list"))))  # that has a reason


def test_a_sum_of_parts_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """With advice, from the share on from which findings name a largest part."""
    (line,) = gzip.decompress((REPLAY / "tpch21-slots2-loaded.ndjson.gz").read_bytes()).splitlines()
    its = decode_document(line)
    assert isinstance(its, Execution)
    verdict = judge(read_back(its))
    assert verdict.code == "even"
    assert "the largest part is 26 % (6 scans)" in verdict.text
    assert verdict.next == "Nothing needs to be done."
    monkeypatch.setattr("joinsight.verdict.LARGEST_PART_SHARE", 0.26)
    assert judge(read_back(its)).next.startswith("Read less: ")


def test_a_task_that_is_slow_without_more_work_costs_time_on_full_slots() -> None:
    """While it ran, no other slot was free: even tasks would not be faster, tasks like the others would."""
    its = stored("coalesced")  # recorded with four slots
    (scan,) = (row for row in its.stages if row["stage_id"] == 11)
    scan |= {"run_time_ms": scan["run_time_ms"] + 3_000, "run_time_ms_max": scan["run_time_ms_max"] + 6_000}
    (slow,) = (each for each in imbalance(View(its)) if each.stage_id == scan["stage_id"])
    others = (scan["run_time_ms"] - scan["run_time_ms_max"]) / 3
    (ran,) = (each for each in View(its).ran if each.stage_id == scan["stage_id"])
    assert ran.wall_ms < scan["run_time_ms"] / 4
    assert (slow.code, slow.wall_ms) == ("slow_host", round((scan["run_time_ms_max"] - others) / 4))


def test_a_task_that_is_slow_without_more_work_costs_the_time_in_which_others_had_ended() -> None:
    """It slept for 8 s on one of two slots; the other seven tasks took 4.4 s on the other one."""
    its = stored("slow-task")
    (slow,) = (each for each in imbalance(View(its)) if each.stage_id == 107)
    assert (slow.code, slow.wall_ms) == ("slow_host", 6851)


def test_a_driver_that_receives_a_large_result_says_why() -> None:
    """The time for it counts whole, and is a finding; what is collected for a broadcast is no result."""
    its = read_back(recordings()["collected"])
    received, whole = driver(View(its))
    assert (received.wall_ms, received.weight, whole.weight) == (261, 261, whole.wall_ms / 2)
    assert "the driver took 261 ms to receive 18.9 MiB of results" in judge(its).text
    (stage,) = its.stages
    stage["broadcast_ms"] = 1
    assert [each.evidence["result_bytes"] for each in driver(View(its))] == [0]
    stage |= {"broadcast_ms": None, "tasks": 2_000}  # 10 kB of each task: its metrics
    assert [each.evidence["result_bytes"] for each in driver(View(its))] == [0]
