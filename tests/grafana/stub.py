"""A stub of Grafana: a small HTTP server that keeps state as Grafana's documentation of its interface says it does.

It is no Grafana. Folders, data sources and dashboards by uid; dashboards with versions, `overwrite` and 412; secrets
that are never given back; fields that Grafana adds; provisioned ones that cannot be changed; Editors, to whom a folder
that is not there is one that they may not read.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from tests.serving import Handler, serving

TOKEN = "glsa_right"


class Stub:
    """What it holds, and how it behaves."""

    def __init__(self) -> None:
        self.version = "12.4.11"
        self.role = "Admin"
        self.folders: dict[str, dict[str, Any]] = {}
        self.sources: dict[str, dict[str, Any]] = {}
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.replies: dict[str, tuple[int, bytes]] = {}
        """Paths that answer something else."""
        self.location = ""
        self.url = ""

    def answer(self, method: str, path: str, token: str, body: Any) -> tuple[int, Any]:
        """Status and JSON."""
        if path == "/api/health":
            return 200, {"database": "ok", "version": self.version}
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Invalid API key"}
        if method != "GET":
            if self.role == "Viewer" or (self.role == "Editor" and "/datasources" in path):
                return 403, {"message": "You'll need additional permissions to perform this action."}
            self.writes.append(f"{method} {path}")
        kind, _, uid = path.removeprefix("/api/").partition("/")
        uid = uid.removeprefix("uid/")
        if method == "GET":
            found = {"folders": self.folders, "datasources": self.sources, "dashboards": self.dashboards}[kind].get(uid)
            if found is None and kind == "folders" and self.role != "Admin":
                return 403, {"message": "You'll need additional permissions to perform this action."}
            return (200, found) if found else (404, {"message": "not found"})
        done: tuple[int, Any] = getattr(self, f"_{method.lower()}_{kind}")(uid, body)
        return done

    def _post_folders(self, _: str, body: Any) -> tuple[int, Any]:
        if body["uid"] in self.folders:
            return 409, {"message": "a folder with the same uid already exists"}
        self.folders[body["uid"]] = {**body, "version": 1}
        return 200, body

    def _post_datasources(self, _: str, body: Any) -> tuple[int, Any]:
        if body["name"] in {each["name"] for each in self.sources.values()}:
            return 409, {"message": "data source with the same name already exists"}
        return self._put_datasources(body["uid"], body)

    def _put_datasources(self, uid: str, body: Any) -> tuple[int, Any]:
        before = self.sources.get(uid, {"version": 0, "secureJsonFields": {}})
        if before.get("readOnly"):
            return 403, {"message": "Cannot update read-only data source"}
        secrets = {**before["secureJsonFields"], **dict.fromkeys(body.pop("secureJsonData", {}), True)}
        added = {"id": 1, "readOnly": False, "secureJsonFields": secrets, "version": before["version"] + 1}
        self.sources[uid] = {**body, **added}
        return 200, {"message": "Datasource updated"}

    def _post_dashboards(self, _: str, body: Any) -> tuple[int, Any]:
        page, uid = body["dashboard"], body["dashboard"]["uid"]
        before = self.dashboards.get(uid)
        if before and before["meta"].get("provisioned"):
            return 400, {"message": "Cannot save provisioned dashboard"}
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found"}
        if before and not body["overwrite"]:
            return 412, {"message": "The dashboard has been changed by someone else", "status": "version-mismatch"}
        version = before["dashboard"]["version"] + 1 if before else 1
        stored = {**page, "id": 7, "version": version, "annotations": {"list": []}}
        self.dashboards[uid] = {"dashboard": stored, "meta": {"folderUid": body["folderUid"], "provisioned": False}}
        return 200, {"uid": uid, "status": "success", "version": version}


@contextmanager
def running(stub: Stub, tls: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """Listens on a free port, below /grafana; `stub.url` says where."""

    class Answering(Handler):
        def _any(self) -> None:
            body = self.body()
            path = self.path.removeprefix("/grafana")
            if stub.location:
                status, data = 301, b""
            elif path in stub.replies:
                status, data = stub.replies[path]
            elif path == self.path:
                status, data = 404, b"<html>nothing here</html>"
            else:
                token = self.headers.get("Authorization", "")
                status, found = stub.answer(self.command, path, token, json.loads(body) if body else None)
                data = json.dumps(found).encode()
            self.answer(status, data, {"Location": stub.location} if stub.location else None)

        do_GET = do_POST = do_PUT = _any

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    stub.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/grafana"
    with serving(server):
        yield stub
