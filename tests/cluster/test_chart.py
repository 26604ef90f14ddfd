"""The Helm chart: what it makes is docker/kubernetes.yaml, and the optional objects on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.cluster.programs import program
from tests.processes import ran
from tests.stack.stack import ROOT, read
from tests.stack.test_kubernetes import validate

import joinsight

pytestmark = pytest.mark.cluster
CHART = ROOT / "docker/helm/joinsight"
OPTIONAL = ("serviceMonitor", "prometheusRule", "dashboards", "networkPolicy", "podDisruptionBudget")


def helm(*arguments: object) -> str:
    """What ``helm ARGUMENTS`` prints; it must succeed."""
    return ran(program("helm") / "helm", *arguments).stdout


def template(*arguments: str) -> dict[str, Any]:
    """The objects by kind."""
    made = helm("template", "joinsight", CHART, "--kube-version", "1.33", *arguments)
    return {each["kind"]: each for each in YAML(typ="safe").load_all(made) if each}


def test_it_is_clean() -> None:
    """`helm lint` finds nothing, and the chart has the version of the package."""
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)
    assert read("docker/helm/joinsight/Chart.yaml")["appVersion"] == joinsight.__version__


def test_it_makes_what_the_file_has() -> None:
    """Without values: a Deployment and a Service, with the pod of docker/kubernetes.yaml."""
    made = template()
    file = {each["kind"]: each for each in YAML(typ="safe").load_all((ROOT / "docker/kubernetes.yaml").read_text())}
    assert made.keys() == file.keys()
    for of_chart, of_file in zip(made.values(), (file[kind] for kind in made), strict=True):
        assert of_chart["metadata"]["name"] == of_file["metadata"]["name"]
    pods = [each["Deployment"]["spec"]["template"]["spec"] for each in (made, file)]
    assert pods[0] == pods[1]
    assert made["Service"]["spec"]["ports"] == file["Service"]["spec"]["ports"]


ALL = (
    *("--set", "secret.create=true,secret.tokens=spark:a,secret.collectorPassword=b"),
    *("--set", ",".join(f"{name}.enabled=true" for name in OPTIONAL)),
)


@pytest.mark.parametrize("version", ["1.25", "1.30", "1.33"])
def test_objects_follow_the_schemas(version: str, tmp_path: Path) -> None:
    """All but those of the Prometheus Operator, which has schemas of its own, also with what values may add."""
    added = (
        "imagePullSecrets[0].name=a,nodeSelector.a=b,tolerations[0].key=c,podAnnotations.d=e,image.pullPolicy=Always"
    )
    peers = (
        "networkPolicy.from[0].namespaceSelector.matchLabels.spark=jobs,environment[0].name=F,environment[0].value=g"
    )
    made = template(*ALL, "--set", f"{added},{peers},arguments={{--keep,400d}}", "--kube-version", version)
    its = [each for each in made.values() if "monitoring.coreos.com" not in each["apiVersion"]]
    with (tmp_path / "made.yaml").open("w") as file:
        YAML(typ="safe").dump_all(its, file)
    done = validate(tmp_path / "made.yaml", version)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed for resource") == len(its) == 6


@pytest.mark.parametrize("version", ["1.25", "1.30", "1.33"])
def test_optional_objects(version: str) -> None:
    """Each is made when it is enabled; rules and dashboards are those of the repository."""
    made = template(*ALL, "--kube-version", version)
    monitored = {"ServiceMonitor", "PrometheusRule", "ConfigMap"}
    kinds = {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "Secret"}
    assert made.keys() == kinds | monitored
    rules = [read(f"dashboards/prometheus/{name}.yml")["groups"] for name in ("rules", "alerts")]
    assert made["PrometheusRule"]["spec"]["groups"] == [group for groups in rules for group in groups]
    dashboards = {path.name: path.read_text() for path in (ROOT / "dashboards/grafana").glob("*.json")}
    assert made["ConfigMap"]["data"] == dashboards
    assert made["Secret"]["stringData"] == {"tokens": "spark:a", "collector_password": "b"}
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        spec = made[kind]["spec"]
        assert (spec.get("podSelector") or spec["selector"])["matchLabels"] == labels
    assert (
        made["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
        <= made["Service"]["metadata"]["labels"].items()
    )


def test_a_secret_needs_its_contents() -> None:
    """The message names the option that is missing."""
    with pytest.raises(AssertionError, match=r"--set-file secret\.tokens=secrets/tokens"):
        template("--set", "secret.create=true")
