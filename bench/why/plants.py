"""What is planted: queries as they always ran, and the same with one or two things changed, each with its causes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession
from tests.waiting import until

from bench.hogs import hogs

SETTINGS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.sql.files.maxPartitionBytes": "8m",
}
"""What each session has; plants change some."""
JOIN = (
    "SELECT c.segment, count(*) AS n, sum(o.amount) AS amount, max(sha2(o.note, 256)) AS note"
    " FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment"
)
MERGE = JOIN.replace("SELECT", "SELECT /*+ MERGE(c) */", 1)
HINT = JOIN.replace("SELECT", "SELECT /*+ BROADCAST(c) */", 1)
AGGREGATE = (
    "SELECT max(n), sum(amount), max(sha2(note, 256)) FROM (SELECT customer_id, count(*) AS n, sum(amount) AS amount,"
    " max(note) AS note FROM orders GROUP BY customer_id)"
)
WINDOW = (
    "SELECT max(r), sum(length(note)) FROM (SELECT note, row_number() OVER (PARTITION BY customer_id"
    " ORDER BY amount, id) AS r FROM orders)"
)
DISTINCT = "SELECT amount % 50 AS k, count(DISTINCT note), count(DISTINCT customer_id) FROM orders GROUP BY 1"
LEFT = (
    "SELECT count(o.id), max(c.segment), max(length(o.note) + length(c.segment))"
    " FROM orders o LEFT JOIN customers c ON o.customer_id = c.customer_id"
)
SORTED = "SELECT note, customer_id FROM orders ORDER BY note"
LISTS = (
    "SELECT max(size(notes)), max(array_max(notes)) FROM (SELECT customer_id % 16 AS k,"
    " collect_list(repeat(note, 3)) AS notes FROM orders GROUP BY 1)"
)
ROWS = "SELECT customer_id % 60 AS k, note FROM orders WHERE amount < 60"
_KEY = "o.customer_id = c.customer_id"
_HASHED = "md5(sha2(string({0}.customer_id), 512))"
_EXPENSIVE = "sha2(sha2(sha2(repeat({0}, 20), 512), 512), 512)"


@dataclass(frozen=True)
class Case:
    """Where a query runs."""

    spark: SparkSession
    folder: Path
    size: int
    """How many times the smallest data; of what is planted, too, where it has a size of its own."""

    def use(self, **tables: str) -> None:
        """Read each table from a folder."""
        for name, variant in tables.items():
            read, path = self.spark.read, str(self.folder / f"{variant}-{self.size}")
            columns = "id long, customer_id long, amount long, note string"
            frame = read.schema(columns).json(path) if variant == "json" else read.parquet(path)
            frame.createOrReplaceTempView(name)

    @property
    def slow(self) -> object:
        """`bench/java/Slow.java`."""
        return self.spark.sparkContext._jvm.io.joinsight.bench.Slow


Meanwhile = Callable[[Case], AbstractContextManager[None]]
Action = Callable[[Case, str], None]


def collect(case: Case, text: str) -> None:
    """Return its rows."""
    case.spark.sql(text).collect()


def save(case: Case, text: str) -> None:
    """Write its rows."""
    case.spark.sql(text).write.mode("overwrite").parquet(str(case.folder / "written"))


def save_many(case: Case, text: str) -> None:
    """Write its rows to 60 folders."""
    case.spark.sql(text).write.mode("overwrite").partitionBy("k").parquet(str(case.folder / "written"))


@dataclass(frozen=True)
class Session:
    """An application in which bases or plants run."""

    settings: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    hosts: int = 0
    """Machines of a cluster of its own; 0: local."""


@dataclass(frozen=True)
class Base:
    """A query as it always ran."""

    query: str
    action: Action = collect
    conf: Mapping[str, str] = field(default_factory=dict)
    session: str = "local"


@dataclass(frozen=True)
class Plant:
    """A change of a base; `codes`: what causes the difference, best first."""

    base: str
    codes: Sequence[str]
    query: str | None = None
    orders: str = "orders"
    customers: str = "customers"
    """The variants that it reads."""
    conf: Mapping[str, str] = field(default_factory=dict)
    meanwhile: Sequence[Meanwhile] = ()
    action: Action | None = None
    session: str | None = None
    """None: that of the base."""
    adds_ms: int = 0
    """How much longer it takes in the smallest size, where that is known; 0: the whole difference."""


def make_tables(case: Case) -> None:
    """All variants, once."""
    rows, customers = 400_000 * case.size, 40_000 * case.size
    key = f"pmod(hash(id), {customers}) AS customer_id"
    hot = f"CASE WHEN id % 20 < 19 THEN 7 ELSE pmod(hash(id), {customers}) END AS customer_id"
    rest = ("id % 97 AS amount", "concat(sha2(string(id), 256), sha2(string(-id), 256)) AS note")
    of_customer = ("id AS customer_id", "concat('S', id % 5) AS segment")

    def write(name: str, count: int, *columns: str, files: int = 4) -> None:
        path = case.folder / f"{name}-{case.size}"
        if not (path / "_SUCCESS").exists():
            frame = case.spark.range(0, count, 1, 4).selectExpr("id", *columns)
            frame.repartition(files).write.mode("overwrite").parquet(str(path))

    write("orders", rows, key, *rest)
    write("twice", 2 * rows, key, *rest)
    write("skewed", rows, hot, *rest)
    write("tiny", rows, key, *rest, files=400)
    write("customers", customers, *of_customer)
    write("many", 20 * customers, *of_customer)
    path = case.folder / f"json-{case.size}"
    if not (path / "_SUCCESS").exists():
        orders = case.spark.read.parquet(str(case.folder / f"orders-{case.size}"))
        orders.write.mode("overwrite").json(str(path))


# What happens beside a query


def other_load(count: int) -> Meanwhile:
    """Other processes take the CPUs."""
    return lambda case: hogs(count)


@contextmanager
def one_core(case: Case) -> Iterator[None]:
    """The driver's JVM, which runs the tasks, may use one core only."""
    every = os.sched_getaffinity(0)
    _pin(case, {min(every)})
    try:
        yield
    finally:
        _pin(case, every)


