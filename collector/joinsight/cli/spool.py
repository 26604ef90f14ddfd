"""Spool folders of listeners: lists, reads and sets aside their files, safe from other users' interference."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from joinsight.base.errors import ConfigurationError
from joinsight.cli.collector import Undeliverable, pack
from joinsight.contract.decode import MAX_REQUEST_BYTES

_NAME = re.compile(r"(?:final|running)-([0-9]{1,15})-([A-Za-z0-9-]{1,80})-([0-9]{1,15})\.ndjson\.gz")
"""As the listener's SpoolName.java."""


def find_files(folders: Sequence[Path]) -> list[Path]:
    """The complete spool files of these folders, oldest first."""
    order = {}
    for folder in {folder.resolve() for folder in folders}:
        for path in folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name:
                order[path] = (int(name[1]), name[2], int(name[3]))
    return sorted(order, key=lambda path: (order[path], path))


def check_below(folders: Sequence[Path]) -> None:
    """Raise `ConfigurationError` if the files are one level down, where each collector has its own folder."""
    below = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir() and find_files([path])]
    if below:
        shown, remedy = " ".join(map(str, folders)), f"Name {' or '.join(map(str, below))}."
        raise ConfigurationError("FOLDERS", shown, "it has a folder for each collector", remedy)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The descriptor of a folder that only its owner can write to, so that nobody else replaces its files."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(folder).st_mode & 0o022:
            remedy = f"Check its files, then: chmod go-w {path}"
            raise ConfigurationError("FOLDERS", str(path), "users other than its owner can write to it", remedy)
        yield folder
    finally:
        os.close(folder)


def read_file(name: str, folder: int) -> bytes:
    """The bytes; raises OSError, or `Undeliverable` unless it is a regular file of the folder's owner or of ours."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Undeliverable("it is a link") from None
        raise
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.fstat(folder).st_uid, os.geteuid()):
            raise Undeliverable("it is not a regular file of the folder's owner")
        body = opened.read(MAX_REQUEST_BYTES + 1)
    if not body:
        raise Undeliverable("it is empty")
    if len(body) > MAX_REQUEST_BYTES:
        raise Undeliverable(f"it has more than {MAX_REQUEST_BYTES} bytes: no listener wrote it")
    return body


def set_aside(name: str, lines: Sequence[bytes], folder: int) -> None:
    """Write the lines to ``NAME.refused``, completely or not at all."""
    unfinished = f"{name}.refused.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(unfinished, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(pack(lines))
    os.replace(unfinished, f"{name}.refused", src_dir_fd=folder, dst_dir_fd=folder)
