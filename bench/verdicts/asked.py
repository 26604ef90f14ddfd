"""More queries in which exactly one thing is wrong, after what people ask in public threads.

Written without a look at the rules of the verdict. `scenarios` says what a scenario is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from bench.verdicts.scenarios import FOUR_SLOTS, NO_AQE, NO_BROADCAST, Case, Planted, scenario, sink
from joinsight.demo.workload import settings

HASH = "crc32(sha2(sha2(sha2({}, 512), 512), 512))"
"""Work for each row: some 4 microseconds."""

# Joins


@scenario("join_output", "SortMergeJoin: user_id", "BroadcastHashJoin: user_id", "ShuffledHashJoin: user_id")
def clicks_and_impressions(c: Case) -> Planted:
    """Why does my join never finish? Clicks were to be joined with their impression, not with all of the user's."""
    c.table("impressions", c.range(300_000, "id % 4000 AS user_id", "id % 75 AS session", "id % 40 AS ad"))
    c.table("clicks", c.range(150_000 * c.n, "id % 4000 AS user_id", "id % 75 AS session", "id % 3 AS button"))
    query = (
        "SELECT ad, button, count(*), max(crc32(concat(i.session, '-', button))) FROM clicks k JOIN impressions i ON"
        " k.user_id = i.user_id{} GROUP BY ad, button"
    )
    return c.with_each(query, "", " AND k.session = i.session")


@scenario("join_output", "SortMergeJoin: sku", "BroadcastHashJoin: sku", "ShuffledHashJoin: sku")
def versions_of_a_dimension(c: Case) -> Planted:
    """A dimension has twelve versions of each product, and nobody asked for the current one."""
    c.table("prices", c.range(240_000, "id % 20000 AS sku", "id div 20000 AS version", "id % 91 AS price"))
    c.table("lines", c.range(900_000 * c.n, "pmod(hash(id), 20000) AS sku", "id % 7 AS pieces"))
    hashed = HASH.format("concat(sku, price)")
    query = f"SELECT pieces, max({hashed}) FROM lines JOIN prices USING (sku){{}} GROUP BY pieces"
    return c.with_each(query, "", " WHERE version = 11")


@scenario("compute join_output", "CartesianProduct", "BroadcastNestedLoopJoin")
def nearest_shop(c: Case) -> Planted:
    """The nearest shop by comparing each customer with each shop."""
    c.table("shops", c.range(600, "double(id % 25) AS x", "double(id div 25) AS y", "id AS shop"), files=1)
    c.table("homes", c.range(60_000 * c.n, "double(pmod(hash(id), 2500)) / 100 AS x", "double(id % 2400) / 100 AS y"))
    query = "SELECT h.id, min_by(shop, sqrt(pow(h.x - s.x, 2) + pow(h.y - s.y, 2))) FROM homes h {} GROUP BY h.id"
    near = "JOIN shops s ON floor(h.x) = floor(s.x) AND floor(h.y) = floor(s.y)"
    return Planted(
        lambda: sink(c.spark.sql(query.format("CROSS JOIN shops s"))), lambda: sink(c.spark.sql(query.format(near)))
    )


@scenario(
    "data_skew", "SortMergeJoin: account", "Exchange: account", "Sort: account", conf=NO_BROADCAST, settings=FOUR_SLOTS
)
def default_account(c: Case) -> Planted:
    """199 tasks are done, one runs for ever: unknown accounts are -1. AQE is on, with its defaults."""
    key = "if(id % 8 = 0, pmod(hash(id), 40000), -1) AS account"
    c.table("bookings", c.range(1_000_000 * c.n, key, "concat('text ', id) AS text"))
    c.table("accounts", c.range(40_000, "id - 1 AS account", "concat('name', id) AS name"))
    query = f"SELECT max({HASH.format('concat(text, name)')}) FROM bookings JOIN accounts USING (account)"
    return c.queries(query, query.replace("SELECT", "SELECT /*+ BROADCAST(accounts) */"))


