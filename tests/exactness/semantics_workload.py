"""All sources of metrics in local mode: plans, failures, retries, nesting, streaming, threads.

A step is one function; its name is the job description of the executions it starts, its docstring says which
behaviour it is there for. An error that a step does not expect stops the run. Code that goes to Python workers
is local to its function, so that it is sent along and needs no import there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joinsight.demo.workload import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ADAPTIVE = "spark.sql.adaptive.enabled"
LOCAL_DIR = "spark.local.dir"
BROADCAST_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
WAIT_SECONDS = 1800

Step = Callable[["SparkSession", Path], None]
JOINS = {
    "broadcast hash": "SELECT /*+ BROADCAST(d) */ grp, count(*) FROM facts f JOIN dims d ON f.key = d.key GROUP BY grp",
    "sort merge": "SELECT /*+ MERGE(d) */ grp, sum(amount) FROM facts f LEFT JOIN dims d ON f.key = d.key GROUP BY grp",
    "shuffled hash": "SELECT /*+ SHUFFLE_HASH(d) */ count(*) FROM facts f JOIN dims d ON f.key = d.key",
    "broadcast nested loop": "SELECT count(*) FROM facts f LEFT JOIN dims d ON f.key < d.key AND d.grp = 3",
    "cartesian": "SELECT /*+ SHUFFLE_REPLICATE_NL(e) */ count(*) FROM dims d JOIN dims e ON d.grp < e.grp",
}
OTHER_JOINS = {
    "full outer": "SELECT /*+ MERGE(d) */ count(id), count(grp) FROM facts f FULL JOIN dims d ON f.key = d.key + 100",
    "semi": "SELECT count(*) FROM facts WHERE key IN (SELECT key FROM dims WHERE grp = 1)",
    "anti, null aware": "SELECT count(*) FROM facts WHERE key NOT IN (SELECT key FROM dims WHERE grp = 1)",
    "existence": "SELECT count(*) FROM facts WHERE amount > 100 OR key IN (SELECT key FROM dims WHERE grp = 2)",
}
SUBQUERIES = {
    "scalar": "SELECT count(*) FROM facts WHERE amount > (SELECT avg(amount) FROM facts)",
    "scalar, reused": """
        SELECT amount - (SELECT max(grp) FROM dims), amount + (SELECT max(grp) FROM dims) FROM facts WHERE day = 1""",
    "dynamic partition pruning": """
        SELECT sum(amount) FROM facts f JOIN dims d ON f.day = d.key WHERE d.name = 'name 3'""",
    "dynamic partition pruning twice": """
        SELECT sum(f.amount), sum(g.amount) FROM facts f JOIN facts g ON f.id = g.id
        JOIN dims d ON f.day = d.key JOIN dims e ON g.day = e.key WHERE d.name = 'name 3' AND e.name = 'name 3'""",
}
OPERATORS = {
    "window": """
        SELECT sum(running) FROM (SELECT sum(amount) OVER (PARTITION BY key ORDER BY id) AS running FROM facts)""",
    "window group limit": """
        SELECT * FROM (SELECT key, rank() OVER (PARTITION BY key ORDER BY amount DESC) AS r FROM facts) WHERE r <= 2""",
    "generate": "SELECT sum(e) FROM (SELECT explode(sequence(0, key % 5)) AS e FROM facts)",
    "expand": "SELECT key, day, sum(amount) FROM facts GROUP BY CUBE (key, day)",
    "object hash aggregate": "SELECT key, size(collect_list(amount)), collect_set(day) FROM facts GROUP BY key",
    "sort aggregate": "SELECT grp, max(name), min(name) FROM dims GROUP BY grp",
    "count distinct": "SELECT day, count(DISTINCT key), count(DISTINCT amount) FROM facts GROUP BY day",
    "set operations": "(SELECT key FROM facts EXCEPT SELECT grp FROM dims) INTERSECT SELECT key FROM dims",
    "union of many stages": " UNION ALL ".join(
        f"SELECT {i} AS i, count(*) AS n FROM (SELECT key % {i + 2} FROM facts GROUP BY key % {i + 2})"
        for i in range(6)
    ),
    "local table": "SELECT x + 1 FROM VALUES (1), (2), (3) AS t(x)",
    "sort": "SELECT * FROM facts WHERE day = 2 ORDER BY amount, id",
    "pivot": "SELECT * FROM (SELECT day, grp FROM facts JOIN dims USING (key)) PIVOT (count(*) FOR grp IN (1, 2, 3))",
}


def session_options() -> dict[str, str]:
    """The settings that the steps need: a master that retries tasks, and heartbeats inside short tasks."""
    return {
        "spark.master": "local[2,3]",
        "spark.executor.heartbeatInterval": "200ms",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "2",
        "spark.sql.catalogImplementation": "in-memory",
        # Arrow needs packages that a bare Spark lacks.
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",
    }


def run(spark: SparkSession, folder: Path, steps: Iterable[Step]) -> None:
    """Run some steps. `folder` must be new; only this run may use Spark's `LOCAL_DIR`."""
    work = folder / "semantics"
    work.mkdir(parents=True)
    for step in steps:
        name = step.__name__
        spark.sparkContext.setJobDescription(name)
        try:
            step(spark, work)
        except Exception as error:
            raise RuntimeError(f"step {name} failed") from error
    spark.sparkContext.setJobDescription(None)


