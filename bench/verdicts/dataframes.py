"""More queries in which exactly one thing is wrong, most of them written with DataFrames.

Labelled before their verdicts were seen. `scenarios` says what a scenario is.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pandas
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from bench.hogs import hogs
from bench.verdicts.scenarios import NO_AQE, NO_BROADCAST, Case, Planted, executor, scenario, sink, stopping

MORE_MEMORY = {"spark.driver.memory": "3g"}


def hashes(number: int, start: str = "c") -> list[str]:
    """Columns of 128 letters each."""
    return [f"sha2(concat(id, '{i}'), 512) AS {start}{i}" for i in range(number)]


# Joins


@scenario("join_output", "BroadcastHashJoin: sku", "SortMergeJoin: sku")
def history_without_validity(c: Case) -> Planted:
    """A left join to a history of prices forgot when each was valid."""
    orders = c.table("orders", c.range(400_000 * c.n, "id % 2000 AS sku", "id % 91 AS pieces"))
    history = c.table("history", c.range(160_000, "id % 2000 AS sku", "id div 2000 AS version", "id % 13 AS price"))

    def query(prices: DataFrame) -> object:
        value = f.col("pieces") * f.coalesce("price", f.lit(0))
        return orders.join(prices, "sku", "left").groupBy("sku").agg(f.sum(value), f.max("version")).collect()

    return Planted(lambda: query(history), lambda: query(history.where("version = 3")))


@scenario("join_output", "SortMergeJoin: visitor", "ShuffledHashJoin: visitor", conf=NO_BROADCAST)
def pairs_of_pages(c: Case) -> Planted:
    """Each pair of pages that a visitor saw, though each was to be counted once."""
    visits = c.table("visits", c.range(300_000 * c.n, f"pmod(hash(id), {3000 * c.n}) AS visitor", "id % 60 AS page"))

    def query(seen: DataFrame) -> None:
        a, b = seen.alias("a"), seen.alias("b")
        pairs = a.join(b, f.expr("a.visitor = b.visitor AND a.page < b.page"))
        pages = pairs.groupBy("a.page", "b.page").count().toDF("page", "other", "n")
        pages.write.mode("overwrite").csv(str(c.folder / "out"))

    once = visits.dropDuplicates(["visitor", "page"]).where("page % 4 = 0")
    return Planted(lambda: query(visits), lambda: query(once))


@scenario("compute join_output", "BroadcastNestedLoopJoin: first_day", "CartesianProduct: first_day")
def periods_by_cross_join(c: Case) -> Planted:
    """A cross join with a filter: which period has each day?"""
    day = "date_add(DATE'2020-01-01', cast({} AS int))"
    events = c.table("events", c.range(300_000 * c.n, f"{day.format('pmod(hash(id), 2000)')} AS day"))
    first, last = (
        f"{day.format(number)} AS {name}_day" for number, name in (("id * 3", "first"), ("id * 3 + 2", "last"))
    )
    periods = c.table("periods", c.range(700, first, last))
    within = "day BETWEEN first_day AND last_day"

    def third(frame: DataFrame, column: str) -> DataFrame:
        return frame.withColumn("third", f.expr(f"datediff({column}, DATE'2020-01-01') div 3"))

    near = third(events, "day").join(third(periods, "first_day"), "third")
    return Planted(
        lambda: events.crossJoin(periods).where(within).groupBy("first_day").count().collect(),
        lambda: near.where(within).groupBy("first_day").count().collect(),
    )


@scenario("python", "BatchEvalPython: similar", "ArrowEvalPython: similar")
def function_of_both_sides(c: Case) -> Planted:
    """A Python function in the condition of a join: Spark filters by it above the join."""
    left = c.table("people", c.range(60_000 * c.n, "id % 3000 AS code", "concat('Miller ', id % 700) AS name"))
    right = c.table("names", c.range(30_000, "id % 3000 AS code", "concat('Muller ', id % 900) AS other"))

    def alike(name: str, other: str) -> bool:
        return sum(a == b for a, b in zip(name, other, strict=False)) > 6

    def query(is_alike: Column) -> object:
        joined = left.join(right, (left["code"] == right["code"]) & is_alike)
        return joined.groupBy(left["code"]).count().agg(f.max("count")).collect()

    alike.__name__ = "similar"
    similar = f.udf(alike, "boolean")
    return Planted(
        lambda: query(similar(left["name"], right["other"])),
        lambda: query(f.levenshtein(left["name"], right["other"]) < 4),
    )


@scenario("broadcast", "BroadcastExchange", "BroadcastHashJoin", settings=MORE_MEMORY)
def large_side_of_a_left_join(c: Case) -> Planted:
    """The hint is on the large side of a left join."""
    text = "concat('some text of ', id, ' and more') AS text"
    large = c.table("large", c.range(1_600_000 * c.n, "id AS k", text, "hash(id) AS h"))
    small = c.table("small", c.range(40_000, "id * 30 AS k", "id % 12 AS g"))

    def query(joined: DataFrame) -> object:
        return joined.groupBy("g").agg(f.max("text"), f.sum("h")).collect()

    return Planted(
        lambda: query(small.join(f.broadcast(large), "k", "left")),
        lambda: query(large.join(f.broadcast(small), "k", "right")),
    )


@scenario(
    "broadcast",
    "BroadcastExchange",
    "BroadcastHashJoin",
    settings=MORE_MEMORY,
    conf={"spark.sql.autoBroadcastJoinThreshold": "1g"},
)
def known_addresses(c: Case) -> Planted:
    """An anti join broadcasts all that are known, of which it needs those of a few new ones."""
    mail = "concat('mail', id{}, '@example.org') AS mail"
    known = c.table("known", c.range(1_400_000 * c.n, mail.format(""))).select("mail")
    new = c.table("new", c.range(60_000, mail.format(" * 40")))
    again = known.join(f.broadcast(new), "mail", "left_semi").select("mail")
    return Planted(
        lambda: new.join(known, "mail", "left_anti").count(),
        lambda: new.join(f.broadcast(again), "mail", "left_anti").count(),
    )


# Skew, slots, tasks


@scenario("data_skew", "Exchange: country", "Execute InsertIntoHadoopFsRelationCommand", "WriteFiles")
def one_large_country(c: Case) -> Planted:
    """A repartition by country before a write: nine of ten rows have the same one."""
    country = "if(id % 10 < 9, 'US', concat('X', id % 30)) AS country"
    rows = c.table("sales", c.range(900_000 * c.n, country, *hashes(2)))

    def write(*by: Column | str) -> None:
        writer = rows.repartition(8, *by).write.mode("overwrite").option("compression", "gzip")
        writer.partitionBy("country").parquet(str(c.folder / "out"))

    return Planted(lambda: write("country"), lambda: write("country", f.expr("id % 8")))


@scenario("output_skew compute", "Generate: explode", "Generate: posexplode")
def long_documents_first(c: Case) -> Planted:
    """The long documents are all in one file."""
    words = 20_000 * c.n
    text = f"if(id < 40, repeat('word other more text ', {words}), 'short text here') AS text"
    rows = c.range(2_000, text, partitions=1)
    for name, frame in (("sorted", rows.repartitionByRange(6, "id")), ("spread", rows.repartition(6))):
        frame.write.parquet(str(c.folder / name))

    def query(name: str) -> object:
        words = c.spark.read.parquet(str(c.folder / name)).select(f.posexplode(f.split("text", " ")).alias("n", "word"))
        return words.groupBy("word").agg(f.count("*"), f.max(f.expr("sha2(concat(word, n), 256)"))).collect()

    return Planted(lambda: query("sorted"), lambda: query("spread"))


@scenario("slow_host")
def one_row_waits(c: Case) -> Planted:
    """One row calls something that takes nine seconds."""
    rows = c.range(800_000, "id % 9 AS g", partitions=6)

    def query(ms: int) -> object:
        waits = f"CASE WHEN id = 700001 THEN java_method('java.lang.Thread', 'sleep', id * 0 + {ms}L) END"
        return rows.groupBy("g").agg(f.expr("sum(crc32(sha2(string(id), 512)))"), f.expr(f"max({waits})")).collect()

    return Planted(lambda: query(9_000 * c.n), lambda: query(1))


@scenario("slow_host", hosts=2)
def standing_host(c: Case) -> Planted:
    """One of two hosts stands still most of the time, and gets one of twenty tasks."""
    rows = c.table("lines", c.range(900_000 * c.n, "id % 100 AS g"))

    def query() -> object:
        hashed = rows.repartition(20).selectExpr("g", "crc32(sha2(sha2(string(id), 512), 512)) AS h")
        return hashed.groupBy("g").agg(f.sum("h")).collect()

    def slowed() -> None:
        with stopping(executor(c.spark.sparkContext.applicationId, "127.0.0.2")):
            query()

    return Planted(slowed, query)


@scenario("waiting")
def naps_of_an_rdd(c: Case) -> Planted:
    """A job of an RDD, which is no query, holds all slots."""
    rows = c.table("lines", c.range(600_000, "id % 100 AS g"))

    def query() -> object:
        return rows.groupBy("g").agg(f.expr("sum(crc32(sha2(string(id), 256)))")).collect()

    def beside() -> None:
        context = c.spark.sparkContext

        def nap(rows: Iterable[int]) -> Iterable[int]:
            time.sleep(7 * c.n)
            return rows

        thread = threading.Thread(target=lambda: context.parallelize(range(2), 2).mapPartitions(nap).count())
        thread.start()
        time.sleep(1.5)
        query()
        thread.join()

    return Planted(beside, query)


@scenario(
    "tiny_tasks",
    "Exchange",
    "SortMergeJoin",
    "HashAggregate",
    "Sort",
    conf={**NO_AQE, **NO_BROADCAST, "spark.sql.shuffle.partitions": "1500"},
    repaired_conf={"spark.sql.shuffle.partitions": "4"},
)
def full_join_of_dust(c: Case) -> Planted:
    """A full join and an aggregation of a few rows, with thousands of partitions."""
    left = c.table("left", c.range(20_000 * c.n, "id AS k"))
    right = c.table("right", c.range(20_000 * c.n, "id AS k", "id % 5 AS g"))
    query = lambda: left.join(right, "k", "full").groupBy("g").count().collect()  # noqa: E731
    return Planted(query, query)


@scenario(
    "tiny_tasks",
    "Scan parquet",
    "HashAggregate",
    conf={"spark.sql.files.maxPartitionBytes": "64k", "spark.sql.files.openCostInBytes": "0"},
    repaired_conf={"spark.sql.files.maxPartitionBytes": "128m", "spark.sql.files.openCostInBytes": "4m"},
)
def split_to_dust(c: Case) -> Planted:
    """Somebody set how much of a file a task reads to 64 KiB."""
    c.table("numbers", c.range(3_000_000 * c.n, *(f"hash(id, {i}) AS c{i}" for i in range(5))), files=2)

    def query() -> object:
        rows = c.spark.read.parquet(str(c.folder / "numbers"))
        return rows.groupBy(f.expr("c0 % 7")).agg(*(f.sum(f"c{i}") for i in range(1, 5))).collect()

    return Planted(query, query)


@scenario("contention")
def busy_neighbours(c: Case) -> Planted:
    """Seven other processes, while earlier runs had none."""
    rows = c.table("numbers", c.range(700_000 * c.n, "pmod(hash(id), 9000) AS g"))

    def query() -> object:
        hashed = rows.groupBy("g").agg(f.expr("max(sha2(sha2(string(id), 384), 384))").alias("h"))
        return hashed.agg(f.max("h")).collect()

    def crowded() -> None:
        with hogs(7):
            query()

    return Planted(crowded, query, before=lambda: [query() for _ in range(4)])


# Python


@scenario("python", "ArrowEvalPython: parse", "BatchEvalPython: parse")
def dict_of_each_line(c: Case) -> Planted:
    """A function makes a dict of each line, for one of its values."""
    rows = c.table("lines", c.range(250_000 * c.n, "concat('user=', id, ';lang=de;age=', id % 80) AS line"))

    def parse(line: str) -> int:
        return int(dict(part.split("=") for part in line.split(";"))["age"])

    def query(age: Column) -> None:
        rows.groupBy(age.alias("age")).count().write.mode("overwrite").csv(str(c.folder / "out"))

    in_python = f.udf(parse, "int")
    return Planted(
        lambda: query(in_python("line")), lambda: query(f.regexp_extract("line", r"age=(\d+)", 1).cast("int"))
    )


@scenario("python", "AggregateInPandas", "ArrowAggregatePython")
def mean_without_the_ends(c: Case) -> Planted:
    """An aggregation in pandas, which sorts each group in Python."""
    rows = c.table("times", c.range(400_000 * c.n, "id % 8000 AS g", "double(pmod(hash(id), 10000)) AS ms"))

    def trimmed(ms: pandas.Series) -> float:
        values = sorted(ms)
        cut = len(values) // 10
        return float(sum(values[cut : len(values) - cut]) / max(1, len(values) - 2 * cut))

    in_pandas = f.pandas_udf(trimmed, "double")

    def query(middle: Column) -> object:
        return rows.groupBy("g").agg(middle.alias("m")).agg(f.max("m")).collect()

    return Planted(lambda: query(in_pandas("ms")), lambda: query(f.percentile_approx("ms", 0.5)))


@scenario("python", "MapInArrow")
def loop_over_arrow(c: Case) -> Planted:
    """A loop over each value of an Arrow batch."""
    rows = c.table("texts", c.range(350_000 * c.n, "concat('x', id) AS text")).select("text")

    def letters(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow  # in the worker

        for batch in batches:
            yield pyarrow.RecordBatch.from_pydict({"n": [sum(map(ord, each.as_py())) for each in batch.column(0)]})

    return Planted(
        lambda: rows.mapInArrow(letters, "n long").agg(f.sum("n")).collect(),
        lambda: rows.selectExpr("ascii(text) + length(text) AS n").agg(f.sum("n")).collect(),
    )


# Files


@scenario("scan few_tasks", "Scan json")
def one_json_document(c: Case) -> Planted:
    """multiLine reads a file as one value."""
    path = c.folder / "one.json"
    rows = ({"id": i, "k": i % 97, "name": f"customer {i % 1000}", "note": "x" * 80} for i in range(300_000 * c.n))
    path.write_text("[" + ",\n".join(map(json.dumps, rows)) + "]\n")
    frame = c.spark.read.option("multiLine", True).schema("id long, k int, name string, note string").json(str(path))
    stored = c.table("stored", frame)

    def query(frame: DataFrame) -> object:
        return frame.groupBy("k").agg(f.count("*"), f.max("name"), f.sum(f.length("note"))).collect()

    return Planted(lambda: query(frame), lambda: query(stored))


@scenario("scan", "Scan csv")
def two_of_sixty_columns(c: Case) -> Planted:
    """A CSV file of sixty columns, of which two are needed."""
    rows = c.range(1_500_000 * c.n, *(f"concat('v', id % {i + 11}) AS c{i}" for i in range(60)))
    rows.write.option("header", True).csv(str(c.folder / "csv"))
    frame = c.spark.read.option("header", True).schema(rows.schema).csv(str(c.folder / "csv"))
    stored = c.table("stored", frame)

    def query(frame: DataFrame) -> object:
        return frame.groupBy("c3").agg(f.count_distinct("c9")).collect()

    return Planted(lambda: query(frame), lambda: query(stored))


@scenario("small_files scan", "Scan csv")
def folder_for_each_bucket(c: Case) -> Planted:
    """A folder with a file of three lines for each of thousands of buckets."""
    buckets = 1_600 * c.n
    path = str(c.folder / "buckets")
    c.range(3 * buckets, f"id % {buckets} AS bucket", "id % 7 AS v", partitions=1).write.partitionBy("bucket").csv(path)
    frame = c.spark.read.schema("id long, v int, bucket int").csv(path)
    stored = c.table("stored", frame, files=2)

    def query(frame: DataFrame) -> object:
        return frame.groupBy("v").agg(f.count("*"), f.max("bucket")).collect()

    return Planted(lambda: query(frame), lambda: query(stored))


@scenario("small_files commit", "Execute InsertIntoHadoopFsRelationCommand", "WriteFiles")
def each_task_writes_each_day(c: Case) -> Planted:
    """Eight tasks write a file of each day."""
    rows = c.table("days", c.range(300_000, f"pmod(hash(id), {125 * c.n}) AS day", "id % 7 AS v"), files=8)

    def write(frame: DataFrame) -> None:
        frame.write.mode("overwrite").partitionBy("day").json(str(c.folder / "out"))

    return Planted(lambda: write(rows.repartition(8)), lambda: write(rows.repartition(2, "day")))


# Shuffles, memory, caches


@scenario("shuffle", "Exchange: REPARTITION")
def repartition_before_a_group(c: Case) -> Planted:
    """A repartition of wide rows by their number, before they are grouped by something else."""
    rows = c.table("wide", c.range(350_000 * c.n, "id % 900 AS k", *hashes(5)))

    def query(frame: DataFrame) -> None:
        sink(frame.groupBy("k").agg(*(f.max_by(f"c{i}", "id") for i in range(5))))

    return Planted(lambda: query(rows.repartition(24, "id")), lambda: query(rows))


@scenario(
    "spill",
    "Window: k",
    "Sort: k",
    conf={**NO_AQE, "spark.sql.shuffle.partitions": "2"},
    repaired_conf={"spark.sql.shuffle.partitions": "64"},
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.08"},
)
def window_of_two_tasks(c: Case) -> Planted:
    """Two tasks have to sort all rows of a window in a small heap."""
    rows = c.table("texts", c.range(900_000 * c.n, "id % 3000 AS k", "sha2(string(id), 512) AS text"))
    total = f.sum(f.crc32("text")).over(Window.partitionBy("k").orderBy("text"))
    query = lambda: sink(rows.withColumn("total", total))  # noqa: E731
    return Planted(query, query)


@scenario("cache", "InMemoryTableScan", "Scan In-memory")
def on_disk_for_one_count(c: Case) -> Planted:
    """Wide rows are persisted on disk, and counted once."""
    rows = c.table("wide", c.range(350_000 * c.n, *hashes(6)))

    def query(frame: DataFrame) -> object:
        return frame.where("c0 < '8'").agg(f.count("*"), f.max("c1")).collect()

    def cached() -> None:
        frame = rows.persist(StorageLevel.DISK_ONLY)
        query(frame)
        frame.unpersist(blocking=True)

    return Planted(cached, lambda: query(rows))


# Driver


@scenario("driver")
def long_cases(c: Case) -> Planted:
    """Names are looked up by a CASE of hundreds of branches."""
    rows = c.table("codes", c.range(20_000, "id % 5000 AS code"))
    branch = "WHEN code = {0} AND id % {1} < 5 THEN concat('name {0} ', id)"
    branches = [[branch.format(i + 200 * k, i % 13 + 2) for i in range(100 + 50 * c.n)] for k in range(12)]
    cases = [f"CASE {' '.join(each)} ELSE 'none' END AS n{k}" for k, each in enumerate(branches)]
    names = c.range(2_400, "id AS code", "concat('name ', id, ' ') AS n0")

    def query() -> object:
        return rows.selectExpr(*cases).groupBy("n0").agg(*(f.max(f"n{k}") for k in range(1, 12))).count()

    return Planted(query, lambda: rows.join(f.broadcast(names), "code", "left").groupBy("n0").count().count())
