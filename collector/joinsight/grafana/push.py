"""Makes a Grafana have our folder, data sources and dashboards, and changes nothing that is already so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from joinsight import __version__
from joinsight.errors import GrafanaError
from joinsight.grafana.client import Grafana

FOLDER = "joinsight"
"""The folder's uid. Its title is its owner's: it is given once."""
_NO_FOLDER = (404, 403, 500)
"""Of a folder that is not there, Grafana tells an Editor that it may not be read, or that its parents are not found."""


def push(
    grafana: Grafana, title: str, sources: Iterable[dict[str, Any]], dashboards: Iterable[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """What it is and what was done (made, changed, unchanged, password: set again), one after the other.

    Twice the same does nothing the second time. What fails leaves the rest as it is: once mended, do it again.
    Raises `GrafanaError`.
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
    """A password cannot be read, so one that is given is always set. Settings that are not ours stay (certificates)."""
    path = f"/datasources/uid/{source['uid']}"
    there = grafana.find(path)
    if there is None:
        grafana.post("/datasources", source)
        return "made"
    same = has(there, {key: value for key, value in source.items() if key != "secureJsonData"})
    if same and "secureJsonData" not in source:
        return "unchanged"
    if there.get("readOnly"):
        raise GrafanaError(f"The data source {source['uid']} comes from a file (provisioning): change it there.")
    grafana.put(path, {**source, "jsonData": {**there.get("jsonData", {}), **source["jsonData"]}})
    return "password" if same else "changed"


def _dashboard(grafana: Grafana, dashboard: dict[str, Any]) -> str:
    there = grafana.find(f"/dashboards/uid/{dashboard['uid']}")
    wanted = {key: value for key, value in dashboard.items() if key not in ("id", "version")}
    if there is not None:
        meta = there.get("meta", {})
        if meta.get("folderUid") == FOLDER and has(there.get("dashboard"), wanted):
            return "unchanged"
        if meta.get("provisioned"):
            raise GrafanaError(f"The dashboard {dashboard['uid']} comes from a file (provisioning): change it there.")
    body = {"dashboard": {**wanted, "id": None}, "folderUid": FOLDER, "overwrite": True}
    grafana.post("/dashboards/db", {**body, "message": f"Joinsight {__version__}"})
    return "changed" if there else "made"


def has(theirs: Any, ours: Any) -> bool:
    """Whether all of ours is in theirs: Grafana adds fields of its own to what it stores, and leaves out empty ones.

    So a field that somebody only added is no difference.
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
