"""Decodes a request into documents: gzip, lines, JSON, schema. An invalid line is reported, the others are kept.

Limits apply before decoding: the size of the request unpacked (a gzip bomb is `TooLarge`), the number of its
lines and the size of each; and, before rows are made, the number of rows and characters that a document expands to.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field

import msgspec

from joinsight.base.errors import DocumentError, TooLarge
from joinsight.contract.document import SCHEMA_VERSION, Attempt, Document, Execution, Name, Numbers, PlanNode, Sequence
from joinsight.contract.micro_batch import is_cancelled

HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
"""The headers that describe the body of a request."""
MAX_REQUEST_BYTES = 32 << 20
"""Maximum size of a request, compressed."""
MAX_UNPACKED_BYTES = 64 << 20
"""Maximum size of a request, unpacked."""
MAX_REQUEST_LINES = 10_000
"""Maximum lines of a request, including empty and invalid ones: the response lists each invalid line."""
MAX_DOCUMENT_BYTES = 16 << 20
"""Maximum size of a document, unpacked; until its limits are checked it takes up to 18 times as much memory."""
LARGE_UNPACKED_BYTES = 8 << 20
"""From this size on, unpacked, a request is large: one at the limits takes some hundred MiB with its rows. The
listener's have up to 4 MiB, and one document more."""
MAX_PLAN_NODES = 50_000
"""Maximum nodes of one plan."""
MAX_TEXTS = 1_000_000
"""Maximum tags, settings and reasons why an execution's numbers may be partial. This limit and the eight below also
apply to all documents of a request together."""
MAX_JOBS = 200_000
"""Maximum jobs, nested executions and hints of joins."""
MAX_PLANS = 20_000
"""Maximum plans of an execution."""
MAX_NODES = 200_000
"""Maximum nodes of all plans. Each reference counts: it takes a few bytes, but its row is written in full. So does each
node of no plan."""
MAX_METRICS = 500_000
"""Maximum metrics of these nodes, including accumulators."""
MAX_CHARACTERS = 32 << 20
"""Maximum characters in the texts of these nodes."""
MAX_STAGES = 100_000
"""Maximum stage attempts."""
MAX_NAMED_STAGES = 1_000_000
"""Maximum references to stage attempts by jobs and by the metrics of final plans."""
MAX_SAMPLE_KEYS = 200_000
"""Maximum keys of samples of its stage attempts."""
MAX_HINT_CHARACTERS = 1_000
"""Maximum characters of the hint of one side of a join."""

_LIMITS = {
    "tags, settings and reasons": MAX_TEXTS,
    "jobs, nested executions and hints": MAX_JOBS,
    "plans": MAX_PLANS,
    "nodes": MAX_NODES,
    "metrics": MAX_METRICS,
    "characters": MAX_CHARACTERS,
    "stages": MAX_STAGES,
    "named stages": MAX_NAMED_STAGES,
    "keys of samples": MAX_SAMPLE_KEYS,
}
_CHUNK = 1 << 20
_SLICE = 16 << 10
_REASON_CHARACTERS = 300
_GZIP = 31  # zlib's code for the gzip format
# PostgreSQL's text holds no NUL; an escaped one is replaced before the JSON is read
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_decoder: msgspec.json.Decoder[Document] = msgspec.json.Decoder(Document)
log = logging.getLogger("joinsight")
_NOT_NEGATIVE = ("size", "timing", "nsTiming", "average")


class _Version(msgspec.Struct):
    schema_version: int | None = None


class _ListenerId(msgspec.Struct, frozen=True):
    id: Name


class Header(msgspec.Struct, frozen=True):
    """The sender and number of a document: the only fields that are decoded from a refused one."""

    listener: _ListenerId
    sequence: Sequence
    application_id: Name
    attempt_id: Attempt = ""
    supersedes: Numbers = []


_header_decoder = msgspec.json.Decoder(Header)


