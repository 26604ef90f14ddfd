"""Lines of a log to items, in order: events, and between them blocks of task ends.

A `Piece` is what was read of a stretch of one application's log. Pieces are read independently of each other, in any
process; put together in their order they are what the whole stretch would have given, because nothing is decided here:
what an event means depends on those before it, and that is `joinsight.eventlog.fold`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from joinsight.decode import without_nul
from joinsight.eventlog.events import DECODERS, NAMES, TASK_END, TASK_ENDS, Event
from joinsight.eventlog.tasks import OpenBlock, TaskBlock
from joinsight.incomplete import Reason, reason


@dataclass(slots=True)
class Gap:
    """Something of the log is missing here: of executions that run, the numbers may be partial."""

    reason: Reason


Item = Event | TaskBlock | Gap
MAX_BLOCK_TASKS = 20_000
"""Tasks of all open blocks: so many are held, a Python number each value, before they become columns."""
_START = b'{"Event":"'
_TASK_END_START = _START + TASK_END + b'"'
_NAME = re.compile(rb'\{"Event":"([\w.$]{1,200})"')
_REASON_CHARACTERS = 200


@dataclass(slots=True)
class Counts:
    """What was read."""

    lines: int = 0
    bytes: int = 0
    """Uncompressed."""
    unreadable: int = 0
    """Lines that are no event, or one without what identifies it."""
    first_unreadable: str | None = None
    cut_off: str | None = None
    """Why the rest of the stretch could not be read; None: it was."""


@dataclass(slots=True)
class Piece:
    """What was read of a stretch of a log: items, each with the number of its line in the stretch, from 1."""

    items: list[tuple[int, Item]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @classmethod
    def read(cls, lines: Iterable[bytes]) -> Piece:
        """All of these lines."""
        piece = cls()
        piece.items = list(items(lines, piece.counts))
        return piece


def items(lines: Iterable[bytes], counts: Counts) -> Iterator[tuple[int, Item]]:
    """Items with the numbers of their lines; `counts` is kept up to date. Never raises because of what a line holds."""
    open_blocks: dict[tuple[int, int], OpenBlock] = {}
    held = number = 0
    decode_task = TASK_ENDS.decode
    for line in lines:
        number += 1
        counts.lines = number
        counts.bytes += len(line) + 1
        if line.startswith(_TASK_END_START):
            try:
                end = decode_task(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield number, _note(counts, error)
                continue
            task = end.task
            if task is None:
                continue
            key = (end.stage, end.attempt)
            block = open_blocks.get(key)
            if block is None:
                block = open_blocks[key] = OpenBlock(end.stage, end.attempt)
            elif not block.takes(task):
                yield number, block.close()
                held -= block.tasks
                block = open_blocks[key] = OpenBlock(end.stage, end.attempt)
            block.add(task, end.metrics)
            held += 1
            if held < MAX_BLOCK_TASKS:
                continue
            event: Item | None = None
        else:
            try:
                event = _event(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                event = _note(counts, error)
            if event is None:
                continue
        for block in open_blocks.values():
            yield number, block.close()
        open_blocks.clear()
        held = 0
        if event is not None:
            yield number, event
    for block in open_blocks.values():
        yield number, block.close()


def _event(line: bytes) -> Event | None:
    """None for an event of another kind. Raises `msgspec.DecodeError` and others for what is no event."""
    match = _NAME.match(line)
    if match is None and not line.strip():
        return None
    name = match.group(1) if match else NAMES.decode(line).event.encode()
    decoder = DECODERS.get(name)
    if decoder is None:
        return None
    event: Event = decoder.decode(without_nul(line))
    return event


def _note(counts: Counts, error: Exception) -> Gap:
    counts.unreadable += 1
    if counts.first_unreadable is None:
        told = f"line {counts.lines}: {str(error) or type(error).__name__}"
        counts.first_unreadable = "".join(c if c.isprintable() else " " for c in told)[:_REASON_CHARACTERS]
    return Gap(reason("log_lines_unreadable"))
