"""The collector and Spark's jobs on a real Kubernetes, as docs/kubernetes.md says."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.kubernetes.cluster import COLLECTOR, HOST, SPARK, Kubernetes, kubernetes
from tests.installed import pyspark_folder
from tests.serving import serving
from tests.stack.stack import ROOT
from tests.versions import NEWEST, SUPPORTED
from tests.waiting import SECONDS, until

from joinsight.driver.attach import listener_jar

pytestmark = pytest.mark.cluster
HERE = Path(__file__).parent
SCRIPT = HERE.parent / "jobs/job.py"
NAMESPACE, JOBS, CHART = "monitoring", "jobs", "chart"
JAR = "local:///opt/joinsight/joinsight-listener.jar"
LABEL = "app.kubernetes.io/name=joinsight"
PSQL = ("psql", "-XqtA", "-h127.0.0.1", "-Upostgres", "joinsight", "-c")
SECRETS = ROOT / "docker/secrets.sh"
DATABASE = f"postgresql+psycopg://joinsight@postgres.{NAMESPACE}:5432/joinsight"


def select(cluster: Kubernetes, query: str) -> Any:
    """The only value of a query of the database."""
    return json.loads(cluster("exec", "-n", NAMESPACE, "postgres", "--", *PSQL, query))


@dataclass(frozen=True, slots=True)
class Collector:
    """A deployment of it."""

    cluster: Kubernetes
    namespace: str

    @property
    def url(self) -> str:
        """Its address for pods."""
        return f"http://joinsight.{self.namespace}:9595"

    def execute(self, *command: str) -> list[dict[str, Any]]:
        """The rows that a command in its pod prints."""
        place = ("exec", "-n", self.namespace, "deploy/joinsight", "-c", "collector", "--", "joinsight-entrypoint")
        return [json.loads(line) for line in self.cluster(*place, *command, "--json").splitlines()]

    def executions(self, job: str) -> list[dict[str, Any]]:
        """The stored executions of this job."""
        found = self.execute("queries", "--limit", "1000")
        return [row for row in found if row["job_name"] == job]

    def states(self, job: str) -> set[str]:
        """States of a job's executions."""
        return {row["state"] for row in self.executions(job)}

    def ready(self) -> None:
        """Wait until it serves."""
        self.cluster("rollout", "status", "-n", self.namespace, "deploy/joinsight", "--timeout=120s")

    def scale(self, pods: int) -> None:
        """Have so many pods, and wait until that is true."""
        self.cluster("scale", "-n", self.namespace, "deploy/joinsight", f"--replicas={pods}")
        if pods:
            self.ready()
        else:
            self.cluster("wait", "-n", self.namespace, "pod", "-l", LABEL, "--for=delete", "--timeout=120s")


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docker/secrets.sh makes."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "docker").mkdir()
    (folder / "docker/secrets.sh").write_text(SECRETS.read_text())
    subprocess.run(["sh", folder / "docker/secrets.sh"], check=True)
    return folder / "secrets"


@pytest.fixture(scope="module")
def cluster(secrets: Path) -> Iterator[Kubernetes]:
    """A cluster with PostgreSQL, namespaces, and the secrets of the guide."""
    with kubernetes() as cluster:
        for namespace in (NAMESPACE, JOBS, CHART):
            cluster("create", "namespace", namespace)
        restricted = "pod-security.kubernetes.io/enforce=restricted"
        cluster("label", "namespace", CHART, restricted)
        cluster("create", "serviceaccount", "spark", "-n", JOBS)
        cluster("create", "rolebinding", "spark", "-n", JOBS, "--clusterrole=edit", f"--serviceaccount={JOBS}:spark")
        files = [f"--from-file={secrets}/{name}" for name in ("tokens", "collector_password")]
        cluster("create", "secret", "generic", "joinsight", "-n", NAMESPACE, *files)
        cluster("create", "secret", "generic", "joinsight-spark", "-n", JOBS, f"--from-file={secrets}/spark_token")
        names = {"postgres_password": "postgres_password"}
        names |= {f"joinsight_{role}_password": f"{role}_password" for role in ("collector", "reader")}
        files = [f"--from-file={name}={secrets}/{file}" for name, file in names.items()]
        cluster("create", "secret", "generic", "postgres", "-n", NAMESPACE, *files)
        roles = f"--from-file=joinsight.sh={ROOT / 'docker/postgres-roles.sh'}"
        cluster("create", "configmap", "roles", "-n", NAMESPACE, roles)
        cluster("apply", "-n", NAMESPACE, "-f", HERE / "postgres.yaml")
        cluster("wait", "-n", NAMESPACE, "pod/postgres", "--for=condition=Ready", "--timeout=120s")
        yield cluster


