"""An HTTP server in place of the collector that keeps what the listener sends."""

from __future__ import annotations

import gzip
import http.server
import json
from contextlib import AbstractContextManager
from typing import Any

from tests.serving import Handler, serving

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.driver.attach import LISTENER, listener_jar


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


def listening() -> AbstractContextManager[Sink]:
    """A sink on a free port."""
    return serving(Sink([]))


class _Handler(Handler):
    server: Sink

    def do_POST(self) -> None:
        status = self.server.answers.pop(0) if self.server.answers else 200
        lines = gzip.decompress(self.body()).splitlines()
        self.server.requests.append((dict(self.headers.items()), lines, status))
        self.answer(status, b'{"accepted": 1, "refused": []}')
