"""Reads docker-compose.yml for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]


def read(name: str) -> Any:
    """A YAML file of the repository, with anchors and merges resolved."""
    return YAML(typ="safe").load(ROOT / name)


def compose() -> Any:
    """docker-compose.yml."""
    return read("docker-compose.yml")
