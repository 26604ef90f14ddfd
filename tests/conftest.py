"""Fixtures with real parts: a PostgreSQL, and Spark in all supported versions."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from tests import class_archive, pace
from tests.history import END, Planted, generate
from tests.installed import pyspark_folder
from tests.java import LIGHT
from tests.spark_process import SparkRun
from tests.versions import DAY, ENDS, NEWEST, TODAY
from tests.waiting import DEADLINES, LATE_SECONDS

from joinsight.demo.runner import collector
from joinsight.driver.attach import listener_jar
from joinsight.store.database import connect, upgrade
from joinsight.store.embedded import embedded_postgres

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault(DAY, date.today().isoformat())
gc.disable()  # until all tests are collected: their objects stay, and each collection would look at them again
collect_ignore = ["sample_project"]  # tests of somebody else, which fail on purpose
JAVA_OPTIONS = " ".join([*LIGHT, "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"])
ON_GENERATED_HISTORY = ("tests/history/", "tests/cookbook/", "tests/dashboards/test_sql.py")
"""The first test of these generates and stores a year, and is given the time of a long one."""
LONG = ("tests/store/test_embedded.py", "tests/pages/test_browser.py", "tests/test_growth.py", "tests/test_fuzz.py")
EACH_ALONE = "tests/exactness/test_exactness.py"
WARM = ("tests/spark/", EACH_ALONE)
"""Tests of an older Spark that are in these go to the same process, where its JVM is warm."""
SERVER = os.environ.get("JOINSIGHT_TEST_DATABASE_URL")
hypothesis.settings.register_profile("any machine", deadline=None)  # an example may take seconds
hypothesis.settings.load_profile("any machine")


def pytest_report_header() -> str:
    return f"Spark {', '.join(TODAY)}; all timeouts are for a machine {pace.PACE:g} times slower"


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests of the matrix on versions that do not run by day to the night, give each test its timeout, and
    run what takes long first: at the end it would leave other processes idle."""
    for item in items:
        by_day = TODAY if item.nodeid.startswith(EACH_ALONE) else ENDS
        if item.get_closest_marker("matrix") and _version(item.nodeid) not in (*by_day, None):
            item.add_marker(pytest.mark.nightly)
        marks = {mark.name for mark in item.iter_markers()}
        is_long = marks & {"matrix", "nightly", "cluster"} or item.nodeid.startswith(ON_GENERATED_HISTORY)
        item.add_marker(pytest.mark.timeout(pace.TEST_SECONDS * (pace.LONG if is_long else 1)), append=False)
    with_spark = {item.path for item in items if item.get_closest_marker("spark")}
    later = (EACH_ALONE, ON_GENERATED_HISTORY, LONG)
    items.sort(
        key=lambda item: (
            _older_spark(item.nodeid),
            item.path not in with_spark,
            *(not item.nodeid.startswith(each) for each in later),
        )
    )


def _version(test: str) -> str | None:
    """The version of Spark that a test names."""
    found = re.search(r"[\[-](\d\.\d\.\d)\b", test)
    return found[1] if found else None


def _older_spark(test: str) -> str:
    """The older version of Spark whose warm process the test needs; "~", which is last, for none."""
    version = _version(test) if test.startswith(WARM) else None
    return version if version and version != NEWEST else "~"


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process take all files on the generated history, which is then generated once.

    So it is for the tests of an older Spark. Of `EACH_ALONE`, whose tests have nothing in common, any process takes the
    next test.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope

    def scope(test: str) -> str:
        if (older := _older_spark(test)) != "~":
            return older
        if test.startswith(EACH_ALONE):
            return test
        return "history" if test.startswith(ON_GENERATED_HISTORY) else str(file_of(test))

    scheduler._split_scope = scope
    return scheduler


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as `summary`, in any process of the run."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "summary":
                    terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the PostgreSQL server for this run: JOINSIGHT_TEST_DATABASE_URL if set, else an embedded one."""
    if SERVER:
        yield SERVER
        return
    folder = tmp_path_factory.mktemp("postgres")
    with embedded_postgres(folder) as embedded_url:
        admin = create_engine(embedded_url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            for setting in ("fsync", "full_page_writes"):  # nothing of it has to outlive the machine
                connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
            connection.execute(text("SELECT pg_reload_conf()"))
        admin.dispose()
        yield embedded_url
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def make_database(postgres: str) -> Iterator[Callable[..., str]]:
    """Makes empty databases or copies of a template; drops them at the end unless the server is embedded."""
    names: list[str] = []
    admin = create_engine(postgres, isolation_level="AUTOCOMMIT")

    def make(template: str = "template1") -> str:
        names.append(f"test_{os.getpid()}_{len(names)}")
        with admin.connect() as connection:
            # Copying files takes a third of the CPU of copying through the write-ahead log, the default
            connection.execute(text(f'CREATE DATABASE "{names[-1]}" TEMPLATE "{template}" STRATEGY file_copy'))
        return make_url(postgres).set(database=names[-1]).render_as_string(hide_password=False)

    yield make
    if SERVER:
        with admin.connect() as connection:
            for name in names:
                connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    admin.dispose()


@pytest.fixture(scope="session")
def make_store(make_database: Callable[..., str]) -> Callable[[], str]:
    """Makes databases with the schema, as copies of one, which takes half the time."""
    url = make_database()
    with connect(url) as engine:
        upgrade(engine)
    return lambda: make_database(make_url(url).database)


@pytest.fixture(scope="module")
def engine(make_store: Callable[[], str]) -> Iterator[Engine]:
    """An engine on a new database with the schema, one for each test module."""
    with connect(make_store()) as engine:
        yield engine


@pytest.fixture
def empty(make_store: Callable[[], str]) -> Iterator[Engine]:
    """An engine on a new database with the schema, one for each test."""
    with connect(make_store()) as engine:
        yield engine


@pytest.fixture(scope="session")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the token of the collector at `url`: a driver elsewhere has no variables of ours."""
    path = tmp_path_factory.mktemp("token") / "spark_token"
    path.write_text("a-token")
    return path


