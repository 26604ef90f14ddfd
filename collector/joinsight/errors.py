"""Every error that Joinsight raises on purpose.

::

    JoinsightError
    ├── ConfigurationError      a setting is wrong; the message names it, shows it and says what would be right
    │   └── ConfigurationErrors several are, a line for each
    ├── DatabaseError           PostgreSQL cannot be started, reached or used as it is
    │   └── SchemaError         the schema is missing, older or newer than this program
    ├── DocumentError           one document cannot be accepted; permanent, the sender must not retry it
    ├── LogError                an event log cannot be read, or not on from a point
    ├── TooLarge                a request is over a size limit
    ├── GrafanaError            a Grafana cannot be reached, or does not do as asked
    └── NotFound                what was asked for is not in the store

The command line prints the message alone and exits with 2 (configuration) or 1 (all else).
"""

from __future__ import annotations

from collections.abc import Sequence


class JoinsightError(Exception):
    """Base of all errors raised on purpose; its text is meant for a person."""


class ConfigurationError(JoinsightError):
    """A setting is wrong."""

    def __init__(self, key: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"{key}={value!r}: {problem}. {remedy}")
        self.key = key


class ConfigurationErrors(ConfigurationError):
    """Settings are wrong, one or several: all of them, so that one start is enough to find them."""

    def __init__(self, errors: Sequence[ConfigurationError]) -> None:
        JoinsightError.__init__(self, "\n".join(map(str, errors)))
        self.key = ", ".join(error.key for error in errors)


class DatabaseError(JoinsightError):
    """PostgreSQL cannot be started, reached or used as it is."""


class SchemaError(DatabaseError):
    """The database's schema does not fit this program."""


class DocumentError(JoinsightError):
    """One document cannot be accepted, now or later; `kind` says why in a word, for counting."""

    def __init__(self, reason: str, kind: str = "schema") -> None:
        super().__init__(reason)
        self.kind = kind


class LogError(JoinsightError):
    """An event log cannot be read, or not on from a point: it is truncated, broken, or a library is missing."""


class TooLarge(JoinsightError):
    """A request is over a size limit."""


class GrafanaError(JoinsightError):
    """A Grafana cannot be reached, or does not do as asked."""


class NotFound(JoinsightError):
    """What was asked for is not in the store."""
