"""`joinsight ship`: delivers the files of spool folders to a collector, each until it is answered for.

A file is the body of one request. It is deleted only after the collector has committed all of it. Sending one twice
does no harm, so neither does running this twice, or beside the driver whose folder it is.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import re
import ssl
import stat
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
import httpx
import msgspec

from joinsight.cli.collector import collector_options, open_collector, reason_of, send
from joinsight.cli.options import Duration
from joinsight.decode import MAX_REQUEST_BYTES, MAX_UNPACKED_BYTES
from joinsight.errors import ConfigurationError, JoinsightError
from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.terminal import progress

_NAME = re.compile(r"(?:final|running)-([^-]+)-(.+)-(\d+)\.ndjson\.gz")
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_ANSWER_SECONDS = 60.0


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@collector_options
@click.option(
    "--timeout",
    type=Duration(at_least="1s"),
    default="1m",
    show_default=True,
    help="Give up when the collector takes nothing for so long.",
)
def ship(folders: tuple[Path, ...], timeout: timedelta, **collector: Any) -> None:
    """Deliver the spool files in FOLDERS to a collector, oldest first.

    A file is deleted once all of it is stored. Documents that the collector refuses are set aside as FILE.refused.
    Files that cannot be read are kept. It does no harm to run this twice, or while the driver runs whose folder it is.

    Exits with 0 when everything was delivered, with 1 when something was refused or is left.
    """
    seconds = timeout.total_seconds()
    files = find_files(folders)
    if not files:
        _look_below(folders)
    with open_collector(**collector, timeout=min(seconds, _ANSWER_SECONDS)) as client, progress() as bar:
        task = bar.add_task("Delivering", total=len(files))
        shipper = Shipper(client, seconds)
        for path in files:
            shipper.ship(path)
            bar.advance(task)
            if shipper.gave_up:
                break
    for line in shipper.report(len(files)):
        click.echo(line, err=True)
    if shipper.troubled:
        raise SystemExit(1)


def _look_below(folders: Sequence[Path]) -> None:
    """Raise `ConfigurationError` if the files are one level down: which of the collectors is meant is not known."""
    below = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir() and find_files([path])]
    if below:
        shown, remedy = " ".join(map(str, folders)), f"Name {' or '.join(map(str, below))}."
        raise ConfigurationError("FOLDERS", shown, "each collector has a folder of its own in there", remedy)


def find_files(folders: Sequence[Path]) -> list[Path]:
    """The complete spool files of these folders, oldest first."""
    found = {}
    for folder in {folder.resolve() for folder in folders}:
        for path in folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name:
                found[path] = (name[1].zfill(24), name[2], int(name[3]))
    return sorted(found, key=lambda path: (found[path], path))


_T = TypeVar("_T")


class _Unreadable(Exception):
    """A file that the collector cannot read: it is kept."""


class _GaveUp(Exception):
    """The collector has taken nothing for the time that was given."""


class _Refused(msgspec.Struct):
    line: Annotated[int, msgspec.Meta(ge=1)]
    reason: str


class _Refusal(msgspec.Struct):
    """What a collector says that has not read a request."""

    error: str


class _Answer(msgspec.Struct):
    """What a collector says that has read a request."""

    accepted: int
    refused: list[_Refused]
    error: str | None = None
    """What is wrong with the request as a whole."""


@dataclass
class Shipper:
    """Delivers one file after the other and keeps account."""

    client: httpx.Client
    timeout_seconds: float
    files: int = 0
    documents: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Documents that were refused, by reason."""
    kept: dict[Path, str] = field(default_factory=dict)
    """Files that are left though the collector answers, with what is wrong with them."""
    gave_up: str | None = None
    """Why the collector could not be reached."""

    @property
    def troubled(self) -> bool:
        """Not everything was delivered."""
        return bool(self.refused or self.kept or self.gave_up)

    def ship(self, path: Path) -> None:
        """Deliver a file; one that has vanished was delivered by its driver. Raises `JoinsightError` for a wrong token
        or a service that is no collector."""
        try:
            with _opened(path.parent) as folder:
                refused = self._deliver(_read_file(path.name, folder))
                if refused:
                    _set_aside(path.name, [line for line, _ in refused], folder)
                with suppress(FileNotFoundError):
                    os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            return
        except (OSError, _Unreadable) as error:
            self.kept[path] = str(error)
            return
        except _GaveUp as error:
            self.gave_up = str(error)
            return
        self.files += 1
        self.refused.update(reason for _, reason in refused)

    def _deliver(self, body: bytes) -> list[tuple[bytes, str]]:
        """Have all lines stored; returns those that were refused, with the reason."""
        if not body:
            raise _Unreadable("it is empty")
        refused: list[tuple[bytes, str]] = []
        pending = [body]
        while pending:
            body = pending.pop()
            answer = self._post(body)
            if answer is not None and answer.error is None:
                self.documents += answer.accepted
                refused += _named(answer.refused, body)
                continue
            lines = _lines(body)
            if len(lines) > 1:
                half = len(lines) // 2
                pending += [_pack(lines[half:]), _pack(lines[:half])]
            elif answer is None:
                raise _Unreadable("a document in it is too large for what stands before the collector (status 413)")
            else:
                refused.append((lines[0], str(answer.error)))
        return refused

    def _post(self, body: bytes) -> _Answer | None:
        """The answer to a body, with `error` if it is too large; None: something else than a collector finds it too
        large. Tries until the time is up."""
        deadline = time.monotonic() + self.timeout_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = send(self.client, body)
            except httpx.RequestError as error:
                if _is_of_certificate(error):
                    remedy = "Name the file of the authority that issued it with --ca-file."
                    raise ConfigurationError("--url", str(self.client.base_url), str(error), remedy) from None
                problem, wait = reason_of(error), None
            else:
                if answer.status_code < 500 and answer.status_code not in (408, 429):
                    return _read(answer)
                problem, wait = f"it answers {answer.status_code}", _retry_after(answer)
            left = deadline - time.monotonic()
            if left <= 0:
                raise _GaveUp(problem)
            time.sleep(min(left, wait or pause * random.uniform(0.5, 1)))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def report(self, found: int) -> list[str]:
        """What was done and what is left, in lines."""
        lines = [f"Delivered {self.files:,} of {found:,} files, {self.documents:,} documents."]
        lines += [f"Refused, set aside as *.refused: {n:,} documents: {why}" for why, n in self.refused.most_common()]
        lines += [f"Kept, cannot be delivered: {path}: {why}" for path, why in self.kept.items()]
        if self.gave_up:
            left = f"{found - self.files - len(self.kept):,} files are left"
            where = f"The collector at {self.client.base_url} took nothing for {self.timeout_seconds:g} s"
            lines.append(f"{where}: {self.gave_up}. {left}; run this again when it is there.")
        return lines


