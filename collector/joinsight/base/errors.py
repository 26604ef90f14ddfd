"""All errors that Joinsight raises on purpose.

::

    JoinsightError
    ├── ConfigurationError      a setting is invalid; the message has its name, its value and a remedy
    │   └── ConfigurationErrors several are invalid, a line for each
    ├── DatabaseError           PostgreSQL cannot be started, reached or used
    │   └── SchemaError         the schema is missing, older or newer than this program
    ├── DocumentError           a document cannot be accepted; permanent, the sender must not retry it
    ├── LogError                an event log cannot be read, or not past some point
    ├── TooLarge                a request is over a size limit
    ├── GrafanaError            Grafana cannot be reached, or rejects a request
    └── NotFound                not in the store

The command line prints the message alone and exits with 2 (configuration) or 1 (all else).
"""

from __future__ import annotations

from collections.abc import Sequence


class JoinsightError(Exception):
    """Base of all errors raised on purpose; its message is written for people."""


class ConfigurationError(JoinsightError):
    """A setting is invalid."""

    def __init__(self, key: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"{key}={value!r}: {problem}. {remedy}")
        self.key = key


class ConfigurationErrors(ConfigurationError):
    """All invalid settings, reported together."""

    def __init__(self, errors: Sequence[ConfigurationError]) -> None:
        JoinsightError.__init__(self, "\n".join(map(str, errors)))
        self.key = ", ".join(error.key for error in errors)


class DatabaseError(JoinsightError):
    """PostgreSQL cannot be started, reached or used."""


class SchemaError(DatabaseError):
    """The database's schema does not match this program."""


class DocumentError(JoinsightError):
    """A document cannot be accepted, now or later; `kind` is the reason in one word, for metrics."""

    def __init__(self, reason: str, kind: str = "schema") -> None:
        super().__init__(reason)
        self.kind = kind


class LogError(JoinsightError):
    """An event log cannot be read, or not past some point: it is truncated or damaged, or a library is missing."""


class TooLarge(JoinsightError):
    """A request is over a size limit."""


class GrafanaError(JoinsightError):
    """Grafana cannot be reached, or rejects a request."""


class NotFound(JoinsightError):
    """Not in the store."""
