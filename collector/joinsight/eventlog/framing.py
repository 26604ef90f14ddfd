"""Bytes of an event log to its lines: plain text, or what Spark's CompressionCodec made of it.

zstd is a chain of frames. lz4, snappy and lzf are streams of blocks of their Java libraries, which no Python library
reads; the blocks themselves are left to `cramjam`, but for lzf, which none of the well-kept ones knows.
A log may end anywhere: what came before the cut is given, then `LogError` is raised.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import IO

from joinsight.errors import LogError

CODECS = ("zstd", "lz4", "snappy", "lzf")
_CHUNK = 1 << 16
"""Larger ones leave the allocator's heap: each would be new pages, which cost more than the reading."""
MAX_BLOCK_BYTES = 64 << 20
"""A block of lz4 or snappy unpacked: Spark makes 32 KiB; one that says more than this is no block."""
MAX_LINE_BYTES = 512 << 20
_LZ4_MAGIC = b"LZ4Block"
_LZ4_HEADER = struct.Struct("<8sBiiI")
_LZ4_RAW, _LZ4_PACKED = 0x10, 0x20
_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_VERSIONS = 8
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZF_MAGIC = b"ZV"


def codec_of(name: str, start: bytes) -> str | None:
    """The codec by the file's first bytes, else by its name; None: plain text. `start` are 8 bytes or more."""
    for magic, codec in ((_ZSTD_MAGIC, "zstd"), (_LZ4_MAGIC, "lz4"), (_SNAPPY_MAGIC, "snappy"), (_LZF_MAGIC, "lzf")):
        if start.startswith(magic):
            return codec
    if start.startswith(b"{"):
        return None
    for part in reversed(name.split(".")[1:]):
        if part in CODECS:
            return part
        if part not in ("inprogress", "compact"):
            break
    return None


def lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """The lines without their ends; the last one also if it has no end. Raises `LogError` after the last good line."""
    start = file.read(16)
    codec = codec_of(name, start)
    rest: list[bytes] = []
    size = 0
    for chunk in _chunks(_Input(file, start), codec):
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:  # faster than split
            if rest:
                rest.append(chunk[:end])
                yield b"".join(rest)
                rest.clear()
                size = 0
            else:
                yield chunk[at:end]
            at = end + 1
        if at < len(chunk):
            rest.append(chunk[at:])
            size += len(chunk) - at
        if size > MAX_LINE_BYTES:
            raise LogError(f"a line is longer than {MAX_LINE_BYTES >> 20} MB")
    if size:
        last = b"".join(rest)
        if not last.rstrip().endswith(b"}"):
            raise LogError("the last line is cut off")
        yield last


class _Input:
    """A file whose first bytes were read already."""

    def __init__(self, file: IO[bytes], start: bytes) -> None:
        self._file = file
        self._start = start

    def some(self) -> bytes:
        """The next bytes, up to 64 KiB; none at the end."""
        if self._start:
            start, self._start = self._start, b""
            return start
        try:
            return self._file.read(_CHUNK)
        except OSError as error:
            raise LogError(f"the file cannot be read on: {error}") from error


class _Exactly:
    """An input read by exact numbers of bytes."""

    def __init__(self, input: _Input) -> None:
        self._input = input
        self._buffer = b""
        self._at = 0

    def read(self, size: int, part: str) -> bytes:
        """Raises `LogError`, which names the part, if there are fewer; none at all are given as `b""`."""
        while len(self._buffer) - self._at < size:
            more = self._input.some()
            if not more:
                if len(self._buffer) == self._at:
                    return b""
                raise LogError(f"the file ends in the middle of {part}")
            self._buffer = self._buffer[self._at :] + more
            self._at = 0
        self._at += size
        return self._buffer[self._at - size : self._at]


def _chunks(input: _Input, codec: str | None) -> Iterator[bytes]:
    if codec is None:
        while chunk := input.some():
            yield chunk
    elif codec == "zstd":
        yield from _zstd(input)
    elif codec == "lz4":
        yield from _lz4(_Exactly(input))
    elif codec == "snappy":
        yield from _snappy(_Exactly(input))
    else:
        yield from _lzf(_Exactly(input))