# Plans


def write_tables(spark: SparkSession, work: Path) -> None:
    """A partitioned write and a plain one: driver metrics of write commands."""
    # 60 % of all facts have key 0.
    facts = spark.range(0, 20_000, 1, 4).selectExpr(
        "id",
        "IF(id % 10 < 6, 0, id % 200) AS key",
        "CAST(id % 97 * 1.5 AS DOUBLE) AS amount",
        "repeat(CAST(hash(id) AS STRING), 4) AS filler",
        "id % 5 AS day",
    )
    facts.write.partitionBy("day").saveAsTable("facts")
    dims = spark.range(0, 200, 1, 2).selectExpr("id AS key", "concat('name ', id) AS name", "id % 10 AS grp")
    dims.write.saveAsTable("dims")


def joins(spark: SparkSession, work: Path) -> None:
    """The five join operators, each with and without adaptive execution; the other join types as the session is."""
    for adaptive in ("true", "false"):
        with settings(spark, {ADAPTIVE: adaptive}):
            run_queries(spark, f"joins, adaptive {adaptive}", JOINS)
    run_queries(spark, "joins", OTHER_JOINS)


def reused_exchange(spark: SparkSession, work: Path) -> None:
    """One exchange with two readers, shuffled and broadcast."""
    query = """
        WITH totals AS (SELECT key, sum(amount) AS total FROM facts GROUP BY key)
        SELECT /*+ {hint}(b) */ count(*) FROM totals a JOIN totals b ON a.key = b.key AND a.total >= b.total"""
    spark.sql(query.format(hint="MERGE")).collect()
    spark.sql(query.format(hint="SHUFFLE_HASH")).collect()
    spark.sql("""
        SELECT /*+ BROADCAST(d), BROADCAST(e) */ count(*)
        FROM facts f JOIN dims d ON f.key = d.key JOIN dims e ON f.day = e.key""").collect()


def subqueries(spark: SparkSession, work: Path) -> None:
    """Subqueries that stay in the plan: scalar, reused, dynamic partition pruning, a run-time Bloom filter."""
    run_queries(spark, "subqueries", SUBQUERIES)
    bloom = {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "1",
        BROADCAST_THRESHOLD: "-1",
    }
    with settings(spark, bloom):
        spark.sql("SELECT count(*) FROM dims d JOIN dims e ON d.key = e.key WHERE e.grp = 3").collect()


def skewed_join(spark: SparkSession, work: Path) -> None:
    """With adaptive execution one reduce partition is split and its other side read several times."""
    skew = {
        BROADCAST_THRESHOLD: "-1",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "20k",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
    }
    for hint in ("MERGE", "SHUFFLE_HASH"):
        query = f"SELECT /*+ {hint}(d) */ max(filler), max(name) FROM facts f JOIN dims d ON f.key = d.key"
        with settings(spark, skew):
            spark.sql(query).collect()


