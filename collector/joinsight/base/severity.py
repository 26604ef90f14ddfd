"""The severities of findings, and which of several findings is the worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_Finding = TypeVar("_Finding", bound=Mapping[str, Any])

SEVERITIES = ("critical", "warning", "info")
"""The worst first."""

_BYTES_PER_MS = 100_000
"""100 MB count as a second."""

_RANKED_BY = ("severity", "wall_ms", "impact_ms", "impact_bytes")


def rank(severity: str, wall_ms: int | None, impact_ms: int | None, impact_bytes: int | None) -> tuple[int, ...]:
    """The lower, the worse: by severity, then by the wall time at stake, then by impact; what is unknown comes last."""
    impact = max(impact_ms or 0, (impact_bytes or 0) // _BYTES_PER_MS)
    return SEVERITIES.index(severity), -1 if wall_ms is None else -2 - wall_ms, -impact


def worst_first(findings: Iterable[_Finding]) -> list[_Finding]:
    """Rows of findings, sorted by `rank`."""
    return sorted(findings, key=lambda row: rank(*(row[name] for name in _RANKED_BY)))
