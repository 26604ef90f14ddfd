"""What is planted: a query as it always ran, and the same with one thing changed, each with the code of its cause."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

BASE: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.sql.files.maxPartitionBytes": "8m",
}
JOIN = (
    "SELECT c.segment, count(*) AS n, sum(o.amount) AS amount, max(sha2(o.note, 256)) AS note"
    " FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment"
)
MERGE = JOIN.replace("SELECT", "SELECT /*+ MERGE(c) */", 1)


@dataclass(frozen=True)
class Case:
    """Where a query runs."""

    spark: SparkSession
    folder: Path
    size: int
    """How many times the smallest data."""

    def use(self, **tables: str) -> None:
        """Read each table from a folder."""
        for name, variant in tables.items():
            self.spark.read.parquet(str(self.folder / f"{variant}-{self.size}")).createOrReplaceTempView(name)


@contextmanager
def nothing(case: Case) -> Iterator[None]:
    """Nothing else happens."""
    yield


@dataclass(frozen=True)
class Plant:
    """A change of a run; `codes`: the cause, best first."""

    codes: tuple[str, ...]
    query: str = MERGE
    base: str = MERGE
    orders: str = "orders"
    """The variant that it reads."""
    conf: Mapping[str, str] = field(default_factory=dict)
    meanwhile: Callable[[Case], AbstractContextManager[None]] = nothing
    action: Callable[[Case, str], None] | None = None
    """What runs the query; None: its rows are collected."""
    base_action: Callable[[Case, str], None] | None = None


def make_tables(case: Case) -> None:
    """All variants, once."""
    rows, customers = 400_000 * case.size, 40_000 * case.size
    key = f"pmod(hash(id), {customers}) AS customer_id"
    hot = f"CASE WHEN id % 10 < 7 THEN 7 ELSE pmod(hash(id), {customers}) END AS customer_id"
    rest = ("id % 97 AS amount", "concat(sha2(string(id), 256), sha2(string(-id), 256)) AS note")

    def write(name: str, count: int, *columns: str, files: int = 4) -> None:
        path = case.folder / f"{name}-{case.size}"
        if not path.exists():
            frame = case.spark.range(0, count, 1, 4).selectExpr("id", *columns)
            frame.repartition(files).write.parquet(str(path))

    write("orders", rows, key, *rest)
    write("twice", 2 * rows, key, *rest)
    write("hot", rows, hot, *rest)
    write("tiny", rows, key, *rest, files=400)
    write("customers", customers, "id AS customer_id", "concat('S', id % 5) AS segment")
    path = case.folder / f"json-{case.size}"
    if not path.exists():
        case.spark.read.parquet(str(case.folder / f"orders-{case.size}")).write.json(str(path))


@contextmanager
def hogs(case: Case) -> Iterator[None]:
    """Other processes take the CPUs."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def other_query(case: Case) -> Iterator[None]:
    """Another query of the application has one of the slots."""
    text = "SELECT sum(if(reflect('java.lang.Thread', 'sleep', 60000L) = '', 1, id)) FROM range(0, 1, 1, 1)"
    context = case.spark.sparkContext
    thread = threading.Thread(target=_quietly, args=(case, text))
    thread.start()
    time.sleep(2)
    try:
        yield
    finally:
        context.cancelJobGroup("other")
        thread.join()


def _quietly(case: Case, text: str) -> None:
    case.spark.sparkContext.setJobGroup("other", "other", interruptOnCancel=True)
    try:
        case.spark.sql(text).collect()
    except Exception as error:
        print(f"cancelled: {type(error).__name__}")


def _collect(case: Case, text: str) -> None:
    case.spark.sql(text).collect()


def _save(case: Case, text: str) -> None:
    case.spark.sql(text).write.mode("overwrite").parquet(str(case.folder / "written"))


def _save_many(case: Case, text: str) -> None:
    case.spark.sql(text).write.mode("overwrite").partitionBy("k").parquet(str(case.folder / "written"))


_KEY = "o.customer_id = c.customer_id"
_HASHED = "md5(sha2(string({0}.customer_id), 512))"
_ROWS = "SELECT customer_id % 60 AS k, note FROM orders WHERE amount < 20"
PLANTS: Mapping[str, Plant] = {
    "twice the data": Plant(("data",), orders="twice"),
    "hot key": Plant(("skew",), orders="hot"),
    "dropped hint": Plant(("plan",), base=JOIN, query=MERGE),
    "broadcast threshold": Plant(("plan",), base=JOIN, query=JOIN, conf={"spark.sql.autoBroadcastJoinThreshold": "-1"}),
    "expensive expression": Plant(
        ("cpu_per_row",),
        query=MERGE.replace("sha2(o.note, 256)", "sha2(sha2(sha2(repeat(o.note, 20), 512), 512), 512)"),
    ),
    "functions around the key": Plant(
        ("cpu_per_row", "plan"), query=MERGE.replace(_KEY, f"{_HASHED.format('o')} = {_HASHED.format('c')}")
    ),
    "tiny files": Plant(("files",), orders="tiny"),
    "another format": Plant(("cpu_per_row", "plan", "files"), orders="json"),
    "one partition": Plant(("partitions",), conf={"spark.sql.shuffle.partitions": "1"}),
    "many partitions": Plant(("partitions",), conf={"spark.sql.shuffle.partitions": "400"}),
    "many directories": Plant(("commit", "fetch"), query=_ROWS, base=_ROWS, base_action=_save, action=_save_many),
    "other load": Plant(("contention",), meanwhile=hogs),
    "other query": Plant(("slots",), meanwhile=other_query),
}
"""By name."""


def base_of(case: Case, plant: Plant) -> Callable[[], None]:
    """What runs the query as it always ran; reads its tables now."""
    case.use(orders="orders", customers="customers")
    return lambda: (plant.base_action or _collect)(case, plant.base)


def changed_of(case: Case, plant: Plant) -> Callable[[], None]:
    """What runs the query with what is planted; reads its tables now."""
    case.use(customers="customers")
    if plant.orders == "json":
        frame = case.spark.read.schema("id long, customer_id long, amount long, note string")
        frame.json(str(case.folder / f"json-{case.size}")).createOrReplaceTempView("orders")
    else:
        case.use(orders=plant.orders)
    return lambda: (plant.action or _collect)(case, plant.query)
