"""The log: one line per event, as text for people (``message name=value``) or as JSON for programs."""

from __future__ import annotations

import logging
import sys
import textwrap
import time
from datetime import datetime, timezone
from typing import Any

from joinsight.terminal.escaping import to_json, visible, visible_line

FORMATS = ("text", "json")
_CLIENTS = 1_000
_THROTTLE_SECONDS = 600

log = logging.getLogger("joinsight")


def fields(**values: object) -> dict[str, Any]:
    """The fields of an event, for ``extra`` of a log call; None is left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def configure(format: str) -> None:
    """Log to stderr in one of `FORMATS`, from INFO on, for all loggers of the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


class ThrottledLog:
    """Logs the same warning about the same client at most once in ten minutes. For one thread only."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, str], float] = {}

    def warning(self, message: str, client: str, reason: str | None = None) -> None:
        """Log a warning, unless it was logged for this client in the last ten minutes."""
        now = time.monotonic()
        if len(self._logged) >= _CLIENTS:
            self._logged.clear()
        if now - self._logged.get((client, message), -_THROTTLE_SECONDS) >= _THROTTLE_SECONDS:
            self._logged[client, message] = now
            log.warning(message, extra=fields(client=client, reason=reason))

    def unauthenticated(self, client: str) -> None:
        """Log that a client sent no valid token."""
        self.warning("unauthenticated client: its token is missing or wrong", client)


class TextFormatter(logging.Formatter):
    """``2026-11-21T03:00:00.000Z WARNING document refused line=3 reason="not JSON"``; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [_time(record), record.levelname, visible_line(record.getMessage())]
        parts += [f"{name}={_value(value)}" for name, value in _fields(record).items()]
        if record.exc_info:
            parts.append("\n" + textwrap.indent(visible(self.formatException(record.exc_info)), "  ", lambda _: True))
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """One object per line: ``time``, ``level``, ``message``, the event's fields, ``exception`` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        event = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        event |= _fields(record)
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return to_json(event, str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", {})


def _time(record: logging.LogRecord) -> str:
    created = datetime.fromtimestamp(record.created, timezone.utc)
    return created.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(value: object) -> str:
    """The value as text, as JSON if it is not one plain word, so that a line can be parsed and never becomes two."""
    text = str(value)
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else to_json(text)
