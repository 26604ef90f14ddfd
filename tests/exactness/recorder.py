"""A proxy between a listener and a collector that keeps the documents."""

from __future__ import annotations

import gzip
import http.client
import http.server
from contextlib import AbstractContextManager
from urllib.parse import urlsplit

from tests.serving import Handler, serving
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


def recording(url: str) -> AbstractContextManager[Recorder]:
    """A recorder on a free port."""
    return serving(Recorder(url))


class _Handler(Handler):
    server: Recorder

    def do_POST(self) -> None:
        body = self.body()
        connection = http.client.HTTPConnection(self.server.collector, timeout=SECONDS)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        connection.request("POST", self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status == 200:
            self.server.documents += map(decode_document, gzip.decompress(body).splitlines())
        own = ("connection", "content-length", "date", "server", "transfer-encoding")
        others = {name: value for name, value in answer.headers.items() if name.lower() not in own}
        self.answer(answer.status, content, others)
