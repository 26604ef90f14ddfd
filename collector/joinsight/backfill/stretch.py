"""A stretch of a plain log by its bytes: the lines that begin in it, to the end of the last one."""

from __future__ import annotations

import io
from typing import IO

_CHUNK = 1 << 20


class Stretch(io.RawIOBase):
    """Reads on in `file` from where the first line of the stretch begins; of neighbours each line is in one.

    `file` stands at `first_byte(start)`; it may end with the stretch's last line, or anywhere after it.
    """

    def __init__(self, file: IO[bytes], start: int, end: int) -> None:
        self._file = file
        self._at = first_byte(start)
        """Of the next byte of the file."""
        self._end = end
        self._rest = b""
        if start > 0:
            self._skip_line()
        self._over = self._at - len(self._rest) >= end

    def _skip_line(self) -> None:
        while chunk := self._file.read(_CHUNK):
            self._at += len(chunk)
            _, found, rest = chunk.partition(b"\n")
            if found:
                self._rest = rest
                return

    def read(self, size: int = -1) -> bytes:
        """The next bytes, about as many; none at the end."""
        if self._over:
            return b""
        chunk = self._rest
        self._rest = b""
        if not chunk:
            chunk = self._file.read(size)
            self._at += len(chunk)
        if self._at >= self._end:
            before = self._at - len(chunk)
            last = chunk.find(b"\n", max(0, self._end - 1 - before))
            if last >= 0:
                chunk = chunk[: last + 1]
                self._over = True
        return chunk

    def close(self) -> None:
        self._file.close()
        super().close()


def first_byte(start: int) -> int:
    """Where reading must begin: the byte before says whether a line begins at `start`."""
    return max(0, start - 1)
