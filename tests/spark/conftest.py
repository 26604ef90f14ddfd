"""Servers for the listener to post to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.sink import Sink, listening


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
