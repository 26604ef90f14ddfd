"""What the listener sends over HTTP: valid documents, in order, while a query runs and at its end."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.java import compile_java
from tests.spark.sink import Sink, sending_to
from tests.spark_process import JOBS, SparkRun
from tests.versions import BOTH_SCALA, NEWEST, SCALA_2_12

from joinsight.contract.decode import decode_document
from joinsight.driver.attach import LISTENER

pytestmark = pytest.mark.spark
SCHEMA = Path(__file__).parents[2] / "collector/joinsight/contract/schemas/document-v1.schema.json"


def run(
    sink: Sink,
    spark_run: Callable[..., subprocess.CompletedProcess[str]],
    version: str,
    script: str = "wire.py",
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script of `jobs/` with the listener attached to the sink."""
    conf = {
        **sending_to(sink.url + "/"),
        "spark.joinsight.progressInterval": "200ms",
        "spark.executor.heartbeatInterval": "200ms",
        "spark.joinsight.jobName": "nightly",
        "spark.joinsight.tag.team": "sales",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.secret.key": "must not leave",
        **more,
    }
    return spark_run(version, JOBS / script, *(f"{key}={value}" for key, value in conf.items()))


@pytest.mark.parametrize("version", BOTH_SCALA)
def test_documents_fit_the_schema_and_report_progress(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """Every document fits the JSON Schema; a running query is reported before its end; numbers count up."""
    started = time.monotonic()
    run(sink, spark_run, version)
    seconds = time.monotonic() - started
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for headers, lines, _ in sink.requests:
        assert headers["Content-Encoding"] == "gzip"
        assert headers["Authorization"] == "Bearer a token"
        for line in lines:
            validator.validate(json.loads(line))
            decode_document(line)
            assert b"must not leave" not in line
    documents = sink.taken()
    sequence = [document["sequence"] for document in documents]
    assert sequence == sorted(set(sequence)), "each is newer than those before; what was overtaken is left out"
    assert {(d["job_name"], d["application_name"]) for d in documents} == {("nightly", "wire")}
    assert len({(d["application_id"], d["listener"]["id"]) for d in documents}) == 1

    applications = [d for d in documents if d["kind"] == "application"]
    *before, last = [d["state"] for d in applications]
    assert set(before) == {"running"}
    assert len(before) <= 1 + seconds // 30, "one at the start, then a sign of life each 30 s"
    assert last == "ended"
    assert applications[-1]["documents_made"] == sequence[-1]
    assert applications[-1]["tags"] == {"team": "sales"}

    slow = [d for d in documents if d.get("description", "").startswith("slow")]
    assert slow[-1]["state"] == "succeeded"
    assert slow[-1]["description"] == "slow \N{GRINNING FACE}"
    running = [d for d in slow[:-1] if d["state"] == "running"]
    assert len(running) >= 2
    assert all(d["reported_at_ms"] >= d["started_at_ms"] for d in running)
    assert "reported_at_ms" not in slow[-1]
    tasks = [sum(stage.get("succeeded_tasks", 0) for stage in d["stages"]) for d in slow]
    assert tasks == sorted(tasks)
    assert tasks[0] < tasks[-1]

    final = {d["execution_id"]: d for d in documents if d["kind"] == "execution" and d["state"] != "running"}
    assert len(final) == 13
    odd = next(line for _, lines, _ in sink.requests for line in lines if b" odd)" in line)
    assert b"\\u0000 ? odd" in odd
    failed = [d for d in final.values() if d["state"] == "failed"]
    assert len(failed) == 1
    assert "broken on purpose" in failed[0]["error"]


@pytest.mark.matrix  # in the normal run, by test_delivery.py
def test_documents_are_sent_again_until_they_are_taken(sink: Sink, spark_run: SparkRun, tmp_path: Path) -> None:
    """Documents are sent again after 503, 500 and 429, until each final one is accepted."""
    sink.answers += [503, 500, 429, 503]
    waits_at_its_end = {"spark.joinsight.spool": "none"}
    done = run(sink, spark_run, NEWEST, **waits_at_its_end)
    assert ": it responded 503" in done.stderr
    final = [d for d in sink.taken() if d["kind"] == "execution" and d["state"] != "running"]
    assert len({d["execution_id"] for d in final}) == 13
    (ended,) = [d for d in sink.taken() if d.get("state") == "ended"]
    assert (ended["refused"], ended["dropped"]) == ([], {})


@pytest.mark.matrix
def test_refused_documents_are_not_sent_again(sink: Sink, spark_run: SparkRun, tmp_path: Path) -> None:
    """Documents that the collector refuses for good (400) are counted, logged and not sent again."""
    sink.answers += [400]
    done = run(sink, spark_run, NEWEST)
    assert "the collector refused" in done.stderr
    refused = [line for _, lines, status in sink.requests if status == 400 for line in lines]
    assert not {bytes(line) for line in refused} & {
        line for _, lines, status in sink.requests if status == 200 for line in lines
    }
    (ended,) = [d for d in sink.taken() if d.get("state") == "ended"]
    numbers = [json.loads(line)["sequence"] for line in refused]
    assert numbers and [number for a, b in ended["refused"] for number in range(a, b + 1)] == numbers


@pytest.mark.matrix
def test_dropped_events_are_counted_and_mark_executions(sink: Sink, spark_run: SparkRun, tmp_path: Path) -> None:
    """Events that Spark's bus dropped are counted, and the affected executions are marked."""
    slow = {
        "spark.driver.extraClassPath": compile_java(JOBS / "Slow.java", tmp_path),
        "spark.extraListeners": f"{LISTENER},Slow",
    }
    run(sink, spark_run.alone, NEWEST, "burst.py", **slow)
    applications = [d for d in sink.taken() if d["kind"] == "application"]
    assert applications[-1]["events_dropped"] >= 200
    ended = [d for d in sink.taken() if d.get("state") == "succeeded"]
    assert len(ended) == 2
    for d in ended:
        assert any(re.fullmatch(r"Spark dropped \d{3,} events while it ran", reason) for reason in d["incomplete"])


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_a_joins_hint_comes_with_a_metric_of_its_node(sink: Sink, spark_run: SparkRun, version: str) -> None:
    """A join's hint, which no plan shows, comes with a metric of its node; also in a subquery and a cached plan."""
    run(sink, spark_run, version, "hints.py")
    hints: defaultdict[str, list[tuple[str, str | None, str | None]]] = defaultdict(list)
    for d in sink.taken():
        if d.get("state") != "succeeded":
            continue
        joins = {
            m["id"]: n["name"]
            for n in d["nodes"]
            for m in n.get("metrics", ())
            if "Join" in n["name"] or "Product" in n["name"]
        }
        hints[d["description"]] += [
            (joins[h["metric"]], h.get("left"), h.get("right")) for h in d.get("join_hints", ())
        ]
    assert hints == {
        "none": [],
        "left": [("BroadcastHashJoin", "broadcast", None)] * 2,
        "right": [("SortMergeJoin", None, "merge")] * 2,
        "subquery": [("ShuffledHashJoin", "shuffle_hash", "shuffle_hash")] * 2,
        "cached": [("CartesianProduct", "shuffle_replicate_nl", None)],
    }
