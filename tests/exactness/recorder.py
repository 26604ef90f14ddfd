"""A proxy between a listener and a collector that keeps the documents."""

from __future__ import annotations

import gzip
import http.client
import http.server
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.spark.sink import serving
from tests.waiting import SECONDS

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Document


class Recorder(http.server.ThreadingHTTPServer):
    """Passes each request to the collector at `url`; `documents` are those that it accepted, in order."""

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collector = urlsplit(url).netloc
        self.documents: list[Document] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def recording(url: str) -> Iterator[Recorder]:
    """A recorder on a free port."""
    with serving(Recorder(url)) as server:
        yield server


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        connection = http.client.HTTPConnection(self.server.collector, timeout=SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request("POST", self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status == 200:
            self.server.documents += map(decode_document, gzip.decompress(body).splitlines())
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "content-length", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""