def _pin(case: Case, cores: set[int]) -> None:
    for thread in Path("/proc", str(_jvm(case)), "task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


def _jvm(case: Case) -> int:
    """Process id of the driver."""
    return int(case.spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


@contextmanager
def other_query(case: Case) -> Iterator[None]:
    """Another query of the application has one of the slots."""
    context = case.spark.sparkContext
    thread = threading.Thread(target=_sleep, args=(case,))
    thread.start()
    tracker = context.statusTracker()
    until(lambda: bool(tracker.getActiveStageIds()), "the other query")
    try:
        yield
    finally:
        context.cancelJobGroup("other")
        thread.join()


def _sleep(case: Case) -> None:
    case.spark.sparkContext.setJobGroup("other", "other", interruptOnCancel=True)
    try:
        case.spark.sql(
            "SELECT id FROM range(0, 1, 1, 1) WHERE reflect('java.lang.Thread', 'sleep', 120000L) = ''"
        ).collect()
    except Exception as error:
        if "cancel" not in str(error):
            raise


def slow(what: str, ms: int) -> Meanwhile:
    """The next plan, broadcast or commit takes so much longer, times the size."""

    @contextmanager
    def meanwhile(case: Case) -> Iterator[None]:
        getattr(case.slow, f"next{what}")(ms * case.size)
        yield
        getattr(case.slow, f"next{what}")(0)

    return meanwhile


def in_the_join(action: Callable[[Case], None]) -> Meanwhile:
    """Something happens when the stage that joins has run for a moment; its number of tasks is that of no other."""

    @contextmanager
    def meanwhile(case: Case) -> Iterator[None]:
        tracker = case.spark.sparkContext.statusTracker()
        tasks = int(BASES["cluster"].conf["spark.sql.shuffle.partitions"])

        def joins() -> bool:
            active = map(tracker.getStageInfo, tracker.getActiveStageIds())
            return any(stage and stage.numTasks == tasks and stage.numActiveTasks for stage in active)

        def act() -> None:
            until(joins, "the stage that joins")
            time.sleep(0.3)
            action(case)

        thread = threading.Thread(target=act)
        thread.start()
        yield
        thread.join()

    return meanwhile


def lose_an_executor(case: Case) -> None:
    """It is killed; the worker starts another one."""
    application = case.spark.sparkContext.applicationId
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            words = (process / "cmdline").read_text().split("\0") if process.name.isdigit() else []
            if application in words and any(word.endswith("CoarseGrainedExecutorBackend") for word in words):
                os.kill(int(process.name), signal.SIGKILL)
                return


def stop_the_driver(case: Case) -> None:
    """For some seconds, as for a long garbage collection."""
    process = _jvm(case)
    os.kill(process, signal.SIGSTOP)
    time.sleep(2.0 * case.size)
    os.kill(process, signal.SIGCONT)


_LOCAL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.sql.extensions": "io.joinsight.bench.Slow$Extensions",
    "spark.io.compression.codec": "io.joinsight.bench.Slow$Codec",
    "spark.sql.sources.commitProtocolClass": "io.joinsight.bench.Slow$Commit",
}
SESSIONS: Mapping[str, Session] = {
    "local": Session(_LOCAL),
    "without AQE and samples": Session(
        {**_LOCAL, "spark.joinsight.sampleInterval": "0"}, {"spark.sql.adaptive.enabled": "false"}
    ),
    "small heap": Session({**_LOCAL, "spark.driver.memory": "512m", "spark.memory.fraction": "0.05"}),
    "cluster": Session({"spark.executor.memory": "700m", "spark.driver.memory": "1g"}, hosts=2),
    "one executor": Session(
        {"spark.executor.memory": "700m", "spark.driver.memory": "1g", "spark.cores.max": "1"}, hosts=2
    ),
}
"""By name."""
BASES: Mapping[str, Base] = {
    "merge": Base(MERGE),
    "broadcast": Base(JOIN),
    "hint": Base(HINT, conf={"spark.sql.autoBroadcastJoinThreshold": "-1"}),
    "aggregate": Base(AGGREGATE),
    "rows": Base(ROWS, save),
    "window": Base(WINDOW),
    "distinct": Base(DISTINCT),
    "left": Base(LEFT),
    "sorted": Base(SORTED, save),
    "lists": Base(LISTS),
    "merge without AQE": Base(MERGE, session="without AQE and samples"),
    "cluster": Base(MERGE, conf={"spark.sql.shuffle.partitions": "7"}, session="cluster"),
}
"""By name."""
_DELAY_MS = 1_500
_NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
_UDF = MERGE.replace(_KEY, "same(o.customer_id) = c.customer_id")
_CAST = MERGE.replace(_KEY, "cast(o.customer_id AS string) = cast(c.customer_id AS string)")
_ON_BOTH = MERGE.replace(_KEY, f"{_HASHED.format('o')} = {_HASHED.format('c')}")
_ONE, _MANY = {"spark.sql.shuffle.partitions": "1"}, {"spark.sql.shuffle.partitions": "400"}
_ALONE: Mapping[str, Plant] = {
    "twice the data": Plant("merge", ["data"], orders="twice"),
    "20 times the other side": Plant("merge", ["data"], customers="many"),
    "hot key": Plant("merge", ["skew"], orders="skewed"),
    "added hint": Plant("broadcast", ["plan"], query=MERGE),
    "dropped hint": Plant("hint", ["plan"], query=JOIN),
    "broadcast threshold": Plant("broadcast", ["plan"], conf=_NO_BROADCAST),
    "expensive expression": Plant(
        "merge", ["cpu_per_row"], query=MERGE.replace("sha2(o.note, 256)", _EXPENSIVE.format("o.note"))
    ),
    "cast around the key": Plant("merge", ["cpu_per_row", "plan"], query=_CAST),
    "functions around the key": Plant("merge", ["cpu_per_row", "plan"], query=_ON_BOTH),
    "UDF around the key": Plant("merge", ["cpu_per_row", "plan"], query=_UDF),
    "tiny files": Plant("merge", ["files"], orders="tiny"),
    "another format": Plant("merge", ["cpu_per_row", "plan", "files"], orders="json"),
    "one partition": Plant("merge", ["partitions"], conf=_ONE),
    "many partitions": Plant("merge", ["partitions"], conf=_MANY),
    "other load": Plant("merge", ["contention"], meanwhile=[other_load(4)]),
    "one core": Plant("merge", ["contention", "slots"], meanwhile=[one_core]),
    "other query": Plant("merge", ["slots"], meanwhile=[other_query]),
    "busy driver": Plant("merge", ["driver"], meanwhile=[slow("Plan", _DELAY_MS)], adds_ms=_DELAY_MS),
    "small heap": Plant("aggregate", ["memory"], session="small heap"),
    "slow broadcast": Plant("broadcast", ["broadcast", "driver"], meanwhile=[slow("Broadcast", _DELAY_MS)]),
    "slow commit": Plant("rows", ["commit"], meanwhile=[slow("Commit", _DELAY_MS)], adds_ms=_DELAY_MS),
    "many directories": Plant("rows", ["files", "commit"], action=save_many),
}
PLANTS: Mapping[str, Plant] = {
    **_ALONE,
    "twice the data, broadcast": Plant("broadcast", ["data"], orders="twice"),
    "tiny files, broadcast": Plant("broadcast", ["files"], orders="tiny"),
    "other load, broadcast": Plant("broadcast", ["contention"], meanwhile=[other_load(3)]),
    "another format, aggregate": Plant("aggregate", ["cpu_per_row", "plan", "files"], orders="json"),
    "twice the data, aggregate": Plant("aggregate", ["data"], orders="twice"),
    "one core, aggregate": Plant("aggregate", ["contention", "slots"], meanwhile=[one_core]),
    "twice the data, rows": Plant("rows", ["data"], orders="twice"),
    "other query, rows": Plant("rows", ["slots"], meanwhile=[other_query]),
    "twice the data and other load": Plant("merge", ["data", "contention"], orders="twice", meanwhile=[other_load(4)]),
    "twice the data and slow commit": Plant(
        "rows", ["data", "commit"], orders="twice", meanwhile=[slow("Commit", _DELAY_MS)]
    ),
    "tiny files and busy driver": Plant(
        "merge", ["files", "driver"], orders="tiny", meanwhile=[slow("Plan", _DELAY_MS)]
    ),
    "broadcast threshold and other query": Plant(
        "broadcast", ["plan", "slots"], conf=_NO_BROADCAST, meanwhile=[other_query]
    ),
    "one partition and expensive expression": Plant(
        "merge",
        ["partitions", "cpu_per_row"],
        query=MERGE.replace("sha2(o.note, 256)", _EXPENSIVE.format("o.note")),
        conf=_ONE,
    ),
    "hot key and busy driver": Plant("merge", ["skew", "driver"], orders="skewed", meanwhile=[slow("Plan", _DELAY_MS)]),
    **{
        f"{name}, {base}": replace(plant, base=base)
        for base, names in {
            "window": (
                *("twice the data", "hot key", "one partition", "other load", "other query"),
                *("busy driver", "small heap"),
            ),
            "distinct": ("twice the data", "another format", "other load", "one core", "many partitions"),
            "left": ("twice the data", "broadcast threshold", "tiny files", "other load", "slow broadcast"),
            "sorted": ("twice the data", "other load", "slow commit", "another format", "small heap"),
            "lists": ("small heap", "twice the data"),
        }.items()
        for name in names
        for plant in [_ALONE[name]]
    },
    "expensive expression, window": Plant(
        "window", ["cpu_per_row"], query=WINDOW.replace("length(note)", f"length({_EXPENSIVE.format('note')})")
    ),
    "expensive expression, distinct": Plant(
        "distinct", ["cpu_per_row"], query=DISTINCT.replace("DISTINCT note", f"DISTINCT {_EXPENSIVE.format('note')}")
    ),
    "twice the data without AQE": Plant("merge without AQE", ["data"], orders="twice"),
    "hot key without AQE": Plant("merge without AQE", ["skew"], orders="skewed"),
    "other load without AQE": Plant("merge without AQE", ["contention"], meanwhile=[other_load(4)]),
    "expensive expression without AQE": Plant(
        "merge without AQE", ["cpu_per_row"], query=MERGE.replace("sha2(o.note, 256)", _EXPENSIVE.format("o.note"))
    ),
    "tiny files without AQE": Plant("merge without AQE", ["files"], orders="tiny"),
    "stopped driver": Plant("cluster", ["driver"], meanwhile=[in_the_join(stop_the_driver)]),
    "lost executor": Plant("cluster", ["retry"], meanwhile=[in_the_join(lose_an_executor)]),
    "one executor": Plant("cluster", ["slots"], session="one executor"),
}
"""By name."""


def base_of(case: Case, base: Base) -> Callable[[], None]:
    """What runs the query as it always ran; reads its tables now."""
    case.use(orders="orders", customers="customers")
    return lambda: base.action(case, base.query)


def changed_of(case: Case, plant: Plant) -> Callable[[], None]:
    """What runs the query with what is planted; reads its tables now."""
    base = BASES[plant.base]
    case.use(orders=plant.orders, customers=plant.customers)
    return lambda: (plant.action or base.action)(case, plant.query or base.query)


@contextmanager
def planted(case: Case, plant: Plant) -> Iterator[None]:
    """What happens beside it."""
    with ExitStack() as stack:
        for each in plant.meanwhile:
            stack.enter_context(each(case))
        yield
