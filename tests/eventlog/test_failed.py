"""Whether a query failed, in logs of any version: before Spark 3.4, its end does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.eventlog.recorded import SQL, read_events

from joinsight.contract.document import Execution

SUCCEEDED = {"Result": "JobSucceeded"}


def failed(message: str) -> dict[str, Any]:
    return {"Result": "JobFailed", "Exception": {"Message": message, "Stack Trace": []}}


def job_end(number: int, result: dict[str, Any]) -> dict[str, Any]:
    return {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": 8, "Job Result": result}


def end(**told: str) -> dict[str, Any]:
    return {"Event": f"{SQL}End", "executionId": 0, "time": 8, **told}


@pytest.mark.parametrize(
    ("ends", "state", "error"),
    [
        ((job_end(0, SUCCEEDED), job_end(1, failed("out of memory")), end()), "failed", "out of memory"),
        # Jobs that are cancelled because another one failed end after the query
        ((job_end(1, failed("out of memory")), end(), job_end(0, failed("cancelled"))), "failed", "out of memory"),
        ((end(), job_end(1, SUCCEEDED), job_end(0, failed("cancelled"))), "failed", "cancelled"),
        ((job_end(0, {"Result": "JobFailed"}), job_end(1, SUCCEEDED), end()), "failed", "Job 0 failed"),
        ((job_end(0, SUCCEEDED), job_end(1, SUCCEEDED), end()), "succeeded", None),
        # AQE cancels jobs whose result it does not need
        ((job_end(0, SUCCEEDED), job_end(1, failed("cancelled")), end(errorMessage="")), "succeeded", None),
        ((job_end(0, failed("why")), job_end(1, SUCCEEDED), end(errorMessage="why not")), "failed", "why not"),
        ((job_end(0, SUCCEEDED), job_end(1, failed("out of memory"))), "lost", None),
    ],
)
def test_jobs_tell_whether_a_query_failed_where_its_end_does_not(
    tmp_path: Path, ends: tuple[dict[str, Any], ...], state: str, error: str | None
) -> None:
    """By the rule of Spark's UI, with the error of the first job that failed."""
    properties = {"spark.sql.execution.id": "0"}
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "3.3.1"},
        {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "local-1", "Timestamp": 1, "User": "u"},
        {"Event": f"{SQL}Start", "executionId": 0, "description": "d", "details": "", "time": 2},
        *(
            {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 3, "Properties": properties}
            for number in (0, 1)
        ),
        *ends,
    ]
    document = next(each for each in reversed(read_events(tmp_path, events)) if isinstance(each, Execution))
    assert (document.state, document.error) == (state, error)
