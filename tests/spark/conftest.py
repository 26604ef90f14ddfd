"""Servers for the listener to post to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.spark.sink import Sink


@contextmanager
def listening() -> Iterator[Sink]:
    """A sink on a free port."""
    with Sink([]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A server that takes everything, unless a test gives it other answers."""
    with listening() as server:
        yield server


@pytest.fixture
def second_sink() -> Iterator[Sink]:
    """Another one, for tests that compare two jobs."""
    with listening() as server:
        yield server
