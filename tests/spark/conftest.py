"""Servers that receive the listener's requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spark.sink import Sink, listening


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A server that accepts everything unless a test sets other responses."""
    with listening() as server:
        yield server


@pytest.fixture
def second_sink() -> Iterator[Sink]:
    """Another one, for tests that compare two jobs."""
    with listening() as server:
        yield server
