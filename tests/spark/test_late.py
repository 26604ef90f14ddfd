"""Jobs that Spark runs after a query's end, and driver metrics, belong to the query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.eventlog.recorded import log_at, read
from tests.spark.sink import Sink
from tests.spark_process import JOBS, SparkRun
from tests.versions import NEWEST, SCALA_2_12

from joinsight.contract.document import Execution

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_what_comes_after_the_end(sink: Sink, spark_run: SparkRun, tmp_path: Path, version: str) -> None:
    """Every job is counted that Spark's UI counts, live and from the log; so are driver metrics while jobs run."""
    logs = tmp_path / "logs"
    logs.mkdir()
    conf = {
        **sink.conf,
        "spark.joinsight.progressInterval": "1h",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
    }
    done = spark_run(version, JOBS / "late.py", *(f"{key}={value}" for key, value in conf.items()))
    truth = json.loads(done.stdout)
    jobs = {int(execution): ids for execution, ids in truth["jobs"].items()}
    documents = [d for d in sink.taken() if d["kind"] == "execution"]
    live = {d["execution_id"]: d for d in documents}
    assert {id: sorted(job["id"] for job in d["jobs"]) for id, d in live.items()} == jobs
    (late,) = [d for d in live.values() if d["description"] == "rows one by one"]
    assert len(late["jobs"]) >= 12
    assert {job["state"] for job in late["jobs"]} == {"succeeded"}
    assert {stage["state"] for stage in late["stages"]} == {"succeeded"}
    assert sum(d["description"] == "rows one by one" for d in documents) <= 3, "late jobs are reported together"
    (values,) = [a for a in live[truth["execution"]]["accumulators"] if a["id"] == truth["metric"]]
    assert values["sum"] == 41
    log = log_at(logs)
    logged = {d.execution_id: d for d in read(log)[0] if isinstance(d, Execution)}
    assert {id: sorted(job.id for job in d.jobs) for id, d in logged.items()} == jobs
