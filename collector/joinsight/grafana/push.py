"""Creates or updates folder, data sources and dashboards in Grafana; up-to-date objects are not touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from joinsight import __version__
from joinsight.base.errors import GrafanaError
from joinsight.grafana.client import Grafana

FOLDER = "joinsight"
"""The folder's uid. Its title is set once, because users may change it."""
_NO_FOLDER = (404, 403, 500)
"""Grafana's statuses for a missing folder: an Editor gets "may not be read" or "parents not found"."""


def push(
    grafana: Grafana, title: str, sources: Iterable[dict[str, Any]], dashboards: Iterable[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each object and the action (made, changed, unchanged, password: set again) as it completes.

    A repeated push changes nothing. After a failure, the remaining objects are unchanged; push again. Raises
    `GrafanaError`.
    """
    grafana.check()
    for source in sources:
        yield f"data source {source['name']}", _source(grafana, source)
    yield f"folder {title}", _folder(grafana, title)
    for dashboard in dashboards:
        yield f"dashboard {dashboard['title']}", _dashboard(grafana, dashboard)


def _folder(grafana: Grafana, title: str) -> str:
    if grafana.find(f"/folders/{FOLDER}", _NO_FOLDER):
        return "unchanged"
    grafana.post("/folders", {"uid": FOLDER, "title": title})
    return "made"


def _source(grafana: Grafana, source: dict[str, Any]) -> str:
    """A password cannot be read back, so a given one is always set. Other settings (certificates) are kept."""
    path = f"/datasources/uid/{source['uid']}"
    current = grafana.find(path)
    if current is None:
        grafana.post("/datasources", source)
        return "made"
    same = has(current, {key: value for key, value in source.items() if key != "secureJsonData"})
    if same and "secureJsonData" not in source:
        return "unchanged"
    if current.get("readOnly"):
        raise GrafanaError(f"The data source {source['uid']} is provisioned from a file: change it there.")
    grafana.put(path, {**source, "jsonData": {**current.get("jsonData", {}), **source["jsonData"]}})
    return "password" if same else "changed"


def _dashboard(grafana: Grafana, dashboard: dict[str, Any]) -> str:
    current = grafana.find(f"/dashboards/uid/{dashboard['uid']}")
    wanted = {key: value for key, value in dashboard.items() if key not in ("id", "version")}
    if current is not None:
        meta = current.get("meta", {})
        if meta.get("folderUid") == FOLDER and has(current.get("dashboard"), wanted):
            return "unchanged"
        if meta.get("provisioned"):
            raise GrafanaError(f"The dashboard {dashboard['uid']} is provisioned from a file: change it there.")
    body = {"dashboard": {**wanted, "id": None}, "folderUid": FOLDER, "overwrite": True}
    grafana.post("/dashboards/db", {**body, "message": f"Joinsight {__version__}"})
    return "changed" if current else "made"


def has(theirs: Any, ours: Any) -> bool:
    """Whether `theirs` contains all of `ours`: Grafana adds fields of its own to stored objects, and omits empty ones.

    So a field that a user only added does not count as a difference.
    """
    pairs = [(theirs, ours)]
    while pairs:
        theirs, ours = pairs.pop()
        if isinstance(ours, dict) and isinstance(theirs, dict):
            pairs += [(theirs.get(key), value) for key, value in ours.items()]
        elif isinstance(ours, list) and isinstance(theirs, list):
            if len(ours) != len(theirs):
                return False
            pairs += zip(theirs, ours, strict=True)
        elif theirs != ours and not (theirs is None and ours in ([], {}, "")):
            return False
    return True
