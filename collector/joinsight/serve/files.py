"""Detects changes of files while the collector runs: tokens and certificates."""

from __future__ import annotations

import stat
from pathlib import Path


class Watched:
    """Files and their last known state; links are followed, because Kubernetes swaps them to change a secret."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._known = self._current()

    def changed(self) -> bool:
        """Whether any was replaced or modified since the last call."""
        before, self._known = self._known, self._current()
        return before != self._known

    def _current(self) -> list[tuple[int, ...] | None]:
        return [_state(path) for path in self._paths]


def anyone_may_read(path: Path) -> bool:
    """Whether all users may read the file, not only its owner and group."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
