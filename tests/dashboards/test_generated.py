"""The committed JSON is what the Python code generates."""

from __future__ import annotations

import json

import pytest
from tests.dashboards.grafana import FOLDER, dashboards

pytest.importorskip("grafana_foundation_sdk", reason="the SDK wants Python 3.11")
pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")  # see docs/dashboards.md


def test_regenerating_changes_nothing() -> None:
    """`python -m dashboards` writes these files and no others."""
    from dashboards.everything import rendered

    assert rendered() == {file.name: file.read_text() for file in FOLDER.glob("*.json")}


def test_the_sdk_knows_all_that_is_in_it() -> None:
    """Read into the SDK's models and written again, nothing is lost: no misspelt or outdated field."""
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    for uid, each in dashboards().items():
        again = json.loads(json.dumps(Dashboard.from_json(each), cls=JSONEncoder))
        assert lost(each, again, uid) == []


def lost(before: object, after: object, where: str) -> list[str]:
    """Paths of what is in the one and not in the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [path for key in before for path in lost(before[key], after.get(key), f"{where}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [path for i, pair in enumerate(zip(before, after, strict=True)) for path in lost(*pair, f"{where}[{i}]")]
    return [] if before == after else [f"{where}: {before!r} became {after!r}"]