def coalesced_partitions(spark: SparkSession, work: Path) -> None:
    """With adaptive execution few reduce tasks read many small partitions; most of them are empty."""
    with settings(spark, {"spark.sql.shuffle.partitions": "40"}):
        spark.sql("SELECT day, count(*) FROM facts GROUP BY day").collect()


def local_read(spark: SparkSession, work: Path) -> None:
    """With adaptive execution a sort-merge join becomes a broadcast join, whose shuffles are read where they are."""
    with settings(spark, {BROADCAST_THRESHOLD: "20k"}):
        query = "SELECT count(*), max(f.filler) FROM facts f JOIN facts g ON f.id = g.id WHERE g.amount = 3"
        spark.sql(query).collect()


def rebalanced_partitions(spark: SparkSession, work: Path) -> None:
    """With adaptive execution a rebalance splits its large partitions."""
    with settings(spark, {"spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k"}):
        spark.sql("SELECT /*+ REBALANCE(key) */ * FROM facts").write.format("noop").mode("overwrite").save()


def empty_relation(spark: SparkSession, work: Path) -> None:
    """With adaptive execution an empty side ends the query, even while the other side's stage still runs."""
    with settings(spark, {BROADCAST_THRESHOLD: "-1"}):
        empty = "(SELECT key FROM facts WHERE amount < 0)"
        spark.sql(f"SELECT * FROM dims d JOIN {empty} f ON d.key = f.key").collect()
        slow = f"(SELECT id AS key FROM range(0, 4, 1, 1) WHERE {sleep_ms(400)})"
        spark.sql(f"SELECT * FROM {slow} s JOIN {empty} f ON s.key = f.key").collect()


def operators(spark: SparkSession, work: Path) -> None:
    """Operators other than joins and exchanges, one query each."""
    run_queries(spark, "operators", OPERATORS)


def spills(spark: SparkSession, work: Path) -> None:
    """Buffers that spill: the spill size is not zero."""
    limits = {
        f"spark.sql.{operator}.buffer.{limit}": "2000"
        for operator in ("sortMergeJoinExec", "windowExec")
        for limit in ("in.memory.threshold", "spill.threshold")
    }
    with settings(spark, {**limits, BROADCAST_THRESHOLD: "-1"}):
        spark.sql("SELECT max(s) FROM (SELECT count(*) OVER (PARTITION BY key) AS s FROM facts)").collect()
        spark.sql("SELECT /*+ MERGE(f) */ count(*) FROM dims d JOIN facts f ON d.key = f.key").collect()


def actions(spark: SparkSession, work: Path) -> None:
    """Actions that do not read all of their plan, or read it in more than one job."""
    facts = spark.table("facts")
    facts.take(5)
    facts.tail(5)
    facts.limit(7).collect()
    facts.groupBy("key").count().limit(3).collect()
    facts.orderBy("amount").limit(5).collect()
    facts.count()
    facts.isEmpty()
    list(facts.repartition(3).select("id").toLocalIterator())


# Reuse across executions


def cache_read_twice(spark: SparkSession, work: Path) -> None:
    """The execution that fills the cache has the cached plan's values, later ones have zeros."""
    cached = spark.table("facts").groupBy("key").agg({"amount": "sum"}).cache()
    cached.count()
    cached.join(spark.table("dims"), "key").collect()
    cached.unpersist()
    spark.sql("CACHE TABLE cached_dims AS SELECT * FROM dims WHERE grp < 5")
    spark.sql("SELECT count(*) FROM cached_dims a JOIN cached_dims b ON a.key = b.key").collect()
    spark.sql("UNCACHE TABLE cached_dims")
    spark.catalog.dropTempView("cached_dims")