def _is_of_certificate(error: BaseException | None) -> bool:
    """httpx and httpcore wrap what Python's ssl raises."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _read(answer: httpx.Response) -> _Answer | None:
    """What an answer says that is not to be tried again."""
    status = answer.status_code
    if status == 401:
        raise ConfigurationError(
            TOKEN_VARIABLE, "(not shown)", "the collector does not accept it", "Set its token there or in --token-file."
        )
    if status == 403 and (refusal := _decode(answer, _Refusal)):
        raise ConfigurationError("--url", str(answer.request.url), refusal.error, "Call the collector by its own name.")
    read = _decode(answer, _Answer)
    if status == 413:
        return read
    if status == 400 and read is not None and read.error is not None:
        raise _Unreadable(read.error)
    if status in (200, 400) and read is not None:
        return read
    raise JoinsightError(
        f"What answers at {answer.request.url} is no collector: status {status}, {answer.text[:80]!r}. Is --url right?"
    )


def _decode(answer: httpx.Response, kind: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"\d{1,9}", text) else None


def _lines(body: bytes) -> list[bytes]:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            data = file.read(MAX_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _Unreadable(f"it is not whole: {error}") from None
    if len(data) > MAX_UNPACKED_BYTES:
        raise _Unreadable(f"it has more than {MAX_UNPACKED_BYTES} bytes unpacked")
    return data.removesuffix(b"\n").split(b"\n")


def _named(refused: Sequence[_Refused], body: bytes) -> list[tuple[bytes, str]]:
    """The lines that an answer names."""
    if not refused:
        return []
    lines = _lines(body)
    if max(each.line for each in refused) > len(lines):
        raise JoinsightError(f"What answers is no collector: it refused more than the {len(lines)} lines that it got.")
    return [(lines[each.line - 1], each.reason) for each in refused]


def _pack(lines: Sequence[bytes]) -> bytes:
    return gzip.compress(b"".join(line + b"\n" for line in lines), 1)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A folder that only its owner can write to, by its descriptor: nobody else replaces what is in it meanwhile."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(folder).st_mode & 0o022:
            remedy = f"Look at what is in it, then: chmod go-w {path}"
            raise ConfigurationError("FOLDERS", str(path), "others than its owner may write to it", remedy)
        yield folder
    finally:
        os.close(folder)


def _read_file(name: str, folder: int) -> bytes:
    """The bytes; raises OSError, or `_Unreadable` unless it is a regular file of the folder's owner or of ours."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _Unreadable("it is a link") from None
        raise
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.fstat(folder).st_uid, os.geteuid()):
            raise _Unreadable("it is not a regular file of the folder's owner")
        body = opened.read(MAX_REQUEST_BYTES + 1)
    if len(body) > MAX_REQUEST_BYTES:
        raise _Unreadable(f"it has more than {MAX_REQUEST_BYTES} bytes: no listener wrote it")
    return body


def _set_aside(name: str, lines: Sequence[bytes], folder: int) -> None:
    """Beside the file, whole or not at all."""
    unfinished = f"{name}.refused.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(unfinished, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(_pack(lines))
    os.replace(unfinished, f"{name}.refused", src_dir_fd=folder, dst_dir_fd=folder)
