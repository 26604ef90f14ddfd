"""Remembers which clients were refused unread in the last hour, so that `joinsight doctor` can report them."""

from __future__ import annotations

import time

REFUSED = ("401", "403", "415")
"""The statuses of requests that are refused before their body is read."""
DOCTOR = "joinsight-doctor"
"""The user agent of `joinsight doctor`, whose own requests do not count."""
REFUSED_SECONDS = 3_600
_CLIENTS = 1_000


class Refusals:
    """The last refusal of each client, of the last `_CLIENTS` ones. `add` is for one thread only."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}

    def add(self, client: str, status: str) -> None:
        """Note that a client was refused now."""
        if status not in REFUSED:
            return
        self._last.pop((client, status), None)
        self._last[client, status] = time.monotonic()
        if len(self._last) > _CLIENTS:
            del self._last[next(iter(self._last))]

    def count(self, status: str) -> int:
        """Number of clients that were refused with this status in the last hour; from any thread."""
        since = time.monotonic() - REFUSED_SECONDS
        return sum(last > since for (_, kind), last in list(self._last.items()) if kind == status)
