"""docker-compose.yml, the Dockerfile and the files they name, as far as tests without Docker can tell."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.processes import ran
from tests.stack.stack import ROOT, compose, read

from joinsight.grafana import files, sources

COMPOSE = compose()
SERVICES = COMPOSE["services"]
ONCE = {"schema", "reader"}
"""Services that do something and end."""


def test_it_follows_the_compose_specification() -> None:
    """docker-compose.yml conforms to the JSON Schema of the specification."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    ran(*check, ROOT / "docker-compose.yml")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_looked_after(name: str) -> None:
    """A version of its image, a health check (the collector's is the image's) and a restart."""
    service = SERVICES[name]
    own = service["image"] == SERVICES["collector"]["image"]
    assert own or re.search(r":v?\d+\.\d+(\.\d+)?(-bookworm)?$", service["image"])
    assert ("build" in service) == (name == "collector"), "one service builds the image"
    assert (service.get("pull_policy") == "never") == (own and "build" not in service)
    assert service["security_opt"] == ["no-new-privileges:true"]
    if name in ONCE:
        assert service["healthcheck"] == {"disable": True}
        assert service["restart"] == "on-failure:3"
    else:
        assert service["restart"] == "unless-stopped"
        assert "build" in service or service["healthcheck"]["test"][0] == "CMD"


def test_what_it_names_exists() -> None:
    """Services, secrets and volumes are declared and used, files of the repository are there."""
    volumes, secrets = set(), set()
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            assert (how["condition"] == "service_completed_successfully") == (other in ONCE)
        secrets |= set(service.get("secrets", ()))
        for source, *_ in (each.split(":") for each in service.get("volumes", ())):
            if source.startswith("."):
                assert (ROOT / source).exists(), source
            else:
                volumes.add(source)
    assert volumes == set(COMPOSE["volumes"])
    assert secrets == set(COMPOSE["secrets"])


def test_no_password_is_written_down() -> None:
    """Each is in a file of ./secrets, which git ignores and no image gets; ports are open to this machine only."""
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|SECRET", key):
                assert value.removeprefix("/run/secrets/") in service["secrets"], (name, key)
            assert not re.search("//[^/]*:[^/]*@", str(value)), (name, key)
        for port in service.get("ports", ()):
            assert re.fullmatch(r"\$\{([A-Z]+)_LISTEN:-127\.0\.0\.1\}:\$\{\1_PORT:-(\d+)\}:\2", port), port
    assert {Path(each["file"]).parent for each in COMPOSE["secrets"].values()} == {Path("secrets")}
    assert {"/secrets/", "/.env", "/docker-compose.override.yml"} <= {*(ROOT / ".gitignore").read_text().split()}
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert "*" in ignored
    assert "!secrets" not in ignored


def test_the_image_is_small_and_no_roots() -> None:
    """Pinned bases, a last stage without a compiler and with a user, and only files that are sent to the builder."""
    text = (ROOT / "Dockerfile").read_text()
    assert set(re.findall("^FROM (\\S+)", text, re.MULTILINE)) == {"python:3.13.5-slim-bookworm"}
    last = text[text.rindex("\nFROM ") :]
    assert re.search("^USER [1-9][0-9]*$", last, re.MULTILINE)
    assert not re.search("apt-get|pip install", last)
    sent = set(re.findall("^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    for line in re.findall("^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for source in [word for word in line.split() if not word.startswith("--")][:-1]:
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] in sent, source
    assert all((ROOT / name).exists() for name in sent)
    assert SERVICES["collector"]["user"] in re.findall("^USER (.+)$", last, re.MULTILINE)


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """It has the rules and alerts at the paths of the volumes, and scrapes the collector's service."""
    for source, target, *_ in (each.split(":") for each in SERVICES["prometheus"]["volumes"]):
        if source.startswith("."):
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, tmp_path / Path(target).relative_to("/etc/prometheus"))
    scraped = read("docker/prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    assert scraped == ["collector:" + SERVICES["collector"]["ports"][0].rpartition(":")[2]]
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    done = ran("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert "SUCCESS: 2 rule files found" in done.stdout


def test_grafana_has_the_data_sources_that_push_makes() -> None:
    """The file, with the service's environment in it, and the command say the same."""
    text = (ROOT / "dashboards" / files.SOURCES).read_text()
    for key, value in SERVICES["grafana"]["environment"].items():
        text = text.replace(f"${{{key}}}", value)
    from_file = YAML(typ="safe").load(text)["datasources"]
    environment = SERVICES["grafana"]["environment"]
    password = f"$__file{{/run/secrets/{SERVICES['grafana']['secrets'][1]}}}"
    where = ("postgres:5432", "joinsight", environment["JOINSIGHT_POSTGRESQL_USER"], "disable")
    pushed = [sources.postgresql(*where, password), sources.prometheus("http://prometheus:9090")]
    assert from_file == [{**source, "editable": False} for source in pushed]


def test_export_writes_what_the_stack_uses(tmp_path: Path) -> None:
    """The committed files are byte for byte at the paths where the stack's Grafana reads them."""
    files.export(files.folder(), tmp_path, files.IN_CONTAINER)
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    committed = [*(ROOT / "dashboards/grafana").glob("*"), *(ROOT / "dashboards/provisioning").rglob("*.yml")]
    assert written == {path.relative_to(ROOT / "dashboards") for path in committed}
    for name in written:
        assert (tmp_path / name).read_bytes() == (ROOT / "dashboards" / name).read_bytes(), name
    seen = dict(each.split(":")[:2] for each in SERVICES["grafana"]["volumes"])
    assert (
        seen["./dashboards/grafana"]
        == read("dashboards/provisioning/dashboards/joinsight.yml")["providers"][0]["options"]["path"]
    )
