"""The account of a listener's documents is exact in random histories of all that can happen to them."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Engine, select
from tests.java import LIGHT, compile_java

from joinsight.contract.decode import decode_document, decode_header
from joinsight.store import delivery
from joinsight.tables import delivery as table

SOURCE = Path(__file__).with_name("Histories.java")


@dataclass
class Listener:
    """The true fate of a listener's documents."""

    execution: dict[int, int] = field(default_factory=dict)
    """The fate of each number."""
    arrived: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    """Refused by the collector."""
    given_up: set[int] = field(default_factory=set)
    """Because the collector refused them, or a newer one that had superseded them."""
    application: int = 0
    """The newest application document that arrived."""

    def known(self) -> int:
        """Up to this number, the collector can know that they were made."""
        return max({self.application, *self.arrived, *self.refused})

    def lost(self) -> set[int]:
        """Numbers for which nothing as new of the same execution has arrived."""
        newest: dict[int, int] = defaultdict(int)
        for number in self.arrived:
            newest[self.execution[number]] = max(newest[self.execution[number]], number)
        return {n for n in range(1, self.known() + 1) if newest[self.execution[n]] < n}


@pytest.mark.matrix
@pytest.mark.parametrize(("first", "number"), [(1, 100), pytest.param(10_001, 4_000, marks=pytest.mark.nightly)])
def test_exactly_what_is_lost_is_missed(
    engine: Engine, tmp_path: Path, first: int, number: int, record_property: Any
) -> None:
    """In every history the numbers that are missing, dropped or refused are exactly those that are lost."""
    events = play(tmp_path, first, number)
    seen: Counter[str] = Counter()
    listeners: dict[str, Listener] = defaultdict(Listener)
    with engine.connect() as connection:
        for event in events:
            if event["what"] == "made":
                listeners[event["listener"]].execution[event["number"]] = event["execution"]
            elif event["what"] == "request":
                take_in(connection, event, listeners)
            elif event["what"] == "refused as a whole":
                for content in event["lines"]:
                    give_up(listeners[content["listener"]["id"]], content)
            else:
                for listener_id, listener in listeners.items():
                    check(connection, event["seed"], listener_id, listener, seen)
                listeners.clear()
                connection.rollback()
                seen["histories"] += 1
    assert seen["histories"] == number
    assert all(seen[what] > number / 20 for what in ("missing", "dropped", "refused", "superseded")), seen
    record_property("summary", f"account of documents: {dict(seen)}")


def play(folder: Path, first: int, number: int) -> Iterator[dict[str, Any]]:
    """The events of this number of histories."""
    path = compile_java(SOURCE, folder, SOURCE.with_name("Snapshots.java"))
    memory = "/dev/shm"  # nothing has to outlive the test, and syncing files takes most of its time
    (folder / "log4j2.properties").write_text("rootLogger.level = off\n")
    command = ["java", *LIGHT, f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
    command += ["-cp", path, "io.joinsight.delivery.Histories"]
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else folder) as spools:
        command += [spools, str(first), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from map(json.loads, process.stdout)
        assert process.returncode == 0


def take_in(connection: Any, event: dict[str, Any], listeners: dict[str, Listener]) -> None:
    """Store a request, as the collector does."""
    documents, refused = [], []
    for line, content in enumerate(event["lines"], 1):
        listener = listeners[content["listener"]["id"]]
        number = content["sequence"]
        raw = json.dumps(content).encode()
        if line in event["refused"]:
            refused.append((decode_header(raw), "bad"))
            listener.refused.add(number)
            give_up(listener, content)
            continue
        documents.append(decode_document(raw))
        listener.arrived.add(number)
        if content["kind"] == "application":
            listener.application = max(listener.application, number)
    delivery.record(connection, documents, [(header, why) for header, why in refused if header is not None])


def give_up(listener: Listener, content: dict[str, Any]) -> None:
    """Give up a document that the collector refused for good, and those that it superseded."""
    listener.given_up.add(content["sequence"])
    for first, last in content.get("supersedes", []):
        listener.given_up.update(range(first, last + 1))


def check(connection: Any, seed: int, listener_id: str, listener: Listener, seen: Counter[str]) -> None:
    """The listener's row equals the truth."""
    c = table.c
    missing = delivery.missing(dict(c), c.documents_made)
    row = (
        connection.execute(select(table, missing.label("missing")).where(c.listener_id == listener_id))
        .mappings()
        .first()
    )
    if row is None:
        return
    arrived, superseded, refused, dropped = (
        numbers(row[f"sequences_{name}"]) for name in ("arrived", "superseded", "refused", "dropped")
    )
    assert arrived == listener.arrived, seed
    assert refused <= listener.given_up, seed
    if not listener.application:
        assert row["documents_missing"] is None
        return
    here = arrived | superseded
    lost = numbers(row["missing"]) | (dropped - here) | (refused - here)
    assert lost == listener.lost(), (seed, listener_id, row)
    assert row["documents_missing"] == len(numbers(row["missing"]))
    assert row["documents_dropped"] == len(dropped - here - refused)
    assert row["documents_refused"] == len(refused - arrived)
    seen["documents"] += len(listener.execution)
    seen["lost"] += len(lost)
    for name, found in (
        ("missing", numbers(row["missing"])),
        ("dropped", dropped - here),
        ("refused", refused - here),
        ("superseded", superseded - arrived),
    ):
        seen[name] += len(found)


def numbers(ranges: Any) -> set[int]:
    """The numbers of a multirange."""
    return {number for each in ranges for number in range(each.lower, each.upper)}
