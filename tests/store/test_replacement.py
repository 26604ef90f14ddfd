"""The rule of replacement as a table: which one of two documents about the same thing stays."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from tests.documents import LISTENER, OTHER_LISTENER, application, execution

from joinsight.contract.document import Listener
from joinsight.store.replacement import OVER, Version, replaces, version_of

READER = Listener("00000000-0000-5000-8000-000000000009", "0.1.0", "4.3.0")
NEWER_READER = Listener("00000000-0000-5000-8000-000000000010", "0.2.0", "4.3.0")


def live(state: str, sequence: int = 7, listener: Listener = LISTENER, whole: bool = True) -> Version:
    return Version("live", state, whole, listener.id, sequence)


def log(state: str, sequence: int = 50, listener: Listener = READER, whole: bool = True) -> Version:
    return Version("event_log", state, whole, listener.id, sequence)


@dataclass
class Case:
    """Whether `second` replaces `first`, and the other way round."""

    first: Version
    second: Version
    forth: bool
    back: bool


PARTIAL: dict[str, Any] = {"whole": False}
OTHER: dict[str, Any] = {"listener": OTHER_LISTENER}
NEWER: dict[str, Any] = {"listener": NEWER_READER}
CASES = (
    # Of one listener the number decides, whatever they say
    Case(live("running", 1), live("running", 2), True, False),
    Case(live("succeeded", 1), live("running", 2), True, False),
    Case(live("running", 1), live("succeeded", 2, **PARTIAL), True, False),
    Case(live("lost", 1), live("succeeded", 2), True, False),
    Case(live("unknown", 0), live("running", 1), True, False),
    Case(live("running", 3), live("running", 3), False, False),
    Case(live("succeeded", 3), live("failed", 3), False, False),
    # Of two listeners the later one, unless it takes what has ended for running; numbers do not compare
    Case(live("running", 9), live("running", 1, **OTHER), True, True),
    Case(live("running", 9), live("succeeded", 1, **OTHER), True, False),
    Case(live("succeeded", 9), live("failed", 1, **OTHER), True, True),
    Case(live("lost", 9), live("running", 1, **OTHER), True, True),
    Case(live("lost", 9), live("failed", 1, **OTHER), True, False),
    Case(live("ended", 9), live("running", 1, **OTHER), False, True),
    Case(live("ended", 9), live("ended", 1, **OTHER), True, True),
    Case(live("unknown", 9), live("ended", 1, **OTHER), True, False),
    # The log's replaces the live one if it ends what that did not, or is whole where that is partial
    Case(live("succeeded"), log("succeeded"), False, True),
    Case(live("failed"), log("succeeded"), False, True),
    Case(live("succeeded", **PARTIAL), log("succeeded"), True, False),
    Case(live("succeeded", **PARTIAL), log("succeeded", **PARTIAL), False, True),
    Case(live("succeeded"), log("succeeded", **PARTIAL), False, True),
    Case(live("lost", **PARTIAL), log("succeeded"), True, False),
    Case(live("lost", **PARTIAL), log("failed", **PARTIAL), True, False),
    Case(live("lost", **PARTIAL), log("lost", **PARTIAL), False, True),
    Case(live("running"), log("running", **PARTIAL), False, True),
    Case(live("running"), log("succeeded"), True, False),
    Case(live("running"), log("succeeded", **PARTIAL), True, False),
    Case(live("succeeded"), log("running", **PARTIAL), False, True),
    Case(live("running"), log("ended"), True, False),
    Case(live("ended"), log("ended"), False, True),
    Case(live("unknown", 0), log("ended"), True, False),
    # Of two readings of a log the one that ends it, then the whole one, then the one that read further
    Case(log("running", 50, **PARTIAL), log("running", 60, **PARTIAL), True, False),
    Case(log("running", 60, **PARTIAL), log("succeeded", 20), True, False),
    Case(log("running", 60), log("succeeded", 20, **PARTIAL), True, False),
    Case(log("succeeded", 60, **PARTIAL), log("succeeded", 40), True, False),
    Case(log("succeeded", 50), log("failed", 40), False, True),
    # Of equal ones the later, if it says something else or another version read
    Case(log("succeeded", 50), log("succeeded", 50), False, False),
    Case(log("succeeded", 50), log("succeeded", 50, **NEWER), True, True),
    Case(log("running", 50, **PARTIAL), log("lost", 50, **PARTIAL), True, True),
    Case(log("succeeded", 50), log("failed", 50, **NEWER), True, True),
)


def named(version: object) -> str:
    return "-".join(map(str, version[:3])) if isinstance(version, Version) else ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{named(case.first)} {named(case.second)}")
def test_documents_may_come_in_any_order(case: Case) -> None:
    assert (replaces(case.second, case.first), replaces(case.first, case.second)) == (case.forth, case.back)


STATES = ("unknown", "running", "lost", "succeeded", "failed", "cancelled", "ended")
ALL = [
    Version(origin, state, whole, listener, sequence)
    for origin, state, whole, listener, sequence in itertools.product(
        ("live", "event_log"), STATES, (True, False), ("a", "b"), (1, 2)
    )
]


def test_nothing_replaces_itself() -> None:
    """A delivery that is repeated changes nothing."""
    assert not any(replaces(each, each) for each in ALL)


def test_of_a_log_and_a_listener_the_same_stays_in_any_order() -> None:
    """And so it does with the documents of one listener."""
    for one, other in itertools.permutations(ALL, 2):
        if one.origin != other.origin:
            assert replaces(one, other) != replaces(other, one)
        elif one.origin == "live" and one.listener_id == other.listener_id:
            assert replaces(one, other) == (one.sequence > other.sequence)


def test_an_end_is_never_taken_back_by_others() -> None:
    """Only the listener itself may say that what it called over goes on."""
    for new, old in itertools.permutations(ALL, 2):
        if old.is_over and not new.is_over and replaces(new, old):
            assert (new.origin, new.listener_id) == (old.origin, old.listener_id) == ("live", old.listener_id)


def test_what_decides_is_read_from_the_document() -> None:
    """What decides is read from executions and applications; only executions can be partial."""
    partial = execution(state="failed", incomplete=["x"], sequence=3)
    assert version_of(partial) == Version("live", "failed", False, LISTENER.id, 3)
    assert version_of(application(state="ended", sequence=4)) == Version("live", "ended", True, LISTENER.id, 4)
    assert {state for state in STATES if version_of(execution(state=state)).is_over} == set(OVER)