def same_dataframe_twice(spark: SparkSession, work: Path) -> None:
    """Two executions with the same accumulators; the second skips the map stage."""
    totals = spark.sql("SELECT key, sum(amount) FROM facts GROUP BY key")
    totals.collect()
    totals.collect()


def rdd_round_trip(spark: SparkSession, work: Path) -> None:
    """Plans that start from an RDD of another plan, and jobs that belong to no execution."""
    totals = spark.sql("SELECT key, sum(amount) AS total FROM facts GROUP BY key")
    rows = totals.rdd.map(lambda row: (row[0], row[1] * 2))
    spark.createDataFrame(rows, "key LONG, total DOUBLE").groupBy().sum("total").collect()
    rows.count()
    totals.localCheckpoint().filter("total > 0").collect()


def threads(spark: SparkSession, work: Path) -> None:
    """Executions that interleave: three queries at a time, then one DataFrame run by three threads at a time."""
    queries = (JOINS["sort merge"], JOINS["broadcast hash"], OPERATORS["count distinct"])
    shared = spark.sql("SELECT key, count(*) FROM facts GROUP BY key")
    barrier = threading.Barrier(3, timeout=WAIT_SECONDS)

    def act(number: int) -> None:
        spark.sparkContext.setJobDescription(f"threads {number}")
        barrier.wait()
        spark.sql(queries[number]).collect()
        barrier.wait()
        shared.collect()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(act, range(3)))


# Writes, sources, nested executions


def create_and_insert(spark: SparkSession, work: Path) -> None:
    """Commands with nested executions, dynamic partitions, and the result of a command."""
    spark.sql("CREATE TABLE copy USING parquet AS SELECT * FROM facts WHERE day < 2")
    spark.sql("CREATE TABLE by_day (id LONG, amount DOUBLE, day LONG) USING parquet PARTITIONED BY (day)")
    spark.sql("INSERT INTO by_day SELECT id, amount, day FROM facts WHERE day < 3")
    with settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        spark.sql("INSERT OVERWRITE by_day PARTITION (day) SELECT id, amount, day FROM facts WHERE day = 2")
    spark.sql("INSERT INTO by_day PARTITION (day = 9) SELECT id, amount FROM facts WHERE day = 4")
    spark.sql("SELECT day, count(*) FROM by_day GROUP BY day").collect()
    spark.sql("SHOW TABLES").collect()


def sources(spark: SparkSession, work: Path) -> None:
    """Row files, data source version 2 reads and writes, and JDBC."""
    dims = spark.table("dims")
    dims.write.json(str(work / "json"))
    spark.read.json(str(work / "json")).groupBy("grp").count().collect()
    dims.write.format("noop").mode("overwrite").save()
    dims.write.parquet(str(work / "v2"))
    with settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        spark.read.parquet(str(work / "v2")).filter("grp = 1").groupBy().sum("key").collect()
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(work / "derby.log"))
    url, driver = "jdbc:derby:memory:joinsight;create=true", {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    dims.select("key", "grp").write.mode("overwrite").jdbc(url, "dims", properties=driver)
    spark.read.jdbc(url, "dims", properties=driver).filter("grp = 1").collect()


def stream_to_memory(spark: SparkSession, work: Path) -> None:
    """One execution per micro-batch, with a state store; and a source of version 2."""
    write_stream_files(spark, work)
    with settings(spark, {"spark.sql.shuffle.partitions": "2"}):
        counts = stream_files(spark, work).groupBy("grp").count()
        finish(
            counts.writeStream.format("memory").queryName("counts").outputMode("complete").trigger(availableNow=True)
        )
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50).load().filter("value % 2 = 0")
        finish(
            rate.writeStream.format("noop").option("checkpointLocation", str(work / "rate")).trigger(availableNow=True)
        )
    spark.table("counts").collect()


def stream_foreach_batch(spark: SparkSession, work: Path) -> None:
    """A micro-batch without jobs of its own, around executions that the user's function starts."""

    def act(batch: DataFrame, number: int) -> None:
        batch.groupBy("grp").count().collect()
        batch.write.mode("append").parquet(str(work / "batches"))

    writer = stream_files(spark, work).writeStream.foreachBatch(act)
    finish(writer.option("checkpointLocation", str(work / "foreach")).trigger(availableNow=True))