@dataclass(slots=True)
class Batch:
    """The content of a request: valid documents, and for each invalid line its number (from 1) and the reason."""

    documents: list[tuple[int, Document]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    headers: list[tuple[Header, str]] = field(default_factory=list)
    """The refused documents whose header is readable, each with the reason."""
    refused_by_kind: Counter[str] = field(default_factory=Counter)
    """Refused lines by kind: json (invalid JSON), schema, version, size, fault (a bug in the collector)."""
    size: Counter[str] = field(default_factory=Counter)
    """The total size of its documents, by the keys of `_LIMITS`."""


def decode_request(body: bytes | bytearray, before_large: Callable[[], None] = lambda: None) -> Batch:
    """Read a gzip NDJSON request; calls `before_large` before more than `LARGE_UNPACKED_BYTES` of it are decoded.

    Raises `DocumentError` if it is not gzip, `TooLarge` if it is too large unpacked or has too many lines.
    """
    batch = Batch()
    for number, line in enumerate(_lines(_unpack(body, before_large)), 1):
        if number > MAX_REQUEST_LINES:
            raise TooLarge(f"the request has more than {MAX_REQUEST_LINES} lines")
        try:
            if line is None:
                raise DocumentError(f"the document is larger than {MAX_DOCUMENT_BYTES} bytes", "size")
            if line.strip():
                document, size = _decode(line)
                batch.size.update(size)
                batch.documents.append((number, document))
            for unit, limit in _LIMITS.items():
                if batch.size[unit] > limit:
                    raise TooLarge(f"the documents of the request have more than {limit} {unit} in total")
            continue
        except TooLarge:
            raise
        except DocumentError as error:
            reason, kind = str(error), error.kind
        except MemoryError:
            raise
        except Exception as error:  # refused, because a retry would fail too
            log.exception("internal error: line %d of a request could not be read", number)
            reason = f"could not be read: {type(error).__name__}: {error}"[:_REASON_CHARACTERS]
            kind = "fault"
        batch.refused.append((number, reason))
        batch.refused_by_kind[kind] += 1
        header = decode_header(line)
        if header is not None:
            batch.headers.append((header, reason))
    return batch


def decode_document(line: bytes) -> Document:
    """Decode one document; raises `DocumentError` with the place that violates the schema."""
    return _decode(line)[0]


def _decode(line: bytes) -> tuple[Document, Mapping[str, int]]:
    line = without_nul(line)
    try:
        document = _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise _schema_error(line, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DocumentError(f"not JSON: {error}", "json") from None
    _check_numbers("supersedes", document.supersedes)
    if isinstance(document, Execution):
        asked = document.description, document.error or "", document.operation_id
        if document.state == "failed" and is_cancelled(*asked):
            document = msgspec.structs.replace(document, state="cancelled")
        return document, _check(document)
    _check_numbers("refused", document.refused)
    for cause, numbers in document.dropped.items():
        _check_numbers(f"dropped[{cause[:40]!r}]", numbers)
    size: Counter[str] = Counter()
    _add(size, "tags, settings and reasons", len(document.tags) + len(document.configuration))
    return document, size


def decode_header(line: bytes | None) -> Header | None:
    try:
        header = None if line is None else _header_decoder.decode(without_nul(line))
        if header is not None:
            _check_numbers("supersedes", header.supersedes)
        return header
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, DocumentError):
        return None


def without_nul(line: bytes) -> bytes:
    return _NUL.sub(rb"\1\\ufffd", line) if b"\\u0000" in line else line


def _schema_error(line: bytes, error: msgspec.ValidationError) -> DocumentError:
    """The error for a document that violates the schema, or has another schema version."""
    try:
        version = msgspec.json.decode(line, type=_Version).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        version = None
    if version is not None and version != SCHEMA_VERSION:
        return DocumentError(
            f"schema_version {version} is not supported, only {SCHEMA_VERSION}: the listener in the driver and the"
            " collector must have compatible versions",
            "version",
        )
    reason = str(error)  # quotes the document, so it can be long
    if len(reason) > _REASON_CHARACTERS:
        reason = f"{reason[: _REASON_CHARACTERS // 2]} ... {reason[-_REASON_CHARACTERS // 2 :]}"
    return DocumentError(printable(reason))


def printable(text: str) -> str:
    """The text on one line, with blanks for what is not printed."""
    return "".join(character if character.isprintable() else " " for character in text)


def _check_numbers(field: str, numbers: Numbers) -> None:
    for i, (first, last) in enumerate(numbers):
        if first > last:
            raise DocumentError(f"$.{field}[{i}] is [{first}, {last}]: the first number must not be above the last")


def _check(e: Execution) -> Mapping[str, int]:
    """Check what the JSON Schema cannot express; returns the size by the keys of `_LIMITS`."""
    size: Counter[str] = Counter()
    texts: Iterable[Sized] = (e.job_tags, e.user_tags, e.incomplete, e.incomplete_codes, e.tags, e.configuration)
    _add(size, "tags, settings and reasons", sum(map(len, texts)))
    _add(size, "jobs, nested executions and hints", len(e.jobs) + len(e.nested) + len(e.join_hints))
    _add(size, "plans", len(e.plans))
    _add(size, "stages", len(e.stages))
    _add(size, "metrics", len(e.accumulators) + len(e.announced))
    _add(size, "keys of samples", sum(len(stage.samples) for stage in e.stages))
    named = sum(len(plan.nodes) for plan in e.plans)
    _add(size, "nodes", max(0, len(e.nodes) - named))  # of no plan, if no other is in several plans
    characters = list(map(_characters, e.nodes))
    for p, plan in enumerate(e.plans):
        if len(plan.nodes) > MAX_PLAN_NODES:
            raise DocumentError(f"$.plans[{p}] has {len(plan.nodes)} nodes; {MAX_PLAN_NODES} are allowed", "size")
        _add(size, "nodes", len(plan.nodes), f" up to $.plans[{p}]")
        if len(plan.parents) != len(plan.nodes):
            raise DocumentError(f"$.plans[{p}] has {len(plan.nodes)} nodes and {len(plan.parents)} parents")
        for n, (node, parent) in enumerate(zip(plan.nodes, plan.parents, strict=True)):
            if node >= len(e.nodes):
                raise DocumentError(f"$.plans[{p}].nodes[{n}] is {node}, but there are {len(e.nodes)} nodes")
            if parent >= n or (parent < 0) != (n == 0):
                raise DocumentError(
                    f"$.plans[{p}].parents[{n}] is {parent}: it must be -1 for the first node and the place of an"
                    " earlier node for all others"
                )
        _add(size, "metrics", sum(len(e.nodes[node].metrics) for node in plan.nodes), f" up to $.plans[{p}]")
        _add(size, "characters", sum(characters[node] for node in plan.nodes), f" up to $.plans[{p}]")
    attempts: Counter[int | None] = Counter(stage.id for stage in e.stages)
    for job in e.jobs:
        _add(size, "named stages", sum(max(1, attempts[stage]) for stage in set(job.stages)))
    measured = {a.id: a for a in e.accumulators}
    stages = {a.id: sum(max(1, attempts[stage]) for stage in {*a.stages, a.max_stage}) for a in e.accumulators}
    for plan in e.plans[-1:]:
        for node in plan.nodes:
            metrics = [metric.id for metric in e.nodes[node].metrics if metric.id in measured]
            _add(size, "named stages", sum(stages[metric] for metric in metrics))
            _add(size, "characters", sum(len(measured[metric].text or "") for metric in metrics))
    for i, hint in enumerate(e.join_hints):
        if max(len(hint.left or ""), len(hint.right or "")) > MAX_HINT_CHARACTERS:
            raise DocumentError(f"$.join_hints[{i}] has more than {MAX_HINT_CHARACTERS} characters", "size")
    for i, a in enumerate(e.accumulators):
        numbers = (a.sum, a.min, a.median, a.p95, a.max)
        if a.count and None in numbers:
            raise DocumentError(f"$.accumulators[{i}] counts {a.count} values but lacks some of sum, min, ..., max")
        if a.type in _NOT_NEGATIVE and any(number is not None and number < 0 for number in numbers):
            raise DocumentError(f"$.accumulators[{i}] is of type {a.type}, which has no negative values")
    return size


def _characters(node: PlanNode) -> int:
    texts = [node.name, node.simple, *node.metadata, *node.metadata.values()]
    return sum(map(len, texts)) + sum(len(metric.name) + len(metric.type) for metric in node.metrics)


def _add(size: Counter[str], unit: str, number: int, where: str = "") -> None:
    size[unit] += number
    if size[unit] > _LIMITS[unit]:
        raise DocumentError(f"the document has {size[unit]} {unit}{where}; {_LIMITS[unit]} are allowed", "size")


def _unpack(body: bytes | bytearray, before_large: Callable[[], None]) -> Iterator[bytes]:
    """The body unpacked, in chunks; it may consist of several gzip members."""
    position = total = 0
    is_large = False
    while position < len(body):
        stream = zlib.decompressobj(_GZIP)
        while not stream.eof:
            # In small slices, because zlib copies its unread input at every chunk and at every end of a member
            slice_ = body[position : position + _SLICE]
            try:
                chunk = stream.decompress(slice_, _CHUNK)
            except zlib.error as error:
                raise DocumentError(f"the request is not gzip: {error}") from None
            position += len(slice_) - len(stream.unconsumed_tail) - len(stream.unused_data)
            total += len(chunk)
            if total > MAX_UNPACKED_BYTES:
                raise TooLarge(f"the request is larger than {MAX_UNPACKED_BYTES} bytes unpacked")
            if total > LARGE_UNPACKED_BYTES and not is_large:
                is_large = True
                before_large()
            if chunk:
                yield chunk
            elif not slice_ and not stream.eof:
                raise DocumentError("the request's gzip data is cut off")


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes | None]:
    """The lines of `chunks` without line breaks; None for a line over `MAX_DOCUMENT_BYTES`."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ends, last = chunk.split(b"\n")
        for end in ends:
            size += len(end)
            yield b"".join((*parts, end)) if size <= MAX_DOCUMENT_BYTES else None
            parts, size = [], 0
        size += len(last)
        if size <= MAX_DOCUMENT_BYTES:
            parts.append(last)
        else:
            parts.clear()
    if size:
        yield b"".join(parts) if size <= MAX_DOCUMENT_BYTES else None