@scenario("output_skew join_output", "BroadcastHashJoin: tag", settings=FOUR_SLOTS)
def hot_tag_of_a_broadcast(c: Case) -> Planted:
    """A broadcast join: the rows with the tag of thousands of rules all lie in one file."""
    c.table("rules", c.range(12_000, "if(id < 6000, 0, id) AS tag", "id AS rule"))
    hot = 1_600 * c.n
    one = c.range(100_000, f"if(id < {hot}, 0, 20000 + id) AS tag", "id % 9 AS v", partitions=1)
    rest = c.range(300_000, "30000 + id AS tag", "id % 9 AS v", partitions=3)
    path = str(c.folder / "events")
    one.coalesce(1).write.parquet(path)
    rest.write.mode("append").parquet(path)
    c.spark.read.parquet(path).createOrReplaceTempView("events")
    query = (
        "SELECT /*+ BROADCAST(rules) */ v, max(crc32(concat(v, rule))) FROM events JOIN rules USING (tag){} GROUP BY v"
    )
    return c.with_each(query, "", " WHERE tag <> 0")


@scenario("broadcast", "BroadcastExchange", "BroadcastHashJoin: id", settings={"spark.driver.memory": "3g"})
def raised_threshold(c: Case) -> Planted:
    """Somebody raised spark.sql.autoBroadcastJoinThreshold to 1 GB."""
    c.table("profiles", c.range(900_000 * c.n, "sha2(string(id), 512) AS text"), files=2)
    c.table("visits", c.range(300_000, "id % 3 AS device"))
    query = "SELECT device, count(*), max(crc32(text)) FROM visits JOIN profiles USING (id) GROUP BY device"

    def run(threshold: str) -> object:
        with settings(c.spark, {"spark.sql.autoBroadcastJoinThreshold": threshold}):
            return c.spark.sql(query).collect()

    return Planted(lambda: run("1g"), lambda: run("10m"))


# Tasks and slots


@scenario("few_tasks compute", "Generate", "Project: sha2", "HashAggregate", settings=FOUR_SLOTS)
def coalesced_by_bytes(c: Case) -> Planted:
    """AQE makes one task of a few bytes, from which much work follows."""
    c.table("plans", c.range(2_000, "id % 50 AS days"))

    def query(repartition: str) -> object:
        few = f"SELECT {repartition} id, days FROM (SELECT id, max(days) AS days FROM plans GROUP BY id)"
        days = f"LATERAL VIEW explode(sequence(1, {400 * c.n})) AS t"
        each = f"SELECT id, {HASH.format('concat(id, t)')} AS h FROM ({few}) {days}"
        return c.spark.sql(f"SELECT max(h) FROM ({each})").collect()

    return Planted(lambda: query(""), lambda: query("/*+ REPARTITION(8) */"))


@scenario("few_tasks", "Project: sha2", "HashAggregate", "Scan parquet", "SortAggregate", settings=FOUR_SLOTS)
def one_row_group(c: Case) -> Planted:
    """A single file with one row group is read by one task, which does all the work."""
    rows = c.table("one", c.range(600_000 * c.n, "id % 30 AS g"), files=1)

    def query(frame: DataFrame) -> object:
        return frame.selectExpr("g", f"{HASH.format('string(id)')} AS h").groupBy("g").agg(f.max("h")).collect()

    return Planted(lambda: query(rows), lambda: query(rows.repartition(8)))


@scenario("few_tasks data_skew", "Window: sex", "Exchange: sex", "Sort: sex", settings=FOUR_SLOTS)
def window_of_two_values(c: Case) -> Planted:
    """PARTITION BY a column that has two values: two tasks do all."""
    c.table("people", c.range(1_500_000 * c.n, "id % 2 AS sex", "hash(id) AS income", "id % 40 AS district"))
    query = "SELECT max(r) FROM (SELECT rank() OVER (PARTITION BY {} ORDER BY income) AS r FROM people)"
    return c.with_each(query, "sex", "sex, district")