@pytest.fixture(scope="module")
def collector(cluster: Kubernetes) -> Collector:
    """The collector of docker/kubernetes.yaml, with an image and a database's address."""
    text = (ROOT / "docker/kubernetes.yaml").read_text()
    text = text.replace("registry.example.com/joinsight:0.1.0", COLLECTOR)
    text = text.replace("@postgres.example.com:5432", f"@postgres.{NAMESPACE}:5432")
    cluster("apply", "-n", NAMESPACE, "--validate=strict", "-f", "-", stdin=text)
    collector = Collector(cluster, NAMESPACE)
    collector.ready()
    return collector


@pytest.fixture(scope="module")
def jar_url() -> Iterator[str]:
    """The jar on a web server of this machine."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(listener_jar().parent))
    with serving(ThreadingHTTPServer((HOST, 0), handler)) as server:
        yield f"http://{HOST}:{server.server_address[1]}/{listener_jar().name}"


@dataclass(frozen=True, slots=True)
class Job:
    """How a job is submitted."""

    cluster: Kubernetes
    name: str
    url: str
    version: str = NEWEST
    mode: str = "cluster"
    options: tuple[str, ...] = ("--jars", JAR)
    argument: str = ""

    def command(self) -> list[str]:
        """That of spark-submit."""
        spark = pyspark_folder(self.version)
        authority, token = str(self.cluster.folder / "pki/ca.crt"), str(self.cluster.token("spark", JOBS))
        conf = {
            "spark.kubernetes.namespace": JOBS,
            "spark.kubernetes.container.image": SPARK,
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.authenticate.submission.caCertFile": authority,
            "spark.kubernetes.authenticate.submission.oauthTokenFile": token,
            "spark.kubernetes.executor.request.cores": "200m",
            "spark.kubernetes.driver.request.cores": "200m",
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.plugins": "io.joinsight.JoinsightPlugin",
            "spark.joinsight.url": self.url,
        }
        mounted = {"pyspark": (spark.parent, "/opt/pyspark"), "job": (SCRIPT.parent, "/opt/job")}
        for role in ("driver", "executor"):
            for volume, (source, target) in mounted.items():
                key = f"spark.kubernetes.{role}.volumes.hostPath.{volume}"
                conf |= {f"{key}.mount.path": target, f"{key}.mount.readOnly": "true"}
                conf[f"{key}.options.path"] = str(source)
        if self.mode == "cluster":
            conf["spark.kubernetes.driver.secrets.joinsight-spark"] = "/etc/joinsight"
            conf["spark.joinsight.tokenFile"] = "/etc/joinsight/spark_token"
            script = "local:///opt/job/job.py"
        else:
            conf |= {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
            conf["spark.kubernetes.authenticate.caCertFile"] = authority
            conf["spark.kubernetes.authenticate.oauthTokenFile"] = token
            script = str(SCRIPT)
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        command = [str(spark / "bin/spark-submit"), "--master", "k8s://https://127.0.0.1:6443"]
        command += ["--deploy-mode", self.mode, "--name", self.name, *settings, *self.options, script]
        return [*command, *filter(None, [self.argument])]

    def run(self) -> None:
        """Run it to its end."""
        done = self.cluster.run(*self.command())
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]

    @contextlib.contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Submit it, and run the block meanwhile."""
        nothing = subprocess.DEVNULL
        submitting = subprocess.Popen(self.command(), env=self.cluster.environment, stdout=nothing, stderr=nothing)
        try:
            yield submitting
        finally:
            submitting.terminate()
            submitting.wait()
            self.cluster("delete", "pod", "-n", JOBS, "--all", "--force", "--grace-period=0")

    def pod(self, role: str = "driver") -> str:
        """The name of the pod of its driver, or of its only executor."""
        pods = self.cluster.get("pods", "-n", JOBS, "-l", f"spark-role={role},spark-app-name={self.name}")
        (pod,) = pods["items"]
        return str(pod["metadata"]["name"])


