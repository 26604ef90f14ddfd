"""docker/kubernetes.yaml, as far as tests without a cluster can tell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.installed import packages
from tests.stack.stack import ROOT, compose

import joinsight

FILE = ROOT / "docker/kubernetes.yaml"
SECRETS = "/run/secrets/joinsight"


def manifests() -> dict[str, Any]:
    """The objects by kind."""
    return {each["kind"]: each for each in YAML(typ="safe").load_all(FILE.read_text())}


def validate(file: Path, version: str = "1.37") -> subprocess.CompletedProcess[str]:
    """Check a file against the JSON Schemas of Kubernetes, where unknown fields are errors."""
    folder = packages("kubernetes", "kubernetes-validate==1.37.0")
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, str(file)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True)


@pytest.mark.matrix
def test_it_follows_the_schema(tmp_path: Path) -> None:
    """Each object conforms to its schema; a misspelt field would not."""
    done = validate(FILE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed for resource") == 2
    (tmp_path / "wrong.yaml").write_text(FILE.read_text().replace("replicas:", "replica:"))
    done = validate(tmp_path / "wrong.yaml")
    assert done.returncode == 1 and "replica" in done.stdout


def test_it_runs_what_compose_runs() -> None:
    """Commands, user, variables and time to stop are those of docker-compose.yml, which are run in tests."""
    services = compose()["services"]
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (schema,), (collector,) = pod["initContainers"], pod["containers"]
    assert schema["args"] == services["schema"]["command"]
    its = [f"{SECRETS}/tokens" if arg.startswith("/run/secrets") else arg for arg in services["collector"]["command"]]
    assert collector["args"] == its
    assert f"{pod['terminationGracePeriodSeconds']}s" == services["collector"]["stop_grace_period"]
    assert str(pod["securityContext"]["runAsUser"]) == services["collector"]["user"]
    for container in (schema, collector):
        assert {each["name"] for each in container["env"]} == services["schema"]["environment"].keys()
        assert container["image"].endswith(f"/joinsight:{joinsight.__version__}")
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounted == {"secrets": SECRETS, "tmp": "/tmp"}


def test_what_it_names_fits() -> None:
    """The service finds the pods and their port; the files of the secret are those that the guide creates."""
    found = manifests()
    spec = found["Deployment"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    (port,) = pod["containers"][0]["ports"]
    assert (port["name"], port["containerPort"]) == ("http", 9595)
    assert [each["targetPort"] for each in found["Service"]["spec"]["ports"]] == ["http"]
    assert {each["name"] for each in pod["volumes"]} == {"secrets", "tmp"}
    files = set(re.findall(rf"{SECRETS}/(\w+)", FILE.read_text()))
    guide = (ROOT / "docs/kubernetes.md").read_text()
    assert set(re.findall(r"--from-file=secrets/(\w+)", guide)) >= files == {"tokens", "collector_password"}
