"""Files that may change while the collector runs: tokens, certificates."""

from __future__ import annotations

import stat
from pathlib import Path


class Watched:
    """Files, and how they were when they were last looked at; links are followed, as a secret's folder swaps them."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen = self._look()

    def changed(self) -> bool:
        """Whether any is another one, or has another content, than at the last look."""
        seen, self._seen = self._seen, self._look()
        return seen != self._seen

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_state(path) for path in self._paths]


def anyone_may_read(path: Path) -> bool:
    """Whether accounts other than the owner's and the group's may read the file."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def _state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
