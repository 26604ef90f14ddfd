"""Queries in which nothing is wrong: TPC-H, and ordinary small ETL on the tables of a shop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from tests.exactness import tpch

from bench.verdicts.record import HEALTHY
from bench.verdicts.scenarios import SCENARIOS, SIZES, Case, Planted, Scenario

TPCH_SCALES: Mapping[int, float] = {1: 0.1, 2: 0.5}
"""By size: there is none for the largest."""

QUERIES: Mapping[str, str] = {
    "orders-by-day": "SELECT day, count(*), sum(amount) FROM orders GROUP BY day ORDER BY day",
    "orders-by-segment": "SELECT segment, sum(amount) FROM orders JOIN customers USING (customer_id) GROUP BY segment",
    "orders-by-category": "SELECT category, month(day), sum(quantity) FROM orders JOIN products USING (product_id)"
    " GROUP BY 1, 2",
    "top-customers": "SELECT customer_id, sum(amount) AS s FROM orders GROUP BY 1 ORDER BY s DESC LIMIT 20",
    "top-per-segment": "SELECT * FROM (SELECT segment, customer_id, s, row_number() OVER (PARTITION BY segment ORDER"
    " BY s DESC) AS n"
    " FROM (SELECT customer_id, sum(amount) AS s FROM orders GROUP BY 1) JOIN customers USING (customer_id)) WHERE n"
    " <= 3",
    "three-tables": "SELECT country, category, sum(amount) FROM orders JOIN customers USING (customer_id)"
    " JOIN products USING (product_id) GROUP BY 1, 2",
    "without-orders": "SELECT count(*) FROM customers c LEFT ANTI JOIN orders o ON c.customer_id = o.customer_id",
    "with-orders-in-may": "SELECT count(*) FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE"
    " month(day) = 5)",
    "large-orders": "SELECT * FROM orders WHERE amount > 990 AND quantity = 3",
    "one-order": "SELECT * FROM orders WHERE order_id = 77",
    "distinct-customers": "SELECT day, count(DISTINCT customer_id) FROM orders GROUP BY day",
    "first-order": "SELECT customer_id, min(day), max(day), count(*) FROM orders GROUP BY 1 HAVING count(*) > 2",
    "repeat-buyers": "SELECT a.customer_id, count(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id"
    " AND b.order_id = a.order_id + 100 GROUP BY 1",
    "running-total": "SELECT max(t) FROM (SELECT sum(amount) OVER (PARTITION BY customer_id ORDER BY day) AS t FROM"
    " orders)",
    "previous-order": "SELECT avg(datediff(day, p)) FROM (SELECT day, lag(day) OVER (PARTITION BY customer_id ORDER"
    " BY day) AS p FROM orders)",
    "pivot": "SELECT * FROM (SELECT category, month(day) AS m, amount FROM orders JOIN products USING (product_id))"
    " PIVOT (sum(amount) FOR m IN (1, 2, 3, 4, 5, 6))",
    "rollup": "SELECT country, segment, count(*), sum(amount) FROM orders JOIN customers USING (customer_id) GROUP"
    " BY ROLLUP (country, segment)",
    "deduplicated": "SELECT count(*) FROM (SELECT DISTINCT customer_id, product_id, day FROM orders)",
    "union-of-years": "SELECT y, sum(amount) FROM (SELECT 1 AS y, amount FROM orders WHERE month(day) < 4"
    " UNION ALL SELECT 2, amount FROM orders WHERE month(day) >= 4) GROUP BY y",
    "percentiles": "SELECT segment, percentile_approx(amount, array(0.5, 0.9)) FROM orders JOIN customers USING"
    " (customer_id) GROUP BY 1",
    "above-average": "SELECT count(*) FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "names": "SELECT upper(name), length(name) FROM customers WHERE name LIKE '%77%' ORDER BY name LIMIT 50",
    "tags": "SELECT tag, count(*) FROM (SELECT explode(split(tags, ',')) AS tag FROM products) GROUP BY tag",
    "events-by-kind": "SELECT kind, count(*), max(at) FROM events GROUP BY kind",
    "sessions": "SELECT customer_id, window(at, '1 hour').start AS hour, count(*) FROM events GROUP BY 1, 2",
    "funnel": "SELECT v.day, count(*) FROM (SELECT DISTINCT customer_id, date(at) AS day FROM events WHERE kind ="
    " 'view') v"
    " JOIN (SELECT DISTINCT customer_id, day FROM orders) o ON o.customer_id = v.customer_id AND o.day = v.day GROUP"
    " BY 1",
    "payload": "SELECT get_json_object(payload, '$.page') AS page, count(*) FROM events GROUP BY 1",
    "enriched": "SELECT count(*), max(concat(c.name, p.title)) FROM events e JOIN customers c USING (customer_id)"
    " LEFT JOIN products p ON p.product_id = e.product_id",
}


def tables(c: Case) -> None:
    """The shop, once for a session and size."""
    rows = 150_000 * c.n
    day = "date_add(DATE'2026-01-01', cast(pmod(hash(id, 1), 181) AS int)) AS day"
    made: Mapping[str, Callable[[], DataFrame]] = {
        "orders": lambda: c.range(
            rows,
            "id AS order_id",
            f"pmod(hash(id, 2), {rows // 10}) AS customer_id",
            "pmod(hash(id, 3), 2000) AS product_id",
            day,
            "pmod(hash(id, 4), 100000) / 100 AS amount",
            "pmod(hash(id, 5), 9) AS quantity",
        ).drop("id"),
        "customers": lambda: c.range(
            rows // 10,
            "id AS customer_id",
            "concat('Customer ', id) AS name",
            "concat('S', id % 5) AS segment",
            "concat('C', pmod(hash(id), 30)) AS country",
        ).drop("id"),
        "products": lambda: c.range(
            2000,
            "id AS product_id",
            "concat('Product ', id) AS title",
            "concat('K', id % 25) AS category",
            "concat('t', id % 7, ',t', id % 11) AS tags",
        ).drop("id"),
        "events": lambda: c.range(
            2 * rows,
            f"pmod(hash(id, 6), {rows // 10}) AS customer_id",
            "pmod(hash(id, 7), 2000) AS product_id",
            "element_at(array('view', 'cart', 'buy'), cast(1 + id % 3 AS int)) AS kind",
            "timestamp_seconds(1767225600 + pmod(hash(id, 8), 15638400)) AS at",
            "to_json(named_struct('page', id % 40, 'ms', hash(id) % 1000)) AS payload",
        ),
    }
    for name, frame in made.items():
        path = c.shared / f"{name}-{c.n}"
        if not path.exists():
            frame().repartition(4).write.parquet(str(path))
        c.spark.read.parquet(str(path)).createOrReplaceTempView(name)


def _query(text: str) -> Callable[[Case], Planted]:
    def make(c: Case) -> Planted:
        tables(c)
        return Planted(lambda: c.spark.sql(text).collect())

    return make


def _step(action: Callable[[Case, Path], object]) -> Callable[[Case], Planted]:
    def make(c: Case) -> Planted:
        tables(c)
        return Planted(lambda: action(c, c.folder / "out"))

    return make


def _save(frame: DataFrame, path: Path, *by: str, kind: str = "parquet") -> None:
    frame.write.mode("overwrite").partitionBy(*by).format(kind).save(str(path))


STEPS: Mapping[str, Callable[[Case, Path], object]] = {
    "write-report": lambda c, path: _save(c.spark.sql("SELECT day, sum(amount) AS s FROM orders GROUP BY day"), path),
    "write-csv": lambda c, path: _save(c.spark.table("orders").where("quantity = 2"), path, kind="csv"),
    "write-json": lambda c, path: _save(c.spark.table("customers").where("segment = 'S1'"), path, kind="json"),
    "write-by-month": lambda c, path: _save(
        c.spark.table("orders").withColumn("month", f.month("day")).repartition("month"), path, "month"
    ),
    "write-enriched": lambda c, path: _save(
        c.spark.sql("SELECT * FROM orders JOIN customers USING (customer_id)"), path
    ),
    "write-newest": lambda c, path: _save(
        c.spark.sql(
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY customer_id ORDER BY at DESC) AS n FROM"
            " events) WHERE n = 1"
        ),
        path,
    ),
    "write-upsert": lambda c, path: _save(
        c.spark.sql(
            "SELECT coalesce(n.customer_id, c.customer_id) AS customer_id, coalesce(n.name, c.name) AS name FROM"
            " customers c"
            " FULL JOIN (SELECT customer_id, upper(name) AS name FROM customers WHERE customer_id % 9 = 0) n"
            " ON n.customer_id = c.customer_id"
        ),
        path,
    ),
    "to-pandas": lambda c, path: c.spark.sql("SELECT country, sum(1) AS n FROM customers GROUP BY 1").toPandas(),
}


def register() -> None:
    """Add them to the scenarios."""
    makes = {name: _query(text) for name, text in QUERIES.items()}
    makes |= {name: _step(action) for name, action in STEPS.items()}
    makes |= {f"tpch-{number}": _tpch(str(number)) for number in range(1, 23)}
    for name, make in makes.items():
        make.__name__ = f"{HEALTHY}-{name}"
        sizes = ("small", "medium") if name.startswith("tpch") else tuple(SIZES)
        SCENARIOS[make.__name__] = Scenario(make, (HEALTHY,), (), sizes=sizes)


def _tpch(number: str) -> Callable[[Case], Planted]:
    def make(c: Case) -> Planted:
        folder = c.shared / f"tpch-{c.n}"
        if not folder.exists():
            tpch.generate(folder, TPCH_SCALES[c.n])
        for table in tpch.TABLES:
            c.spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
        text = tpch.read_queries(folder)[number]
        return Planted(lambda: c.spark.sql(text).collect())

    return make
