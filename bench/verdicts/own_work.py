"""Operators that take long by themselves, and what Spark does for them: sorts, windows, expressions, new objects.

Labelled before their verdicts were seen. `scenarios` says what a scenario is.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from bench.verdicts.scenarios import Case, Planted, scenario, sink

HASHES = f.expr("crc32(sha2(sha2(sha2(concat(v, id), 512), 512), 512))")
"""Takes several microseconds for a row."""


@scenario("compute", "Sort: code", "Exchange: rangepartitioning")
def order_by_before_a_write(c: Case) -> Planted:
    """Files are read in any order."""
    codes = c.table("codes", c.range(1_500_000 * c.n, "concat(reverse(string(id * 7919)), '-', id % 100) AS code"))

    def write(frame: DataFrame) -> None:
        frame.write.mode("overwrite").option("compression", "none").parquet(str(c.folder / "out"))

    return Planted(lambda: write(codes.orderBy(f.desc("code"))), lambda: write(codes))


@scenario("compute", "Sort: name", "Exchange: rangepartitioning")
def order_by_three_columns(c: Case) -> Planted:
    """The same in SQL."""
    columns = ("reverse(string(id * 31)) AS a", "concat('n', pmod(hash(id), 99991)) AS name", "hash(id, 3) AS d")
    c.table("names", c.range(1_200_000 * c.n, *columns))
    query = "SELECT * FROM names{}"
    return Planted(
        lambda: sink(c.spark.sql(query.format(" ORDER BY name, a DESC, d"))),
        lambda: sink(c.spark.sql(query.format(""))),
    )


@scenario("compute", "Window: k")
def range_of_many_rows(c: Case) -> Planted:
    """Each row aggregates 1,500 others."""
    rows = c.table("rows", c.range(200_000 * c.n, "id % 20 AS k", "id div 20 AS at", "id % 17 AS v"))

    def query(preceding: int) -> object:
        frame = f"OVER (PARTITION BY k ORDER BY at RANGE BETWEEN {preceding} PRECEDING AND CURRENT ROW)"
        both = rows.withColumn("most", f.expr(f"max(v) {frame}")).withColumn("mean", f.expr(f"avg(v) {frame}"))
        return both.agg(f.sum("most"), f.sum("mean")).collect()

    return Planted(lambda: query(1_500), lambda: query(5))


@scenario("compute", "Project: price", "HashAggregate: price", "Project: rate")
def long_decimals(c: Case) -> Planted:
    """Decimals of 38 digits, where double would do."""
    columns = (
        "cast(id / 7.0 AS decimal(38,12)) AS price",
        "cast(id % 97 + 1 AS decimal(38,12)) AS rate",
        "id % 50 AS g",
    )
    rows = c.table("prices", c.range(700_000 * c.n, *columns))

    def query(price: str, rate: str) -> object:
        values = [f.sum(f.expr(f"{price} / {rate} * ({rate} + {i}) / ({price} + 1)")) for i in range(4)]
        return rows.groupBy("g").agg(*values).collect()

    return Planted(lambda: query("price", "rate"), lambda: query("double(price)", "double(rate)"))


@scenario("compute", "Project: at", "HashAggregate: at")
def months_as_text(c: Case) -> Planted:
    """Times are text, parsed and formatted for a group."""
    at = "concat(2000 + id % 25, '/', lpad(1 + id % 12, 2, '0'), '/', lpad(1 + id % 28, 2, '0'), ' 10:11:12') AS at"
    rows = c.table("times", c.range(600_000 * c.n, at, "id % 9 AS v"))
    month = f.date_format(f.to_timestamp("at", "yyyy/MM/dd HH:mm:ss"), "EEEE, MMMM yyyy")

    def query(by: Column) -> object:
        return rows.groupBy(by.alias("month")).agg(f.sum("v")).collect()

    return Planted(lambda: query(month), lambda: query(f.substring("at", 1, 7)))


@scenario("few_tasks", "Scan parquet", "Project", "HashAggregate")
def one_bucket(c: Case) -> Planted:
    """The table has one bucket, which one task reads."""
    for buckets in (1, 8):
        c.spark.sql(f"DROP TABLE IF EXISTS buckets_{buckets}")
        rows = c.range(900_000 * c.n, "id % 1000 AS k", "id % 7 AS v").repartition(buckets, "k")
        rows.write.bucketBy(buckets, "k").sortBy("k").saveAsTable(f"buckets_{buckets}")

    def query(buckets: int) -> object:
        return c.spark.table(f"buckets_{buckets}").groupBy("k").agg(f.max(HASHES)).collect()

    return Planted(lambda: query(1), lambda: query(8))


@scenario("data_skew", "Exchange: REPARTITION_BY_COL")
def repartition_by_a_hot_column(c: Case) -> Planted:
    """Nine rows of ten have one country."""
    country = "if(id % 10 < 9, 'US', concat('X', id % 30)) AS country"
    rows = c.table("rows", c.range(900_000 * c.n, country, "id % 7 AS v"))

    def query(frame: DataFrame) -> object:
        return frame.select("country", HASHES.alias("h")).where("h > 7").agg(f.max("h"), f.max("country")).collect()

    return Planted(lambda: query(rows.repartition("country")), lambda: query(rows.repartition(8)))


@scenario(
    "gc",
    settings={"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xmn4m"},
    repaired_settings={"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"},
)
def little_room_for_new_objects(c: Case) -> Planted:
    """The options of the JVM leave 4 MiB for new objects, of which each row makes many."""
    text = "concat_ws(' ', transform(sequence(1, 40), x -> concat('w', id + x))) AS text"
    rows = c.table("texts", c.range(250_000 * c.n, text, "id % 11 AS g"))
    number = f.expr("size(array_distinct(transform(split(text, ' '), w -> upper(reverse(w)))))")

    def query() -> object:
        return rows.select("g", number.alias("n")).groupBy("g").agg(f.sum("n")).collect()

    return Planted(query, query)