@pytest.fixture(scope="module")
def url(engine: Engine, token: Path) -> Iterator[str]:
    """A collector on this engine that asks for the token."""
    with collector(engine, 0, [token.read_text()]) as (address, _):
        yield address


@pytest.fixture(scope="session")
def generated(make_store: Callable[[], str]) -> tuple[str, Planted]:
    """A database with a month of twenty jobs until `END`: its name, to copy it, and what is planted in it."""
    url = make_store()
    with connect(url) as engine:
        return str(make_url(url).database), generate(engine, days=30, end=END, jobs=20)


@pytest.fixture(scope="module")
def generated_engine(generated: tuple[str, Planted], make_database: Callable[..., str]) -> Iterator[Engine]:
    """An engine on a copy of it, one for each test module."""
    with connect(make_database(generated[0])) as engine:
        yield engine


@pytest.fixture(scope="session")
def planted(generated: tuple[str, Planted], make_database: Callable[..., str]) -> tuple[str, Planted]:
    """A copy of `generated` with the facts for `docs/sql.md`: see `tests/cookbook/planted.py`."""
    from tests.cookbook.planted import plant

    url = make_database(generated[0])
    with connect(url) as engine:
        plant(engine)
    return str(make_url(url).database), generated[1]


@pytest.fixture(scope="module")
def planted_engine(planted: tuple[str, Planted], make_database: Callable[..., str]) -> Iterator[Engine]:
    """An engine on a copy of it, one for each test module."""
    with connect(make_database(planted[0])) as engine:
        yield engine


@pytest.fixture(scope="session", autouse=True)
def deadlines() -> Iterator[None]:
    """Nothing is late because the machine is slow."""
    with pytest.MonkeyPatch.context() as patch:
        for name in DEADLINES:
            patch.setattr(name, LATE_SECONDS)
        yield


@pytest.fixture(scope="session", autouse=True)
def spark_defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The default settings of each Spark in this run, and of its JVM."""
    settings = {
        "spark.joinsight.spool": tmp_path_factory.mktemp("spool"),  # what a job cannot deliver stays with the test run
        # On a slow machine nothing may be taken for lost that is on its way
        "spark.joinsight.shutdownTimeout": "10m",
        "spark.joinsight.requestTimeout": "5m",
        "spark.executor.heartbeat.maxFailures": 1_000_000,
    }
    options = " ".join([JAVA_OPTIONS, *(f"-D{key}={value}" for key, value in settings.items())])
    archive = class_archive.archive()
    class_archive.CONFIGURATION.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("SPARK_CONF_DIR", str(class_archive.CONFIGURATION))
        if "PYTEST_XDIST_WORKER" in os.environ:
            stack.enter_context(class_archive.in_background(archive, options))
        patch.setenv("SPARK_SUBMIT_OPTS", f"{options} -XX:SharedArchiveFile={archive} -Xlog:disable")
        yield


@pytest.fixture(scope="session")
def spark_environment(spark_defaults: None) -> Callable[[str], dict[str, str]]:
    """Environment variables with which this Python finds a version of PySpark; installs it at first use."""

    def environment(version: str) -> dict[str, str]:
        base = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        base.pop("SPARK_HOME", None)
        if version == metadata.version("pyspark"):
            return base
        return {**base, "PYTHONPATH": str(pyspark_folder(version).parent)}

    return environment


@pytest.fixture(scope="session")
def spark_run(
    spark_environment: Callable[[str], dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkRun]:
    """Runs scripts in warm processes of any version of Spark; the listener's token is `a token`."""

    def environment(version: str) -> dict[str, str]:
        return {**spark_environment(version), "JOINSIGHT_TOKEN": "a token"}

    run = SparkRun(environment, tmp_path_factory.mktemp, listener_jar())
    yield run
    run.close()
