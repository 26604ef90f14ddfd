"""The log: one line an event, as text for people (``message name=value``) or as JSON for programs."""

from __future__ import annotations

import logging
import sys
import textwrap
from datetime import datetime, timezone
from typing import Any

from joinsight.terminal import to_json, visible, visible_line

FORMATS = ("text", "json")


def fields(**values: object) -> dict[str, Any]:
    """What an event is about, for ``extra`` of a call to the log; None is left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def configure(format: str) -> None:
    """All loggers of the process write to stderr in one of `FORMATS`, from INFO on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


class TextFormatter(logging.Formatter):
    """``2026-11-21T03:00:00.000Z WARNING document refused line=3 reason="not JSON"``; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        told = [_time(record), record.levelname, visible_line(record.getMessage())]
        told += [f"{name}={_value(value)}" for name, value in _fields(record).items()]
        if record.exc_info:
            told.append("\n" + textwrap.indent(visible(self.formatException(record.exc_info)), "  ", lambda _: True))
        return " ".join(told)


class JsonFormatter(logging.Formatter):
    """One object a line: ``time``, ``level``, ``message``, the event's fields, ``exception`` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        told = {"time": _time(record), "level": record.levelname.lower(), "message": record.getMessage()}
        told |= _fields(record)
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return to_json(told, str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "fields", {})


def _time(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(value: object) -> str:
    """Quoted where it is not one plain word, so that a line can be read back and never becomes two."""
    text = str(value)
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else to_json(text)
