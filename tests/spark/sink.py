"""An HTTP server in place of the collector that keeps what the listener sends."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.driver.attach import LISTENER, listener_jar

_Server = TypeVar("_Server", bound=http.server.ThreadingHTTPServer)


def sending_to(url: str) -> dict[str, str]:
    """The settings of a driver with a listener."""
    return {
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": url,
    }


class Sink(http.server.ThreadingHTTPServer):
    """Keeps all requests and responds with the next status in `answers`, or 200 if none is left."""

    def __init__(self, answers: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[dict[str, str], list[bytes], int]] = []
        self.answers = answers

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a driver whose listener sends here."""
        return sending_to(self.url)

    def executions(self) -> list[Execution]:
        """The documents of executions among those that were taken, in the order of their arrival."""
        documents = (decode_document(json.dumps(each).encode()) for each in self.taken())
        return [each for each in documents if isinstance(each, Execution)]

    def newest(self) -> dict[int, Execution]:
        """The last document of each execution by its id, in the order in which they were first reported."""
        return {each.execution_id: each for each in sorted(self.executions(), key=lambda each: each.sequence)}

    def taken(self) -> list[dict[str, Any]]:
        """The documents of the requests that were answered with 200."""
        return [json.loads(line) for _, lines, status in self.requests for line in lines if status == 200]


@contextmanager
def serving(server: _Server) -> Iterator[_Server]:
    """Run the server in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def listening() -> Iterator[Sink]:
    """A sink on a free port."""
    with serving(Sink([])) as server:
        yield server


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        lines = gzip.decompress(body).splitlines()
        self.server.requests.append((dict(self.headers.items()), lines, status))
        self.send_response(status)
        answer = b'{"accepted": 1, "refused": []}'
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""
