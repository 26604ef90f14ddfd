"""The JSON conforms to Grafana's own types, from the npm package of the version that it is made for."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from dashboards import GRAFANA
from jsonschema import Draft7Validator
from tests.dashboards.grafana import Json, dashboards, panels

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: Grafana's types are a package of it"),
]
PACKAGES = (f"@grafana/schema@{GRAFANA}", "ts-json-schema-generator@2.4.0")
PANELS = {"stat": "stat", "table": "table", "timeseries": "timeseries", "nodeGraph": "nodegraph"}
Validator = Callable[[str, str], Draft7Validator]


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Validator]:
    """Makes a validator of a type: folder of the package, name."""
    folder = tmp_path_factory.mktemp("npm")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install Grafana's types: {done.stderr[-300:]}")
    schemas: dict[tuple[str, str], Draft7Validator] = {}

    def make(module: str, name: str) -> Draft7Validator:
        if (module, name) not in schemas:
            types = f"node_modules/@grafana/schema/dist/types/raw/{module}/types.gen.d.ts"
            program = ["node_modules/.bin/ts-json-schema-generator", "--no-type-check", "--path", types, "--type", name]
            made = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True)
            schema = json.loads(made.stdout)
            if name == "FieldConfig":  # an override has some of its properties
                for each in schema["definitions"].values():
                    each.pop("required", None)
            schemas[module, name] = Draft7Validator(schema)
        return schemas[module, name]

    yield make


def errors(validator: Draft7Validator, found: object, where: str) -> list[str]:
    """What it has to say, each with its place."""
    return [f"{where} {each.json_path}: {each.message[:200]}" for each in validator.iter_errors(found)]


@pytest.mark.parametrize("uid", dashboards())
def test_every_property_is_known_to_grafana(uid: str, validator: Validator) -> None:
    """A dashboard, its panels, and what is particular to each kind of panel; no property is unknown to Grafana."""
    page = dashboards()[uid]
    for each in page["annotations"].get("list", ()):
        del each["target"]  # the type knows only that of Grafana's own annotations, not a query to a data source
    wrong = errors(validator("dashboard/x", "Dashboard"), page, uid)
    for panel in panels(page):
        where = f"{uid}/{panel['title']}"
        module = f"composable/{PANELS[panel['type']]}/panelcfg/x"
        wrong += errors(validator("dashboard/x", "Panel"), panel, where)
        wrong += errors(validator(module, "Options"), panel.get("options", {}), where)
        wrong += [each for custom in customs(panel) for each in errors(validator(module, "FieldConfig"), custom, where)]
    assert wrong == []


def customs(panel: Json) -> Iterator[Json]:
    """What is particular to the kind of panel in the configuration of its fields."""
    if "custom" in panel["fieldConfig"]["defaults"]:
        yield panel["fieldConfig"]["defaults"]["custom"]
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            name, _, inner = each["id"].removeprefix("custom.").partition(".")
            if each["id"].startswith("custom."):
                yield {name: {inner: each["value"]} if inner else each["value"]}