def test_the_collector_of_the_file(collector: Collector) -> None:
    """It is ready, and commands in its pod reach the database by the entry point."""
    assert collector.execute("queries") == []


def test_client_mode(collector: Collector, secrets: Path) -> None:
    """A driver on this machine, with the jar by --jars: its queries are stored."""
    address = collector.cluster.get("service", "joinsight", "-n", NAMESPACE)["spec"]["clusterIP"]
    options = ("--jars", str(listener_jar()), "--conf", f"spark.joinsight.tokenFile={secrets}/spark_token")
    Job(collector.cluster, "client", f"http://{address}:9595", mode="client", options=options).run()
    assert [row["state"] for row in collector.executions("client")] == ["succeeded"] * 2


@pytest.mark.parametrize(("version", "way"), [(SUPPORTED[0], "image"), ("4.1.4", "url"), (NEWEST, "image")])
def test_cluster_mode(collector: Collector, jar_url: str, version: str, way: str) -> None:
    """A driver in a pod, with the token of a secret, and the jar in the image or from a URL; it names its pod."""
    cluster = collector.cluster
    job = Job(
        cluster,
        f"{way}-{version.replace('.', '-')}",
        collector.url,
        version,
        options=("--jars", JAR if way == "image" else jar_url),
    )
    job.run()
    assert [row["state"] for row in collector.executions(job.name)] == ["succeeded"] * 2
    tags = select(cluster, f"SELECT to_json(tags) FROM application WHERE job_name = '{job.name}'")
    executors = job.pod().removesuffix("-driver") + "-exec-ID"
    assert tags == {"pod": job.pod(), "pod_namespace": JOBS, "executor_pods": executors}


def test_the_spool_of_a_pod(collector: Collector) -> None:
    """What a driver could not deliver is lost with its pod, and its log says so, and what to do."""
    options = ("--jars", JAR, "--conf", "spark.joinsight.shutdownTimeout=1s")
    job = Job(collector.cluster, "spool", "http://joinsight.nowhere:9595", options=options)
    job.run()
    log = collector.cluster("logs", "-n", JOBS, job.pod())
    assert "They are lost when this pod ends: set spark.joinsight.spool to a folder of a volume" in log, log[-3000:]
    assert "joinsight ship" not in log


def test_executor_and_collector_gone(collector: Collector) -> None:
    """A query that ran without a collector, after its executor's pod was deleted, is stored later."""
    cluster = collector.cluster
    job = Job(cluster, "gone", collector.url, argument="wait")
    with job.running() as submitting:
        until(lambda: collector.states(job.name) == {"succeeded"}, "its first query is stored")
        cluster("delete", "pod", "-n", JOBS, job.pod("executor"), "--grace-period=0", "--force")
        collector.scale(0)
        driver = ("exec", "-n", JOBS, job.pod(), "--", "sh", "-c")
        cluster(*driver, "touch go; until [ -e done ]; do sleep 0.1; done")
        collector.scale(1)
        cluster(*driver, "touch end")
        assert submitting.wait() == 0
        assert [row["state"] for row in collector.executions(job.name)] == ["succeeded"] * 2


