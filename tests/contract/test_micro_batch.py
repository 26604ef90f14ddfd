"""Executions of streaming queries, and those that somebody stopped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine
from tests.documents import STARTED_AT_MS, as_line, execution, planned, stored_rows

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution, Job
from joinsight.contract.micro_batch import MicroBatch, micro_batch
from joinsight.queries.filters import Filters
from joinsight.queries.lists import read_queries, read_streams
from joinsight.store.writer import Writer
from joinsight.tables import Row

QUERY, RUN = "fb540576-da3a-485c-b3ac-ff42f2948ca3", "a38fd470-fe62-4798-b6dc-9e43bc3b2f50"
IDS = f"id = {QUERY}\nrunId = {RUN}\nbatch = "
WORK = """
StateStoreSave | [k#1], state info | number of total state rows=2+1, memory used by state:size=700
  Exchange | hashpartitioning(k#1, 2), ENSURE_REQUIREMENTS, [plan_id=1] | shuffle bytes written=5, records read=3
    Scan parquet t | [k#1]
"""
INTERRUPTED = "java.lang.InterruptedException\n\tat java.base/java.util.concurrent.locks..."


@pytest.mark.parametrize(
    ("description", "found"),
    [
        (f"counts\n{IDS}7", MicroBatch("counts", QUERY, RUN, 7)),
        (f"\n{IDS}0", MicroBatch(None, QUERY, RUN, 0)),
        (f"counts<br/>{IDS}7".replace("\n", "<br/>"), MicroBatch("counts", QUERY, RUN, 7)),
        (f"counts\n{IDS}init", MicroBatch("counts", QUERY, RUN, None)),
        (f"counts\n{IDS}{'9' * 30}", MicroBatch("counts", QUERY, RUN, int("9" * 18))),
        (f"Delta: \n{IDS}0: Writing modified data - MERGE operation", MicroBatch(None, QUERY, RUN, 0)),
        (f"Delta: counts\n{IDS}7: Filtering files for query", MicroBatch("counts", QUERY, RUN, 7)),
        ("counts", None),
        ("id = 1\nrunId = 2\nbatch = 3", None),
        (f"about {QUERY}\nrunId = {RUN}\nbatch = 1", None),
    ],
)
def test_a_micro_batch_is_recognised_by_its_description(description: str, found: MicroBatch | None) -> None:
    """As Spark writes it, and others."""
    assert micro_batch(description) == found


@pytest.mark.parametrize(
    ("description", "error", "state"),
    [
        (f"\n{IDS}1", INTERRUPTED, "cancelled"),
        (f"\n{IDS}1", f"[FOREACH_BATCH_USER_FUNCTION_ERROR] ...\n: {INTERRUPTED}", "cancelled"),
        (f"\n{IDS}1", "org.apache.spark.SparkException: x\nCaused by: java.io.InterruptedIOException: y", "cancelled"),
        (
            f"\n{IDS}1",
            '{"errorClass":"java.lang.InterruptedException","messageParameters":{"message":null}}',
            "cancelled",
        ),
        (f"\n{IDS}1", "java.lang.InterruptedExceptionOfMine", "failed"),
        (f"\n{IDS}1", "java.io.IOException: disk full", "failed"),
        (f"\n{IDS}1", "", "failed"),
        ("nightly", INTERRUPTED, "failed"),
        ('Spark Connect - session_id: "7c0eb70f...', INTERRUPTED, "cancelled"),
        ("nightly", "[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group x SQLSTATE: XXKDA", "cancelled"),
        (
            "nightly",
            "org.apache.spark.SparkException: Job 12 cancelled because SparkContext was shut down",
            "cancelled",
        ),
        ("nightly", "[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008", "cancelled"),
        ("nightly", "java.lang.Exception: Job 12 aborted due to stage failure", "failed"),
        ("nightly", "Job 3 cancelled The corresponding broadcast query has failed.", "failed"),
    ],
)
def test_what_somebody_stopped_has_not_failed(description: str, error: str, state: str) -> None:
    """A stopped streaming query, a cancelled job, job group or context; other errors are failures."""
    line = as_line(execution(state="failed", description=description, error=error))
    document = decode_document(line)
    assert isinstance(document, Execution)
    assert document.state == state and document.error == error
    assert stored_rows(document)["execution"][0]["state"] == state


def test_a_cancelled_statement_has_not_failed() -> None:
    """A Thrift server interrupts it; what is interrupted elsewhere may be a failure."""
    interrupted = execution(state="failed", description="SELECT 1", error=INTERRUPTED)
    for operation, state in (("d430efd0-bd35-4363-b32f-aeff485b57b4", "cancelled"), (None, "failed")):
        document = decode_document(as_line(msgspec.structs.replace(interrupted, operation_id=operation)))
        assert isinstance(document, Execution)
        assert document.state == state


def outer(number: int, **changes: Any) -> Execution:
    """The outer execution of a micro-batch of two seconds."""
    at = STARTED_AT_MS + 10_000 * number
    usual = {"execution_id": 2 * number, "started_at_ms": at, "ended_at_ms": at + 2_000}
    return planned(WORK, **{**usual, "description": f"counts\n{IDS}{number}", **changes})


def work(number: int, **changes: Any) -> Execution:
    """The execution nested in it."""
    at = STARTED_AT_MS + 10_000 * number + 100
    usual = {"execution_id": 2 * number + 1, "root_execution_id": 2 * number, "ended_at_ms": at + 1_500}
    job = Job(number, at, [7], "succeeded", at + 1_000)
    changes = {"description": f"counts\n{IDS}{number}", "jobs": [job], **changes}
    return planned(WORK, **{**usual, "started_at_ms": at, **changes})


def names(rows: Row) -> tuple[Any, ...]:
    return tuple(rows[f"streaming_{name}"] for name in ("query_name", "query_id", "run_id", "batch_id"))


def test_a_micro_batch_counts_once() -> None:
    """Both have the names; operators are those of the nested one, which does the work."""
    whole, nested = stored_rows(outer(3)), stored_rows(work(3))
    assert names(whole["execution"][0]) == names(nested["execution"][0]) == ("counts", QUERY, RUN, 3)
    assert (whole["execution"][0]["is_outer"], nested["execution"][0]["is_outer"]) == (True, False)
    assert whole["execution"][0]["query_shape"] is None and nested["execution"][0]["query_shape"]
    assert [len(each["plan_node"]) for each in (whole, nested)] == [3, 3]
    assert [len(each["shuffle"]) for each in (whole, nested)] == [0, 1]
    assert sum(each["end_ms"] - each["start_ms"] for each in whole["segment"]) == 2_000


def test_an_outer_execution_is_one_whose_work_is_elsewhere() -> None:
    """Not one with jobs of its own, of files for example, nor one that failed: its error is nowhere else."""
    with_jobs = outer(1, jobs=[Job(1, STARTED_AT_MS, [7], "succeeded", STARTED_AT_MS + 1)])
    failed = outer(1, state="failed", error="ValueError in a function")
    ordinary = outer(1, description="nightly")
    for each in (with_jobs, failed, ordinary, work(1)):
        rows = stored_rows(each)
        assert rows["execution"][0]["is_outer"] is False
        assert len(rows["shuffle"]) == 1
    assert names(stored_rows(ordinary)["execution"][0]) == (None, None, None, None)


def test_the_result_of_a_command_is_no_query_of_its_own() -> None:
    """Spark runs a command in one execution, and hands out its rows in another one; more than that is a query."""
    returned = "\nCommandResult | [key#1, value#2]"
    for plan, is_outer in (
        (returned, True),
        ("\nExecute SetCommand", False),
        (f"\nProject | [key#1]\n  {returned.strip()}", False),
    ):
        [row] = stored_rows(planned(plan, jobs=[]))["execution"]
        assert row["is_outer"] is is_outer
        assert (row["query_shape"] is None) is is_outer


def test_a_batch_is_known_though_its_function_sets_a_description() -> None:
    """A function of `foreachBatch` may set one; its jobs still have the ids, and Spark's job group is the run."""
    own = work(5, description="upsert", streaming_query_id=QUERY, streaming_batch_id=5, job_group=RUN)
    row = stored_rows(own)["execution"][0]
    assert names(row) == (None, QUERY, RUN, 5) and row["title"] == "upsert"


def test_a_stream_lists_each_micro_batch_once(engine: Engine) -> None:
    """Rate, durations and state of a run; lists have each micro-batch once."""
    batches = [document for number in range(4) for document in (outer(number), work(number))]
    stopped = [outer(4, state="cancelled"), work(4, state="cancelled")]
    other = outer(9, description=f"\n{IDS}0".replace(RUN, QUERY), state="failed", error="x", ended_at_ms=None)
    Writer(engine).write([*batches, *stopped, other])
    with engine.connect() as connection:
        since = stored_rows(batches[0])["execution"][0]["started_at"]
        failed, run = read_streams(connection, since)
        assert read_streams(connection, since, job="another") == []
        listed = read_queries(connection, Filters(), "recent")
    assert (failed["streaming_run_id"], failed["state"], failed["batches"], failed["failed"]) == (QUERY, "failed", 1, 1)
    assert (run["batches"], run["failed"], run["last_batch_id"], run["state"]) == (5, 0, 4, "cancelled")
    assert run["batches_per_minute"] == 6.0
    assert (run["duration_ms_median"], run["duration_ms_max"]) == (2_000.0, 2_000)
    assert (run["state_rows"], run["state_bytes"]) == (3, 700)
    assert run["title"] == "counts: t → k"
    assert [row["execution_id"] for row in listed] == [18, 9, 7, 5, 3, 1]