@scenario("tiny_tasks", "Exchange", "Scan", "Range", "Project", "HashAggregate")
def repartitioned_by_thousands(c: Case) -> Planted:
    """repartition(3000) because a blog said so."""
    rows = c.table("lines", c.range(60_000, "id % 100 AS g"))

    def query(parts: int) -> object:
        return rows.repartition(parts).selectExpr("g", "id * 2 AS d").where("d > 7").agg(f.max("d")).collect()

    return Planted(lambda: query(2_500 * c.n), lambda: query(4))


@scenario("waiting")
def thread_pool(c: Case) -> Planted:
    """Six queries of a thread pool: the last one waits until all before it are done."""
    rows = c.table("lines", c.range(700_000, "id % 100 AS g"))

    def heavy(number: int) -> None:
        c.spark.sparkContext.setJobDescription("other")
        sink(c.spark.range(number, number + 700_000 * c.n, 1, 6).selectExpr(HASH.format("string(id)")))

    def query() -> object:
        return rows.groupBy("g").agg(f.max("id")).collect()

    def crowd() -> None:
        threads = [threading.Thread(target=heavy, args=(i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        query()
        for thread in threads:
            thread.join()

    return Planted(crowd, query)


# Python


@scenario("python", "BatchEvalPython", "ArrowEvalPython")
def looks_up_a_dict(c: Case) -> Planted:
    """A dictionary in a Python function instead of a join, and a filter on its result."""
    names = {i: f"name {i}" for i in range(2_000)}
    rows = c.table("hits", c.range(500_000 * c.n, "int(id % 2500) AS k"))
    named = f.udf(lambda k: "".join(reversed(names.get(k, "unknown"))), "string")
    c.spark.createDataFrame([(k, n[::-1]) for k, n in names.items()], "k int, name string").createOrReplaceTempView(
        "names"
    )
    return Planted(
        lambda: rows.withColumn("name", named("k")).where("name <> 'x'").groupBy("name").count().collect(),
        lambda: c.spark.sql(
            "SELECT coalesce(name, 'nwonknu') AS n, count(*) FROM hits LEFT JOIN names USING (k) GROUP BY 1"
        ).collect(),
    )


@scenario("python")
def through_an_rdd(c: Case) -> Planted:
    """df.rdd.map(...).toDF(): all rows go to Python and back."""
    rows = c.table("hits", c.range(250_000 * c.n, "id % 97 AS k", "id % 7 AS v"))

    def query() -> object:
        mapped = rows.rdd.map(lambda row: (row.k, row.v * 2 + len(str(row.id))))
        return c.spark.createDataFrame(mapped, "k long, v long").groupBy("k").agg(f.sum("v")).collect()

    return Planted(
        query, lambda: rows.selectExpr("k", "v * 2 + length(string(id)) AS v").groupBy("k").agg(f.sum("v")).collect()
    )


@scenario("python", "MapInArrow", "PythonMapInArrow")
def calls_a_service(c: Case) -> Planted:
    """A service is asked for each of a few rows, and takes its time."""
    rows = c.table("addresses", c.range(2_000 * c.n, "concat('street ', id) AS street"))

    def located(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for _ in range(batch.num_rows):
                time.sleep(0.004)
            yield batch

    return Planted(
        lambda: rows.mapInArrow(located, rows.schema).agg(f.max("street")).collect(),
        lambda: rows.agg(f.max("street")).collect(),
    )


@scenario(
    "data_skew python",
    "FlatMapGroupsInPandas",
    "Exchange: shop",
    "Sort: shop",
    conf={"spark.sql.shuffle.partitions": "12", "spark.sql.adaptive.coalescePartitions.enabled": "false"},
    settings=FOUR_SLOTS,
)
def model_of_each_shop(c: Case) -> Planted:
    """A model for each shop in pandas, of which one has nearly all rows."""
    rows = c.table("sales", c.range(300_000 * c.n, "if(id % 12 > 0, 1, id % 300) AS shop", "double(id % 991) AS v"))

    def model(frame: Any) -> Any:
        total = 0.0
        for value in frame.v:
            total += value * 0.5 + len(str(value))
        return frame.head(1).assign(v=total)[["shop", "v"]]

    def query(frame: DataFrame, *by: str) -> object:
        return frame.groupBy(*by).applyInPandas(model, "shop long, v double").agg(f.max("v")).collect()

    return Planted(lambda: query(rows, "shop"), lambda: query(rows.selectExpr("*", "id % 16 AS part"), "shop", "part"))


# Expressions


@scenario(
    "compute",
    "Project: levenshtein",
    "Filter: levenshtein",
    "SortMergeJoin: levenshtein",
    "BroadcastHashJoin: levenshtein",
)
def similar_names(c: Case) -> Planted:
    """Names that are nearly equal, by levenshtein on all pairs of a district."""
    c.table(
        "people",
        c.range(
            16_000 * c.n,
            f"id % {160 * c.n} AS district",
            "concat('Maximilian Mustermann the ', pmod(hash(id), 90000)) AS name",
        ),
    )
    query = (
        "SELECT count(*) FROM people a JOIN people b ON a.district = b.district AND a.id < b.id{} WHERE"
        " levenshtein(a.name, b.name) < 2"
    )
    return c.with_each(query, "", " AND right(a.name, 2) = right(b.name, 2)")


@scenario("compute few_tasks", "Window: day")
def long_frames(c: Case) -> Planted:
    """The least of the last 2,000 rows, for each row."""
    c.table("ticks", c.range(30_000 * c.n, "id % 6 AS day", "pmod(hash(id), 100000) AS price"))
    query = (
        "SELECT max(m) FROM (SELECT min(price) OVER (PARTITION BY day ORDER BY id ROWS {} PRECEDING) AS m FROM ticks)"
    )
    return c.with_each(query, 2_000, 20)


@scenario("compute", "Project: aggregate(", "Project: lambda", "Project: transform", "HashAggregate: lambda")
def arrays_by_lambda(c: Case) -> Planted:
    """Higher-order functions over arrays of hundreds of values."""
    c.table("series", c.range(20_000 * c.n, "transform(sequence(1, 300), i -> double((i * id) % 1000)) AS v"))
    slow = "aggregate(transform(filter(v, x -> x > 3), x -> sqrt(x) * 2), 0D, (a, x) -> a + x)"
    return c.queries(
        f"SELECT max(s) FROM (SELECT {slow} AS s FROM series)", "SELECT max(s) FROM (SELECT size(v) AS s FROM series)"
    )


@scenario("compute", "Filter: RLIKE", "Filter: regexp", "HashAggregate: regexp_extract", "Project: regexp_extract")
def log_lines(c: Case) -> Planted:
    """Five fields of a log line by five regular expressions."""
    line = (
        "concat('10.0.0.', id % 250, ' - - [25/Nov/2026] \"GET /page/', id % 1000, ' HTTP/1.1\" 200 ', id,"
        " ' \"-\" \"agent ', id % 40, '\"')"
    )
    c.table("log", c.range(200_000 * c.n, f"{line} AS line"))
    whole = '^(\\\\S+) (\\\\S+) (\\\\S+) \\\\[([^\\\\]]+)\\\\] "(.*?) (.*?) (.*?)" (\\\\d+) (\\\\d+) "(.*)" "(.*)"$'
    each = ", ".join(f"regexp_extract(line, '{whole}', {i}) AS f{i}" for i in (1, 4, 6, 8, 9))
    query = f"SELECT f1, f8, count(*), max(f4), max(f6), max(f9) FROM (SELECT {each} FROM log) GROUP BY f1, f8"
    parts = "(SELECT split(line, ' ') AS p FROM log)"
    split = f"SELECT p[0], p[8], count(*), max(p[3]), max(p[5]), max(p[9]) FROM {parts} GROUP BY 1, 2"
    return c.queries(query, split)


@scenario("compute shuffle spill", "Sort", "Exchange: rangepartitioning", "SortMergeJoin")
def sorted_for_nothing(c: Case) -> Planted:
    """A global ORDER BY before the write of wide rows."""
    rows = c.table("wide", c.range(300_000 * c.n, "sha2(string(id), 512) AS a", "sha2(string(id + 1), 512) AS b"))
    return Planted(
        lambda: rows.orderBy("a", "b").write.mode("overwrite").parquet(str(c.folder / "out")),
        lambda: rows.write.mode("overwrite").parquet(str(c.folder / "out")),
    )


@scenario("compute", "HashAggregate", "ObjectHashAggregate", "SortAggregate")
def sets_of_each(c: Case) -> Planted:
    """collect_set of texts by user, only for their number."""
    c.table("pages", c.range(700_000 * c.n, "id % 5000 AS user_id", "concat('/page/', pmod(hash(id), 60000)) AS page"))
    query = "SELECT max(n) FROM (SELECT user_id, {} AS n FROM pages GROUP BY user_id)"
    return c.with_each(query, "size(array_sort(collect_set(page)))", "approx_count_distinct(page)")


# Scans and writes


@scenario("small_files scan driver tiny_tasks", "Scan csv", "Scan parquet")
def a_file_a_minute(c: Case) -> Planted:
    """A stream wrote a file each minute, into folders by hour."""
    rows = c.table(
        "minutes", c.range(60_000, f"id % {1_400 * c.n} AS minute", "concat('some text ', id) AS t"), files=2
    )
    path = str(c.folder / "many")
    rows.repartition(2, "minute").write.partitionBy("minute").csv(path)
    many = c.spark.read.schema("id long, t string, minute int").csv(path)
    return Planted(
        lambda: many.agg(f.max("t"), f.count("*")).collect(), lambda: rows.agg(f.max("t"), f.count("*")).collect()
    )


@scenario("scan", "Scan parquet")
def all_columns(c: Case) -> Planted:
    """A Python step wants whole rows of a wide table, of which two columns are used."""
    columns = [f"sha2(string(id + {i}), 256) AS c{i}" for i in range(16)]
    rows = c.table("wide", c.range(150_000 * c.n, *columns))
    all_of_it = "max(length(concat_ws('', *)))"
    return Planted(
        lambda: rows.selectExpr(all_of_it).collect(),
        lambda: rows.selectExpr("max(length(concat_ws('', c0, c1)))").collect(),
    )


@scenario("scan", "Scan json", "Scan csv")
def filter_on_a_hidden_partition(c: Case) -> Planted:
    """The filter is on an expression that Spark cannot use to skip folders: all days are read."""
    rows = c.range(500_000 * c.n, "id % 30 AS day", "concat('some text ', id) AS t", "concat('more text ', id) AS u")
    path = str(c.folder / "days")
    rows.repartition(2).write.partitionBy("day").json(path)
    frame = c.spark.read.schema("id long, t string, u string, day int").json(path)
    frame.createOrReplaceTempView("days")
    query = "SELECT count(*), max(t), max(u) FROM days WHERE {}"
    return c.with_each(query, "day + id % 2 - id % 2 = 7", "day = 7")


@scenario("commit small_files tiny_tasks driver", "Execute InsertIntoHadoopFsRelationCommand", "WriteFiles")
def a_file_for_each_task(c: Case) -> Planted:
    """A write with 1,500 tasks leaves 1,500 files."""
    rows = c.table("lines", c.range(100_000, "id % 100 AS g"))

    def write(parts: int) -> None:
        rows.repartition(parts).write.mode("overwrite").parquet(str(c.folder / "out"))

    return Planted(lambda: write(1_200 * c.n), lambda: write(4))


# Memory, shuffles, driver


@scenario(
    "spill",
    "Sort",
    "SortMergeJoin",
    "Exchange",
    conf={**NO_BROADCAST, "spark.sql.shuffle.partitions": "4"},
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.06"},
    repaired_settings={"spark.driver.memory": "2g", "spark.memory.fraction": "0.6"},
)
def join_that_spills(c: Case) -> Planted:
    """Both sides of a sort-merge join spill."""
    c.table("a", c.range(500_000 * c.n, "pmod(hash(id), 1000000) AS k", "sha2(string(id), 256) AS t"))
    c.table("b", c.range(500_000 * c.n, "pmod(hash(id, 1), 1000000) AS k", "sha2(string(id), 256) AS u"))
    query = "SELECT count(*), max(crc32(concat(t, u))) FROM a JOIN b USING (k)"
    return c.queries(query, query)


@scenario("shuffle compute", "Exchange", "HashAggregate", "SortAggregate", conf=NO_AQE)
def distinct_of_wide_rows(c: Case) -> Planted:
    """SELECT DISTINCT of rows that are distinct anyway."""
    columns = [f"sha2(string(id + {i}), 256) AS c{i}" for i in range(5)]
    rows = c.table("wide", c.range(220_000 * c.n, *columns))
    return Planted(lambda: sink(rows.distinct()), lambda: sink(rows))


@scenario("driver")
def hundreds_of_columns(c: Case) -> Planted:
    """A loop of withColumn makes a plan of hundreds of projections."""
    rows = c.table("one", c.range(1_000, "id % 7 AS a"))

    def loop() -> object:
        frame = rows
        for i in range(90 + 30 * c.n):
            frame = frame.withColumn(
                f"c{i}", f.expr(f"CASE WHEN a > {i} THEN {f'c{i - 1}' if i else 'a'} + 1 ELSE id END")
            )
        return frame.agg(*(f.max(name) for name in frame.columns)).collect()

    return Planted(loop, lambda: rows.agg(f.max("a")).collect())


@scenario("driver", settings={"spark.driver.memory": "3g", "spark.driver.maxResultSize": "0"})
def to_pandas_for_a_mean(c: Case) -> Planted:
    """toPandas with Arrow of many rows, to compute a mean."""
    rows = c.table("values", c.range(1_500_000 * c.n, "rand(1) AS a", "concat('t', id) AS t", "rand(2) AS b"))
    c.spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    return Planted(lambda: rows.toPandas().a.mean(), lambda: rows.agg(f.avg("a")).collect())


@scenario("cache", "InMemoryTableScan", "Scan In-memory")
def first_read_of_a_cache(c: Case) -> Planted:
    """The first query after cache() pays for it."""
    rows = c.table("lines", c.range(400_000 * c.n, "id % 100 AS g"))
    hashed = rows.selectExpr("g", f"{HASH.format('string(id)')} AS h", "sha2(string(id), 256) AS t")

    def first() -> None:
        frame = hashed.persist()
        frame.groupBy("g").agg(f.max("h")).collect()
        frame.unpersist(blocking=True)

    return Planted(first)


@scenario("nested")
def two_sinks(c: Case) -> Planted:
    """foreachBatch writes each batch to two tables, and computes it twice."""
    c.table("events", c.range(300_000 * c.n, "id % 10 AS g"))
    stream = c.spark.readStream.schema("id long, g long").parquet(str(c.folder / "events"))
    slow = stream.selectExpr("g", f"{HASH.format('string(id)')} AS h")

    def run(is_cached: bool) -> None:
        def handle(batch: DataFrame, number: int) -> None:
            if is_cached:
                batch.persist()
            sink(batch.where("g < 5"))
            sink(batch.where("g >= 5").groupBy("g").agg(f.max("h")))
            batch.unpersist()

        slow.writeStream.foreachBatch(handle).trigger(availableNow=True).start().awaitTermination()

    return Planted(lambda: run(False), lambda: run(True))