# Python, failures, retries


def python_udf(spark: SparkSession, work: Path) -> None:
    """Rows that go through Python workers."""
    from pyspark.sql.functions import udf

    twice = udf(lambda value: value * 2, "long")
    spark.table("facts").select(twice("key").alias("twice")).groupBy("twice").count().collect()


def retried_udf(spark: SparkSession, work: Path) -> None:
    """A slow task fails once, after heartbeats with partial values, and succeeds when it is tried again."""
    slow_udf(spark, attempts_that_fail=1).collect()


def failing_udf(spark: SparkSession, work: Path) -> None:
    """A slow task fails every time, so its values come from heartbeats only."""
    expect_failure(slow_udf(spark, attempts_that_fail=99).collect, "on purpose")


def failures(spark: SparkSession, work: Path) -> None:
    """Queries that fail in analysis, in a command, in planning, and in a task."""
    broken = "(SELECT IF(id = 7, raise_error('on purpose'), id) AS key FROM range(10))"
    expect_failure(lambda: spark.sql("SELECT nothing FROM facts"), "nothing")
    expect_failure(lambda: spark.sql("SELECT id FROM facts").select("nothing"), "nothing")
    expect_failure(lambda: spark.sql("CREATE TABLE dims (key LONG) USING parquet"), "dims")
    expect_failure(lambda: spark.sql(f"CREATE TABLE copy2 USING parquet AS SELECT * FROM {broken}"), "on purpose")
    with settings(spark, {"spark.sql.crossJoin.enabled": "false"}):
        expect_failure(spark.sql("SELECT * FROM facts, dims WHERE grp = 1").collect, "cartesian")
    expect_failure(
        spark.sql(f"SELECT /*+ BROADCAST(b) */ * FROM dims d JOIN {broken} b ON d.key = b.key").collect, "on purpose"
    )
    query = "SELECT key, sum(IF(id = 7, raise_error('on purpose'), 1)) FROM facts GROUP BY key"
    expect_failure(spark.sql(query).collect, "on purpose")


def broadcast_timeout(spark: SparkSession, work: Path) -> None:
    """A broadcast that exceeds its timeout, which fails only a query without adaptive execution."""
    slow = f"(SELECT id AS key FROM range(1) WHERE {sleep_ms(3000)})"
    with settings(spark, {ADAPTIVE: "false", "spark.sql.broadcastTimeout": "1"}):
        query = spark.sql(f"SELECT /*+ BROADCAST(s) */ count(*) FROM facts f JOIN {slow} s ON f.key = s.key")
        expect_failure(query.collect, "broadcast")


def cancelled(spark: SparkSession, work: Path) -> None:
    """Tasks that are killed, with heartbeats before."""
    context = spark.sparkContext
    tracker = context.statusTracker()

    def has_tasks() -> bool:  # Spark does not count tasks whose start it hears after the end of their stage
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(stage is not None and stage.numActiveTasks for stage in stages)

    def act() -> None:
        context.setJobGroup("cancelled", "cancelled", interruptOnCancel=True)
        query = f"SELECT sum(id) FROM range(0, 1000000, 1, 4) WHERE {sleep_ms(10)}"
        expect_failure(spark.sql(query).collect, "cancelled")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(act)
        while not done.done() and not has_tasks():
            time.sleep(0.05)
        time.sleep(1)
        context.cancelJobGroup("cancelled")
        done.result()


def fetch_failure(spark: SparkSession, work: Path) -> None:
    """All shuffle files are lost: both stages run a second attempt, inside a later execution than the first."""
    totals = spark.sql("SELECT key, sum(amount) FROM facts GROUP BY key")
    for files in shuffle_files_of(spark, totals).values():
        remove(files)
    totals.collect()