def _zstd(input: _Input) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise _missing("zstandard") from None
    decompressor = zstandard.ZstdDecompressor()
    stream = decompressor.decompressobj()
    inside = False
    while chunk := input.some():
        while chunk:
            inside = True
            try:
                unpacked = stream.decompress(chunk)
            except zstandard.ZstdError as error:
                raise LogError(f"its zstd compression is broken: {error}") from error
            if unpacked:
                yield unpacked
            chunk = b""
            if stream.eof:
                chunk = stream.unused_data
                stream = decompressor.decompressobj()
                inside = False
    if inside:
        raise LogError("the file ends in the middle of a zstd frame")


def _lz4(file: _Exactly) -> Iterator[bytes]:
    decompress = _cramjam("lz4")
    while header := file.read(_LZ4_HEADER.size, "an lz4 block"):
        magic, token, packed_size, size, _ = _LZ4_HEADER.unpack(header)
        if magic != _LZ4_MAGIC or not 0 <= packed_size <= MAX_BLOCK_BYTES or not 0 <= size <= MAX_BLOCK_BYTES:
            raise LogError("its lz4 compression is broken: no block where one must begin")
        if size == 0:  # the end of a stream; another one may follow
            continue
        block = file.read(packed_size, "an lz4 block")
        method = token & 0xF0
        if method == _LZ4_RAW:
            yield block
        elif method == _LZ4_PACKED:
            yield _unpack(decompress, block, size, "lz4")
        else:
            raise LogError(f"its lz4 compression is broken: a block is packed by method {method:#x}")


def _snappy(file: _Exactly) -> Iterator[bytes]:
    decompress = _cramjam("snappy")
    file.read(len(_SNAPPY_MAGIC) + _SNAPPY_VERSIONS, "the snappy header")
    while prefix := file.read(4, "a snappy block"):
        if prefix == _SNAPPY_MAGIC[:4]:  # appended streams repeat the header
            file.read(len(_SNAPPY_MAGIC) - 4 + _SNAPPY_VERSIONS, "the snappy header")
            continue
        size = int.from_bytes(prefix, "big")
        if size > MAX_BLOCK_BYTES:
            raise LogError(f"its snappy compression is broken: a block of {size} bytes")
        yield _unpack(decompress, file.read(size, "a snappy block"), None, "snappy")


def _lzf(file: _Exactly) -> Iterator[bytes]:
    while header := file.read(5, "an lzf chunk"):
        size = int.from_bytes(header[3:5], "big")
        if header[:2] != _LZF_MAGIC or header[2] > 1:
            raise LogError("its lzf compression is broken: no chunk where one must begin")
        if header[2] == 0:
            yield file.read(size, "an lzf chunk")
        else:
            plain_size = int.from_bytes(file.read(2, "an lzf chunk"), "big")
            yield _unlzf(file.read(size, "an lzf chunk"), plain_size)


def _unlzf(packed: bytes, size: int) -> bytes:
    """A chunk of LZF: literals, and references back to what was unpacked already."""
    out = bytearray()
    at = 0
    try:
        while at < len(packed):
            control = packed[at]
            at += 1
            if control < 32:
                out += packed[at : at + control + 1]
                at += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += packed[at]
                at += 1
            start = len(out) - ((control & 31) << 8) - packed[at] - 1
            at += 1
            if start < 0:
                raise LogError("its lzf compression is broken: a reference before the chunk")
            for i in range(start, start + length + 2):  # it may overlap what it writes
                out.append(out[i])
    except IndexError:
        raise LogError("its lzf compression is broken: a chunk ends too early") from None
    if len(out) != size:
        raise LogError(f"its lzf compression is broken: a chunk of {size} bytes unpacks to {len(out)}")
    return bytes(out)


def _unpack(decompress: Callable[[bytes, int | None], bytes], block: bytes, size: int | None, codec: str) -> bytes:
    try:
        return decompress(block, size)
    except Exception as error:  # cramjam's own class is not the base of all that it raises
        raise LogError(f"its {codec} compression is broken: {error}") from error


def _cramjam(codec: str) -> Callable[[bytes, int | None], bytes]:
    try:
        import cramjam
    except ImportError:
        raise _missing("cramjam") from None
    if codec == "lz4":
        return lambda block, size: bytes(cramjam.lz4.decompress_block(block, output_len=size))
    return lambda block, _: bytes(cramjam.snappy.decompress_raw(block))


def _missing(library: str) -> LogError:
    return LogError(f"this event log is compressed, and reading it needs {library}: pip install 'joinsight[eventlog]'")
