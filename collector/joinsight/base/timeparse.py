"""Parses times and durations as people write them: ``2h`` ago, or a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from joinsight.base.errors import ConfigurationError

_DURATION = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str) -> timedelta | None:
    """Parse ``90s``, ``5m``, ``2h``, ``7d``, ``4w``; None for another form. Raises `OverflowError`."""
    found = _DURATION.fullmatch(text.strip())
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def format_duration(time: timedelta) -> str:
    """``90s`` or ``5m``, as `parse_duration` reads it."""
    seconds = round(time.total_seconds())
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def parse_moment(key: str, text: str) -> datetime:
    """Parse ``2h`` (ago), or an ISO date with or without a time (UTC unless it has an offset).

    Raises `ConfigurationError` with valid examples.
    """
    try:
        ago = parse_duration(text)
        if ago is not None:
            return datetime.now(timezone.utc) - ago
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        remedy = "Write 30m, 2h, 7d, 2026-11-20 or 2026-11-20T08:00."
        raise ConfigurationError(key, text, "not a valid time", remedy) from None