def partial_fetch_failure(spark: SparkSession, work: Path) -> None:
    """The files of one map task are lost, and only the last reduce task wants them: its second attempt is alone."""
    with settings(spark, {ADAPTIVE: "false"}):
        last = spark.range(100).filter("pmod(hash(id), 4) = 3").first()[0]
        # The second map task writes one key, the first many.
        keys = spark.range(0, 2000, 1, 2).selectExpr(f"IF(id < 1000, id, {last}L) AS key").groupBy("key").count()
        files = shuffle_files_of(spark, keys)
        remove(files[max(files)])
        keys.collect()


# Help


def run_queries(spark: SparkSession, step: str, queries: Mapping[str, str]) -> None:
    for name, text in queries.items():
        spark.sparkContext.setJobDescription(f"{step}: {name}")
        spark.sql(text).collect()


def expect_failure(action: Callable[[], Any], text: str) -> None:
    """Run an action that must fail with an error that contains `text`."""
    try:
        action()
    except Exception as error:
        if text.lower() not in str(error).lower():
            raise
    else:
        raise AssertionError(f"no failure with {text!r}")


def sleep_ms(milliseconds: int) -> str:
    """A condition that is always true and takes this time for each row."""
    return f"reflect('java.lang.Thread', 'sleep', {milliseconds}L) = 'null'"


def slow_udf(spark: SparkSession, attempts_that_fail: int) -> DataFrame:
    """150 rows through two slow tasks, of which one fails at its last batch of rows in its first attempts."""
    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    def slow(value: int) -> int:
        time.sleep(0.005)
        task = TaskContext.get()
        if task is not None and task.partitionId() == 1 and task.attemptNumber() < attempts_that_fail and value > 480:
            raise ValueError("on purpose")
        return value

    with settings(spark, {ADAPTIVE: "false"}):
        rows = spark.range(500).repartition(2)
        return rows.select(udf(slow, "long")("id").alias("id")).groupBy().sum("id")


def shuffle_files_of(spark: SparkSession, query: DataFrame) -> dict[int, list[Path]]:
    """Run the query; returns the shuffle files that it left, by map task."""
    local = Path(spark.sparkContext.getConf().get(LOCAL_DIR))
    before = set(local.rglob("shuffle_*"))
    query.collect()
    files: dict[int, list[Path]] = {}
    for file in set(local.rglob("shuffle_*")) - before:
        # shuffle_<shuffle>_<map task>_0.<kind>
        files.setdefault(int(file.name.split("_")[2]), []).append(file)
    if not files:
        raise AssertionError("the query left no shuffle files")
    return files


def remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink()


def write_stream_files(spark: SparkSession, work: Path) -> None:
    spark.table("dims").repartition(2).write.parquet(str(work / "stream"))


def stream_files(spark: SparkSession, work: Path) -> DataFrame:
    """The files as a stream, one file a micro-batch."""
    stream = spark.readStream.schema("key LONG, name STRING, grp LONG").option("maxFilesPerTrigger", 1)
    return stream.parquet(str(work / "stream"))


def finish(writer: Any) -> None:
    query = writer.start()
    if not query.awaitTermination(WAIT_SECONDS):
        raise TimeoutError(f"the stream still runs after {WAIT_SECONDS} s")


STEPS: tuple[Step, ...] = (
    write_tables,
    joins,
    reused_exchange,
    subqueries,
    skewed_join,
    coalesced_partitions,
    local_read,
    rebalanced_partitions,
    empty_relation,
    operators,
    spills,
    actions,
    cache_read_twice,
    same_dataframe_twice,
    rdd_round_trip,
    threads,
    create_and_insert,
    sources,
    stream_to_memory,
    stream_foreach_batch,
    python_udf,
    retried_udf,
    failing_udf,
    failures,
    broadcast_timeout,
    cancelled,
    # Last: they make Spark forget this executor's blocks for a moment.
    fetch_failure,
    partial_fetch_failure,
)
# Of `make test`
FEW_STEPS: tuple[Step, ...] = (write_tables, skewed_join, local_read, cache_read_twice, python_udf, failures)
