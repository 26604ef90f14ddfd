"""Queries in which exactly one thing is wrong, a third set: with other interfaces, formats and operators.

Written without a look at the rules of the verdict, after both other sets had been used to correct them. `scenarios`
says what a scenario is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pandas
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from bench.verdicts.asked import HASH
from bench.verdicts.scenarios import FOUR_SLOTS, NO_AQE, NO_BROADCAST, SIXTEEN_PARTITIONS, Case, Planted, scenario, sink
from joinsight.demo.workload import settings

# Joins


@scenario("join_output", "SortMergeJoin: day", "BroadcastHashJoin: day", "ShuffledHashJoin: day")
def pairs_of_a_day(c: Case) -> Planted:
    """A self-join with DataFrames finds all pairs of a day, where neighbours were wanted."""
    rows = c.table("trades", c.range(36_000 * c.n, "id % 60 AS day", "hash(id) % 1000 AS price", "id div 60 AS n"))
    a, b = rows.alias("a"), rows.alias("b")
    gap = f.max(f.abs(f.col("a.price") - f.col("b.price")))

    def run(condition: str) -> object:
        return a.join(b, f.expr(condition)).groupBy("a.day").agg(gap, f.count("*")).collect()

    return Planted(lambda: run("a.day = b.day"), lambda: run("a.day = b.day AND a.n + 1 = b.n"))


@scenario("compute join_output", "BroadcastNestedLoopJoin", "CartesianProduct")
def not_in_with_nulls(c: Case) -> Planted:
    """NOT IN of two columns that may be NULL cannot be hashed."""
    c.table("seen", c.range(5_000 * c.n, "nullif(id % 100000, -1) AS a", "nullif(id % 77, -1) AS b"))
    c.table("asked", c.range(40_000, "nullif(id * 3, -1) AS a", "nullif(id % 78, -1) AS b"))
    query = "SELECT count(*) FROM asked WHERE {}"
    return c.queries(
        query.format("(a, b) NOT IN (SELECT a, b FROM seen)"),
        query.format("NOT EXISTS (SELECT 1 FROM seen WHERE seen.a = asked.a AND seen.b = asked.b)"),
    )


@scenario("compute join_output", "BroadcastNestedLoopJoin: BETWEEN", "BroadcastNestedLoopJoin: >=")
def price_valid_from(c: Case) -> Planted:
    """Each sale looks for the price that was valid then, by BETWEEN alone."""
    c.table("prices", c.range(2_500, "id * 400 AS valid_from", "id * 400 + 399 AS valid_to", "id % 7 AS price"))
    c.table("sales", c.range(120_000 * c.n, "pmod(hash(id), 1000000) AS at"))
    join = "JOIN prices p ON s.at >= p.valid_from AND s.at <= p.valid_to"
    query = "SELECT sum(price) FROM sales s {}"
    return c.with_each(query, join, f"{join} AND s.at div 400 = p.valid_from div 400")


@scenario(
    "data_skew",
    "SortMergeJoin: email",
    "Exchange: email",
    "Sort: email",
    conf={**NO_BROADCAST, **NO_AQE, "spark.sql.shuffle.partitions": "16"},
    settings=FOUR_SLOTS,
)
def empty_texts_of_a_left_join(c: Case) -> Planted:
    """Most contacts have an empty text for their address; a left join keeps them all in one partition."""
    key = "if(id % 5 = 0, concat(id, '@example.org'), '') AS email"
    c.table("contacts", c.range(900_000 * c.n, key, "concat(repeat('x', 40), id) AS note"))
    c.table("users", c.range(50_000, "concat(id * 5, '@example.org') AS email", "id % 9 AS plan"))
    hashed = HASH.format("note")
    query = f"SELECT plan, max({hashed}) FROM contacts LEFT JOIN users USING (email) GROUP BY plan"
    return Planted(
        lambda: c.spark.sql(query).collect(),
        lambda: c.spark.sql(
            query.replace(
                "FROM contacts", "FROM (SELECT nullif(email, '') AS email, note FROM contacts DISTRIBUTE BY id)"
            ).replace("SELECT plan", "SELECT /*+ BROADCAST(users) */ plan")
        ).collect(),
    )


@scenario(
    "data_skew",
    "FlatMapGroupsInPandas",
    "Exchange: tenant",
    "FlatMapCoGroupsInPandas",
    settings=FOUR_SLOTS,
    conf=NO_AQE | {"spark.sql.shuffle.partitions": "8"},
)
def one_large_tenant(c: Case) -> Planted:
    """applyInPandas by tenant, one of which has most of the rows."""
    rows = c.table("usage", c.range(160_000 * c.n, "if(id % 10 < 8, 1, id % 40) AS tenant", "id % 1000 AS v"))

    def slow(group: pandas.DataFrame) -> pandas.DataFrame:
        total = 0
        for value in group["v"]:
            for _ in range(30):
                total = (total * 31 + int(value)) % 1_000_003
        return pandas.DataFrame({"tenant": [int(group["tenant"].iloc[0])], "total": [total]})

    def run(keys: list[Any]) -> object:
        return rows.groupBy(*keys).applyInPandas(slow, "tenant long, total long").collect()

    return Planted(lambda: run(["tenant"]), lambda: run(["tenant", f.expr("id % 16").alias("part")]))


@scenario("broadcast", "BroadcastExchange", "BroadcastNestedLoopJoin", settings={"spark.driver.memory": "3g"})
def broadcast_by_function(c: Case) -> Planted:
    """`broadcast()` in the code of a time when the table was small."""
    c.table("devices", c.range(1_000_000 * c.n, "concat(repeat('d', 40), id) AS text", "id % 17 AS model"), files=2)
    c.table("alerts", c.range(50_000, "id * 3 AS device"))
    alerts, devices = c.spark.table("alerts"), c.spark.table("devices")

    def run(other: DataFrame) -> object:
        joined = alerts.join(other.withColumnRenamed("id", "device"), "device")
        return joined.groupBy("model").agg(f.max(f.crc32("text"))).collect()

    return Planted(lambda: run(f.broadcast(devices)), lambda: run(devices.hint("shuffle_merge")))


# Python


@scenario("python", "BatchEvalPythonUDTF", "ArrowEvalPythonUDTF")
def table_function(c: Case) -> Planted:
    """A Python table function splits texts."""
    c.table("notes", c.range(60_000 * c.n, "concat_ws(' ', 'a', id, id + 1, id * 7, 'end') AS note"))

    @f.udtf(returnType="word string")
    class Words:
        def eval(self, note: str) -> Iterator[tuple[str]]:
            for word in note.split(" "):
                if sum(ord(each) for each in word) >= 0:
                    yield (word,)

    c.spark.udtf.register("words_of", Words)
    query = "SELECT count(*), max(word) FROM notes, LATERAL {}"
    return c.with_each(query, "words_of(note)", "explode(split(note, ' ')) AS t(word)")


@scenario("python", "ArrowAggregatePython", "AggregateInPandas", "ArrowAggregate")
def aggregate_in_pandas(c: Case) -> Planted:
    """A grouped pandas UDF for a geometric mean."""
    rows = c.table("rates", c.range(400_000 * c.n, f"id % {4_000 * c.n} AS fund", "1 + (id % 100) / 10000 AS rate"))

    @f.pandas_udf("double")  # type: ignore[untyped-decorator]
    def geometric(rates: pandas.Series) -> float:
        product = 1.0
        for rate in rates:
            product *= rate
        return float(product ** (1 / len(rates)))

    return Planted(
        lambda: sink(rows.groupBy("fund").agg(geometric("rate"))),
        lambda: sink(rows.groupBy("fund").agg(f.exp(f.avg(f.log("rate"))))),
    )


@scenario("python", "BatchEvalPython", "ArrowEvalPython")
def python_in_the_filter(c: Case) -> Planted:
    """A condition in Python keeps Spark from everything below it."""
    rows = c.table("hosts", c.range(250_000 * c.n, "concat('10.', id % 256, '.', id % 99, '.', id % 7) AS ip"))

    @f.udf("boolean")  # type: ignore[untyped-decorator]
    def is_internal(ip: str) -> bool:
        parts = [int(each) for each in ip.split(".")]
        return parts[0] == 10 and sum(parts) % 3 == 0

    total = f.expr("aggregate(transform(split(ip, '[.]'), x -> int(x)), 0, (a, x) -> a + x) % 3 = 0")
    return Planted(
        lambda: rows.where(is_internal("ip")).agg(f.count("*")).collect(),
        lambda: rows.where(total).agg(f.count("*")).collect(),
    )


@scenario("python")
def group_by_key(c: Case) -> Planted:
    """The words of an RDD are counted by groupByKey."""
    c.table("logs", c.range(250_000 * c.n, "id % 3000 AS host", "id % 17 AS v"))

    def grouped() -> object:
        pairs = c.spark.table("logs").rdd.map(lambda row: (row.host, row.v))
        counted = pairs.groupByKey(8).mapValues(lambda values: sum(values))
        return c.spark.createDataFrame(counted, "host long, v long").agg(f.max("v")).collect()

    return Planted(
        grouped, lambda: c.spark.table("logs").groupBy("host").agg(f.sum("v")).agg(f.max("sum(v)")).collect()
    )


# An operator's own work


@scenario(
    "compute", "Project: from_json", "HashAggregate: from_json", "ObjectHashAggregate: from_json", "Project: variant"
)
def json_column(c: Case) -> Planted:
    """A column of JSON is parsed with its whole schema by each query."""
    fields = ", ".join(f"'f{i}', concat('value ', id + {i})" for i in range(15))
    rows = c.table(
        "messages",
        c.range(120_000 * c.n, f"to_json(named_struct({fields.replace(', ', ', ')})) AS body", "id % 5 AS g"),
    )
    schema = ", ".join(f"f{i} string" for i in range(15))
    parsed = rows.select("g", f.from_json("body", schema).alias("j"))
    columns = [f.max(f"j.f{i}") for i in range(15)]
    return Planted(
        lambda: parsed.groupBy("g").agg(*columns).collect(), lambda: rows.groupBy("g").agg(f.max("id")).collect()
    )


@scenario("compute few_tasks", "Window")
def rank_for_the_newest(c: Case) -> Planted:
    """A window with a frame of all rows for each row."""
    rows = c.table("states", c.range(60_000 * c.n, "id % 12 AS device", "id div 12 AS at", "id % 1000 AS v"))
    window = Window.partitionBy("device").orderBy("at").rowsBetween(-2_000, 2_000)
    short = Window.partitionBy("device").orderBy("at").rowsBetween(-2, 2)

    def run(over: Any) -> None:
        sink(rows.withColumn("smooth", f.max("v").over(over)))

    return Planted(lambda: run(window), lambda: run(short))


@scenario(
    "compute shuffle",
    "ObjectHashAggregate: collect_list",
    "SortAggregate: collect_list",
    "Project: array_sort",
    "Project: sort_array",
)
def sorted_lists(c: Case) -> Planted:
    """Lists of all events are collected and sorted, to take the last."""
    rows = c.table(
        "events",
        c.range(500_000 * c.n, f"id % {3_000 * c.n} AS session", "hash(id) AS at", "concat('page ', id % 999) AS page"),
    )
    lists = rows.groupBy("session").agg(f.array_sort(f.collect_list(f.struct("at", "page"))).alias("all"))
    return Planted(
        lambda: lists.agg(f.max(f.element_at("all", -1).page)).collect(),
        lambda: rows.groupBy("session").agg(f.max_by("page", "at").alias("p")).agg(f.max("p")).collect(),
    )


@scenario("compute shuffle", "Expand", "HashAggregate", "Exchange: spark_grouping_id")
def cube_of_everything(c: Case) -> Planted:
    """A cube of seven columns, of whose 128 groupings three are used."""
    columns = [f"pmod(hash(id, {i}), {5 + i}) AS c{i}" for i in range(7)]
    c.table("facts", c.range(50_000 * c.n, *columns, "id % 1000 AS v"))
    names = ", ".join(f"c{i}" for i in range(7))
    query = f"SELECT {names}, sum(v) FROM facts GROUP BY {{}}"
    return Planted(
        lambda: sink(c.spark.sql(query.format(f"CUBE({names})"))),
        lambda: sink(c.spark.sql(query.format("GROUPING SETS ((c0), (c1), (c0, c1))").replace(names, "c0, c1", 1))),
    )


@scenario(
    "compute",
    "Project: decimal",
    "HashAggregate: decimal",
    "Project: cast",
    "HashAggregate: pow",
    "Project: levenshtein",
    "Filter: levenshtein",
    "SortMergeJoin: levenshtein",
    "BroadcastHashJoin: levenshtein",
    "ShuffledHashJoin: levenshtein",
)
def distance_of_texts(c: Case) -> Planted:
    """Each pair of names of a block is compared by its edit distance: the filter is the work, not the join."""
    c.table("people", c.range(1_200 * c.n, "id % 3 AS block", "sha2(string(id), 256) AS name"))
    query = "SELECT count(*) FROM people a JOIN people b ON a.block = b.block AND a.id < b.id WHERE {}"
    return c.with_each(query, "levenshtein(a.name, b.name) < 9", "a.name = b.name")


# Sources and writes


@scenario("small_files scan driver tiny_tasks", "Scan json", "Scan orc")
def small_files_of_json(c: Case) -> Planted:
    """A folder for each hour with a small JSON file, read without a schema that is known."""
    rows = c.range(60_000, f"id % {700 * c.n} AS hour", "concat('event ', id) AS text")
    path, whole = str(c.folder / "hours"), str(c.folder / "whole")
    rows.repartition(1).write.partitionBy("hour").json(path)
    rows.repartition(2).write.json(whole)
    schema = "id long, text string, hour long"

    def run(folder: str) -> object:
        return c.spark.read.schema(schema).json(folder).agg(f.max("text"), f.count("*")).collect()

    return Planted(lambda: run(path), lambda: run(whole))


@scenario("scan", "Scan csv", "Scan text")
def wide_csv(c: Case) -> Planted:
    """Eighty columns of text, parsed with the types of a schema, for the mean of one."""
    columns = [f"cast(rand({i}) AS double) AS c{i}" for i in range(80)]
    rows = c.range(60_000 * c.n, *columns)
    rows.repartition(4).write.mode("overwrite").csv(str(c.folder / "csv"))
    rows.repartition(4).write.mode("overwrite").parquet(str(c.folder / "parquet"))
    schema = "id long, " + ", ".join(f"c{i} double" for i in range(80))
    every = [f.max(f"c{i}") for i in range(80)]
    csv = c.spark.read.schema(schema).csv(str(c.folder / "csv"))
    parquet = c.spark.read.parquet(str(c.folder / "parquet"))
    return Planted(lambda: csv.agg(*every).collect(), lambda: parquet.agg(*every).collect())


@scenario(
    "few_tasks",
    "Execute InsertIntoHadoopFsRelationCommand",
    "WriteFiles",
    "Coalesce",
    "Exchange: RoundRobin",
    "Exchange: SinglePartition",
    "Project: sha2",
    settings=FOUR_SLOTS,
)
def one_file_please(c: Case) -> Planted:
    """repartition(1) before a write of compressed rows."""
    rows = c.table("lines", c.range(500_000 * c.n, "sha2(string(id), 512) AS t", "sha2(string(id + 1), 512) AS u"))

    def write(parts: int) -> None:
        rows.repartition(parts).write.mode("overwrite").option("compression", "gzip").json(str(c.folder / "out"))

    return Planted(lambda: write(1), lambda: write(8))


@scenario("few_tasks scan", "Scan parquet", "Range", "Project: sha2", "HashAggregate", settings=FOUR_SLOTS)
def one_small_file_of_work(c: Case) -> Planted:
    """A file of few bytes is one task, and each row of it is much work."""
    c.table("seeds", c.range(6_000 * c.n, "id % 50 AS g"), files=1)
    work = f"aggregate(sequence(1, 100), 0L, (a, x) -> a + {HASH.format('concat(id, x)')})"
    return c.with_each(f"SELECT max({work}) FROM {{}}", "seeds", "(SELECT /*+ REPARTITION(16) */ * FROM seeds)")


# The driver, caches, memory


@scenario("driver")
def thousands_of_literals(c: Case) -> Planted:
    """A list of ids from somewhere becomes an IN of thousands of literals with as many conditions."""
    rows = c.table("items", c.range(2_000, "id % 7 AS a"))

    def run(count: int) -> object:
        conditions = " OR ".join(f"(id = {i * 3} AND a > {i % 5})" for i in range(count))
        return rows.where(conditions).agg(f.count("*")).collect()

    return Planted(lambda: run(350 + 150 * c.n), lambda: run(2))


@scenario("driver", settings={"spark.driver.memory": "3g", "spark.driver.maxResultSize": "0"})
def row_by_row_in_the_driver(c: Case) -> Planted:
    """toLocalIterator fetches one partition after the other, and Python works on each row."""
    rows = c.table("orders", c.range(120_000 * c.n, "id % 100 AS g", "concat('text ', id) AS t"))

    def loop() -> int:
        return sum(len(row.t) for row in rows.collect())

    return Planted(loop, lambda: rows.agg(f.sum(f.length("t"))).collect())


@scenario("driver tiny_tasks")
def loop_of_small_jobs(c: Case) -> Planted:
    """head() in a loop over partitions: many short jobs of one query."""
    c.table("parts", c.range(50_000 * c.n, "id % 40 AS p", "id % 7 AS v"))
    union = " UNION ALL ".join(f"(SELECT p, max(v) AS m FROM parts WHERE p = {i} GROUP BY p)" for i in range(40))
    return c.queries(
        f"SELECT max(m) FROM ({union})", "SELECT max(m) FROM (SELECT p, max(v) AS m FROM parts GROUP BY p)"
    )


@scenario(
    "spill",
    "Window",
    "Sort",
    "Exchange",
    conf={"spark.sql.shuffle.partitions": "4"},
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.05"},
    repaired_settings={"spark.driver.memory": "2g", "spark.memory.fraction": "0.6"},
)
def window_that_spills(c: Case) -> Planted:
    """Wide rows are sorted for a window, with too little memory."""
    columns = [f"sha2(string(id + {i}), 256) AS c{i}" for i in range(4)]
    rows = c.table("wide", c.range(350_000 * c.n, "pmod(hash(id), 500) AS g", *columns))
    window = Window.partitionBy("g").orderBy("c0")
    return Planted(
        lambda: sink(rows.withColumn("n", f.row_number().over(window))),
        lambda: sink(rows.withColumn("n", f.row_number().over(window))),
    )


@scenario("waiting")
def other_users_hold_the_slots(c: Case) -> Planted:
    """A long stage of another query was first; FIFO."""
    rows = c.table("mine", c.range(300_000 * c.n, "id % 100 AS g"))
    hashed = HASH.format("string(id)")

    def mine() -> None:
        rows.groupBy("g").agg(f.max(f.expr(hashed))).collect()

    def busy() -> None:
        c.spark.sparkContext.setJobDescription("other")
        c.range(6_000_000 * c.n, partitions=24).agg(f.max(f.expr(hashed))).collect()
        c.spark.sparkContext.setJobDescription(None)

    def both() -> None:
        other = threading.Thread(target=busy)
        other.start()
        time.sleep(2)
        mine()
        other.join()

    return Planted(both, mine)


@scenario("shuffle", "Exchange: hashpartitioning", "Exchange: id", conf=NO_BROADCAST | SIXTEEN_PARTITIONS)
def wide_rows_for_a_semi_join(c: Case) -> Planted:
    """All columns of all rows are shuffled to keep one in a thousand."""
    columns = [f"concat(sha2(string(id + {i}), 256), sha2(string(id - {i}), 256)) AS c{i}" for i in range(5)]
    c.table("documents", c.range(150_000 * c.n, *columns))
    c.table("wanted", c.range(150 * c.n, "id * 1000 AS w"))
    joined = "documents LEFT SEMI JOIN wanted ON documents.id = w"
    query = f"SELECT {{}} count(*), max(c0), max(c1), max(c2), max(c3), max(c4) FROM {joined}"
    return c.with_each(query, "", "/*+ BROADCAST(wanted) */")


@scenario(
    "tiny_tasks",
    "Exchange",
    "HashAggregate",
    "SortMergeJoin",
    "Sort",
    conf={"spark.sql.adaptive.coalescePartitions.enabled": "false", **NO_BROADCAST},
)
def partitions_for_a_large_cluster(c: Case) -> Planted:
    """spark.sql.shuffle.partitions of a large cluster, for a join of two small tables."""
    c.table("a", c.range(20_000, "id % 5000 AS k"))
    c.table("b", c.range(20_000, "id % 5000 AS k"))

    def run(count: int) -> object:
        query = "SELECT count(*) FROM (SELECT DISTINCT k FROM a) JOIN (SELECT DISTINCT k FROM b) USING (k)"
        with settings(c.spark, {"spark.sql.shuffle.partitions": str(count)}):
            return c.spark.sql(query).collect()

    return Planted(lambda: run(900 * c.n), lambda: run(4))
