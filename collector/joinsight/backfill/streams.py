"""Files of any Hadoop file system for an executor's Python: chunks that `Stretches.java` reads, as files."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO, cast

from joinsight.backfill.share import Unit
from joinsight.backfill.stretch import first_byte

INPUT_FORMAT = "io.joinsight.Stretches"
SETTING = "joinsight.stretches"


def setting(tasks: Sequence[Sequence[Unit]]) -> str:
    """What `Stretches.java` is to read, by task."""
    return "\n".join(
        f"{task}\t{number}\t{first_byte(unit.start)}\t{-1 if unit.end is None else unit.end}\t{unit.path}"
        for task, units in enumerate(tasks)
        for number, unit in enumerate(units)
    )


class Streams:
    """What comes of a task's stretches, in their order. One that is opened later ends those before it."""

    def __init__(self, records: Iterator[tuple[int, bytes]], units: Sequence[Unit]) -> None:
        self._records = records
        self._numbers = {(unit.path, first_byte(unit.start)): number for number, unit in enumerate(units)}
        self._next: tuple[int, bytes] | None = None

    def open(self, path: str, start: int) -> IO[bytes]:
        """An `Opener`."""
        return cast(IO[bytes], _Stream(self, self._numbers[path, start]))

    def take(self, number: int) -> bytes:
        """The next chunk of a stretch; none at its end. Raises `OSError` for what Java could not read."""
        while True:
            if self._next is None:
                self._next = next(self._records, None)
                if self._next is None:
                    return b""
            key, chunk = self._next
            its_number = key if key >= 0 else -1 - key
            if its_number > number:
                return b""
            self._next = None
            if its_number == number:
                if key < 0:
                    raise OSError(bytes(chunk).decode(errors="replace"))
                return bytes(chunk)


class _Stream(io.RawIOBase):
    def __init__(self, streams: Streams, number: int) -> None:
        self._streams = streams
        self._number = number

    def read(self, size: int = -1) -> bytes:
        """A chunk as it came, whatever its size."""
        return self._streams.take(self._number)
