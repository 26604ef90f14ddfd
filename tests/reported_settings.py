"""The settings that are reported, as the listener's source lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_JAVA = Path(__file__).parents[1] / "listener/src/io/joinsight/capture/ApplicationSettings.java"
_LISTED, _OF_SESSION = (
    re.findall(rf"{name} =(.*?);", _JAVA.read_text(), re.DOTALL)[0] for name in ("ALLOWED", "SESSION")
)
ALLOWED = frozenset(re.findall(r'"(.*?)"', _LISTED))
"""A trailing dot means a prefix."""
SESSION = tuple(re.findall(r'"(.*?)"', _OF_SESSION))
"""Prefixes of those that a session may set for itself."""


def allowed(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of these settings that are reported, sorted."""
    return {key: settings[key] for key in sorted(settings) if _is_allowed(key)}


def _is_allowed(key: str) -> bool:
    parts = key.split(".")
    return key in ALLOWED or any(".".join(parts[:n]) + "." in ALLOWED for n in range(1, len(parts)))


def of_session(of_application: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """The SQL settings in force in a session: the application's, overridden by what the session changed."""
    merged = {key: value for key, value in of_application.items() if key.startswith(SESSION)} | dict(changed)
    return dict(sorted(merged.items()))
