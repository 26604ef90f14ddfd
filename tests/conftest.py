"""Real parts for the tests: a PostgreSQL, a collector that listens, and Spark in the versions that we promise."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from joinsight.demo.history import Planted
from joinsight.store.database import connect, upgrade
from joinsight.store.embedded import embedded_postgres

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venvs"
INSTALLED_SPARK = "4.3.0"
SERVER = os.environ.get("JOINSIGHT_TEST_DATABASE_URL")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints at the end what tests recorded as their `summary`, whatever process ran them."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "summary":
                    terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server of this test run: of JOINSIGHT_TEST_DATABASE_URL, else an embedded one."""
    if SERVER:
        yield SERVER
        return
    folder = tmp_path_factory.mktemp("postgres")
    with embedded_postgres(folder) as embedded_url:
        admin = create_engine(embedded_url, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text("ALTER SYSTEM SET fsync = off"))  # nothing of it has to outlive the machine
            connection.execute(text("SELECT pg_reload_conf()"))
        admin.dispose()
        yield embedded_url
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def make_database(postgres: str) -> Iterator[Callable[..., str]]:
    """Makes empty databases, or copies of a template; they are dropped at the end, if the server stays."""
    names: list[str] = []
    admin = create_engine(postgres, isolation_level="AUTOCOMMIT")

    def make(template: str = "template1") -> str:
        names.append(f"test_{os.getpid()}_{len(names)}")
        with admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{names[-1]}" TEMPLATE "{template}"'))
        return make_url(postgres).set(database=names[-1]).render_as_string(hide_password=False)

    yield make
    if SERVER:
        with admin.connect() as connection:
            for name in names:
                connection.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
    admin.dispose()


@pytest.fixture(scope="session")
def make_store(make_database: Callable[..., str]) -> Callable[[], str]:
    """Makes databases with the schema, as copies of one: that takes half the time."""
    url = make_database()
    with connect(url) as engine:
        upgrade(engine)
    return lambda: make_database(make_url(url).database)


@pytest.fixture(scope="module")
def engine(make_store: Callable[[], str]) -> Iterator[Engine]:
    """An engine on a new database with the schema, one for each test module."""
    with connect(make_store()) as engine:
        yield engine


@pytest.fixture(scope="session")
def planted(make_store: Callable[[], str]) -> tuple[str, Planted]:
    """The name of a database with the history of `tests/cookbook`, made once, to be copied; and what is in it."""
    from tests.cookbook.history import plant

    url = make_store()
    with connect(url) as engine:
        return str(make_url(url).database), plant(engine)


@pytest.fixture(scope="module")
def planted_engine(planted: tuple[str, Planted], make_database: Callable[..., str]) -> Iterator[Engine]:
    """An engine on a copy of it, one for each test module."""
    with connect(make_database(planted[0])) as engine:
        yield engine


@pytest.fixture(scope="session", autouse=True)
def spark_defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What each Spark of this test run is given, unless the test says otherwise."""
    settings = tmp_path_factory.mktemp("spark-conf")
    options = {
        "spark.joinsight.spool": tmp_path_factory.mktemp("spool"),  # what a job cannot deliver stays with the test run
        # It lives for seconds: code compiled once and simply is there sooner than code compiled well
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    (settings / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(settings))
        yield


@pytest.fixture(scope="session")
def spark_environment(spark_defaults: None) -> Callable[[str], dict[str, str]]:
    """Environment variables under which this Python finds PySpark of a version; installs it at first use."""

    def environment(version: str) -> dict[str, str]:
        base = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        base.pop("SPARK_HOME", None)
        if version == INSTALLED_SPARK:
            return base
        folder = ENVIRONMENTS / f"pyspark-{version}"
        ENVIRONMENTS.mkdir(exist_ok=True)
        with (ENVIRONMENTS / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process of the test run installs it, the others wait
            if not (folder / "pyspark" / "jars").is_dir():
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
                subprocess.run([*pip, f"pyspark=={version}"], check=True)
        return {**base, "PYTHONPATH": str(folder)}

    return environment
