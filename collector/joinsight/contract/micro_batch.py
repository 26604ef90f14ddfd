"""Micro-batches of Structured Streaming, and executions that somebody stopped. Pure.

Spark runs a micro-batch as an execution whose description has the query's name and ids. Most sinks make Spark run the
work in executions nested in it, which have the same description; only the jobs carry ids as properties.
Delta Lake puts its name before that of what it runs for a micro-batch.
Source: ``StreamExecution.getBatchDescriptionString``, ``StreamExecution.isInterruptionException``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CONNECT_REQUEST = "Spark Connect - "
"""How the description begins of what a Spark Connect server runs: in place of a call site, its request."""

_DESCRIPTION = re.compile(
    r"(?:Delta: ?)?(?P<name>[^\n]{0,200}?)(?:\n|<br/>)?\s*id = (?P<query>[0-9a-f-]{36})(?:\n|<br/>)"
    r"runId = (?P<run>[0-9a-f-]{36})(?:\n|<br/>)batch = (?P<batch>\d{1,18}|init)?"
)
_INTERRUPTED = re.compile(
    r"(?:^|\n|: |^\{\"errorClass\":\")(?:Caused by: )?"  # Spark 3 writes errors as JSON
    r"java\.(?:lang\.InterruptedException|io\.InterruptedIOException|nio\.channels\.ClosedByInterruptException)\b"
)
_CANCELLED = re.compile(
    r"\bJob \d{1,18} cancelled\b(?! The corresponding broadcast query has failed)|\bOPERATION_CANCELED\b"
)
_READ = 2_000  # characters of an error's beginning


class MicroBatch(NamedTuple):
    """What the description says, or the properties of a job."""

    query_name: str | None
    query_id: str
    run_id: str | None
    batch_id: int | None


def micro_batch(description: str) -> MicroBatch | None:
    """The micro-batch of an execution with this description; None if it is of none."""
    match = _DESCRIPTION.match(description.lstrip())
    if match is None:
        return None
    batch = match["batch"] or ""
    return MicroBatch(match["name"] or None, match["query"], match["run"], int(batch) if batch.isdigit() else None)


def is_cancelled(description: str, error: str, operation_id: str | None) -> bool:
    """Whether an execution that failed with this error was stopped, by a person or a program.

    Its job, job group or context was cancelled; or its thread was interrupted, which is how Spark stops a streaming
    query, a Spark Connect server an operation, and a Thrift server a statement.
    """
    if _CANCELLED.search(error[:_READ]):
        return True  # not if Spark itself cancelled it, because of a broadcast
    of_server = operation_id is not None or description.startswith(CONNECT_REQUEST)
    return (of_server or micro_batch(description) is not None) and _INTERRUPTED.search(error) is not None


def is_stop(error: str) -> bool:
    """Whether an error of any execution or stage says that it was stopped, rather than that it failed."""
    interrupted = _INTERRUPTED.match(error)  # also HTTP clients call a timeout an InterruptedIOException
    return _CANCELLED.search(error[:_READ]) is not None or bool(interrupted and "IOException" not in interrupted[0])
