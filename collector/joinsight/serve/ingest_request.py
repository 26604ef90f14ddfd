"""A request that waits to be written, and what its sender is told."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

Sender = tuple[str, str | None]
"""The client's address, and the name of its token or None."""


class Closed(Exception):
    """The collector is shutting down; nothing of the batch is committed."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result for a batch."""

    accepted: int
    """Number of committed documents."""
    refused: list[tuple[int, str]]
    """Refused lines in order: number, from 1, and reason."""


class RetryAlone(Exception):
    """Requests could not be written, or not together; this one should be written alone."""


class WorkerDied(Exception):
    """A process that wrote requests has ended; nothing of them is committed, or all."""


def _running() -> Future[Ingested]:
    result: Future[Ingested] = Future()
    result.set_running_or_notify_cancel()  # whoever stops waiting for it does not cancel it
    return result


@dataclass(eq=False, slots=True)
class IngestRequest:
    """A request whose body has arrived, and its result when it is known."""

    body: bytearray
    sender: Mapping[str, str | None]
    """The fields of its sender in the log; with `client` and `token`."""
    alone: bool = False
    """Whether it is written alone, after it failed together with others."""
    result: Future[Ingested] = field(default_factory=_running)
    """Or an exception: `TooLarge` or `DocumentError` for a body that cannot be decoded at all, `Busy`, `Closed`,
    `RetryAlone`, `WorkerDied`, SQLAlchemy's errors when the database is unavailable. Nothing is committed then, unless
    the process or the connection ended during the commit."""

    @property
    def key(self) -> Sender:
        """The sender."""
        return self.sender["client"] or "", self.sender["token"]
