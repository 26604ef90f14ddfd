"""Jobs on a standalone cluster, submitted in all ways: the executors are processes that get the jar from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.java import compile_java, jar_of, spark_home
from tests.processes import ran
from tests.standalone import Cluster, standalone
from tests.versions import NEWEST, SCALA_2_12

from joinsight.driver.attach import LISTENER, PLUGIN, listener_jar
from joinsight.tables import application, delivery, execution
from joinsight.tables.views import task_time

pytestmark = [pytest.mark.spark, pytest.mark.matrix]
JOB = Path(__file__).parent / "jobs" / "clustered.py"


@pytest.fixture(scope="module", params=[NEWEST, SCALA_2_12])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def environment(version: str, spark_environment: Callable[[str], dict[str, str]], token: Path) -> dict[str, str]:
    return {**spark_environment(version), "JOINSIGHT_TOKEN": token.read_text(), "SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(spark_home(environment), folder, environment, cores=2) as cluster:
        yield cluster


ROUTES = {
    "--jars": ["--jars", str(listener_jar())],
    "extraClassPath": [
        *("--conf", f"spark.driver.extraClassPath={listener_jar()}"),
        *("--conf", f"spark.executor.extraClassPath={listener_jar()}"),
    ],
}
OPENED = " ".join(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("sun.nio.ch", "java.nio", "java.util"))
"""What Spark 3.5 needs on Java 17 and its workers do not give to a driver."""
OTHERS = [(True, "0"), (False, "50ms")]
OF_EXECUTORS = {"spark.executor.memory": "512m", "spark.cores.max": "2", "spark.executor.cores": "1"}


def options(**conf: str) -> list[str]:
    """Options of spark-submit; `a_b` is ``spark.a.b``."""
    settings = {**OF_EXECUTORS, **{f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}}
    return [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]


def submit(environment: dict[str, str], *command: Any) -> None:
    spark_submit = spark_home(environment) / "bin" / "spark-submit"
    ran(spark_submit, *command, env=environment)


def check(engine: Engine, cluster: Cluster, *names: str, sampled: bool) -> None:
    """Each job is one application, under the id that the master gave it, and all of its documents have arrived."""
    of_master = {each["name"]: each["id"] for each in cluster.state()["completedapps"] if each["name"] in names}
    a, d = application.c, delivery.c
    with engine.connect() as connection:
        stored = connection.execute(select(a.name, a.application_id, a.attempt_id, a.state).where(a.name.in_(names)))
        ids = dict(of_master)
        assert sorted(stored) == sorted((name, ids.get(name), "", "ended") for name in names)
        for each in ids.values():
            (row,) = connection.execute(select(d.documents_made, d.documents_arrived).where(d.application_id == each))
            assert row[0] == row[1]
            states = connection.scalars(select(execution.c.state).where(execution.c.application_id == each))
            assert set(states) == {"succeeded"}
            of_it = select(task_time.c.samples).where(task_time.c.application_id == each)
            samples = connection.scalars(of_it.where(task_time.c.method == "sampled")).all()
            assert (sum(samples) > 0) == sampled, samples


@pytest.mark.parametrize("route", ["extraClassPath", pytest.param("--jars", marks=pytest.mark.nightly)])
def test_executors_on_workers_send_their_samples(
    version: str, environment: dict[str, str], cluster: Cluster, url: str, engine: Engine, route: str
) -> None:
    """The driver runs here, its executors on the workers; they have the plugin, and their samples arrive."""
    name = f"client {version} {route}"
    conf = options(plugins=PLUGIN, joinsight_url=url)
    submit(environment, "--master", cluster.url, *ROUTES[route], *conf, JOB, name, "")
    check(engine, cluster, name, sampled=True)


@pytest.mark.parametrize("route", ["--jars", pytest.param("extraClassPath", marks=pytest.mark.nightly)])
def test_a_driver_on_a_worker_fetches_the_jar(
    version: str,
    environment: dict[str, str],
    cluster: Cluster,
    url: str,
    token: Path,
    engine: Engine,
    tmp_path: Path,
    route: str,
) -> None:
    """The driver runs on a worker, which fetches the jar too; it makes two applications, one after the other."""
    compile_java(Path(__file__).parent / "Job.java", tmp_path)
    name = f"cluster {version} {route}"
    conf = options(
        plugins=PLUGIN,
        joinsight_url=url,
        joinsight_tokenFile=str(token),
        driver_memory="512m",
        driver_extraJavaOptions=OPENED,
        standalone_submit_waitAppCompletion="true",
    )
    submit(
        environment,
        *("--master", cluster.url, "--deploy-mode", "cluster", "--class", "Job", *ROUTES[route], *conf),
        *(jar_of(tmp_path, "Job"), f"{name} 1", f"{name} 2"),
    )
    check(engine, cluster, f"{name} 1", f"{name} 2", sampled=True)


@pytest.mark.parametrize(
    ("submitted", "interval"),
    [(True, "50ms"), (False, "0"), *(pytest.param(*each, marks=pytest.mark.nightly) for each in OTHERS)],
)
def test_attach_alone(
    version: str,
    environment: dict[str, str],
    cluster: Cluster,
    url: str,
    engine: Engine,
    submitted: bool,
    interval: str,
) -> None:
    """From Python alone, and in the JVM of spark-submit; executors get the jar, and sample unless that is off."""
    name = f"attach {version} {submitted} {interval}"
    conf = {**OF_EXECUTORS, "spark.master": cluster.url, "spark.joinsight.sampleInterval": interval}
    command = [spark_home(environment) / "bin" / "spark-submit" if submitted else sys.executable, JOB, name, url]
    command += [f"{key}={value}" for key, value in conf.items()]
    ran(*command, env=environment)
    check(engine, cluster, name, sampled=interval != "0")


def test_a_job_in_java_with_the_listener(
    version: str, environment: dict[str, str], cluster: Cluster, url: str, token: Path, engine: Engine, tmp_path: Path
) -> None:
    """Without the plugin the executors do not need the jar: `spark.driver.extraClassPath` is enough."""
    compile_java(Path(__file__).parent / "Job.java", tmp_path)
    name = f"listener {version}"
    conf = options(extraListeners=LISTENER, joinsight_url=url, driver_extraClassPath=str(listener_jar()))
    submit(environment, "--master", cluster.url, "--class", "Job", *conf, jar_of(tmp_path, "Job"), name)
    check(engine, cluster, name, sampled=False)
