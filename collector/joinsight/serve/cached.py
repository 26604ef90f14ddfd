"""A response that anyone may request, and that must not load the collector: made in a thread, at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

FRESH_SECONDS = 1

_T = TypeVar("_T")


class Cached(Generic[_T]):
    """The result of a function, for `FRESH_SECONDS`. For one event loop."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: tuple[float, _T] | None = None
        self._making = asyncio.Lock()

    async def get(self) -> _T:
        """The current result; clients that ask while it is made wait for it."""
        async with self._making:
            if self._made is None or time.monotonic() > self._made[0]:
                result = await run_in_threadpool(self._make)
                self._made = time.monotonic() + FRESH_SECONDS, result
        return self._made[1]
