"""Queries in which exactly one thing is wrong, each with its repaired twin.

A scenario is a function that makes its data and returns a `Planted`: the query, and the query as it would be if
somebody had repaired it. Its label says by which code a verdict should name what is wrong, best first, and by what to
recognise the operator. It is known from how the query was made, and not from what Joinsight says.
"""

from __future__ import annotations

import gzip
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.hogs import hogs
from joinsight.demo.workload import settings

SIZES: Mapping[str, int] = {"small": 1, "medium": 2, "large": 4}
"""How many times the smallest data."""
Operator = tuple[str, str]
"""What the name of a node starts with, and a text that its simple string contains."""
Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A scenario in one size, where it runs."""

    spark: SparkSession
    folder: Path
    shared: Path
    """Stays for the next cases."""
    n: int

    def table(self, name: str, frame: DataFrame, files: int = 4) -> DataFrame:
        """Write a table as Parquet, and read it."""
        path = str(self.folder / name)
        frame.repartition(files).write.mode("overwrite").parquet(path)
        self.spark.read.parquet(path).createOrReplaceTempView(name)
        return self.spark.table(name)

    def range(self, rows: int, *columns: str, partitions: int = 4) -> DataFrame:
        """Rows with an `id`, and these columns."""
        return self.spark.range(0, int(rows), 1, partitions).selectExpr("id", *columns)

    def queries(self, query: str, repaired: str) -> Planted:
        """Both in SQL."""
        return Planted(lambda: self.spark.sql(query).collect(), lambda: self.spark.sql(repaired).collect())

    def with_each(self, query: str, wrong: object, right: object) -> Planted:
        """Both in SQL, with other words in place of ``{}``."""
        return self.queries(query.format(wrong), query.format(right))


@dataclass(frozen=True)
class Planted:
    """The query, and its repaired twin."""

    run: Run
    repaired: Run | None = None
    before: Run | None = None
    """Runs once before the query, and is recorded with it: a cache that is filled, earlier runs."""
    settle: Run | None = None
    """Runs before the twin: undoes what the query left behind."""


@dataclass(frozen=True)
class Scenario:
    """A function that plants something, with its label."""

    make: Callable[[Case], Planted]
    codes: Sequence[str]
    operators: Sequence[Operator]
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session."""
    repaired_conf: Mapping[str, str] = field(default_factory=dict)
    """What the repaired twin sets differently."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the application, which then is its own."""
    repaired_settings: Mapping[str, str] = field(default_factory=dict)
    hosts: int = 0
    """Machines of a cluster of its own; 0: local."""
    sizes: Sequence[str] = tuple(SIZES)

    @property
    def application(self) -> tuple[object, ...]:
        """Equal for scenarios that may run in the same application."""
        return tuple(self.settings.items()), tuple(self.repaired_settings.items()), self.hosts

    @property
    def name(self) -> str:
        return self.make.__name__.replace("_", "-")


SCENARIOS: dict[str, Scenario] = {}


def scenario(codes: str, *operators: str, **settings: Any) -> Callable[[Callable[[Case], Planted]], Scenario]:
    """Register a scenario; `codes` are separated by spaces, the parts of an `Operator` by a colon."""
    named = [(name, text) for name, _, text in (each.partition(": ") for each in operators)]

    def register(make: Callable[[Case], Planted]) -> Scenario:
        made = Scenario(make, codes.split(), named, **settings)
        SCENARIOS[made.name] = made
        return made

    return register


def sink(frame: DataFrame) -> None:
    """Compute all rows and columns."""
    frame.write.format("noop").mode("overwrite").save()


NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
NO_AQE = {"spark.sql.adaptive.enabled": "false"}
SIXTEEN_PARTITIONS = {"spark.sql.shuffle.partitions": "16", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
FOUR_SLOTS = {"spark.master": "local[4]"}
"""So that one long task is a quarter of what could run."""


# Joins


@scenario("join_output output_skew", "SortMergeJoin: customer_id", "BroadcastHashJoin: customer_id")
def self_join(c: Case) -> Planted:
    keys = 6000 // c.n
    c.table(
        "sales", c.range(400_000, f"pmod(hash(id), {keys}) AS customer_id", "id % 50 AS region", "id % 97 AS amount")
    )
    query = (
        "SELECT a.region, count(*), sum(b.amount) FROM sales a JOIN sales b ON a.customer_id = b.customer_id GROUP BY 1"
    )
    first = "SELECT customer_id, count(*) AS n, sum(amount) AS amount FROM sales GROUP BY 1"
    better = (
        f"SELECT a.region, sum(b.n), sum(b.amount) FROM sales a JOIN ({first}) b ON a.customer_id ="
        " b.customer_id GROUP BY 1"
    )
    return c.queries(query, better)


@scenario("join_output output_skew", "SortMergeJoin: day", conf=NO_BROADCAST)
def join_on_half_the_key(c: Case) -> Planted:
    """A join that forgot a column of the key, with a filter and an aggregation above."""
    days = 500 // c.n
    c.table("orders", c.range(200_000, "id % 1000 AS store", f"pmod(hash(id), {days}) AS day", "id % 89 AS amount"))
    c.table("prices", c.range(200_000, "id % 1000 AS store", f"pmod(hash(id + 5), {days}) AS day", "id % 7 AS price"))
    query = "SELECT o.day, sum(amount * price) FROM orders o JOIN prices p ON o.day = p.day{} GROUP BY 1"
    return c.with_each(query, "", " AND o.store = p.store")


@scenario("compute join_output", "BroadcastNestedLoopJoin: ip", "CartesianProduct: ip")
def range_join(c: Case) -> Planted:
    """Addresses looked up in ranges: a nested loop over all pairs."""
    c.table("events", c.range(240_000, "pmod(hash(id), 20000000) AS ip"))
    c.table(
        "ranges",
        c.range(2_000 * c.n, f"id * {10_000 // c.n} AS first_ip", f"(id + 1) * {10_000 // c.n} - 1 AS last_ip"),
    )
    query = (
        "SELECT r.id % 10, count(*) FROM events e JOIN ranges r ON e.ip >= r.first_ip AND e.ip <= r.last_ip{}"
        " GROUP BY 1"
    )
    bins = " AND e.ip div 10000 = r.first_ip div 10000"
    return c.with_each(query, "", bins)


@scenario("compute join_output", "BroadcastNestedLoopJoin: OR", "CartesianProduct: OR")
def join_with_or(c: Case) -> Planted:
    """A condition with OR has no key to hash."""
    c.table("people", c.range(20_000 * c.n, "concat('mail', id) AS email", "concat('phone', id) AS phone"))
    c.table("contacts", c.range(8_000, "concat('mail', id * 3) AS email", "concat('phone', id * 5) AS phone"))
    query = "SELECT count(*) FROM people p JOIN contacts c ON p.email = c.email OR p.phone = c.phone"
    union = "SELECT p.id, c.id AS other FROM people p JOIN contacts c ON p.{0} = c.{0}"
    better = f"SELECT count(*) FROM ({union.format('email')} UNION {union.format('phone')})"
    return c.queries(query, better)


@scenario(
    "data_skew",
    "SortMergeJoin: customer_id",
    "Exchange: customer_id",
    "Sort: customer_id",
    conf={**NO_BROADCAST, **SIXTEEN_PARTITIONS, "spark.sql.adaptive.skewJoin.enabled": "false"},
    repaired_conf={
        "spark.sql.adaptive.skewJoin.enabled": "true",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "4m",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
    },
    settings=FOUR_SLOTS,
)
def skewed_join(c: Case) -> Planted:
    """Nine of ten orders are of customer 7, and AQE may not split its partition."""
    skewed = "CASE WHEN id % 10 < 9 THEN 7 ELSE pmod(hash(id), 100000) END AS customer_id"
    c.table("orders", c.range(700_000 * c.n, skewed, "sha2(string(id), 256) AS note"))
    c.table("customers", c.range(100_000, "id AS customer_id", "concat('name', id) AS name"))
    query = "SELECT max({}) FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    query = query.format("sha2(sha2(sha2(concat(note, name), 512), 512), 512)")
    return c.queries(query, query)


@scenario(
    "data_skew",
    "SortMergeJoin: user_id",
    "Exchange: user_id",
    "Sort: user_id",
    conf={**NO_BROADCAST, **NO_AQE},
    settings=FOUR_SLOTS,
)
def skewed_by_nulls(c: Case) -> Planted:
    """A left join whose key is mostly NULL: all of these rows go to one task."""
    key = "CASE WHEN id % 10 > 0 THEN NULL ELSE id % 50000 END AS user_id"
    c.table("clicks", c.range(600_000 * c.n, key, "sha2(string(id), 256) AS page"))
    c.table("users", c.range(50_000, "id AS user_id", "concat('name', id) AS name"))
    query = (
        "SELECT max(sha2(concat(page, coalesce(name, '')), 512)) FROM {} c LEFT JOIN users u ON c.user_id = u.user_id"
    )
    known = query.format("(SELECT * FROM clicks WHERE user_id IS NOT NULL)")
    unknown = "SELECT max(sha2(page, 512)) FROM clicks WHERE user_id IS NULL"
    return c.queries(query.format("clicks"), f"{known} UNION ALL {unknown}")


@scenario("output_skew join_output", "SortMergeJoin: product_id", conf=NO_BROADCAST, settings=FOUR_SLOTS)
def hot_key_on_both_sides(c: Case) -> Planted:
    """One key of 5,000 rows on both sides among a million that are unique."""
    hot = int(5000 * c.n**0.5)
    key = f"CASE WHEN id < {hot} THEN -1 ELSE id END AS product_id"
    c.table("views", c.range(600_000, key, "id % 31 AS v"))
    c.table("buys", c.range(600_000, key, "id % 37 AS b"))
    query = "SELECT v, count(*), sum(b + v) FROM views JOIN buys USING (product_id){} GROUP BY v"
    return c.with_each(query, "", " WHERE product_id <> -1")


@scenario("broadcast", "BroadcastExchange", "BroadcastHashJoin: key", settings={"spark.driver.memory": "3g"})
def large_broadcast(c: Case) -> Planted:
    """A hint broadcasts the large side to join it with a small one."""
    c.table("large", c.range(1_200_000 * c.n, "id AS key", "sha2(string(id), 256) AS text"))
    c.table("small", c.range(20_000, "id * 50 AS key", "id % 10 AS g"))
    query = "SELECT /*+ BROADCAST({}) */ g, count(*), sum(crc32(text)) FROM small JOIN large USING (key) GROUP BY g"
    return c.with_each(query, "large", "small")


@scenario(
    "few_tasks compute broadcast",
    "Project: sha2",
    "Exchange: SinglePartition",
    "BroadcastExchange",
    settings=FOUR_SLOTS,
)
def broadcast_of_one_task(c: Case) -> Planted:
    """The side to broadcast is computed in one task."""
    c.table("facts", c.range(400_000, "id % 1000 AS k"))
    rows = c.table("rules", c.range(800_000 * c.n, "id % 1000 AS k"))

    def query(parts: int) -> object:
        hashed = rows.repartition(parts).selectExpr("k", "crc32(sha2(sha2(sha2(string(id), 512), 512), 512)) AS rule")
        rules = hashed.groupBy("k").agg(f.max("rule"))
        return c.spark.table("facts").join(f.broadcast(rules), "k").agg(f.count("*")).collect()

    return Planted(lambda: query(1), lambda: query(8))


@scenario("broadcast", "BroadcastExchange", "BroadcastHashJoin: key", settings={"spark.driver.memory": "4g"})
def repeated_broadcast(c: Case) -> Planted:
    """Each branch of a union broadcasts the same table, with another column."""
    columns = [f"concat('text {i} ', id) AS c{i}" for i in range(4)]
    c.table("texts", c.range(150_000 * c.n, "id AS key", *columns))
    c.table("small", c.range(5_000, "id * 50 AS key", "id % 10 AS g"))
    one = "SELECT /*+ BROADCAST(texts) */ g, sum(crc32(c{0})) AS m FROM small JOIN texts USING (key) GROUP BY g"
    query = " UNION ALL ".join(one.format(i) for i in range(4))
    joined = "SELECT /*+ BROADCAST(small) */ g, stack(4, c0, c1, c2, c3) AS c FROM small JOIN texts USING (key)"
    return c.queries(query, f"SELECT g, sum(crc32(c)) FROM ({joined}) GROUP BY g")


# Aggregations and windows


@scenario(
    "data_skew",
    "Exchange: country",
    "Project: sha2",
    "HashAggregate",
    "SortAggregate",
    "Window: country",
    settings=FOUR_SLOTS,
)
def skewed_repartition(c: Case) -> Planted:
    """Rows are distributed by a column of which one value has nine of ten."""
    skewed = "CASE WHEN id % 10 < 9 THEN 'DE' ELSE concat('C', id % 40) END AS country"
    rows = c.table("visits", c.range(800_000 * c.n, skewed, "id % 1000 AS page"))

    def query(*by: str) -> object:
        spread = rows.repartition(8, *by).selectExpr("page", "sha2(sha2(concat(country, id), 512), 512) AS h")
        return spread.groupBy("page").agg(f.sum(f.crc32("h"))).collect()

    return Planted(lambda: query("country"), lambda: query("id"))


@scenario("data_skew", "Window: shop", "Sort: shop", "Exchange: shop", conf=SIXTEEN_PARTITIONS, settings=FOUR_SLOTS)
def skewed_window(c: Case) -> Planted:
    """Running totals of shops of which one has nearly all rows."""
    c.table(
        "receipts",
        c.range(1_000_000 * c.n, "if(id % 20 < 19, 1, id % 500) AS shop", "hash(id) AS at", "id % 9 AS amount"),
    )
    query = "SELECT count(*), max(s) FROM (SELECT sum(amount) OVER (PARTITION BY {} ORDER BY at) AS s FROM receipts)"
    return c.with_each(query, "shop", "shop, id % 8")


@scenario("few_tasks compute", "Window", "Exchange: SinglePartition", "Sort", settings=FOUR_SLOTS)
def window_without_partitions(c: Case) -> Planted:
    """A window without PARTITION BY has one task."""
    c.table("readings", c.range(1_000_000 * c.n, "hash(id) AS at", "id % 64 AS sensor", "id % 9 AS v"))
    query = "SELECT count(*), max(s) FROM (SELECT avg(v) OVER ({} ORDER BY at ROWS 20 PRECEDING) AS s FROM readings)"
    return c.with_each(query, "", "PARTITION BY sensor")


@scenario(
    "few_tasks",
    "Exchange: SinglePartition",
    "Exchange: RoundRobin",
    "Project: sha2",
    "HashAggregate",
    "SortAggregate",
    settings=FOUR_SLOTS,
)
def repartition_to_one(c: Case) -> Planted:
    """Heavy work after repartition(1)."""
    rows = c.table("lines", c.range(700_000 * c.n, "id % 100 AS g"))

    def query(parts: int) -> object:
        hashed = rows.repartition(parts).selectExpr("g", "sha2(sha2(sha2(string(id), 512), 512), 512) AS h")
        return hashed.groupBy("g").agg(f.sum(f.crc32("h"))).collect()

    return Planted(lambda: query(1), lambda: query(8))


@scenario(
    "few_tasks",
    "Coalesce",
    "Project: sha2",
    "Execute InsertIntoHadoopFsRelationCommand",
    "WriteFiles",
    settings=FOUR_SLOTS,
)
def coalesce_to_one_file(c: Case) -> Planted:
    """coalesce(1) for one file, which takes the parallelism from all that is below it."""
    rows = c.table("lines", c.range(600_000 * c.n, "id % 100 AS g"))

    def write(parts: int) -> None:
        hashed = rows.selectExpr("g", "sha2(sha2(sha2(string(id), 512), 512), 512) AS h")
        hashed.coalesce(parts).write.mode("overwrite").parquet(str(c.folder / "out"))

    return Planted(lambda: write(1), lambda: write(8))


@scenario("compute", "Generate: explode", "Generate: sequence")
def exploded_dates(c: Case) -> Planted:
    """A row for each hour of a booking, only to count them."""
    c.table("bookings", c.range(100_000, "id % 100 AS room", f"id % {600 * c.n} AS hours"))
    exploded = "SELECT room, hour FROM bookings LATERAL VIEW explode(sequence(0, hours)) AS hour"
    query = f"SELECT room, count(*), sum(hour) FROM ({exploded}) GROUP BY room"
    better = "SELECT room, sum(hours + 1), sum(hours * (hours + 1) div 2) FROM bookings GROUP BY room"
    return c.queries(query, better)


@scenario("compute shuffle spill", "Expand", "Exchange: c1", "HashAggregate", "ObjectHashAggregate")
def several_distinct_counts(c: Case) -> Planted:
    """Exact distinct counts of six columns: Expand makes six rows of each."""
    columns = [f"pmod(hash(id, {i}), {20_000 + i}) AS c{i}" for i in range(6)]
    c.table("hits", c.range(250_000 * c.n, "id % 20 AS g", *columns))
    query = "SELECT g, " + ", ".join(f"{{0}}c{i})" for i in range(6)) + " FROM hits GROUP BY g"
    return c.with_each(query, "count(DISTINCT ", "approx_count_distinct(")


@scenario(
    "few_tasks",
    "GlobalLimit",
    "Exchange: SinglePartition",
    "Project: sha2",
    "HashAggregate",
    "SortAggregate",
    settings=FOUR_SLOTS,
)
def work_after_limit(c: Case) -> Planted:
    """LIMIT brings all rows into one partition, and heavy work follows."""
    c.table("lines", c.range(4_000_000, "id % 100 AS g"))
    heavy = "SELECT g, sum(crc32(sha2(sha2(sha2(string(id), 512), 512), 512))) FROM ({}) GROUP BY g"
    rows = 500_000 * c.n
    return c.with_each(heavy, f"SELECT * FROM lines LIMIT {rows}", f"SELECT * FROM lines WHERE id < {rows}")


@scenario(
    "few_tasks compute",
    "Exchange: k",
    "HashAggregate: k",
    "Sort: k",
    "Window: k",
    conf={"spark.sql.shuffle.partitions": "1"},
    repaired_conf={"spark.sql.shuffle.partitions": "8"},
    settings=FOUR_SLOTS,
)
def one_shuffle_partition(c: Case) -> Planted:
    """Somebody set spark.sql.shuffle.partitions to 1 for a small job."""
    c.table("moves", c.range(1_000_000 * c.n, "pmod(hash(id), 5000) AS k", "hash(id, 1) AS at", "id % 9 AS v"))
    query = "SELECT count(*), max(s) FROM (SELECT sum(v) OVER (PARTITION BY k ORDER BY at) AS s FROM moves)"
    return c.queries(query, query)


@scenario("output_skew compute", "Generate: explode", "Generate: sequence", settings=FOUR_SLOTS)
def one_row_explodes(c: Case) -> Planted:
    """One contract of a thousand has nearly all days."""
    rows = 2_500_000 * c.n
    c.table("contracts", c.range(1_000, f"if(id = 7, {rows}, 50) AS days", partitions=1), files=4)
    exploded = "SELECT id, sha2(string(d), 256) AS h FROM contracts LATERAL VIEW explode(sequence(1, days)) AS d"
    query = f"SELECT max(h), count(*) FROM ({exploded})"
    split = (
        "SELECT id, explode(sequence(d, least(d + 99999, days))) AS d FROM"
        " (SELECT /*+ REPARTITION(8) */ * FROM (SELECT id, days, explode(sequence(1, days, 100000)) AS d FROM"
        " contracts))"
    )
    return c.queries(query, f"SELECT max(sha2(string(d), 256)), count(*) FROM ({split})")


@scenario("compute", "ObjectHashAggregate: percentile", "SortAggregate: percentile")
def exact_percentiles(c: Case) -> Planted:
    """Exact percentiles keep each value."""
    c.table("latencies", c.range(1_000_000 * c.n, "id % 20 AS g", "rand(5) AS ms"))
    query = "SELECT g, {}(ms, array(0.5, 0.9, 0.99)) FROM latencies GROUP BY g"
    return c.with_each(query, "percentile", "percentile_approx")


# Python


@scenario("python", "BatchEvalPython: slug", "ArrowEvalPython: slug")
def python_udf(c: Case) -> Planted:
    """A Python function for what Spark can do."""
    rows = c.table("titles", c.range(300_000 * c.n, "concat('Some Title - ', id) AS title"))

    def slug(text: str) -> str:
        return "-".join(text.lower().replace(" - ", " ").split())

    in_python = f.udf(slug, "string")
    native = f.regexp_replace(f.lower(f.regexp_replace("title", " - ", " ")), " +", "-")
    return Planted(
        lambda: rows.select(in_python("title").alias("s")).agg(f.max("s")).collect(),
        lambda: rows.select(native.alias("s")).agg(f.max("s")).collect(),
    )


@scenario("python", "MapInPandas")
def map_in_pandas(c: Case) -> Planted:
    """Row by row in pandas."""
    rows = c.table("points", c.range(100_000 * c.n, "id % 360 AS lon", "id % 180 AS lat"))

    def distance(frames: Iterable[Any]) -> Iterator[Any]:
        for frame in frames:
            frame["d"] = frame.apply(lambda row: abs(row["lon"]) + abs(row["lat"]) * 2.0, axis=1)
            yield frame[["d"]]

    return Planted(
        lambda: rows.select("lon", "lat").mapInPandas(distance, "d double").agg(f.max("d")).collect(),
        lambda: rows.selectExpr("abs(lon) + abs(lat) * 2.0D AS d").agg(f.max("d")).collect(),
    )


@scenario("python", "FlatMapGroupsInPandas")
def apply_in_pandas(c: Case) -> Planted:
    """A pandas function for each of many groups."""
    rows = c.table("measures", c.range(200_000 * c.n, f"id % {700 * c.n} AS g", "double(id % 1000) AS v"))

    def normalized(frame: Any) -> Any:
        return frame.assign(v=(frame.v - frame.v.mean()) / frame.v.std())

    better = (
        "SELECT max(v) FROM (SELECT (v - avg(v) OVER w) / stddev(v) OVER w AS v FROM measures WINDOW w AS"
        " (PARTITION BY g))"
    )
    return Planted(
        lambda: rows.groupBy("g").applyInPandas(normalized, "id long, g long, v double").agg(f.max("v")).collect(),
        lambda: c.spark.sql(better).collect(),
    )


@scenario("python", "ArrowEvalPython: score")
def pandas_udf_by_row(c: Case) -> Planted:
    """A pandas UDF that loops over its rows."""
    rows = c.table("people", c.range(600_000 * c.n, "id % 97 AS age", "id % 31 AS visits"))

    def score(age: pandas.Series, visits: pandas.Series) -> pandas.Series:
        return pandas.Series([float(a) * 0.5 + (v if v > 3 else 0) for a, v in zip(age, visits, strict=True)])

    in_pandas = f.pandas_udf(score, "double")
    return Planted(
        lambda: rows.select(in_pandas("age", "visits").alias("s")).agg(f.max("s")).collect(),
        lambda: rows.selectExpr("age * 0.5 + if(visits > 3, visits, 0) AS s").agg(f.max("s")).collect(),
    )


# Expressions


@scenario("compute", "Filter: RLIKE")
def backtracking(c: Case) -> Planted:
    """A regular expression that tries everything before it fails, beside an aggregation."""
    texts = "concat(repeat('ab', 10), if(id % 50 = 0, '', '!'), '') AS code"
    c.table("codes", c.range(120_000 * c.n, texts, "id % 1000 AS g"))
    query = "SELECT g, count(*) FROM codes WHERE code RLIKE '{}' GROUP BY g"
    return c.with_each(query, "^(a|b|ab)+$", "^[ab]+$")


@scenario("compute", "Project: get_json_object", "HashAggregate: get_json_object")
def json_field_by_field(c: Case) -> Planted:
    """Each field parses the whole text again."""
    fields = [f"f{i}" for i in range(12)]
    struct = ", ".join(f"'{name}', concat('value', id % {i + 7})" for i, name in enumerate(fields))
    c.table("messages", c.range(120_000 * c.n, f"to_json(named_struct({struct}, 'more', repeat('x', 300))) AS j"))
    each = ", ".join(f"get_json_object(j, '$.{name}') AS {name}" for name in fields)
    outer = ", ".join(f"max({name})" for name in fields)
    schema = ", ".join(f"{name} string" for name in fields)
    inlined = f"inline(array(from_json(j, '{schema}')))"
    return c.with_each(f"SELECT {outer} FROM (SELECT {{}} FROM messages)", each, inlined)


@scenario("compute", "Project: regexp_replace", "HashAggregate: regexp_replace")
def cleaning_with_expressions(c: Case) -> Planted:
    """Eight regular expressions where one pass would do."""
    c.table("notes", c.range(150_000 * c.n, "concat(repeat('Text, with; some: marks! ', 6), id) AS note"))
    nested = "note"
    for mark in (",", ";", ":", "!", "\\\\.", "\\\\?", "\\\\s+", "-+"):
        nested = f"regexp_replace({nested}, '{mark}', '')"
    query = "SELECT g, sum(crc32(t)) FROM (SELECT id % 100 AS g, {} AS t FROM notes) GROUP BY g"
    return c.with_each(query, nested, "translate(note, ',;:!.?- ', '')")


@scenario("compute shuffle", "Sort: note", "Exchange: rangepartitioning")
def needless_sort(c: Case) -> Planted:
    """All rows are sorted, and then aggregated by another key."""
    rows = c.table("wide", c.range(250_000 * c.n, "concat(sha2(string(id), 256), sha2(string(id + 1), 256)) AS note"))
    return Planted(lambda: sink(rows.orderBy("note", "id")), lambda: sink(rows))


@scenario("compute", "Project: date_format", "HashAggregate: date_format")
def dates_as_texts(c: Case) -> Planted:
    """Months are compared as texts that are formatted and parsed again for each row."""
    c.table("bills", c.range(1_000_000 * c.n, "timestamp_seconds(1700000000 + id) AS at", "id % 9 AS v"))
    slow = "date_format(to_timestamp(date_format(at, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM')"
    query = "SELECT m, sum(v) FROM (SELECT {} AS m, v FROM bills) GROUP BY m"
    return c.with_each(query, slow, "trunc(at, 'MM')")


# Scans


@scenario("small_files scan", "Scan parquet", "Scan csv")
def many_small_files(c: Case) -> Planted:
    """A table of thousands of files with a few rows each."""
    few = c.table("few", c.range(2_000, "sha2(string(id), 256) AS t"), files=2)
    one = c.folder / "one"
    few.limit(10).coalesce(1).write.parquet(str(one))
    (file,) = one.glob("part-*.parquet")
    many = c.folder / "many"
    many.mkdir()
    for i in range(2_500 * c.n):
        os.link(file, many / f"part-{i:05}.parquet")
    frame = c.spark.read.schema(few.schema).parquet(str(many))
    compact = c.table("compact", frame, files=2)
    return Planted(lambda: frame.agg(f.max("t")).collect(), lambda: compact.agg(f.max("t")).collect())


@scenario("scan few_tasks", "Scan csv", "Scan text", settings=FOUR_SLOTS)
def gzip_of_csv(c: Case) -> Planted:
    """A gzip file cannot be split: one task reads it."""
    plain = c.folder / "plain.csv"
    with plain.open("w") as file:
        for i in range(500_000 * c.n):
            file.write(f"{i},{i % 97},customer {i % 1000},some longer text for line {i}\n")
    packed = c.folder / "packed.csv.gz"
    with gzip.open(packed, "wb", compresslevel=1) as out:
        out.write(plain.read_bytes())

    def query(path: Path) -> object:
        frame = c.spark.read.schema("id long, k int, name string, note string").csv(str(path))
        return frame.groupBy("k").agg(f.count("*"), f.sum(f.crc32("name")), f.sum(f.length("note"))).collect()

    return Planted(lambda: query(packed), lambda: query(plain))


@scenario("scan", "Scan json")
def one_field_of_json(c: Case) -> Planted:
    """One field is read from lines of JSON, which are parsed whole."""
    columns = [f"concat('value', id % {i + 7}) AS c{i}" for i in range(25)]
    rows = c.table("lines", c.range(200_000 * c.n, *columns))
    rows.write.json(str(c.folder / "json"))
    frame = c.spark.read.schema(rows.schema).json(str(c.folder / "json"))
    return Planted(lambda: frame.groupBy("c3").count().collect(), lambda: rows.groupBy("c3").count().collect())


@scenario("scan few_tasks", "Scan csv", "Scan text", settings=FOUR_SLOTS)
def csv_of_many_lines(c: Case) -> Planted:
    """multiLine keeps Spark from splitting a CSV file, whose values have no line breaks."""
    path = c.folder / "plain.csv"
    with path.open("w") as file:
        for i in range(800_000 * c.n):
            file.write(f"{i},{i % 97},customer {i % 1000},some longer text for line {i}\n")

    def query(is_multi_line: bool) -> object:
        reader = c.spark.read.schema("id long, k int, name string, note string")
        frame = reader.option("multiLine", is_multi_line).csv(str(path))
        return frame.groupBy("k").agg(f.count("*"), f.sum(f.crc32("name")), f.sum(f.length("note"))).collect()

    return Planted(lambda: query(True), lambda: query(False))


# Shuffles and memory


@scenario("shuffle", "Exchange: RoundRobin", "Exchange: id")
def wide_shuffle(c: Case) -> Planted:
    """All columns of wide rows are shuffled, of which one is used after."""
    columns = [f"sha2(string(id + {i}), 512) AS c{i}" for i in range(6)]
    rows = c.table("wide", c.range(200_000 * c.n, *columns))
    return Planted(lambda: sink(rows.repartition(8, "id")), lambda: sink(rows))


@scenario(
    "spill",
    "Sort: note",
    "Exchange",
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.05"},
    repaired_settings={"spark.driver.memory": "2g", "spark.memory.fraction": "0.6"},
)
def sort_that_spills(c: Case) -> Planted:
    """The sort has a twentieth of the heap."""
    rows = c.table("large", c.range(700_000 * c.n, "hash(id) AS k", "sha2(string(id), 256) AS note"))
    query = lambda: sink(rows.repartition(2).sortWithinPartitions("note"))  # noqa: E731
    return Planted(query, query)


@scenario(
    "gc",
    "ObjectHashAggregate: collect_list",
    "SortAggregate: collect_list",
    settings={"spark.driver.memory": "700m", "spark.driver.extraJavaOptions": "-XX:+UseParallelGC"},
    repaired_settings={"spark.driver.memory": "4g"},
)
def small_heap(c: Case) -> Planted:
    """Lists that hardly fit into the heap."""
    rows = c.table("events", c.range(1_100_000 + 200_000 * c.n, "id % 50 AS g", "concat('event', id) AS e"))

    def query() -> object:
        return rows.groupBy("g").agg(f.collect_list("e").alias("l")).selectExpr("max(size(l))").collect()

    return Planted(query, query)


@scenario(
    "spill",
    "HashAggregate: user_id",
    "SortAggregate: user_id",
    "Exchange: user_id",
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.04", "spark.sql.shuffle.partitions": "2"},
    repaired_settings={"spark.driver.memory": "2g", "spark.memory.fraction": "0.6"},
)
def aggregation_that_spills(c: Case) -> Planted:
    """Groups that do not fit into memory."""
    rows = c.table("visits", c.range(700_000 * c.n, "sha2(string(id), 256) AS user_id", "id % 9 AS v"))

    def query() -> object:
        return rows.groupBy("user_id").agg(f.sum("v").alias("v"), f.max("id")).agg(f.max("v")).collect()

    return Planted(query, query)


# Slots and tasks


@scenario("waiting")
def slots_taken(c: Case) -> Planted:
    """Another query of the application has all slots."""
    rows = c.table("lines", c.range(1_000_000, "id % 100 AS g"))

    def other() -> None:
        c.spark.sparkContext.setJobDescription("other")
        sink(c.spark.range(0, 3_000_000 * c.n, 1, 4).selectExpr("sha2(sha2(sha2(string(id), 512), 512), 512)"))

    def query() -> object:
        return rows.groupBy("g").agg(f.count("*"), f.max("id")).collect()

    def with_other() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(1)
        query()
        thread.join()

    return Planted(with_other, query)


@scenario("tiny_tasks few_tasks", "Exchange: k", "HashAggregate: k", conf=NO_AQE)
def tiny_partitions(c: Case) -> Planted:
    """Thousands of partitions for a few rows."""
    rows = c.table("lines", c.range(50_000, "id % 1000 AS k"))

    def query(parts: int) -> object:
        with settings(c.spark, {"spark.sql.shuffle.partitions": str(parts)}):
            return rows.groupBy("k").agg(f.max("id")).collect()

    return Planted(lambda: query(1000 * c.n), lambda: query(4))


@scenario("contention")
def busy_machine(c: Case) -> Planted:
    """Other processes want the processors; earlier runs had them alone."""
    rows = c.table("lines", c.range(800_000 * c.n, "id % 1000 AS g"))

    def query() -> object:
        return rows.groupBy("g").agg(f.expr("sum(crc32(sha2(sha2(string(id), 512), 512)))")).collect()

    def crowded() -> None:
        with hogs(8):
            query()

    return Planted(crowded, query, before=lambda: [query() for _ in range(3)])


@scenario("slow_host", hosts=2)
def slow_executor(c: Case) -> Planted:
    """One of two hosts is stopped three quarters of the time."""
    rows = c.table("lines", c.range(800_000 * c.n, "id % 100 AS g"))

    def query() -> object:
        hashed = rows.repartition(16).selectExpr("g", "sha2(sha2(sha2(string(id), 512), 512), 512) AS h")
        return hashed.groupBy("g").agg(f.sum(f.crc32("h"))).collect()

    def slowed() -> None:
        with stopping(executor(c.spark.sparkContext.applicationId, "127.0.0.2")):
            query()

    return Planted(slowed, query)


def executor(application: str, host: str) -> int:
    """The process of an application's executor on a host."""
    wanted = {
        application.encode(),
        b"--hostname",
        host.encode(),
        b"org.apache.spark.executor.CoarseGrainedExecutorBackend",
    }
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if wanted <= set(path.read_bytes().split(b"\0")):
                return int(path.parent.name)
    raise RuntimeError(f"no executor of {application} on {host}")


@contextmanager
def stopping(process: int) -> Iterator[None]:
    """A process that stands still three quarters of the time."""
    is_over = threading.Event()

    def slow_down() -> None:
        while not is_over.is_set():
            os.kill(process, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(process, signal.SIGCONT)
            time.sleep(0.1)

    thread = threading.Thread(target=slow_down)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# Driver


@scenario("driver")
def large_result(c: Case) -> Planted:
    """All rows are collected into the driver's Python."""
    rows = c.range(700_000 * c.n, "concat('name', id) AS name", "id % 90 AS age", "id * 3 AS visits", "id % 7 AS day")
    return Planted(
        lambda: rows.select("*").collect(), lambda: rows.groupBy("age").agg(f.sum("visits"), f.max("day")).collect()
    )


@scenario("driver")
def large_result_for_pandas(c: Case) -> Planted:
    """toPandas of all rows without Arrow."""
    rows = c.range(700_000 * c.n, "concat('name', id) AS name", "id % 90 AS age")
    return Planted(lambda: rows.select("*").toPandas(), lambda: rows.groupBy("age").count().toPandas())


@scenario("driver tiny_tasks")
def union_of_many(c: Case) -> Planted:
    """A union of many small aggregations, which AQE plans again after each of their stages."""
    c.table("lines", c.range(1_000, "id % 50 AS k"))
    query = " UNION ALL ".join(f"SELECT k, max(id) AS m FROM lines WHERE k = {i} GROUP BY k" for i in range(30 * c.n))
    better = f"SELECT k, max(id) AS m FROM lines WHERE k < {30 * c.n} GROUP BY k"
    return c.queries(query, better)


@scenario("small_files commit", "Execute InsertIntoHadoopFsRelationCommand", "WriteFiles")
def too_many_partitions_written(c: Case) -> Planted:
    """Each task writes a file into each of hundreds of partitions."""
    rows = c.table("lines", c.range(100_000 * c.n, f"pmod(hash(id), {100 * c.n}) AS day"), files=4)

    def write(frame: DataFrame, *by: str) -> None:
        frame.write.mode("overwrite").partitionBy(*by).parquet(str(c.folder / "out"))

    return Planted(lambda: write(rows.repartition(6), "day"), lambda: write(rows.repartition(4)))


# Caches and nested executions


@scenario(
    "cache",
    "InMemoryTableScan",
    "Scan In-memory",
    settings={"spark.driver.memory": "1g", "spark.memory.fraction": "0.08"},
)
def evicted_cache(c: Case) -> Planted:
    """A cache that does not fit, and is computed again by each query that reads it."""
    rows = c.table("lines", c.range(300_000 * c.n, "id % 100 AS g"))

    def cached(level: StorageLevel) -> DataFrame:
        frame = rows.selectExpr("g", "sha2(sha2(string(id), 512), 512) AS h", "sha2(string(id + 1), 512) AS i").persist(
            level
        )
        frame.count()
        return frame

    frames: list[DataFrame] = []

    def settle() -> None:
        frames.pop().unpersist(blocking=True)
        frames.append(cached(StorageLevel.MEMORY_AND_DISK))

    def query() -> None:
        sink(frames[-1].groupBy("g").agg(f.sum(f.crc32("h")), f.sum(f.crc32("i"))))

    return Planted(query, query, before=lambda: frames.append(cached(StorageLevel.MEMORY_ONLY)), settle=settle)


@scenario("cache compute", "InMemoryTableScan", "Scan In-memory")
def cache_for_one_use(c: Case) -> Planted:
    """A table is cached, and read once."""
    rows = c.table("lines", c.range(150_000 * c.n, *(f"sha2(string(id + {i}), 256) AS c{i}" for i in range(8))))

    def query() -> None:
        frame = rows.selectExpr("*", "c1 AS d1").persist()
        frame.where("id = 7").collect()
        frame.unpersist(blocking=True)

    return Planted(query, lambda: rows.where("id = 7").collect())


@scenario("nested")
def for_each_batch(c: Case) -> Planted:
    """The function of foreachBatch computes the batch three times."""
    c.table("events", c.range(250_000 * c.n, "id % 10 AS g"))
    stream = c.spark.readStream.schema("id long, g long").parquet(str(c.folder / "events"))
    slow = stream.selectExpr("g", "sha2(sha2(string(id), 512), 512) AS h")

    def run(is_cached: bool) -> None:
        def handle(batch: DataFrame, number: int) -> None:
            if is_cached:
                batch.persist()
            for g in range(4):
                batch.where(f"g = {g} OR h > 'f'").agg(f.max("h"), f.count("*")).collect()
            batch.unpersist()

        query = slow.writeStream.foreachBatch(handle).trigger(availableNow=True).start()
        query.awaitTermination()

    return Planted(lambda: run(False), lambda: run(True))


# Nothing


@scenario("even compute")
def equal_branches(c: Case) -> Planted:
    """A union of twelve branches that take the same time each."""
    c.table("lines", c.range(100_000 * c.n, "id % 1000 AS k"))
    one = "SELECT {0} AS b, k, sum(crc32(sha2(concat(id, '{0}'), 256))) AS h FROM lines GROUP BY k"
    query = " UNION ALL ".join(one.format(i) for i in range(12))
    return Planted(lambda: sink(c.spark.sql(query)))