class Helm:
    """The chart in a namespace where Pod Security is `restricted`, with the database of the other collector."""

    def __init__(self, cluster: Kubernetes, secrets: Path) -> None:
        self.cluster = cluster
        repository, _, tag = COLLECTOR.rpartition(":")
        self.values = [
            *("--set", f"image.repository={repository},image.tag={tag},databaseUrl={DATABASE},secret.create=true"),
            *("--set-file", f"secret.tokens={secrets}/tokens"),
            *("--set-file", f"secret.collectorPassword={secrets}/collector_password"),
            *("--set", "networkPolicy.enabled=true,podDisruptionBudget.enabled=true,dashboards.enabled=true"),
            *("--set", "arguments={--lost-after,1m}"),
        ]

    def __call__(self, *arguments: str | Path) -> None:
        done = self.cluster.run("helm", *arguments, "-n", CHART, "--wait", "--timeout", "180s")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def of_chart(collector: Collector, secrets: Path) -> Collector:
    """The collector that the chart made, installed, upgraded to two pods and rolled back; the other one is off."""
    cluster, helm = collector.cluster, Helm(collector.cluster, secrets)
    chart = ROOT / "docker/helm/joinsight"
    collector.scale(0)
    helm("install", "joinsight", chart, *helm.values)
    helm("upgrade", "joinsight", chart, "--reuse-values", "--set", "replicas=2")
    assert cluster.get("deploy", "joinsight", "-n", CHART)["status"]["readyReplicas"] == 2
    helm("rollback", "joinsight", "1")
    found = Collector(cluster, CHART)
    found.ready()
    return found


def test_the_chart(of_chart: Collector) -> None:
    """The release is back at one pod, with its optional objects."""
    assert of_chart.cluster.get("deploy", "joinsight", "-n", CHART)["spec"]["replicas"] == 1
    made = of_chart.cluster.get("networkpolicy,pdb,configmap", "-n", CHART)["items"]
    assert {"NetworkPolicy", "PodDisruptionBudget", "ConfigMap"} == {each["kind"] for each in made}


def test_a_node_can_be_drained(of_chart: Collector) -> None:
    """The budget does not keep the only pod from being evicted; the next one serves."""
    cluster = of_chart.cluster
    pods = [each["metadata"] for each in cluster.get("pods", "-n", CHART, "-l", LABEL)["items"]]
    (name,) = (each["name"] for each in pods if "deletionTimestamp" not in each)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    address = f"/api/v1/namespaces/{CHART}/pods/{name}/eviction"
    cluster("create", "--raw", address, "-f", "-", stdin=json.dumps(eviction))
    cluster("wait", "-n", CHART, f"pod/{name}", "--for=delete", "--timeout=120s")
    of_chart.ready()
    assert isinstance(of_chart.execute("queries"), list)


@pytest.mark.parametrize(("end", "application"), [("deleted", "ended"), ("killed", "lost")])
def test_a_driver_that_is_gone(of_chart: Collector, end: str, application: str) -> None:
    """The query that ran when its driver's pod was deleted, or its driver killed, becomes lost."""
    cluster = of_chart.cluster
    job = Job(cluster, end, of_chart.url, argument="sleep")
    with job.running():
        until(lambda: of_chart.states(job.name) == {"succeeded", "running"}, "its second query runs")
        if end == "deleted":
            cluster("delete", "pod", "-n", JOBS, job.pod())
        else:
            cluster.kill(job.pod(), JOBS)
        until(lambda: of_chart.states(job.name) == {"succeeded", "lost"}, "it is lost", 3 * SECONDS)
        state = f"SELECT to_json(state) FROM application WHERE job_name = '{job.name}'"
        until(lambda: select(cluster, state) == application, f"the application is {application}")
