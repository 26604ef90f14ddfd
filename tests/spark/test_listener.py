"""What the listener sends over HTTP: valid documents, in order, while a query runs and at its end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.java import compile_java
from tests.spark.sink import Sink
from tests.versions import BOTH_SCALA, NEWEST, SCALA_2_12

from joinsight.attach import LISTENER, listener_jar
from joinsight.decode import decode_document

pytestmark = pytest.mark.spark
SCHEMA = Path(__file__).parents[2] / "collector/joinsight/schemas/document-v1.schema.json"

SCRIPT = r"""
import sys
from pyspark.sql import SparkSession, functions as F
builder = SparkSession.builder.master("local[2]").appName("wire").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
spark.sparkContext.setJobDescription("slow \N{GRINNING FACE}")
slow = F.udf(lambda n: __import__("time").sleep(0.4) or n, "long")
spark.range(10, numPartitions=10).select(slow("id").alias("id")).groupBy("id").count().collect()
spark.sparkContext.setJobDescription(None)
for n in range(10):
    spark.sql(f"SELECT count(*) FROM range({n}) JOIN range(5) USING (id)").collect()
# Spark's parser makes a NUL and half a surrogate pair of these escapes
spark.sql(r"SELECT concat(id, '\u0000 \ud83d odd') FROM range(3)").write.format("noop").mode("overwrite").save()
try:
    spark.sql("SELECT raise_error('broken on purpose')").collect()
except Exception:
    pass
spark.stop()
"""


# A listener beside ours, in the same small queue, that takes ten times as long as tasks do on any machine
# Waits at the first task's end of a large stage until Spark has dropped a hundred events more
SLOW = """
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

public final class Slow extends SparkListener {
  private long until;

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    if (event.stageInfo().numTasks() > 1) until = dropped() + 100;
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    try {
      while (dropped() < until) Thread.sleep(1);
    } catch (InterruptedException e) {
      throw new RuntimeException(e);
    }
  }

  private static long dropped() {
    return context().listenerBus().metrics().metricRegistry().counter("queue.shared.numDroppedEvents").getCount();
  }

  /** Called in a task: returns once all listeners have seen all that was posted before. */
  public static String drained() throws Exception {
    context().listenerBus().waitUntilEmpty(600_000);
    return "drained";
  }

  private static SparkContext context() {
    return SparkContext.getOrCreate();
  }
}
"""

# Each start is heard, and so is the end, because the last task ends when the queue is empty; between them Spark drops
BURST = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").appName("burst").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.config("spark.scheduler.listenerbus.eventqueue.shared.capacity", 10).getOrCreate()
bus = spark.sparkContext._jsc.sc().listenerBus()
for _ in range(2):
    bus.waitUntilEmpty(600_000)
    spark.range(0, 400, 1, 400).selectExpr("sum(id) s").selectExpr("s", "reflect('Slow', 'drained')").collect()
bus.waitUntilEmpty(600_000)
spark.stop()
"""

HINTS = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").appName("hints").config("spark.ui.enabled", "false")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
def query(name, sql):
    spark.sparkContext.setJobDescription(name)
    return spark.sql(sql).collect()
for adaptive in ("true", "false"):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    query("none", "SELECT count(*) FROM range(10) a JOIN range(20) b USING (id)")
    query("left", "SELECT /*+ BROADCAST(a) */ count(*) FROM range(10) a JOIN range(20) b USING (id)")
    query("right", "SELECT /*+ MERGE(b) */ count(*) FROM range(10) a JOIN range(20) b USING (id)")
    inner = "SELECT /*+ SHUFFLE_HASH(a, b) */ count(*) FROM range(4) a JOIN range(5) b USING (id)"
    query("subquery", f"SELECT * FROM range(9) WHERE id > ({inner})")
spark.sql("CACHE LAZY TABLE cached AS SELECT /*+ SHUFFLE_REPLICATE_NL(a) */ a.id FROM range(3) a JOIN range(5) b")
query("cached", "SELECT count(*) FROM cached")
spark.stop()
"""


def run(
    sink: Sink, environment: dict[str, str], tmp_path: Path, script: str = SCRIPT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with the listener attached to the sink."""
    path = tmp_path / "job.py"
    path.write_text(script)
    conf = {
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": sink.url + "/",
        "spark.joinsight.progressInterval": "200ms",
        "spark.executor.heartbeatInterval": "200ms",
        "spark.joinsight.jobName": "nightly",
        "spark.joinsight.tag.team": "sales",
        "spark.sql.shuffle.partitions": "2",
        "spark.hadoop.fs.s3a.secret.key": "must not leave",
        **more,
    }
    command = [sys.executable, str(path), *(f"{key}={value}" for key, value in conf.items())]
    env = {**environment, "JOINSIGHT_TOKEN": "a token"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", BOTH_SCALA)
def test_documents_on_the_wire(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """Every document fits the JSON Schema; a running query is reported before its end; numbers count up."""
    started = time.monotonic()
    done = run(sink, spark_environment(version), tmp_path)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
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
def test_documents_are_sent_again_until_they_are_taken(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """Documents are sent again after 503, 500 and 429, until each final one is accepted."""
    sink.answers += [503, 500, 429, 503]
    waits_at_its_end = {"spark.joinsight.spool": "none"}
    done = run(sink, spark_environment(NEWEST), tmp_path, **waits_at_its_end)
    assert done.returncode == 0, done.stderr
    assert ": it responded 503" in done.stderr
    final = [d for d in sink.taken() if d["kind"] == "execution" and d["state"] != "running"]
    assert len({d["execution_id"] for d in final}) == 13
    (ended,) = [d for d in sink.taken() if d.get("state") == "ended"]
    assert (ended["refused"], ended["dropped"]) == ([], {})


@pytest.mark.matrix
def test_refused_documents_are_not_sent_again(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """Documents that the collector refuses for good (400) are counted, logged and not sent again."""
    sink.answers += [400]
    done = run(sink, spark_environment(NEWEST), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the collector refused" in done.stderr
    refused = [line for _, lines, status in sink.requests if status == 400 for line in lines]
    assert not {bytes(line) for line in refused} & {
        line for _, lines, status in sink.requests if status == 200 for line in lines
    }
    (ended,) = [d for d in sink.taken() if d.get("state") == "ended"]
    numbers = [json.loads(line)["sequence"] for line in refused]
    assert ended["refused"] == [[number, number] for number in numbers] and len(numbers) == 1


@pytest.mark.matrix
def test_events_that_spark_dropped(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """Events that Spark's bus dropped are counted, and the affected executions are marked."""
    source = tmp_path / "Slow.java"
    source.write_text(SLOW)
    slow = {"spark.driver.extraClassPath": compile_java(source, tmp_path), "spark.extraListeners": f"{LISTENER},Slow"}
    done = run(sink, spark_environment(NEWEST), tmp_path, BURST, **slow)
    assert done.returncode == 0, done.stderr
    applications = [d for d in sink.taken() if d["kind"] == "application"]
    assert applications[-1]["events_dropped"] >= 200
    ended = [d for d in sink.taken() if d.get("state") == "succeeded"]
    assert len(ended) == 2
    for d in ended:
        assert any(re.fullmatch(r"Spark dropped \d{3,} events while it ran", reason) for reason in d["incomplete"])


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_join_hints(
    sink: Sink, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path, version: str
) -> None:
    """A join's hint, which no plan shows, comes with a metric of its node; also in a subquery and a cached plan."""
    done = run(sink, spark_environment(version), tmp_path, HINTS)
    assert done.returncode == 0, done.stderr
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
