"""Decides which of two documents of the same execution or application stays. Pure: the writer reads what is stored.

A listener numbers its documents: of two, the one with the larger number stays, in any order of arrival. Two
listeners have separate numbers: the later arrival stays, unless it reports something as running that has
ended. A document of an event log (`backfill`) replaces a live one only if it has an end that the live one lacks, or is
complete where the live one is partial. Of two readings of a log the one with an end stays, then the complete one, then
the one that read further, because compaction makes logs shorter; of equal ones the later, if another version made it.
"""

from __future__ import annotations

from typing import NamedTuple

from joinsight.contract.document import ENDED, Application, Execution

OVER = (*ENDED, "ended")
"""Final states; `lost` is not final, because its driver may be heard from again."""


class Version(NamedTuple):
    """The properties of a document or stored row that decide."""

    origin: str
    state: str
    is_complete: bool
    listener_id: str
    sequence: int

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self.state in OVER


def version_of(document: Application | Execution) -> Version:
    """The version of a document; an application is always complete."""
    is_complete = isinstance(document, Application) or not document.incomplete
    return Version(document.origin, document.state, is_complete, document.listener.id, document.sequence)


def replaces(new: Version, old: Version) -> bool:
    """Whether `new`, which arrived later, replaces `old`."""
    if new.origin != old.origin:
        return _log_is_better(new, old) if new.origin == "event_log" else not _log_is_better(old, new)
    if new.origin == "event_log":
        progress, stored = (new.is_over, new.is_complete, new.sequence), (old.is_over, old.is_complete, old.sequence)
        is_other = (new.state, new.listener_id) != (old.state, old.listener_id)
        return progress > stored or (progress == stored and is_other)
    if new.listener_id == old.listener_id:
        return new.sequence > old.sequence
    return new.is_over or not old.is_over


def _log_is_better(log: Version, live: Version) -> bool:
    return log.is_over and (not live.is_over or (log.is_complete and not live.is_complete))
